// Which text is better: two cards to choose from by click or arrow key, and the pairs so far as a table.
//
// payload of "preferences": { words, most, longest, ruled, model, rules [[name, help]], chosen, start, range | wrong }
import { save } from "../../export/files.js";
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { add, asLines, clear, desk, edit, fromLines, listed, onPairs, pairs, remove } from "./pairs.js";

const SHOWN = 50; // rows of the table at first

define("preferences", (root) => {
  let payload = null,
    current = null, // { prompt, texts, scores }
    wanted = null, // { tag, event } of the question that is under way
    next = [], // questions after it
    questions = 0, // so far
    at = 0, // number of the next pair of texts
    from = "", // the settings that the numbers count for
    rows = SHOWN,
    said = "";
  const top = el("div", "pg-pairs-top"),
    rule = el("p", "pg-about"),
    prompt = el("p", "pg-pairs-prompt"),
    cards = el("div", "pg-pairs-cards", "", { tabindex: 0, role: "group" }),
    told = el("p", "pg-about", "", { role: "status" }),
    head = el("div", "pg-pairs-head"),
    box = el("div", "pg-lab-scroll"),
    file = el("input", "", "", { type: "file", accept: ".jsonl,.json,.txt" });
  file.hidden = true;
  root.append(rule, top, prompt, cards, told, head, box, file);

  const button = (text, act, name = "pg-button") => {
    const made = el("button", name, text, { type: "button" });
    made.onclick = act;
    return made;
  };

  // --- questions to the server, one after the other ---
  const ask = (event, more = {}) => {
    if (wanted) {
      next = [...next.filter((each) => each.event !== event), { event, more }];
      return;
    }
    wanted = { event, tag: `${event} ${++questions}` };
    desk.send(event, { tag: wanted.tag, at, ...(event === "judge" ? { pairs: listed() } : {}), ...more });
    paint();
  };
  const over = () => {
    wanted = null;
    const { event, more } = next.shift() ?? {};
    if (event) ask(event, more);
    paint();
  };
  let ruled = 0, // of the pairs of the running answer, those that are in the table
    agreement = null;
  desk.take = (answer) => {
    if (!wanted || (answer.tag && answer.tag !== wanted.tag)) return;
    if (answer.error) {
      said = `${answer.error.text} ${answer.error.hint}`;
      next = [];
      ruled = 0;
      return over();
    }
    said = "";
    if (answer.texts && next.some((each) => each.event === "write")) {
      over(); // the settings were changed meanwhile
    } else if (answer.texts) {
      current = answer;
      at += 1;
      over();
      if (asked) cards.focus({ preventScroll: true });
    } else if (answer.pairs) {
      const fresh = answer.pairs
        .slice(ruled)
        .map(([prompt, chosen, rejected, by]) => ({ prompt, chosen, rejected, by }));
      ruled = answer.pairs.length;
      said = fill(payload.words.ruled, { ...answer, n: ruled });
      if (fresh.length) put(fresh);
      if (answer.done === answer.total) {
        at += answer.total;
        ruled = 0;
        over();
      } else paint();
    } else {
      agreement = answer.agreement ?? null;
      over();
    }
  };
  const put = (more) => add(more.slice(0, Math.max(0, payload.most - pairs.length)));

  // --- choosing ---
  let asked = false; // whether a person began to choose: the keys then stay on the cards
  const write = () => {
    asked = true;
    ask("write");
  };
  const choose = (which) => {
    if (!current || wanted) return;
    const { prompt, texts } = current;
    current = null;
    asked = true;
    if (texts[0] !== texts[1]) put([{ prompt, chosen: texts[which], rejected: texts[1 - which], by: "person" }]);
    ask("write");
  };
  const skip = () => {
    if (!current || wanted) return;
    current = null;
    write();
  };
  cards.addEventListener("keydown", (event) => {
    const act = { ArrowLeft: () => choose(0), ArrowRight: () => choose(1), ArrowDown: skip }[event.key];
    if (!act || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    act();
  });

  // --- files ---
  const keep = () => save("pairs.jsonl", new Blob([asLines()], { type: "application/jsonl" }));
  file.onchange = async () => {
    const [chosen] = file.files;
    file.value = "";
    if (!chosen) return;
    try {
      const found = fromLines(await chosen.text(), payload.longest);
      put(found);
      said = fill(payload.words.loaded, { n: found.length });
    } catch (line) {
      said = fill(payload.words.wrong_line, { line });
    }
    paint();
  };

  // --- what is seen ---
  const card = (which) => {
    const { words } = payload,
      made = button("", () => choose(which), "pg-pairs-card");
    const label = el("span", "pg-pairs-key", words[which ? "right" : "left"]);
    made.append(label, el("span", "pg-pairs-text", current ? current.texts[which] || words.empty_text : "…"));
    made.disabled = !current || Boolean(wanted);
    return made;
  };
  const paint = () => {
    if (!payload) return;
    const { words } = payload,
      focused = cards.contains(document.activeElement);
    rule.textContent = payload.wrong ?? payload.range;
    rule.classList.toggle("pg-effect-problem", Boolean(payload.wrong));
    const start = button(words.write, write, "pg-button pg-primary");
    start.hidden = Boolean(current) || asked;
    start.disabled = Boolean(wanted);
    const by_rule = button(fill(words.let_rule, { n: payload.ruled }), () => ask("rule"));
    by_rule.disabled = Boolean(wanted) || Boolean(payload.wrong) || pairs.length >= payload.most;
    const skips = button(words.skip, skip);
    skips.disabled = !current || Boolean(wanted);
    skips.hidden = !asked;
    top.replaceChildren(start, skips, by_rule);
    prompt.textContent = current ? `${words.prompt}: ${current.prompt}` : "";
    cards.setAttribute("aria-label", words.cards);
    cards.hidden = !asked;
    cards.replaceChildren(card(0), card(1));
    if (focused) cards.focus({ preventScroll: true });
    told.textContent = said || (asked ? (wanted?.event === "write" ? words.writing : words.keys) : words.about);
    table();
  };
  const table = () => {
    const { words } = payload,
      by = (who) => pairs.filter((pair) => pair.by === who).length;
    const counts = el(
      "span",
      "pg-pairs-count",
      fill(words.counts, { n: pairs.length, person: by("person"), rule: by("rule") }),
    );
    const agreed = el("span", "pg-muted", agreement && by("person") ? fill(words.agreement, agreement) : "");
    const saving = button(words.save, keep),
      clearing = button(words.clear, clear);
    saving.disabled = clearing.disabled = !pairs.length;
    head.replaceChildren(
      el("h2", "", words.pairs),
      counts,
      agreed,
      saving,
      button(words.load, () => file.click()),
      clearing,
    );
    const grid = el("table", "pg-lab-table pg-pairs-table"),
      line = el("tr"),
      top = el("thead"),
      body = el("tbody");
    line.append(
      ...["prompt", "chosen", "rejected", "by", "change"].map((key) => el("th", "", words[key], { scope: "col" })),
    );
    top.append(line);
    // The newest first: that is the one whose choice one takes back.
    for (let index = pairs.length - 1; index >= Math.max(0, pairs.length - rows); index--) body.append(row(index));
    grid.append(top, body);
    const parts = [grid];
    if (pairs.length > rows)
      parts.push(
        button(fill(words.more, { n: pairs.length - rows }), () => {
          rows = pairs.length;
          table();
        }),
      );
    box.replaceChildren(...(pairs.length ? parts : [el("p", "pg-muted", words.none)]));
    root.dataset.pairs = pairs.length;
  };
  const row = (index) => {
    const { words } = payload,
      pair = pairs[index],
      made = el("tr");
    const text = (key) => {
      const cell = el("td"),
        field = el("textarea", "", "", { rows: 3, "aria-label": words[key], maxlength: payload.longest });
      field.value = pair[key];
      field.onchange = () => {
        const other = pair[key === "chosen" ? "rejected" : "chosen"];
        if (field.value === other) field.value = pair[key];
        else edit(index, { [key]: field.value, by: "person" });
      };
      cell.append(field);
      return cell;
    };
    const last = el("td", "pg-pairs-acts");
    const swap = button(
      "⇄",
      () => edit(index, { chosen: pair.rejected, rejected: pair.chosen, by: "person" }),
      "pg-cross",
    );
    swap.setAttribute("aria-label", words.swap);
    swap.title = words.swap;
    const cross = button("×", () => remove(index), "pg-cross");
    cross.setAttribute("aria-label", words.remove);
    cross.title = words.remove;
    last.append(swap, cross);
    made.append(
      el("th", "", pair.prompt, { scope: "row" }),
      text("chosen"),
      text("rejected"),
      el("td", "", words[`by_${pair.by}`]),
      last,
    );
    return made;
  };
  onPairs(() => {
    if (!payload) return;
    table();
    if (pairs.some((pair) => pair.by === "person") && !payload.wrong) ask("judge");
  });
  return (fresh) => {
    const settings = JSON.stringify([fresh.model, fresh.start]),
      again = payload && payload.chosen !== fresh.chosen;
    payload = fresh;
    if (settings !== from) {
      from = settings;
      at = 0; // another prompt, seed or model: its pairs are counted anew
      current = null;
      if (asked) ask("write");
    }
    if (again && pairs.length && !payload.wrong) ask("judge");
    paint();
  };
});
