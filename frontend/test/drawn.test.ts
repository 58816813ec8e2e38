import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_MESSAGE } from "../src/protocol.ts";
import { addNode, checkSize, emptyDrawn, History, inputs, missing, outputs, Refusal, removeEdge, removeNode, rename, resize, setContexts, toggleEdge, toggleGate } from "../src/drawn.ts";

/** x to h1, h2, h3 to y. */
function threePathways() {
  let d = emptyDrawn();
  for (let k = 0; k < 5; k++) d = addNode(d);
  for (const h of ["h1", "h2", "h3"]) d = toggleEdge(toggleEdge(d, "x", h), h, "y");
  return d;
}

test("layers are named x, y, h1, h2, ... and a freed name is used again", () => {
  const d = threePathways();
  assert.deepEqual(d.nodes.map((n) => n.name), ["x", "y", "h1", "h2", "h3"]);
  assert.equal(addNode(removeNode(d, "h2")).nodes.at(-1)!.name, "h2");
});

test("inputs and outputs follow from the edges", () => {
  assert.deepEqual(inputs(threePathways()), ["x"]);
  assert.deepEqual(outputs(threePathways()), ["y"]);
});

test("a cycle is refused, with the layers on it", () => {
  assert.throws(() => toggleEdge(threePathways(), "y", "x"), (e: Error) => e instanceof Refusal && e.message.includes("x → h1 → y → x"));
  assert.throws(() => toggleEdge(threePathways(), "h1", "h1"), Refusal);
});

test("an edge whose removal leaves a layer without any is refused", () => {
  const d = toggleEdge(toggleEdge(addNode(addNode(addNode(emptyDrawn()))), "x", "h1"), "h1", "y");
  assert.throws(() => removeEdge(d, "x", "h1"), /no path reaches x/);
  const two = toggleEdge(d, "x", "y");
  assert.equal(removeEdge(two, "x", "y").edges.length, 2);
});

test("what is missing is said until the network is complete", () => {
  assert.match(missing(emptyDrawn())!, /Add layers/);
  assert.match(missing(addNode(addNode(emptyDrawn())))!, /Connect layers/);
  assert.match(missing(addNode(threePathways()))!, /Connect h4/);
  assert.equal(missing(threePathways()), null);
});

test("renaming keeps edges and gates; names that are taken or odd are refused", () => {
  const d = rename(toggleGate(toggleGate(threePathways(), "h1", 0), "x->h1", 0), "h1", "top");
  assert.ok(d.edges.some((e) => e.source === "x" && e.target === "top"));
  assert.deepEqual(d.gates, { top: [0], "x->top": [0] });
  assert.throws(() => rename(d, "top", "y"), Refusal);
  assert.throws(() => rename(d, "top", "a b"), Refusal);
});

test("gates by context: toggled, kept when contexts are added, dropped where all are open", () => {
  let d = toggleGate(setContexts(threePathways(), 2), "h1", 1);
  assert.deepEqual(d.gates, { h1: [1, 0] });
  d = setContexts(d, 3);
  assert.deepEqual(d.gates, { h1: [1, 0, 1] });
  assert.deepEqual(toggleGate(d, "h1", 1).gates, {});
  assert.deepEqual(removeNode(d, "h1").gates, {});
});

test("sizes are whole numbers within limits", () => {
  assert.equal(resize(threePathways(), "h1", 7).nodes[2].size, 7);
  for (const bad of [0, 1.5, 1e6]) assert.throws(() => resize(threePathways(), "h1", bad), Refusal);
});

test("data that no message can hold are refused before they are sent", () => {
  const rows = (n: number) => Array.from({ length: 2000 }, () => Array(n).fill(0.1));
  const data = (n: number) => ({ kind: "samples" as const, inputs: { x: rows(n) }, targets: { y: rows(n) }, context: [], weight: [] });
  assert.ok(checkSize({ ...threePathways(), data: data(25) }));
  assert.throws(() => checkSize({ ...threePathways(), data: data(26) }), /104,000 numbers/);
  assert.ok(JSON.stringify(data(25)).replaceAll("0.1", "-1.2345678901234567e-308").length < MAX_MESSAGE - 400_000);
});

test("undo and redo", () => {
  const h = new History<number>(1);
  const now = (): number => h.now;
  h.change(2);
  h.change(3);
  assert.ok(h.undo() && now() === 2 && h.undo() && now() === 1 && !h.undo());
  assert.ok(h.redo() && now() === 2);
  h.change(5);
  assert.ok(!h.canRedo && h.canUndo);
});
