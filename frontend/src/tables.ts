// A table of one's own as data of a drawn network: which column is an input, a target, or the context.
import { inputs, outputs } from "./drawn.ts";
import type { Drawn, Samples, Table } from "./protocol.ts";

export type Role = "input" | "target" | "context" | "leave out";

/** A guess by the name of the column. */
export function guessRoles(columns: string[]): Role[] {
  const roles = columns.map((name): Role => {
    if (/^(context|ctx|c)\d*$/i.test(name)) return "context";
    if (/^(y|target|out|label)/i.test(name)) return "target";
    return "input";
  });
  if (!roles.includes("target") && roles.length > 1) roles[roles.length - 1] = "target";
  return roles;
}

/** The samples for a network: every input sees all input columns, every output all targets. */
export function samplesOf(table: Table, roles: Role[], drawn: Drawn): { data: Samples; contexts: number } {
  const pick = (role: Role) => roles.flatMap((r, k) => (r === role ? [k] : []));
  const [x, y, c] = [pick("input"), pick("target"), pick("context")];
  if (!x.length || !y.length) throw new Error("choose at least one column for inputs and one for targets");
  const keys = table.rows.map((row) => c.map((k) => row[k]).join("/"));
  const names = [...new Set(keys)].sort();
  const rows = (columns: number[]) => table.rows.map((row) => columns.map((k) => row[k]));
  return {
    contexts: Math.max(1, names.length),
    data: {
      kind: "samples",
      inputs: Object.fromEntries(inputs(drawn).map((n) => [n, rows(x)])),
      targets: Object.fromEntries(outputs(drawn).map((n) => [n, rows(y)])),
      context: keys.map((k) => names.indexOf(k)),
      weight: [],
    },
  };
}
