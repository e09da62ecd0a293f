// The numbers of a Plotly figure, decoded from its JSON, as table rows and as arrays. This module does not depend on
// the page.

const ARRAYS = { f4: Float32Array, f8: Float64Array, u1: Uint8Array, i1: Int8Array, i2: Int16Array, i4: Int32Array };
// Decode an array in Plotly's JSON into { data, shape }.
export function decoded(value) {
  if (!value?.bdata) {
    const rows = Array.isArray(value?.[0]) || ArrayBuffer.isView(value?.[0]);
    const flat = rows ? Array.from(value).flatMap((row) => Array.from(row)) : Array.from(value ?? []);
    return {
      data: Float64Array.from(flat, (v) => v ?? NaN),
      shape: rows ? [value.length, value[0].length] : [flat.length],
    };
  }
  const bytes = Uint8Array.from(atob(value.bdata), (c) => c.charCodeAt(0));
  const data = new ARRAYS[value.dtype](bytes.buffer);
  return { data, shape: value.shape ? String(value.shape).split(",").map(Number) : [data.length] };
}
const unescaped = (text) => String(text).replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&");
const words = (list) => Array.from(Array.isArray(list) ? list : decoded(list).data, unescaped);

const nameOf = (trace) => unescaped((trace.name ?? "").replaceAll("<br>", " "));

// Return the numbers of a map. If its colors show something else, such as a logarithm, trace.meta.exact is set and
// customdata holds the numbers.
const numbers = (trace) => (trace.meta?.exact ? trace.customdata : trace.z);

// Return the numbers of a figure as rows for CSV and tables, in decreasing order if each row has a single value.
export function lines(figure) {
  const out = [],
    several = figure.data.filter((t) => t.type === "heatmap").length > 1;
  for (const trace of figure.data) {
    if (trace.hoverinfo === "skip") continue;
    const name = several || trace.type !== "heatmap" ? [nameOf(trace)].filter(Boolean) : [];
    if (trace.type === "heatmap") {
      const {
          data,
          shape: [rows, columns],
        } = decoded(numbers(trace)),
        x = words(trace.x),
        y = words(trace.y);
      for (let i = 0; i < rows; i++)
        for (let j = 0; j < columns; j++) {
          const value = data[i * columns + j];
          if (Number.isFinite(value)) out.push([...name, y[i], x[j], value]);
        }
    } else if (trace.type === "treemap") {
      // keep only the leaves, which sum to the total
      const within = new Set(trace.parents);
      const sizes = decoded(trace.values).data;
      trace.ids.forEach((id, i) => {
        if (!within.has(id)) out.push([unescaped(id), sizes[i]]);
      });
    } else {
      const x = words(trace.x),
        y = words(trace.y),
        text = trace.text ? words(trace.text) : [];
      x.forEach((value, i) => out.push([...name, ...(text.length ? [text[i]] : []), number(value), number(y[i])]));
    }
  }
  return out;
}
const number = (text) => (text !== "" && Number.isFinite(+text) ? +text : text);

export function arrays(figure) {
  const out = {};
  figure.data.forEach((trace, n) => {
    if (trace.hoverinfo === "skip") return;
    const tail = figure.data.length > 1 ? `_${n}` : "";
    const put = (name, value) => {
      if (value !== undefined)
        out[name + tail] =
          value.bdata || typeof value[0] === "number" || (value[0]?.length && typeof value[0] !== "string")
            ? decoded(value)
            : words(value);
    };
    if (trace.type === "heatmap") {
      put("values", numbers(trace));
      put("rows", trace.y);
      put("columns", trace.x);
    } else if (trace.type === "treemap") {
      put("ids", trace.ids);
      put("values", trace.values);
    } else {
      put("x", trace.x);
      put("y", trace.y);
      put("text", trace.text);
    }
    if (trace.name) out[`name${tail}`] = [nameOf(trace)];
  });
  return out;
}

// Copy the figure of a payload, because drawing modifies it. A script may also pass a figure as JSON. The figure of a
// stored example is of another run: the selected tokens and heads are not marked in it.
export function ownFigure({ figure, stored_example }) {
  const own = typeof figure === "string" ? JSON.parse(figure) : structuredClone(figure);
  if (stored_example) own.layout.meta = { ...own.layout.meta, unmarked: true };
  return own;
}
