// State other than the selection that the parts of the page share. Each entry has one writer; any part may read it.
export const pageState = {
  shown: null, // the drawn content: { model, prompt }; written by tokens.js
  tokens: null, // the prompt's tokens: [{ text, id, bytes }]; written by tokens.js
  tokensOf: null, // the run whose token selection arrived before its chips; written by picked.js and tokens.js
  hues: null, // one color for each selected head; written by picked.js
  headNames: {}, // names that probes gave to heads: { "4.1": [[text, score, hue]] }; written by head_list.js
  editSites: null, // the site changed by each kind of edit; written by picked.js
  tokenEdits: [], // kinds of edits of selected tokens that the model allows; written by header.js
  editMany: null, // the names of several alike edits by kind; written by picked.js
  editName: null, // (edit) -> its name; written by picked.js
  firstHeads: null, // the heads selected on an unchanged page; written by picked.js
  words: null, // words shared by several parts; written by header.js
  written: null, // { prompt, from }: a prompt that ends with generated text, and the byte at which that text begins
  leaving: false, // true while the page reloads itself; written by connection.js
  runs: [], // training runs of this page: { id, part, ended }, newest last; `ended`: whether the run has a result
  slow: false, // true if runs take long; written by header.js
  restoring: false, // true while a state from a link or file is being restored; written by address.js
};

// Return the current run of the form `part`.
export function noteRun(part, { id, state }) {
  const known = pageState.runs.find((run) => run.id === id);
  if (known) known.ended = state === "done";
  else pageState.runs.push({ id, part, ended: state === "done" });
}
