// The page: one scene, one picture, one time cursor; everything else shows them.
import { DARK, LIGHT, type Theme } from "./colours.ts";
import { Asker, type Transport } from "./connection.ts";
import { emptyDrawn, inputs, links, missing, outputs } from "./drawn.ts";
import type { Editor } from "./editor.ts";
import { listenToKeys, type Acts } from "./keys.ts";
import { decode, encode, linkIn, LONGEST_LINK, type State, type View } from "./link.ts";
import { takeAwayMenu } from "./menu.ts";
import type { DrawnLane } from "./network.ts";
import { Player } from "./player.ts";
import { listenToPointer } from "./pointers.ts";
import type { Answer, Details, Drawn, Entry, Exported, Finished, Picture, Scene } from "./protocol.ts";
import { Runs } from "./race.ts";
import { sliderRow } from "./sliders.ts";
import { Stage } from "./stage.ts";
import { button, html, icon } from "./svg.ts";
import type { Figure } from "./takeaway.ts";
import { TheoryPanel } from "./theory.ts";
import { shown } from "./ticks.ts";

const FIRST: State = {
  scene: { entry: "separability", values: {}, start: "aligned", seeds: 3, drawn: null },
  view: { at: 0.45, theme: "light", plain: false, large: false },
};
const OWN = "own";
const UNREADABLE = "The link could not be read.";

export interface Options {
  state?: State;
  address: boolean; // keep the state in the address
  wholePage: boolean;
  makeEditor?: (...given: ConstructorParameters<typeof Editor>) => Editor; // of networks of one's own; a saved page has none, nor a server
  hint?: string; // of a saved page: why other sliders do not work
}

export class Lab {
  private state: State;
  private entries: Entry[] = [];
  private asker: Asker;
  private picture: Picture | null = null;
  private details: Details | null = null;
  private finished: Finished | null = null; // the training
  private runs = new Runs();
  private editor: Editor | null = null;
  private stage = new Stage();
  private theory = new TheoryPanel();
  private player = new Player((at, playing) => this.moved(at, playing));
  private exports = new Map<number, (text: string) => void>();
  private frame = 0;
  private holding = () => false; // a layer, with the pointer
  private late = false; // whether something is to be drawn afterwards
  private kept: Drawn = emptyDrawn(); // the drawing, while an entry of the gallery is shown
  private redrawn = { count: 0, at: 0 }; // pictures, and when the last was drawn

  private head = html("header", { class: "head" });
  private controls = html("aside", { class: "controls", "aria-label": "controls" });
  private holder = html("div", { class: "holder" });
  private transportBar = html("div", { class: "transport", role: "group", "aria-label": "time" });
  private time = html("input", { type: "range", min: 0, max: 1000, step: 1, "aria-label": "time cursor", class: "time" });
  private clock = html("output", { class: "clock" });
  private playButton = button(icon("play"), "play or pause (space)", () => this.player.toggle(), "play");
  private message = html("p", { class: "message", role: "status", "aria-live": "polite" });
  private timeRow: HTMLElement = html("div"); // where the slider of the end of the time axis stands
  private warning = ""; // of a link, until something else is shown
  private gallery = html("dialog", { class: "gallery", "aria-label": "gallery" });

  private root: HTMLElement;
  private transport: Transport;
  private options: Options;

  constructor(root: HTMLElement, transport: Transport, options: Options) {
    this.root = root;
    this.transport = transport;
    this.options = options;
    this.state = structuredClone(options.state ?? FIRST);
    this.asker = new Asker((request) => transport.send(request));
    root.classList.add("nr-lab");
    root.classList.toggle("saved", this.saved);
    this.build();
    this.keys();
    void this.begin();
  }

  // -- start ------------------------------------------------------------------------------------

  private async begin(): Promise<void> {
    if (this.options.address) await this.readAddress();
    this.player.at = this.state.view.at;
    this.look();
    this.transport.listen(
      (answer) => this.hear(answer),
      (open) => {
        if (!open) {
          this.asker.reset();
          this.say("The server does not answer; trying again…", true);
        } else this.say("");
      },
    );
  }

  private async readAddress(): Promise<void> {
    const text = linkIn(location.hash);
    if (text) await this.readLink(text);
    else if (location.hash.startsWith("#s=")) this.warning = UNREADABLE;
  }

  private async readLink(text: string): Promise<boolean> {
    try {
      const state = await decode(text);
      const shown = ({ entry, start, drawn }: Scene) => JSON.stringify([entry, start, drawn]);
      const foreign = this.saved && shown(state.scene) !== shown(this.options.state!.scene);
      if (!foreign) this.state = state;
      this.warning = foreign ? "This link belongs to another figure; here is the one that this page holds." : "";
      return !foreign;
    } catch {
      this.say((this.warning = UNREADABLE), true);
      return false;
    }
  }

  /** What "Copy link" copied is opened where it is pasted on the page. */
  private async pasted(event: ClipboardEvent): Promise<void> {
    const text = linkIn(event.clipboardData?.getData("text") ?? "");
    if (!text || (event.target as Element).closest?.("input, textarea") || !(await this.readLink(text))) return;
    this.player.at = this.state.view.at;
    this.look();
    this.open(this.state.scene.entry, false);
  }

  private build(): void {
    const main = html("main", {}, this.controls, html("div", { class: "middle" }, this.holder, this.transportBar, this.message), this.theory.root);
    this.holder.append(this.stage.root);
    this.transportBar.append(
      button(icon("start"), "back to the start (Home)", () => this.player.step(-1)),
      button(icon("back"), "a step back (arrow left)", () => this.player.step(-1 / 60)),
      this.playButton,
      button(icon("on"), "a step on (arrow right)", () => this.player.step(1 / 60)),
      this.time,
      this.clock,
    );
    this.time.addEventListener("input", () => {
      this.player.playing = false;
      this.player.set(Number(this.time.value) / 1000);
    });
    this.root.append(this.head, main, this.gallery);
    new ResizeObserver(() => this.redraw()).observe(this.holder);
    const moveTo = (place: number) => {
      this.player.playing = false;
      this.player.set(place);
    };
    this.holding = listenToPointer(this.stage, () => this.editor, moveTo, () => this.late && this.redraw());
    (this.options.wholePage ? document : this.root).addEventListener("paste", (event) => void this.pasted(event as ClipboardEvent));
    this.root.addEventListener("dragover", (event) => event.preventDefault());
    this.root.addEventListener("drop", (event) => {
      event.preventDefault();
      const file = event.dataTransfer?.files[0];
      if (file && this.editor) void this.editor.receive(file);
    });
    this.stage.network.onHover = (text) => this.say(text);
  }

  // -- what is said -----------------------------------------------------------------------------

  private hear(answer: Answer): void {
    if (answer.kind === "welcome") {
      const again = this.entries.length > 0; // the connection was lost; the drawing and its history are still here
      this.entries = answer.entries;
      this.header();
      if (again) this.ask();
      else this.open(this.state.scene.entry, false);
    } else if (answer.kind === "picture") {
      if (!this.asker.answered(answer.id)) return;
      this.picture = answer;
      this.details = this.finished = null;
      this.runs.clear();
      this.theory.trained.textContent = "";
      this.say(this.warning, this.warning !== "");
      this.showTime();
      this.redraw();
      this.redrawn = { count: this.redrawn.count + 1, at: performance.now() };
    } else if (answer.kind === "details") {
      if (!this.picture || (answer.id !== this.picture.id && answer.id !== this.asker.training)) return;
      this.details = answer;
      this.theory.show(this.picture, answer, this.themeNow());
      this.theory.at(this.index());
      this.compare();
      if (this.picture.networks) this.redraw(); // with the lines of all starts
    } else if (answer.kind === "simulated") {
      if (answer.id !== this.asker.training) return;
      this.runs.add(answer);
      cancelAnimationFrame(this.frame);
      this.frame = requestAnimationFrame(() => this.stage.stream(this.runs.all(), this.themeNow()));
    } else if (answer.kind === "predicted") {
      if (this.picture && answer.id === this.picture.id) this.runs.predict(answer, this.picture);
    } else if (answer.kind === "finished") {
      if (answer.id !== this.asker.training) return;
      this.finished = answer;
      this.compare();
      this.redraw(); // the legend names the dots
    } else if (answer.kind === "exported") {
      this.exports.get(answer.id)?.((answer as Exported).text);
      this.exports.delete(answer.id);
    } else if (answer.kind === "problem") {
      const solving = this.asker.answered(answer.id, false) && (answer.id === -1 || answer.id === this.asker.latest);
      if (solving) this.nothing(); // what was shown before is no answer to this
      this.say(answer.text, true);
    } else if (answer.kind === "notice") this.say(answer.text);
  }

  /** How far theory and networks are apart, once both are there. */
  private compare(): void {
    if (!this.picture || !this.details || !this.finished) return;
    const share = this.picture.networks ? this.runs.difference(this.picture) : 0;
    this.theory.trained.textContent = share ? `Each network and the theory of its own start differ by ${share < 1e-5 ? "less than 0.001" : `at most ${shown(100 * share, 2)}`}% of the initial loss.` : this.finished.words;
  }

  /** Nothing is known of the scene. */
  private nothing(): void {
    this.picture = this.details = null;
    this.runs.clear();
    this.theory.clear();
    this.redraw();
  }

  private say(text: string, wrong = false): void {
    this.message.textContent = text;
    this.message.classList.toggle("wrong", wrong);
  }

  // -- the scene --------------------------------------------------------------------------------

  private entry(): Entry {
    return this.entries.find((e) => e.name === this.state.scene.entry) ?? this.entries[0];
  }

  /** Show an entry: from its defaults, or as the state has it. */
  private open(name: string, fresh: boolean): void {
    const scene = this.state.scene;
    const entry = this.entries.find((e) => e.name === name) ?? this.entries[0];
    if (fresh) this.warning = "";
    if (fresh || !this.entries.some((e) => e.name === name)) {
      this.kept = scene.drawn ?? this.kept;
      const drawn = entry.name === OWN ? this.kept : null;
      this.state.scene = { ...scene, entry: entry.name, values: entry.name === OWN && !this.saved ? { strength: 0.05 } : {}, drawn, start: entry.random ? scene.start : "aligned" };
      this.player.at = 0.45;
    }
    this.picture = this.details = null;
    const make = this.options.makeEditor;
    this.editor = entry.name === OWN && make ? make(this.state.scene.drawn ?? emptyDrawn(), (d) => this.edited(d), (content) => this.transport.upload(content)) : null;
    this.header();
    this.showControls();
    this.theory.clear();
    this.say(this.editor && missing(this.editor.drawn) ? "" : "Computing…");
    this.ask();
  }

  private change(part: Partial<Scene>): void {
    this.warning = "";
    this.state.scene = { ...this.state.scene, ...part };
    this.ask();
  }

  private ask(): void {
    this.remember();
    if (this.editor && missing(this.editor.drawn)) {
      this.nothing();
      return;
    }
    this.asker.solve(this.state.scene);
  }

  private edited(drawn: Drawn): void {
    const changed = drawn !== this.state.scene.drawn;
    this.state.scene = { ...this.state.scene, drawn };
    if (changed) this.ask();
    this.redraw();
  }

  private saving: ReturnType<typeof setTimeout> | undefined;

  private remember(): void {
    if (!this.options.address) return;
    clearTimeout(this.saving);
    this.saving = setTimeout(() => void this.writeAddress(), 250);
  }

  private async writeAddress(): Promise<void> {
    const text = await this.link();
    if (text) history.replaceState(null, "", `#s=${text}`);
  }

  /** The state as text; null where it is too long for an address. */
  private async link(): Promise<string | null> {
    this.state.view.at = this.player.at;
    const text = await encode(this.state);
    return text.length > LONGEST_LINK ? null : text;
  }

  // -- drawing ----------------------------------------------------------------------------------

  /** Whether this is a page without a server. */
  private get saved(): boolean {
    return !this.options.makeEditor;
  }

  private themeNow(): Theme {
    return this.state.view.theme === "dark" ? DARK : LIGHT;
  }

  private index(): number {
    return this.picture ? Math.round(this.player.at * (this.picture.t.length - 1)) : 0;
  }

  private lanes(): DrawnLane[] {
    if (this.editor) {
      const d = this.editor.drawn;
      const group = new Map(this.picture?.lanes[0].edges.map((e) => [e.name, e.group]));
      const size = new Map(this.picture?.lanes[0].nodes.map((n) => [n.name, n.size]));
      const outer = new Set([...inputs(d), ...outputs(d)]);
      const nodes = d.nodes.map((n) => (outer.has(n.name) ? { name: n.name, size: size.get(n.name) ?? n.size } : n));
      return [{ name: "network", nodes, edges: links(d).map((e) => ({ ...e, group: group.get(e.name) ?? -1 })) }];
    }
    return this.picture?.lanes ?? [];
  }

  private redraw(): void {
    const box = this.holder.getBoundingClientRect();
    const scale = (this.state.view.large ? 1.35 : 1) * Math.max(1, Math.min(1.3, box.width / 950));
    this.late = this.holding();
    if (box.width < 50 || box.height < 50 || this.late) return;
    const theme = this.themeNow();
    const next = (this.editor && missing(this.editor.drawn)) ?? "";
    this.stage.draw(this.picture, this.lanes(), this.runs.all(), box.width / scale, box.height / scale, theme, next);
    this.stage.root.setAttribute("width", String(box.width));
    this.stage.root.setAttribute("height", String(box.height));
    if (this.editor) this.marks(this.editor);
    if (this.picture && !this.details) this.theory.show(this.picture, null, theme);
    this.moved(this.player.at, this.player.playing);
  }

  /** What is selected in the editor, and at that spot why a change was refused. */
  private marks(editor: Editor): void {
    const chosen = editor.selected;
    const theme = this.themeNow();
    if (chosen && "node" in chosen) {
      this.stage.network.nodes.get(`0/${chosen.node}`)?.box.classList.add("selected");
      this.stage.network.say(chosen.node, editor.said.textContent ?? "", theme.dark ? "#f2a05a" : "#a84300", theme.paper);
    }
    if (chosen && "edge" in chosen) this.stage.root.querySelector(`path.edge[data-edge="${CSS.escape(chosen.edge.join("->"))}"]`)?.classList.add("selected");
  }

  private moved(at: number, playing: boolean): void {
    this.state.view.at = at;
    this.time.value = String(Math.round(at * 1000));
    this.playButton.replaceChildren(icon(playing ? "pause" : "play"));
    if (!this.picture) {
      this.clock.textContent = "";
      return;
    }
    const index = this.index();
    this.clock.textContent = `t = ${shown(this.picture.t[index], 3)}`;
    this.stage.at(index, this.themeNow());
    this.theory.at(index);
    if (!playing) this.remember();
  }

  private look(): void {
    const { theme, plain, large } = this.state.view;
    this.root.dataset.theme = theme;
    this.root.classList.toggle("plain", plain);
    this.root.classList.toggle("large", large);
    if (this.picture) this.theory.show(this.picture, this.details, this.themeNow());
    this.redraw();
    this.remember();
  }

  switch<K extends keyof View>(key: K, value: View[K]): void {
    this.state.view[key] = value;
    this.look();
  }

  // -- controls ---------------------------------------------------------------------------------

  private header(): void {
    const pick = html("select", { class: "entries", "aria-label": "gallery entry" }, ...this.entries.map((e) => html("option", { value: e.name }, e.title)));
    pick.value = this.entry().name;
    pick.addEventListener("change", () => this.open(pick.value, true));
    const view = this.state.view;
    this.head.replaceChildren(
      html("strong", { class: "brand" }, this.saved ? this.entry().title : "neuralrace lab"),
      ...(this.saved ? [] : this.ways(pick)),
      html("span", { class: "space" }),
      this.takeAway(),
      button("Controls", "hide or show the controls (c)", () => this.switch("plain", !this.state.view.plain), "toggle-controls"),
      button("A", "large type (l)", () => this.switch("large", !this.state.view.large)),
      button(icon("theme"), "light or dark (d)", () => this.switch("theme", view.theme === "dark" ? "light" : "dark")),
      button(icon("full"), "full screen (f)", () => this.fullScreen()),
    );
  }

  /** Ways to other scenes. */
  private ways(pick: HTMLElement): HTMLElement[] {
    return [
      button("Gallery", "all entries (g)", () => this.showGallery(), "wide"),
      button("‹", "previous entry (p)", () => this.next(-1)),
      pick,
      button("›", "next entry (n)", () => this.next(1)),
      button("Draw your own", "draw a network of your own", () => this.open(OWN, true), "wide draw"),
    ];
  }

  private showControls(): void {
    const entry = this.entry();
    const scene = this.state.scene;
    const parts: Node[] = [html("p", { class: "sentence" }, entry.sentence)];
    if (!this.saved) parts.unshift(html("h2", {}, entry.title)); // else it is in the head
    if (!this.editor) parts.push(html("p", { class: "figure" }, entry.figure));
    const sliders = this.editor ? [{ name: "strength", label: "initial strength", low: 1e-3, high: 0.9, step: 0.02, value: 0.05, log: true, stops: [] }] : entry.sliders;
    if (this.editor) parts.push(this.editor.root);
    for (const s of sliders)
      parts.push(sliderRow(s, scene.values[s.name] ?? s.value, (v) => this.change({ values: { ...this.state.scene.values, [s.name]: v } })));
    parts.push((this.timeRow = html("div")));
    if (!this.saved) parts.push(this.trainingChoice(entry));
    if (this.options.hint) parts.push(html("p", { class: "hint" }, this.options.hint));
    if (!this.editor) parts.push(button("Reset", "back to the defaults of this entry (r)", () => this.open(entry.name, true), "reset"));
    this.controls.replaceChildren(...parts);
  }

  /** The end of the time axis; theory chooses it until somebody moves it. */
  private showTime(): void {
    const values = this.state.scene.values;
    const end = this.picture!.t[this.picture!.t.length - 1];
    if (!this.entry().timed || ("time" in values && this.timeRow.matches(".slider"))) return;
    const slider = { name: "time", label: "time shown", low: end / 100, high: end * 100, step: 0.02, value: end, log: true, stops: [] };
    const row = sliderRow(slider, end, (time) => this.change({ values: { ...this.state.scene.values, time } }));
    this.timeRow.replaceWith(row);
    this.timeRow = row;
  }

  private trainingChoice(entry: Entry): HTMLElement {
    const scene = this.state.scene;
    const several = entry.several || scene.start === "random"; // aligned starts of one strength all learn alike
    const seeds = html("select", { "aria-label": "networks trained beside theory" }, ...(several ? [0, 1, 3, 5, 10] : [0, 1]).map((n) => html("option", { value: String(n) }, n ? String(n) : "none")));
    seeds.value = String(several ? scene.seeds : Math.min(scene.seeds, 1));
    seeds.addEventListener("change", () => this.change({ seeds: Number(seeds.value) }));
    const box = html("fieldset", { class: "training" }, html("legend", {}, "trained networks (dots)"));
    if (entry.random) {
      for (const [value, label] of [["aligned", "aligned start, where theory is exact"], ["random", "random starts"]] as const) {
        const radio = html("input", { type: "radio", name: "start", value, ...(scene.start === value ? { checked: "" } : {}) });
        radio.addEventListener("change", () => {
          this.change({ start: value });
          this.showControls();
        });
        box.append(html("label", { class: "check" }, radio, label));
      }
    }
    box.append(html("label", {}, "networks ", seeds));
    return box;
  }

  private showGallery(): void {
    const cards = this.entries.map((e) => {
      const card = html("button", { type: "button", class: "card" }, html("strong", {}, e.title), html("span", {}, e.sentence), html("em", {}, e.figure));
      card.addEventListener("click", () => {
        this.gallery.close();
        this.open(e.name, true);
      });
      return card;
    });
    this.gallery.replaceChildren(button("×", "close", () => this.gallery.close(), "close"), html("div", { class: "cards" }, ...cards));
    this.gallery.showModal();
  }

  private next(by: number): void {
    const names = this.entries.filter((e) => e.name !== OWN).map((e) => e.name);
    const here = names.indexOf(this.state.scene.entry);
    this.open(names[(here + by + names.length) % names.length], true);
  }

  private fullScreen(): void {
    if (document.fullscreenElement) void document.exitFullscreen();
    else void this.root.requestFullscreen?.();
  }

  // -- take away --------------------------------------------------------------------------------

  private takeAway(): HTMLElement {
    return takeAwayMenu({
      name: () => `race-${this.state.scene.entry}`,
      figure: () => this.figure(),
      index: () => this.index(),
      exported: (format) => this.exported(format),
      server: !this.saved,
      copyLink: () => this.copyLink(),
      say: (text) => this.say(text),
    });
  }

  private figure(): Figure {
    if (!this.picture) throw new Error("there is nothing to take away yet");
    return { picture: this.picture, lanes: this.lanes(), runs: this.runs.all(), theme: this.themeNow() };
  }

  private async copyLink(): Promise<void> {
    const text = await this.link();
    if (!text) throw new Error("The data are too large for a link; take the YAML instead.");
    // The address of a server holds a token.
    const link = this.saved ? `${location.href.split("#")[0]}#s=${text}` : `lab:${text}`;
    const open = this.saved ? "" : "This opens it: neuralrace lab LINK, or paste it on the page.";
    await navigator.clipboard.writeText(link).then(
      () => this.say(`The exact state is copied as a link. ${open}`),
      () => this.say(`The browser did not let the page copy the link. It is ${link} ${open}`),
    );
  }

  exported(format: "yaml" | "python" | "html"): Promise<string> {
    return new Promise((done) => this.exports.set(this.asker.export(this.state.scene, format), done));
  }

  // -- keyboard ---------------------------------------------------------------------------------

  private keys(): void {
    if (!this.options.wholePage) this.root.tabIndex = 0;
    const acts: Acts = {
      " ": () => this.player.toggle(),
      ArrowLeft: () => this.player.step(-1 / 60),
      ArrowRight: () => this.player.step(1 / 60),
      Home: () => this.player.step(-1),
      End: () => this.player.step(1),
      ...(this.saved ? {} : { n: () => this.next(1), p: () => this.next(-1), g: () => this.showGallery() }),
      c: () => this.switch("plain", !this.state.view.plain),
      l: () => this.switch("large", !this.state.view.large),
      d: () => this.switch("theme", this.state.view.theme === "dark" ? "light" : "dark"),
      f: () => this.fullScreen(),
      r: () => this.editor || this.open(this.state.scene.entry, true),
      Delete: () => this.editor?.remove(),
      Backspace: () => this.editor?.remove(),
    };
    const control: Acts = { z: () => this.editor?.undo(), "Shift+z": () => this.editor?.redo(), y: () => this.editor?.redo() };
    listenToKeys(this.options.wholePage ? document : this.root, acts, control, () => this.gallery.open);
  }

  /** For tests and measurements: what is shown now. */
  get shownNow() {
    return { state: this.state, picture: this.picture, details: this.details, runs: this.runs.all(), training: this.asker.training, redrawn: this.redrawn, entries: this.entries };
  }
}
