// Sliders of an entry: even or logarithmic, with the value beside the label.
import type { Slider } from "./protocol.ts";
import { html } from "./svg.ts";
import { shown } from "./ticks.ts";

/** A slider with stops moves from one to the next. */
export function toPlace(slider: Slider, value: number): number {
  if (slider.stops.length) return slider.stops.reduce((best, stop, k) => (Math.abs(stop - value) < Math.abs(slider.stops[best] - value) ? k : best), 0);
  return slider.log ? Math.log10(value) : value;
}

export function toValue(slider: Slider, place: number): number {
  if (slider.stops.length) return slider.stops[Math.round(place)];
  const value = slider.log ? 10 ** place : place;
  const near = Math.max(slider.low, Math.min(slider.high, value));
  return slider.log ? Number(near.toPrecision(4)) : Number(near.toPrecision(12));
}

export function sliderRow(slider: Slider, value: number, change: (value: number) => void): HTMLElement {
  const input = html("input", {
    type: "range", min: String(toPlace(slider, slider.low)), max: String(toPlace(slider, slider.high)),
    step: String(slider.stops.length ? 1 : slider.step), "aria-label": slider.label, "data-slider": slider.name,
  });
  input.value = String(toPlace(slider, value));
  const output = html("output", {}, shown(value));
  input.addEventListener("input", () => {
    const next = toValue(slider, Number(input.value));
    output.textContent = shown(next);
    change(next);
  });
  return html("label", { class: "slider" }, html("span", {}, slider.label), output, input);
}
