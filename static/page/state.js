// State that the parts of the page share beside the selection. A part writes its own entries, any part reads them.
export const pageState = {
  shown: null, // { model, prompt } of what is drawn; written by tokens.js
  tokens: null, // [{ text, id, bytes }] of the prompt; written by tokens.js
  tokensOf: null, // the run whose selected tokens came before its chips; written by picked.js and tokens.js
  hues: null, // a color for each selected head; written by picked.js
  headNames: {}, // what probes called heads: { "4.1": [[text, score, hue]] }; written by head_list.js
  editSites: null, // the site that each kind of edit changes; written by picked.js
  editName: null, // (edit) -> its name; written by picked.js
  firstHeads: null, // the heads that an untouched page selects; written by picked.js
  words: null, // those that several parts use; written by header.js
  written: null, // { prompt, from }: a text that was written here, and its byte where that begins
  leaving: false, // whether the page loads itself again; written by connection.js
  runs: [], // what was trained here: { id, part, ended }, the newest last; ended: with a result
  slow: false, // whether runs take long; written by header.js
  restoring: false, // whether a state from a link or a file is on its way; written by address.js
};

// A run of the form `part` as it is now.
export function noteRun(part, { id, state }) {
  const known = pageState.runs.find((run) => run.id === id);
  if (known) known.ended = state === "done";
  else pageState.runs.push({ id, part, ended: state === "done" });
}
