// Side by side: the buttons and the progress of a run, and the coloring of the texts.
import { el, fill } from "../../../page/dom.js";
import { rampLegend } from "../../../parts/shaded/tinted.js";
import { stops } from "./row.js";
import { ask, continuable, going, goOn, reference, roots, state, stop, text } from "./state.js";

const clock = (seconds) => {
  const whole = Math.max(0, Math.round(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
};

// Build the Start, Stop and Continue buttons. started() is called after a request. Returns { node, paint() }.
export function runBar(started) {
  const node = el("div", "pg-buttons");
  let looks = "";
  const button = (name, enabled, act, primary) => {
    const one = el("button", `pg-button${primary ? " pg-primary" : ""}`, state.payload.words[name], {
      type: "button",
      "data-name": name,
    });
    one.disabled = !enabled;
    one.onclick = act;
    return one;
  };
  const start = () => {
    ask("start");
    started();
  };
  const end = () => {
    state.stopping = Boolean(state.waiting);
    stop();
  };
  const paint = () => {
    const running = going(),
      more = continuable().length > 0,
      now = `${running} ${more} ${state.payload.words.start} ${state.rows.size > 0}`;
    if (now === looks) return;
    looks = now;
    const focused = node.contains(document.activeElement);
    node.replaceChildren(
      running ? button("stop", true, end, true) : button(state.rows.size ? "start_again" : "start", true, start, true),
      button("go_on", !running && more, goOn),
    );
    if (focused) node.firstChild.focus();
  };
  return {
    node,
    paint,
    forget() {
      looks = "";
    },
  };
}

// Build the progress of the run as a bar and a sentence. Returns { node, problem, paint() }.
export function runStatus() {
  const node = el("div", "pg-race-status", "", { role: "status" }),
    progress = el("progress"),
    line = el("span", "pg-race-line"),
    problem = el("p", "pg-race-error", "", { role: "alert" });
  node.append(progress, line);
  const told = ({ words }, run) => {
    const rate = run.seconds ? run.tokens / run.seconds : 0,
      left = run.have ? (run.seconds / run.have) * Math.max(0, run.limit - run.have) : 0;
    return fill(words[run.state === "running" || run.state === "stopped" ? run.state : "done"], {
      done: run.have,
      n: run.limit,
      rate: rate >= 10 ? Math.round(rate) : rate.toFixed(1),
      tokens: run.tokens.toLocaleString("en"),
      seconds: run.seconds.toFixed(1),
      left: clock(left),
    });
  };
  const paint = () => {
    const { payload, current: run, error, waiting, ahead } = state,
      { words } = payload;
    problem.textContent = error ? `${error.text} ${error.hint ?? ""}` : "";
    progress.hidden = !going();
    if (waiting) {
      progress.removeAttribute("value");
      line.textContent = ahead || words.waiting;
    } else if (!run) line.textContent = words.ready;
    else {
      progress.max = run.limit;
      progress.value = Math.min(run.have, run.limit);
      progress.setAttribute("aria-label", words.progress);
      line.textContent = told(payload, run);
    }
  };
  return { node, problem, paint };
}

// Build the coloring settings with the ramp, and the reference text for comparisons. acts: recolor(), update().
export function colorChoices(acts) {
  const node = el("div", "pg-race-choices pg-no-export"),
    legend = el("div", "pg-surprise-scale");
  const field = (label, options, value, change) => {
    const box = el("label", "pg-field pg-inline"),
      select = el("select");
    for (const [key, name] of options) select.append(new Option(name, key, false, key === value));
    select.onchange = () => change(select.value);
    box.append(el("span", "", label), select);
    return box;
  };
  const paintLegend = () => {
    const { words, scales } = state.payload;
    legend.replaceChildren(...rampLegend(words[`unit_${state.color}`], stops(), scales.ticks[state.color]));
  };
  const paint = () => {
    const { words } = state.payload,
      all = roots(),
      ways = ["probability", "surprisal", "rank", "entropy"].map((each) => [each, words[`by_${each}`]]);
    const byColor = field(words.colour, ways, state.color, (value) => {
      state.color = value;
      paintLegend();
      acts.recolor();
    });
    const named = all.map((row) => [row.id, row.name]);
    const against =
      all.length > 1 &&
      field(words.reference, named, reference().id, (value) => {
        state.reference = value;
        acts.update();
      });
    node.replaceChildren(byColor, ...(against ? [against] : []), legend);
    node.hidden = !state.rows.size;
  };
  return { node, paint, paintLegend };
}

// Build the prompt as rendered by the chat template, initially collapsed.
export function paintChatPrompt(chat) {
  const row = roots()[0];
  chat.hidden = !row?.settings.chat;
  if (chat.hidden) return;
  const chips = el("div", "pg-chips");
  chips.append(...row.prompt.map((id) => el("span", "pg-chip", text(row, id))));
  chat.replaceChildren(el("summary", "", fill(state.payload.words.chat_prompt, { n: row.prompt.length })), chips);
}
