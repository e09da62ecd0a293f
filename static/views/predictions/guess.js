// Guess first: the text up to a token, a field, and the answer once there is a guess. The score is kept on the page.
import { exporting } from "../../export/menu.js";
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { chances, facts, likely, piece } from "../../parts/next_tokens.js";

define("guessing", (root, props, trigger) => {
  const title = el("h2"),
    progress = el("span", "pg-muted"),
    head = el("div", "pg-try-head");
  const text = el("p", "pg-reading-text pg-try-text"),
    form = el("form", "pg-try-form pg-no-export"),
    error = el("p", "pg-try-told", "", { role: "alert" });
  const verdict = el("div", "pg-try-said", "", { "aria-live": "polite" }),
    more = el("div", "pg-surprise-facts");
  const expected = el("h3"),
    frame = el("div", "pg-surprise-frame", "", { tabindex: 0 }),
    answered = el("div", "pg-try-answer"),
    waiting = el("div", "pg-try-waiting");
  const score = el("div", "pg-try-score"),
    foot = el("div"),
    left = el("div", "pg-try-side"),
    right = el("div", "pg-try-side");
  const both = el("div", "pg-try-both");
  head.append(title, progress);
  answered.append(verdict, more, expected, frame);
  left.append(text, form, error);
  right.append(waiting, answered);
  both.append(left, right, score);
  root.append(head, both, foot);
  const button = (kind, action) => {
    const node = el("button", `pg-button ${kind}`.trim(), "", { type: "button" });
    node.onclick = action;
    return node;
  };
  const field = el("input", "", "", { type: "text", autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
  const label = el("label", "pg-control pg-try-field"),
    name = el("span", "pg-control-label"),
    help = el("span", "pg-muted pg-try-help");
  const send = el("button", "pg-button pg-primary", "", { type: "submit" }),
    reveal = button("", () => ask(payload.at, ""));
  const next = button("pg-primary", () => ask(payload.at + 1)),
    restart = button("", () => {
      rounds.clear();
      ask(1);
    });
  const buttons = el("div", "pg-buttons"),
    hide = el("label", "pg-control pg-control-check"),
    box = el("input", "", "", { type: "checkbox" }),
    hideName = el("span", "pg-control-label");
  label.append(name, field);
  buttons.append(send, next, reveal, restart);
  hide.append(hideName, box);
  form.append(label, help, buttons, hide);
  box.checked = true;

  let payload = null,
    run = null,
    focusNext = false;
  const rounds = new Map(); // position -> { right, model, bits }, of the guesses

  // Asks for one turn: the text before a token, or, with what was typed, the answer.
  function ask(at, typed) {
    props.value = { run: payload.scene, at, ...(typed === undefined ? {} : { typed }) };
    focusNext = true;
    if (payload.at === at && typed === undefined && !payload.answer) {
      focusNext = false;
      draw(payload);
      field.focus();
      return;
    } // it is on the page
    trigger("select", { index: 0, value: JSON.stringify(props.value) });
  }
  form.onsubmit = (event) => {
    event.preventDefault();
    if (payload.answer) {
      if (!payload.last) ask(payload.at + 1);
    } else if (field.value) ask(payload.at, field.value);
  };
  field.oninput = () => {
    send.disabled = !field.value;
  };

  // The prompt and its tokens stand above: hidden on request while this view is open.
  const cover = () => {
    const on = box.checked && root.clientWidth > 0 && Boolean(payload);
    document.body.classList.toggle("pg-hide-prompt", on);
    for (const place of document.querySelectorAll("#prompt, #pg-chat, #pg-tokens"))
      if (payload) place.dataset.hidden = payload.words.hidden;
  };
  box.onchange = cover;
  new ResizeObserver(cover).observe(root);

  const drawText = () => {
    const breaks = new Map(payload.breaks),
      { words } = payload;
    text.setAttribute("aria-label", words.text_label);
    const tokens = payload.before.map((token, at) => {
      const node = piece(el("span", "pg-try-token"), token);
      if (rounds.has(at)) {
        const good = rounds.get(at).right;
        node.classList.add(good ? "pg-try-right" : "pg-try-wrong");
        node.title = words[good ? "mark_right" : "mark_wrong"];
      }
      return [node, ...Array.from({ length: breaks.get(at) ?? 0 }, () => el("br"))];
    });
    const { answer } = payload;
    const last = answer
      ? piece(
          el(
            "span",
            `pg-try-token pg-try-new${answer.right === null ? "" : answer.right ? " pg-try-right" : " pg-try-wrong"}`,
          ),
          answer.text,
        )
      : el("span", "pg-try-unknown", words.unknown);
    text.replaceChildren(...tokens.flat(), last);
    text.scrollTop = text.scrollHeight;
  };
  const drawScore = () => {
    const { words } = payload,
      all = [...rounds.values()],
      n = all.length;
    const line = (who, value) => [who, value, ""];
    const rate = (right) => fill(words.score_right, { right, n, percent: Math.round((100 * right) / n) });
    const list = el("div", "pg-surprise-facts");
    if (n)
      facts(list, [
        line(words.score_you, rate(all.filter((each) => each.right).length)),
        line(words.score_model, rate(all.filter((each) => each.model).length)),
        line(
          words.score_bits,
          fill(words.score_bits_value, { n, bits: (all.reduce((sum, each) => sum + each.bits, 0) / n).toFixed(2) }),
        ),
      ]);
    else list.append(el("span", "pg-muted", words.score_none));
    score.replaceChildren(el("h3", "", words.score), list);
  };
  const draw = (now) => {
    const { words, answer } = now;
    title.textContent = words.title;
    progress.textContent = now.progress;
    name.textContent = words.field;
    field.placeholder = words.placeholder;
    help.textContent = words.field_help;
    for (const [node, key] of [
      [send, "guess"],
      [next, "next"],
      [reveal, "reveal"],
      [restart, "restart"],
      [hideName, "hide"],
      [expected, "expected"],
    ])
      node.textContent = words[key];
    const marks = answer ? { [answer.real]: words.is_real } : {};
    if (answer && answer.guess !== null) marks[answer.guess] = words[answer.right ? "is_both" : "is_guess"];
    send.hidden = reveal.hidden = field.disabled = Boolean(answer);
    next.hidden = !answer || now.last;
    error.textContent = now.refused ?? (answer && now.last ? words.done : "");
    error.classList.toggle("pg-try-refused", Boolean(now.refused));
    if (!answer && !now.refused) field.value = "";
    send.disabled = !field.value;
    answered.hidden = !answer;
    waiting.hidden = Boolean(answer);
    waiting.textContent = words.waiting;
    if (answer) {
      verdict.replaceChildren(
        ...answer.said.map((each, i) =>
          el(
            "p",
            i ? "" : `pg-try-first${answer.right === null ? "" : answer.right ? " pg-try-yes" : " pg-try-no"}`,
            each,
          ),
        ),
      );
      facts(more, answer.facts);
      chances(frame, { rows: answer.rows, words, label: words.expected, marks });
    }
    drawText();
    drawScore();
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
    if (follow) (sent.answer ? (sent.last ? restart : next) : field).focus({ preventScroll: true });
  };
  take.stateOf = (value) => value;
  return take;
});
