// Cards of the bug zoo: the wrong and the right line of code, the losses, the text, and the verdict of each training run.
//
// payload of "bugcards": { title, note, cards [{ name, verdict, bad, wrong, right, facts [[label, number]], text }], source,
//   python, words }
import { el } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { titled } from "../../parts/titled.js";

function codeLine(sign, line, look, label) {
  const code = el("code", `pg-bug-line ${look}`);
  code.append(el("span", "pg-bug-sign", sign, { "aria-label": label }), line);
  return code;
}

function cardOf(card, words) {
  const node = el("article", `pg-bug-card${card.bad ? " pg-bug-bad" : ""}`),
    code = el("div", "pg-bug-code"),
    facts = el("dl", "pg-bug-facts");
  if (card.wrong)
    code.append(
      codeLine("−", card.wrong, "pg-bug-wrong", words.wrong),
      codeLine("+", card.right, "pg-bug-right", words.right),
    );
  for (const [label, value] of card.facts) {
    const fact = el("div");
    fact.append(el("dt", "", label), el("dd", "", value));
    facts.append(fact);
  }
  node.append(el("h3", "", card.name), el("p", "pg-bug-verdict", card.verdict), code, facts);
  node.append(el("p", "pg-bug-text", card.text, { "aria-label": words.text }));
  return node;
}

define("bugcards", (root) => {
  const box = el("div", "pg-bug-cards");
  let show = null; // created when first drawn, so that the part takes no space while it waits for its numbers
  return (payload) => {
    show ??= titled(root, box);
    const { cards, words } = payload;
    box.replaceChildren(...cards.map((card) => cardOf(card, words)));
    const names = [words.bug, words.wrong, words.right, ...cards[0].facts.map(([label]) => label), words.text],
      lines = cards.map(({ name, wrong, right, facts, text, verdict }) => [
        name,
        wrong,
        right,
        ...facts.map(([, value]) => value),
        text,
        verdict,
      ]);
    show(payload, { file: "bug-zoo", names: [...names, words.verdict], lines });
  };
});
