// The network as a picture: layers, and edges that grow in thickness and colour as they learn.
import { mix, type Theme } from "./colours.ts";
import { layout, through, type Link } from "./layout.ts";
import type { Picture } from "./protocol.ts";
import { groupColour } from "./race.ts";
import { set, svg } from "./svg.ts";

export interface DrawnLane {
  name: string;
  nodes: { name: string; size: number; label?: string }[]; // a label is a name for readers
  edges: (Link & { group: number })[];
}

interface EdgeView {
  lane: number;
  link: Link & { group: number };
  line: SVGPathElement;
  colour: string;
}

const THIN = 1.2;
const THICK = 13;

export class NetworkView {
  readonly root = svg("g");
  private edges: EdgeView[] = [];
  readonly nodes = new Map<string, { box: SVGGElement; x: number; y: number; w: number; h: number }>();
  onHover: (text: string) => void = () => {};
  private lanes: DrawnLane[] = [];

  /** Draw lanes into a rectangle; `picture` gives colours, null while there is none. */
  draw(lanes: DrawnLane[], picture: Picture | null, width: number, height: number, theme: Theme): void {
    this.root.replaceChildren();
    this.edges = [];
    this.nodes.clear();
    this.lanes = lanes;
    const weight = lanes.map((l) => 1 + Math.max(1, tallest(l)));
    const total = weight.reduce((a, b) => a + b, 0);
    let top = 0;
    lanes.forEach((lane, k) => {
      const share = (height * weight[k]) / total;
      this.lane(lane, k, picture, { top, width, height: share, titled: lanes.length > 1 }, theme);
      top += share;
    });
  }

  private lane(lane: DrawnLane, k: number, picture: Picture | null, box: { top: number; width: number; height: number; titled: boolean }, theme: Theme): void {
    const places = layout(lane.nodes.map((n) => n.name), lane.edges);
    const pad = { x: 48, y: box.titled ? 30 : 14 };
    const at = (n: string) => {
      const p = places.get(n)!;
      return { x: pad.x + p.x * (box.width - 2 * pad.x), y: box.top + pad.y + p.y * (box.height - pad.y - 8) };
    };
    if (box.titled) this.root.append(svg("text", { x: 4, y: box.top + 18, fill: theme.ink, "font-size": 15, "font-weight": 600 }, `${lane.name} gating`));
    const row = (box.height - pad.y) / tallest(lane);
    const size = Math.max(9, Math.min(15, row / 2));
    for (const link of lane.edges) {
      const [a, b] = [at(link.source), at(link.target)];
      const bend = Math.max(30, (b.x - a.x) / 2);
      const colour = picture && link.group >= 0 ? groupColour(picture, k, link.group, theme) : theme.soft;
      const d = `M${a.x.toFixed(1)},${a.y.toFixed(1)} C${(a.x + bend).toFixed(1)},${a.y.toFixed(1)} ${(b.x - bend).toFixed(1)},${b.y.toFixed(1)} ${b.x.toFixed(1)},${b.y.toFixed(1)}`;
      const line = svg("path", { d, fill: "none", stroke: theme.soft, "stroke-width": THIN, "stroke-linecap": "round", "data-edge": link.name, class: "edge" });
      const reach = svg("path", { d, fill: "none", stroke: "transparent", "stroke-width": 16, "data-edge": link.name, class: "edge-reach" });
      reach.append(svg("title", {}, link.name));
      reach.addEventListener("pointerenter", () => this.light(k, link.name));
      reach.addEventListener("pointerleave", () => this.light(k, null));
      this.root.append(line, reach);
      this.edges.push({ lane: k, link, line, colour });
    }
    const hop = (box.width - 2 * pad.x) / (new Set([...places.values()].map((p) => p.x)).size - 1 || 1); // between two columns
    const tall = (n: number) => Math.min(size * 2.1 + 4 * Math.log2(n + 1), Math.max(size * 2, row * 0.8));
    for (const node of lane.nodes) {
      const { x, y } = at(node.name);
      const lines = inLines(node.label || node.name);
      const long = Math.max(...lines.map((line) => line.length)) + 1;
      const w = Math.min(Math.max(40, long * size * 0.62 + 6), hop - 8);
      const type = Math.min(size, (w - 6) / long / 0.62, (0.72 * row) / (lines.length + 0.1));
      const h = Math.min(Math.max(tall(node.size), type * (lines.length + 1)), 0.95 * row);
      const counted = h > type * (lines.length + 1.6);
      const top = y + type * (0.35 - 0.6 * (lines.length - 1)) - (counted ? type * 0.42 : 0);
      const group = svg("g", { "data-node": node.name, class: "node", role: "img", "aria-label": `layer ${node.name}, ${node.size} neurons` });
      group.append(
        svg("rect", { x: x - w / 2, y: y - h / 2, width: w, height: h, rx: 8, fill: theme.node, stroke: theme.soft, "stroke-width": 1.2 }),
        ...lines.map((line, i) => svg("text", { x, y: top + 1.2 * i * type, "text-anchor": "middle", fill: theme.ink, "font-size": type, "font-weight": 600 }, line)),
      );
      if (counted) group.append(svg("text", { x, y: top + type * (1.2 * lines.length - 0.15), "text-anchor": "middle", fill: theme.soft, "font-size": type * 0.75 }, String(node.size)));
      group.append(svg("title", {}, `${node.name}: ${node.size} neurons`));
      this.root.append(group);
      this.nodes.set(`${k}/${node.name}`, { box: group, x, y, w, h });
    }
  }

  /** A word beside a layer. */
  say(node: string, text: string, colour: string, paper: string): void {
    const at = this.nodes.get(`0/${node}`);
    if (!at || !text) return;
    const right = at.x > 300;
    const x = right ? at.x + at.w / 2 : at.x - at.w / 2;
    this.root.append(svg("text", { x, y: at.y - at.h / 2 - 8, "text-anchor": right ? "end" : "start", fill: colour, stroke: paper, "stroke-width": 5, "paint-order": "stroke", "font-size": 14, "font-weight": 600, class: "spot" }, text));
  }

  /** Show the strengths at a place of the time axis. */
  at(picture: Picture, index: number, theme: Theme): void {
    for (const e of this.edges) {
      const s = e.link.group < 0 ? 0 : (picture.lanes[e.lane]?.groups[e.link.group]?.strength[index] ?? 0);
      set(e.line, { "stroke-width": THIN + (THICK - THIN) * s, stroke: mix(theme.soft, e.colour, Math.min(1, s * 2.5)), "stroke-opacity": 0.35 + 0.65 * Math.min(1, s * 2) });
    }
  }

  /** Light up all paths through an edge. */
  light(lane: number, name: string | null): void {
    const links = this.lanes[lane]?.edges ?? [];
    const lit = name === null ? null : through(name, links);
    for (const e of this.edges) {
      const off = lit !== null && !(e.lane === lane && lit.has(e.link.name));
      e.line.style.opacity = off ? "0.12" : "";
      e.line.classList.toggle("lit", lit !== null && !off);
    }
    this.onHover(name === null || lit === null ? "" : `${name}: ${lit.size - 1} other edges lie on paths through it`);
  }
}

/** A label in one line, or in two. */
function inLines(label: string): string[] {
  const words = label.split(" ");
  const half = Math.ceil(words.length / 2);
  return label.length > 10 && words.length > 1 ? [words.slice(0, -half).join(" "), words.slice(-half).join(" ")] : [label];
}

export function tallest(lane: DrawnLane): number {
  const count = new Map<number, number>();
  for (const p of layout(lane.nodes.map((n) => n.name), lane.edges).values()) count.set(p.x, (count.get(p.x) ?? 0) + 1);
  return Math.max(1, ...count.values());
}
