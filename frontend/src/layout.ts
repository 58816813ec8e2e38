// A layered drawing of a graph: columns by longest path from an input, rows ordered to keep edges short.

export interface Link {
  name: string;
  source: string;
  target: string;
}

export interface Place {
  x: number; // 0 to 1, left to right
  y: number; // 0 to 1, top to bottom
}

/** Column of every node; throws where there is a cycle. */
export function columns(nodes: string[], edges: Link[]): Map<string, number> {
  const into = new Map(nodes.map((n) => [n, [] as string[]]));
  for (const e of edges) into.get(e.target)?.push(e.source);
  const found = new Map<string, number>();
  const visiting = new Set<string>();
  const visit = (n: string): number => {
    const known = found.get(n);
    if (known !== undefined) return known;
    if (visiting.has(n)) throw new Error(`${n} is on a cycle`);
    visiting.add(n);
    const depth = Math.max(-1, ...(into.get(n) ?? []).map(visit)) + 1;
    visiting.delete(n);
    found.set(n, depth);
    return depth;
  };
  nodes.forEach(visit);
  const sources = new Set(edges.map((e) => e.source));
  const used = new Set(edges.flatMap((e) => [e.source, e.target]));
  const last = Math.max(nodes.every((n) => used.has(n)) ? 1 : 2, ...found.values());
  // Outputs stand in the last column. A layer without any edge waits where its name says: x, y or in the middle.
  for (const n of nodes) {
    if (!used.has(n)) found.set(n, n.startsWith("x") ? 0 : n.startsWith("y") ? last : Math.floor(last / 2));
    else if (!sources.has(n)) found.set(n, last);
  }
  return found;
}

/** What an edge passes: its source, a place of its own in each column on the way, its target. */
export function stops({ name, source, target }: Link, places: Map<string, unknown>): string[] {
  const between: string[] = [];
  while (places.has(`${name} ${between.length}`)) between.push(`${name} ${between.length}`);
  return [source, ...between, target];
}

/** Where every node is drawn, and where long edges pass the columns on their way: no box lies there. */
export function layout(nodes: string[], edges: Link[]): Map<string, Place> {
  const column = columns(nodes, edges);
  for (const { name, source, target } of edges)
    for (let c = column.get(source)! + 1; c < column.get(target)!; c++) column.set(`${name} ${c - column.get(source)! - 1}`, c);
  const links = edges.flatMap((e) => stops(e, column).slice(1).map((target, k) => ({ source: stops(e, column)[k], target })));
  const last = Math.max(1, ...column.values());
  const stacks: string[][] = Array.from({ length: last + 1 }, () => []);
  for (const n of new Set([...nodes, ...column.keys()])) stacks[column.get(n)!].push(n);
  const place = new Map<string, Place>();
  const put = (stack: string[], c: number) =>
    stack.forEach((n, k) => place.set(n, { x: c / last, y: (k + 0.5) / stack.length }));
  stacks.forEach(put);
  const beside = (n: string) =>
    links.flatMap((e) => (e.source === n ? [e.target] : e.target === n ? [e.source] : [])).map((m) => place.get(m)!.y);
  for (let round = 0; round < 4; round++) {
    stacks.forEach((stack, c) => {
      const middle = new Map(stack.map((n, k) => [n, { at: mean(beside(n)), k }]));
      stack.sort((a, b) => middle.get(a)!.at - middle.get(b)!.at || middle.get(a)!.k - middle.get(b)!.k);
      put(stack, c);
    });
  }
  return place;
}

function mean(values: number[]): number {
  return values.length ? values.reduce((a, b) => a + b, 0) / values.length : 0.5;
}

/** Names of all edges on paths through an edge, from inputs to outputs. */
export function through(name: string, edges: Link[]): Set<string> {
  const start = edges.find((e) => e.name === name);
  const found = new Set<string>();
  if (!start) return found;
  const walk = (node: string, forward: boolean) => {
    for (const e of edges) {
      if ((forward ? e.source : e.target) === node && !found.has(e.name)) {
        found.add(e.name);
        walk(forward ? e.target : e.source, forward);
      }
    }
  };
  walk(start.target, true);
  const ahead = new Set(found);
  found.clear();
  walk(start.source, false);
  ahead.forEach((e) => found.add(e));
  return found.add(name);
}

/** The nodes of a path from one node to another, or null. */
export function pathBetween(from: string, to: string, edges: Link[]): string[] | null {
  if (from === to) return [from];
  for (const e of edges) {
    if (e.source !== from) continue;
    const rest = pathBetween(e.target, to, edges);
    if (rest) return [from, ...rest];
  }
  return null;
}
