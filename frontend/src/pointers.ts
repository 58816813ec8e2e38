// The pointer on the stage: drags the time cursor in the curves, connects and picks layers in the editor.
import type { Editor } from "./editor.ts";
import type { Stage } from "./stage.ts";

/** Returns whether a layer is held, during which the drawing must not move; `free` is called afterwards. */
export function listenToPointer(stage: Stage, editor: () => Editor | null, moveTo: (place: number) => void, free: () => void): () => boolean {
  const root = stage.root;
  let dragging = false;
  let from: string | null = null;
  const place = (event: PointerEvent) => {
    const box = root.getBoundingClientRect();
    const scale = stage.width / box.width;
    return stage.placeAt((event.clientX - box.left) * scale, (event.clientY - box.top) * scale);
  };
  root.addEventListener("pointerdown", (event) => {
    from = editor() ? layerUnder(event) : null;
    const at = place(event);
    if (at === null) return;
    dragging = true;
    root.setPointerCapture(event.pointerId);
    moveTo(at);
  });
  root.addEventListener("pointermove", (event) => {
    const at = dragging ? place(event) : null;
    if (at !== null) moveTo(at);
  });
  root.addEventListener("pointerup", (event) => {
    dragging = false;
    const own = editor();
    const held = from;
    from = null;
    if (own) released(own, held, event);
    if (held) free();
  });
  root.addEventListener("pointercancel", () => {
    dragging = false;
    from = null;
    free();
  });
  return () => from !== null;
}

function layerUnder(event: PointerEvent): string | null {
  const groups = document.elementsFromPoint(event.clientX, event.clientY).map((e) => e.closest<SVGGElement>("g.node"));
  return groups.find(Boolean)?.dataset.node ?? null;
}

/** A drag from layer to layer connects them; a click picks a layer or an edge. */
function released(editor: Editor, from: string | null, event: PointerEvent): void {
  const to = layerUnder(event);
  if (from && to && from !== to) editor.drag(from, to);
  else if (to) editor.click(to, event.shiftKey);
  else {
    const edge = (event.target as Element).closest<SVGPathElement>("[data-edge]")?.dataset.edge;
    if (edge) editor.clickEdge(edge);
  }
}
