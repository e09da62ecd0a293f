// The layout of a tab's parts in one component.
//
// data-places: JSON, a list of [name, kind] and { box: "row" | "column", of: [...], class, id }.
// props.payload: JSON { values: { name: value }, parts: { name: payload } }, the initial state of its parts.
import { el } from "./dom.js";
import { mountPart, showFirst } from "./mount.js";

function laidOut(nodes, make) {
  return nodes.map((node) => {
    if (Array.isArray(node)) return make(...node);
    const box = el("div", `pg-${node.box}${node.class ? ` ${node.class}` : ""}`, "", node.id ? { id: node.id } : {});
    box.append(...laidOut(node.of, make));
    return box;
  });
}

export function screen(element, props) {
  const root = element.querySelector("[data-screen]"),
    { values, parts } = JSON.parse(props.payload),
    places = [];
  root.replaceChildren(
    ...laidOut(JSON.parse(root.dataset.places), (name, kind) => {
      const block = el("div", "pg-block", "", { id: `pg-${name}` });
      block.append(el("div", `pg-${kind}`, "", { "data-part": name }));
      places.push([name, kind, block.firstChild]);
      return block;
    }),
  );
  const entries = places.map(([name, kind, place]) => mountPart(kind, place, { value: values[name] }));
  for (const entry of entries) showFirst(entry, parts[entry.root.dataset.part]);
}
