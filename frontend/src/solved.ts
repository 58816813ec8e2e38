// The picture of a scene at any values of its live sliders: its systems solved, on one time axis, and who wins.
import type { Details, Group, Lane, LaneDetails, Picture, Racer, Rules, SavedLane, System, Systems } from "./protocol.ts";
import { FINE, ROUGH, learningTime, solve, type Point, type Solution } from "./solver.ts";
import { Field, read, type Vector } from "./system.ts";
import { shown } from "./ticks.ts";

type Values = Record<string, number>;

const FOREVER = 1e15; // in times of the strongest correlation
const SAME_REST = 1e-3; // relative difference of losses that are one saddle

/** One network, with the system that is drawn and how that of the papers ended. */
interface Chosen {
  lane: SavedLane;
  system: System;
  start: Vector;
  settled: number; // time at which it has learned what it learns
  last: number; // loss for ever
  left: string; // how the papers' family ended, where a wider one is drawn instead
}

/** The picture and what is said of it at some values of the sliders; `time` among them is the end of the axis. */
export function solved({ lanes: given, live, rules, ...systems }: Systems, values: Values, id: number): [Picture, Details] {
  const began = performance.now();
  const chosen = given.map((lane) => choose(lane, live, rules, values));
  const end = values.time ?? (Number((rules.longer * Math.max(...chosen.map((c) => c.settled))).toPrecision(2)) || 10 * Math.max(...chosen.map((c) => c.system.fastest)));
  const t = Array.from({ length: rules.times }, (_, k) => (end * k) / (rules.times - 1));
  const solutions = chosen.map((c) => solve(new Field(c.system), c.start, t, { ...FINE, stop: c.system.settled }));
  const final = Math.min(...solutions.map((s) => s.loss[s.loss.length - 1]));
  const level = final + systems.level * (Math.max(...solutions.map((s) => s.loss[0])) - final);
  const lanes = chosen.map((c, k) => drawnLane(c, solutions[k], t, level, rules));
  const largest = Math.max(...lanes.flatMap((lane) => lane.groups.flatMap((g) => g.strength))) || 1;
  for (const lane of lanes) for (const group of lane.groups) group.strength = group.strength.map((x) => x / largest);
  const seconds = (performance.now() - began) / 1000;
  const picture: Picture = {
    kind: "picture", id, t, level, largest, lanes, racers_are: systems.pathways ? "pathways" : "modes",
    winner: winner(lanes, rules), theory: "reduction", networks: 0, seconds,
  };
  const said = chosen.map((c, k) => ({ ...c.system.said, badge: badge(c, solutions[k].end) }));
  return [picture, { kind: "details", id, lanes: said, similarity_at: [], similarity: [], race: [], wins: [] }];
}

function startOf(system: System, live: Values, values: Values): Vector {
  const shares = Object.keys(system.powers).map((name) => [name, (values[name] ?? live[name]) / live[name]] as const);
  return Float64Array.from(system.start, (x, i) => shares.reduce((start, [name, share]) => start * share ** system.powers[name][i], x));
}

/** The system of the papers, or the wider one where that does not learn all and there is one. */
function choose(lane: SavedLane, live: Values, rules: Rules, values: Values): Chosen {
  let left = "";
  let found: Chosen | null = null;
  for (const system of lane.systems) {
    if (found && !left) break;
    const start = startOf(system, live, values);
    const rough = solve(new Field(system), start, [0, FOREVER * system.fastest], { ...ROUGH, stop: system.complete });
    found = { lane, system, start, settled: settledTime(rough, system, rules), last: rough.end.loss, left };
    left = rough.end.loss <= system.complete ? "" : ended(system, rough.end);
  }
  return found!;
}

/** Time at which all but little is learned of what is learned. */
function settledTime({ history, end }: Solution, system: System, rules: Rules): number {
  if (end.loss <= system.complete) return end.t;
  const last = Math.min(...history.map((p) => p.loss));
  return learningTime(history, last + rules.learned * (history[0].loss - last)) ?? 0;
}

/** How a system ended that did not learn all, in the library's words where it saw this end. */
function ended(system: System, end: Point): string {
  if (system.rest !== null && Math.abs(end.loss - system.rest) <= SAME_REST * system.rest) return system.why;
  if (-end.slope * end.t > end.loss - system.attainable) return `not settled: ${bound(system, end)}; the loss still falls`;
  return `at rest: ${bound(system, end)}; whether networks leave is not known on this page`;
}

function bound(system: System, end: Point): string {
  return `loss ${shown(end.loss, 4)}, no weights go below ${shown(system.attainable, 4)}`;
}

function badge({ system, left, last }: Chosen, end: Point): LaneDetails["badge"] {
  const said = { ...system.said.badge };
  const cut = end.loss - last > SAME_REST * end.loss; // by the end of the axis
  if (!cut && end.loss > system.complete && !(end.loss <= system.complete * (1 + SAME_REST))) {
    const how = ended(system, end);
    return { verdict: "inexact", title: `≈ ${how}`, words: `${how}. ${said.words}` };
  }
  if (left) {
    const does = left.startsWith("saddle") ? "rests at a saddle" : "does not learn all";
    said.title = `The papers' family ${does} here; shown is a family with ${system.directions} directions per mode`;
    said.words = `The papers' family: ${left}. Shown: ${said.words}`;
  }
  if (cut) said.words += ` At the end of the axis: not settled at t = ${shown(end.t)}: ${bound(system, end)}.`;
  return said;
}

// -- as in laboratory/theory.py -----------------------------------------------------------------

function drawnLane({ lane, system }: Chosen, solution: Solution, t: number[], level: number, rules: Rules): Lane {
  const groups: Group[] = lane.groups.map((edges, k) => ({ edges, strength: solution.y.map((y) => read(system.groups[k], y)) }));
  const carries = system.racers.map((racer) => solution.y.map((y) => read(racer, y)));
  const most = Math.max(...carries.flatMap((c) => c.map(Math.abs)));
  const racers = lane.racers.map(([name, edges], k) => {
    const last = carries[k][carries[k].length - 1];
    return drawnRacer(name, edges, carries[k], system.goals[k] ?? Math.sign(last) * most, t, rules);
  });
  return { name: lane.name, nodes: lane.nodes, edges: lane.edges, groups, racers, loss: solution.loss, learning_time: learningTime(solution.history, level) };
}

function drawnRacer(name: string, edges: string[], carries: number[], goal: number, t: number[], rules: Rules): Racer {
  const share = Math.abs(goal) > 1e-9 ? carries.map((c) => c / goal) : carries;
  const learns = share[share.length - 1] - share[0] > rules.share; // what decays has no half time
  return { name, carries, share, half_time: learns ? halfTime(t, carries) : null, edges };
}

/** When a curve has gone half of its way, linear between times. */
function halfTime(t: number[], curve: number[]): number | null {
  const way = curve[curve.length - 1] - curve[0];
  const share = (k: number) => (curve[k] - curve[0]) / way;
  const k = curve.findIndex((_, i) => share(i) >= 0.5);
  return k <= 0 ? null : t[k - 1] + ((0.5 - share(k - 1)) / (share(k) - share(k - 1))) * (t[k] - t[k - 1]);
}

function winner(lanes: Lane[], rules: Rules): string | null {
  if (lanes.length > 1) {
    const done = lanes.filter((lane) => lane.learning_time !== null);
    return done.sort((a, b) => a.learning_time! - b.learning_time!)[0]?.name ?? null;
  }
  const racers = lanes[0].racers;
  const done = racers.filter((r) => r.half_time !== null);
  const end = (r: Racer) => r.share[r.share.length - 1];
  const most = Math.max(...done.map(end));
  const best = done.filter((r) => end(r) > most - rules.share).sort((a, b) => a.half_time! - b.half_time!);
  if (racers.length < 2 || !best.length) return null;
  return best.length > 1 && best[1].half_time! < (1 + rules.time) * best[0].half_time! ? null : best[0].name;
}
