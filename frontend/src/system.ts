// A reduced system as the library describes it: its loss is a quadratic in sums of products of its numbers.
import type { Gauge, System } from "./protocol.ts";

export type Vector = Float64Array;

/** A product of numbers of the state: a coefficient, and places with their powers. */
interface Product {
  sum: number; // the sum that it is part of
  coefficient: number;
  factors: [place: number, power: number][];
}

function factored(places: number[]): Product["factors"] {
  const powers = new Map<number, number>();
  for (const place of places) powers.set(place, (powers.get(place) ?? 0) + 1);
  return [...powers];
}

/** The derivative of a product by the numbers at some of its places, none of them for the product itself. */
function derivative(factors: Product["factors"], y: Vector, ...by: number[]): number {
  let value = 1;
  for (const [place, power] of factors) {
    let left = power;
    for (const other of by) if (other === place) value *= left--;
    if (left > 0) value *= left === 1 ? y[place] : y[place] ** left;
  }
  return value;
}

/** The equations of motion of a system: `dy/dt = -speed (dL/dy + decay y)`, with `L = constant - s u + u D u / 2`. */
export class Field {
  readonly n: number;
  readonly coupled: boolean;
  private products: Product[];
  private places: number[][]; // of the numbers in each sum

  private system: System;

  constructor(system: System) {
    this.system = system;
    this.n = system.speed.length;
    this.coupled = system.coupled;
    this.products = system.sums.flatMap((terms, sum) => terms.map(([coefficient, places]) => ({ sum, coefficient, factors: factored(places) })));
    this.places = system.sums.map((terms) => [...new Set(terms.flatMap(([, places]) => places))]);
  }

  private sums(y: Vector): Vector {
    const u = new Float64Array(this.system.sums.length);
    for (const { sum, coefficient, factors } of this.products) u[sum] += coefficient * derivative(factors, y);
    return u;
  }

  /** D u: what the sums carry of each other's inputs. */
  private carriedBy(u: Vector): Vector {
    const found = new Float64Array(u.length);
    for (const [p, q, value] of this.system.d) found[p] += value * u[q];
    return found;
  }

  /** The velocity at y, the loss, and the slope of the loss in time. */
  at(y: Vector): { v: Vector; loss: number; slope: number } {
    const { s, speed, decay, constant } = this.system;
    const u = this.sums(y);
    const carried = this.carriedBy(u);
    const loss = u.reduce((total, x, p) => total + (carried[p] / 2 - s[p]) * x, constant);
    const gradient = new Float64Array(this.n);
    for (const { sum, coefficient, factors } of this.products)
      for (const [place] of factors) gradient[place] += coefficient * (carried[sum] - s[sum]) * derivative(factors, y, place);
    const v = gradient.map((g, i) => -speed[i] * (g + decay[i] * y[i]));
    return { v, loss, slope: gradient.reduce((total, g, i) => total + g * v[i], 0) };
  }

  /** The derivative of the velocity by the state, row by row. */
  jacobian(y: Vector): Vector[] {
    const { s, d, speed, decay } = this.system;
    const carried = this.carriedBy(this.sums(y));
    const found = Array.from({ length: this.n }, () => new Float64Array(this.n));
    const slopes = this.system.sums.map(() => new Float64Array(this.n)); // of the sums
    for (const { sum, coefficient, factors } of this.products)
      for (const [i] of factors) {
        slopes[sum][i] += coefficient * derivative(factors, y, i);
        for (const [j, power] of factors) if (i !== j || power > 1) found[i][j] += coefficient * (carried[sum] - s[sum]) * derivative(factors, y, i, j);
      }
    for (const [p, q, value] of d) for (const i of this.places[p]) for (const j of this.places[q]) found[i][j] += value * slopes[p][i] * slopes[q][j];
    found.forEach((row, i) => {
      row[i] += decay[i];
      for (let j = 0; j < this.n; j++) row[j] *= -speed[i];
    });
    return found;
  }
}

/** What a gauge reads off a state: one sum with its sign, or the root of the weighted sum of squares of several. */
export function read(gauge: Gauge, y: Vector): number {
  const values = gauge.parts.map(([, terms]) => terms.reduce((total, [c, places]) => total + c * derivative(factored(places), y), 0));
  if (gauge.signed) return values[0];
  return Math.sqrt(values.reduce((total, x, k) => total + gauge.parts[k][0] * x * x, 0));
}
