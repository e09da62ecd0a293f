// The viewer over the page: a dialog as large as the window, with a document from the server.
//
// GET playground/attention/NAME: the document of an array that the server was started with; POST playground/attention:
// that of a file. An error is { error: { what, got, hint } }.
import { el } from "../page/dom.js";
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
function build(words, shut) {
  const box = el("dialog", "pg-viewer-over", "", { "aria-label": words.arrays, "data-drawn": "" });
  box.addEventListener("keydown", (event) => event.stopPropagation()); // the page's keys have another meaning
  box.addEventListener("close", () => {
    box.remove();
    if (dialog === box) dialog = null;
    shut();
  });
  document.querySelector(".gradio-container").append(box);
  return box;
}

// Show a message in place of a document, with a button that opens a file and one that closes.
function say(root, words, choose, ...lines) {
  const box = el("div", "pg-viewer-said", "", { role: "status" }),
    acts = el("div", "pg-tools");
  const button = (text, act) => {
    const node = el("button", "pg-button", text, { type: "button" });
    node.onclick = act;
    acts.append(node);
  };
  box.append(...lines.filter(Boolean).map((text, i) => el(i ? "p" : "strong", "", text)));
  if (choose) button(words.arrays, choose);
  button(words.keys_close, close);
  box.append(acts);
  root.classList.remove("pg-viewer");
  root.replaceChildren(box);
}

// Open the viewer with the document that `load` requests. `choose` opens another file, `shut` is called when the viewer
// is closed.
export async function show({ load, words, choose, shut }) {
  const mine = ++tickets;
  await dressed();
  if (mine !== tickets) return;
  dialog ??= build(words, shut);
  const root = el("div", "", "", { "data-part": "viewer" });
  say(root, words, null, words.arrays_loading);
  dialog.replaceChildren(root);
  if (!dialog.open) dialog.showModal();
  try {
    const answer = await load(),
      found = await answer.json();
    if (mine !== tickets) return;
    const { what = words.arrays_failed, got = "", hint = "" } = found.error ?? {};
    if (!answer.ok) return say(root, words, choose, [what, got].filter(Boolean).join(" · "), hint);
    await mount(root, found, { close });
  } catch (error) {
    console.warn(error);
    if (mine === tickets) say(root, words, choose, words.arrays_failed);
  }
}
