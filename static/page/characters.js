// Frames around tokens that together form one character. A setting above the prompt decides whether they are joined.
//
// frames: [[first token, end token (exclusive), character]]
import { el } from "./dom.js";

let joined = true;
const heard = new Set();
export const areJoined = () => joined;
export const onJoin = (call) => heard.add(call);
export function join(on) {
  joined = on;
  for (const call of heard) call();
}

// Return the nodes of the tokens in the same order, with the tokens of a frame grouped in one node. `ids` are the token
// ids of a frame, shown after each token.
export function framed(tokens, frames, ids = null) {
  const nodes = [];
  let next = 0;
  for (const [start, end, character] of joined ? frames : []) {
    nodes.push(...tokens.slice(next, start).flat());
    const frame = el("span", "pg-joined");
    frame.append(el("bdi", "pg-joined-character", character));
    tokens.slice(start, end).forEach((of, at) => {
      if (ids) of[0].append(el("small", "pg-joined-id", String(ids[start + at] ?? "–")));
      frame.append(...of);
    });
    nodes.push(frame);
    next = end;
  }
  return [...nodes, ...tokens.slice(next).flat()];
}
