// Attention arrays: an item of the page's menu, a file dropped on the page, and a name in the address (#attention=NAME).
// A dropped text becomes the prompt.
// The viewer's script is loaded when the first one is opened.
import { el } from "../dom.js";
import { focusPrompt, setPrompt } from "../prompt/prompt.js";
import { identity } from "../server/identity.js";
import { pageState } from "../state.js";

let named = false, // true once the page's words have arrived
  viewer = null; // the viewer's module, once it is loaded

async function open(load) {
  viewer = await import("../../viewer/overlay.js");
  await viewer.show({ load, choose, shut: leave });
}
const address = (path, more = "") => `playground/attention${path}?${more}${location.search.slice(1)}`;
function openFile(file) {
  const name = encodeURIComponent(file.name),
    body = /\.npz$/i.test(file.name) ? file : file.slice(0, 99); // enough for the server to say what is wrong
  open(() => fetch(address("", `name=${name}&`), { method: "POST", body }));
}

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

const MOST_BYTES = 1 << 20; // of a text; the server says what part of it the model can read
const { documentElement: whole } = document,
  isText = ({ name, type }) => /\.(txt|md)$/i.test(name) || type.startsWith("text/"),
  carries = ({ dataTransfer }) => named && dataTransfer?.types.includes("Files"),
  invite = (on) => whole.toggleAttribute("data-pg-drop", on);
window.addEventListener("dragover", (event) => {
  if (!carries(event)) return;
  event.preventDefault();
  whole.style.setProperty("--pg-drop", JSON.stringify(pageState.words.arrays_drop));
  invite(true);
});
window.addEventListener("dragleave", ({ relatedTarget }) => relatedTarget ?? invite(false));
window.addEventListener("drop", (event) => {
  invite(false);
  if (!carries(event) || event.defaultPrevented) return;
  event.preventDefault();
  const [file] = event.dataTransfer.files;
  if (file) (isText(file) ? openText : openFile)(file);
});
async function openText(file) {
  setPrompt((await file.slice(0, MOST_BYTES).text()).trim());
  focusPrompt();
}

// Called whenever the page's words change; the first time, open what the address or the server names.
export function renameArrays() {
  viewer?.rename();
  if (named) return;
  named = true;
  follow(location.hash ? nameIn() : identity.attention);
}
