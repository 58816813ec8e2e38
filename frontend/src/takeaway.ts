// Take it away: the figure as SVG, PNG or GIF, the curves as CSV, text files.
import type { Theme } from "./colours.ts";
import { Gif } from "./gif.ts";
import type { DrawnLane } from "./network.ts";
import type { Picture } from "./protocol.ts";
import type { Run } from "./race.ts";
import { Stage } from "./stage.ts";
import { set, svg } from "./svg.ts";

export interface Figure {
  picture: Picture;
  lanes: DrawnLane[];
  runs: Run[];
  theme: Theme;
  large: boolean; // type, as on slides
  note: string; // in small print
}

const [WIDTH, HEIGHT, PAD] = [1280, 720, 24];
const LARGE = 1.7; // of the usual size: as type of 15 points on a slide

/** The stage by itself, at a place of the time axis, with type of a size. */
export function figureSvg(figure: Figure, index: number, type = 1): string {
  const stage = new Stage();
  const scale = figure.large ? LARGE : type;
  const [width, height] = [WIDTH / scale, HEIGHT / scale];
  stage.draw(figure.picture, figure.lanes, figure.runs, width - 2 * PAD, height - 2 * PAD, figure.theme);
  stage.at(index, figure.theme);
  stage.root.querySelectorAll(".edge-reach, title").forEach((e) => e.remove());
  stage.root.append(svg("text", { x: 0, y: height - 1.4 * PAD, fill: figure.theme.soft, "font-size": 9 }, figure.note));
  set(stage.root, { viewBox: `${-PAD} ${-PAD} ${width} ${height}`, width: WIDTH, height: HEIGHT });
  stage.root.setAttribute("style", `background:${figure.theme.paper}`);
  return new XMLSerializer().serializeToString(stage.root);
}

async function paint(text: string, canvas: HTMLCanvasElement, paper: string): Promise<CanvasRenderingContext2D> {
  const image = new Image();
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
  await image.decode();
  const context = canvas.getContext("2d", { willReadFrequently: true })!;
  context.fillStyle = paper;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  return context;
}

function sheet(width: number, height: number): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  return canvas;
}

export async function figurePng(figure: Figure, index: number): Promise<Blob> {
  const canvas = sheet(2560, 1440);
  await paint(figureSvg(figure, index), canvas, figure.theme.paper);
  return new Promise((done) => canvas.toBlob((blob) => done(blob!), "image/png"));
}

export async function figureGif(figure: Figure, frames = 48, progress: (share: number) => void = () => {}): Promise<Blob> {
  const canvas = sheet(800, 450); // larger type than in the figure by itself
  const gif = new Gif(canvas.width, canvas.height, 8);
  const last = figure.picture.t.length - 1;
  for (let k = 0; k < frames + 8; k++) {
    const index = Math.round((Math.min(k, frames - 1) / (frames - 1)) * last);
    const context = await paint(figureSvg(figure, index, 1.28), canvas, figure.theme.paper);
    gif.frame(context.getImageData(0, 0, canvas.width, canvas.height).data);
    progress((k + 1) / (frames + 8));
  }
  return gif.finish();
}

export function save(name: string, content: Blob | string, type = "text/plain"): void {
  const blob = typeof content === "string" ? new Blob([content], { type }) : content;
  const address = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
