// The fields for target and distractor, with suggested tokens below the focused field.
//
// payload: { fields: [{ role, label, help, empty, token: { id, text } | null }], typed, offered: [{ id, text, place }],
//  exact, cut, words }: `offered` are the tokens for `typed`; the first `exact` ones match the typed text exactly
// value: { typed }
import { el, fill } from "../page/dom.js";
import { define } from "../page/mount.js";
import { onSelect, selection } from "../page/selection/selection.js";
import { nameWatched, watch, watchedText } from "../page/selection/watched.js";
import { cross } from "./icons.js";

const PAUSE = 120; // milliseconds between questions while the user types

// Build one field: the typed text, the selected token, and the list of suggestions. acts: typed(field), opened(field),
// left(), key(field, event), take(field, token), clear(role).
function targetField(part, role, acts) {
  const name = `${part}-${role}`,
    box = el("div", "pg-control pg-target", "", { "data-name": role }),
    label = el("label", "pg-control-label", "", { for: name }),
    picked = el("span", "pg-selected"),
    text = el("b"),
    id = el("span", "pg-muted"),
    drop = cross("", () => acts.clear(field)),
    list = el("ul", "pg-target-list", "", { role: "listbox", id: `${name}-list` }),
    input = el("input", "", "", {
      type: "text",
      role: "combobox",
      id: name,
      autocomplete: "off",
      spellcheck: "false",
      "aria-autocomplete": "list",
      "aria-expanded": "false",
      "aria-controls": `${name}-list`,
    });
  let at = -1; // index of the list item selected with the arrow keys
  list.hidden = true;
  picked.append(text, id, drop);
  box.append(label, picked, input, list);
  const field = {
    role,
    box,
    input,
    drop,
    at: () => at,
    name(each, words) {
      label.textContent = each.label;
      box.title = each.help;
      input.placeholder = each.empty;
      list.setAttribute("aria-label", words.offered);
    },
    // Show the list with these tokens, none of them selected.
    open({ words, offered }) {
      at = -1;
      list.replaceChildren(
        ...offered.map((each, n) => {
          const option = el("li", "", "", { role: "option", id: `${list.id}-${n}`, "aria-selected": "false" });
          option.append(el("b", "", each.text), el("span", "pg-muted", fill(words.id, { id: each.id })));
          if (each.place) option.append(el("span", "pg-muted", words[each.place]));
          option.onpointerdown = (event) => event.preventDefault(); // keep the focus on the field
          option.onclick = () => acts.take(field, each);
          return option;
        }),
      );
      list.hidden = !offered.length;
      input.setAttribute("aria-expanded", String(!list.hidden));
    },
    close() {
      at = -1;
      list.hidden = true;
      input.setAttribute("aria-expanded", "false");
      input.removeAttribute("aria-activedescendant");
    },
    step(by) {
      const options = list.children;
      if (list.hidden || !options.length) return;
      at = (at + by + options.length) % options.length;
      [...options].forEach((option, n) => {
        option.setAttribute("aria-selected", n === at);
      });
      options[at].scrollIntoView({ block: "nearest" });
      input.setAttribute("aria-activedescendant", options[at].id);
    },
    paint(words) {
      const on = selection[role] !== null;
      picked.hidden = !on;
      input.hidden = on;
      if (!on) return;
      text.textContent = watchedText(role);
      id.textContent = fill(words.id, { id: selection[role] });
      drop.setAttribute("aria-label", `${words.clear}: ${watchedText(role)}`);
    },
  };
  input.onkeydown = (event) => acts.key(field, event);
  input.oninput = () => acts.typed(field);
  input.onfocus = () => acts.opened(field);
  input.onblur = acts.left;
  return field;
}

// Describe the selected token, and whether another one matches the text exactly.
function taken({ words, offered, exact, typed }, { id, text }) {
  const other = typed && offered.slice(0, exact).find((each) => each.id !== id),
    spaced = other && text.startsWith("·") && !other.text.startsWith("·");
  return spaced
    ? fill(words.taken_spaced, { text, id, other: other.text, other_id: other.id })
    : fill(words.taken, { text, id });
}

define("targets", (root, props, send) => {
  const row = el("div", "pg-target-row"),
    status = el("p", "pg-targets-said", "", { role: "status" }),
    fields = new Map();
  root.append(row, status);
  let payload = null,
    timer = null,
    open = null, // the field whose list is open
    taking = null; // field and text whose token is selected once the server has answered: { field, typed }

  const ask = (typed) => {
    props.value = { typed };
    send("select");
  };
  const current = (field) => payload.typed === field.input.value;
  const close = () => {
    open?.close();
    open = null;
  };
  const list = (field) => {
    open = field;
    field.open(payload);
  };
  const take = (field, token) => {
    status.textContent = taken(payload, token);
    close();
    field.input.value = "";
    props.value = { typed: "" };
    watch(field.role, token.id, token.text);
    field.drop.focus();
  };
  const enter = (field) => {
    const typed = field.input.value;
    if (!typed) return;
    if (!current(field)) {
      clearTimeout(timer);
      taking = { field, typed };
      ask(typed);
    } else if (field.at() >= 0) take(field, payload.offered[field.at()]);
    else if (payload.exact) take(field, payload.offered[0]);
    else status.textContent = payload.cut;
  };
  const acts = {
    take,
    left: close,
    typed({ input }) {
      status.textContent = "";
      clearTimeout(timer);
      timer = setTimeout(() => ask(input.value), PAUSE);
    },
    opened: (field) => (current(field) ? list(field) : ask(field.input.value)),
    clear({ role, input }) {
      status.textContent = "";
      watch(role, null);
      input.focus();
    },
    key(field, event) {
      const act = {
        ArrowDown: () => field.step(1),
        ArrowUp: () => field.step(-1),
        Enter: () => enter(field),
        Escape: close,
      }[event.key];
      if (!act || event.isComposing) return;
      event.preventDefault();
      if (event.key === "Escape") event.stopPropagation();
      act();
    },
  };
  const paint = () => {
    if (payload) for (const field of fields.values()) field.paint(payload.words);
  };
  onSelect(paint);
  return (next) => {
    payload = next;
    root.classList.toggle("pg-absent", !payload.fields.length);
    for (const each of payload.fields) {
      if (!fields.has(each.role)) fields.set(each.role, targetField(root.dataset.part, each.role, acts));
      fields.get(each.role).name(each, payload.words);
      if (each.token) nameWatched(each.token.id, each.token.text);
    }
    for (const [role, { box }] of fields) {
      const shown = payload.fields.some((each) => each.role === role);
      if (!shown) box.remove();
      else if (!box.isConnected) row.append(box);
    }
    paint();
    const field = [...fields.values()].find(({ input }) => input === document.activeElement);
    if (!field || !current(field)) return;
    list(field);
    if (taking?.field === field && taking.typed === payload.typed) enter(field);
    else if (payload.cut && !payload.offered.length) status.textContent = payload.cut;
    taking = null;
  };
});
