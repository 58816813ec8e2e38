// The state of the page in its address: JSON, compressed, in characters that addresses may hold.
import type { Scene } from "./protocol.ts";

export interface View {
  at: number; // place of the time cursor, 0 to 1
  theme: "light" | "dark";
  plain: boolean; // controls hidden
  large: boolean;
}

export interface State {
  scene: Scene;
  view: View;
}

export const LONGEST_LINK = 60_000;
const VERSION = 1; // of the format; a link is to open for ever

/** The state in what was copied, or in an address of the page; null where there is none. */
export function linkIn(text: string): string | null {
  return /(?:lab:|#s=)([A-Za-z0-9_-]+)\s*$/.exec(text)?.[1] ?? null;
}

export async function encode(state: State): Promise<string> {
  const packed = await through(new TextEncoder().encode(JSON.stringify({ version: VERSION, ...state })), new CompressionStream("deflate-raw"));
  let text = "";
  for (const byte of packed) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The text that was packed: compressed, in base 64. */
export async function unpack(text: string): Promise<string> {
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  return new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate-raw")));
}

export async function decode(text: string): Promise<State> {
  const state = JSON.parse(await unpack(text));
  if (state?.version > VERSION) throw new Error("a newer lab made this link");
  if (typeof state?.scene?.entry !== "string" || typeof state?.view?.at !== "number") throw new Error("no state");
  return { scene: state.scene, view: state.view };
}

async function through(bytes: Uint8Array, stream: CompressionStream | DecompressionStream): Promise<Uint8Array> {
  const writer = stream.writable.getWriter();
  void writer.write(bytes as BufferSource).catch(() => {});
  void writer.close().catch(() => {});
  return new Uint8Array(await new Response(stream.readable).arrayBuffer());
}
