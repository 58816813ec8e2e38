// Bars of the modes or pathways: the share of its task that each has learned at the time of the cursor.
import type { Theme } from "./colours.ts";
import type { Picture } from "./protocol.ts";
import { trackColour, tracks, type Track } from "./race.ts";
import { set, svg } from "./svg.ts";
import { heading } from "./words.ts";

interface Bar {
  track: Track;
  fill: SVGRectElement;
  value: SVGTextElement;
  place: SVGTextElement;
  rank: string;
}

const PLACES = ["1st", "2nd", "3rd"];
const SAME = 1.01; // ratio of times up to which two are level

export class BarsView {
  readonly root = svg("g");
  private bars: Bar[] = [];
  private width = 0;
  private picture: Picture | null = null;

  draw(picture: Picture, width: number, height: number, theme: Theme): void {
    this.root.replaceChildren();
    this.picture = picture;
    const racing = tracks(picture);
    const title = picture.theory === "closed form" ? "share of final value" : "share learned";
    this.root.append(heading(title, { x: 0, y: 16, fill: theme.soft }));
    const step = Math.min(54, (height - 26) / Math.max(racing.length, 1));
    const ranks = finish(racing, picture);
    this.width = width - 8;
    this.bars = racing.map((track, k) => {
      const y = 26 + k * step;
      const colour = trackColour(picture, track, theme);
      const tall = Math.max(6, Math.min(20, step - 24));
      const fill = svg("rect", { x: 0, y: y + step - tall - 6, width: 0, height: tall, rx: 3, fill: colour });
      const value = svg("text", { x: this.width, y: y + step - tall - 10, "text-anchor": "end", fill: theme.ink, "font-size": 12.5, "font-variant-numeric": "tabular-nums" });
      const place = svg("text", { x: this.width - 46, y: y + step - tall - 10, "text-anchor": "end", fill: theme.soft, "font-size": 12.5 });
      this.root.append(
        svg("rect", { x: 0, y: y + step - tall - 6, width: this.width, height: tall, rx: 3, fill: theme.faint }),
        fill, value, place,
        svg("text", { x: 0, y: y + step - tall - 10, fill: theme.ink, "font-size": 12.5, "font-weight": 600 }, fitting(track.label, this.width - 40)),
      );
      return { track, fill, value, place, rank: ranks[k] };
    });
  }

  at(index: number): void {
    const t = this.picture?.t[index] ?? 0;
    for (const bar of this.bars) {
      const share = bar.track.racer.share[index] ?? 0;
      set(bar.fill, { width: Math.max(0, Math.min(1, share)) * this.width });
      bar.value.textContent = `${Math.round(share * 100)}%`;
      const done = this.picture && finishTime(bar.track, this.picture);
      bar.place.textContent = done !== null && t >= done && bar.rank ? bar.rank : "";
    }
  }
}

/** A label, cut where it is longer than some room. */
function fitting(label: string, room: number): string {
  const most = Math.floor(room / 7.4);
  return label.length > most ? `${label.slice(0, most - 1)}…` : label;
}

/** A gating is there when its loss crosses the finishing line; a mode or pathway when it has half its strength. */
function finishTime(track: Track, picture: Picture): number | null {
  return picture.lanes.length > 1 ? picture.lanes[track.lane].learning_time : track.racer.half_time;
}

/** Who comes first, nothing where all are level, one alone runs, or pathways share a task: there who carries most wins. */
export function finish(racing: Track[], picture: Picture): string[] {
  if (picture.lanes.length === 1 && picture.racers_are === "pathways") return racing.map(() => "");
  const best = Math.max(...picture.lanes.flatMap((l) => l.racers.map((r) => r.share[r.share.length - 1])));
  const times = racing.map((x) => (x.racer.share[x.racer.share.length - 1] > 0.25 * best ? (finishTime(x, picture) ?? Infinity) : Infinity));
  const sorted = times.filter(Number.isFinite).sort((a, b) => a - b);
  const distinct = sorted.filter((t, k) => k === 0 || t > SAME * sorted[k - 1]);
  if (distinct.length < 2) return racing.map(() => "");
  const place = (t: number) => distinct.filter((d) => d <= t).length - 1;
  return times.map((t) => (Number.isFinite(t) ? (PLACES[place(t)] ?? `${place(t) + 1}th`) : ""));
}
