// Three numbers and two texts: what a stage achieved, how far the model moved, what it forgot, and one of the four
// prompts answered before and after.
//
// payload: { numbers [[name, value, value before or "", about]], prompts, texts [[before, after]], titles, chosen,
//   scores [[before, after]] or absent, words }
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { switcher } from "../../parts/switcher.js";

let picked = null; // index of the selected prompt, the same in all views of the tab

const tile = ([name, value, before, about], words) => {
  const node = el("div", "pg-glance-number"),
    shown = el("strong", "", value);
  if (before) shown.append(el("small", "", ` ${fill(words.from, { value: before })}`));
  node.append(el("span", "pg-glance-name", name), shown, el("span", "pg-glance-about", about));
  return node;
};

const card = (title, prompt, text, score, words) => {
  const node = el("div", "pg-glance-text"),
    head = el("p", "pg-glance-title", title),
    body = el("p", "pg-glance-body");
  if (score !== undefined) head.append(el("span", "", ` · ${fill(words.score, { score })}`));
  const space = /^[,.!?;:'’]/.test(text) ? "" : " ";
  body.append(el("span", "pg-glance-prompt", prompt + space), el("b", "", text || words.nothing));
  node.append(head, body);
  return node;
};

// The question of an instruction, or the whole prompt.
const short = (prompt) => /Instruction: (.*)/.exec(prompt)?.[1] ?? `${prompt}…`;

// Build the block. Returns { node, draw(payload) }; without a payload the block is hidden.
export function glance() {
  const node = el("section", "pg-glance"),
    numbers = el("div", "pg-glance-numbers"),
    prompts = el("div", "pg-glance-prompts"),
    texts = el("div", "pg-glance-texts", "", { "aria-live": "polite" });
  node.append(numbers, prompts, texts);
  node.hidden = true;
  const draw = (payload) => {
    node.hidden = !payload;
    if (!payload) return;
    const { words, titles, scores } = payload,
      at = picked ?? payload.chosen;
    numbers.replaceChildren(...payload.numbers.map((each) => tile(each, words)));
    const choose = (index) => {
      picked = index;
      draw(payload);
    };
    const options = payload.prompts.map((prompt, index) => [index, short(prompt)]);
    if (!prompts.contains(document.activeElement))
      prompts.replaceChildren(switcher(words.prompts, options, at, choose), el("span", "pg-muted", words.prompts));
    texts.replaceChildren(
      ...[0, 1].map((which) =>
        card(titles[which], payload.prompts[at], payload.texts[at][which], scores?.[at][which], words),
      ),
    );
  };
  return { node, draw };
}

// payload of "firstglance": { glance: as above, note }
define("firstglance", (root) => {
  const note = el("p", "pg-stored-note"),
    { node, draw } = glance();
  root.append(note, node);
  return (payload) => {
    note.textContent = payload.note ?? "";
    note.hidden = !payload.note;
    draw(payload.glance);
  };
});
