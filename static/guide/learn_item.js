// Access to the lessons: the first item of the group Learn, a link (?lesson=key, with &workshop for the lessons alone), and
// a server that shows nothing else. The lessons' scripts are loaded when the first one is opened.
import { el } from "../page/dom.js";
import { groupItem } from "../page/header_items.js";
import { onDrawn } from "../page/mount.js";
import { pageState } from "../page/state.js";

const KEY = "playground-learn";
const query = new URLSearchParams(location.search);
const only = JSON.parse(document.getElementById("pg-connection-words").content).workshop ?? "";
const asked = query.get("lesson") ?? "";
const workshop = only || (query.has("workshop") ? asked || "all" : "");

export const openLearn = async (key = "", again = false) =>
  (await import("../learn/learn.js")).open({ key, again, workshop, remember });
// The lessons and words, { lessons, words }, for the search.
export const allLessons = async () => (await import("../learn/panel.js")).listing();

// Return whether the panel was open before a reload.
function stayed() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null; // private browsing, or blocked storage
  }
}
function remember(key) {
  try {
    if (key === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, key);
  } catch {
    /* as above */
  }
}

// The start page has the link too, because the page's header is collapsed on a phone.
onDrawn((root) => {
  if (root.dataset.part !== "start_question" || workshop || root.querySelector(".pg-learn-way")) return;
  const way = el("button", "pg-button pg-quiet pg-learn-way", pageState.words?.learn_start ?? "", { type: "button" });
  way.onclick = () => openLearn();
  root.append(way);
});

let first = true;
groupItem("learn", (words) => {
  const open = el("button", "pg-tab pg-learn-open", words.learn, {
    type: "button",
    title: words.learn_help,
  });
  open.onclick = () => openLearn();
  if (first) {
    first = false;
    const before = stayed();
    if (before !== null && (!asked || before === asked)) openLearn(before, true);
    else if (asked || workshop) openLearn(asked);
  }
  return open;
});
