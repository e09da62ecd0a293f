// Settings of the lines: the fraction of each row's weight, the exclusion of the first token, and the heads.
import { el, fill } from "../../page/dom.js";
import { swatch } from "./links.js";

// Build the setting for the fraction of each row's weight to draw; `change` is called when it changes.
export function massControls(change) {
  const node = el("div", "pg-links-set"),
    slider = el("input", "", "", { type: "range", min: 10, max: 100, step: 1, value: 70 }),
    amount = el("output"),
    box = el("input", "", "", { type: "checkbox" }),
    massText = el("span"),
    firstText = el("span"),
    mass = el("label"),
    first = el("label");
  mass.append(massText, slider, amount);
  first.append(box, firstText);
  node.append(mass, first);
  slider.oninput = box.onchange = change;
  return {
    node,
    share: () => slider.value / 100,
    hides: () => box.checked,
    name(words) {
      massText.textContent = words.mass;
      firstText.textContent = words.hide_first;
      first.title = words.hide_first_help;
    },
    tell(words) {
      amount.textContent = fill(words.mass_of, { n: slider.value });
    },
  };
}

// Build a button for each head: a click hides or shows it, a double click isolates it. `change` is called afterwards.
export function fillLegend(legend, look, change) {
  const { panels, off, payload } = look;
  const mark = () => {
    if (look.stale) return;
    [...legend.children].forEach((other, i) => other.setAttribute("aria-pressed", !off.has(panels[i].name)));
    change();
  };
  legend.setAttribute("aria-label", payload.words.legend);
  legend.replaceChildren(
    ...panels.map((panel) => {
      const button = el("button", "pg-button pg-quiet pg-links-head", "", {
        type: "button",
        "aria-pressed": !off.has(panel.name),
        title: payload.words.legend_help,
      });
      button.append(swatch(panel.index), panel.name);
      button.onclick = () => {
        if (!off.delete(panel.name)) off.add(panel.name);
        mark();
      };
      button.ondblclick = () => {
        const others = panels.filter((other) => other !== panel),
          alone = !off.has(panel.name) && others.every((other) => off.has(other.name));
        off.clear();
        if (!alone) for (const other of others) off.add(other.name);
        mark();
      };
      return button;
    }),
  );
}
