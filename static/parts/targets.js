// The fields of target and distractor, with the tokens that what is typed may mean below the one that has the focus.
//
// payload: { fields: [{ role, label, help, empty, token: { id, text } | null }], typed, offered: [{ id, text, place }],
//   exact, cut, words }: `offered` are the tokens for `typed`, the first `exact` ones are that text itself
// value: { typed }
import { el, fill } from "../page/dom.js";
import { define } from "../page/mount.js";
import { onSelect, selection } from "../page/selection/selection.js";
import { nameWatched, watch, watchedText } from "../page/selection/watched.js";

const PAUSE = 120; // milliseconds between two questions while someone types

define("targets", (root, props, trigger) => {
  const row = el("div", "pg-target-row"),
    status = el("p", "pg-targets-said", "", { role: "status" });
  root.append(row, status);
  let payload = null,
    timer = null,
    at = -1, // of the list, where the arrow keys are
    open = null, // the field whose list is open
    taking = null; // what to take once the server has answered: { field, typed }
  const fields = new Map();

  const ask = (typed) => {
    props.value = { typed };
    trigger("select", { index: 0, value: JSON.stringify(props.value) });
  };
  const current = (field) => payload.typed === field.input.value;
  const take = (field, { id, text }) => {
    const { words, offered, exact, typed } = payload;
    const other = typed && offered.slice(0, exact).find((each) => each.id !== id);
    const spaced = other && text.startsWith("·") && !other.text.startsWith("·");
    status.textContent = spaced
      ? fill(words.taken_spaced, { text, id, other: other.text, other_id: other.id })
      : fill(words.taken, { text, id });
    close();
    field.input.value = "";
    props.value = { typed: "" };
    watch(field.role, id, text);
    field.drop.focus();
  };
  const close = () => {
    if (open) {
      open.list.hidden = true;
      open.input.setAttribute("aria-expanded", "false");
      open.input.removeAttribute("aria-activedescendant");
    }
    open = null;
    at = -1;
  };
  const list = (field) => {
    const { words, offered } = payload;
    open = field;
    at = -1;
    field.list.replaceChildren(
      ...offered.map((each, n) => {
        const option = el("li", "", "", { role: "option", id: `${field.list.id}-${n}`, "aria-selected": "false" });
        option.append(el("b", "", each.text), el("span", "pg-muted", fill(words.id, { id: each.id })));
        if (each.place) option.append(el("span", "pg-muted", words[each.place]));
        option.onpointerdown = (event) => event.preventDefault(); // the field keeps the focus
        option.onclick = () => take(field, each);
        return option;
      }),
    );
    field.list.hidden = !offered.length;
    field.input.setAttribute("aria-expanded", String(!field.list.hidden));
  };
  const step = (field, by) => {
    const options = field.list.children;
    if (field.list.hidden || !options.length) return;
    at = (at + by + options.length) % options.length;
    [...options].forEach((option, n) => {
      option.setAttribute("aria-selected", n === at);
    });
    options[at].scrollIntoView({ block: "nearest" });
    field.input.setAttribute("aria-activedescendant", options[at].id);
  };
  const enter = (field) => {
    const typed = field.input.value;
    if (!typed) return;
    if (!current(field)) {
      clearTimeout(timer);
      taking = { field, typed };
      ask(typed);
    } else if (at >= 0) take(field, payload.offered[at]);
    else if (payload.exact) take(field, payload.offered[0]);
    else status.textContent = payload.cut;
  };
  const keys = (field) => (event) => {
    const act = {
      ArrowDown: () => step(field, 1),
      ArrowUp: () => step(field, -1),
      Enter: () => enter(field),
      Escape: close,
    }[event.key];
    if (!act || event.isComposing) return;
    event.preventDefault();
    if (event.key === "Escape") event.stopPropagation();
    act();
  };
  const make = (role) => {
    const box = el("div", "pg-control pg-target", "", { "data-name": role }),
      label = el("label", "pg-control-label");
    const name = `${root.dataset.part}-${role}`;
    const input = el("input", "", "", {
      type: "text",
      role: "combobox",
      id: name,
      autocomplete: "off",
      spellcheck: "false",
      "aria-autocomplete": "list",
      "aria-expanded": "false",
      "aria-controls": `${name}-list`,
    });
    const picked = el("span", "pg-selected"),
      text = el("b"),
      id = el("span", "pg-muted"),
      drop = el("button", "pg-cross", "×", { type: "button" });
    const offers = el("ul", "pg-target-list", "", { role: "listbox", id: `${name}-list` });
    const field = { role, box, label, input, picked, text, id, drop, list: offers };
    label.htmlFor = name;
    offers.hidden = true;
    input.onkeydown = keys(field);
    input.oninput = () => {
      status.textContent = "";
      clearTimeout(timer);
      timer = setTimeout(() => ask(input.value), PAUSE);
    };
    input.onfocus = () => (current(field) ? list(field) : ask(input.value));
    input.onblur = close;
    drop.onclick = () => {
      status.textContent = "";
      watch(role, null);
      input.focus();
    };
    picked.append(text, id, drop);
    box.append(label, picked, input, offers);
    return field;
  };
  const paint = () => {
    if (!payload) return;
    for (const [role, field] of fields) {
      const on = selection[role] !== null;
      field.picked.hidden = !on;
      field.input.hidden = on;
      if (!on) continue;
      field.text.textContent = watchedText(role);
      field.id.textContent = fill(payload.words.id, { id: selection[role] });
      field.drop.setAttribute("aria-label", `${payload.words.clear}: ${watchedText(role)}`);
    }
  };
  onSelect(paint);
  return (next) => {
    payload = next;
    root.classList.toggle("pg-absent", !payload.fields.length);
    for (const each of payload.fields) {
      if (!fields.has(each.role)) fields.set(each.role, make(each.role));
      const { label, input, box, list: offers } = fields.get(each.role);
      if (each.token) nameWatched(each.token.id, each.token.text);
      label.textContent = each.label;
      box.title = each.help;
      input.placeholder = each.empty;
      offers.setAttribute("aria-label", payload.words.offered);
    }
    for (const [role, field] of fields) {
      const shown = payload.fields.some((each) => each.role === role);
      if (!shown) field.box.remove();
      else if (!field.box.isConnected) row.append(field.box);
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
