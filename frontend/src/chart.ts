// A chart of curves over time: theory as lines, networks as dots, a cursor that drags.
import type { Theme } from "./colours.ts";
import { set, svg } from "./svg.ts";
import { shown, ticks } from "./ticks.ts";

export interface Curve {
  label: string;
  colour: string;
  values: number[];
}

export interface Dots {
  colour: string;
  t: number[];
  values: number[];
}

export interface ChartSpec {
  title: string;
  t: number[];
  curves: Curve[];
  thin: Curve[]; // of other starts
  dots: Dots[];
  level?: { value: number; label: string };
  dotsLabel?: string; // in the legend
}

const MARGIN = { left: 46, right: 14, top: 28, bottom: 34 };
const ROW = 30; // between two numbers of the vertical axis, at least about
const MOST_DOTS = 1500;

export class ChartView {
  readonly root = svg("g");
  private cursor = svg("line", {});
  private marks: SVGCircleElement[] = [];
  private dots = svg("g");
  private spec: ChartSpec | null = null;
  private x = (_: number) => 0;
  private y = (_: number) => 0;
  private range = { low: 0, high: 0 };
  private height = 0;
  private theme: Theme | null = null;
  private index = 0; // of the cursor
  width = 0;

  draw(spec: ChartSpec, width: number, height: number, theme: Theme): void {
    this.root.replaceChildren();
    this.spec = spec;
    this.width = width;
    const end = spec.t[spec.t.length - 1] || 1;
    this.height = height;
    this.theme = theme;
    const ends = extent([...spec.curves, ...spec.thin, ...spec.dots]);
    const high = Math.max(ends.high, spec.level?.value ?? 0, 1e-12) * 1.06;
    const low = ends.low < 0 ? ends.low * 1.06 : 0;
    this.range = { low, high };
    const box = { w: width - MARGIN.left - MARGIN.right, h: height - MARGIN.top - MARGIN.bottom };
    this.x = (t) => MARGIN.left + (t / end) * box.w;
    this.y = (v) => MARGIN.top + (1 - (v - low) / (high - low)) * box.h;
    this.root.append(svg("text", { x: 0, y: 15, fill: theme.soft, "font-size": 13 }, spec.title));
    for (const v of ticks(low, high, Math.max(1, Math.min(6, Math.floor(box.h / ROW))))) {
      this.root.append(
        svg("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: this.y(v), y2: this.y(v), stroke: theme.faint }),
        svg("text", { x: MARGIN.left - 7, y: this.y(v) + 4, "text-anchor": "end", fill: theme.soft, "font-size": 11.5 }, shown(v)),
      );
    }
    for (const t of ticks(0, end, 6))
      this.root.append(svg("text", { x: Math.min(this.x(t), width - 4 * shown(t).length), y: height - MARGIN.bottom + 17, "text-anchor": "middle", fill: theme.soft, "font-size": 11.5 }, shown(t)));
    this.root.append(svg("text", { x: width - MARGIN.right, y: height - 3, "text-anchor": "end", fill: theme.soft, "font-size": 11.5 }, "time (τ = 1)"));
    if (spec.level) {
      const y = this.y(spec.level.value);
      this.root.append(
        svg("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y, stroke: theme.soft, "stroke-dasharray": "4 4" }),
        svg("text", { x: width - MARGIN.right, y: y - 5, "text-anchor": "end", fill: theme.soft, "font-size": 11.5 }, spec.level.label),
      );
    }
    this.legend(spec, width, theme);
    for (const c of spec.thin)
      this.root.append(svg("path", { d: this.path(spec.t, c.values), fill: "none", stroke: c.colour, "stroke-width": 1, "stroke-opacity": 0.7, class: "predicted" }));
    for (const c of spec.curves)
      this.root.append(svg("path", { d: this.path(spec.t, c.values), fill: "none", stroke: c.colour, "stroke-width": 2.4, "stroke-linejoin": "round", class: "curve" }));
    this.dots = svg("g", { class: "dots" });
    this.cursor = svg("line", { y1: MARGIN.top - 4, y2: height - MARGIN.bottom, stroke: theme.ink, "stroke-width": 1.4, "stroke-opacity": 0.7 });
    this.marks = spec.curves.map((c) => svg("circle", { r: 4.5, fill: c.colour, stroke: theme.paper, "stroke-width": 1.5 }));
    this.root.append(this.dots, this.cursor, ...this.marks);
    this.stream(spec.dots);
  }

  private legend(spec: ChartSpec, width: number, theme: Theme): void {
    const wide = (c: Curve) => c.label.length * 7 + 30;
    const dots = spec.dotsLabel ? [{ label: spec.dotsLabel, colour: theme.ink, values: [] }] : [];
    const entries = [...dots, ...spec.curves];
    const needed = entries.reduce((sum, c) => sum + wide(c), 0);
    if (entries.length < 2 || needed > width - MARGIN.right - spec.title.length * 7 - 14) return;
    let x = width - MARGIN.right;
    for (const c of entries.reverse()) {
      x -= wide(c);
      this.root.append(
        svg("line", { x1: x + (c.values.length ? 0 : 7), x2: x + (c.values.length ? 14 : 7), y1: 11, y2: 11, stroke: c.colour, "stroke-width": c.values.length ? 3 : 6, "stroke-linecap": "round" }),
        svg("text", { x: x + 18, y: 15, fill: theme.ink, "font-size": 12 }, c.label),
      );
    }
  }

  /** Only the dots: networks that stream in. The axes grow where they would leave them. */
  stream(dots: Dots[]): void {
    const { low, high } = extent(dots);
    if (this.spec && this.theme && (low < this.range.low || high > this.range.high)) {
      this.draw({ ...this.spec, dots }, this.width, this.height, this.theme);
      this.at(this.index);
      return;
    }
    const total = dots.reduce((n, d) => n + d.t.length, 0);
    const every = Math.ceil(total / MOST_DOTS);
    this.dots.replaceChildren(
      ...dots.map((d) => {
        let path = "";
        for (let i = 0; i < d.t.length; i += every) path += `M${this.x(d.t[i]).toFixed(1)},${this.y(d.values[i]).toFixed(1)}h0`;
        return svg("path", { d: path, stroke: d.colour, "stroke-width": 5.5, "stroke-linecap": "round", "stroke-opacity": 0.5, fill: "none", "data-points": d.t.length });
      }),
    );
  }

  private path(t: number[], values: number[]): string {
    let d = "";
    for (let i = 0; i < t.length; i++) d += `${i ? "L" : "M"}${this.x(t[i]).toFixed(1)},${this.y(values[i]).toFixed(1)}`;
    return d;
  }

  at(index: number): void {
    if (!this.spec) return;
    this.index = index;
    const x = this.x(this.spec.t[index] ?? 0);
    set(this.cursor, { x1: x, x2: x });
    this.marks.forEach((m, k) => set(m, { cx: x, cy: this.y(this.spec!.curves[k].values[index] ?? 0) }));
  }

  /** The place on the time axis, 0 to 1, under a position of the drawing. */
  placeOf(x: number): number {
    return Math.max(0, Math.min(1, (x - MARGIN.left) / (this.width - MARGIN.left - MARGIN.right)));
  }
}

/** The least and the largest of some values. */
function extent(of: { values: number[] }[]): { low: number; high: number } {
  let [low, high] = [Infinity, -Infinity];
  for (const { values } of of)
    for (const v of values) {
      if (v < low) low = v;
      if (v > high) high = v;
    }
  return { low, high };
}
