// The whole page, served by `neuralrace lab`.
import { Lab } from "./app.ts";
import { SocketTransport } from "./connection.ts";

const lab = new Lab(document.getElementById("lab")!, new SocketTransport(), { address: true, wholePage: true });
Object.assign(window, { lab });
