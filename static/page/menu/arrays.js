// Attention arrays: an item of the page's menu, a file dropped on the page, and a name in the address (#attention=NAME).
// The viewer's script is loaded when the first one is opened.
import { el } from "../dom.js";

let words = null;

async function open(load) {
  const { show } = await import("../../viewer/overlay.js");
  await show({ load, words, choose, shut: leave });
}
const address = (path, more = "") => `playground/attention${path}?${more}${location.search.slice(1)}`;
const openFile = (file) =>
  open(() => fetch(address("", `name=${encodeURIComponent(file.name)}&`), { method: "POST", body: file }));

export function choose() {
  const input = el("input", "", "", { type: "file", accept: ".npz" });
  input.onchange = () => input.files[0] && openFile(input.files[0]);
  input.click();
}

// --- a name in the address ---

const named = () => new URLSearchParams(location.hash.slice(1)).get("attention");
function follow() {
  const name = named();
  if (name && words) open(() => fetch(address(`/${encodeURIComponent(name)}`)));
}
function leave() {
  if (named()) history.replaceState(history.state, "", location.pathname + location.search);
}
window.addEventListener("hashchange", follow);

// --- a file dropped on the page ---

const carries = ({ dataTransfer }) => dataTransfer?.types.includes("Files");
window.addEventListener("dragover", (event) => {
  if (carries(event)) event.preventDefault();
});
window.addEventListener("drop", (event) => {
  if (!carries(event) || event.defaultPrevented || !words) return;
  event.preventDefault();
  const [file] = event.dataTransfer.files;
  if (file) openFile(file);
});

export function nameArrays(given) {
  const first = !words;
  words = given;
  if (first) follow();
}
