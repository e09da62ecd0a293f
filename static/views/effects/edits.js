// The effects tab: editing the run, the next tokens before and after, and the map of every head's effect.
import { exporting } from "../../export/menu.js";
import { el, fill, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { adding, onSelect, pickHead, select, selection } from "../../page/selection.js";
import { pageState } from "../../page/state.js";
import { mountPlot } from "../../parts/figure.js";

const labelled = (text, input, name) => {
  const field = el("label", "pg-control");
  if (name) field.dataset.name = name;
  field.append(el("span", "pg-control-label", text), input);
  return field;
};
const button = (text, action, className = "") => {
  const node = el("button", `pg-button ${className}`.trim(), text, { type: "button" });
  node.onclick = action;
  return node;
};
const choices = (options, value) => {
  const node = el("select");
  for (const [key, text] of options) node.append(new Option(text, key, false, String(key) === String(value)));
  return node;
};
const numbered = (n) => Array.from({ length: n }, (_, i) => [i, i]);
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

// --- what to change ---

// Keys that a query may not read in the head with the most of them, with these edits in force.
function mostBlocked(edits, query) {
  const blocks = edits.filter((edit) => edit.kind === "block_edge" && edit.query === query);
  const heads = blocks.filter((edit) => edit.layer !== undefined).map((edit) => `${edit.layer} ${edit.head}`);
  const keys = (head) =>
    new Set(
      blocks
        .filter((edit) => edit.layer === undefined || `${edit.layer} ${edit.head}` === head)
        .map((edit) => edit.key),
    );
  return Math.max(...[null, ...heads].map((head) => keys(head).size));
}

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
  const told = el("p", "pg-effect-told", "", { role: "status" }),
    buttons = el("div", "pg-buttons");
  const active = el("div", "pg-effect-active"),
    title = el("h2");
  root.append(title, about, fields, help, heads, link, told, buttons, active);

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

  // The edits that Apply would put in force, or why it cannot.
  const wanted = () => {
    const { words } = payload,
      { kind } = form,
      [query, key] = pair();
    const block = kind === "block_edge";
    if (!selection.heads.length && !(block && form.everywhere)) return { problem: words.no_heads };
    const factor = form.factor === "" ? NaN : Number(form.factor);
    if (kind === "scale" && !(Math.abs(factor) <= payload.factor)) {
      return { problem: fill(words.bad_factor, { low: -payload.factor, high: payload.factor }) };
    }
    if (block && key > query) return { problem: words.key_later };
    if (block && query === 0) return { problem: words.query_first };
    const places = block && form.everywhere ? [{}] : selection.heads.map(([layer, head]) => ({ layer, head }));
    const more = kind === "scale" ? { factor } : block ? { query, key } : {};
    const made = places.map((place) => ({ kind, ...place, ...more }));
    const next = made.reduce(withEdit, selection.edits);
    if (block && mostBlocked(next, query) > query) return { problem: words.row_empty };
    if (next.length > payload.most) return { problem: fill(words.too_many, { most: payload.most }) };
    if (same(next, selection.edits)) return { note: words.nothing_new };
    return { next };
  };
  // A head has one edit of its output and one of its pattern; links are each for themselves.
  const withEdit = (edits, edit) => {
    const key = ({ kind, layer, head, factor, query, key }) => `${kind} ${layer} ${head} ${factor} ${query} ${key}`;
    if (edits.some((other) => key(other) === key(edit))) return edits;
    const site = (kind) => payload.kinds.find((each) => each.key === kind)?.site;
    const replaced = (other) =>
      edit.kind !== "block_edge" &&
      other.layer === edit.layer &&
      other.head === edit.head &&
      site(other.kind) === site(edit.kind);
    return [...edits.filter((other) => !replaced(other)), edit];
  };

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
      el("span", "pg-muted", words.pick_hint),
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
    const { next } = wanted();
    if (next) select({ edits: next });
  };
  const undo = () => {
    if (!history.length) return;
    last = history.pop(); // not a change to be undone
    select({ edits: JSON.parse(last) });
  };
  // Buttons stay where they are, so that the focus does too.
  const made = {
    apply: button("", apply, "pg-primary"),
    undo: button("", undo),
    clear: button("", () => select({ edits: [] })),
  };
  buttons.append(...Object.values(made));
  const paint = () => {
    if (!payload) return;
    const { next, problem, note } = wanted();
    told.textContent = problem ?? note ?? "";
    told.classList.toggle("pg-effect-problem", Boolean(problem));
    made.apply.disabled = !next;
    made.undo.disabled = !history.length;
    made.clear.disabled = !selection.edits.length;
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
    payload = next;
    const { words } = payload;
    form = { ...form, kind: form.kind ?? payload.kinds[0].key, pair: null, layer: 0, head: 0 };
    history = [];
    last = JSON.stringify(selection.edits);
    title.textContent = words.edits_title;
    about.textContent = `${words.edits_about} ${words.replaces}`;
    made.apply.textContent = words.apply;
    made.undo.textContent = words.undo;
    made.clear.textContent = words.remove_all;
    drawFields();
    drawHeads();
    paint();
  };
});

// --- next tokens, before and after ---

const percent = (p) => `${(100 * p).toFixed(2)} %`;
const signed = (value, digits) => {
  const text = Math.abs(value).toFixed(digits);
  return Number(text) === 0 ? text : `${value < 0 ? "−" : "+"}${text}`;
};
const brief = (value) => (value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential(1) : value.toPrecision(3));

define("beforeafter", (root) => {
  const title = el("h2"),
    note = el("p", "pg-about"),
    facts = el("div", "pg-effect-facts"),
    frame = el("div", "pg-effect-table", "", { tabindex: 0 });
  const foot = el("div");
  root.append(title, note, facts, frame, foot);

  const fact = (label, value, help) => {
    const item = el("span", "", "", { title: help });
    item.append(el("span", "pg-muted", `${label} `), el("b", "", value));
    return item;
  };
  const bars = ({ p_before, p_after }, top, edited) => {
    const both = el("span", "pg-effect-bars", "", { "aria-hidden": "true" });
    for (const [name, p] of [
      ["before", p_before],
      ["after", p_after],
    ]) {
      if (name === "before" && !edited) continue;
      const bar = el("span", `pg-effect-bar pg-effect-${name}`);
      bar.style.width = `${(100 * p) / top}%`;
      both.append(bar);
    }
    return both;
  };
  const change = (before, after, edited) => {
    const cell = el("td", "pg-effect-number");
    if (edited) cell.append(el("span", "pg-effect-old", before), el("span", "pg-muted", " → "));
    cell.append(el("span", "", after));
    return cell;
  };
  const line = (row, top, edited) => {
    const tr = el("tr"),
      token = el("th", "", "", { scope: "row", title: `${row.text} (${row.id})` });
    token.append(el("span", "pg-effect-token", row.text));
    const share = change(percent(row.p_before), percent(row.p_after), edited);
    share.append(bars(row, top, edited));
    tr.append(token, share);
    if (edited) tr.append(el("td", "pg-effect-number", signed(100 * (row.p_after - row.p_before), 2)));
    tr.append(change(row.logit_before.toFixed(3), row.logit_after.toFixed(3), edited));
    return tr;
  };
  return (payload) => {
    const {
      words,
      rows,
      edited,
      entropy: [before, after],
    } = payload;
    title.textContent = payload.title;
    note.textContent = payload.note;
    const undecided = `${edited ? `${before.toFixed(3)} → ` : ""}${after.toFixed(3)} ${words.nats}`;
    facts.replaceChildren(fact(words.entropy, undecided, words.entropy_help));
    if (edited) {
      facts.append(fact(words.kl, `${brief(payload.kl)} ${words.nats}`, words.kl_help));
      for (const name of ["before", "after"])
        facts.append(el("span", `pg-effect-key pg-effect-key-${name}`, words[`column_${name}`]));
    }
    const top = Math.max(...rows.flatMap((row) => [row.p_before, row.p_after])) || 1;
    const grid = el("table"),
      head = el("tr"),
      body = el("tbody"),
      thead = el("thead");
    const names = [
      words.column_token,
      words.column_probability,
      ...(edited ? [words.column_change] : []),
      words.column_logit,
    ];
    head.append(...names.map((name) => el("th", "", name, { scope: "col" })));
    thead.append(head);
    body.append(...rows.map((row) => line(row, top, edited)));
    grid.append(thead, body);
    frame.replaceChildren(grid);
    frame.setAttribute("aria-label", payload.title);
    const lines = rows.map((row) => [row.id, row.text, row.p_before, row.p_after, row.logit_before, row.logit_after]);
    foot.replaceChildren(
      exporting(root, {
        file: payload.file,
        source: payload.source,
        python: payload.python,
        title: payload.title,
        note: payload.note,
        names: payload.columns,
        lines,
      }),
    );
    root.dataset.run = payload.run;
  };
});

// --- every head's effect ---

define(
  "effectabout",
  (root) =>
    ({ sweep_title, sweep_body }) =>
      root.replaceChildren(el("h2", "", sweep_title), el("p", "pg-about", sweep_body)),
);

define("effectmap", (root) => {
  const plot = el("div"),
    side = el("div", "pg-effect-ranked");
  const title = el("h3"),
    about = el("p", "pg-about"),
    list = el("div", "pg-effect-list", "", { role: "group" });
  side.append(title, about, list);
  root.append(plot, side);
  const draw = mountPlot(plot, {});
  const paint = () => {
    for (const item of list.children)
      item.setAttribute(
        "aria-pressed",
        selection.heads.some((head) => same(head, JSON.parse(item.dataset.head))),
      );
  };
  roving(list, (key, at, n) => ({ ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: n - 1 })[key] ?? null);
  onSelect(paint);
  const item = ({ head, effect }, index, payload, top) => {
    const [layer, n] = head,
      text = effect === 0 ? "0" : `${payload.signed ? (effect < 0 ? "−" : "+") : ""}${brief(Math.abs(effect))}`;
    const node = button("", (event) => pickHead(layer, n, adding(event)));
    node.className = "pg-effect-item";
    Object.assign(node.dataset, { index, head: JSON.stringify(head) });
    node.tabIndex = index ? -1 : 0;
    node.setAttribute(
      "aria-label",
      fill(payload.words.head_effect, { layer, head: n, effect: text, unit: payload.unit }),
    );
    const lane = el("span", payload.signed ? "pg-effect-lane pg-effect-both" : "pg-effect-lane"),
      bar = el("span");
    const share = (100 * Math.abs(effect)) / top;
    Object.assign(
      bar.style,
      payload.signed
        ? {
            width: `${share / 2}%`,
            [effect < 0 ? "right" : "left"]: "50%",
            background: payload.hues[effect < 0 ? 0 : 1],
          }
        : { width: `${share}%`, left: 0 },
    );
    lane.append(bar);
    node.append(el("span", "", `${layer}.${n}`), lane, el("span", "pg-effect-number", text));
    return node;
  };
  return (payload) => {
    draw(payload);
    title.textContent = payload.words.ranked;
    about.textContent = payload.words.ranked_about;
    list.setAttribute("aria-label", payload.words.ranked);
    const top = Math.max(...payload.ranked.map(({ effect }) => Math.abs(effect))) || 1;
    list.replaceChildren(...payload.ranked.map((each, index) => item(each, index, payload, top)));
    paint();
  };
});
