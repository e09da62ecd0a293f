// The description of the hovered or pinned tokens: a line above the columns, and numbers beside their partners.
import { el, fill } from "../../page/dom.js";
import { placeOf } from "../../page/selection/units.js";
import { grouped } from "./lines_links.js";
import { digits, swatch } from "./links.js";

const MOST = 5; // maximum number of tokens named in the line
const HEADS = 4; // maximum number of heads named for each token

const withSwatch = (panel, value, several) => [...(several ? [swatch(panel.index)] : []), digits(value)];

// `partners`: [{ panel, other, value }], in decreasing order of value; `several`: true if there is more than one head.
export function readoutOf(payload, now, partners, several) {
  const { words, tokens } = payload,
    named = (at) => `${tokens[at]} (${placeOf(payload, at)})`;
  const [first] = now.tokens,
    who = now.tokens.length > 1 ? fill(words.sum, { n: now.tokens.length }) : named(first),
    groups = grouped(partners);
  const items = groups.slice(0, MOST).map(([other, each]) => {
    const item = el("span", "pg-links-item");
    item.append(el("span", "pg-links-mono", named(other)));
    for (const { panel, value } of each.slice(0, HEADS)) item.append(" ", ...withSwatch(panel, value, several));
    return item;
  });
  const left = groups.length - items.length;
  return [
    el("strong", "pg-links-mono", who),
    el("span", "pg-muted", items.length ? words[now.left ? "reads" : "read_by"] : words.nothing),
    ...items,
    ...(left > 0 ? [el("span", "pg-muted", fill(words.more, { n: left }))] : []),
  ];
}

// Build the numbers beside a token's button; `left`: true if the isolated tokens are in the left column.
export function numbersAt({ button, left, top }, items, several, wide) {
  const column = button.parentElement,
    room = Math.max(1, Math.floor((column.clientWidth - button.offsetWidth) / 52)),
    group = el("div", "pg-lines-group");
  for (const { panel, other, value } of items.slice(0, room)) {
    const number = el("span", "pg-lines-number", "", { "data-position": other, "data-head": panel.head.join(".") });
    number.append(...withSwatch(panel, value, several));
    group.append(number);
  }
  group.title = items.map(({ panel, value }) => `${panel.name}: ${value.toFixed(6)}`).join("\n");
  group.style.top = `${top}px`;
  const beside = button.offsetWidth + 2;
  group.style[left ? "left" : "right"] = left
    ? `${column.offsetLeft + beside}px`
    : `${wide - column.clientWidth + beside}px`;
  return group;
}
