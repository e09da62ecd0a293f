// The settings shared by all strategies (tokens, seed, stop strings), and the fields of a strategy.
import { el, fill } from "../../page/dom.js";

export const PAUSE = 300; // milliseconds between questions while a slider moves or the user types

export function field(text, input, help) {
  const label = el("label", "pg-field");
  label.append(el("span", "", text), input);
  if (help) label.title = help;
  return label;
}
export function box(text, checked, change, help) {
  const label = el("label", "pg-inline"),
    input = el("input", "", "", { type: "checkbox" });
  input.checked = checked;
  input.onchange = () => change(input.checked);
  label.append(input, el("span", "", text));
  if (help) label.title = help;
  return label;
}
export function whole(value, low, high, change) {
  const input = el("input", "", "", { type: "number", min: low, max: high, step: 1 });
  input.value = value;
  input.oninput = () => {
    if (input.value !== "" && input.validity.valid) change(+input.value);
  };
  input.onblur = () => {
    if (input.value !== "" && input.validity.valid) return;
    input.value = Math.min(high, Math.max(low, Math.round(+input.value) || low));
    change(+input.value);
  };
  return input;
}

const inline = (text, ...inputs) => {
  const label = el("label", "pg-inline");
  label.append(el("span", "pg-muted", text), ...inputs);
  return label;
};

// Build the field for stop strings, one per line, collapsed if empty.
function stopTexts(settings, { words, bounds }, change) {
  const stop = el("textarea", "", "", { rows: 2, "aria-label": words.stop });
  stop.value = settings.stop.join("\n");
  stop.oninput = () => change(stop.value.split("\n").filter(Boolean));
  const fold = el("details", "pg-strat-stop"),
    help = el("p", "pg-muted", fill(words.stop_help, { n: bounds.stops }));
  fold.open = settings.stop.length > 0;
  fold.append(el("summary", "", words.stop), stop, help);
  return fold;
}

// Put the fields of `settings` into an element; tell(pause) is called after each change.
export function sharedSettings(root, payload, settings, tell) {
  const { words, bounds } = payload;
  const set = (name, pause) => (value) => {
    settings[name] = value;
    tell(pause);
  };
  const seed = whole(settings.seed, 0, bounds.seed, set("seed", PAUSE));
  const dice = el("button", "pg-button pg-quiet", words.new_seed, { type: "button" });
  dice.onclick = () => {
    seed.value = settings.seed = Math.floor(Math.random() * (bounds.seed + 1));
    tell();
  };
  // A conversation already uses the model's template.
  const talking = () => {
    const label = box(words.chat, payload.talk || settings.chat, set("chat", 0), words.chat_help);
    if (payload.talk) {
      label.querySelector("input").disabled = true;
      label.title = words.chat_talk;
    }
    return label;
  };
  const seeding = el("span", "pg-inline");
  seeding.append(inline(words.seed, seed), dice);
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", words.settings);
  root.replaceChildren(
    inline(words.tokens, whole(settings.tokens, 1, bounds.tokens, set("tokens", PAUSE))),
    seeding,
    box(words.shared, settings.shared, set("shared", 0), words.shared_help),
    ...(payload.chat ? [talking()] : []),
    box(words.eight, settings.eight, set("eight", 0), words.eight_help),
    stopTexts(settings, payload, set("stop", 2 * PAUSE)),
  );
}
