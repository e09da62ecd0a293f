// The view "Which text is better": two cards to choose from by click or arrow key, and a table of the pairs so far.
//
// payload of "preferences": { words, most, longest, ruled, model, rules [[name, help]], chosen, start, range | wrong }
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { button } from "../../parts/run.js";
import { pairTable } from "./pair_table.js";
import { add, desk, listed, onPairs, pairs } from "./pairs.js";

// Send the questions to the server one at a time. `context(event)`: the data to include.
function questions(context, changed) {
  let wanted = null, // the pending question: { tag, event }
    next = [], // queued questions
    asked = 0;
  const line = {
    current: () => wanted,
    waits: (event) => next.some((each) => each.event === event),
    ask(event, more = {}) {
      if (wanted) {
        next = [...next.filter((each) => each.event !== event), { event, more }];
        return;
      }
      wanted = { event, tag: `${event} ${++asked}` };
      desk.send(event, { tag: wanted.tag, ...context(event), ...more });
      changed();
    },
    // The pending question has been answered: send the next one.
    over() {
      wanted = null;
      const { event, more } = next.shift() ?? {};
      if (event) line.ask(event, more);
      changed();
    },
    forget() {
      next = [];
    },
  };
  return line;
}

// Build two cards to choose from; acts: choose(which), skip().
function pairCards(acts) {
  const node = el("div", "pg-pairs-cards", "", { tabindex: 0, role: "group" });
  node.addEventListener("keydown", (event) => {
    const act = { ArrowLeft: () => acts.choose(0), ArrowRight: () => acts.choose(1), ArrowDown: acts.skip }[event.key];
    if (!act || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    act();
  });
  const card = (which, texts, enabled, words) => {
    const made = el("button", "pg-pairs-card", "", { type: "button" });
    made.onclick = () => acts.choose(which);
    made.append(
      el("span", "pg-pairs-key", words[which ? "right" : "left"]),
      el("span", "pg-pairs-text", texts ? texts[which] || words.empty_text : "…"),
    );
    made.disabled = !enabled;
    return made;
  };
  return {
    node,
    draw(texts, enabled, words) {
      const focused = node.contains(document.activeElement);
      node.setAttribute("aria-label", words.cards);
      node.replaceChildren(card(0, texts, enabled, words), card(1, texts, enabled, words));
      if (focused) node.focus({ preventScroll: true });
    },
  };
}

// Process an answer from the server. `now`: the state of the part, see below; acts: put(pairs), paint(), shown().
function takeAnswer(now, line, answer, acts) {
  const wanted = line.current();
  if (!wanted || (answer.tag && answer.tag !== wanted.tag)) return;
  now.said = "";
  if (answer.error) {
    now.said = `${answer.error.text} ${answer.error.hint}`;
    now.ruled = 0;
    line.forget();
    line.over();
  } else if (answer.texts && line.waits("write")) {
    line.over(); // the settings have since changed
  } else if (answer.texts) {
    now.current = answer;
    now.at += 1;
    line.over();
    acts.shown();
  } else if (answer.pairs) {
    // The pairs that a rule decides arrive a few at a time.
    const fresh = answer.pairs.slice(now.ruled);
    now.ruled = answer.pairs.length;
    now.said = fill(now.payload.words.ruled, { ...answer, n: now.ruled });
    if (fresh.length) acts.put(fresh.map(([prompt, chosen, rejected, by]) => ({ prompt, chosen, rejected, by })));
    if (answer.done !== answer.total) return acts.paint();
    now.at += answer.total;
    now.ruled = 0;
    line.over();
  } else {
    now.agreement = answer.agreement ?? null;
    line.over();
  }
}

define("preferences", (root) => {
  const rule = el("p", "pg-about"),
    top = el("div", "pg-pairs-top"),
    prompt = el("p", "pg-pairs-prompt"),
    told = el("p", "pg-about", "", { role: "status" });
  const now = {
    payload: null,
    current: null, // the pair to choose from: { prompt, texts, scores }
    at: 0, // index of the next pair of texts
    from: "", // the settings to which the counts belong
    said: "",
    asked: false, // true once the user has started to choose; the keys then act on the cards
    ruled: 0, // number of pairs of the pending answer that are already in the table
    agreement: null,
  };
  const line = questions(
    (event) => ({ at: now.at, ...(event === "judge" ? { pairs: listed() } : {}) }),
    () => paint(),
  );
  const put = (more) => add(more.slice(0, Math.max(0, now.payload.most - pairs.length)));
  const write = () => {
    now.asked = true;
    line.ask("write");
  };
  // Both buttons discard the current pair and request the next one.
  const choose = (which) => {
    const { current } = now;
    if (!current || line.current()) return;
    const [chosen, rejected] = which ? [...current.texts].reverse() : current.texts;
    now.current = null;
    now.asked = true;
    if (chosen !== rejected) put([{ prompt: current.prompt, chosen, rejected, by: "person" }]);
    line.ask("write");
  };
  const skip = () => {
    if (!now.current || line.current()) return;
    now.current = null;
    write();
  };
  const cards = pairCards({ choose, skip }),
    table = pairTable(put, (text) => {
      now.said = text;
      paint();
    });
  root.append(rule, top, prompt, cards.node, told, ...table.nodes);
  const shown = () => now.asked && cards.node.focus({ preventScroll: true });
  desk.take = (answer) => takeAnswer(now, line, answer, { put, shown, paint: () => paint() });

  const paint = () => {
    const { payload, current, asked, said } = now;
    if (!payload) return;
    const { words } = payload,
      wanted = line.current(),
      free = !wanted;
    rule.textContent = payload.wrong ?? payload.range;
    rule.classList.toggle("pg-effect-problem", Boolean(payload.wrong));
    const start = button(words.write, write, { enabled: free, primary: true }),
      skips = button(words.skip, skip, { enabled: Boolean(current) && free }),
      may = free && !payload.wrong && pairs.length < payload.most;
    start.hidden = Boolean(current) || asked;
    skips.hidden = !asked;
    const byRule = button(fill(words.let_rule, { n: payload.ruled }), () => line.ask("rule"), { enabled: may });
    top.replaceChildren(start, skips, byRule);
    prompt.textContent = current ? `${words.prompt}: ${current.prompt}` : "";
    cards.node.hidden = !asked;
    cards.draw(current?.texts, Boolean(current) && free, words);
    told.textContent = said || (asked ? (wanted?.event === "write" ? words.writing : words.keys) : words.about);
    list();
  };
  const list = () => {
    table.draw(now.payload, now.agreement);
    root.dataset.pairs = pairs.length;
  };
  onPairs(() => {
    if (!now.payload) return;
    list();
    if (pairs.some((pair) => pair.by === "person") && !now.payload.wrong) line.ask("judge");
  });
  return (fresh) => {
    const settings = JSON.stringify([fresh.model, fresh.start]),
      again = now.payload && now.payload.chosen !== fresh.chosen;
    now.payload = fresh;
    if (settings !== now.from) {
      // Another prompt, seed or model restarts the counts.
      Object.assign(now, { from: settings, at: 0, current: null });
      if (now.asked) line.ask("write");
    }
    if (again && pairs.length && !fresh.wrong) line.ask("judge");
    paint();
  };
});
