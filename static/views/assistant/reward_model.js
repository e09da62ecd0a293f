// The preference pairs of this page, for training a reward model.
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { listed, onPairs, pairs } from "./pairs.js";

// payload: { words, least, wanted }; value: { pairs: [[prompt, chosen, rejected, by]] }
define("pairsused", (root, props, ask) => {
  let payload = null;
  const text = el("p", "pg-about");
  root.append(text);
  const paint = () => {
    if (!payload) return;
    root.hidden = !payload.wanted;
    text.textContent = fill(payload.words[pairs.length ? "some" : "none"], { n: pairs.length });
  };
  // The server receives the pairs only for training.
  const hold = () => {
    const value = { pairs: payload?.wanted ? listed() : [] };
    if (JSON.stringify(value) === JSON.stringify(props.value ?? { pairs: [] })) return;
    props.value = value;
    ask("select");
  };
  onPairs(() => {
    if (!payload) return;
    paint();
    hold();
  });
  return (next) => {
    payload = next;
    paint();
    hold();
  };
});
