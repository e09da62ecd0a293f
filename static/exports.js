// Taking things away: CSV, NPZ, PNG, SVG, and the Python lines that make the same numbers.
(() => {
  const { el } = window.playground;

  function save(name, blob) {
    const link = el("a", "", "", { download: name, href: URL.createObjectURL(blob) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  // A spreadsheet runs what begins with = + - @ as a formula; a leading apostrophe keeps text that is not a number.
  const cell = (value) => {
    const text = String(value);
    const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return `"${safe.replace(/"/g, '""')}"`;
  };
  const csv = (lines) => new Blob(["\ufeff", lines.map((line) => line.map(cell).join(",")).join("\r\n")], { type: "text/csv" });

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

  const TYPES = { Float32Array: "<f4", Float64Array: "<f8", Uint8Array: "|u1", Int32Array: "<i4" };
  // array: { data: typed array, shape: [..] }, or a list of strings
  function npy(array) {
    const encoder = new TextEncoder();
    let { data, shape } = array, type = TYPES[data?.constructor.name];
    if (Array.isArray(array)) { // numpy's unicode: UTF-32, all of one length
      const points = array.map((text) => [...text].map((c) => c.codePointAt(0)));
      const width = Math.max(1, ...points.map((p) => p.length));
      data = new Uint32Array(width * array.length);
      points.forEach((p, i) => data.set(p, i * width));
      shape = [array.length];
      type = `<U${width}`;
    }
    const tuple = shape.length === 1 ? `${shape[0]},` : shape.join(", ");
    let header = `{'descr': '${type}', 'fortran_order': False, 'shape': (${tuple}), }`;
    header = header.padEnd(Math.ceil((header.length + 11) / 64) * 64 - 11) + "\n";
    const head = encoder.encode(header);
    const body = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    const out = new Uint8Array(10 + head.length + body.length);
    out.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, head.length & 255, head.length >> 8]);
    out.set(head, 10);
    out.set(body, 10 + head.length);
    return out;
  }

  function zip(files) {
    const encoder = new TextEncoder(), parts = [], index = [];
    let offset = 0;
    for (const [name, bytes] of files) {
      const title = encoder.encode(name), crc = crc32(bytes);
      const common = new DataView(new ArrayBuffer(26));
      [[0, 20], [4, 0], [6, 0], [8, 0x21]].forEach(([at, value]) => common.setUint16(at, value, true)); // 1980-01-01
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
  const npz = (arrays) => zip(Object.entries(arrays).map(([name, array]) => [`${name}.npy`, npy(array)]));

  // Lines of Python with a button that copies them; a second call hides them again.
  function code(root, text, words) {
    root.hidden = !root.hidden;
    if (root.hidden) return;
    const copy = el("button", "pg-button pg-quiet", words.copy, { type: "button" });
    copy.onclick = async () => {
      try { await navigator.clipboard.writeText(text); copy.textContent = words.copied; } catch { getSelection().selectAllChildren(lines); }
    };
    const lines = el("pre", "", text, { tabindex: 0 });
    root.replaceChildren(lines, copy);
  }

  // A table of at most `most` rows: [[cells], ...] below names; the rest is in the CSV.
  function table(root, { names, lines, note }) {
    root.hidden = !root.hidden;
    if (root.hidden) return;
    const head = el("tr"), body = el("tbody"), grid = el("table");
    for (const name of names) head.append(el("th", "", name, { scope: "col" }));
    for (const line of lines) {
      const row = el("tr");
      for (const value of line) row.append(el("td", "", typeof value === "number" ? String(+value.toPrecision(6)) : value));
      body.append(row);
    }
    grid.append(el("caption", "", note), head, body);
    root.replaceChildren(grid);
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

  Object.assign(window.playground, { save, csv, npz, code, table, tools });
})();
