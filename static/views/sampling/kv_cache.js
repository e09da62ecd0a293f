// The KV cache: its bytes as a product of labeled factors.
//
// payload of "cacheformula": { title, about, factors [{ letter, value, label }], result, brief, real, same, items, run }
import { exporting } from "../../export/menu.js";
import { el } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { factList } from "../../parts/facts.js";
import { verdictLine } from "../../parts/table.js";

define("cacheformula", (root) => (payload) => {
  const product = el("div", "pg-cache-product");
  payload.factors.forEach(({ letter, value, label }, at) => {
    const box = el("span", "pg-cache-factor");
    box.append(
      ...(at ? [el("span", "pg-cache-sign", "×")] : []),
      el("b", "", value),
      el("i", "", letter),
      el("span", "", label),
    );
    product.append(box);
  });
  const result = el("p", "pg-cache-result");
  result.append("= ", el("b", "", payload.result));
  if (payload.brief) result.append(` (${payload.brief})`);
  root.replaceChildren(
    el("h2", "", payload.title),
    el("p", "pg-about", payload.about),
    product,
    result,
    verdictLine(payload.same, payload.real),
    factList(payload.items, "pg-cache-facts"),
    exporting(root, {
      file: "kv-cache-bytes",
      title: payload.title,
      note: payload.about,
      names: ["what", "value"],
      lines: [
        ...payload.factors.map(({ label, value }) => [label, value]),
        [payload.title, payload.result],
        ...payload.items,
      ],
    }),
  );
  root.dataset.run = payload.run;
});
