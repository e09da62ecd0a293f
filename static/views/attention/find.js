// The view "Find the head": select query and key tokens in two rows, and rank the heads by the attention between them.
//
// payload: see viz/views/attention/find/view.py. The value { run, at, from, to, measure } includes the prompt and selection
// for which the rows were chosen; for any other, the server derives the rows from the selection.
import { exporting } from "../../export/menu.js";
import { alongColumn, alongRow, el, fill, hint, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { headActions, headNames } from "../../page/selection/head_list.js";
import { ranking } from "../../page/selection/ranking.js";
import { adding, onSelect, pickHead, selection, toggled } from "../../page/selection/selection.js";
import { pageState } from "../../page/state.js";

const PAUSE = 80; // milliseconds between questions while chips are toggled

const chosenOn = () => JSON.stringify({ tokens: selection.tokens, pair: selection.pair });
const keyOf = ({ from, to, measure }) => JSON.stringify([from, to, measure]);

// Build a row of chips: a click selects one, a click with a modifier key toggles it, as in the prompt's row.
function chipRow(name, change) {
  const root = el("div", "pg-find-row"),
    top = el("div", "pg-strip-top"),
    label = el("span", "pg-label", "", { id: `pg-find-${name}` });
  const count = el("span", "pg-muted"),
    strip = el("div", "pg-chips", "", { role: "group", "aria-labelledby": `pg-find-${name}`, "data-row": name });
  const all = el("button", "pg-button pg-quiet", "", { type: "button" }),
    none = el("button", "pg-button pg-quiet", "", { type: "button" }),
    marks = el("button", "pg-button pg-quiet", "", { type: "button" });
  top.append(label, count, all, none, marks);
  root.append(top, strip);
  let on = new Set(),
    painted = new Set(),
    words = null,
    punctuation = [];
  const paint = () => {
    // update only what changes, because a long prompt has a thousand chips
    for (const at of new Set([...on, ...painted]))
      if (on.has(at) !== painted.has(at)) strip.children[at]?.setAttribute("aria-pressed", on.has(at));
    painted = on;
    count.textContent = fill(words.chosen, { n: on.size, total: strip.children.length });
  };
  const become = (positions) => {
    on = new Set(positions);
    paint();
    change([...on].sort((a, b) => a - b));
  };
  strip.onclick = (event) => {
    const at = +(event.target.dataset?.index ?? -1);
    if (at >= 0) become(toggled([...on], at, adding(event)));
  };
  all.onclick = () => become(Array.from(strip.children, (_, at) => at));
  none.onclick = () => become([]);
  marks.onclick = () => become(punctuation);
  roving(strip, alongRow);
  return {
    root,
    texts(tokens) {
      strip.replaceChildren(
        ...tokens.map((text, index) => {
          const chip = el("button", "pg-chip", text, {
            type: "button",
            "data-index": index,
            title: String(index),
            "aria-pressed": "false",
          });
          chip.tabIndex = index ? -1 : 0;
          return chip;
        }),
      );
      painted = new Set();
    },
    show(positions, catalogue, found) {
      words = catalogue;
      punctuation = found;
      marks.hidden = !found.length;
      [label.textContent, all.textContent, none.textContent] = [words[name], words.all, words.none];
      marks.textContent = words.punctuation;
      for (const button of [all, none, marks])
        button.setAttribute("aria-label", `${words[name]}: ${button.textContent}`);
      on = new Set(positions);
      paint();
    },
    // Scroll the selected chips into view, without moving the page.
    reveal() {
      const chip = strip.children[Math.min(...on)];
      if (chip) strip.scrollTop = chip.offsetTop - strip.offsetTop - strip.clientHeight / 2;
    },
  };
}

// Build the row of a head: its name, the weight between the selected tokens, and whether it is selected.
function foundHead({ head, name, value }, index, { top, even }) {
  const [layer, number] = head,
    text = value.toFixed(4),
    button = el("button", "pg-find-head", "", {
      type: "button",
      "data-index": index,
      "data-head": head.join("."),
      "aria-label": `${name}: ${text}`,
      title: String(value),
      tabindex: index ? -1 : 0,
    }),
    bar = el("span", "pg-find-bar"),
    filled = el("span"),
    called = el("span", "pg-find-name", name),
    li = el("li");
  filled.style.width = `${Math.min(100, (100 * value) / (top || 1))}%`;
  bar.append(filled);
  if (even !== null) {
    const tick = el("i");
    tick.style.left = `${Math.min(100, 100 * even)}%`;
    bar.append(tick);
  }
  called.append(headNames(layer, number));
  button.append(called, bar, el("b", "pg-figure-number", text));
  button.onclick = (event) => pickHead(layer, number, adding(event));
  li.append(button);
  return li;
}
function markFound(list) {
  for (const button of list.querySelectorAll("button")) {
    const at = selection.heads.findIndex((head) => head.join(".") === button.dataset.head),
      hue = pageState.hues?.[at % pageState.hues.length] ?? "var(--pg-accent)";
    button.setAttribute("aria-pressed", at >= 0);
    button.style.setProperty("--pg-hue", at >= 0 ? hue : "transparent");
  }
}

// Build the menu of measures with an explanation of the selected one; a change calls ask(measure).
function measureField(ask) {
  const field = el("label", "pg-control"),
    label = el("span", "pg-control-label"),
    select = el("select"),
    help = el("p", "pg-about");
  field.append(label, select);
  select.onchange = () => ask(select.value);
  const show = ({ words, measures, measure }) => {
    label.textContent = words.measure;
    select.replaceChildren(...measures.map(([key, text]) => new Option(text, key, false, key === measure)));
    help.textContent = measures.find(([key]) => key === measure)[2];
  };
  return { nodes: [field, help], show };
}

const evenSentence = ({ words: w, even, lines }) => {
  if (!lines.length) return "";
  const texts = [...(even === null ? [] : [fill(w.even, { value: even.toFixed(4) })]), hint(w, "add")];
  return texts.join(w.add.endsWith("。") ? "" : " ");
};

define("find", (root, props, send) => {
  const title = el("h2"),
    told = el("p", "pg-about pg-no-export"),
    refused = el("div", "pg-find-problem", "", { role: "status" }),
    rows = { from: chipRow("from", (from) => ask({ from })), to: chipRow("to", (to) => ask({ to })) },
    measures = measureField((measure) => ask({ measure })),
    sentence = el("p", "pg-find-said", "", { "aria-live": "polite" }),
    list = el("ol", "pg-find-list"),
    even = el("p", "pg-about"),
    foot = el("div"),
    actions = headActions(),
    ranks = ranking(list, () => draw(payload));
  root.append(
    title,
    told,
    rows.from.root,
    rows.to.root,
    ...measures.nodes,
    refused,
    sentence,
    actions.root,
    ranks.node,
    list,
  );
  root.append(even, foot);
  let payload = null,
    texts = "",
    place = "",
    mine = null,
    timer = null,
    chosen = false; // true if the rows were chosen by the user or by a link

  const value = ({ from, to, measure }) => ({ run: payload.prompt, at: payload.at, from, to, measure });
  const ask = (change) => {
    mine = { ...value(mine ?? payload), at: JSON.parse(chosenOn()), ...change };
    chosen = true;
    props.value = mine;
    clearTimeout(timer);
    timer = setTimeout(() => send("select"), PAUSE);
  };
  // Keep the chips that have since been toggled, because their answer is pending.
  const waits = (next) =>
    !pageState.restoring &&
    mine &&
    mine.run === next.prompt &&
    JSON.stringify(mine.at) === chosenOn() &&
    keyOf(mine) !== keyOf(next);
  const fillRows = () => {
    const now = JSON.stringify(payload.tokens),
      at = now + JSON.stringify(payload.at),
      moved = at !== place;
    if (now !== texts) for (const row of Object.values(rows)) row.texts(payload.tokens);
    [texts, place] = [now, at];
    for (const name of ["from", "to"]) rows[name].show(payload[name], payload.words, payload.punctuation);
    if (moved)
      requestAnimationFrame(() => {
        rows.from.reveal();
        rows.to.reveal();
      });
  };
  onSelect(() => markFound(list));
  roving(list, alongColumn);

  const draw = (next) => {
    if (waits(next)) return;
    const { words: w, refused: problem } = next,
      ranked = ranks.of(next, `${keyOf(next)} ${next.words.title}`),
      { lines } = ranked;
    payload = next;
    mine = null;
    if (pageState.restoring)
      chosen = Boolean(props.value); // the answer for rows from a link is pending
    else props.value = value(payload); // keep rows derived from the selection while other heads are selected
    title.textContent = w.title;
    told.textContent = hint(w, "pick");
    fillRows();
    measures.show(payload);
    refused.hidden = !problem;
    refused.replaceChildren(...(problem ? [el("strong", "", problem.text), el("span", "", problem.hint)] : []));
    sentence.textContent = ranked.sentence;
    list.setAttribute("aria-label", w.list);
    actions.show(lines.map(({ head }) => head));
    list.replaceChildren(...lines.map((line, index) => foundHead(line, index, ranked)));
    even.textContent = evenSentence(ranked);
    foot.replaceChildren(
      exporting(root, {
        file: "found-heads",
        title: w.title,
        note: ranked.sentence,
        names: ["layer", "head", "name", w.measure],
        lines: lines.map(({ head, name, value: number }) => [...head, name, number]),
      }),
    );
    markFound(list);
    root.dataset.run = `${payload.run} ${keyOf(payload)}`;
  };
  draw.stateOf = (sent) => (chosen || pageState.restoring ? sent : null);
  return draw;
});
