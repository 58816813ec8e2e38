// Colours: classes of edges by Okabe and Ito, which colour-blind readers can tell apart; modes by a ramp.

export interface Theme {
  dark: boolean;
  paper: string;
  ink: string;
  soft: string; // lines and labels that stay behind
  faint: string; // grid
  node: string;
}

export const LIGHT: Theme = { dark: false, paper: "#ffffff", ink: "#1b2330", soft: "#6b7686", faint: "#e3e7ee", node: "#f4f6fa" };
export const DARK: Theme = { dark: true, paper: "#12161d", ink: "#eef2f8", soft: "#9aa6b8", faint: "#2a313d", node: "#1d2430" };

const CLASSES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800", "#7a5cc4"];
const CLASSES_DARK = ["#3ea0e6", "#f0b429", "#2fc79a", "#e39ac2", "#7cc9f5", "#f2793a", "#e6d94a", "#a58bea"];
const RAMP = ["#5b2a86", "#3b6fb6", "#1f9e89", "#7ab51d", "#d9a400"];
const RAMP_DARK = ["#b98af0", "#6ea8ff", "#3fd0b8", "#a6dd4a", "#ffd24a"];

export function classColour(k: number, theme: Theme): string {
  const table = theme.dark ? CLASSES_DARK : CLASSES;
  return table[k % table.length];
}

export function rampColour(k: number, count: number, theme: Theme): string {
  const stops = theme.dark ? RAMP_DARK : RAMP;
  if (count <= 1) return stops[0];
  const place = (k / (count - 1)) * (stops.length - 1);
  const low = Math.min(Math.floor(place), stops.length - 2);
  return mix(stops[low], stops[low + 1], place - low);
}

export function mix(a: string, b: string, share: number): string {
  const [x, y] = [channels(a), channels(b)];
  return "#" + x.map((v, k) => Math.round(v + (y[k] - v) * share).toString(16).padStart(2, "0")).join("");
}

/** Blue for -1, paper for 0, red for 1. */
export function diverging(value: number, theme: Theme): string {
  return mix(theme.dark ? "#1b212b" : "#f7f7f7", value < 0 ? "#2f6fb5" : theme.dark ? "#f0825a" : "#c8442c", Math.min(Math.abs(value), 1));
}

function channels(colour: string): number[] {
  return [1, 3, 5].map((k) => parseInt(colour.slice(k, k + 2), 16));
}
