// What theory says: certificate, equations in the colours of the drawing, laws, times, similarity, winner.
import katex from "katex";
import { diverging, type Theme } from "./colours.ts";
import type { Details, Picture, Symbol } from "./protocol.ts";
import { groupColour } from "./race.ts";
import { html } from "./svg.ts";
import { shown } from "./ticks.ts";

/** Each B_{k} in the colour of its class of edges. */
export function coloured(latex: string, colour: (k: number) => string, count: number): string {
  return latex.replace(/B_\{(\d+)([^}]*)\}/g, (all, k) => (Number(k) <= count ? `\\textcolor{${colour(Number(k) - 1)}}{${all}}` : all));
}

function formula(latex: string): HTMLElement {
  const made = html("div", { class: "formula" });
  const inner = html("div");
  made.append(inner);
  const write = (text: string) => katex.render(text, inner, { throwOnError: false, displayMode: true, output: "htmlAndMathml", strict: "ignore" });
  write(latex);
  const lines = (text: string) => write(String.raw`\begin{aligned} & ${text.replace(" = ", String.raw` \\ & \quad = `)} \end{aligned}`);
  broken.set(made, (again) => lines(again ? inHalves(latex) : latex));
  return made;
}

const broken = new WeakMap<Element, (again: boolean) => void>(); // writes the right side of a formula on lines of its own

/** A line break before the term in the middle of a long bracket. */
function inHalves(latex: string): string {
  const terms = latex.replaceAll("\\left(", "\\bigl(").replaceAll("\\right)", "\\bigr)").split(" - ");
  const half = Math.ceil(terms.length / 2);
  if (terms.length < 3) return latex;
  return [terms.slice(0, half).join(" - "), terms.slice(half).join(" - ")].join(String.raw` \\ & \qquad - `);
}

/** What the letters stand for, with their numbers. */
function symbols(of: Symbol[]): HTMLElement {
  const list = html("dl", { class: "symbols" });
  for (const { latex, words, value } of of) {
    const term = html("dt");
    for (const [k, each] of latex.entries()) {
      const name = html("span");
      katex.render(each, name, { throwOnError: false, output: "htmlAndMathml", strict: "ignore" });
      term.append(k ? ", " : "", name);
    }
    list.append(term, html("dd", {}, words, value ? html("strong", {}, value) : ""));
  }
  return list;
}

const [WIDE, SMALLEST] = [0.85, 0.6]; // of the usual size of formulas

export class TheoryPanel {
  private head = html("div", { class: "verdict" });
  private body = html("div", { class: "said" });
  readonly root = html("section", { class: "theory", "aria-label": "what theory says" }, this.head, this.body);
  private canvas = html("canvas", { class: "similarity", width: 240, height: 240, role: "img" });
  private pick = html("select", { "aria-label": "layer whose similarity is shown" });
  private caption = html("p", { class: "caption" });
  private details: Details | null = null;
  private index = 0;
  private theme: Theme | null = null;
  readonly trained = html("p", { class: "trained", role: "status" });
  private layer = ""; // that was picked
  private now: ((index: number) => void)[] = []; // write the numbers of the time of the cursor

  constructor() {
    this.pick.addEventListener("change", () => {
      this.layer = this.pick.value;
      this.paint();
    });
  }

  /** Nothing to say yet. */
  clear(): void {
    this.details = null;
    this.trained.textContent = "";
    this.head.replaceChildren();
    this.body.replaceChildren();
  }

  /** Without details (they follow the picture) the former ones stay, faint, so that nothing jumps while a slider is dragged. */
  show(picture: Picture, details: Details | null, theme: Theme): void {
    this.theme = theme;
    this.verdict(picture, details);
    this.body.classList.toggle("former", !details);
    if (!details) return;
    this.details = details;
    this.body.replaceChildren();
    this.now = [];
    details.lanes.forEach((lane, k) => {
      if (details.lanes.length > 1) this.body.append(html("h3", {}, `${lane.name} gating`));
      const badge = html("details", { class: `badge ${lane.badge.verdict}` });
      badge.append(html("summary", { title: lane.badge.words }, lane.badge.title), html("p", {}, lane.badge.words));
      this.body.append(badge);
      const groups = lane.equation_groups.length ? (picture.lanes[k]?.groups.length ?? 0) : 0;
      lane.equations.forEach((latex, i) => {
        const line = formula(coloured(latex, (g) => groupColour(picture, k, g, theme), groups));
        if (groups) line.style.setProperty("--class-colour", groupColour(picture, k, lane.equation_groups[i] ?? 0, theme));
        this.body.append(line);
        if (groups) line.append(this.strength(picture, k, lane.equation_groups[i] ?? 0));
      });
      if (lane.symbols.length) this.body.append(symbols(lane.symbols));
      if (lane.no_equations) this.body.append(html("p", { class: "caption" }, lane.no_equations));
      if (lane.conserved.length) {
        this.body.append(html("h4", {}, "conserved"));
        for (const law of lane.conserved) this.body.append(formula(coloured(law, (g) => groupColour(picture, k, g, theme), groups)));
      }
    });
    this.fit();
    if (document.fonts.status === "loading") void document.fonts.ready.then(() => this.fit());
    this.similarity(picture, details);
  }

  /** The strength of a class of edges at the cursor; several modes by their root of the sum of squares. */
  private strength(picture: Picture, lane: number, group: number): HTMLElement {
    const made = html("output", { class: "now" });
    this.now.push((index) => {
      const size = picture.largest * (picture.lanes[lane]?.groups[group]?.strength[index] ?? 0);
      made.textContent = `size ${shown(size)} at t = ${shown(picture.t[index] ?? 0)}`;
    });
    return made;
  }

  /** Formulas that are a little too wide are set smaller, wide ones in two lines; what is wider still scrolls. */
  private fit(): void {
    const formulas = [...this.body.querySelectorAll<HTMLElement>(".formula")];
    const room = (f: HTMLElement) => f.clientWidth / f.scrollWidth;
    for (const again of [false, true]) for (const wide of formulas.filter((f) => room(f) < WIDE)) broken.get(wide)?.(again);
    const sizes = formulas.map(room);
    formulas.forEach((f, k) => sizes[k] < 1 && sizes[k] > SMALLEST && f.style.setProperty("--fit", String(0.98 * sizes[k])));
  }

  /** Who wins, and the numbers that say so. */
  private verdict(picture: Picture, details: Details | null): void {
    const many = picture.lanes.length > 1;
    const pathways = !many && picture.racers_are === "pathways";
    const verb = (name: string) => (name === "a tie" ? name : `${name}${many ? " gating wins" : pathways ? " wins" : " is learned first"}`);
    const [first, ...rest] = details?.wins ?? [];
    const counted = first ? `${verb(first[0])} in ${first[1]} of ${picture.networks}` : "…";
    const head = picture.networks > 1 ? counted : picture.winner ? verb(picture.winner) : pathways ? "a tie" : "";
    this.head.replaceChildren(html("p", { class: "winner", role: "status" }, head));
    if (rest.length) this.head.append(html("p", { class: "caption" }, rest.map(([name, n]) => `${verb(name)} in ${n}`).join(", ")));
    const time = (t: number | null) => (t === null ? "–" : shown(t));
    const rows = many
      ? picture.lanes.map((lane) => ({ name: `${lane.name} gating`, cells: [time(lane.learning_time)], key: lane.learning_time ?? Infinity }))
      : picture.lanes[0].racers.slice(0, 6).map((r) => {
          const end = r.share[r.share.length - 1];
          return { name: r.name, cells: [time(r.half_time), `${Math.round(end * 100)}%`], key: pathways ? -end : (r.half_time ?? Infinity) };
        });
    rows.sort((a, b) => a.key - b.key);
    const start = picture.networks > 1 ? `start 1 of ${picture.networks}` : "";
    const titles = many ? [start, "finishing line at"] : [start, "half at", "at the end"];
    const table = html("table", { class: "times" }, html("tr", {}, ...titles.map((t) => html("th", { scope: "col" }, t))));
    for (const row of rows) table.append(html("tr", {}, html("th", { scope: "row" }, row.name), ...row.cells.map((c) => html("td", {}, c))));
    this.head.append(table, this.trained);
    if (details?.race.length) {
      const text = details.race.map(([n, t]) => `${n} ${t === null ? "not reached" : shown(t)}`).join(", ");
      this.head.append(html("p", { class: "caption" }, `nr.race, all from the same strength: ${text}`));
    }
  }

  private similarity(picture: Picture, details: Details): void {
    if (!details.similarity.length) return;
    const names = details.similarity.map((s) => {
      const layer = picture.lanes[s.lane].nodes.find((node) => node.name === s.layer)?.label || s.layer;
      return details.lanes.length > 1 ? `${details.lanes[s.lane].name}: ${layer}` : layer;
    });
    this.pick.replaceChildren(...names.map((n) => html("option", { value: n }, n)));
    this.pick.value = names.includes(this.layer) ? this.layer : names[0];
    this.body.append(html("h4", {}, "similarity of samples in layer ", this.pick), this.canvas, this.caption);
    this.paint();
  }

  at(index: number): void {
    this.index = index;
    for (const write of this.now) write(index);
    this.paint();
  }

  private paint(): void {
    const found = this.details?.similarity[this.pick.selectedIndex];
    if (!found || !this.details || !this.theme || !this.canvas.isConnected) return;
    const at = this.details.similarity_at;
    let k = 0;
    while (k + 1 < at.length && at[k + 1] <= this.index) k++;
    const n = found.samples;
    const cell = Math.max(1, Math.floor(240 / n));
    if (this.canvas.width !== cell * n) this.canvas.width = this.canvas.height = cell * n;
    const paper = this.canvas.getContext("2d")!;
    for (let i = 0; i < n * n; i++) {
      paper.fillStyle = diverging((found.frames[k].charCodeAt(i) - 48) / 36 - 1, this.theme);
      paper.fillRect((i % n) * cell, Math.floor(i / n) * cell, cell, cell);
    }
    this.caption.textContent = `cosine similarity of ${n} samples at the cursor: red alike, blue opposite`;
  }
}
