// What comes next: the likeliest tokens as bars, at any temperature, and writing one of them.
//
// payload of "startnext": { title, about, tokens: [{ id, text, logit, prompt }], temperatures, sums, drawn: [{ id, text,
//   prompt, ends }], u, usual, before, chat, last, room, words, file, source, python, run }. A share is exp(logit / T - sum of T): the
//   page computes it by itself. `prompt`: what the prompt would be with that token, "" where no text is read like that.
// value: { temperature }, of which the server knows nothing
import { exporting } from "../../export/menu.js";
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { promptText, writeOn } from "../../page/prompt/prompt.js";

const PAUSE = 350; // milliseconds between two tokens, to see what changes

const percent = (share) => {
  const points = 100 * share;
  if (!points) return "0 %";
  return points < 0.01 ? "< 0.01 %" : `${points.toFixed(points >= 10 ? 1 : 2)} %`;
};

export const shareAt = (logit, T, sum) => (T ? Math.exp(logit / T - sum) : logit === 0 ? 1 : 0);

define("startnext", (root, props, ask) => {
  const title = el("h2"),
    about = el("p", "pg-about"),
    list = el("ol", "pg-start-bars"),
    rest = el("p", "pg-start-rest"),
    control = el("label", "pg-start-heat"),
    name = el("span"),
    slider = el("input", "", "", { type: "range", min: 0, step: 1 }),
    shown = el("output"),
    write = el("button", "pg-button pg-primary pg-start-write", "", { type: "button" }),
    keep = el("button", "pg-button pg-start-keep", "", { type: "button", "aria-pressed": "false" }),
    buttons = el("div", "pg-start-buttons"),
    why = el("p", "pg-about"),
    foot = el("div");
  control.append(name, slider, shown);
  buttons.append(write, keep);
  root.append(title, about, list, rest, control, buttons, why, foot);
  // Token after token, each once the page shows the one before; whatever the visitor does with the prompt ends it.
  let writing = null;
  const stop = () => {
    clearTimeout(writing?.timer);
    writing = null;
    keep.setAttribute("aria-pressed", "false");
    if (payload) keep.textContent = payload.words.keep;
  };
  const goOn = () => {
    const { prompt, ends } = payload.drawn[at];
    if (
      !writing ||
      !prompt ||
      ends ||
      !payload.room ||
      !payload.last ||
      (writing.next ?? payload.before) !== payload.before
    )
      return stop();
    writing.timer = setTimeout(() => {
      if (!writing || promptText() !== payload.before) return stop();
      writing.next = prompt;
      writeOn(prompt, payload.before);
    }, PAUSE);
  };
  keep.onclick = () => {
    if (writing) return stop();
    writing = {};
    keep.setAttribute("aria-pressed", "true");
    keep.textContent = payload.words.stop;
    goOn();
  };
  let payload = null,
    at = null; // which temperature is shown; props.value keeps it from prompt to prompt, and in a link
  const rows = [];
  const paint = () => {
    const { tokens, temperatures, sums, drawn, words, u, last, room } = payload,
      T = temperatures[at];
    const shares = tokens.map(({ logit }, n) => (T ? shareAt(logit, T, sums[at]) : n ? 0 : 1));
    rows.forEach(({ bar, number }, n) => {
      bar.style.width = `${100 * shares[n]}%`;
      number.textContent = percent(shares[n]);
    });
    rest.textContent = `${words.others}: ${percent(Math.max(0, 1 - shares.reduce((a, b) => a + b, 0)))}`;
    shown.textContent = T.toFixed(2);
    slider.setAttribute("aria-valuetext", T.toFixed(2));
    const pick = drawn[at];
    write.replaceChildren(`${last ? words.write : words.write_here} `, el("code", "", pick.text));
    write.disabled = !pick.prompt || !room;
    keep.disabled = !writing && (write.disabled || !last || pick.ends);
    why.textContent = room
      ? pick.prompt
        ? T
          ? fill(words.falls, { u: u.toFixed(4) })
          : words.first_choice
        : pick.ends
          ? words.ends
          : payload.chat
            ? words.chat
            : words.untypable
      : words.full;
    for (const { line, id } of rows) line.classList.toggle("pg-start-drawn", id === pick.id);
  };
  slider.oninput = () => {
    at = +slider.value;
    props.value = { temperature: payload.temperatures[at] };
    ask("keep");
    paint();
  };
  write.onclick = () => {
    const { prompt } = payload.drawn[at];
    if (prompt) writeOn(prompt, payload.before);
  };
  const draw = (next) => {
    payload = next;
    const { words, tokens, temperatures, room, run } = payload;
    const chosen = temperatures.indexOf(props.value?.temperature);
    at = chosen < 0 ? payload.usual : chosen;
    title.textContent = payload.title;
    about.textContent = payload.about;
    name.textContent = words.temperature;
    control.title = words.temperature_help;
    slider.max = temperatures.length - 1;
    slider.value = at;
    rows.length = 0;
    list.replaceChildren(
      ...tokens.map(({ id, text, prompt }) => {
        const line = el("li"),
          button = el("button", "pg-start-bar", "", {
            type: "button",
            title: prompt ? words.append : payload.chat ? words.chat : words.untypable,
          }),
          track = el("span", "pg-start-track"),
          bar = el("i"),
          number = el("b");
        button.disabled = !prompt || !room;
        button.onclick = () => writeOn(prompt, payload.before);
        track.append(bar);
        button.append(el("code", "", text), track, number);
        line.append(button);
        rows.push({ id, line, bar, number });
        return line;
      }),
    );
    const names = [words.column_token, words.column_id, words.column_share];
    const lines = () => tokens.map(({ text, id }, n) => [text, id, shareOf(n)]);
    const shareOf = (n) => (temperatures[at] ? shareAt(tokens[n].logit, temperatures[at], payload.sums[at]) : +!n);
    foot.replaceChildren(
      exporting(root, {
        file: payload.file,
        source: payload.source,
        python: payload.python,
        title: payload.title,
        note: payload.about,
        names,
        lines,
        table: true,
        words,
      }),
    );
    root.dataset.run = run;
    if (!writing) keep.textContent = words.keep;
    paint();
    if (writing) goOn();
  };
  draw.stateOf = ({ temperature }) =>
    payload && (temperature === payload.temperatures[payload.usual] || !payload.temperatures.includes(temperature))
      ? null
      : { temperature };
  return draw;
});
