// A saved page: it answers itself what the lab asks a server.
import "./page.css";
import { Lab } from "./app.ts";
import type { Transport } from "./connection.ts";
import { unpack } from "./link.ts";
import type { Answer, Request, Saved, Scene } from "./protocol.ts";
import { FINE, solve } from "./solver.ts";
import { solved } from "./solved.ts";
import { Field } from "./system.ts";

const ELSEWHERE = "The trained networks were saved for other positions of the sliders; Reset brings them back.";

class SavedTransport implements Transport {
  private hear: (answer: Answer) => void = () => {};
  private saved: Saved;

  constructor(saved: Saved) {
    this.saved = saved;
  }

  listen(hear: (answer: Answer) => void, state: (open: boolean) => void): void {
    this.hear = hear;
    state(true);
    this.hear({ kind: "welcome", version: this.saved.version, entries: [this.saved.entry] });
  }

  send(request: Request): void {
    if (request.kind === "solve" || request.kind === "simulate") queueMicrotask(() => this.answer(request.kind === "solve", request.scene, request.id));
  }

  private answer(solving: boolean, scene: Scene, id: number): void {
    const trained = (answer: Answer) => answer.kind === "simulated" || answer.kind === "finished";
    try {
      if (this.saved.entry.sliders.every((s) => (scene.values[s.name] ?? s.value) === s.value))
        for (const answer of this.saved.answers) trained(answer) === solving || this.hear({ ...answer, id });
      else if (solving) solved(this.saved, scene.values, id).forEach(this.hear);
      else this.hear({ kind: "finished", id, difference: [], words: ELSEWHERE });
    } catch (error) {
      this.hear({ kind: "problem", id, text: String((error as Error).message) });
    }
  }

  upload(): Promise<Answer> {
    return Promise.reject(new Error("a saved page takes no data"));
  }
}

const saved: Saved = JSON.parse(await unpack(document.getElementById("saved")!.textContent!));
const dark = matchMedia("(prefers-color-scheme: dark)").matches;
const lab = new Lab(document.getElementById("lab")!, new SavedTransport(saved), {
  state: { scene: saved.scene, view: { at: 0.45, theme: dark ? "dark" : "light", plain: false, large: false } },
  address: true, wholePage: true,
});
Object.assign(window, { lab, saved, solve, solved, Field, FINE }); // for tests
