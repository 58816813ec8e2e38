// Small helpers to make SVG and HTML elements.

export type Attributes = Record<string, string | number | null | undefined>;
type Child = Node | string;

export function svg<K extends keyof SVGElementTagNameMap>(tag: K, given: Attributes = {}, ...children: Child[]): SVGElementTagNameMap[K] {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(made, given);
  made.append(...children);
  return made;
}

export function html<K extends keyof HTMLElementTagNameMap>(tag: K, given: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  set(made, given);
  made.append(...children);
  return made;
}

export function set(element: Element, given: Attributes): void {
  for (const [name, value] of Object.entries(given)) {
    if (value === null || value === undefined) element.removeAttribute(name);
    else element.setAttribute(name, typeof value === "number" ? String(Math.round(value * 100) / 100) : value);
  }
}

/** Icons as paths in a square of 16: no font has all of these symbols. */
const ICONS: Record<string, string> = {
  start: "M4 3v10M13 3 6 8l7 5z", back: "M12 3 5 8l7 5z", play: "M4 2.5 13 8l-9 5.5z", pause: "M5 3v10M11 3v10", on: "M3 3l7 5-7 5zM13 3v10",
  theme: "M8 2a6 6 0 1 1 0 12a6 6 0 0 1 0-12zM8 3a5 5 0 0 0 0 10z", full: "M6 2H2v4M10 2h4v4M6 14H2v-4M10 14h4v-4",
  undo: "M6 3 2.5 6.5 6 10M3 6.5h6.5a3.5 3.5 0 0 1 0 7H7", redo: "M10 3l3.5 3.5L10 10M13 6.5H6.5a3.5 3.5 0 0 0 0 7H9",
  open: "M8 4a4 4 0 1 1 0 8a4 4 0 0 1 0-8z", closed: "M8 4a4 4 0 1 1 0 8a4 4 0 0 1 0-8z",
};

export function icon(name: string): SVGSVGElement {
  const line = ["full", "pause", "undo", "redo", "closed"].includes(name) ? "none" : "currentColor";
  const made = svg("svg", { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true" });
  made.append(svg("path", { d: ICONS[name], fill: line, stroke: "currentColor", "stroke-width": name === "pause" ? 3 : name === "theme" ? 0.5 : 1.6, "stroke-linejoin": "round", "fill-rule": "evenodd" }));
  return made;
}

/** A button; clicked with the pointer it does not keep the focus, so that space goes on to play and pause. */
export function button(label: string | SVGSVGElement, title: string, act: () => void, name = ""): HTMLButtonElement {
  const made = html("button", { type: "button", title, "aria-label": title, class: name }, label);
  made.addEventListener("click", (event) => {
    if (event.detail > 0) made.blur();
    act();
  });
  return made;
}
