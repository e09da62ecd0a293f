// Side by side: the bar and the rows. side_by_side_state.js keeps what is written, side_by_side_row.js draws a row,
// side_by_side_token.js one token, and side_by_side_tree.js all that stands below.
import { el, fill, rests } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { onTheme } from "../../page/theme.js";
import { forked, hueOf, painter, rowView, stops } from "./side_by_side_row.js";
import {
  ask,
  bits,
  branch,
  changed,
  childrenOf,
  continuable,
  going,
  goOn,
  inOrder,
  leaves,
  NAT,
  percent,
  probability,
  reference,
  remove,
  roots,
  share,
  show,
  stale,
  state,
  stop,
  tell,
  text,
} from "./side_by_side_state.js";
import { partsBeside } from "./side_by_side_tree.js";

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
  // What is written stands below the settings, which may fill the screen: it is shown once there is some of it.
  let reveal = false;
  new ResizeObserver(() => {
    if (!reveal || rows.clientHeight < 40) return;
    reveal = false;
    if (rows.getBoundingClientRect().top > innerHeight / 2) bar.scrollIntoView({ block: "start" });
  }).observe(rows);

  const note = () => {
    notes.textContent = [state.payload.edited ? state.payload.words.edited : "", state.current?.eight ?? ""]
      .filter(Boolean)
      .join(" ");
  };
  const paintButtons = () => {
    note();
    const { words } = state.payload,
      running = going(),
      more = continuable().length > 0,
      now = `${running} ${more} ${words.start} ${state.rows.size > 0}`;
    if (now === looks) return;
    looks = now;
    const focused = buttons.contains(document.activeElement);
    const button = (name, enabled, act, primary) => {
      const node = el("button", `pg-button${primary ? " pg-primary" : ""}`, words[name], {
        type: "button",
        "data-name": name,
      });
      node.disabled = !enabled;
      node.onclick = act;
      return node;
    };
    buttons.replaceChildren(
      running
        ? button(
            "stop",
            true,
            () => {
              state.stopping = Boolean(state.waiting);
              stop();
            },
            true,
          )
        : button(
            state.rows.size ? "start_again" : "start",
            true,
            () => {
              ask("start");
              reveal = true;
            },
            true,
          ),
      button("go_on", !running && more, goOn),
    );
    if (focused) buttons.firstChild.focus();
  };
  const paintStatus = () => {
    const { words } = state.payload,
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
    const { words } = state.payload;
    const field = (label, options, value, change) => {
      const node = el("label", "pg-field pg-inline"),
        select = el("select");
      for (const [key, name] of options) select.append(new Option(name, key, false, key === value));
      select.onchange = () => change(select.value);
      node.append(el("span", "", label), select);
      return node;
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
    for (const [at, label] of state.payload.scales.ticks[state.colour]) {
      const tick = el("span", "", label);
      tick.style.left = `${100 * at}%`;
      ticks.append(tick);
    }
    both.append(ramp, ticks);
    legend.replaceChildren(el("span", "", state.payload.words[`unit_${state.colour}`]), both);
  };
  const paintChat = () => {
    const row = roots()[0];
    chat.hidden = !row?.settings.chat;
    if (chat.hidden) return;
    const chips = el("div", "pg-chips");
    chips.append(...row.prompt.map((id) => el("span", "pg-chip", text(row, id))));
    chat.replaceChildren(el("summary", "", fill(state.payload.words.chat_prompt, { n: row.prompt.length })), chips);
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
      reused = new Map();
    for (const row of all) reused.set(row.id, views.get(row.id) ?? rowView(row, stage));
    views = reused;
    const nodes = all.map((row) => reused.get(row.id).node);
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
    if (!state.payload) return;
    paintButtons();
    paintStatus();
    if (what === "rows" || what === "over") arrange();
    update();
    if (what === "over") root.dataset.over = state.current?.id ?? "";
  };
  changed((what) => {
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
      chipBox = chip.getBoundingClientRect();
    if (getComputedStyle(side).bottom === "0px" && chipBox.bottom > over.top - 8)
      scrollBy({ top: chipBox.bottom - over.top + 40 });
  };
  const at = (event) => {
    const chip = event.target.closest?.(".pg-reading-token"),
      row = chip?.closest("[data-row]");
    return chip ? { row: row.dataset.row, at: +chip.dataset.index } : null;
  };
  const hover = (event) => {
    const place = at(event);
    if (!place || rests(event)) return;
    state.hovered = place;
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
    const place = at(event);
    if (!place) return;
    const again = state.pinned?.row === place.row && state.pinned.at === place.at;
    Object.assign(state, { pinned: again ? null : place, hovered: place });
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
    if (state.payload) {
      paintLegend();
      recolour();
    }
  });
  return (next) => {
    const first = !state.payload;
    state.payload = next;
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
  payload: () => state.payload,
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
