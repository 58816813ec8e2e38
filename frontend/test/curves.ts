// Solves systems that pytest wrote, as JSON on the standard input: losses for each { system, times }, pictures for `Systems`.
import { solved } from "../src/solved.ts";
import { FINE, solve } from "../src/solver.ts";
import { Field } from "../src/system.ts";
import type { System, Systems } from "../src/protocol.ts";

const chunks: Buffer[] = [];
for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
const asked = JSON.parse(Buffer.concat(chunks).toString());
const curves = asked.map((one: { system: System; times: number[] } | Systems) => {
  if ("lanes" in one) return solved(one, {}, 0)[0];
  const { system, times } = one;
  const found = solve(new Field(system), Float64Array.from(system.start), times, { ...FINE, stop: system.settled });
  return { loss: found.loss, steps: found.steps };
});
process.stdout.write(JSON.stringify(curves));
