// Made from src/neuralrace/laboratory/protocol.py; do not edit.

/** How far the lines can be trusted, in words; `title` is short. */
export interface Badge {
  verdict: "exact" | "inexact";
  title: string;
  words: string;
}

/** What theory says of a picture. */
export interface Details {
  kind: "details";
  id: number;
  lanes: LaneDetails[];
  similarity_at: number[];
  similarity: Similarity[];
  race: ([string, number | null])[];
  wins: [string, number][];
}

/** A network of one's own: layers, weights, gates by context, and data. */
export interface Drawn {
  nodes: Node[];
  edges: Edge[];
  contexts: number;
  gates: Record<string, number[]>;
  data: World | Samples;
}

/** An edge of a picture: the class of edges whose strength it has. */
export interface DrawnEdge {
  name: string;
  source: string;
  target: string;
  group: number;
}

/** A layer of a picture, with a name for readers where there is one. */
export interface DrawnNode {
  name: string;
  size: number;
  label: string;
}

/** A weight matrix of a drawn network; `fixed` has its rows if it is constant. */
export interface Edge {
  source: string;
  target: string;
  fixed: number[][] | null;
}

/** An entry of the gallery. */
export interface Entry {
  name: string;
  title: string;
  sentence: string;
  figure: string;
  sliders: Slider[];
  random: boolean;
  several: boolean;
  timed: boolean;
}

/** Ask for a file that makes the same figure: answered by `exported`. */
export interface Export {
  kind: "export";
  id: number;
  scene: Scene;
  format: "yaml" | "python" | "html";
}

/** A file as text. */
export interface Exported {
  kind: "exported";
  id: number;
  format: "yaml" | "python" | "html";
  text: string;
}

/** Training is done; `difference` is the largest of the losses of theory and network, by lane. */
export interface Finished {
  kind: "finished";
  id: number;
  difference: (number | null)[];
  words: string;
}

/** What is read off a state: one sum with its sign, or the root of a weighted sum of squares. */
export interface Gauge {
  signed: boolean;
  parts: [number, [number, number[]][]][];
}

/** A class of edges that stay equal: its strength over time, largest of all 1. */
export interface Group {
  edges: string[];
  strength: number[];
}

/** One network: its drawing and its theory. */
export interface Lane {
  name: string;
  nodes: DrawnNode[];
  edges: DrawnEdge[];
  groups: Group[];
  racers: Racer[];
  loss: number[];
  learning_time: number | null;
}

/** What theory says of one lane; `equations` has a LaTeX line for each group. */
export interface LaneDetails {
  name: string;
  badge: Badge;
  equations: string[];
  equation_groups: number[];
  no_equations: string | null;
  conserved: string[];
  symbols: Symbol[];
}

/** A layer of a drawn network. The sizes of inputs and outputs follow from the data. */
export interface Node {
  name: string;
  size: number;
}

/** Something that the user should know; the work goes on. */
export interface Notice {
  kind: "notice";
  text: string;
}

/** Theory on a time axis that all lanes share. */
export interface Picture {
  kind: "picture";
  id: number;
  t: number[];
  level: number;
  largest: number;
  lanes: Lane[];
  racers_are: "modes" | "pathways";
  winner: string | null;
  theory: string;
  networks: number;
  seconds: number;
}

/** Theory of a random start, at all times of the picture; the first start is the picture itself. */
export interface Predicted {
  kind: "predicted";
  id: number;
  lane: number;
  run: number;
  loss: number[];
  carries: number[][];
}

/** Why a request has no answer; `id` is -1 where it has none. */
export interface Problem {
  kind: "problem";
  id: number;
  text: string;
}

/** A mode or a pathway: what it carries, and the share of its task that it has learned, over time. */
export interface Racer {
  name: string;
  carries: number[];
  share: number[];
  half_time: number | null;
  edges: string[];
}

/** By what the end of the time axis and the winner are found. */
export interface Rules {
  times: number;
  longer: number;
  learned: number;
  share: number;
  time: number;
}

/** Samples of one's own: rows for every input and output, and the context of each. */
export interface Samples {
  kind: "samples";
  inputs: Record<string, number[][]>;
  targets: Record<string, number[][]>;
  context: number[];
  weight: number[];
}

/** A saved page: what was answered for its scene, and for other positions of its sliders. */
export interface Saved {
  kind: "saved";
  version: string;
  entry: Entry;
  scene: Scene;
  answers: (Picture | Details | Predicted | Simulated | Finished)[];
  systems: Systems | null;
  positions: number[][];
  replays: ((Picture | Details | Predicted)[])[];
  why: string;
}

/** One network at some positions: the system of the papers, and the wider one if needed. */
export interface SavedLane {
  name: string;
  nodes: DrawnNode[];
  edges: DrawnEdge[];
  groups: string[][];
  racers: [string, string[]][];
  systems: System[];
}

/** All that a picture depends on. */
export interface Scene {
  entry: string;
  values: Record<string, number>;
  start: "aligned" | "random";
  seeds: number;
  drawn: Drawn | null;
}

/** Cosine similarity of samples in a layer at some of the times. */
export interface Similarity {
  lane: number;
  layer: string;
  samples: number;
  frames: string[];
}

/** Ask for trained networks: answered by `simulated` many times, then `finished`. */
export interface Simulate {
  kind: "simulate";
  id: number;
  scene: Scene;
  details: boolean;
}

/** A stretch of the training of one network. Lane -1: a network beside all lanes. */
export interface Simulated {
  kind: "simulated";
  id: number;
  lane: number;
  run: number;
  t: number[];
  loss: number[];
  carries: number[][];
}

/** A number that the page changes. On a logarithmic scale `low`, `high` and `value` are above 0. */
export interface Slider {
  name: string;
  label: string;
  low: number;
  high: number;
  step: number;
  value: number;
  log: boolean;
  stops: number[];
}

/** Ask for theory: answered by `picture`, then `details`, and `systems` that a page can solve. */
export interface Solve {
  kind: "solve";
  id: number;
  scene: Scene;
}

/** Stop training. */
export interface Stop {
  kind: "stop";
}

/** Symbols of the equations in LaTeX, what they stand for, and their numbers for these data. */
export interface Symbol {
  latex: string[];
  words: string;
  value: string;
}

/** A reduced system. Of sums u of products of a state y the loss is `constant - s u + u D u / 2`. */
export interface System {
  start: number[];
  powers: Record<string, number[]>;
  speed: number[];
  decay: number[];
  sums: [number, number[]][][];
  s: number[];
  d: [number, number, number][];
  constant: number;
  coupled: boolean;
  groups: Gauge[];
  racers: Gauge[];
  goals: (number | null)[];
  directions: number;
  attainable: number;
  complete: number;
  settled: number;
  fastest: number;
  rest: number | null;
  why: string;
  said: LaneDetails;
}

/** The networks of a scene, for any values of its live sliders: those that change its start only. */
export interface Systems {
  kind: "systems";
  id: number;
  live: Record<string, number>;
  lanes: SavedLane[];
  level: number;
  pathways: boolean;
  rules: Rules;
}

/** An uploaded table: the answer to `POST upload`. */
export interface Table {
  kind: "table";
  columns: string[];
  rows: number[][];
}

/** The first message: the gallery. */
export interface Welcome {
  kind: "welcome";
  version: string;
  entries: Entry[];
}

/** One of the library's structured worlds: items with features. */
export interface World {
  kind: "world";
  name: "hierarchy" | "partition" | "ring" | "grid" | "xor" | "two modes";
  size: number;
  targets: "same" | "own";
}

export type Request = Solve | Simulate | Export | Stop;
export type Answer = Welcome | Picture | Details | Systems | Simulated | Predicted | Finished | Exported | Problem | Notice | Table;

export const MAX_NODES = 60;
export const MAX_EDGES = 200;
export const MAX_CONTEXTS = 64;
export const MAX_SIZE = 256;
export const MAX_SAMPLES = 2000;
export const MAX_NUMBERS = 100000;
export const MAX_SEEDS = 10;
export const MAX_MESSAGE = 3000000;
export const MAX_UPLOAD = 4000000;
