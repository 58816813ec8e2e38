import assert from "node:assert/strict";
import { test } from "node:test";
import { columns, layout, pathBetween, stops, through, type Link } from "../src/layout.ts";

const link = (source: string, target: string): Link => ({ name: `${source}->${target}`, source, target });
const diamond = [link("x", "a"), link("x", "b"), link("a", "y"), link("b", "y")];

test("columns by longest path; outputs stand last", () => {
  const c = columns(["x", "a", "b", "y", "z"], [...diamond, link("a", "b"), link("x", "z")]);
  assert.deepEqual(Object.fromEntries(c), { x: 0, a: 1, b: 2, y: 3, z: 3 });
});

test("a cycle throws", () => {
  assert.throws(() => columns(["a", "b"], [link("a", "b"), link("b", "a")]), /cycle/);
});

test("no two nodes at the same place, all within the drawing", () => {
  const places = [...layout(["x", "a", "b", "y"], diamond).values()];
  assert.equal(new Set(places.map((p) => `${p.x},${p.y}`)).size, 4);
  assert.ok(places.every((p) => p.x >= 0 && p.x <= 1 && p.y > 0 && p.y < 1));
});

test("rows are ordered so that edges do not cross", () => {
  const edges = [link("x1", "b"), link("x2", "a")];
  const p = layout(["x1", "x2", "a", "b"], edges);
  assert.equal(p.get("x1")!.y < p.get("x2")!.y, p.get("b")!.y < p.get("a")!.y);
});

test("paths through an edge are those that reach it and those that it reaches", () => {
  assert.deepEqual(through("x->a", diamond), new Set(["x->a", "a->y"]));
  const long = [link("x", "h"), link("h", "k"), link("k", "y"), link("h", "y")];
  assert.deepEqual(through("h->k", long), new Set(["x->h", "h->k", "k->y"]));
});

test("a path between nodes", () => {
  assert.deepEqual(pathBetween("x", "y", diamond), ["x", "a", "y"]);
  assert.equal(pathBetween("y", "x", diamond), null);
});

test("a long edge has a place of its own in every column that it passes", () => {
  const edges = [link("x", "s"), link("s", "y"), link("x", "a"), link("a", "b"), link("b", "y"), link("x", "y")];
  const places = layout(["x", "s", "a", "b", "y"], edges);
  const passed = stops(link("x", "y"), places).map((n) => places.get(n)!);
  assert.equal(passed.length, 4);
  for (const edge of edges)
    for (const stop of stops(edge, places).slice(1, -1))
      for (const node of ["x", "s", "a", "b", "y"]) {
        const [p, q] = [places.get(stop)!, places.get(node)!];
        assert.ok(p.x !== q.x || Math.abs(p.y - q.y) > 0.2, `${stop} lies on ${node}`);
      }
});
