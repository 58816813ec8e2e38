// Talks to the computing side. A change is sent when the last one is answered, so that nothing piles up.
import { MAX_UPLOAD, type Answer, type Request, type Scene } from "./protocol.ts";

export interface Transport {
  send(request: Request): void;
  listen(hear: (answer: Answer) => void, state: (open: boolean) => void): void;
  upload(content: Blob): Promise<Answer>;
}

/** Over a WebSocket to the server of the page; comes back by itself when the connection is lost. */
export class SocketTransport implements Transport {
  private socket: WebSocket | null = null;
  private hear: (answer: Answer) => void = () => {};
  private state: (open: boolean) => void = () => {};
  private wait = 250;

  listen(hear: (answer: Answer) => void, state: (open: boolean) => void): void {
    this.hear = hear;
    this.state = state;
    this.open();
  }

  private open(): void {
    const address = new URL("talk", location.href);
    address.protocol = "ws:";
    address.hash = "";
    this.socket = new WebSocket(address);
    this.socket.onopen = () => {
      this.wait = 250;
      this.state(true);
    };
    this.socket.onmessage = (event) => this.hear(JSON.parse(event.data));
    this.socket.onclose = () => {
      this.state(false);
      setTimeout(() => this.open(), this.wait);
      this.wait = Math.min(this.wait * 2, 4000);
    };
  }

  send(request: Request): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(request));
  }

  async upload(content: Blob): Promise<Answer> {
    let text = `the file is larger than ${MAX_UPLOAD.toLocaleString("en")} bytes`;
    if (content.size > MAX_UPLOAD) return { kind: "problem", id: -1, text };
    try {
      text = "the file did not reach the server";
      text = await (await fetch("upload", { method: "POST", body: content })).text();
      return JSON.parse(text);
    } catch {
      return { kind: "problem", id: -1, text };
    }
  }
}

/** Sends scenes one at a time, always the latest; asks for training when the scene has come to rest. */
export class Asker {
  private id = 0;
  private solving = -1;
  private next: Scene | null = null;
  private rest: ReturnType<typeof setTimeout> | undefined;
  latest = -1; // number of the latest scene that was sent
  training = -1;
  trainAfter = 350; // ms of rest

  private send: (request: Request) => void;

  constructor(send: (request: Request) => void) {
    this.send = send;
  }

  solve(scene: Scene): void {
    clearTimeout(this.rest);
    if (this.training >= 0) {
      this.send({ kind: "stop" });
      this.training = -1;
    }
    if (this.solving >= 0) {
      this.next = scene;
      return;
    }
    this.solving = this.latest = ++this.id;
    this.next = null;
    this.send({ kind: "solve", id: this.latest, scene });
    this.scene = scene;
  }

  private scene: Scene | null = null;

  /** A picture (or a problem: not solved) has come; true where it is the current one. */
  answered(id: number, solved = true): boolean {
    if (id !== this.solving && id !== -1) return id === this.latest;
    this.solving = -1;
    if (this.next) this.solve(this.next);
    else if (solved && this.scene) this.rest = setTimeout(() => this.train(), this.trainAfter);
    return true;
  }

  train(): void {
    if (!this.scene || this.solving >= 0) return;
    this.training = ++this.id;
    this.send({ kind: "simulate", id: this.training, scene: this.scene, details: false });
  }

  export(scene: Scene, format: "yaml" | "python" | "html"): number {
    this.send({ kind: "export", id: ++this.id, scene, format });
    return this.id;
  }

  /** The connection was lost: nothing is under way any more. */
  reset(): void {
    this.solving = this.training = -1;
    this.next = null;
    clearTimeout(this.rest);
  }
}
