// Solves systems that pytest wrote: a list of { system, times } as JSON on the standard input, losses on the output.
import { FINE, solve } from "../src/solver.ts";
import { Field } from "../src/system.ts";

const chunks: Buffer[] = [];
for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
const asked = JSON.parse(Buffer.concat(chunks).toString());
const curves = asked.map(({ system, times }: { system: ConstructorParameters<typeof Field>[0]; times: number[] }) => {
  const found = solve(new Field(system), Float64Array.from(system.start), times, { ...FINE, stop: system.settled });
  return { loss: found.loss, steps: found.steps };
});
process.stdout.write(JSON.stringify(curves));
