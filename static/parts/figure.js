// One Plotly figure that stays on the page: keeps its zoom, follows the theme, exports, and has a table behind it.
//
// payload: { figure (JSON), title, note, source, file, run, columns, python, words }
//   figure.layout.meta: scales { light, dark } of coloraxis, more { coloraxis2: { light, dark } }, height, narrow;
//   of a pattern also block, window [q0, q1, k0, k1] and whole. A point's customdata { head } or { tokens } is what a
//   click on it selects, and { part } is told to who mounted the figure; in a heat map of layers x heads (meta.heads
//   true) the cell itself is the head.
(() => {
  const { define, el, select, selection, onSelect, onTheme, isDark, tools, exporting, pickHead, adding } = window.playground;
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

  const ARRAYS = { f4: Float32Array, f8: Float64Array, u1: Uint8Array, i1: Int8Array, i2: Int16Array, i4: Int32Array };
  // An array as Plotly's JSON carries it -> { data, shape }
  function decoded(value) {
    if (!value?.bdata) {
      const rows = Array.isArray(value?.[0]) || ArrayBuffer.isView(value?.[0]);
      const flat = rows ? Array.from(value).flatMap((row) => Array.from(row)) : Array.from(value ?? []);
      return { data: Float64Array.from(flat, (v) => v ?? NaN), shape: rows ? [value.length, value[0].length] : [flat.length] };
    }
    const bytes = Uint8Array.from(atob(value.bdata), (c) => c.charCodeAt(0));
    const data = new ARRAYS[value.dtype](bytes.buffer);
    return { data, shape: value.shape ? String(value.shape).split(",").map(Number) : [data.length] };
  }
  const unescape = (text) => String(text).replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&");
  const words = (list) => Array.from(Array.isArray(list) ? list : decoded(list).data, unescape);

  // The numbers of a heat map; where its colours are of something else, like a logarithm, trace.meta.exact says so and
  // the numbers themselves are its customdata.
  const numbers = (trace) => (trace.meta?.exact ? trace.customdata : trace.z);

  // The numbers of a figure as lines for CSV and table, largest first where there is one value a line.
  function lines(figure) {
    const out = [], several = figure.data.filter((t) => t.type === "heatmap").length > 1;
    for (const trace of figure.data) {
      if (trace.hoverinfo === "skip") continue;
      const name = several || trace.type !== "heatmap" ? [unescape(trace.name ?? "")].filter(Boolean) : [];
      if (trace.type === "heatmap") {
        const { data, shape: [rows, columns] } = decoded(numbers(trace)), x = words(trace.x), y = words(trace.y);
        for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) {
          const value = data[i * columns + j];
          if (Number.isFinite(value)) out.push([...name, y[i], x[j], value]);
        }
      } else if (trace.type === "treemap") { // its leaves: they add up to the whole
        const within = new Set(trace.parents);
        const sizes = decoded(trace.values).data;
        trace.ids.forEach((id, i) => { if (!within.has(id)) out.push([unescape(id), sizes[i]]); });
      } else {
        const x = words(trace.x), y = words(trace.y), text = trace.text ? words(trace.text) : [];
        x.forEach((value, i) => out.push([...name, ...(text.length ? [text[i]] : []), number(value), number(y[i])]));
      }
    }
    return out;
  }
  const number = (text) => (text !== "" && Number.isFinite(+text) ? +text : text);

  function arrays(figure) {
    const out = {};
    figure.data.forEach((trace, n) => {
      if (trace.hoverinfo === "skip") return;
      const tail = figure.data.length > 1 ? `_${n}` : "";
      const put = (name, value) => { if (value !== undefined) out[name + tail] = value.bdata || typeof value[0] === "number" || value[0]?.length && typeof value[0] !== "string" ? decoded(value) : words(value); };
      if (trace.type === "heatmap") { put("values", numbers(trace)); put("rows", trace.y); put("columns", trace.x); }
      else if (trace.type === "treemap") { put("ids", trace.ids); put("values", trace.values); }
      else { put("x", trace.x); put("y", trace.y); put("text", trace.text); }
      if (trace.name) out[`name${tail}`] = [unescape(trace.name)];
    });
    return out;
  }

  // What a theme and a narrow place change of a layout. Exported files carry this function: it knows nothing of the page.
  function themed(layout, { text, line, isDark, narrow }) {
    const meta = layout.meta || {}, theme = isDark ? "dark" : "light";
    if (meta.stacked) { // several panels stand below one another where there is no room beside
      meta.beside ??= Object.fromEntries(Object.keys(meta.stacked).map((name) => [name, layout[name]]));
      Object.assign(layout, structuredClone(narrow ? meta.stacked : meta.beside));
    }
    layout.font = { ...layout.font, color: text };
    for (const name of Object.keys(layout)) if (/^[xy]axis/.test(name)) Object.assign(layout[name], { color: text, gridcolor: line });
    if (meta.scales && layout.coloraxis) layout.coloraxis.colorscale = meta.scales[theme];
    for (const [name, scales] of Object.entries(meta.more || {})) layout[name].colorscale = scales[theme];
    for (const name of Object.keys(layout)) if (/^coloraxis/.test(name)) {
      layout[name].colorbar = { ...layout[name].colorbar, tickcolor: text, tickfont: { color: text } };
      if (narrow) layout[name].showscale = false; else delete layout[name].showscale;
    }
  }
  function fitted(figure, root, tokens) {
    const style = getComputedStyle(root), colour = (name) => style.getPropertyValue(name).trim();
    themed(figure.layout, { text: colour("--pg-text"), line: colour("--pg-line"), isDark: isDark(), narrow: root.clientWidth < 480 });
    figure.layout.shapes = marks(figure, root, tokens);
  }

  // The rows and columns of the selected tokens; in a map of layers x heads, the selected heads.
  function marks({ layout }, root, tokens) {
    const line = { color: getComputedStyle(root).getPropertyValue("--pg-accent").trim(), width: 1.5 };
    const tails = Object.keys(layout).filter((name) => /^xaxis/.test(name)).map((name) => name.slice(5));
    if (layout.meta.heads) return tails.flatMap((tail) => selection.heads.map(([layer, head]) => (
      { type: "rect", xref: `x${tail}`, yref: `y${tail}`, x0: layer - 0.5, x1: layer + 0.5, y0: head - 0.5, y1: head + 0.5, line })));
    if (layout.meta.places) return selection.tokens.map((at) => ( // the prompt runs across
      { type: "rect", xref: "x", yref: "paper", x0: at - 0.5, x1: at + 0.5, y0: 0, y1: 1, line }));
    if (!layout.meta.window) return layout.meta.shapes ?? [];
    const { block, window: [q0, q1, k0, k1] } = layout.meta, shapes = [];
    for (const tail of tails) for (const token of tokens) {
      if (token >= q0 && token < q1) {
        const at = Math.floor((token - q0) / block);
        shapes.push({ type: "rect", xref: `x${tail} domain`, yref: `y${tail}`, x0: 0, x1: 1, y0: at - 0.5, y1: at + 0.5, line });
      }
      if (token >= k0 && token < k1) {
        const at = Math.floor((token - k0) / block);
        shapes.push({ type: "rect", xref: `x${tail}`, yref: `y${tail} domain`, y0: 0, y1: 1, x0: at - 0.5, x1: at + 0.5, line });
      }
    }
    return shapes;
  }

  // Where a figure lives; `on.pick(tokens)` hears a click on a cell [query, key], `on.ask(window)` a zoom into what is
  // pooled, and `on.marked()` says whose rows and columns are framed.
  function mountPlot(root, on) {
    const title = el("h2"), note = el("p", "pg-about"), chart = el("div", "pg-chart", "", { role: "img" });
    const foot = el("div");
    const marked = on.marked ?? (() => []);
    root.append(title, note, chart, foot);
    let payload = null, figure = null, Plotly = null, drawing = Promise.resolve();
    const config = { displaylogo: false, displayModeBar: false, responsive: true, doubleClick: "reset" };

    const render = async () => {
      if (!figure || root.hidden || !root.clientWidth) return;
      Plotly ??= await plotly();
      fitted(figure, root, marked());
      const { height, narrow } = figure.layout.meta;
      chart.style.height = height ? `${root.clientWidth < 480 ? narrow ?? height : height}px` : "";
      figure.layout.height = chart.clientHeight; // Plotly would go on with the height it had
      await Plotly.react(chart, figure.data, figure.layout, config);
      if (!chart.dataset.wired) {
        chart.dataset.wired = "yes";
        chart.on("plotly_click", picked);
        chart.on("plotly_relayout", zoomed);
      }
      root.dataset.run = payload.run;
    };
    // In a task of its own: several figures on one page would hold it up together.
    const soon = () => new Promise((done) => setTimeout(done));
    const redraw = () => { drawing = drawing.then(soon, soon).then(render); };

    const picked = ({ points: [point], event }) => {
      const { block, window: seen, heads } = figure.layout.meta;
      const cell = point.pointIndex ?? point.pointNumber;
      if (point.customdata?.part !== undefined) return on.part?.(point.customdata.part);
      if (heads && Array.isArray(cell)) return pickHead(cell[1], cell[0], adding(event));
      if (point.customdata?.head) return pickHead(...point.customdata.head, adding(event));
      if (point.customdata?.tokens) return select({ tokens: point.customdata.tokens });
      if (seen && Array.isArray(cell)) on.pick?.(seen[0] + cell[0] * block, seen[2] + cell[1] * block, block);
    };
    const ask = (window) => on.ask?.(window, payload.run);
    const zoomed = (change) => {
      const { block, window: seen, whole } = figure.layout.meta;
      if (!seen) return;
      if (change["xaxis.autorange"] || change["yaxis.autorange"]) {
        if (!whole) ask(null);
        return;
      }
      const [q0, q1, k0, k1] = seen;
      const range = (axis) => Object.keys(change).filter((name) => name.startsWith(axis) && name.includes("range[")).slice(0, 2).map((name) => change[name]);
      const x = range("xaxis"), y = range("yaxis").sort((a, b) => a - b);
      if (x.length < 2 || y.length < 2 || block === 1) return; // single tokens are already drawn
      const span = ([from, to], start, end) => [
        Math.max(start, start + Math.floor(from + 0.5) * block), Math.min(end, start + Math.ceil(to + 0.5) * block)];
      ask([...span(y, q0, q1), ...span(x, k0, k1)]);
    };

    const names = () => {
      const { columns, words } = payload, found = columns ?? [words.query, words.key, words.weight];
      const width = lines(figure)[0]?.length ?? found.length;
      return width > found.length ? [words.series ?? "", ...found].slice(-width) : found.slice(-width);
    };
    // As the server sent it, with what is picked framed.
    const whole = () => {
      const found = JSON.parse(payload.figure);
      found.layout.shapes = marks(found, root, marked());
      return found;
    };
    const footer = () => {
      const { file, source, python, words } = payload, part = figure.layout.meta.window && !figure.layout.meta.whole;
      foot.replaceChildren(exporting(root, {
        file, source, python, title: payload.title, note: payload.note, names, lines: () => lines(figure), arrays: () => arrays(figure),
        figure: whole, table: true, extra: part ? [...tools([[words.reset, () => ask(null)]]).children] : [] }));
    };

    let width = 0, marking = false;
    new ResizeObserver(() => { if (root.clientWidth !== width) { width = root.clientWidth; redraw(); } }).observe(root);
    onTheme(redraw);
    onSelect(() => {
      if (marking || !figure || !Plotly || !root.clientWidth || !chart.dataset.wired) return;
      marking = true;
      drawing = drawing.then(soon, soon).then(() => {
        marking = false;
        const shapes = marks(figure, root, marked());
        if (JSON.stringify(shapes) !== JSON.stringify(chart.layout?.shapes ?? [])) return Plotly.relayout(chart, { shapes });
      });
    });
    return (next) => {
      payload = next;
      figure = JSON.parse(payload.figure);
      title.textContent = payload.title;
      note.textContent = payload.note;
      chart.setAttribute("aria-label", payload.title);
      footer();
      redraw();
    };
  }

  Object.assign(window.playground, { plotly, decoded, themed, mountPlot });

  // A pattern: a click on a cell picks its pair, a zoom asks for the part in full.
  define("plot", (root, props, trigger) => Object.assign(mountPlot(root, {
    marked: () => selection.tokens,
    pick: (query, key, block) => select({ tokens: [...new Set([query, key])], pair: block === 1 ? [query, key] : null }),
    ask: (window, run) => {
      props.value = { run, window };
      trigger("select", { index: 0, value: JSON.stringify(window) });
    },
  }), { kept: (value) => (value.window ? value : null) }));
  define("figure", (root) => mountPlot(root, {}));

  define("howto", (root) => (payload) => {
    const details = el("details");
    details.append(el("summary", "", payload.title));
    for (const [kind, text] of Object.entries(payload.parts)) details.append(el("p", `pg-howto-${kind}`, text));
    root.replaceChildren(details);
  });

  define("about", (root) => (payload) => { root.textContent = payload.text; });
  define("question", (root) => (payload) => root.replaceChildren(el("p", "pg-question", payload.text)));
})();
