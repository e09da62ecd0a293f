// One Plotly figure that stays on the page: keeps its zoom, follows the theme, exports, and has a table behind it.
(() => {
  const { define, el, fill, select, selection, onSelect, onTheme, isDark } = window.playground;
  let library = null;

  function plotly() {
    library ??= new Promise((resolve, reject) => {
      const script = el("script", "", "", { src: "playground/plotly/plotly.min.js" });
      script.onload = () => resolve(window.Plotly);
      script.onerror = () => { library = null; reject(new Error("plotly.min.js could not be loaded")); };
      document.head.append(script);
    });
    return library;
  }

  const ARRAYS = { f4: Float32Array, f8: Float64Array, u1: Uint8Array, i4: Int32Array };
  function matrix(z) {
    if (Array.isArray(z)) return z;
    const bytes = Uint8Array.from(atob(z.bdata), (c) => c.charCodeAt(0));
    const flat = new ARRAYS[z.dtype](bytes.buffer);
    const columns = +z.shape.split(",")[1];
    return Array.from({ length: flat.length / columns }, (_, row) => flat.subarray(row * columns, (row + 1) * columns));
  }
  const unescape = (text) => text.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&");

  // Every finite value of a heat map as [row name, column name, value].
  function rows(trace) {
    const out = [];
    matrix(trace.z).forEach((row, i) => row.forEach((value, j) => {
      if (Number.isFinite(value)) out.push([unescape(trace.y[i]), unescape(trace.x[j]), value]);
    }));
    return out;
  }

  function save(name, blob) {
    const link = el("a", "", "", { download: name, href: URL.createObjectURL(blob) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function csv(payload, trace) {
    const quote = (text) => `"${String(text).replace(/"/g, '""')}"`;
    const lines = [[payload.words.query, payload.words.key, payload.words.weight], ...rows(trace)];
    return new Blob(["\ufeff", lines.map((line) => line.map(quote).join(",")).join("\r\n")], { type: "text/csv" });
  }

  function themed(figure, root, tokens) {
    const colour = getComputedStyle(root).getPropertyValue("--pg-text").trim();
    const layout = figure.layout;
    layout.font.color = colour;
    for (const axis of [layout.xaxis, layout.yaxis]) Object.assign(axis, { color: colour });
    if (layout.meta.scales) layout.coloraxis.colorscale = layout.meta.scales[isDark() ? "dark" : "light"];
    layout.shapes = marks(figure, root, tokens);
    if (root.clientWidth < 480) {
      layout.coloraxis.showscale = false;
    } else delete layout.coloraxis.showscale;
    return figure;
  }

  // The rows and columns of the selected tokens.
  function marks({ layout }, root, tokens) {
    const { block, window: [q0, q1, k0, k1] } = layout.meta;
    const line = { color: getComputedStyle(root).getPropertyValue("--pg-accent").trim(), width: 1.5 };
    const shapes = [];
    for (const token of tokens) {
      if (token >= q0 && token < q1) {
        const at = Math.floor((token - q0) / block);
        shapes.push({ type: "rect", xref: "x domain", x0: 0, x1: 1, y0: at - 0.5, y1: at + 0.5, line });
      }
      if (token >= k0 && token < k1) {
        const at = Math.floor((token - k0) / block);
        shapes.push({ type: "rect", yref: "y domain", y0: 0, y1: 1, x0: at - 0.5, x1: at + 0.5, line });
      }
    }
    return shapes;
  }

  // A row of quiet buttons: [text, action] pairs, and plain strings for the words between them.
  function tools(items) {
    const row = el("span", "pg-tools");
    for (const item of items) {
      if (typeof item === "string") row.append(el("span", "pg-muted", item));
      else {
        const node = el("button", "pg-button pg-quiet", item[0], { type: "button" });
        node.onclick = item[1];
        row.append(node);
      }
    }
    return row;
  }

  // Where a heat map lives; `on.pick(tokens)` hears a click, `on.ask(window)` a zoom into what is pooled, and
  // `on.marked()` says whose rows and columns are framed.
  function mountPlot(root, on) {
    const title = el("h2"), note = el("p", "pg-about"), chart = el("div", "pg-chart", "", { role: "img" });
    const foot = el("div", "pg-foot"), table = el("div", "pg-table", "", { tabindex: 0 });
    const marked = on.marked ?? (() => []);
    table.hidden = true;
    root.append(title, note, chart, foot, table);
    let payload = null, figure = null, Plotly = null, drawing = Promise.resolve();
    const config = { displaylogo: false, displayModeBar: false, responsive: true, doubleClick: "reset" };

    const render = async () => {
      if (!figure) return;
      Plotly ??= await plotly();
      themed(figure, root, marked());
      await Plotly.react(chart, figure.data, figure.layout, config);
      if (!chart.dataset.wired) {
        chart.dataset.wired = "yes";
        chart.on("plotly_click", picked);
        chart.on("plotly_relayout", zoomed);
      }
      root.dataset.run = payload.run;
    };
    const redraw = () => { drawing = drawing.then(render, render); };

    const picked = ({ points }) => {
      const { block, window: [q0, , k0] } = figure.layout.meta;
      const [row, column] = points[0].pointIndex ?? points[0].pointNumber;
      on.pick?.([...new Set([q0 + row * block, k0 + column * block])]);
    };
    const ask = (window) => on.ask?.(window, payload.run);
    const zoomed = (change) => {
      const { block, window: [q0, q1, k0, k1], whole } = figure.layout.meta;
      if (change["xaxis.autorange"] || change["yaxis.autorange"]) {
        if (!whole) ask(null);
        return;
      }
      const x = change["xaxis.range[0]"] === undefined ? null : [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      if (!x || block === 1) return; // single tokens are already drawn
      const y = [change["yaxis.range[0]"], change["yaxis.range[1]"]].sort((a, b) => a - b);
      const span = ([from, to], start, end) => [
        Math.max(start, start + Math.floor(from + 0.5) * block), Math.min(end, start + Math.ceil(to + 0.5) * block)];
      ask([...span(y, q0, q1), ...span(x, k0, k1)]);
    };

    const picture = async (format) => {
      const ground = getComputedStyle(root).getPropertyValue("--pg-panel").trim();
      const layout = { ...figure.layout, paper_bgcolor: ground, margin: { l: 24, r: 24, t: 48, b: 24 }, title: { text: payload.title, font: { size: 14 } } };
      const url = await Plotly.toImage({ data: figure.data, layout }, { format, width: 900, height: 860, scale: format === "png" ? 2 : 1 });
      save(`${payload.file}.${format}`, await (await fetch(url)).blob());
    };
    const showTable = () => {
      table.hidden = !table.hidden;
      if (table.hidden) return;
      const top = rows(figure.data[0]).sort((a, b) => b[2] - a[2]).slice(0, 100);
      const head = el("tr"), body = el("tbody"), grid = el("table");
      for (const name of [payload.words.query, payload.words.key, payload.words.weight]) head.append(el("th", "", name, { scope: "col" }));
      for (const [query, key, weight] of top) {
        const row = el("tr");
        row.append(el("td", "", query), el("td", "", key), el("td", "", weight.toFixed(6)));
        body.append(row);
      }
      grid.append(el("caption", "", fill(payload.words.table_note, { n: top.length })), head, body);
      table.replaceChildren(grid);
    };
    const footer = () => {
      const { words, file } = payload;
      const row = tools([
        words.numbers, [words.table, showTable], [words.csv, () => save(`${file}.csv`, csv(payload, figure.data[0]))],
        words.picture, [words.png, () => picture("png")], [words.svg, () => picture("svg")]]);
      if (!figure.layout.meta.whole) row.prepend(tools([[words.reset, () => ask(null)]]));
      foot.replaceChildren(el("span", "pg-source", payload.source), row);
    };

    let width = 0;
    new ResizeObserver(() => { if (root.clientWidth !== width) { width = root.clientWidth; redraw(); } }).observe(root);
    onTheme(redraw);
    onSelect(() => {
      if (!figure || !Plotly) return;
      drawing = drawing.then(() => Plotly.relayout(chart, { shapes: marks(figure, root, marked()) }));
    });
    return (next) => {
      payload = next;
      figure = JSON.parse(payload.figure);
      title.textContent = payload.title;
      note.textContent = payload.note;
      chart.setAttribute("aria-label", payload.title);
      table.hidden = true;
      footer();
      redraw();
    };
  }

  Object.assign(window.playground, { plotly, save, tools, mountPlot });

  define("plot", (root, props, trigger) => mountPlot(root, {
    marked: () => selection.tokens,
    pick: (tokens) => select({ tokens }),
    ask: (window, run) => {
      props.value = { run, window };
      trigger("select", { index: 0, value: JSON.stringify(window) });
    },
  }));

  define("howto", (root) => (payload) => {
    const details = el("details");
    details.append(el("summary", "", payload.title));
    for (const [kind, text] of Object.entries(payload.parts)) details.append(el("p", `pg-howto-${kind}`, text));
    root.replaceChildren(details);
  });

  define("question", (root) => (payload) => root.replaceChildren(el("p", "pg-question", payload.text)));
})();
