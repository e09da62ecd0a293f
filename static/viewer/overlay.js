// The viewer over the page: a dialog as large as the window, with a document from the server.
//
// GET playground/attention/NAME: the document of an array that the server was started with; POST playground/attention:
// that of a file. An error is { error: { what, got, hint } }.
import { el } from "../page/dom.js";
import { pageState } from "../page/state.js";
import { mount } from "./viewer.js";

let styles = null, // promise of the style sheet
  dialog = null,
  tickets = 0; // number of documents requested so far; only the newest is shown

function dressed() {
  styles ??= new Promise((done, fail) => {
    const sheet = el("link", "", "", { rel: "stylesheet", href: new URL("./viewer.css", import.meta.url).href });
    sheet.onload = done;
    sheet.onerror = () => {
      styles = null;
      sheet.remove();
      fail(new Error("the viewer's styles could not be loaded"));
    };
    document.head.append(sheet);
  });
  return styles;
}

function close() {
  tickets += 1;
  dialog?.close();
}
function build(shut) {
  const box = el("dialog", "pg-viewer-over", "", { "aria-label": pageState.words.arrays });
  box.addEventListener("keydown", (event) => event.stopPropagation()); // the page's keys have another meaning
  box.addEventListener("close", () => {
    box.remove();
    if (dialog === box) dialog = told = null;
    shut();
  });
  document.querySelector(".gradio-container").append(box);
  return box;
}

let told = null; // draws the message that is shown in place of a document
// Show a message in place of a document: `lines(words)`, and unless it is about to change, buttons to open another file
// and to close.
function say(root, lines, choose = null) {
  told = () => {
    const words = pageState.words,
      box = el("div", "pg-viewer-said", "", { role: "status" }),
      acts = el("div", "pg-tools");
    const button = (text, act) => {
      const node = el("button", "pg-button", text, { type: "button" });
      node.onclick = act;
      acts.append(node);
    };
    const [first, ...others] = lines(words).filter(Boolean);
    box.append(el("strong", "", first), ...others.map((text) => el("p", "", text)), acts);
    if (choose) button(words.arrays, choose);
    button(words.keys_close, close);
    root.replaceChildren(box);
  };
  told();
}
// Draw the message again, because the page's words are now in another language.
export const rename = () => told?.();

// Open the viewer with the document that `load` requests. `choose` opens another file, `shut` is called when the viewer
// is closed.
export async function show({ load, choose, shut }) {
  const mine = ++tickets;
  await dressed();
  if (mine !== tickets) return;
  dialog ??= build(shut);
  const root = el("div", "", "", { "data-part": "viewer", "data-drawn": "" }),
    failed = (words) => [words.arrays_failed];
  say(root, (words) => [words.arrays_loading]);
  dialog.replaceChildren(root);
  if (!dialog.open) dialog.showModal();
  try {
    const answer = await load(),
      found = await answer.json();
    if (mine !== tickets) return;
    if (answer.ok) {
      told = null;
      await mount(root, found, { close });
    } else say(root, found.error ? () => [found.error.what, found.error.got, found.error.hint] : failed, choose);
  } catch (error) {
    console.warn(error);
    if (mine === tickets) say(root, failed, choose);
  }
}
