// The edits of the run: a form for a new edit, and the list of current edits.
import { el, fill, hint } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { changeBeside } from "../../page/selection/edited.js";
import { onSelect, pickHead, select, selection } from "../../page/selection/selection.js";
import { nameWatched, ROLES, tokenText } from "../../page/selection/watched.js";
import { pageState } from "../../page/state.js";
import { cross } from "../../parts/icons.js";
import { editForm, kindOf, pairOf } from "./edit_form.js";
import { wantedEdits } from "./edit_rules.js";
import { button, choices, labeled, numbered, same } from "./widgets.js";

// Build the list of heads to edit, with remove buttons if there are several, and fields to add one.
function headChips({ payload, form }, root) {
  const { words, layers } = payload,
    several = selection.heads.length > 1;
  const chips = selection.heads.map(([layer, head], i) => {
    const name = fill(words.head, { layer, head }),
      chip = el("span", "pg-selected pg-selected-hued", name);
    chip.style.setProperty("--pg-hue", pageState.hues?.[i % 8] ?? "");
    if (several) chip.append(cross(`${words.remove}: ${name}`, () => pickHead(layer, head, true)));
    return chip;
  });
  const layer = choices(numbered(layers), form.layer ?? 0),
    head = choices(numbered(payload.heads), form.head ?? 0),
    adder = el("span", "pg-effect-add");
  layer.onchange = () => {
    form.layer = +layer.value;
  };
  head.onchange = () => {
    form.head = +head.value;
  };
  const add = () => {
    const at = [+layer.value, +head.value];
    if (!selection.heads.some((each) => same(each, at))) pickHead(...at, true);
    root.querySelector(".pg-button").focus();
  };
  adder.append(
    labeled(words.add_layer, layer, "layer"),
    labeled(words.add_head, head, "head"),
    button(words.add, add, "pg-quiet"),
  );
  root.replaceChildren(
    el("span", "pg-label", words.heads),
    ...chips,
    adder,
    el("span", "pg-muted", hint(words, "pick_hint")),
  );
}

// Build the list of current edits, each with a remove button.
function activeEdits({ words }) {
  const { edits } = selection,
    list = el("ul");
  for (const edit of edits) {
    const name = pageState.editName?.(edit) ?? edit.kind,
      item = el("li", "", name);
    const drop = () => select({ edits: selection.edits.filter((other) => other !== edit) });
    item.append(cross(`${words.remove}: ${name}`, drop));
    list.append(item);
  }
  return [el("span", "pg-label", words.active), edits.length ? list : el("span", "pg-muted", words.none)];
}

define("edits", (root) => {
  const desk = {
      payload: null,
      form: { kind: null, factor: 2, everywhere: false, block: 0, neuron: 0, value: 1, token: null, positions: null },
    },
    about = el("p", "pg-about"),
    heads = el("div", "pg-effect-heads"),
    status = el("p", "pg-effect-told", "", { role: "status" }),
    buttons = el("div", "pg-buttons"),
    active = el("div", "pg-effect-active"),
    title = el("h2"),
    fields = editForm(desk, () => paint());
  root.append(title, about, fields.fields, fields.help, heads, fields.link, status, buttons, active);

  const newEdits = () => wantedEdits(desk.payload, desk.form, pairOf(desk), selection);
  const apply = () => {
    const { next } = newEdits(),
      { token } = desk.form;
    if (!next) return;
    const known = desk.payload.vocabulary.find(([id]) => id === token);
    if (known && tokenText(token) === String(token)) nameWatched(...known);
    select({ edits: next });
  };
  // The button is not replaced, so that the focus is not lost.
  const go = button("", apply, "pg-primary");
  buttons.append(go, changeBeside(go));
  const paint = () => {
    if (!desk.payload) return;
    const { next, problem, note } = newEdits();
    status.textContent = problem ?? note ?? "";
    status.classList.toggle("pg-effect-problem", Boolean(problem));
    go.disabled = !next;
    active.replaceChildren(...activeEdits(desk.payload));
    heads.hidden = kindOf(desk).of !== "heads" || (desk.form.kind === "block_edge" && desk.form.everywhere);
  };
  let seen = "",
    watching = "";
  onSelect(() => {
    if (!desk.payload) return;
    const watched = JSON.stringify(ROLES.map((role) => selection[role]));
    if (watched !== watching) {
      watching = watched;
      fields.draw();
    }
    const picked = JSON.stringify([selection.tokens, selection.pair]);
    if (picked !== seen) {
      seen = picked;
      desk.form.pair = null;
      desk.form.positions = null;
      fields.draw();
    }
    headChips(desk, heads);
    paint();
  });
  return (payload) => {
    const before = desk.payload,
      still = before && same([before.model, before.tokens], [payload.model, payload.tokens]);
    desk.payload = payload;
    const { words, kinds } = payload;
    if (!still) {
      const fresh = { pair: null, layer: 0, head: 0, block: 0, neuron: 0, token: null, positions: null };
      desk.form = { ...desk.form, kind: desk.form.kind ?? kinds[0].key, ...fresh };
    }
    title.textContent = words.title;
    about.textContent = words.replaces;
    go.textContent = words.apply;
    fields.draw();
    headChips(desk, heads);
    paint();
  };
});
