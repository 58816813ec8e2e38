// The stage: network and bars above, loss and strengths below, all at the time of one cursor.
import { BarsView } from "./bars.ts";
import { ChartView, type ChartSpec } from "./chart.ts";
import type { Theme } from "./colours.ts";
import { NetworkView, tallest, type DrawnLane } from "./network.ts";
import type { Picture } from "./protocol.ts";
import { lossColour, trackColour, tracks, type Run } from "./race.ts";
import { set, svg } from "./svg.ts";

export class Stage {
  readonly root = svg("svg", { class: "stage", role: "img", "aria-label": "the race of the network" });
  readonly network = new NetworkView();
  readonly bars = new BarsView();
  readonly loss = new ChartView();
  readonly strengths = new ChartView();
  private picture: Picture | null = null;
  private boxes: { view: ChartView; x: number; y: number; h: number }[] = [];
  width = 0;

  /** Draw everything; with no picture only the lanes (a drawing that is not complete yet) and what to do next. */
  draw(picture: Picture | null, lanes: DrawnLane[], runs: Run[], width: number, height: number, theme: Theme, next = ""): void {
    this.picture = picture;
    this.width = width;
    set(this.root, { viewBox: `0 0 ${width} ${height}`, width, height });
    this.root.style.background = theme.paper;
    this.root.setAttribute("font-family", "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif");
    const narrow = width < 620;
    const stacked = narrow && height > 1.6 * width; // the charts
    const rows = Math.max(lanes.reduce((sum, lane) => sum + tallest(lane) + (lanes.length > 1 ? 0.6 : 0), 0), picture ? tracks(picture).length * 0.9 : 0);
    const share = Math.max(0.36, Math.min(0.56, 0.26 + 0.06 * rows));
    const under = narrow && picture ? 26 + Math.min(40 * tracks(picture).length, 0.25 * height) : 0; // the bars, below the network
    const upper = Math.round(height * (narrow ? 0.8 : 1) * share + under);
    const side = narrow ? width : Math.min(300, width * 0.32);
    this.root.replaceChildren();
    const put = (view: { root: SVGGElement }, x: number, y: number) => {
      set(view.root, { transform: `translate(${x},${y})` });
      this.root.append(view.root);
    };
    this.network.draw(lanes, picture, narrow ? width : width - side - 24, upper - under - 14, theme);
    put(this.network, 0, 6);
    this.boxes = [];
    if (!picture) {
      this.root.append(svg("text", { x: width / 2, y: upper + 30, "text-anchor": "middle", fill: theme.soft, "font-size": 16 }, next));
      return;
    }
    this.bars.draw(picture, side, narrow ? under : upper - 10, theme);
    put(this.bars, width - side, narrow ? upper - under - 6 : 0);
    const charts: [ChartView, ChartSpec][] = [[this.loss, lossSpec(picture, runs, theme)], [this.strengths, strengthSpec(picture, runs, theme)]];
    const wide = stacked ? width : (width - 24) / 2;
    const tall = stacked ? (height - upper) / 2 : height - upper;
    charts.forEach(([view, spec], k) => {
      const [x, y] = stacked ? [0, upper + k * tall] : [k * (wide + 24), upper];
      view.draw(spec, wide, tall, theme);
      put(view, x, y);
      this.boxes.push({ view, x, y, h: tall });
    });
  }

  stream(runs: Run[], theme: Theme): void {
    if (!this.picture) return;
    this.loss.stream(lossSpec(this.picture, runs, theme).dots);
    this.strengths.stream(strengthSpec(this.picture, runs, theme).dots);
  }

  at(index: number, theme: Theme): void {
    if (!this.picture) return;
    this.network.at(this.picture, index, theme);
    this.bars.at(index);
    this.loss.at(index);
    this.strengths.at(index);
  }

  /** The place on the time axis under a point of the drawing, null outside of the charts. */
  placeAt(x: number, y: number): number | null {
    const box = this.boxes.find((b) => x >= b.x && x <= b.x + b.view.width && y >= b.y && y <= b.y + b.h);
    return box ? box.view.placeOf(x - box.x) : null;
  }
}

function lossSpec(picture: Picture, runs: Run[], theme: Theme): ChartSpec {
  const many = picture.lanes.length > 1;
  return {
    title: "loss", t: picture.t,
    curves: picture.lanes.map((lane, k) => ({ label: many ? lane.name : "theory", colour: lossColour(picture, k, theme), values: lane.loss })),
    thin: runs.filter((r) => r.theory).map((r) => ({ label: "", colour: lossColour(picture, r.lane, theme), values: r.loss })),
    dots: runs.filter((r) => !r.theory).map((r) => ({ colour: r.lane < 0 ? theme.ink : lossColour(picture, r.lane, theme), t: r.t, values: r.loss })),
    level: many ? { value: picture.level, label: "finishing line" } : undefined,
    dotsLabel: runs.some((r) => r.lane < 0) ? "ReLU networks" : runs.some((r) => !r.theory) ? "trained" : undefined,
  };
}

function strengthSpec(picture: Picture, runs: Run[], theme: Theme): ChartSpec {
  const racing = tracks(picture);
  const carried = (r: Run) => racing.filter((x) => x.lane === r.lane).map((x) => ({ label: "", colour: trackColour(picture, x, theme), t: r.t, values: r.carries[x.index] ?? [] }));
  return {
    title: picture.theory === "closed form" && picture.lanes[0].racers[0]?.name.startsWith("|") ? "squared distances" : "strength carried",
    t: picture.t,
    curves: racing.map((x) => ({ label: x.label, colour: trackColour(picture, x, theme), values: x.racer.carries })),
    thin: runs.filter((r) => r.theory).flatMap(carried),
    dots: runs.filter((r) => !r.theory).flatMap(carried),
  };
}
