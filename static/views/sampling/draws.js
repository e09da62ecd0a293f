// A random number on a distribution: a bar divided into tokens, the number as a marker, and the token that it selects.
//
// payload of "drawbar": { title, note, ids, texts, shares, edges, total, count, seed, first, numbers, most, found, rug,
//   source, file, python, words, run }; value: { seed, step, u }, where u is a number set by hand, or null.
//  The edges of the visible parts and the next random numbers are included at full precision, so that the page itself
//  determines the token. Only a number in the tail, or a step beyond these numbers, needs a request.
import { el, fill, onWidth } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { onTheme } from "../../page/theme.js";
import { percent } from "../../parts/percent.js";
import { titled } from "../../parts/titled.js";
import { digits, drawStage, placed } from "./draw_stage.js";

const PAUSE = 120; // milliseconds between questions while a slider moves

// Build the fields for the random number: seed, step, and Next. change(changed, pause, tell) receives a new choice.
function numberForm(change, next) {
  const node = el("div", "pg-controls"),
    again = el("button", "pg-button pg-primary", "", { type: "button" });
  const field = (name) => {
    const label = el("label", "pg-control pg-control-number"),
      text = el("span", "pg-control-label"),
      input = el("input", "", "", { type: "number", min: 0, step: 1 });
    input.oninput = () => {
      if (input.value !== "" && input.validity.valid) change({ [name]: +input.value, u: null }, PAUSE, name === "seed");
    };
    label.append(text, input);
    return { label, text, input };
  };
  const fields = { seed: field("seed"), step: field("step") };
  again.onclick = next;
  return {
    node,
    name({ words, most }) {
      if (!node.childElementCount) node.append(fields.seed.label, fields.step.label, again);
      for (const [name, { text, input }] of Object.entries(fields)) {
        text.textContent = words[name];
        input.max = most[name];
      }
      again.textContent = words.again;
    },
    show(value) {
      for (const [name, { input }] of Object.entries(fields))
        if (document.activeElement !== input) input.value = value[name];
    },
  };
}

// Put a sentence into a node with the token highlighted; a token's string is never treated as a template.
function sentence(node, template, values) {
  const [before, after = ""] = template.split("{token}");
  node.replaceChildren(
    fill(before, values),
    ...(template.includes("{token}") ? [el("b", "pg-draw-token", values.token)] : []),
    fill(after, values),
  );
}

define("drawbar", (root, props, send) => {
  const status = el("p", "pg-draw-said", "", { role: "status" }),
    read = el("p", "pg-about pg-draw-read"),
    caption = el("p", "pg-about");
  let payload = null,
    timer = null,
    requested = null;
  const now = () => ({ seed: 0, step: 0, u: null, ...props.value });
  const form = numberForm(
    (...changed) => change(...changed),
    () => change({ step: Math.min(now().step + (now().u === null ? 1 : 0), payload.most.step), u: null }),
  );
  const stage = drawStage({
    choose: (u) => change({ u }),
    slide: (u) => change({ u }, PAUSE),
    point: (label) => {
      read.textContent = label ?? payload.words.help;
    },
  });
  const frame = titled(root, form.node, status, stage.node, read, caption);

  const ask = (pause = 0) => {
    const question = JSON.stringify(now());
    if (question === requested) return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      requested = question;
      send("select");
    }, pause);
  };
  const change = (changed, pause = 0, tell = false) => {
    props.value = { ...now(), ...changed };
    if (!show() || tell) ask(pause);
  };
  // Show the part that contains the number; returns false if only the server can determine it.
  const show = () => {
    const { words, count, seed, numbers, first } = payload,
      value = now(),
      u = value.u ?? (value.seed === seed ? numbers[value.step - first] : undefined),
      place = u === undefined ? undefined : placed(u, payload);
    form.show(value);
    stage.mark(u, place);
    root.dataset.waiting = place ? "" : "yes";
    if (!place) {
      status.textContent = words.looking;
      return false;
    }
    sentence(status, `${value.u === null ? words.random : words.by_hand} ${words.falls}`, {
      ...value,
      u: digits(u),
      from: digits(place.from),
      to: digits(place.to),
      token: place.text,
      share: percent(place.share),
      rank: place.rank.toLocaleString("en"),
      n: count.toLocaleString("en"),
    });
    stage.say(status.textContent);
    root.dataset.token = place.id;
    return true;
  };
  const python = () => {
    const { seed, step, u } = now();
    return payload.python.replace(/^u = .*$/m, () => `u = ${u === null ? `uniform(${seed}, ${step})` : u}`);
  };
  onWidth(root, stage.fit);
  onTheme(stage.paint);

  const draw = (next) => {
    payload = next;
    const { words, rug, ids, texts, shares, edges } = payload;
    form.name(payload);
    read.textContent = words.help;
    caption.textContent = fill(words.rug, {
      n: rug.n.toLocaleString("en"),
      last: (rug.n - 1).toLocaleString("en"),
      seed: payload.seed,
    });
    stage.cut(payload);
    frame(payload, {
      python,
      names: [words.column_id, words.column_token, words.column_share, words.column_edge],
      lines: () => texts.map((text, at) => [ids[at], text, shares[at], edges[at]]),
    });
    if (!show()) ask();
  };
  draw.stateOf = (value) => value;
  return draw;
});
