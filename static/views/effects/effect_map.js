import { el, fill, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { headActions, headNames } from "../../page/selection/head_list.js";
import { ranking } from "../../page/selection/ranking.js";
import { adding, onSelect, pickHead, selection } from "../../page/selection/selection.js";
import { mountPlot } from "../../parts/figure/figure.js";
import { button, same } from "./widgets.js";

// The map of each head's effect, and a list of the strongest heads; { absent: true } shows nothing.
define("effectmap", (root) => {
  const plot = el("div"),
    side = el("div", "pg-effect-ranked");
  const title = el("h3"),
    about = el("p", "pg-about"),
    list = el("div", "pg-effect-list", "", { role: "group" }),
    waiting = el("p", "pg-problem pg-quiet-box"),
    actions = headActions(),
    ranks = ranking(side, () => again());
  side.append(title, about, actions.root, ranks.node, list);
  root.append(waiting, plot, side);
  let latest = null;
  // Draw the effects on the edited run, or start their sweep.
  const again = () => {
    if (latest?.absent) document.querySelector("#pg-sweep_job button")?.click();
    else show(latest);
  };
  const draw = mountPlot(plot, {});
  const paint = () => {
    for (const item of list.children)
      item.setAttribute(
        "aria-pressed",
        selection.heads.some((head) => same(head, JSON.parse(item.dataset.head))),
      );
  };
  roving(list, (key, at, n) => ({ ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: n - 1 })[key] ?? null);
  onSelect(paint);
  const item = ({ head, effect, text }, index, payload, top) => {
    const [layer, n] = head;
    const node = button("", (event) => payload.stored_example || pickHead(layer, n, adding(event)));
    node.className = "pg-effect-item";
    Object.assign(node.dataset, { index, head: JSON.stringify(head) });
    node.tabIndex = index ? -1 : 0;
    node.setAttribute(
      "aria-label",
      fill(payload.words.head_effect, { layer, head: n, effect: text, unit: payload.unit }),
    );
    const lane = el("span", payload.signed ? "pg-effect-lane pg-effect-both" : "pg-effect-lane"),
      bar = el("span");
    const share = (100 * Math.abs(effect)) / top;
    Object.assign(
      bar.style,
      payload.signed
        ? {
            width: `${share / 2}%`,
            [effect < 0 ? "right" : "left"]: "50%",
            background: payload.hues[effect < 0 ? 0 : 1],
          }
        : { width: `${share}%`, left: 0 },
    );
    lane.append(bar);
    const name = el("span", "", `${layer}.${n}`);
    name.append(headNames(layer, n));
    node.append(name, lane, el("span", "pg-effect-number", text));
    return node;
  };
  const show = (next) => {
    latest = next;
    const payload = next.asked === undefined || next.stored_example ? next : ranks.of(next, next.asked);
    root.classList.toggle("pg-absent", Boolean(payload.absent));
    plot.hidden = side.hidden = Boolean(payload.absent);
    waiting.hidden = !payload.absent || !payload.waiting;
    waiting.textContent = payload.waiting ?? "";
    if (payload.absent) {
      delete plot.dataset.run;
      return;
    }
    draw(payload);
    title.textContent = payload.words.ranked;
    about.textContent = payload.words.ranked_about;
    list.setAttribute("aria-label", payload.words.ranked);
    const top = Math.max(...payload.ranked.map(({ effect }) => Math.abs(effect))) || 1;
    actions.show(payload.ranked.map(({ head }) => head));
    list.replaceChildren(...payload.ranked.map((each, index) => item(each, index, payload, top)));
    paint();
  };
  return show;
});
