// Side by side: what several strategies write, streamed; the page keeps all of it, branches too. This file: the state,
// the channel to the server, the bar and the rows. race_token.js draws one token, race_tree.js all that stands below.
//
// A record is [id, ln p, rank, entropy (nats), p after the warps, tokens left, random number, [id, p, p after, ...]].

import { el, fill, rests, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { isDark, onTheme } from "../../page/theme.js";
import { ink, lookup } from "../../parts/colours.js";
import { piece } from "../../parts/next_tokens.js";
import { partsBeside } from "./side_by_side_tree.js";

const TAIL = 8; // tokens of the prompt that stand before each text
const NAT = Math.LN2; // nats in a bit
const CHIP = 44,
  LINE = 29; // about how wide and high a token is drawn, so that rows need not grow while they are written
const state = {
  rows: new Map(),
  runs: new Map(),
  texts: new Map(),
  pending: new Map(),
  current: null,
  waiting: null,
  ahead: "",
  error: null,
  colour: "probability",
  reference: null,
  pinned: null,
  hovered: null,
};
const listeners = new Set();
let payload = null,
  count = 0,
  send = () => {};
const tell = (what) => listeners.forEach((listener) => listener(what));

// --- what is known of a row -----------------------------------------------------------------------

const text = (row, id) => {
  const found = state.texts.get(`${row.model} ${id}`) ?? `#${id}`;
  return Array.isArray(found) ? found[0] : found;
};
const breaks = (row, id) => {
  const found = state.texts.get(`${row.model} ${id}`);
  return Array.isArray(found) ? found[1] : 0;
};
const probability = (record) => Math.exp(record[1]);
const bits = (record) => -record[1] / NAT + 0;
const percent = (share) =>
  share === null
    ? "–"
    : share >= 0.0995
      ? `${(100 * share).toFixed(1)} %`
      : share >= 0.0001
        ? `${+(100 * share).toPrecision(2)} %`
        : share === 0
          ? "0 %"
          : `${share.toExponential(1)}`;
const ended = (row) => row.ended && row.ended !== "length";
const stale = (row) => row.key !== payload.key;
const roots = () => [...state.rows.values()].filter((row) => row.parent === null);
const childrenOf = (id) => [...state.rows.values()].filter((row) => row.parent === id);
const inOrder = () => {
  const out = [],
    walk = (row, depth) => {
      row.depth = depth;
      out.push(row);
      childrenOf(row.id).forEach((child) => walk(child, depth + 1));
    };
  roots().forEach((row) => walk(row, 0));
  return out;
};
const reference = () => state.rows.get(state.reference) ?? roots()[0];
// Where a row leaves another one: the first token that differs, or null.
const leaves = (row, other) => {
  const n = Math.min(row.records.length, other.records.length);
  for (let at = 0; at < n; at++) if (row.records[at][0] !== other.records[at][0]) return at;
  return null;
};
// The part of the bar from 0 to 1 that a token had in the draw: [low, high], or null where it cannot be told.
const share = (row, record) => {
  if (!row.ordered || record[6] === null) return null;
  const [id, , rank, , after] = record,
    top = record[7];
  let low = 0;
  for (let i = 0; i < top.length; i += 3) {
    if (top[i] === id) return [low, low + after];
    low += top[i + 2];
  }
  return rank > top.length / 3 ? null : [low, low + after];
};

// --- pieces ---------------------------------------------------------------------------------------

function open(found) {
  const { opening } = found,
    asked = state.pending.get(found.tag) ?? {};
  const run = {
    id: found.run,
    have: 0,
    state: "running",
    kind: opening.kind,
    limit: opening.limit,
    rows: [],
    seconds: 0,
    tokens: 0,
    opening,
  };
  state.pending.delete(found.tag);
  const tokens = (id, name) => state.texts.set(`${opening.model} ${id}`, name);
  for (const [id, name] of Object.entries(opening.texts)) tokens(id, name);
  if (opening.kind === "start") {
    state.rows.clear();
    state.runs.clear();
    Object.assign(state, { reference: null, pinned: null, hovered: null });
  } else for (const other of state.runs.values()) if (other.state === "running") other.state = "stopped";
  if (opening.kind === "go") {
    run.rows = asked.rows?.map((id) => state.rows.get(id)) ?? [];
    run.rows.forEach((row) => {
      if (row) {
        row.ended = "";
        row.limit = row.records.length + opening.limit;
        row.measured = null;
        row.python.push(opening.python);
      }
    });
  } else {
    const parent = asked.parent === undefined ? null : state.rows.get(asked.parent);
    if (opening.kind === "branch" && !parent) return null;
    run.rows = opening.rows.map((about, at) => {
      const row = {
        ...about,
        id: `${found.run} ${at}`,
        parent: parent?.id ?? null,
        at: parent ? asked.at : null,
        hue: parent ? parent.hue : at,
        records: parent ? parent.records.slice(0, asked.at) : [],
        ended: "",
        others: null,
        measured: null,
        shown: true,
        python: [opening.python],
        limit: (parent ? asked.at + 1 : 0) + opening.limit,
        key: parent ? parent.key : opening.key,
        model: opening.model,
        prompt: opening.prompt,
        settings: opening.settings,
        source: opening.source,
      };
      if (parent) row.name = parent.name;
      state.rows.set(row.id, row);
      return row;
    });
  }
  state.runs.set(run.id, run);
  state.current = run;
  if (state.stopping) send("stop"); // pressed before the server had begun
  tell("rows");
  return run;
}

// Pieces arrive in order; a page that missed one asks for all that it lacks.
function take(found) {
  if (found.ahead) {
    // others' runs are before it
    if (found.tag === state.waiting) state.ahead = found.ahead;
    return tell("data");
  }
  if (found.tag && found.tag === state.waiting) state.waiting = null;
  state.error = found.error ?? (found.run ? null : state.error);
  if (!found.run) return tell("data");
  const run = state.runs.get(found.run) ?? (found.opening ? open(found) : null);
  if (!run) return state.pending.has(found.tag) ? send("again", { run: found.run, have: -1 }) : undefined;
  for (const [id, name] of Object.entries(found.texts)) state.texts.set(`${run.opening.model} ${id}`, name);
  if (found.from > run.have) return send("again", { run: run.id, have: run.have });
  for (const tick of found.ticks.slice(run.have - found.from)) {
    run.have++;
    tick.forEach((change, at) => {
      const row = run.rows[at];
      if (!change || !row) return;
      const [made, drop, why, others] = change;
      if (drop) row.records.length -= drop;
      row.records.push(...made);
      row.ended = why;
      if (others) row.others = others;
    });
  }
  Object.assign(run, { state: found.state, seconds: found.seconds, tokens: found.tokens });
  run.eight = found.eight ?? "";
  found.measured?.forEach((numbers, at) => {
    if (run.rows[at]) run.rows[at].measured = numbers;
  });
  tell(run.state === "running" ? "data" : "over");
}

const going = () => Boolean(state.waiting) || state.current?.state === "running";
function ask(kind, more = {}, pending = {}) {
  const tag = `${kind} ${++count}`;
  state.pending.set(tag, pending);
  Object.assign(state, { waiting: tag, ahead: "", error: null, stopping: false });
  send("start", { kind, tag, ...more });
  tell("data");
}
const sent = (row, end) => ({
  strategy: row.strategy,
  number: row.number,
  written: row.records.slice(0, end).map((record) => record.slice(0, 7)),
});
const about = (row) => ({ model: row.model, prompt: row.prompt, settings: row.settings });
function branch(row, at, choice) {
  ask(
    "branch",
    { ...about(row), rows: [sent(row, at)], limit: Math.max(row.limit, at + 1), ...choice },
    { parent: row.id, at },
  );
}
const continuable = () =>
  inOrder()
    .filter((row) => row.shown && !ended(row) && row.records.length && row.model === payload?.model && !stale(row))
    .slice(0, 8);
function goOn() {
  const rows = continuable();
  if (rows.length)
    ask("go", { ...about(rows[0]), rows: rows.map((row) => sent(row)) }, { rows: rows.map((row) => row.id) });
}
function remove(row) {
  childrenOf(row.id).forEach(remove);
  state.rows.delete(row.id);
  for (const name of ["pinned", "hovered"]) if (state[name]?.row === row.id) state[name] = null;
  if (state.reference === row.id) state.reference = null;
}
const show = (row, on) => {
  row.shown = on;
  tell("rows");
};

define("racefeed", (root, props, trigger) => {
  send = (event, value) => {
    if (value) props.value = value; // a stop leaves the question that is on its way as it is
    trigger(event, { index: 0, value: event });
  };
  return take;
});

// --- colours --------------------------------------------------------------------------------------

const place = (record) => {
  const { top } = payload.scales;
  const value = {
    probability: probability(record),
    surprisal: bits(record) / top,
    rank: Math.log2(record[2]) / top,
    entropy: record[3] / NAT / top,
  }[state.colour];
  return Math.min(1, Math.max(0, value));
};
// Stops of the ramp; its last quarter is left out, in which text has no room for a quiet ground.
const stops = () => {
  const all = payload.scales.ramps[isDark() ? "dark" : "light"];
  return all.slice(0, Math.ceil(all.length * 0.8));
};
const painter = (root) => {
  const ramp = lookup(stops()),
    plain = getComputedStyle(root).getPropertyValue("--pg-text").trim();
  return (chip, record) => {
    const ground = ramp[Math.round(place(record) * (ramp.length - 1))];
    chip.style.backgroundColor = `rgb(${ground})`;
    chip.style.color = ink(ground, plain);
  };
};
const hueOf = (row) => payload.scales.hues[row.hue % payload.scales.hues.length];

// --- one row --------------------------------------------------------------------------------------

function rowView(row, stage) {
  const { words } = payload,
    node = el("section", `pg-race-row${row.depth ? " pg-race-branch" : ""}`, "", { "data-row": row.id });
  const head = el("div", "pg-race-head"),
    fork = el("span", "pg-race-fork"),
    facts = el("span", "pg-race-facts"),
    line = el("div", "pg-race-text", "", { role: "group", "aria-label": fill(words.text_of, { name: row.name }) });
  const note = el("p", "pg-race-note"),
    others = el("details", "pg-race-others"),
    before = el("span", "pg-race-prompt", "", { title: words.prompt_end });
  node.style.setProperty("--pg-hue", hueOf(row));
  node.style.setProperty("--pg-depth", Math.min(row.depth, 4));
  head.append(
    el("i", "pg-race-swatch", "", { "aria-hidden": true }),
    el("strong", "", row.name),
    el("span", "pg-race-about", row.about),
    fork,
    facts,
  );
  if (row.parent !== null) {
    const gone = el("button", "pg-cross", "×", {
      type: "button",
      "aria-label": fill(words.remove_branch, { name: row.name }),
      title: words.remove,
    });
    gone.onclick = () => {
      remove(row);
      tell("rows");
    };
    head.append(gone);
  }
  const tail = row.prompt.slice(-TAIL);
  before.textContent =
    (row.prompt.length > TAIL ? "… " : "") +
    tail
      .map((id) => text(row, id))
      .join("")
      .replace(/·/g, " ")
      .trimStart();
  line.append(before);
  others.hidden = true;
  node.append(head, line, note, others);
  roving(line, (key, at, n) => ({ ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: n - 1 })[key] ?? null);
  let chips = [],
    ids = [];
  const chip = (record, at) => {
    const name = text(row, record[0]),
      made = el("button", "pg-reading-token", "", {
        type: "button",
        "data-index": at,
        tabindex: at ? -1 : 0,
        "aria-label": fill(words.token_name, { token: name, n: at + 1, share: percent(probability(record)) }),
      });
    piece(made, name);
    const lines = Array.from({ length: breaks(row, record[0]) }, () => el("br"));
    if (row.at !== null && at < row.at) made.classList.add("pg-race-before");
    else stage.paint(made, record);
    line.append(made, ...lines);
    return { made, lines };
  };
  const view = { node, row };
  view.update = () => {
    let same = 0;
    while (same < ids.length && same < row.records.length && ids[same] === row.records[same][0]) same++;
    for (const { made, lines } of chips.splice(same)) {
      made.remove();
      lines.forEach((each) => each.remove());
    }
    for (let at = same; at < row.records.length; at++) chips.push(chip(row.records[at], at));
    ids = row.records.map((record) => record[0]);
    const marked = state.pinned?.row === row.id ? state.pinned.at : null,
      from = reference();
    const at = row.at ?? (from && from !== row && from.key === row.key ? leaves(row, from) : null);
    chips.forEach(({ made }, n) => {
      made.classList.toggle("pg-race-parts", n === at);
      if (made.ariaPressed !== String(n === marked)) made.ariaPressed = String(n === marked);
    });
    facts.replaceChildren(
      ...[
        fill(words.n_tokens, { n: row.records.length }),
        ended(row) && words[`ended_${row.ended}`],
        stale(row) && words.other_prompt,
      ]
        .filter(Boolean)
        .map((each) => el("span", each === words.other_prompt ? "pg-race-stale" : "", each)),
    );
    node.classList.toggle("pg-race-old", stale(row));
    if (row.parent !== null && row.records[row.at]) fork.textContent = forked(row);
    const said = sentence(row, from, at);
    if (note.textContent !== said) note.textContent = said;
    if (row.others && others.hidden) best(row);
  };
  view.colour = () =>
    chips.forEach(({ made }, at) => {
      if (!made.classList.contains("pg-race-before")) stage.paint(made, row.records[at]);
    });
  view.chip = (at) => chips[at]?.made;
  // Room for all that is to come, so that the rows below stay where they are.
  view.reserve = (on) => {
    line.style.minHeight =
      on && line.clientWidth ? `${LINE * Math.ceil(((row.limit + TAIL) * CHIP) / line.clientWidth) + 12}px` : "";
  };
  const best = () => {
    const list = el("ol");
    for (const [found, score] of row.others) {
      const item = el("li");
      item.append(
        el("b", "", score.toFixed(3)),
        el(
          "span",
          "",
          found
            .map((id) => text(row, id))
            .join("")
            .replace(/·/g, " "),
        ),
      );
      list.append(item);
    }
    others.hidden = false;
    others.replaceChildren(el("summary", "", fill(words.others, { n: row.others.length })), list);
  };
  return view;
}

// What a branch is called besides its strategy.
const forked = (row) =>
  fill(payload.words.tree_branch, {
    n: row.at + 1,
    token: row.records[row.at] ? text(row, row.records[row.at][0]) : "",
  });

// How a row came to differ, in words.
function sentence(row, from, at) {
  const { words } = payload;
  if (row.parent !== null) {
    const parent = state.rows.get(row.parent),
      other = parent?.records[row.at],
      own = row.records[row.at];
    return own
      ? fill(words.branched, {
          name: row.name,
          n: row.at + 1,
          token: text(row, own[0]),
          other: other ? text(row, other[0]) : "–",
        })
      : "";
  }
  if (!from || from === row || !row.records.length || from.key !== row.key) return "";
  const name = from.name;
  if (at === null)
    return row.ended && from.ended
      ? fill(words.parts_never, { name, n: Math.min(row.records.length, from.records.length) })
      : fill(words.parts_not_yet, { name });
  const mine = row.records[at],
    theirs = from.records[at],
    shared = mine[6] !== null && theirs[6] === mine[6];
  const told = (whose, record) => {
    const token = text(whose, record[0]),
      range = share(whose, record);
    if (record[5] === 1) return fill(words.told_alone, { token });
    if (range && shared)
      return fill(words.told_range, {
        token,
        low: range[0].toFixed(3),
        high: Math.min(1, range[1]).toFixed(3),
        kept: record[5].toLocaleString("en"),
      });
    return fill(words.told_share, { token, share: percent(record[4] ?? probability(record)) });
  };
  return fill(words[shared ? "parts_shared" : "parts"], {
    name,
    n: at + 1,
    u: mine[6]?.toFixed(3),
    mine: told(row, mine),
    theirs: told(from, theirs),
  });
}

// --- the part -------------------------------------------------------------------------------------

const clock = (seconds) =>
  `${Math.floor(Math.max(0, Math.round(seconds)) / 60)}:${String(Math.max(0, Math.round(seconds)) % 60).padStart(2, "0")}`;

define("race", (root) => {
  const bar = el("div", "pg-race-bar pg-no-export"),
    buttons = el("div", "pg-buttons"),
    status = el("div", "pg-race-status", "", { role: "status" });
  const progress = el("progress"),
    line = el("span", "pg-race-line"),
    problem = el("p", "pg-race-error", "", { role: "alert" }),
    notes = el("p", "pg-race-edited");
  const choices = el("div", "pg-race-choices pg-no-export"),
    legend = el("div", "pg-surprise-scale"),
    chat = el("details", "pg-race-chat pg-no-export");
  const grid = el("div", "pg-race-grid"),
    rows = el("div", "pg-race-rows"),
    side = el("aside", "pg-race-side pg-no-export"),
    below = el("div", "pg-race-below");
  status.append(progress, line);
  bar.append(buttons, status);
  grid.append(rows, side);
  root.append(bar, problem, notes, choices, chat, grid, below);
  let views = new Map(),
    looks = "",
    parts = null,
    due = null;
  const stage = { paint: () => {} };

  const note = () => {
    notes.textContent = [payload.edited ? payload.words.edited : "", state.current?.eight ?? ""]
      .filter(Boolean)
      .join(" ");
  };
  const paintButtons = () => {
    note();
    const { words } = payload,
      running = going(),
      more = continuable().length > 0,
      now = `${running} ${more} ${words.start} ${state.rows.size > 0}`;
    if (now === looks) return;
    looks = now;
    const focused = buttons.contains(document.activeElement);
    const button = (name, enabled, act, primary) => {
      const made = el("button", `pg-button${primary ? " pg-primary" : ""}`, words[name], {
        type: "button",
        "data-name": name,
      });
      made.disabled = !enabled;
      made.onclick = act;
      return made;
    };
    buttons.replaceChildren(
      running
        ? button(
            "stop",
            true,
            () => {
              state.stopping = Boolean(state.waiting);
              send("stop");
            },
            true,
          )
        : button(state.rows.size ? "start_again" : "start", true, () => ask("start"), true),
      button("go_on", !running && more, goOn),
    );
    if (focused) buttons.firstChild.focus();
  };
  const paintStatus = () => {
    const { words } = payload,
      run = state.current;
    problem.textContent = state.error ? `${state.error.text} ${state.error.hint ?? ""}` : "";
    progress.hidden = !going();
    if (state.waiting) {
      progress.removeAttribute("value");
      line.textContent = state.ahead || words.waiting;
      return;
    }
    if (!run) {
      line.textContent = words.ready;
      return;
    }
    const rate = run.seconds ? run.tokens / run.seconds : 0,
      values = {
        done: run.have,
        n: run.limit,
        rate: rate >= 10 ? Math.round(rate) : rate.toFixed(1),
        tokens: run.tokens.toLocaleString("en"),
        seconds: run.seconds.toFixed(1),
      };
    progress.max = run.limit;
    progress.value = Math.min(run.have, run.limit);
    progress.setAttribute("aria-label", words.progress);
    values.left = clock(run.have ? (run.seconds / run.have) * Math.max(0, run.limit - run.have) : 0);
    line.textContent = fill(
      words[run.state === "running" ? "running" : run.state === "stopped" ? "stopped" : "done"],
      values,
    );
  };
  const paintChoices = () => {
    const { words } = payload;
    const field = (label, options, value, change) => {
      const made = el("label", "pg-field pg-inline"),
        select = el("select");
      for (const [key, name] of options) select.append(new Option(name, key, false, key === value));
      select.onchange = () => change(select.value);
      made.append(el("span", "", label), select);
      return made;
    };
    const from = reference();
    choices.replaceChildren(
      field(
        words.colour,
        ["probability", "surprisal", "rank", "entropy"].map((each) => [each, words[`by_${each}`]]),
        state.colour,
        (value) => {
          state.colour = value;
          paintLegend();
          recolour();
        },
      ),
      ...(roots().length > 1
        ? [
            field(
              words.reference,
              roots().map((row) => [row.id, row.name]),
              from.id,
              (value) => {
                state.reference = value;
                update();
              },
            ),
          ]
        : []),
      legend,
    );
    choices.hidden = !state.rows.size;
  };
  const paintLegend = () => {
    const ramp = el("i", "pg-surprise-ramp", "", { "aria-hidden": true }),
      ticks = el("span", "pg-surprise-ticks"),
      both = el("span", "pg-surprise-legend");
    ramp.style.background = `linear-gradient(to right, ${stops().join(", ")})`;
    for (const [at, label] of payload.scales.ticks[state.colour]) {
      const tick = el("span", "", label);
      tick.style.left = `${100 * at}%`;
      ticks.append(tick);
    }
    both.append(ramp, ticks);
    legend.replaceChildren(el("span", "", payload.words[`unit_${state.colour}`]), both);
  };
  const paintChat = () => {
    const row = roots()[0];
    chat.hidden = !row?.settings.chat;
    if (chat.hidden) return;
    const chips = el("div", "pg-chips");
    chips.append(...row.prompt.map((id) => el("span", "pg-chip", text(row, id))));
    chat.replaceChildren(el("summary", "", fill(payload.words.chat_prompt, { n: row.prompt.length })), chips);
  };
  const recolour = () => {
    stage.paint = painter(root);
    views.forEach((view) => view.colour());
  };
  const update = () => {
    views.forEach((view) => view.update());
    parts.update(going());
  };
  const arrange = () => {
    const all = inOrder().filter((row) => row.shown),
      kept = new Map();
    for (const row of all) kept.set(row.id, views.get(row.id) ?? rowView(row, stage));
    views = kept;
    const nodes = all.map((row) => kept.get(row.id).node);
    if (nodes.length !== rows.children.length || nodes.some((node, at) => rows.children[at] !== node)) {
      const focused = document.activeElement;
      rows.replaceChildren(...nodes);
      if (focused !== document.activeElement && rows.contains(focused)) focused.focus({ preventScroll: true });
    }
    root.classList.toggle("pg-race-empty", !state.rows.size);
    root.classList.toggle("pg-race-going", going());
    views.forEach((view) => view.reserve(going() && state.current?.rows.includes(view.row)));
    paintChoices();
    paintChat();
  };
  const paint = (what) => {
    if (!payload) return;
    paintButtons();
    paintStatus();
    if (what === "rows" || what === "over") arrange();
    update();
    if (what === "over") root.dataset.over = state.current?.id ?? "";
  };
  listeners.add((what) => {
    if (what !== "data") return paint(what);
    if (due === null)
      due = requestAnimationFrame(() => {
        due = null;
        paint("data");
      });
  });

  // On a narrow page the panel lies over the end of the window: the token that was chosen stays in sight.
  const uncover = (chip) => {
    const over = side.getBoundingClientRect(),
      own = chip.getBoundingClientRect();
    if (getComputedStyle(side).bottom === "0px" && own.bottom > over.top - 8)
      scrollBy({ top: own.bottom - over.top + 40 });
  };
  const at = (event) => {
    const chip = event.target.closest?.(".pg-reading-token"),
      row = chip?.closest("[data-row]");
    return chip ? { row: row.dataset.row, at: +chip.dataset.index } : null;
  };
  const hover = (event) => {
    const found = at(event);
    if (!found || rests(event)) return;
    state.hovered = found;
    parts?.token();
  };
  rows.addEventListener("mouseover", hover);
  rows.addEventListener("focusin", hover);
  rows.addEventListener("mouseleave", () => {
    if (state.pinned) {
      state.hovered = null;
      parts?.token();
    }
  });
  rows.addEventListener("click", (event) => {
    const found = at(event);
    if (!found) return;
    const again = state.pinned?.row === found.row && state.pinned.at === found.at;
    Object.assign(state, { pinned: again ? null : found, hovered: found });
    update();
    if (!again) uncover(event.target.closest(".pg-reading-token"));
    if (!again && event.detail === 0) side.querySelector("button:not(:disabled)")?.focus(); // by the keyboard
  });
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !state.pinned) return;
    const { row, at: index } = state.pinned;
    state.pinned = null;
    update();
    views.get(row)?.chip(index)?.focus();
  });
  onTheme(() => {
    if (payload) {
      paintLegend();
      recolour();
    }
  });
  return (next) => {
    const first = !payload;
    payload = next;
    looks = "";
    if (first || parts.language !== next.words.start) {
      parts = partsBeside(side, below, next, api);
      parts.language = next.words.start;
      views = new Map();
    }
    recolour();
    paintLegend();
    arrange();
    paint("rows");
    root.dataset.run = next.key;
  };
});

const api = {
  payload: () => payload,
  state,
  text,
  forked,
  probability,
  bits,
  percent,
  share,
  inOrder,
  childrenOf,
  reference,
  hueOf,
  branch,
  remove,
  show,
  going,
  stale,
  tell,
  leaves,
  NAT,
};
