import { el, fill, hint } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { onSelect, pickHead, select, selection } from "../../page/selection.js";
import { pageState } from "../../page/state.js";
import { wantedEdits } from "./edit_rules.js";
import { button, choices, labelled, numbered, same } from "./widgets.js";

define("edits", (root) => {
  let payload = null,
    form = { kind: null, factor: 2, everywhere: false },
    last = "[]",
    history = [];
  const about = el("p", "pg-about"),
    fields = el("div", "pg-controls"),
    help = el("p", "pg-about");
  const heads = el("div", "pg-effect-heads"),
    link = el("div", "pg-controls");
  const status = el("p", "pg-effect-told", "", { role: "status" }),
    buttons = el("div", "pg-buttons");
  const active = el("div", "pg-effect-active"),
    title = el("h2");
  root.append(title, about, fields, help, heads, link, status, buttons, active);

  // The link to block: what is picked on the page, until another is chosen here.
  const pair = () => {
    if (form.pair) return form.pair;
    const { tokens } = selection,
      end = payload.tokens.length - 1;
    if (selection.pair) return selection.pair;
    if (tokens.length > 1) return [Math.max(...tokens), Math.min(...tokens)];
    const query = tokens[0] ?? end;
    return [query, Math.max(query - 1, 0)];
  };

  const newEdits = () => wantedEdits(payload, form, pair(), selection);
  const drawFields = () => {
    const { words, kinds } = payload;
    const kind = choices(
      kinds.map(({ key, name }) => [key, name]),
      form.kind,
    );
    const factor = el("input", "", "", { type: "number", step: "any", min: -payload.factor, max: payload.factor });
    const scale = labelled(words.factor, factor, "factor");
    const show = () => {
      help.textContent = kinds.find(({ key }) => key === form.kind).about;
      scale.hidden = form.kind !== "scale";
      link.hidden = form.kind !== "block_edge";
      if (!link.hidden) drawLink();
    };
    factor.value = form.factor;
    factor.oninput = () => {
      form.factor = factor.value;
      paint();
    };
    kind.onchange = () => {
      form.kind = kind.value;
      show();
      paint();
    };
    fields.replaceChildren(labelled(words.change, kind, "kind"), scale);
    show();
  };
  const drawLink = () => {
    const { words, tokens } = payload,
      options = tokens.map((text, at) => [at, `${at} ${text}`]);
    const [query, key] = pair(),
      from = choices(options, query),
      to = choices(options, key);
    const everywhere = choices(
      [
        ["picked", words.where_picked],
        ["all", words.where_all],
      ],
      form.everywhere ? "all" : "picked",
    );
    from.onchange = to.onchange = () => {
      form.pair = [+from.value, +to.value];
      paint();
    };
    everywhere.onchange = () => {
      form.everywhere = everywhere.value === "all";
      paint();
    };
    link.replaceChildren(
      labelled(words.query, from, "query"),
      labelled(words.key, to, "key"),
      labelled(words.where, everywhere, "where"),
    );
  };
  const drawHeads = () => {
    const { words, layers } = payload,
      several = selection.heads.length > 1;
    const chips = selection.heads.map(([layer, head], i) => {
      const name = fill(words.head, { layer, head }),
        chip = el("span", "pg-selected", name);
      chip.style.setProperty("--pg-hue", pageState.hues?.[i % 8] ?? "");
      if (several) {
        const cross = button("×", () => pickHead(layer, head, true), "pg-cross");
        cross.className = "pg-cross";
        cross.setAttribute("aria-label", `${words.remove}: ${name}`);
        chip.append(cross);
      }
      return chip;
    });
    const layer = choices(numbered(layers), form.layer ?? 0),
      head = choices(numbered(payload.heads), form.head ?? 0);
    layer.onchange = () => {
      form.layer = +layer.value;
    };
    head.onchange = () => {
      form.head = +head.value;
    };
    const add = button(
      words.add,
      () => {
        const at = [+layer.value, +head.value];
        if (!selection.heads.some((each) => same(each, at))) pickHead(...at, true);
        heads.querySelector(".pg-button").focus();
      },
      "pg-quiet",
    );
    const adder = el("span", "pg-effect-add");
    adder.append(labelled(words.add_layer, layer, "layer"), labelled(words.add_head, head, "head"), add);
    heads.replaceChildren(
      el("span", "pg-label", words.heads),
      ...chips,
      adder,
      el("span", "pg-muted", hint(words, "pick_hint")),
    );
  };
  const drawActive = () => {
    const { words } = payload,
      { edits } = selection;
    const list = el("ul");
    for (const edit of edits) {
      const name = pageState.editName?.(edit) ?? edit.kind,
        item = el("li", "", name);
      const cross = button("×", () => select({ edits: selection.edits.filter((other) => other !== edit) }));
      cross.className = "pg-cross";
      cross.setAttribute("aria-label", `${words.remove}: ${name}`);
      item.append(cross);
      list.append(item);
    }
    active.replaceChildren(
      el("span", "pg-label", words.active),
      edits.length ? list : el("span", "pg-muted", words.none),
    );
  };
  const apply = () => {
    const { next } = newEdits();
    if (next) select({ edits: next });
  };
  const undo = () => {
    if (!history.length) return;
    last = history.pop(); // not a change to be undone
    select({ edits: JSON.parse(last) });
  };
  // Buttons stay where they are, so that the focus does too.
  const actions = {
    apply: button("", apply, "pg-primary"),
    undo: button("", undo),
    clear: button("", () => select({ edits: [] })),
  };
  buttons.append(...Object.values(actions));
  const paint = () => {
    if (!payload) return;
    const { next, problem, note } = newEdits();
    status.textContent = problem ?? note ?? "";
    status.classList.toggle("pg-effect-problem", Boolean(problem));
    actions.apply.disabled = !next;
    actions.undo.disabled = !history.length;
    actions.clear.disabled = !selection.edits.length;
    drawActive();
    heads.hidden = form.kind === "block_edge" && form.everywhere;
  };
  let seen = "";
  onSelect(() => {
    const now = JSON.stringify(selection.edits);
    if (now !== last) {
      history.push(last);
      last = now;
    }
    if (!payload) return;
    const picked = JSON.stringify([selection.tokens, selection.pair]);
    if (picked !== seen) {
      seen = picked;
      form.pair = null;
      if (!link.hidden) drawLink();
    }
    drawHeads();
    paint();
  });
  return (next) => {
    const still = payload && same([payload.model, payload.tokens], [next.model, next.tokens]);
    payload = next;
    const { words } = payload;
    if (!still) {
      // Edits of another prompt or model cannot be undone here.
      form = { ...form, kind: form.kind ?? payload.kinds[0].key, pair: null, layer: 0, head: 0 };
      history = [];
      last = JSON.stringify(selection.edits);
    }
    title.textContent = words.title;
    about.textContent = words.replaces;
    actions.apply.textContent = words.apply;
    actions.undo.textContent = words.undo;
    actions.clear.textContent = words.remove_all;
    drawFields();
    drawHeads();
    paint();
  };
});
