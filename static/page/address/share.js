// The Share button: copies a link to the current state, saves it as a file, or opens such a file.

import { save } from "../../export/files.js";
import { el, fill } from "../dom.js";
import { headerItem } from "../header_items.js";
import { onDrawn } from "../mount.js";
import { popup } from "../popup.js";
import { enter, LONGEST, linkTo, onWritten, state, write } from "./address.js";
import { checked, isRecord, isSmall, MOST_ENTRIES } from "./address_format.js";

const MOST_BYTES = 1 << 20; // maximum size of a state file
let words = null;
onDrawn((root, payload) => {
  if (root.dataset.part === "address" && payload) paint(payload.words);
});
onWritten(showLink);

const share = el("button", "pg-button pg-quiet pg-share", "", { type: "button", "aria-haspopup": "dialog" });
const box = el("div", "pg-share-box", "", {
  popover: "auto",
  role: "dialog",
  id: "pg-share-box",
  "data-part": "share",
  "data-drawn": "",
});
const title = el("h2"),
  about = el("p", "pg-about"),
  field = el("label", "pg-share-link"),
  label = el("span", "pg-label"),
  address = el("input", "", "", { readonly: "", type: "text" });
const long = el("p", "pg-share-long"),
  buttons = el("div", "pg-share-buttons"),
  status = el("p", "pg-share-told", "", { role: "status" });
const button = (name, act) => {
  const node = el("button", "pg-button", "", { type: "button", "data-what": name });
  node.onclick = act;
  return node;
};
const copy = button("copy", copyLink),
  keep = button("save", saveFile),
  open = button("open", () => file.click()),
  close = button("close", () => box.hidePopover());
const file = el("input", "", "", { type: "file", accept: ".json,application/json", hidden: "" });
field.append(label, address);
copy.classList.add("pg-primary");
buttons.append(copy, keep, open, close, file);
box.append(title, about, field, long, buttons, status);

function paint(catalogue) {
  words = catalogue;
  title.textContent = words.title;
  about.textContent = words.about;
  label.textContent = words.link;
  box.setAttribute("aria-label", words.title);
  for (const node of [copy, keep, open, close]) node.textContent = words[node.dataset.what];
  file.setAttribute("aria-label", words.open);
}
const say = (text) => {
  status.textContent = text;
};
function showLink() {
  if (!words || !box.matches(":popover-open")) return;
  const { text, length } = linkTo();
  field.hidden = copy.hidden = !text;
  long.hidden = Boolean(text);
  long.textContent = fill(words.too_long, { n: length.toLocaleString("en"), most: LONGEST.toLocaleString("en") });
  address.value = text ?? "";
}
async function copyLink() {
  write();
  showLink();
  try {
    await navigator.clipboard.writeText(address.value);
    say(words.copied);
  } catch {
    // the clipboard requires https and permission
    address.focus();
    address.select();
    say(document.execCommand("copy") ? words.copied : words.copy_failed);
  }
}
function saveFile() {
  const now = state(),
    name = `${`attention-${now.model}-${now.tab}`.replace(/[^\w.-]+/g, "-").slice(0, 80)}.json`;
  save(name, new Blob([JSON.stringify(now, null, 1)], { type: "application/json" }));
  say(fill(words.saved, { name }));
}
// Restore the state in a file as a new history entry.
async function openFile(picked) {
  const name = picked.name.slice(0, 80),
    wrong = (key, more = {}) => say(fill(words[key], { name, ...more }));
  if (picked.size > MOST_BYTES) return wrong("file_large");
  let parsed;
  try {
    parsed = JSON.parse(await picked.text());
  } catch {
    return wrong("file_json");
  }
  if (!isRecord(parsed) || !Number.isInteger(parsed.v) || parsed.v < 1) return wrong("file_state");
  if (parsed.v > 1) return wrong("file_version");
  if (!isSmall(parsed)) return wrong("file_entries", { most: MOST_ENTRIES.toLocaleString("en") });
  const result = checked(parsed);
  if (!Object.keys(result.state).length) return wrong("file_state");
  enter(result.state).then(showLink);
  wrong(result.wrong.length ? "file_fields" : "opened", { fields: result.wrong.join(", ") });
}
file.onchange = () => {
  const [picked] = file.files;
  file.value = "";
  if (picked) openFile(picked);
};
address.onfocus = () => address.select();
popup(share, box, {
  width: 460,
  opening() {
    // append it inside the element to which the page's styles apply
    if (!box.isConnected) document.getElementById("pg-header").parentElement.append(box);
    say("");
    write();
  },
  opened() {
    showLink();
    (copy.hidden ? keep : copy).focus();
  },
});
headerItem(40, ({ share: text, share_help: help }) => {
  share.textContent = text;
  share.title = help;
  return share;
});
