// A network of one's own, changed step by step: every change gives a new network, or the reason why not.
import { pathBetween, type Link } from "./layout.ts";
import { MAX_CONTEXTS, MAX_EDGES, MAX_NODES, MAX_NUMBERS, MAX_SIZE, type Drawn } from "./protocol.ts";

export class Refusal extends Error {}

export function emptyDrawn(): Drawn {
  return { nodes: [], edges: [], contexts: 1, gates: {}, data: { kind: "world", name: "hierarchy", size: 3, targets: "same" }, strengths: {} };
}

export function edgeName(source: string, target: string): string {
  return `${source}->${target}`;
}

export function links(drawn: Drawn): Link[] {
  return drawn.edges.map((e) => ({ ...e, name: edgeName(e.source, e.target) }));
}

export function inputs(drawn: Drawn): string[] {
  const targets = new Set(drawn.edges.map((e) => e.target));
  return drawn.nodes.map((n) => n.name).filter((n) => !targets.has(n));
}

export function outputs(drawn: Drawn): string[] {
  const sources = new Set(drawn.edges.map((e) => e.source));
  return drawn.nodes.map((n) => n.name).filter((n) => !sources.has(n));
}

/** Data that are too large for a message are refused before they are sent. */
export function checkSize(drawn: Drawn): Drawn {
  if (drawn.data.kind !== "samples") return drawn;
  const tables = [...Object.values(drawn.data.inputs), ...Object.values(drawn.data.targets)];
  const numbers = tables.reduce((n, rows) => n + rows.length * (rows[0]?.length ?? 0), 0);
  if (numbers > MAX_NUMBERS)
    throw new Refusal(`inputs and outputs get ${numbers.toLocaleString("en")} numbers in all; the page takes ${MAX_NUMBERS.toLocaleString("en")}: use neuralrace reduce`);
  return drawn;
}

/** The first layers are x and y, then h1, h2, ... */
export function addNode(drawn: Drawn): Drawn {
  if (drawn.nodes.length >= MAX_NODES) throw new Refusal(`there can be ${MAX_NODES} layers`);
  const taken = new Set(drawn.nodes.map((n) => n.name));
  let name = ["x", "y"].find((n) => !taken.has(n)) ?? "";
  for (let k = 1; !name; k++) if (!taken.has(`h${k}`)) name = `h${k}`;
  return { ...drawn, nodes: [...drawn.nodes, { name, size: 16 }] };
}

/** Connect two layers, or disconnect them where they are connected. */
export function toggleEdge(drawn: Drawn, source: string, target: string): Drawn {
  if (source === target) throw new Refusal(`${source} cannot be connected with itself: that would be a cycle`);
  if (drawn.edges.some((e) => e.source === source && e.target === target)) return removeEdge(drawn, source, target);
  const back = pathBetween(target, source, links(drawn));
  if (back) throw new Refusal(`${source} → ${target} would close a cycle: ${[...back, target].join(" → ")}`);
  if (drawn.edges.length >= MAX_EDGES) throw new Refusal(`there can be ${MAX_EDGES} edges`);
  return { ...drawn, edges: [...drawn.edges, { source, target, fixed: null }] };
}

export function removeEdge(drawn: Drawn, source: string, target: string): Drawn {
  const edges = drawn.edges.filter((e) => e.source !== source || e.target !== target);
  const alone = [source, target].filter((n) => !edges.some((e) => e.source === n || e.target === n));
  if (alone.length && edges.length) throw new Refusal(`without ${edgeName(source, target)} no path reaches ${alone.join(" and ")}; delete the layer instead`);
  return { ...drawn, edges, gates: without(drawn.gates, [edgeName(source, target)]) };
}

export function removeNode(drawn: Drawn, name: string): Drawn {
  const gone = drawn.edges.filter((e) => e.source === name || e.target === name).map((e) => edgeName(e.source, e.target));
  return {
    ...drawn,
    nodes: drawn.nodes.filter((n) => n.name !== name),
    edges: drawn.edges.filter((e) => e.source !== name && e.target !== name),
    gates: without(drawn.gates, [name, ...gone]),
  };
}

export function rename(drawn: Drawn, from: string, to: string): Drawn {
  if (from === to) return drawn;
  if (!/^[^\s"'<>&\\{}[\],:#]{1,40}$/.test(to)) throw new Refusal(`a name has 1 to 40 letters, digits or signs, no spaces; got “${to}”`);
  if (drawn.nodes.some((n) => n.name === to)) throw new Refusal(`there is a layer ${to} already`);
  const other = (n: string) => (n === from ? to : n);
  const gates: Drawn["gates"] = {};
  for (const [key, value] of Object.entries(drawn.gates)) {
    const edge = drawn.edges.find((e) => edgeName(e.source, e.target) === key);
    gates[edge ? edgeName(other(edge.source), other(edge.target)) : other(key)] = value;
  }
  const data = drawn.data.kind === "world" ? drawn.data : { ...drawn.data, inputs: renamed(drawn.data.inputs, other), targets: renamed(drawn.data.targets, other) };
  return {
    ...drawn, gates, data,
    nodes: drawn.nodes.map((n) => ({ ...n, name: other(n.name) })),
    edges: drawn.edges.map((e) => ({ ...e, source: other(e.source), target: other(e.target) })),
  };
}

export function resize(drawn: Drawn, name: string, size: number): Drawn {
  if (!Number.isInteger(size) || size < 1 || size > MAX_SIZE) throw new Refusal(`a layer has 1 to ${MAX_SIZE} neurons`);
  return { ...drawn, nodes: drawn.nodes.map((n) => (n.name === name ? { ...n, size } : n)) };
}

export function setContexts(drawn: Drawn, count: number): Drawn {
  if (count < 1 || count > MAX_CONTEXTS) throw new Refusal(`there can be 1 to ${MAX_CONTEXTS} contexts`);
  const gates: Drawn["gates"] = {};
  for (const [name, row] of Object.entries(drawn.gates)) gates[name] = Array.from({ length: count }, (_, k) => row[k] ?? 1);
  return { ...drawn, contexts: count, gates };
}

export function toggleGate(drawn: Drawn, name: string, context: number): Drawn {
  const row = drawn.gates[name] ?? Array(drawn.contexts).fill(1);
  const changed = row.map((g, k) => (k === context ? (g ? 0 : 1) : g));
  return { ...drawn, gates: changed.every((g) => g === 1) ? without(drawn.gates, [name]) : { ...drawn.gates, [name]: changed } };
}

/** What is missing before the network can be solved; null where nothing is. */
export function missing(drawn: Drawn): string | null {
  if (drawn.nodes.length < 2) return "Add layers: the first is the input x, the second the output y.";
  if (!drawn.edges.length) return "Connect layers: drag from one to another, or select one and press Connect.";
  const alone = drawn.nodes.filter((n) => !drawn.edges.some((e) => e.source === n.name || e.target === n.name)).map((n) => n.name);
  if (alone.length) return `Connect ${alone.join(" and ")}: no path reaches ${alone.length > 1 ? "them" : "it"} yet.`;
  return null;
}

function without<T>(table: Record<string, T>, names: string[]): Record<string, T> {
  return Object.fromEntries(Object.entries(table).filter(([k]) => !names.includes(k)));
}

function renamed<T>(table: Record<string, T>, other: (n: string) => string): Record<string, T> {
  return Object.fromEntries(Object.entries(table).map(([k, v]) => [other(k), v]));
}

/** What was, is and will be: undo and redo. */
export class History<T> {
  private past: T[] = [];
  private future: T[] = [];
  now: T;
  constructor(first: T) {
    this.now = first;
  }

  change(next: T): void {
    this.past.push(this.now);
    if (this.past.length > 200) this.past.shift();
    this.now = next;
    this.future = [];
  }

  undo(): boolean {
    const before = this.past.pop();
    if (before === undefined) return false;
    this.future.push(this.now);
    this.now = before;
    return true;
  }

  redo(): boolean {
    const after = this.future.pop();
    if (after === undefined) return false;
    this.past.push(this.now);
    this.now = after;
    return true;
  }

  get canUndo(): boolean {
    return this.past.length > 0;
  }

  get canRedo(): boolean {
    return this.future.length > 0;
  }
}
