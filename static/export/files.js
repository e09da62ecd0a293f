// Export of numbers and pictures as files: CSV, NPZ, Parquet, and the function that saves any of them.
//
// A table is { names, lines }; title and source describe the numbers and are included in every file.
import { el } from "../page/dom.js";
import { vendor } from "./vendor.js";

const LONGEST = 80; // maximum number of characters of a file name

// Build a file name that is safe on every system: letters, digits, "-", "_" and ".", whatever text a model, a prompt or
// a translation inserts.
export function fileName(name) {
  const plain = String(name)
    .normalize("NFKD")
    .replace(/[\u0300-\u036f]/g, "");
  const [, base, ending = ""] = plain.match(/^([^]*?)(\.[A-Za-z0-9]{1,8})?$/);
  const clean = base
    .replace(/[^A-Za-z0-9._-]+/g, "-")
    .replace(/\.{2,}/g, ".")
    .replace(/-{2,}/g, "-")
    .replace(/^[._-]+/, "");
  const stem = clean.slice(0, LONGEST - ending.length).replace(/[._-]+$/, "");
  const taken = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i.test(stem); // reserved device names on Windows
  return `${taken ? "file-" : ""}${stem || "figure"}`.slice(0, LONGEST - ending.length) + ending.toLowerCase();
}
export function save(name, blob) {
  const link = el("a", "", "", { download: fileName(name), href: URL.createObjectURL(blob) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Spreadsheets evaluate text that starts with = + - @ as a formula; a leading apostrophe prevents this for non-numbers.
const cell = (value) => {
  const text = String(value);
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return `"${safe.replace(/"/g, '""')}"`;
};
// The first row of the last column describes the numbers and their source.
export function csv({ names, lines, title, source }, label) {
  const caption = `${title} · ${source}`,
    all = lines.length ? lines : [names.map(() => "")];
  const rows = [[...names, label], ...all.map((line, i) => [...line, i ? "" : caption])];
  return new Blob(["\ufeff", rows.map((line) => line.map(cell).join(",")).join("\r\n")], { type: "text/csv" });
}

// --- columns of a table ---

const blank = (value) => value === "" || value === null || value === undefined;
// Return the columns with unique names, each either entirely numbers (blanks are NaN) or entirely text.
function columns({ names, lines }) {
  const seen = new Map();
  return names.map((name, at) => {
    const key = String(name).replace(/[\\/\u0000-\u001f]/g, "_") || "column",
      times = (seen.get(key) ?? 0) + 1;
    seen.set(key, times);
    const values = lines.map((line) => line[at]);
    const numbers =
      values.some((value) => typeof value === "number") &&
      values.every((value) => blank(value) || typeof value === "number");
    return { name: times > 1 ? `${key}_${times}` : key, values, numbers };
  });
}
export const arraysOf = (table) =>
  Object.fromEntries(
    columns(table).map(({ name, values, numbers }) => [
      name,
      numbers
        ? { data: Float64Array.from(values, (value) => (blank(value) ? NaN : value)), shape: [values.length] }
        : values.map((value) => String(value ?? "")),
    ]),
  );

// Numbers are always DOUBLE, including integers, so that a column's type does not depend on its values. Text is STRING.
export async function parquet({ names, lines, title, source }) {
  const { parquetWriteBuffer } = await vendor("hyparquet-writer.min.js");
  const columnData = columns({ names, lines }).map(({ name, values, numbers }) => ({
    name,
    type: numbers ? "DOUBLE" : "STRING",
    nullable: true,
    data: values.map((value) => (numbers ? (blank(value) ? null : value) : blank(value) ? null : String(value))),
  }));
  const kvMetadata = [
    { key: "title", value: title },
    { key: "source", value: source },
  ];
  return new Blob([parquetWriteBuffer({ columnData, kvMetadata })], { type: "application/vnd.apache.parquet" });
}

export const json = (value, { title, source }) =>
  new Blob([JSON.stringify({ title, source, ...value }, null, 1)], { type: "application/json" });

// --- NPZ: an uncompressed zip of .npy files ---

const TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let k = 0; k < 8; k++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n >>> 0;
});
function crc32(bytes) {
  let c = 0xffffffff;
  for (const byte of bytes) c = TABLE[(c ^ byte) & 255] ^ (c >>> 8);
  return (c ^ 0xffffffff) >>> 0;
}

const TYPES = {
  Float32Array: "<f4",
  Float64Array: "<f8",
  Uint8Array: "|u1",
  Int8Array: "|i1",
  Int16Array: "<i2",
  Int32Array: "<i4",
};
// array: { data: typed array, shape: [..] }, or a list of strings
function npy(array) {
  const encoder = new TextEncoder();
  let { data, shape } = array,
    type = TYPES[data?.constructor.name];
  if (Array.isArray(array)) {
    // NumPy's Unicode format: UTF-32 strings of equal length
    const points = array.map((text) => [...text].map((c) => c.codePointAt(0)));
    const width = points.reduce((longest, p) => Math.max(longest, p.length), 1);
    data = new Uint32Array(width * array.length);
    points.forEach((p, i) => data.set(p, i * width));
    shape = [array.length];
    type = `<U${width}`;
  }
  const tuple = shape.length === 1 ? `${shape[0]},` : shape.join(", ");
  let header = `{'descr': '${type}', 'fortran_order': False, 'shape': (${tuple}), }`;
  header = `${header.padEnd(Math.ceil((header.length + 11) / 64) * 64 - 11)}\n`;
  const head = encoder.encode(header);
  const body = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const out = new Uint8Array(10 + head.length + body.length);
  out.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, head.length & 255, head.length >> 8]);
  out.set(head, 10);
  out.set(body, 10 + head.length);
  return out;
}

function zip(files) {
  const encoder = new TextEncoder(),
    parts = [],
    index = [];
  let offset = 0;
  for (const [name, bytes] of files) {
    const title = encoder.encode(name),
      crc = crc32(bytes);
    const common = new DataView(new ArrayBuffer(26));
    [
      [0, 20],
      [2, 0x800],
      [4, 0],
      [6, 0],
      [8, 0x21],
    ].forEach(([at, value]) => common.setUint16(at, value, true)); // flags: names are in UTF-8; the date is 1980-01-01
    common.setUint32(10, crc, true);
    common.setUint32(14, bytes.length, true);
    common.setUint32(18, bytes.length, true);
    common.setUint16(22, title.length, true);
    const fields = new Uint8Array(common.buffer);
    const local = new Uint8Array(30 + title.length);
    local.set([0x50, 0x4b, 3, 4]);
    local.set(fields, 4);
    local.set(title, 30);
    const central = new Uint8Array(46 + title.length);
    central.set([0x50, 0x4b, 1, 2, 20, 0]);
    central.set(fields, 6);
    new DataView(central.buffer).setUint32(42, offset, true);
    central.set(title, 46);
    parts.push(local, bytes);
    index.push(central);
    offset += local.length + bytes.length;
  }
  const size = index.reduce((sum, part) => sum + part.length, 0);
  const end = new DataView(new ArrayBuffer(22));
  end.setUint32(0, 0x06054b50, true);
  end.setUint16(8, files.length, true);
  end.setUint16(10, files.length, true);
  end.setUint32(12, size, true);
  end.setUint32(16, offset, true);
  return new Blob([...parts, ...index, new Uint8Array(end.buffer)], { type: "application/zip" });
}
export const npz = (arrays, { title, source }) =>
  zip(
    Object.entries({ ...arrays, title: [title], source: [source] }).map(([name, array]) => [`${name}.npy`, npy(array)]),
  );
