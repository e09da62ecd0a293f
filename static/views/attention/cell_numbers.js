// The numbers of one cell as rows and arrays for export. This module does not depend on the page.

function vectors(payload) {
  const numbers = {};
  for (const { name, q, k } of payload.stages) Object.assign(numbers, { [`q_${name}`]: q, [`k_${name}`]: k });
  return {
    ...numbers,
    ...(payload.angles ? { angles: payload.angles } : {}),
    products: payload.products,
    value: payload.value,
    weighted: payload.weighted,
    ...(payload.gate ? { gate: payload.gate } : {}),
  };
}
const row = ({ scores, exponentials, row: { denominator } }) => ({
  row_scores: scores,
  row_exponentials: exponentials,
  row_weights: exponentials.map((e) => e / denominator),
});
const single = (payload) => ({
  dot: payload.dot,
  scale: payload.scale,
  ...(payload.cap === null && payload.slope === null ? {} : { scaled: payload.scaled }),
  score: payload.score,
  peak: payload.row.peak,
  ...(payload.row.sink
    ? {
        sink: payload.row.sink.score,
        sink_exponential: payload.row.sink.exponential,
        sink_weight: payload.row.sink.weight,
      }
    : {}),
  denominator: payload.row.denominator,
  weight: payload.weight,
  output_length: payload.output_length,
  row_output_length: payload.row_length,
  run_score: payload.check.score ?? NaN,
  run_weight: payload.check.weight ?? NaN,
});

export function asLines(payload) {
  const out = [];
  for (const [name, values] of Object.entries(vectors(payload)))
    values.forEach((value, d) => out.push([name, d, "", value]));
  for (const [name, values] of Object.entries(row(payload)))
    values.forEach((value, n) => out.push([name, n + payload.first, payload.tokens[n + payload.first], value]));
  for (const [name, value] of Object.entries(single(payload))) out.push([name, "", "", value]);
  return out;
}
export function asArrays(payload) {
  const out = {};
  for (const [name, values] of Object.entries({ ...vectors(payload), ...row(payload) }))
    out[name] = { data: Float64Array.from(values), shape: [values.length] };
  for (const [name, value] of Object.entries(single(payload))) out[name] = { data: Float64Array.of(value), shape: [1] };
  return { ...out, tokens: payload.tokens };
}
export function byDimension({ title, words: w, stages, products, value, weighted }) {
  const { q, k } = stages.at(-1);
  return {
    names: [w.table_dimension, "q", "k", "q·k", "v", "A·v"],
    note: title,
    lines: q.map((_, d) => [String(d), q[d], k[d], products[d], value[d], weighted[d]]),
  };
}
