// The editor: its tools, the table of gates, and the choice of data. The drawing itself is on the stage.
import { addNode, checkSize, edgeName, emptyDrawn, History, inputs, missing, outputs, Refusal, removeEdge, removeNode, rename, resize, setContexts, toggleEdge, toggleGate } from "./drawn.ts";
import type { Drawn, Table, World } from "./protocol.ts";
import { button, html, icon } from "./svg.ts";
import { guessRoles, samplesOf, type Role } from "./tables.ts";

const WORLDS: World["name"][] = ["hierarchy", "partition", "ring", "grid", "xor", "two modes"];

export class Editor {
  readonly root = html("section", { class: "editor", "aria-label": "editor" });
  readonly history: History<Drawn>;
  selected: { node: string } | { edge: [string, string] } | null = null;
  connecting = false;
  private table: Table | null = null;
  private roles: Role[] = [];
  private showEdges = false;
  readonly said = html("p", { class: "refusal", role: "alert" });

  private changed: (drawn: Drawn) => void;
  private upload: (content: Blob) => Promise<unknown>;

  constructor(first: Drawn, changed: (drawn: Drawn) => void, upload: (content: Blob) => Promise<unknown>) {
    this.changed = changed;
    this.upload = upload;
    this.history = new History(first);
    this.show();
  }

  get drawn(): Drawn {
    return this.history.now;
  }

  /** Try a change; a refusal is said where it happened, and nothing changes. */
  act(change: (drawn: Drawn) => Drawn): void {
    try {
      const next = checkSize(change(this.drawn));
      if (next !== this.drawn) this.history.change(next);
      this.say("");
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.say(error.message);
    }
    this.show();
    this.changed(this.drawn);
  }

  private say(text: string): void {
    this.said.textContent = text;
  }

  undo(): void {
    if (this.history.undo()) this.after();
  }

  redo(): void {
    if (this.history.redo()) this.after();
  }

  private after(): void {
    this.say("");
    this.selected = null;
    this.show();
    this.changed(this.drawn);
  }

  /** A layer was clicked: select it, or connect it with the selected one. */
  click(node: string, connect: boolean): void {
    const from = this.selected && "node" in this.selected ? this.selected.node : null;
    if (from && from !== node && (connect || this.connecting)) {
      this.connecting = false;
      this.act((d) => toggleEdge(d, from, node));
      return;
    }
    this.selected = from === node ? null : { node };
    this.say("");
    this.show();
    this.changed(this.drawn);
  }

  drag(from: string, to: string): void {
    this.selected = { node: to };
    this.act((d) => toggleEdge(d, from, to));
  }

  clickEdge(name: string): void {
    const edge = this.drawn.edges.find((e) => edgeName(e.source, e.target) === name);
    if (edge) this.selected = { edge: [edge.source, edge.target] };
    this.say("");
    this.show();
    this.changed(this.drawn);
  }

  remove(): void {
    const chosen = this.selected;
    if (!chosen) return;
    this.selected = null;
    this.act((d) => ("node" in chosen ? removeNode(d, chosen.node) : removeEdge(d, ...chosen.edge)));
  }

  private clear(): void {
    this.selected = null;
    this.act(emptyDrawn);
  }

  show(): void {
    this.root.replaceChildren(this.tools(), this.inspector(), this.said, html("p", { class: "hint" }, missing(this.drawn) ?? ""), this.gates(), this.data());
  }

  private tools(): HTMLElement {
    const undo = button(icon("undo"), "undo (Ctrl+Z)", () => this.undo());
    const redo = button(icon("redo"), "redo (Ctrl+Shift+Z)", () => this.redo());
    undo.disabled = !this.history.canUndo;
    redo.disabled = !this.history.canRedo;
    return html("div", { class: "tools" }, button("+ layer", "add a layer", () => this.act(addNode), "add-layer"), undo, redo, button("clear", "start with an empty page", () => this.clear()));
  }

  private inspector(): HTMLElement {
    const box = html("div", { class: "inspector" });
    const chosen = this.selected;
    if (!chosen) {
      if (this.drawn.nodes.length) box.append(html("p", { class: "hint" }, "Drag from one layer to another to connect them. Click a layer or an edge to change it."));
      return box;
    }
    if ("edge" in chosen) {
      box.append(html("strong", {}, edgeName(...chosen.edge)), button("delete", "delete this edge (Delete)", () => this.remove()));
      return box;
    }
    const node = this.drawn.nodes.find((n) => n.name === chosen.node);
    if (!node) return box;
    const name = html("input", { type: "text", value: node.name, "aria-label": "name of the layer", maxlength: 40 });
    name.addEventListener("change", () => {
      this.selected = { node: name.value };
      this.act((d) => rename(d, node.name, name.value));
      if (this.said.textContent) this.selected = { node: node.name };
    });
    const outer = inputs(this.drawn).includes(node.name) || outputs(this.drawn).includes(node.name);
    const size = html("input", { type: "number", min: 1, max: 256, value: node.size, "aria-label": "neurons of the layer" });
    size.addEventListener("change", () => this.act((d) => resize(d, node.name, Number(size.value))));
    box.append(html("label", {}, "name ", name));
    if (!outer || !this.drawn.edges.length) box.append(html("label", {}, "neurons ", size));
    else box.append(html("span", { class: "hint" }, "size follows from the data"));
    const connect = button(this.connecting ? "now click the other layer" : "connect…", "connect with the layer that is clicked next", () => {
      this.connecting = !this.connecting;
      this.show();
    }, "connect");
    box.append(connect, button("delete", "delete this layer (Delete)", () => this.remove()));
    return box;
  }

  private gates(): HTMLElement {
    const d = this.drawn;
    const box = html("div", { class: "gates" }, html("h4", {}, "contexts and gates"));
    if (!d.edges.length) return box;
    const table = html("table", {});
    const head = html("tr", {}, html("th", {}));
    for (let c = 0; c < d.contexts; c++) head.append(html("th", { scope: "col" }, String(c + 1)));
    table.append(head);
    const names = [...d.nodes.map((n) => n.name), ...(this.showEdges ? d.edges.map((e) => edgeName(e.source, e.target)) : [])];
    for (const name of names) {
      const row = html("tr", {}, html("th", { scope: "row" }, name));
      for (let c = 0; c < d.contexts; c++) {
        const open = (d.gates[name]?.[c] ?? 1) !== 0;
        const cell = button(icon(open ? "open" : "closed"), `${name} in context ${c + 1}: ${open ? "open" : "closed"}`, () => this.act((x) => toggleGate(x, name, c)), open ? "gate open" : "gate");
        cell.dataset.gate = `${name}/${c}`;
        cell.setAttribute("aria-pressed", String(open));
        row.append(html("td", {}, cell));
      }
      table.append(row);
    }
    const edges = html("label", { class: "check" }, html("input", { type: "checkbox", ...(this.showEdges ? { checked: "" } : {}) }), "edges too");
    edges.querySelector("input")!.addEventListener("change", (event) => {
      this.showEdges = (event.target as HTMLInputElement).checked;
      this.show();
    });
    const tools = html("div", { class: "tools" }, edges);
    if (d.data.kind === "world")
      tools.prepend(
        button("+ context", "add a context", () => this.act((x) => setContexts(x, x.contexts + 1)), "add-context"),
        button("− context", "remove the last context", () => this.act((x) => setContexts(x, x.contexts - 1))),
      );
    box.append(html("div", { class: "scroll" }, table), tools);
    return box;
  }

  private data(): HTMLElement {
    const d = this.drawn;
    const box = html("div", { class: "data" }, html("h4", {}, "data"));
    const pick = html("select", { "aria-label": "data" }, ...WORLDS.map((w) => html("option", { value: w }, w)), html("option", { value: "table" }, "a table of your own"));
    pick.value = d.data.kind === "world" ? d.data.name : "table";
    pick.addEventListener("change", () => {
      if (pick.value !== "table") this.act((x) => ({ ...x, data: { kind: "world", name: pick.value as World["name"], size: 3, targets: "same" } }));
      else box.querySelector<HTMLElement>(".paste")!.hidden = false;
    });
    box.append(pick);
    if (d.data.kind === "world") {
      const world = d.data;
      const size = html("input", { type: "range", min: 1, max: 6, value: world.size, "aria-label": "size of the world" });
      size.addEventListener("input", () => this.act((x) => ({ ...x, data: { ...world, size: Number(size.value) } })));
      if (world.name !== "xor") box.append(html("label", { class: "slider" }, html("span", {}, "size"), html("output", {}, String(world.size)), size));
      if (d.contexts > 1) {
        const own = html("input", { type: "checkbox", ...(world.targets === "own" ? { checked: "" } : {}) });
        own.addEventListener("change", () => this.act((x) => ({ ...x, data: { ...world, targets: own.checked ? "own" : "same" } })));
        box.append(html("label", { class: "check" }, own, "each context asks for something else"));
      }
    }
    box.append(this.paste(d.data.kind === "world"));
    return box;
  }

  private paste(hidden: boolean): HTMLElement {
    const box = html("div", { class: "paste" });
    box.hidden = hidden && !this.table;
    const text = html("textarea", { rows: 4, placeholder: "x1,x2,y\n1,0,1\n…", "aria-label": "paste a table" });
    const file = html("input", { type: "file", accept: ".csv,.npz,.txt", "aria-label": "a csv or npz file" });
    const take = button("use this table", "use the pasted table", () => void this.receive(new Blob([text.value])));
    file.addEventListener("change", () => file.files?.[0] && void this.receive(file.files[0]));
    box.append(html("p", { class: "hint" }, "Paste csv, or drop a csv or npz file on the page."), text, take, file);
    if (this.table) box.append(this.columns(this.table));
    return box;
  }

  /** A table was pasted, chosen or dropped. */
  async receive(content: Blob): Promise<void> {
    const answer = (await this.upload(content)) as Table | { kind: "problem"; text: string };
    if (answer.kind === "problem") {
      this.say(answer.text);
      this.changed(this.drawn);
      return;
    }
    this.table = answer;
    this.roles = guessRoles(answer.columns);
    this.useTable();
  }

  private useTable(): void {
    const table = this.table!;
    this.act((d) => {
      try {
        const { data, contexts } = samplesOf(table, this.roles, d);
        return { ...setContexts(d, contexts), data };
      } catch (error) {
        throw new Refusal((error as Error).message);
      }
    });
  }

  private columns(table: Table): HTMLElement {
    const box = html("div", { class: "columns" });
    table.columns.forEach((name, k) => {
      const pick = html("select", { "aria-label": `use of column ${name}` }, ...(["input", "target", "context", "leave out"] as Role[]).map((r) => html("option", {}, r)));
      pick.value = this.roles[k];
      pick.addEventListener("change", () => {
        this.roles[k] = pick.value as Role;
        this.useTable();
      });
      box.append(html("label", {}, `${name} `, pick));
    });
    return box;
  }
}
