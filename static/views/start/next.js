// What comes next: the most likely tokens as bars at any temperature, and buttons that append one of them.
//
// payload of "startnext": { title, about, tokens: [{ id, text, logit, prompt }], temperatures, sums, drawn: [{ id, text,
//   prompt, ends }], u, usual, before, chat, last, room, masked, words, file, source, python, run }
//  The page itself computes a probability, as exp(logit / T - sum of T). `prompt`: the prompt with that token appended,
//  "" if no string is tokenized like that. `masked`: the token at the position is predicted, and put in its place.
// value: { temperature }, which the server ignores
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { promptText, setPrompt, writeOn } from "../../page/prompt/prompt.js";
import { percent } from "../../parts/percent.js";
import { titled } from "../../parts/titled.js";

const PAUSE = 350; // milliseconds between two generated tokens, so that each change is visible

export const shareAt = (logit, T, sum) => (T ? Math.exp(logit / T - sum) : logit === 0 ? 1 : 0);

// Compute a token's probability at the temperature with this index.
const shareOf = ({ tokens, temperatures, sums }, at, n) =>
  temperatures[at] ? shareAt(tokens[n].logit, temperatures[at], sums[at]) : +!n;

// Build the most likely tokens as buttons with bars; a click appends the token. Returns rows { id, line, bar, number }.
function tokenBars({ tokens, words, chat, room, before, masked }) {
  return tokens.map(({ id, text, prompt }) => {
    const line = el("li"),
      title = prompt ? words.append : chat ? words.chat : words.untypable,
      button = el("button", "pg-start-bar", "", { type: "button", title }),
      track = el("span", "pg-start-track"),
      bar = el("i"),
      number = el("b");
    button.disabled = !prompt || !room;
    button.onclick = () => (masked ? setPrompt(prompt) : writeOn(prompt, before));
    track.append(bar);
    button.append(el("code", "", text), track, number);
    line.append(button);
    return { id, line, bar, number };
  });
}

// Explain why this token was drawn, or why it cannot be appended.
function reason({ words, chat, room, u }, pick, T) {
  if (!room) return words.full;
  if (!pick.prompt) return pick.ends ? words.ends : chat ? words.chat : words.untypable;
  return T ? fill(words.falls, { u: u.toFixed(2), token: `“${pick.text}”` }) : words.first_choice;
}

// Build a button that generates tokens one after the other, each once the page shows the previous one. Any edit of the
// prompt stops the generation. `now()`: { payload, pick }.
function writer(now) {
  const node = el("button", "pg-button pg-start-keep", "", { type: "button", "aria-pressed": "false" });
  let writing = null;
  const stop = () => {
    clearTimeout(writing?.timer);
    writing = null;
    node.setAttribute("aria-pressed", "false");
    node.textContent = now().payload.words.keep;
  };
  const goOn = () => {
    const { payload, pick } = now(),
      { before } = payload,
      may = pick.prompt && !pick.ends && payload.room && payload.last;
    if (!writing || !may || (writing.next ?? before) !== before) return stop();
    writing.timer = setTimeout(() => {
      const { before: shown } = now().payload;
      if (!writing || promptText() !== shown) return stop();
      writing.next = pick.prompt;
      writeOn(pick.prompt, shown);
    }, PAUSE);
  };
  node.onclick = () => {
    if (writing) return stop();
    writing = {};
    node.setAttribute("aria-pressed", "true");
    node.textContent = now().payload.words.stop;
    goOn();
  };
  return {
    node,
    // Enable or disable the button, which stops the generation while it is running.
    allow(may) {
      node.disabled = !writing && !may;
    },
    follow() {
      if (writing) goOn();
      else node.textContent = now().payload.words.keep;
    },
  };
}

define("startnext", (root, props, ask) => {
  const list = el("ol", "pg-start-bars"),
    rest = el("p", "pg-start-rest"),
    control = el("label", "pg-start-heat"),
    name = el("span"),
    slider = el("input", "", "", { type: "range", min: 0, step: 1 }),
    shown = el("output"),
    write = el("button", "pg-button pg-primary pg-start-write", "", { type: "button" }),
    buttons = el("div", "pg-start-buttons"),
    why = el("p", "pg-about"),
    keep = writer(() => ({ payload, pick: payload.drawn[at] })),
    show = titled(root, list, rest, control, buttons, why);
  let payload = null,
    rows = [],
    at = null; // index of the displayed temperature; props.value stores it across prompts and in links
  control.append(name, slider, shown);
  buttons.append(write, keep.node);
  const paint = () => {
    const { tokens, temperatures, drawn, words, last, room } = payload,
      T = temperatures[at],
      pick = drawn[at],
      shares = tokens.map((_, n) => shareOf(payload, at, n));
    rows.forEach(({ bar, number, line, id }, n) => {
      bar.style.width = `${100 * shares[n]}%`;
      number.textContent = percent(shares[n]);
      line.classList.toggle("pg-start-drawn", id === pick.id);
    });
    rest.textContent = `${words.others}: ${percent(Math.max(0, 1 - shares.reduce((a, b) => a + b, 0)))}`;
    shown.textContent = T.toFixed(2);
    slider.setAttribute("aria-valuetext", T.toFixed(2));
    write.replaceChildren(`${last ? words.write : words.write_here} `, el("code", "", pick.text));
    write.disabled = !pick.prompt || !room;
    keep.node.hidden = !!payload.masked;
    keep.allow(!write.disabled && last && !pick.ends);
    why.textContent = reason(payload, pick, T);
  };
  slider.oninput = () => {
    at = +slider.value;
    props.value = { temperature: payload.temperatures[at] };
    ask("keep");
    paint();
  };
  write.onclick = () => {
    const { prompt } = payload.drawn[at];
    if (!prompt) return;
    if (payload.masked) setPrompt(prompt);
    else writeOn(prompt, payload.before);
  };
  const draw = (next) => {
    payload = next;
    const { words, tokens, temperatures } = payload,
      chosen = temperatures.indexOf(props.value?.temperature);
    at = chosen < 0 ? payload.usual : chosen;
    name.textContent = words.temperature;
    control.title = words.temperature_help;
    slider.max = temperatures.length - 1;
    slider.value = at;
    rows = tokenBars(payload);
    list.replaceChildren(...rows.map(({ line }) => line));
    show(payload, {
      names: [words.column_token, words.column_id, words.column_share],
      lines: () => tokens.map(({ text, id }, n) => [text, id, shareOf(payload, at, n)]),
      table: true,
      words,
    });
    paint();
    keep.follow();
  };
  draw.stateOf = ({ temperature }) =>
    payload && (temperature === payload.temperatures[payload.usual] || !payload.temperatures.includes(temperature))
      ? null
      : { temperature };
  return draw;
});
