// The whole page, served by `neuralrace lab`.
import { Lab } from "./app.ts";
import { SocketTransport } from "./connection.ts";
import { Editor } from "./editor.ts";
import { LiveTransport } from "./live.ts";

const lab = new Lab(document.getElementById("lab")!, new LiveTransport(new SocketTransport()), { address: true, wholePage: true, makeEditor: (...given) => new Editor(...given) });
Object.assign(window, { lab });
