import assert from "node:assert/strict";
import { test } from "node:test";
import { finish } from "../src/bars.ts";
import { mix, rampColour, LIGHT } from "../src/colours.ts";
import { Asker } from "../src/connection.ts";
import { compress, palette, quantize } from "../src/gif.ts";
import { decode, encode, linkIn, type State } from "../src/link.ts";
import type { Picture, Request, Scene } from "../src/protocol.ts";
import { Runs, toCsv, tracks } from "../src/race.ts";
import { toPlace, toValue } from "../src/sliders.ts";
import { guessRoles, samplesOf } from "../src/tables.ts";
import { shown, ticks } from "../src/ticks.ts";
import { emptyDrawn } from "../src/drawn.ts";

const scene: Scene = { entry: "xor", values: { strength: 0.1 }, start: "aligned", seeds: 1, drawn: null };
const state: State = { scene, view: { at: 0.3, theme: "dark", plain: true, large: false } };

test("a link holds the exact state, in characters of addresses", async () => {
  const text = await encode(state);
  assert.match(text, /^[A-Za-z0-9_-]+$/);
  assert.deepEqual(await decode(text), state);
});

test("a broken link is refused", async () => {
  for (const bad of ["", "x", "AAAA", await encode({} as State)]) await assert.rejects(decode(bad));
});

const STORED = "HcxBCsJADEbhu_zrIBZ3uU1w4nRwTCVJW6XM3aVuH7zvwKYebTHwRIi7moIPqKV_wfgsDsImfdU4e6Sr1ZzB18s0CJHiCYb0Vk0LCKFa4o8Vl93AtvY-CFvT_RQkz_dGyFlfCkYRf4Lw7tIMnL4qoYtXBT-kh47xAw";

test("a link of version 1 opens for ever; one of a newer lab is refused", async () => {
  assert.deepEqual(await decode(STORED), state);
  const newer = await encode({ version: 2, ...state } as unknown as State);
  await assert.rejects(decode(newer), /newer/);
});

test("a link is found in what was copied and in an address, and holds no token", async () => {
  const text = await encode(state);
  for (const copied of [`lab:${text}`, ` lab:${text}\n`, `http://127.0.0.1:1/token/#s=${text}`]) assert.equal(linkIn(copied), text);
  for (const other of ["", "hello", "x1,x2\n1,2", "lab:<b>"]) assert.equal(linkIn(other), null);
});

test("only the latest scene is sent, and only when the last is answered", () => {
  const sent: Request[] = [];
  const asker = new Asker((r) => sent.push(r));
  for (let k = 0; k < 1000; k++) asker.solve({ ...scene, seeds: 0, values: { strength: k } });
  assert.equal(sent.length, 1);
  assert.ok(asker.answered(asker.latest));
  assert.equal(sent.length, 2);
  assert.equal((sent[1] as { scene: Scene }).scene.values.strength, 999);
  asker.answered(asker.latest);
  assert.equal(sent.length, 2);
});

test("a problem is not followed by training", async () => {
  const sent: Request[] = [];
  const asker = new Asker((r) => sent.push(r));
  asker.trainAfter = 1;
  asker.solve(scene);
  asker.answered(asker.latest, false);
  await new Promise((done) => setTimeout(done, 20));
  assert.equal(sent.length, 1);
});

test("answers that are out of date are told apart", () => {
  const asker = new Asker(() => {});
  asker.solve({ ...scene, seeds: 0 });
  assert.equal(asker.answered(asker.latest + 7), false);
});

test("training starts when the scene rests, and stops when it changes", async () => {
  const sent: Request[] = [];
  const asker = new Asker((r) => sent.push(r));
  asker.trainAfter = 5;
  asker.solve(scene);
  asker.answered(asker.latest);
  await new Promise((done) => setTimeout(done, 30));
  assert.deepEqual(sent.map((r) => r.kind), ["solve", "simulate"]);
  asker.solve(scene);
  assert.deepEqual(sent.map((r) => r.kind), ["solve", "simulate", "stop", "solve"]);
});

test("ticks are round and within the range; numbers are short", () => {
  assert.deepEqual(ticks(0, 10), [0, 2, 4, 6, 8, 10]);
  assert.deepEqual(ticks(0, 0.7, 4), [0, 0.2, 0.4, 0.6000000000000001]);
  assert.deepEqual([0, 0.25, 12345, 1e-6, 2e6].map((v) => shown(v)), ["0", "0.25", "12300", "1e-6", "2e6"]);
});

test("a logarithmic slider goes there and back within its limits", () => {
  const s = { name: "a", label: "", low: 1e-4, high: 0.5, step: 0.02, value: 0.05, log: true, stops: [] };
  assert.equal(toValue(s, toPlace(s, 0.05)), 0.05);
  assert.equal(toValue(s, 5), 0.5);
  const stopping = { ...s, stops: [1, 2, 5, 9] };
  assert.deepEqual([1, 4.9, 9].map((v) => toValue(stopping, toPlace(stopping, v))), [1, 5, 9]);
});

test("colours: mixing ends at the ends, ramps are distinct", () => {
  assert.equal(mix("#000000", "#ffffff", 1), "#ffffff");
  assert.equal(new Set([0, 1, 2, 3, 4].map((k) => rampColour(k, 5, LIGHT))).size, 5);
});

test("columns are guessed, and make samples with contexts", () => {
  assert.deepEqual(guessRoles(["x1", "context", "y"]), ["input", "context", "target"]);
  assert.deepEqual(guessRoles(["a", "b"]), ["input", "target"]);
  const d = { ...emptyDrawn(), nodes: [{ name: "x", size: 1 }, { name: "y", size: 1 }], edges: [{ source: "x", target: "y", fixed: null }] };
  const table = { kind: "table" as const, columns: ["x", "c", "y"], rows: [[1, 5, 2], [3, 6, 4], [7, 5, 8]] };
  const { data, contexts } = samplesOf(table, ["input", "context", "target"], d);
  assert.equal(contexts, 2);
  assert.deepEqual(data.context, [0, 1, 0]);
  assert.deepEqual(data.inputs, { x: [[1], [3], [7]] });
  assert.throws(() => samplesOf(table, ["input", "input", "input"], d));
});

const racer = (name: string, half: number) => ({ name, carries: [0, 1], share: [0, 1], half_time: half, edges: ["a"] });
const lane = (name: string) => ({ name, nodes: [], edges: [], groups: [], racers: [racer("p", 1), racer("q", 2)], loss: [2, 0], learning_time: 1 });
const picture = (lanes: string[]): Picture => ({ kind: "picture", id: 1, t: [0, 1], level: 1, largest: 1, lanes: lanes.map(lane), racers_are: "pathways", winner: null, theory: "reduction", networks: 0, seconds: 0 });

test("one track for each gating, else one for each racer", () => {
  assert.deepEqual(tracks(picture(["n"])).map((x) => x.label), ["p", "q"]);
  assert.deepEqual(tracks(picture(["a", "b"])).map((x) => x.label), ["a gating", "b gating"]);
});

test("racers that are level share a place", () => {
  const one = picture(["n"]);
  const racing = [27.9, 4.2, 27.91, 40].map((half_time) => ({ ...tracks(one)[0], racer: { ...tracks(one)[0].racer, half_time } }));
  assert.deepEqual(finish(racing, { ...one, racers_are: "modes" }), ["2nd", "1st", "2nd", "3rd"]);
  assert.deepEqual(finish(racing, one), ["", "", "", ""]); // the headline says who carries most
  assert.deepEqual(finish(racing.slice(0, 1), one), [""]);
});

test("theory of other starts is kept beside the networks, until there is another picture", () => {
  const runs = new Runs();
  runs.predict({ kind: "predicted", id: 1, lane: 0, run: 1, loss: [2, 1], carries: [[0, 1]] }, picture(["n"]));
  runs.add({ kind: "simulated", id: 2, lane: 0, run: 0, t: [0, 1], loss: [2, 0], carries: [[0, 1]] });
  assert.deepEqual(runs.all().map((r) => r.theory ?? false), [true, false]);
  assert.equal(runs.difference(picture(["n"])), 0);
  runs.add({ kind: "simulated", id: 2, lane: 0, run: 1, t: [0, 1], loss: [2, 0.8], carries: [[0, 1]] });
  assert.ok(Math.abs(runs.difference(picture(["n"])) - 0.1) < 1e-12);
  assert.match(toCsv(picture(["n"]), runs.all()), /^t,loss,p,q,other start 1 loss,trained 1 loss,trained 2 loss\n/);
  runs.clear();
  assert.deepEqual(runs.all(), []);
});

test("stretches of training are put together, a new training starts anew", () => {
  const runs = new Runs();
  const part = (id: number, t: number[]) => ({ kind: "simulated" as const, id, lane: 0, run: 0, t, loss: t, carries: [t] });
  runs.add(part(1, [0, 1]));
  runs.add(part(1, [1, 2])); // the end of one is the start of the next
  assert.deepEqual(runs.all()[0].t, [0, 1, 2]);
  assert.match(toCsv(picture(["n"]), runs.all()), /^t,loss,p,q,trained 1 loss\n0,2,0,0,0\n1,0,1,1,1\n$/);
  runs.add(part(2, [0]));
  assert.deepEqual(runs.all()[0].t, [0]);
});

/** The inverse of the compression, as a viewer does it. */
function decompress(bytes: Uint8Array): number[] {
  const out: number[] = [];
  let size = 9, at = 0, table: number[][] = [], last: number[] | null = null;
  const read = () => {
    let v = 0;
    for (let k = 0; k < size; k++, at++) v |= ((bytes[at >> 3] >> (at & 7)) & 1) << k;
    return v;
  };
  for (;;) {
    const code = read();
    if (code === 257) return out;
    if (code === 256) {
      table = Array.from({ length: 258 }, (_, k) => [k]);
      size = 9;
      last = null;
      continue;
    }
    const word: number[] = table[code] ?? [...last!, last![0]];
    out.push(...word);
    if (last && table.length < 4096) table.push([...last, word[0]]);
    if (table.length === 1 << size && size < 12) size++;
    last = word;
  }
}

test("what a GIF compresses a viewer reads back", () => {
  let seed = 1;
  const random = () => (seed = (seed * 48271) % 2147483647) % 256;
  for (const pixels of [Uint8Array.from([1, 1, 1, 2]), Uint8Array.from({ length: 30000 }, random), new Uint8Array(50000).fill(7)])
    assert.deepEqual(decompress(compress(pixels)), [...pixels]);
});

test("pixels get the nearest colour", () => {
  const table = palette();
  const [k] = quantize(Uint8ClampedArray.from([255, 0, 51, 255]));
  assert.deepEqual([...table.slice(3 * k, 3 * k + 3)], [255, 0, 51]);
});
