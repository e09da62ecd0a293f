import { el, fill, hint } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { onSelect, pickHead, select, selection } from "../../page/selection/selection.js";
import { nameWatched, ROLES, tokenText, watchedText } from "../../page/selection/watched.js";
import { pageState } from "../../page/state.js";
import { wantedEdits } from "./edit_rules.js";
import { button, choices, labelled, numbered, same } from "./widgets.js";

define("edits", (root) => {
  let payload = null,
    form = { kind: null, factor: 2, everywhere: false, block: 0, neuron: 0, value: 1, token: null },
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
  const kindOf = (key) => payload.kinds.find((each) => each.key === key);

  // The tokens whose direction can be edited: those that are watched, then those of the prompt.
  const offered = () => {
    const watched = ROLES.filter((role) => selection[role] !== null).map((role) => [
      selection[role],
      `${payload.roles[role]} ${watchedText(role)}`,
    ]);
    const others = payload.vocabulary.filter(([id]) => !watched.some(([other]) => other === id));
    return [...watched, ...others];
  };
  // A field of the form that its kind may need; `read` makes its value of what stands in the input.
  const field = (name, text, input, read) => {
    input.value = form[name];
    input.oninput = () => {
      form[name] = read(input.value);
      paint();
    };
    return [name, labelled(text, input, name)];
  };
  const typed = (limits) => el("input", "", "", { type: "number", ...limits });
  const drawFields = () => {
    const { words, kinds, groups, factor, value } = payload,
      { of } = kindOf(form.kind);
    const group = choices(
      groups.map(({ key, name }) => [key, name]),
      of,
    );
    const kind = choices(
      kinds.filter((each) => each.of === of).map(({ key, name }) => [key, name]),
      form.kind,
    );
    const tokens = offered();
    if (!tokens.some(([id]) => id === form.token)) form.token = tokens[0][0];
    const needed = new Map([
      field("block", words.layer, choices(numbered(payload.layers), form.block), Number),
      field("neuron", words.neuron, typed({ step: 1, min: 0, max: payload.neurons - 1 }), String),
      field("token", words.token, choices(tokens, form.token), Number),
      field("value", words.value, typed({ step: "any", min: -value, max: value }), String),
      field("factor", words.factor, typed({ step: "any", min: -factor, max: factor }), String),
    ]);
    const show = () => {
      const { about, needs } = kindOf(form.kind);
      help.textContent = of === "direction" ? `${about} ${words.any_token}` : about;
      for (const [name, node] of needed) node.hidden = !needs.includes(name);
      needed.get("block").hidden = of === "heads";
      link.hidden = form.kind !== "block_edge";
      if (!link.hidden) drawLink();
    };
    group.onchange = () => {
      form.kind = kinds.find((each) => each.of === group.value).key;
      drawFields();
      paint();
      fields.querySelector("select").focus();
    };
    kind.onchange = () => {
      form.kind = kind.value;
      show();
      paint();
    };
    fields.replaceChildren(labelled(words.of, group, "of"), labelled(words.change, kind, "kind"), ...needed.values());
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
        chip = el("span", "pg-selected pg-selected-hued", name);
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
    if (!next) return;
    const known = payload.vocabulary.find(([id]) => id === form.token);
    if (known && tokenText(form.token) === String(form.token)) nameWatched(...known);
    select({ edits: next });
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
    heads.hidden = kindOf(form.kind).of !== "heads" || (form.kind === "block_edge" && form.everywhere);
  };
  let seen = "",
    watching = "";
  onSelect(() => {
    const now = JSON.stringify(selection.edits);
    if (now !== last) {
      history.push(last);
      last = now;
    }
    if (!payload) return;
    const watched = JSON.stringify(ROLES.map((role) => selection[role]));
    if (watched !== watching) {
      watching = watched;
      drawFields();
    }
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
      form = {
        ...form,
        kind: form.kind ?? payload.kinds[0].key,
        pair: null,
        layer: 0,
        head: 0,
        block: 0,
        neuron: 0,
        token: null,
      };
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
