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

/** A button; clicked with the pointer it does not keep the focus, so that space goes on to play and pause. */
export function button(label: string, title: string, act: () => void, name = ""): HTMLButtonElement {
  const made = html("button", { type: "button", title, "aria-label": title, class: name }, label);
  made.addEventListener("click", (event) => {
    if (event.detail > 0) made.blur();
    act();
  });
  return made;
}
