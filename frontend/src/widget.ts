// The same front-end in a notebook, through anywidget: messages go over the kernel instead of a socket.
import { Lab } from "./app.ts";
import type { Transport } from "./connection.ts";
import { Editor } from "./editor.ts";
import type { State } from "./link.ts";
import { LiveTransport } from "./live.ts";
import type { Answer, Request } from "./protocol.ts";

interface Model {
  get(name: string): unknown;
  send(content: unknown): void;
  on(event: string, hear: (message: unknown) => void): void;
}

class KernelTransport implements Transport {
  private waiting: ((answer: Answer) => void)[] = [];

  private model: Model;

  constructor(model: Model) {
    this.model = model;
  }

  listen(hear: (answer: Answer) => void, state: (open: boolean) => void): void {
    this.model.on("msg:custom", (message) => {
      const answer = message as Answer & { upload?: boolean };
      if (answer.upload) this.waiting.shift()?.(answer);
      else hear(answer);
    });
    state(true);
    this.model.send({ kind: "hello" });
  }

  send(request: Request): void {
    this.model.send(request);
  }

  async upload(content: Blob): Promise<Answer> {
    const bytes = new Uint8Array(await content.arrayBuffer());
    let text = "";
    for (const b of bytes) text += String.fromCharCode(b);
    return new Promise((done) => {
      this.waiting.push(done);
      this.model.send({ kind: "upload", content: btoa(text) });
    });
  }
}

function render({ model, el }: { model: Model; el: HTMLElement }): void {
  const root = document.createElement("div");
  root.style.height = "720px";
  el.append(root);
  const scene = model.get("scene") as State["scene"] | null;
  const state: State | undefined = scene ? { scene, view: { at: 0.45, theme: "light", plain: false, large: false } } : undefined;
  const lab = new Lab(root, new LiveTransport(new KernelTransport(model)), { state, address: false, wholePage: false, makeEditor: (...given) => new Editor(...given) });
  Object.assign(root, { lab });
}

export default { render };
