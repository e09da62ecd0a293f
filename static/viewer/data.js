// The numbers of a document: one matrix for each head, by tokens, words or sentences.
//
// doc: { title, queries, keys (null: the same tokens), mask ("causal", "two-way" or "cross"), layers, heads, first_layer,
//  weights, units: { words: { queries: [[start, end]], keys } }, numbers: [{ key, label, help, unit, values }], image,
//  notes, words, language, ramps, hues }. `weights` are 16-bit fractions of 1, gzip-compressed and base64-encoded, all
//  high bytes first; with a causal mask only those of keys up to the query.
const KEPT = 24; // maximum number of matrices kept
const FULL = 65535;

async function inflate(base64) {
  const text = atob(base64),
    packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip")),
    bytes = new Uint8Array(await new Response(stream).arrayBuffer()),
    n = bytes.length / 2,
    codes = new Uint16Array(n);
  for (let i = 0; i < n; i++) codes[i] = (bytes[i] << 8) | bytes[n + i];
  return codes;
}

const SIGNS = { "\n": "↵", "\t": "⇥", "\r": "<0x0D>" };
const hex = (sign, width) => sign.codePointAt(0).toString(16).toUpperCase().padStart(width, "0");
// Make a token's text visible: spaces at its start, line breaks, and characters without a glyph, such as those that
// change the direction of text. Text that is already visible stays as it is.
export function visible(text) {
  if (!text) return "∅";
  return text
    .replace(/^ +/, (spaces) => (spaces.length > 4 ? `····×${spaces.length}` : "·".repeat(spaces.length)))
    .replace(/[\n\t\r]/g, (sign) => SIGNS[sign])
    .replace(/[\x00-\x1f\x7f]/g, (sign) => `<0x${hex(sign, 2)}>`)
    .replace(
      /[\x80-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff0-\ufffb]/g,
      (sign) => `<U+${hex(sign, 4)}>`,
    );
}

// Return the spans [start, end] of the units of n tokens; a token outside all spans is a unit of its own.
function spansOf(listed, n) {
  const spans = [];
  let next = 0;
  const fillTo = (end) => {
    for (; next < end; next++) spans.push([next, next + 1]);
  };
  for (const [start, end] of listed ?? []) {
    if (start < next || end <= start || end > n) continue;
    fillTo(start);
    spans.push([start, end]);
    next = end;
  }
  fillTo(n);
  return spans;
}
// Join the texts of a span. A dot for a space is only needed at the start of the span.
const joinedText = (texts, [start, end]) =>
  texts
    .slice(start, end)
    .map((text, i) => (i ? text.replace(/^·/, " ") : text))
    .join("");

// Return for each cell of a matrix its weight, or NaN if the query cannot attend to the key, or the row is undefined.
function spread(codes, T, S, causal) {
  const values = new Float32Array(T * S).fill(NaN);
  let next = 0;
  for (let q = 0; q < T; q++) {
    const end = causal ? q + 1 : S;
    let sum = 0;
    for (let k = 0; k < end; k++) sum += codes[next + k];
    if (sum) for (let k = 0; k < end; k++) values[q * S + k] = codes[next + k] / FULL;
    next += end;
  }
  return values;
}

// Merge the cells of each unit: the keys of a span are summed, the queries averaged, so that each row still sums to 1.
export function merged({ rows, columns, values }, querySpans, keySpans) {
  const U = querySpans.length,
    V = keySpans.length,
    out = new Float32Array(U * V).fill(NaN),
    unitOf = new Uint32Array(columns);
  keySpans.forEach(([start, end], v) => unitOf.fill(v, start, end));
  const sums = new Float64Array(V),
    seen = new Uint8Array(V);
  for (let u = 0; u < U; u++) {
    sums.fill(0);
    seen.fill(0);
    let n = 0;
    for (let q = querySpans[u][0]; q < Math.min(querySpans[u][1], rows); q++) {
      let known = false;
      for (let k = 0; k < columns; k++) {
        const value = values[q * columns + k];
        if (Number.isNaN(value)) continue;
        known = true;
        sums[unitOf[k]] += value;
        seen[unitOf[k]] = 1;
      }
      n += known;
    }
    for (let v = 0; v < V; v++) if (seen[v]) out[u * V + v] = sums[v] / n;
  }
  return { rows: U, columns: V, values: out };
}

// Decode a document. Returns { same (whether queries and keys are the same tokens), causal, units (names), labels(unit),
// spans(unit), matrix(unit, [layer, head]), codes([layer, head]), name([layer, head]), heads }. Raises an error if the
// weights do not fit the sizes.
export async function dataOf(doc) {
  const T = doc.queries.length,
    S = doc.keys?.length ?? T,
    same = !doc.keys,
    causal = doc.mask === "causal",
    each = causal ? (T * (T + 1)) / 2 : T * S,
    all = await inflate(doc.weights);
  if (all.length !== doc.layers * doc.heads * each)
    throw new Error("the weights do not fit the layers, heads and tokens");
  const codes = ([layer, head]) => {
    const start = (layer * doc.heads + head) * each;
    return all.subarray(start, start + each);
  };
  const kept = new Map();
  const keep = (key, make) => {
    const value = kept.get(key) ?? make();
    kept.delete(key);
    kept.set(key, value);
    if (kept.size > KEPT) kept.delete(kept.keys().next().value);
    return value;
  };
  const spans = Object.fromEntries(
    Object.entries(doc.units ?? {}).map(([unit, { queries, keys }]) => {
      const own = spansOf(queries, T);
      return [unit, { queries: own, keys: same ? own : spansOf(keys, S) }];
    }),
  );
  const queries = doc.queries.map(visible),
    keys = same ? queries : doc.keys.map(visible),
    labels = { tokens: { queries, keys } };
  for (const [unit, of] of Object.entries(spans)) {
    const texts = of.queries.map((span) => joinedText(queries, span));
    labels[unit] = { queries: texts, keys: same ? texts : of.keys.map((span) => joinedText(keys, span)) };
  }
  const matrix = (unit, at) =>
    keep(`${unit} ${at}`, () => {
      if (unit === "tokens") return { rows: T, columns: S, values: spread(codes(at), T, S, causal) };
      return merged(matrix("tokens", at), spans[unit].queries, spans[unit].keys);
    });
  return {
    same,
    causal,
    T,
    S,
    codes,
    matrix,
    units: ["tokens", ...Object.keys(spans)],
    labels: (unit) => labels[unit],
    spans: (unit) => spans[unit] ?? { queries: spansOf([], T), keys: spansOf([], S) },
    name: ([layer, head]) => `${layer + (doc.first_layer ?? 0)}.${head}`,
    heads: Array.from({ length: doc.layers * doc.heads }, (_, at) => [Math.floor(at / doc.heads), at % doc.heads]),
  };
}

// Reduce a head's codes to at most `side` cells per side, each the largest of its block, as places 0 .. 254 on the ramp
// by square root, 255 where nothing can be attended to.
export function thumbnail({ codes, T, S, causal }, at, side) {
  const own = codes(at),
    step = Math.max(1, Math.ceil(Math.max(T, S) / side)),
    height = Math.ceil(T / step),
    width = Math.ceil(S / step),
    largest = new Int32Array(width * height).fill(-1);
  let next = 0;
  for (let q = 0; q < T; q++) {
    const row = Math.floor(q / step) * width,
      end = causal ? q + 1 : S;
    for (let k = 0; k < end; k++, next++) {
      const cell = row + Math.floor(k / step);
      if (own[next] > largest[cell]) largest[cell] = own[next];
    }
  }
  return {
    width,
    height,
    places: Uint8Array.from(largest, (v) => (v < 0 ? 255 : Math.round(254 * Math.sqrt(v / FULL)))),
  };
}
