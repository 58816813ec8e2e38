// A race as the page holds it: the picture of theory, the networks that stream in, and who has which colour.
import { classColour, rampColour, type Theme } from "./colours.ts";
import type { Lane, Picture, Predicted, Racer, Simulated } from "./protocol.ts";

export interface Track {
  lane: number;
  racer: Racer;
  index: number; // of the racer in its lane
  label: string;
}

export interface Run {
  lane: number;
  run: number; // of the random start
  t: number[];
  loss: number[];
  carries: number[][];
  theory?: boolean; // of another random start than the one that is drawn
}

/** All racers; in a race of gatings one for each lane, as its pathways are alike. */
export function tracks(picture: Picture): Track[] {
  const many = picture.lanes.length > 1;
  return picture.lanes.flatMap((lane, k) =>
    (many ? lane.racers.slice(0, 1) : lane.racers).map((racer, index) => ({
      lane: k, racer, index, label: many ? `${lane.name} gating` : racer.name,
    })),
  );
}

export function groupColour(picture: Picture, lane: number, group: number, theme: Theme): string {
  const before = picture.lanes.slice(0, lane).reduce((n, l) => n + l.groups.length, 0);
  return classColour(before + group, theme);
}

/** Pathways have the colour of the class of edges that is theirs alone; modes that of a ramp. */
export function trackColour(picture: Picture, track: Track, theme: Theme): string {
  const lane = picture.lanes[track.lane];
  if (picture.lanes.length > 1) return groupColour(picture, track.lane, 0, theme);
  if (picture.racers_are === "modes") return rampColour(track.index, lane.racers.length, theme);
  if (lane.groups.length === 1) return groupColour(picture, track.lane, 0, theme);
  const own = ownGroup(lane, track.racer);
  return own === null ? classColour(track.index, theme) : groupColour(picture, track.lane, own, theme);
}

function ownGroup(lane: Lane, racer: Racer): number | null {
  const edges = new Set(racer.edges);
  const k = lane.groups.findIndex((g) => g.edges.every((e) => edges.has(e)));
  return k < 0 ? null : k;
}

export function lossColour(picture: Picture, lane: number, theme: Theme): string {
  return picture.lanes.length > 1 ? groupColour(picture, lane, 0, theme) : theme.ink;
}

/** Networks that are trained beside a picture, and theory of the random starts that the picture does not draw. */
export class Runs {
  private found = new Map<string, Run>();
  private lines: Run[] = [];
  id = -1;

  add(message: Simulated): void {
    if (message.id !== this.id) {
      this.found.clear();
      this.id = message.id;
    }
    const key = `${message.lane}/${message.run}`;
    if (message.t[0] === 0) this.found.delete(key); // a process that ended begins again
    const run = this.found.get(key) ?? { lane: message.lane, run: message.run, t: [], loss: [], carries: message.carries.map(() => []) };
    const from = run.t.length && message.t[0] <= run.t[run.t.length - 1] ? 1 : 0; // stretches may share their ends
    run.t.push(...message.t.slice(from));
    run.loss.push(...message.loss.slice(from));
    message.carries.forEach((c, k) => run.carries[k].push(...c.slice(from)));
    this.found.set(key, run);
  }

  predict({ lane, run, loss, carries }: Predicted, picture: Picture): void {
    this.lines.push({ lane, run, t: picture.t, loss, carries, theory: true });
  }

  clear(): void {
    this.found.clear();
    this.lines = [];
    this.id = -1;
  }

  /** The largest difference of losses of networks from theory of their own start, as a share of the first loss. */
  difference(picture: Picture): number {
    let most = 0;
    for (const found of this.found.values()) {
      const line = found.run ? this.lines.find((l) => l.lane === found.lane && l.run === found.run) : picture.lanes[found.lane];
      const at = new Map(picture.t.map((t, i) => [t, line?.loss[i] ?? NaN]));
      found.t.forEach((t, i) => (most = Math.max(most, Math.abs(found.loss[i] - at.get(t)!) / found.loss[0])));
    }
    return most;
  }

  all(): Run[] {
    return [...this.lines, ...this.found.values()];
  }
}

/** Curves as a table: time, loss of each lane, what each racer carries, and the networks (empty where not saved). */
export function toCsv(picture: Picture, runs: Run[]): string {
  const names = ["t"];
  const columns: (number | "")[][] = [picture.t];
  for (const lane of picture.lanes) {
    const prefix = picture.lanes.length > 1 ? `${lane.name} ` : "";
    names.push(`${prefix}loss`, ...lane.racers.map((r) => `${prefix}${r.name}`));
    columns.push(lane.loss, ...lane.racers.map((r) => r.carries));
  }
  const counts = { theory: 0, trained: 0 };
  for (const run of runs) {
    const at = new Map(run.t.map((t, i) => [t, run.loss[i]]));
    names.push(run.theory ? `other start ${++counts.theory} loss` : `trained ${++counts.trained} loss`);
    columns.push(picture.t.map((t) => at.get(t) ?? ""));
  }
  const quoted = names.map((n) => (/[",]/.test(n) ? `"${n.replaceAll('"', '""')}"` : n));
  return [quoted.join(","), ...picture.t.map((_, i) => columns.map((c) => c[i]).join(","))].join("\n") + "\n";
}
