// A saved page: it answers itself what the lab asks a server.
import "./page.css";
import { Lab } from "./app.ts";
import type { Transport } from "./connection.ts";
import { unpack, type View } from "./link.ts";
import { answerSoon } from "./live.ts";
import type { Answer, Request, Saved, Scene, Systems } from "./protocol.ts";
import { toPlace } from "./sliders.ts";
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
    if (request.kind !== "solve" && request.kind !== "simulate") return;
    const { scene, answers, systems } = this.saved;
    const here = { ...scene.values, ...request.scene.values };
    const trained = (answer: Answer) => answer.kind === "simulated" || answer.kind === "finished";
    if (Object.keys(here).every((name) => here[name] === scene.values[name])) this.say(request.id, answers.filter((answer) => trained(answer) !== (request.kind === "solve")));
    else if (request.kind === "simulate") this.say(request.id, [{ kind: "finished", id: 0, difference: [], words: answers.some(trained) ? ELSEWHERE : "" }]);
    else if (systems) answerSoon(this.systems(systems, here), request, this.hear);
    else this.say(request.id, this.saved.replays[this.place(here)]);
  }

  private say(id: number, answers: Answer[]): void {
    queueMicrotask(() => answers.forEach((answer) => this.hear({ ...answer, id } as Answer)));
  }

  /** The number of the position that is nearest to some values. */
  private place(values: Scene["values"]): number {
    const stopped = this.saved.entry.sliders.filter((slider) => slider.stops.length); // others have one position, or are live
    return stopped.reduce((place, slider) => place * slider.stops.length + toPlace(slider, values[slider.name]), 0);
  }

  /** The networks at some values. */
  private systems(of: Systems, values: Scene["values"]): Systems {
    return { ...of, lanes: this.saved.positions[this.place(values)].map((k) => of.lanes[k]) };
  }

  upload(): Promise<Answer> {
    return Promise.reject(new Error("a saved page takes no data"));
  }
}

let theme: View["theme"] = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
let lab: Lab | null = null;
// The page around a frame may say how it looks.
addEventListener("message", ({ source, data }) => {
  if (source !== parent || (data?.theme !== "dark" && data?.theme !== "light")) return;
  theme = data.theme;
  lab?.switch("theme", theme);
});

const saved: Saved = JSON.parse(await unpack(document.getElementById("saved")!.textContent!));
const transport = new SavedTransport(saved);
lab = new Lab(document.getElementById("lab")!, transport, {
  state: { scene: saved.scene, view: { at: 0.45, theme, plain: false, large: false } },
  address: true, wholePage: true, hint: saved.why,
});
Object.assign(window, { lab, saved, transport, solve, solved, Field, FINE }); // for tests
