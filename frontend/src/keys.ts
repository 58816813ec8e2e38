// The keyboard: one key, one act. Keys that a control needs itself are left to it.

export type Acts = Record<string, () => void>;

const WRITTEN = ["text", "number", "file"]; // kinds of inputs in which keys write

/** Act on keys of the page; `control` are those with Ctrl or Cmd, Shift written before. */
export function listenToKeys(target: HTMLElement | Document, acts: Acts, control: Acts, blocked: () => boolean): void {
  target.addEventListener("keydown", (e) => {
    const event = e as KeyboardEvent;
    const on = event.target as HTMLElement;
    if (blocked() || writes(on)) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const act = event.ctrlKey || event.metaKey ? control[event.shiftKey ? `Shift+${key}` : key] : acts[key];
    if (!act || needs(on, key)) return;
    event.preventDefault();
    act();
  });
}

function writes(on: HTMLElement): boolean {
  return /^(SELECT|TEXTAREA)$/.test(on.tagName) || (on.tagName === "INPUT" && WRITTEN.includes((on as HTMLInputElement).type));
}

/** A slider moves by arrows, a button is pressed by space. */
function needs(on: HTMLElement, key: string): boolean {
  const slider = on.tagName === "INPUT" && (on as HTMLInputElement).type === "range" && !on.classList.contains("time");
  const pressed = key === " " && /^(BUTTON|SUMMARY)$/.test(on.tagName);
  return pressed || (slider && /^(Arrow|Home|End)/.test(key));
}
