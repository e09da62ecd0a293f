// The view "Guess first": the text up to a token, an input field, and the answer after a guess. The score stays on the
// page.
import { exporting } from "../../export/menu.js";
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { chances, facts, likely, piece } from "../../parts/next_tokens.js";

// Build the field with its buttons. acts: guess(text), next(), reveal(), restart(), cover(). Returns its controls.
function guessForm(acts) {
  const form = el("form", "pg-try-form pg-no-export"),
    label = el("label", "pg-control pg-try-field"),
    name = el("span", "pg-control-label"),
    field = el("input", "", "", { type: "text", autocomplete: "off", autocapitalize: "off", spellcheck: "false" }),
    help = el("span", "pg-muted pg-try-help"),
    buttons = el("div", "pg-buttons"),
    hide = el("label", "pg-control pg-control-check"),
    box = el("input", "", "", { type: "checkbox" }),
    hideName = el("span", "pg-control-label");
  const button = (kind, action) => {
    const node = el("button", `pg-button ${kind}`.trim(), "", { type: "button" });
    node.onclick = action;
    return node;
  };
  const send = el("button", "pg-button pg-primary", "", { type: "submit" }),
    next = button("pg-primary", acts.next),
    reveal = button("", acts.reveal),
    restart = button("", acts.restart);
  label.append(name, field);
  buttons.append(send, next, reveal, restart);
  hide.append(hideName, box);
  form.append(label, help, buttons, hide);
  box.checked = true;
  box.onchange = acts.cover;
  field.oninput = () => {
    send.disabled = !field.value;
  };
  form.onsubmit = (event) => {
    event.preventDefault();
    acts.guess(field.value);
  };
  return {
    node: form,
    field,
    next,
    restart,
    hides: () => box.checked,
    show({ words, answer, last, refused }) {
      name.textContent = words.field;
      field.placeholder = words.placeholder;
      help.textContent = words.field_help;
      for (const [node, key] of [
        [send, "guess"],
        [next, "next"],
        [reveal, "reveal"],
        [restart, "restart"],
        [hideName, "hide"],
      ])
        node.textContent = words[key];
      send.hidden = reveal.hidden = field.disabled = Boolean(answer);
      next.hidden = !answer || last;
      if (!answer && !refused) field.value = "";
      send.disabled = !field.value;
    },
  };
}

const verdictOf = (right, yes, no) => (right === null ? "" : right ? ` ${yes}` : ` ${no}`);

// Build the text up to the token, with guessed tokens marked, followed by the answer or a blank.
function textOf({ before, breaks, words, answer }, rounds) {
  const ends = new Map(breaks);
  const tokens = before.flatMap((token, at) => {
    const node = piece(el("span", "pg-try-token"), token);
    if (rounds.has(at)) {
      const good = rounds.get(at).right;
      node.classList.add(good ? "pg-try-right" : "pg-try-wrong");
      node.title = words[good ? "mark_right" : "mark_wrong"];
    }
    return [node, ...Array.from({ length: ends.get(at) ?? 0 }, () => el("br"))];
  });
  if (!answer) return [...tokens, el("span", "pg-try-unknown", words.unknown)];
  const look = `pg-try-token pg-try-new${verdictOf(answer.right, "pg-try-right", "pg-try-wrong")}`;
  return [...tokens, piece(el("span", look), answer.text)];
}

// Count how often the user and the model have been right so far.
function scoreOf(words, rounds) {
  const all = [...rounds.values()],
    n = all.length,
    list = el("div", "pg-surprise-facts"),
    rate = (right) => fill(words.score_right, { right, n, percent: Math.round((100 * right) / n) });
  if (!n) list.append(el("span", "pg-muted", words.score_none));
  else {
    const bits = (all.reduce((sum, each) => sum + each.bits, 0) / n).toFixed(2);
    facts(list, [
      [words.score_you, rate(all.filter((each) => each.right).length), ""],
      [words.score_model, rate(all.filter((each) => each.model).length), ""],
      [words.score_bits, fill(words.score_bits_value, { n, bits }), ""],
    ]);
  }
  return [el("h3", "", words.score), list];
}

// Build the verdict on a guess, and the model's prediction. Returns { node, show(answer, words) }.
function answerBox() {
  const node = el("div", "pg-try-answer"),
    verdict = el("div", "pg-try-said", "", { "aria-live": "polite" }),
    more = el("div", "pg-surprise-facts"),
    expected = el("h3"),
    frame = el("div", "pg-surprise-frame", "", { tabindex: 0 });
  node.append(verdict, more, expected, frame);
  const show = (answer, words) => {
    expected.textContent = words.expected;
    node.hidden = !answer;
    if (!answer) return;
    const marks = { [answer.real]: words.is_real },
      first = `pg-try-first${verdictOf(answer.right, "pg-try-yes", "pg-try-no")}`;
    if (answer.guess !== null) marks[answer.guess] = words[answer.right ? "is_both" : "is_guess"];
    verdict.replaceChildren(...answer.said.map((each, i) => el("p", i ? "" : first, each)));
    facts(more, answer.facts);
    chances(frame, { rows: answer.rows, words, label: words.expected, marks });
  };
  return { node, show };
}

define("guessing", (root, props, send) => {
  const title = el("h2"),
    progress = el("span", "pg-muted"),
    head = el("div", "pg-try-head"),
    text = el("p", "pg-reading-text pg-try-text"),
    error = el("p", "pg-try-told", "", { role: "alert" }),
    waiting = el("div", "pg-try-waiting"),
    answered = answerBox(),
    score = el("div", "pg-try-score"),
    left = el("div", "pg-try-side"),
    right = el("div", "pg-try-side"),
    both = el("div", "pg-try-both"),
    foot = el("div");
  let payload = null,
    run = null,
    focusNext = false;
  const rounds = new Map(); // position -> result of the guess: { right, model, bits }
  const form = guessForm({
    guess(typed) {
      if (payload.answer) {
        if (!payload.last) ask(payload.at + 1);
      } else if (typed) ask(payload.at, typed);
    },
    next: () => ask(payload.at + 1),
    reveal: () => ask(payload.at, ""),
    restart() {
      rounds.clear();
      ask(1);
    },
    cover: () => cover(),
  });
  head.append(title, progress);
  left.append(text, form.node, error);
  right.append(waiting, answered.node);
  both.append(left, right, score);
  root.append(head, both, foot);

  // Request one round: the text before a token or, after a guess, the answer.
  function ask(at, typed) {
    props.value = { run: payload.scene, at, ...(typed === undefined ? {} : { typed }) };
    focusNext = true;
    if (payload.at === at && typed === undefined && !payload.answer) {
      focusNext = false;
      draw(payload);
      form.field.focus();
      return;
    } // the round is already on the page
    send("select");
  }
  // The prompt and its tokens above would reveal the answer, so they are hidden on request while this view is open.
  const cover = () => {
    const on = form.hides() && root.clientWidth > 0 && Boolean(payload);
    document.body.classList.toggle("pg-hide-prompt", on);
    for (const place of document.querySelectorAll("#prompt, #pg-chat, #pg-tokens"))
      if (payload) place.dataset.hidden = payload.words.hidden;
  };
  new ResizeObserver(cover).observe(root);

  const draw = (now) => {
    const { words, answer } = now;
    title.textContent = words.title;
    progress.textContent = now.progress;
    form.show(now);
    error.textContent = now.refused ?? (answer && now.last ? words.done : "");
    error.classList.toggle("pg-try-refused", Boolean(now.refused));
    waiting.hidden = Boolean(answer);
    waiting.textContent = words.waiting;
    answered.show(answer, words);
    text.setAttribute("aria-label", words.text_label);
    text.replaceChildren(...textOf(payload, rounds));
    text.scrollTop = text.scrollHeight;
    score.replaceChildren(...scoreOf(words, rounds));
    foot.replaceChildren(
      exporting(root, {
        file: `guess-${now.at}`,
        source: now.source,
        title: words.title,
        ...(answer ? likely(answer.rows) : {}),
      }),
    );
    root.dataset.run = `${now.run} ${now.at} ${answer ? "answer" : "guess"}`;
    cover();
  };
  const take = (sent) => {
    if (sent.scene !== run) {
      rounds.clear();
      run = sent.scene;
    }
    payload = sent;
    if (sent.answer && sent.answer.right !== null && !rounds.has(sent.at)) rounds.set(sent.at, sent.answer);
    const follow = focusNext || root.contains(document.activeElement);
    focusNext = false;
    draw(sent);
    if (follow) (sent.answer ? (sent.last ? form.restart : form.next) : form.field).focus({ preventScroll: true });
  };
  take.stateOf = (value) => value;
  return take;
});
