// The KV cache: its bytes as a product with every factor named, and a table of what was measured.
//
// payload of "cacheformula": { title, about, factors [{ letter, value, label }], result, brief, real, same, items, run };
// of "cachetable": { title, columns, rows, check, same, run }
(() => {
  const { define, el, exporting } = window.playground;

  const facts = (items) => {
    const list = el("dl", "pg-norm-facts pg-cache-facts");
    for (const [what, text] of items) {
      const item = el("div");
      item.append(el("dt", "", what), el("dd", "", text));
      list.append(item);
    }
    return list;
  };
  const verdict = (text, same) => {
    const line = el("p", same ? "pg-cache-same" : "pg-cache-apart");
    if (same) line.append(el("span", "", "✓ ", { "aria-hidden": "true" }));
    line.append(text);
    return line;
  };

  define("cacheformula", (root) => (payload) => {
    const product = el("div", "pg-cache-product");
    payload.factors.forEach(({ letter, value, label }, at) => {
      const box = el("span", "pg-cache-factor");
      box.append(...(at ? [el("span", "pg-cache-sign", "×")] : []), el("b", "", value), el("i", "", letter), el("span", "", label));
      product.append(box);
    });
    const result = el("p", "pg-cache-result");
    result.append("= ", el("b", "", payload.result));
    if (payload.brief) result.append(` (${payload.brief})`);
    root.replaceChildren(el("h2", "", payload.title), el("p", "pg-about", payload.about), product, result, verdict(payload.real, payload.same), facts(payload.items), exporting(root, {
      file: "kv-cache-bytes", title: payload.title, note: payload.about, names: ["what", "value"], lines: [...payload.factors.map(({ label, value }) => [label, value]), [payload.title, payload.result], ...payload.items] }));
    root.dataset.run = payload.run;
  });

  define("cachetable", (root) => (payload) => {
    const scroll = el("div", "pg-cache-scroll", "", { tabindex: 0, role: "group", "aria-label": payload.title });
    const grid = el("table", "pg-cache-table"), head = el("thead"), names = el("tr"), body = el("tbody");
    for (const name of payload.columns) names.append(el("th", "", name, { scope: "col" }));
    head.append(names);
    for (const [first, ...rest] of payload.rows) {
      const line = el("tr");
      line.append(el("th", "", first, { scope: "row" }), ...rest.map((text) => el("td", "", text)));
      body.append(line);
    }
    grid.append(head, body);
    scroll.append(grid);
    root.replaceChildren(el("h2", "", payload.title), scroll, verdict(payload.check, payload.same), exporting(root, {
      file: "kv-cache-table", title: payload.title, note: payload.check, names: payload.columns, lines: payload.rows }));
    root.dataset.run = payload.run;
  });
})();
