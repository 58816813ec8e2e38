// What the words of the page mean: shown where a pointer rests on one, and in a list.
import { html, svg, type Attributes } from "./svg.ts";

export const WORDS: Record<string, string> = {
  "share learned": "The strength carried, as a share of what this one alone would come to carry (of the largest one, where modes are coupled). The loss of one alone goes with the square of what is missing: at 80% it is down to 4%.",
  "strength carried": "What inputs are multiplied by on the way to the outputs, along a mode or through a pathway. Several modes count by their root mean square.",
  "midway at": "When the strength carried is midway between its own start and its own end; nr.learning_time(…, 0.5, of=…) asks for half of the end.",
  "at the end": "The share learned, at the end of the time axis.",
  "crosses the line at": "When the loss falls to the finishing line.",
  size: "Norm of the weights of an edge of this colour: the root of the sum of the squares of its strengths B.",
};

/** The title of a chart. */
export function heading(word: string, given: Attributes): SVGTextElement {
  const made = svg("text", { "font-size": 13, ...given }, word);
  if (word in WORDS) made.append(svg("title", {}, WORDS[word]));
  return made;
}

/** Some words with their meanings, to be unfolded. */
export function glossary(words: string[], open: boolean): HTMLElement {
  const list = html("dl", { class: "symbols" });
  for (const word of words) list.append(html("dt", {}, word), html("dd", {}, WORDS[word]));
  return html("details", { class: "words", open: open ? "" : null }, html("summary", {}, "what these words mean"), list);
}
