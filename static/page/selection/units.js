// Words or sentences of the prompt as clickable units. `spans`, in a payload: [first token, one after the last] of each
// unit; undefined if the units are tokens. The selection itself consists of tokens.
import { pickToken, select, selection, toggled } from "./selection.js";

// Return the units that contain selected tokens, in the order of selection.
export const pickedUnits = (spans) =>
  spans
    ? [...new Set(selection.tokens.map((token) => unitAt(spans, token)))].filter((at) => at >= 0)
    : selection.tokens;
export const unitAt = (spans, token) =>
  spans ? spans.findIndex(([start, end]) => start <= token && token < end) : token;
// Return the tokens of some units.
export const tokensIn = (spans, units) =>
  spans
    ? units.flatMap((at) => Array.from({ length: spans[at][1] - spans[at][0] }, (_, i) => spans[at][0] + i))
    : units;
// Toggle all tokens of a unit in the selection, as pickToken does for one token.
export const pickUnit = (spans, at, add) =>
  spans ? select({ tokens: tokensIn(spans, toggled(pickedUnits(spans), at, add)) }) : pickToken(at, add);
// Return the position of a unit as text: "3" or "3–5".
export const placeOf = ({ positions }, at) => positions?.[at] ?? String(at);
