// Solves a reduced system: by the library's method of order 8, and where that becomes stiff by an implicit one.
import tableau from "../../src/neuralrace/dynamics/dormand_prince_8.json" with { type: "json" };
import type { Field, Vector } from "./system.ts";

export interface Point {
  t: number;
  loss: number;
  slope: number; // of the loss in time
}

export interface Solution {
  y: Vector[]; // at the times that were asked for
  loss: number[]; // there
  history: Point[]; // at steps of the solver and halfway between them
  end: Point;
  last: Vector; // the state at the end
  steps: number;
}

export interface Options {
  rtol: number;
  atol: number; // relative to the largest number of the start where that is below 1, as in the library
  stop: number; // loss at which the solution ends
}

export const FINE = { rtol: 1e-9, atol: 1e-11 };
export const ROUGH = { rtol: 1e-3, atol: 1e-5 }; // to find the end of the time axis
// As in the library (dynamics/constants.py):
const [SAFETY, SHORTEST, LONGEST] = [0.9, 0.2, 10]; // of a step, relative to what its error allows, and to the one before
const [FIRST_CHANGE, FIRST_FALL] = [0.01, 0.02]; // of the state and of the loss in the first step
const [EDGE, CALM, PATIENT] = [5, 6, 15]; // step times rate at the edge of stability, and steps inside or at it
const ORDER = 8;
const MOST_STEPS = 30_000;
const NUDGE = 1e-11; // of the largest number of a start: more than rounding
const [SAME, LITTLE] = [0.1, 1e-6]; // of what still changes, and of the whole change: losses that differ more part
const [PARTS, CLOSE] = [32, 1e-7]; // into how many a stretch of time is divided, until it is so short for its end
const ROWS = 6; // of the extrapolation: the order of an implicit step

interface Attempt {
  y: Vector;
  error: number; // estimated, in tolerances
  rate: number; // of the fastest mode
  inside: ((x: number) => Vector) | null; // the state at a fraction of the step
}

/** y + h sum_k row_k v_k */
function moved(y: Vector, h: number, row: number[], v: Vector[]): Vector {
  const found = y.slice();
  for (let k = 0; k < v.length; k++) if (row[k]) for (let i = 0; i < y.length; i++) found[i] += h * row[k] * v[k][i];
  return found;
}

function size(v: Vector): number {
  return Math.sqrt(v.reduce((total, x) => total + x * x, 0) / v.length);
}

/** An estimated error in tolerances. */
function tolerances(error: Vector, y: Vector, end: Vector, rtol: number, atol: number): number {
  return size(error.map((e, i) => e / (atol + rtol * Math.max(Math.abs(y[i]), Math.abs(end[i])))));
}

/** The explicit method of Dormand and Prince: its last stage is the end of the step. */
function explicit(field: Field, y: Vector, v: Vector, h: number, rtol: number, atol: number): Attempt {
  const zero = new Float64Array(y.length);
  const [last, stages, speeds] = [tableau.a.length - 1, [y], [v]];
  for (let k = 1; k <= last; k++) {
    stages.push(moved(y, h, tableau.a[k], speeds));
    speeds.push(field.at(stages[k]).v);
  }
  const apart = (of: Vector[]) => size(of[last - 1].map((x, i) => x - of[last - 2][i])); // two stages, both at the end
  return {
    y: stages[last],
    error: tolerances(moved(zero, h, tableau.error, speeds), y, stages[last], rtol, atol),
    rate: apart(speeds) / apart(stages),
    inside: (x) => moved(y, h, tableau.curve.map((row) => row.reduce((sum, c, p) => sum + c * x ** (p + 1), 0)), speeds),
  };
}

/** Linearly implicit Euler steps, 1 to 6 of them, extrapolated to none of any length (Deuflhard 1985). */
function implicit(field: Field, y: Vector, v: Vector, h: number, rtol: number, atol: number): Attempt {
  const jacobian = field.jacobian(y);
  const rows: Vector[][] = [];
  for (let count = 1; count <= ROWS; count++) {
    const solve = factorised(jacobian, h / count);
    let z = y;
    for (let k = 0; k < count; k++) {
      const step = solve(k ? field.at(z).v : v);
      z = z.map((x, i) => x + (h / count) * step[i]);
    }
    const row = [z];
    for (let k = 1; k < count; k++) {
      const before = rows[count - 2][k - 1];
      row.push(row[k - 1].map((x, i) => x + (x - before[i]) / (count / (count - k) - 1)));
    }
    rows.push(row);
  }
  const [end, less] = [rows[ROWS - 1][ROWS - 1], rows[ROWS - 1][ROWS - 2]];
  const rate = Math.max(...jacobian.map((row) => row.reduce((total, x) => total + Math.abs(x), 0)));
  return { y: end, error: tolerances(end.map((x, i) => x - less[i]), y, end, rtol, atol), rate, inside: null };
}

/** Solves (1 - h J) x = b for any b, by elimination with pivots. */
function factorised(jacobian: Vector[], h: number): (b: Vector) => Vector {
  const n = jacobian.length;
  const rows = jacobian.map((row, i) => row.map((x, j) => (i === j ? 1 : 0) - h * x));
  const order = rows.map((_, i) => i);
  for (let k = 0; k < n; k++) {
    let pivot = k;
    for (let i = k + 1; i < n; i++) if (Math.abs(rows[i][k]) > Math.abs(rows[pivot][k])) pivot = i;
    [rows[k], rows[pivot]] = [rows[pivot], rows[k]];
    [order[k], order[pivot]] = [order[pivot], order[k]];
    for (let i = k + 1; i < n; i++) {
      const factor = (rows[i][k] /= rows[k][k]);
      if (factor) for (let j = k + 1; j < n; j++) rows[i][j] -= factor * rows[k][j];
    }
  }
  return (b) => {
    const x = Float64Array.from(order, (i) => b[i]);
    for (let i = 0; i < n; i++) for (let j = 0; j < i; j++) x[i] -= rows[i][j] * x[j];
    for (let i = n - 1; i >= 0; i--) {
      for (let j = i + 1; j < n; j++) x[i] -= rows[i][j] * x[j];
      x[i] /= rows[i][i];
    }
    return x;
  };
}

/** Steps from a start to the last of some increasing times, or until the loss is `stop`. */
function follow(field: Field, start: Vector, times: number[], { rtol, atol, stop }: Options): Solution {
  const t1 = times[times.length - 1];
  const tight = atol * Math.min(1, Math.max(...start.map(Math.abs)) || 1);
  let [t, y, here] = [0, start, field.at(start)];
  const history: Point[] = [{ t, loss: here.loss, slope: here.slope }];
  const found: Vector[] = times.filter((time) => time <= 0).map(() => start);
  let h = firstStep(y, here, t1, rtol, tight);
  let [steps, atEdge, calm, patience] = [0, 0, 0, PATIENT];
  while (t < t1 && here.loss > stop) {
    if (++steps > MOST_STEPS) throw new Error(`the solver took ${MOST_STEPS} steps and came to t = ${t.toPrecision(3)}`);
    const stiff = atEdge >= patience;
    const due = stiff ? times[found.length] : t1; // an implicit step has no interpolant: it ends at times that are asked for
    const length = Math.min(h, due - t);
    const tried = (stiff ? implicit : explicit)(field, y, here.v, length, rtol, tight);
    const accepted = tried.error <= 1;
    const factor = SAFETY * Math.max(tried.error, 1e-20) ** (-1 / (stiff ? ROWS : ORDER));
    const next = length * (Number.isFinite(factor) ? Math.max(SHORTEST, Math.min(factor, accepted ? LONGEST : 1)) : SHORTEST);
    const cut = accepted && length < h; // by a time that was asked for, not by its error
    h = cut ? Math.max(h, next) : next;
    if (!accepted) {
      if (t + 0.1 * h <= t) throw new Error(`the solver could not go on from t = ${t.toPrecision(3)}`);
      continue;
    }
    const edge = length * tried.rate > EDGE;
    calm = edge ? 0 : calm + 1;
    if (edge && !stiff) atEdge++;
    else if (calm >= CALM) {
      if (stiff) patience *= 2;
      atEdge = 0;
    }
    let end = length === due - t ? due : t + length;
    let [state, now] = [tried.y, field.at(tried.y)];
    if (now.loss <= stop && tried.inside) {
      const share = crossing((x) => field.at(tried.inside!(x)).loss, stop);
      [end, state] = [t + share * length, tried.inside(share)];
      now = field.at(state);
    } else if (tried.inside) {
      const half = field.at(tried.inside(0.5));
      history.push({ t: t + length / 2, loss: half.loss, slope: half.slope });
    }
    history.push({ t: end, loss: now.loss, slope: now.slope });
    while (found.length < times.length && times[found.length] <= end) {
      const time = times[found.length];
      found.push(tried.inside && time < end ? tried.inside((time - t) / length) : state);
    }
    [t, y, here] = [end, state, now];
    if (now.loss <= stop) break;
  }
  while (found.length < times.length) found.push(y); // nothing changes any more
  return { y: found, loss: found.map((state) => Math.max(0, field.at(state).loss)), history, end: { t, loss: here.loss, slope: here.slope }, last: y, steps };
}

/**
 * A system from its start, at some increasing times, until the last of them or until its loss is `stop`. Coupled modes
 * stay at a saddle that they would leave by rounding, as in the library (reduction/solve.py).
 */
export function solve(field: Field, start: Vector, times: number[], options: Options): Solution {
  const found = follow(field, start, times, options);
  if (!field.coupled) return found;
  const most = Math.max(...start.map(Math.abs));
  const nudged = start.map((x, i) => x + NUDGE * most * Math.sin(1 + 2 * i)); // in no direction of its own
  const t1 = times[times.length - 1];
  const until = parting(found.history, follow(field, nudged, [0, t1], options).history);
  if (until === Infinity) return found;
  const held = follow(field, start, [...times.map((t) => Math.min(t, until)), until], options);
  const end = { t: t1, loss: held.end.loss, slope: 0 };
  return { ...held, y: held.y.slice(0, -1), loss: held.loss.slice(0, -1), history: [...held.history, end], end };
}

/** The time until which two losses are the same; infinite if they always are. */
function parting(one: Point[], other: Point[]): number {
  const last = Math.min(one[one.length - 1].t, other[other.length - 1].t);
  const t = [...one, ...other].map((p) => p.t).filter((x) => x <= last).sort((a, b) => a - b);
  const [a, b] = [one, other].map((history) => lossesAt(history, t));
  const still = new Float64Array(t.length);
  let [high, low] = [-Infinity, Infinity];
  for (let k = t.length - 1; k >= 0; k--) {
    [high, low] = [Math.max(high, a[k], b[k]), Math.min(low, a[k], b[k])];
    still[k] = high - low;
  }
  const k = t.findIndex((_, i) => Math.abs(a[i] - b[i]) > SAME * still[i] + LITTLE * still[0]);
  return k < 0 ? Infinity : t[Math.max(k - 1, 0)];
}

function lossesAt(history: Point[], times: number[]): number[] {
  let k = 1;
  return times.map((t) => {
    while (k < history.length - 1 && history[k].t < t) k++;
    const [a, b] = [history[k - 1], history[k]];
    return b.t > a.t ? between(a, b, Math.max(0, Math.min(1, (t - a.t) / (b.t - a.t)))) : b.loss;
  });
}

function firstStep(y: Vector, here: { v: Vector; loss: number; slope: number }, t1: number, rtol: number, atol: number): number {
  const speed = size(here.v.map((x, i) => x / (atol + rtol * Math.abs(y[i]))));
  const h = speed > 0 ? FIRST_CHANGE / rtol / speed : t1;
  return here.slope < 0 ? Math.min(h, Math.max((FIRST_FALL * here.loss) / -here.slope, 1e-12 * t1)) : h;
}

/** Where a falling function of a fraction comes to a level, by bisection. */
function crossing(value: (x: number) => number, level: number): number {
  let [low, high] = [0, 1];
  for (let k = 0; k < 50; k++) {
    const middle = (low + high) / 2;
    if (value(middle) > level) low = middle;
    else high = middle;
  }
  return high;
}

/** The loss between two points, by the cubic through their values and slopes. */
function between(a: Point, b: Point, x: number): number {
  const bend = (b.t - a.t) * x * (1 - x) * ((1 - x) * a.slope - x * b.slope);
  return (1 + 2 * x) * (1 - x) ** 2 * a.loss + x * x * (3 - 2 * x) * b.loss + bend;
}

/**
 * When a number that is read off the state passes a level between two times, from the state at the first one: the
 * times between which it does are looked at closer and closer.
 */
export function passing(field: Field, start: Vector, [from, to]: [number, number], past: (y: Vector) => boolean, stop: number): number {
  let [t, y, length] = [from, start, to - from];
  while (length > CLOSE * to) {
    const inside = Array.from({ length: PARTS }, (_, k) => (length * (k + 1)) / PARTS);
    const states = follow(field, y, inside, { ...FINE, stop }).y;
    const k = states.findIndex(past);
    if (k < 0) return t + length; // by rounding
    if (k > 0) [t, y] = [t + inside[k - 1], states[k - 1]];
    length /= PARTS;
  }
  return t + length / 2;
}

/** The first time at which the loss of a history is at or below a level; null if never. */
export function learningTime(history: Point[], level: number): number | null {
  const k = history.findIndex((point) => point.loss <= level + 1e-12 * Math.abs(level));
  if (k <= 0) return k ? null : history[0].t;
  const [a, b] = [history[k - 1], history[k]];
  return a.t + crossing((x) => between(a, b, x), level) * (b.t - a.t);
}
