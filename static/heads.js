// The overview: every layer x head as one canvas, with a real button over each small picture.
(() => {
  const { define, el, fill, roving, select, selection, onSelect, onTheme, isDark } = window.playground;
  const GAP = 2, GROUP_GAP = 4, LABEL = 18;

  async function inflate(base64) {
    const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  function lookup(stops) {
    const rgb = stops.map((stop) => [1, 3, 5].map((at) => parseInt(stop.slice(at, at + 2), 16)));
    return Array.from({ length: 255 }, (_, code) => {
      const place = (code / 254) * (rgb.length - 1);
      const low = Math.min(Math.floor(place), rgb.length - 2);
      return rgb[low].map((a, i) => Math.round(a + (rgb[low + 1][i] - a) * (place - low)));
    });
  }

  // Layers run across, heads run down; the row of layers is folded into bands so that cells are largest.
  function arrange({ layers, heads, group }, width, height) {
    let best = null;
    for (let bands = 1; bands <= layers; bands++) {
      const columns = Math.ceil(layers / bands);
      const gaps = group > 1 ? (heads / group - 1) * GROUP_GAP : 0;
      const across = (width - LABEL) / columns - GAP;
      const down = (height / bands - LABEL - gaps) / heads - GAP;
      const cell = Math.floor(Math.min(across, down, 56));
      if (!best || cell > best.cell) best = { bands, columns, cell, gaps };
    }
    best.cell = Math.max(best.cell, 9);
    best.band = LABEL + heads * (best.cell + GAP) + best.gaps;
    best.width = LABEL + best.columns * (best.cell + GAP);
    best.height = best.bands * best.band;
    best.place = (layer, head) => ({
      x: LABEL + (layer % best.columns) * (best.cell + GAP),
      y: Math.floor(layer / best.columns) * best.band + LABEL + head * (best.cell + GAP)
        + (group > 1 ? Math.floor(head / group) * GROUP_GAP : 0),
    });
    return best;
  }

  // Shrink a picture by whole steps, keeping the largest of each block, so that single strong links stay visible.
  function shrink(codes, side, steps) {
    if (steps === 1) return { codes, side };
    const small = Math.ceil(side / steps);
    const out = new Uint8Array(small * small).fill(255);
    for (let y = 0; y < side; y++) for (let x = 0; x < side; x++) {
      const code = codes[y * side + x];
      const at = Math.floor(y / steps) * small + Math.floor(x / steps);
      if (code !== 255 && (out[at] === 255 || code > out[at])) out[at] = code;
    }
    return { codes: out, side: small };
  }

  function paintHeads(canvas, payload, codes, plan) {
    const ratio = window.devicePixelRatio || 1;
    canvas.width = plan.width * ratio;
    canvas.height = plan.height * ratio;
    canvas.style.width = `${plan.width}px`;
    canvas.style.height = `${plan.height}px`;
    const ctx = canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    ctx.imageSmoothingEnabled = false;
    const colours = lookup(payload.ramps[isDark() ? "dark" : "light"]);
    const steps = Math.max(1, Math.floor(payload.side / (plan.cell * ratio)));
    const style = getComputedStyle(canvas);
    const ground = style.getPropertyValue("--pg-ground");
    const picture = document.createElement("canvas");
    for (let layer = 0; layer < payload.layers; layer++) for (let head = 0; head < payload.heads; head++) {
      const start = (layer * payload.heads + head) * payload.side ** 2;
      const small = shrink(codes.subarray(start, start + payload.side ** 2), payload.side, steps);
      const image = new ImageData(small.side, small.side);
      small.codes.forEach((code, i) => {
        if (code === 255) return;
        image.data.set(colours[code], i * 4);
        image.data[i * 4 + 3] = 255;
      });
      picture.width = picture.height = small.side;
      picture.getContext("2d").putImageData(image, 0, 0);
      const { x, y } = plan.place(layer, head);
      ctx.fillStyle = ground;
      ctx.fillRect(x, y, plan.cell, plan.cell);
      ctx.drawImage(picture, x, y, plan.cell, plan.cell);
    }
    ctx.fillStyle = style.color;
    ctx.font = "10px ui-sans-serif, system-ui, sans-serif";
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    const every = Math.ceil(16 / plan.cell);
    for (let layer = 0; layer < payload.layers; layer += every) {
      const { x, y } = plan.place(layer, 0);
      ctx.fillText(layer, x + plan.cell / 2, y - LABEL / 2);
    }
    for (let layer = 0; layer < payload.layers; layer += plan.columns) for (let head = 0; head < payload.heads; head += every) {
      const { y } = plan.place(layer, head);
      ctx.fillText(head, LABEL / 2 - 1, y + plan.cell / 2);
    }
  }

  window.playground.lookup = lookup;

  define("heads", (root) => {
    const title = el("h2"), about = el("p", "pg-about"), group = el("p", "pg-about");
    const board = el("div", "pg-board", "", { role: "group" });
    const canvas = el("canvas", "", "", { "aria-hidden": "true" });
    const readout = el("div", "pg-readout", "", { "aria-live": "polite" });
    const buttons = el("div", "pg-head-buttons");
    board.append(canvas, buttons);
    root.append(title, about, board, readout, group);
    let payload = null, codes = null, plan = null, ticket = 0;

    const same = ([layer, head], at) => at === layer * payload.heads + head;
    const place = (at) => [Math.floor(at / payload.heads), at % payload.heads];
    const describe = (at) => {
      const [layer, head] = place(at);
      readout.replaceChildren(el("strong", "", fill(payload.words.button, { layer, head })));
      payload.metric_names.forEach(({ label, help, unit }, i) => {
        const value = payload.metrics[at][i];
        const shown = value === null ? payload.words.undefined : `${value.toPrecision(3)}${unit ? ` ${unit}` : ""}`;
        const item = el("div", "pg-metric", "", { title: help });
        item.append(el("span", "", label), el("b", value === null ? "pg-muted" : "", shown));
        readout.append(item);
      });
    };
    const paintSelection = () => {
      if (!payload) return;
      for (const button of buttons.children) {
        button.setAttribute("aria-pressed", selection.heads.some((head) => same(head, +button.dataset.index)));
      }
      const last = selection.heads.at(-1);
      if (last && last[0] < payload.layers && last[1] < payload.heads) describe(last[0] * payload.heads + last[1]);
    };
    const lay = () => {
      if (!codes || !root.clientWidth) return;
      const narrow = root.clientWidth < 480;
      plan = arrange(payload, root.clientWidth, narrow ? 520 : 660);
      paintHeads(canvas, payload, codes, plan);
      for (const button of buttons.children) {
        const { x, y } = plan.place(...place(+button.dataset.index));
        Object.assign(button.style, { left: `${x}px`, top: `${y}px`, width: `${plan.cell}px`, height: `${plan.cell}px` });
      }
    };
    const choose = (event) => {
      const at = +(event.target.dataset?.index ?? -1);
      if (at < 0) return;
      select({ heads: [place(at)] });
    };
    const hover = (event) => { if (event.target.dataset?.index) describe(+event.target.dataset.index); };
    buttons.addEventListener("click", choose);
    buttons.addEventListener("mouseover", hover);
    buttons.addEventListener("focusin", hover);
    buttons.addEventListener("mouseleave", paintSelection);
    roving(buttons, (key, at) => {
      const [layer, head] = place(at);
      const to = { ArrowRight: [layer + 1, head], ArrowLeft: [layer - 1, head], ArrowDown: [layer, head + 1], ArrowUp: [layer, head - 1] }[key];
      if (!to || to[0] < 0 || to[0] >= payload.layers || to[1] < 0 || to[1] >= payload.heads) return null;
      return to[0] * payload.heads + to[1];
    });
    new ResizeObserver(lay).observe(root);
    onTheme(() => { words(); lay(); });
    onSelect(paintSelection);

    const words = () => {
      if (!payload) return;
      title.textContent = payload.words.title;
      about.textContent = fill(isDark() ? payload.words.about_dark : payload.words.about, payload);
      group.textContent = (payload.group > 1 ? `${fill(payload.words.group, { n: payload.group })} ` : "") + payload.words.hover;
    };
    return async (next) => {
      const mine = ++ticket;
      const fresh = await inflate(next.codes);
      if (mine !== ticket) return; // a later picture arrived while this one was unpacked
      const shape = (p) => p && `${p.layers} ${p.heads} ${p.words.button}`;
      const rebuild = shape(payload) !== shape(next);
      payload = next;
      codes = fresh;
      words();
      if (rebuild) {
        buttons.replaceChildren(...Array.from({ length: payload.layers * payload.heads }, (_, index) => {
          const [layer, head] = place(index);
          const button = el("button", "pg-head", "", { type: "button", "data-index": index, "aria-label": fill(payload.words.button, { layer, head }) });
          button.tabIndex = index ? -1 : 0;
          return button;
        }));
      }
      board.setAttribute("aria-label", payload.words.title);
      lay();
      paintSelection();
      root.dataset.run = payload.run;
    };
  });
})();
