// The frame of most parts: a heading, a sentence below it, and a footer with the source of the numbers and the export
// menu.
import { exporting } from "../export/menu.js";
import { el } from "../page/dom.js";

// Put elements between the heading and the footer of a part. Returns show(payload, taken): `payload` has title, note or
// about, file, source, python and run, unless they are provided later; `taken` describes the export, as for
// `exporting`, and overrides the payload.
export function titled(root, ...inside) {
  const title = el("h2"),
    about = el("p", "pg-about"),
    foot = el("div");
  root.append(title, about, ...inside, foot);
  return (payload, taken) => {
    const { file, source, python } = payload,
      note = payload.note ?? payload.about;
    title.textContent = payload.title ?? "";
    title.hidden = !payload.title;
    about.textContent = payload.about ?? payload.note ?? "";
    about.hidden = !about.textContent;
    foot.replaceChildren(exporting(root, { file, source, python, title: payload.title, note, ...taken }));
    if (payload.run !== undefined) root.dataset.run = payload.run;
  };
}

// Build a fact from [name, number, meaning]; the meaning is its tooltip.
export function fact([name, value, help]) {
  const item = el("span", "pg-surprise-fact", "", { title: help });
  item.append(el("span", "pg-muted", name), el("b", "", value));
  return item;
}
