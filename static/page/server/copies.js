// What the framework need not copy. At every message of an event it copies all that the event's inputs hold, a screen's
// whole payload among it, one value after the other. A text, which nothing can change, is its own copy.
const copy = window.structuredClone;
const refused = new DOMException("A function cannot be copied.", "DataCloneError"); // one with a trace is slow to make

window.structuredClone = (value, options) => {
  if (typeof value === "function") throw refused;
  return (typeof value === "object" && value) || typeof value === "symbol" ? copy(value, options) : value;
};
