// Attention arrays: an item of the page's menu, a file dropped on the page, and a name in the address (#attention=NAME).
// The viewer's script is loaded when the first one is opened.
import { el } from "../dom.js";
import { identity } from "../server/identity.js";

let named = false, // true once the page's words have arrived
  viewer = null; // the viewer's module, once it is loaded

async function open(load) {
  viewer = await import("../../viewer/overlay.js");
  await viewer.show({ load, choose, shut: leave });
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

const nameIn = () => new URLSearchParams(location.hash.slice(1)).get("attention");
function follow(name = nameIn()) {
  if (name && named) open(() => fetch(address(`/${encodeURIComponent(name)}`)));
}
function leave() {
  if (nameIn()) history.replaceState(history.state, "", location.pathname + location.search);
}
window.addEventListener("hashchange", () => follow());

// --- a file dropped on the page ---

const carries = ({ dataTransfer }) => dataTransfer?.types.includes("Files");
window.addEventListener("dragover", (event) => {
  if (carries(event)) event.preventDefault();
});
window.addEventListener("drop", (event) => {
  if (!carries(event) || event.defaultPrevented || !named) return;
  event.preventDefault();
  const [file] = event.dataTransfer.files;
  if (file) openFile(file);
});

// Called whenever the page's words change; the first time, open what the address or the server names.
export function renameArrays() {
  viewer?.rename();
  if (named) return;
  named = true;
  follow(location.hash ? nameIn() : identity.attention);
}
