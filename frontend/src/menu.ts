// The menu of what can be taken away.
import { toCsv } from "./race.ts";
import { button, html } from "./svg.ts";
import { figureGif, figurePng, figureSvg, save, type Figure } from "./takeaway.ts";

export interface Source {
  name(): string; // of files, without ending
  figure(): Figure; // throws where there is none
  index(): number; // of the cursor
  server: boolean; // that makes code and pages
  exported(format: "yaml" | "python" | "html"): Promise<string>;
  copyLink(): Promise<void>;
  say(text: string): void;
}

const SERVED = /^(Page|Python|YAML)/;

export function takeAwayMenu(from: Source): HTMLElement {
  const menu = html("details", { class: "menu" }, html("summary", { role: "button" }, "Take away"));
  const items: Record<string, () => Promise<void> | void> = {
    "Copy link": () => from.copyLink(),
    "Page that needs no server": async () => {
      from.say("Solving the positions of the sliders…");
      save(`${from.name()}.html`, await from.exported("html"), "text/html");
      from.say("");
    },
    "Python code": async () => save(`${from.name()}.py`, await from.exported("python")),
    "YAML for neuralrace reduce": async () => save(`${from.name()}.yaml`, await from.exported("yaml")),
    "Figure as SVG": () => save(`${from.name()}.svg`, figureSvg(from.figure(), from.index()), "image/svg+xml"),
    "Figure as PNG": async () => save(`${from.name()}.png`, await figurePng(from.figure(), from.index())),
    "Curves as CSV": () => save(`${from.name()}.csv`, toCsv(from.figure().picture, from.figure().runs), "text/csv"),
    "Race as GIF": async () => {
      const gif = await figureGif(from.figure(), 48, (share) => from.say(`making the GIF: ${Math.round(share * 100)}%`));
      from.say("");
      save(`${from.name()}.gif`, gif);
    },
  };
  const act = (label: string) => {
    menu.open = false;
    Promise.resolve()
      .then(items[label])
      .catch((error) => from.say(String(error.message ?? error)));
  };
  menu.append(html("div", { class: "items" }, ...Object.keys(items).filter((label) => from.server || !SERVED.test(label)).map((label) => button(label, label, () => act(label), "item"))));
  return menu;
}
