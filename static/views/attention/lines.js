// Attention as lines between two columns of the same tokens, one hue a head. The payload is described in links.js.
import { exporting } from "../../export/menu.js";
import { el, fill, rests } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { adding, onSelect, pickToken, selection } from "../../page/selection.js";
import { isDark, onTheme } from "../../page/theme.js";
import { asSvg, curve, decode, digits, eachLink, hue, MONO, onCanvas, SANS, slug, swatch } from "./links.js";

const CURVES = 1500; // drawn at once; beyond that only the strongest
const NUMBERS = 12;

define("lines", (root) => {
  const title = el("h2"),
    about = el("p", "pg-about"),
    legend = el("div", "pg-links-legend", "", { role: "group" });
  const slider = el("input", "", "", { type: "range", min: 10, max: 100, step: 1, value: 70 });
  const amount = el("output"),
    box = el("input", "", "", { type: "checkbox" });
  const massText = el("span"),
    firstText = el("span"),
    settings = el("div", "pg-links-set");
  const readout = el("p", "pg-links-readout", "", { "aria-live": "polite" });
  const leftTitle = el("span"),
    rightTitle = el("span"),
    titles = el("div", "pg-lines-titles", "", { "aria-hidden": "true" });
  const view = el("div", "pg-lines-box"),
    grid = el("div", "pg-lines-grid"),
    middle = el("div", "pg-lines-middle");
  const left = el("div", "pg-lines-column pg-lines-left", "", { role: "group" }),
    right = el("div", "pg-lines-column", "", { role: "group" });
  const canvas = el("canvas", "", "", { "aria-hidden": "true" }),
    numbers = el("div", "pg-lines-numbers");
  const count = el("p", "pg-muted pg-links-count", "", { role: "status" }),
    foot = el("div");
  const mass = el("label"),
    first = el("label");
  mass.append(massText, slider, amount);
  first.append(box, firstText);
  settings.append(mass, first);
  titles.append(leftTitle, el("span"), rightTitle);
  middle.append(canvas);
  grid.append(left, middle, right, numbers);
  view.append(grid);
  root.append(title, about, settings, legend, readout, titles, view, count, foot);

  let payload = null,
    panels = [],
    T = 0,
    stale = false,
    width = 0,
    waiting = false,
    building = null;
  let hovered = null,
    side = "left",
    byUs = false,
    marked = [],
    pressed = [];
  const off = new Set(); // names of heads that are hidden
  const on = () => panels.filter(({ name }) => !off.has(name));
  const step = () => (T <= 20 ? 28 : 24);
  const buttons = (which) => (which === "left" ? left : right).children;

  // What is looked at alone: { left, tokens }, or null.
  const active = () => {
    const pinned = selection.tokens.filter((at) => at < T);
    if (hovered && hovered.at < T && !(pinned.includes(hovered.at) && side === hovered.side))
      return { left: hovered.side === "left", tokens: [hovered.at] };
    return pinned.length ? { left: side === "left", tokens: pinned } : null;
  };

  // Of each row, how many links it takes to reach the share of its total that is asked for.
  const sift = () => {
    const share = slider.value / 100,
      hide = box.checked;
    for (const panel of panels) {
      const { starts, keys, weights, totals } = panel;
      panel.most = new Uint32Array(T); // links from here on are not shown
      panel.base = Float32Array.from(totals);
      for (let row = 0; row < T; row++) {
        if (hide)
          for (let link = starts[row]; link < starts[row + 1]; link++)
            if (keys[link] === 0) panel.base[row] -= weights[link];
        const goal = share < 1 ? share * panel.base[row] : Infinity;
        let link = starts[row];
        for (let sum = 0; link < starts[row + 1] && sum < goal; link++) if (!hide || keys[link]) sum += weights[link];
        panel.most[row] = link;
      }
    }
  };
  const shows = (panel, row, key, weight, link) => link < panel.most[row] && weight > 0 && !(box.checked && key === 0);

  // Visits all links that are shown, of the tokens that are looked at alone or of all: (panel, row, key, weight, share).
  const visit = (take, from = 0, to = T) => {
    const now = active();
    for (const panel of on()) {
      const each = (row, key, weight, link) => {
        if (shows(panel, row, key, weight, link)) take(panel, row, key, weight, Math.min(1, weight / panel.base[row]));
      };
      if (now) for (const token of now.tokens) eachLink(panel, token, now.left, each);
      else {
        for (let row = from; row < to; row++) eachLink(panel, row, true, each);
        if (from === 0 && to === T) continue;
        const rest = (row, key, weight, link) => {
          if (row < from || row >= to) each(row, key, weight, link);
        };
        for (let key = from; key < to; key++) eachLink(panel, key, false, rest);
      }
    }
  };
  const shown = () => {
    // as lists, for exports
    const found = [];
    visit((...link) => found.push(link));
    return found;
  };

  // Who is linked with what is looked at alone, a number each head, the largest first; added up over the tokens.
  const partners = (now) =>
    on()
      .flatMap((panel) => {
        const sums = new Map(),
          seen = new Set();
        for (const token of now.tokens)
          eachLink(panel, token, now.left, (row, key, weight, link) => {
            const other = now.left ? key : row;
            sums.set(other, (sums.get(other) ?? 0) + weight);
            if (shows(panel, row, key, weight, link)) seen.add(other);
          });
        return [...seen].map((other) => ({ panel, other, value: sums.get(other) }));
      })
      .sort((a, b) => b.value - a.value || a.other - b.other);

  const grouped = (found) => {
    const groups = new Map();
    for (const item of found)
      if (groups.has(item.other)) groups.get(item.other).push(item);
      else groups.set(item.other, [item]);
    return [...groups];
  };

  const inView = () => [
    Math.max(0, Math.floor(view.scrollTop / step())),
    Math.min(T, Math.ceil((view.scrollTop + view.clientHeight) / step())),
  ];
  // The curves of what is in view, the strongest last, between x = 0 and x = `across`; y counts from the view's top.
  const curves = (across) => {
    const shares = [],
      shapes = [],
      all = on(),
      alone = active() !== null,
      spread = Math.min(2.5, 12 / all.length);
    visit(
      (panel, row, key, weight, share) => {
        shares.push(share);
      },
      ...inView(),
    );
    const edge = shares.length > CURVES ? Float64Array.from(shares).sort()[shares.length - CURVES] : 0;
    const faint = alone && shares.length <= 60 ? 0.35 : 0.06; // few lines may all be plain to see
    const dark = isDark(); // a dark ground swallows thin lines
    visit(
      (panel, row, key, weight, share) => {
        if (share < edge || shapes.length === CURVES) return;
        const shift = (all.indexOf(panel) - (all.length - 1) / 2) * spread + step() / 2 - view.scrollTop;
        shapes.push({
          x1: 0,
          y1: row * step() + shift,
          x2: across,
          y2: key * step() + shift,
          share,
          width: 1 + (alone ? 3 : 2) * share,
          alpha: Math.max(faint, dark ? share ** 0.6 : share),
          color: hue(panel.index),
        });
      },
      ...inView(),
    );
    return { shapes: shapes.sort((a, b) => a.share - b.share), of: shares.length };
  };

  const paint = () => {
    waiting = false;
    if (!payload || stale || !root.clientWidth) return;
    const ratio = window.devicePixelRatio || 1,
      across = middle.clientWidth,
      high = view.clientHeight;
    canvas.width = across * ratio;
    canvas.height = high * ratio;
    Object.assign(canvas.style, { width: `${across}px`, height: `${high}px` });
    const ctx = canvas.getContext("2d"),
      { shapes, of } = curves(across);
    ctx.scale(ratio, ratio);
    for (const shape of shapes) {
      ctx.globalAlpha = shape.alpha;
      ctx.strokeStyle = shape.color;
      curve(ctx, shape);
    }
    canvas.dataset.curves = shapes.length;
    const { words } = payload,
      capped = of > shapes.length ? ` · ${fill(words.capped, { n: shapes.length, of })}` : "";
    count.textContent = fill(words.count, { n: panels.total }) + capped;
    root.dataset.run = payload.run;
  };
  const schedule = () => {
    if (!waiting) {
      waiting = true;
      requestAnimationFrame(paint);
    }
  };

  // Names who is looked at, sets the numbers beside the partners, and dims all others.
  const isolate = () => {
    const now = active(),
      found = now ? partners(now) : [],
      { words, tokens } = payload;
    grid.classList.toggle("pg-lines-alone", Boolean(now));
    for (const button of marked) button.classList.remove("pg-lines-on");
    marked = now
      ? [
          ...now.tokens.map((at) => buttons(now.left ? "left" : "right")[at]),
          ...[...new Set(found.map(({ other }) => other))].map((at) => buttons(now.left ? "right" : "left")[at]),
        ]
      : [];
    for (const button of marked) button.classList.add("pg-lines-on");
    for (const button of pressed) button.setAttribute("aria-pressed", "false");
    pressed = selection.tokens.filter((at) => at < T).map((at) => buttons(side)[at]);
    for (const button of pressed) button.setAttribute("aria-pressed", "true");
    numbers.replaceChildren();
    if (!now) {
      readout.textContent = words.help;
      return;
    }
    const who =
      now.tokens.length > 1 ? fill(words.sum, { n: now.tokens.length }) : `${tokens[now.tokens[0]]} (${now.tokens[0]})`;
    const groups = grouped(found),
      items = groups.slice(0, 5).map(([other, each]) => {
        const item = el("span", "pg-links-item");
        item.append(el("span", "pg-links-mono", `${tokens[other]} (${other})`));
        for (const { panel, value } of each.slice(0, 4))
          item.append(" ", ...(panels.length > 1 ? [swatch(panel.index)] : []), digits(value));
        return item;
      });
    const more =
      groups.length > items.length
        ? [el("span", "pg-muted", fill(words.more, { n: groups.length - items.length }))]
        : [];
    readout.replaceChildren(
      el("strong", "pg-links-mono", who),
      el("span", "pg-muted", items.length ? words[now.left ? "reads" : "read_by"] : words.nothing),
      ...items,
      ...more,
    );
    place(now, found.slice(0, NUMBERS));
  };
  const place = (now, found) => {
    for (const [other, items] of grouped(found)) {
      const button = buttons(now.left ? "right" : "left")[other],
        column = button.parentElement;
      const room = Math.max(1, Math.floor((column.clientWidth - button.offsetWidth) / 52)),
        group = el("div", "pg-lines-group");
      for (const { panel, value } of items.slice(0, room)) {
        const number = el("span", "pg-lines-number", "", { "data-position": other, "data-head": panel.head.join(".") });
        number.append(...(panels.length > 1 ? [swatch(panel.index)] : []), digits(value));
        group.append(number);
      }
      group.title = items.map(({ panel, value }) => `${panel.name}: ${value.toFixed(6)}`).join("\n");
      group.style.top = `${other * step()}px`;
      group.style[now.left ? "left" : "right"] = now.left
        ? `${column.offsetLeft + button.offsetWidth + 2}px`
        : `${grid.clientWidth - column.clientWidth + button.offsetWidth + 2}px`;
      numbers.append(group);
    }
  };
  const refresh = () => {
    if (!payload || stale || !root.clientWidth) return;
    isolate();
    schedule();
  };
  const resift = () => {
    amount.textContent = fill(payload.words.mass_of, { n: slider.value });
    sift();
    panels.total = on().reduce((sum, panel) => {
      for (let row = 0; row < T; row++)
        for (let link = panel.starts[row]; link < panel.most[row]; link++)
          sum += shows(panel, row, panel.keys[link], panel.weights[link], link);
      return sum;
    }, 0);
    refresh();
  };

  const column = (which, place, label) => {
    place.replaceChildren(
      ...payload.tokens.map((text, at) =>
        el("button", "pg-lines-token", text, {
          type: "button",
          "data-at": at,
          "data-side": which,
          "aria-pressed": "false",
          "aria-label": fill(label, { token: text, position: at }),
          tabindex: which === "left" && !at ? 0 : -1,
        }),
      ),
    );
  };
  const entries = () => {
    legend.replaceChildren(
      ...panels.map((panel) => {
        const button = el("button", "pg-button pg-quiet pg-links-head", "", {
          type: "button",
          "aria-pressed": !off.has(panel.name),
          title: payload.words.legend_help,
        });
        button.append(swatch(panel.index), panel.name);
        const mark = () => {
          if (stale) return;
          [...legend.children].forEach((other, i) => other.setAttribute("aria-pressed", !off.has(panels[i].name)));
          resift();
        };
        button.onclick = () => {
          if (!off.delete(panel.name)) off.add(panel.name);
          mark();
        };
        button.ondblclick = () => {
          const alone = on().length === 1 && on()[0] === panel;
          off.clear();
          if (!alone) for (const other of panels) if (other !== panel) off.add(other.name);
          mark();
        };
        return button;
      }),
    );
  };
  const build = () => {
    if (building === payload) return;
    building = payload;
    const { words } = payload;
    panels = decode(payload);
    T = payload.tokens.length;
    hovered = null;
    marked = pressed = [];
    for (const name of off) if (!panels.some((panel) => panel.name === name)) off.delete(name);
    if (off.size === panels.length) off.clear();
    title.textContent = payload.title;
    about.textContent = [payload.note, payload.words.about, payload.kept && fill(words.known, payload)]
      .filter(Boolean)
      .join(" ");
    for (const [node, key] of [
      [massText, "mass"],
      [firstText, "hide_first"],
      [leftTitle, "attending"],
      [rightTitle, "attended"],
    ])
      node.textContent = words[key];
    first.title = words.hide_first_help;
    left.setAttribute("aria-label", words.attending);
    right.setAttribute("aria-label", words.attended);
    legend.setAttribute("aria-label", words.legend);
    column("left", left, words.attending_token);
    column("right", right, words.attended_token);
    grid.style.setProperty("--pg-step", `${step()}px`);
    entries();
    footer();
    requestAnimationFrame(() => {
      // a task of its own: a long prompt has thousands of buttons to lay out
      if (building !== payload) return;
      stale = false;
      building = null;
      resift();
    });
  };
  const render = () => {
    if (!payload || root.hidden || !root.clientWidth) return;
    if (stale) build();
    else refresh();
  };

  const names = () => [
    payload.words.head,
    payload.words.query_position,
    payload.words.attending,
    payload.words.key_position,
    payload.words.attended,
    payload.measure,
  ];
  const lines = (found) =>
    found.map(([panel, row, key, weight]) => [panel.name, row, payload.tokens[row], key, payload.tokens[key], weight]);
  const compose = () => {
    const style = getComputedStyle(root),
      color = style.getPropertyValue("--pg-text").trim(),
      soft = style.getPropertyValue("--pg-soft").trim();
    const high = view.clientHeight,
      top = 92,
      now = active(),
      pen = el("canvas").getContext("2d"),
      shapes = [];
    shapes.push({ text: payload.title, x: 24, y: 30, size: 16, bold: true, color });
    pen.font = `12px ${SANS}`;
    let x = 24;
    for (const panel of on()) {
      shapes.push(
        { side: 10, x, y: 45, color: hue(panel.index) },
        { text: panel.name, x: x + 15, y: 54, size: 12, color },
      );
      x += pen.measureText(panel.name).width + 32;
    }
    shapes.push(
      { text: payload.words.attending, x: 300, y: 80, size: 12, anchor: "end", color: soft },
      { text: payload.words.attended, x: 600, y: 80, size: 12, color: soft },
    );
    for (const shape of curves(284).shapes)
      shapes.push({ ...shape, x1: 308, x2: 592, y1: shape.y1 + top, y2: shape.y2 + top });
    pen.font = `13px ${MONO}`;
    const numbered = new Map(now ? grouped(partners(now).slice(0, NUMBERS)) : []);
    for (let at = inView()[0]; at < inView()[1]; at++)
      for (const isLeft of [true, false]) {
        const y = top + (at + 0.5) * step() - view.scrollTop + 4,
          text = payload.tokens[at].slice(0, 24),
          strong = marked.includes(buttons(isLeft ? "left" : "right")[at]);
        shapes.push({
          text,
          x: isLeft ? 300 : 600,
          y,
          size: 13,
          mono: true,
          anchor: isLeft ? "end" : "start",
          color: now && !strong ? soft : color,
          bold: Boolean(now && strong),
          alpha: now && !strong ? 0.5 : 1,
        });
        if (!now || now.left === isLeft) continue;
        let beside = pen.measureText(text).width + 18;
        for (const { panel, value } of (numbered.get(at) ?? []).slice(0, 3)) {
          const number = digits(value),
            wide = pen.measureText(number).width;
          shapes.push(
            { side: 8, x: isLeft ? 300 - beside - 8 : 600 + beside, y: y - 8, color: hue(panel.index) },
            {
              text: number,
              x: isLeft ? 300 - beside - 12 : 612 + beside,
              y,
              size: 13,
              mono: true,
              anchor: isLeft ? "end" : "start",
              color,
            },
          );
          beside += wide + 26;
        }
      }
    shapes.push({ text: payload.source, x: 24, y: top + high + 28, size: 11, color: soft });
    const clip = { x: 304, y: top, width: 292, height: high };
    return { width: 900, height: top + high + 44, ground: style.getPropertyValue("--pg-panel").trim(), clip, shapes };
  };
  const footer = () => {
    const arrays = () => {
      const found = shown(),
        column = (at, Type) => ({ data: Type.from(found, (link) => link[at]), shape: [found.length] });
      const head = { data: Int32Array.from(found, ([panel]) => panel.index), shape: [found.length] };
      return {
        head,
        query: column(1, Int32Array),
        key: column(2, Int32Array),
        weight: column(3, Float32Array),
        head_names: panels.map((panel) => panel.name),
        tokens: payload.tokens,
      };
    };
    const picture = (format) =>
      format === "svg"
        ? new Blob([asSvg(compose())], { type: "image/svg+xml" })
        : new Promise((done) => onCanvas(compose()).toBlob(done));
    const { source, python, title: named, note } = payload;
    foot.replaceChildren(
      exporting(root, {
        file: `lines-${slug(payload)}`,
        source,
        python,
        title: named,
        note,
        names,
        lines: () => lines(shown()),
        arrays,
        picture,
        table: true,
      }),
    );
  };

  const out = () => {
    if (hovered) {
      hovered = null;
      refresh();
    }
  };
  const over = (event) => {
    if (rests(event)) return;
    const button = event.target.closest?.(".pg-lines-token");
    if (!button) return event.target.closest?.(".pg-lines-group") ? undefined : out();
    hovered = { side: button.dataset.side, at: +button.dataset.at };
    if (event.type === "focusin") {
      for (const other of grid.querySelectorAll(".pg-lines-token[tabindex='0']")) other.tabIndex = -1;
      button.tabIndex = 0;
    }
    refresh();
  };
  grid.addEventListener("mouseover", over);
  grid.addEventListener("focusin", over);
  grid.addEventListener("mouseleave", out);
  grid.addEventListener("focusout", out);
  grid.addEventListener("click", (event) => {
    const button = event.target.closest(".pg-lines-token");
    if (!button) return;
    const add = adding(event) && side === button.dataset.side;
    side = button.dataset.side;
    byUs = true;
    pickToken(+button.dataset.at, add);
    byUs = false;
  });
  grid.addEventListener("keydown", (event) => {
    const at = +(document.activeElement.dataset?.at ?? -1),
      which = document.activeElement.dataset?.side;
    if (at < 0) return;
    const to = {
      ArrowDown: [which, at + 1],
      ArrowUp: [which, at - 1],
      ArrowLeft: ["left", at],
      ArrowRight: ["right", at],
      Home: [which, 0],
      End: [which, T - 1],
    }[event.key];
    const button = to && buttons(to[0])[to[1]];
    if (!to) return;
    event.preventDefault();
    button?.focus();
  });
  slider.oninput = box.onchange = () => {
    if (payload && !stale) resift();
  };
  view.addEventListener("scroll", schedule, { passive: true });
  new ResizeObserver(() => {
    if (root.clientWidth !== width) {
      width = root.clientWidth;
      render();
    }
  }).observe(root);
  onTheme(refresh);
  onSelect(() => {
    if (!byUs) side = "left";
    if (!selection.tokens.length) hovered = null;
    refresh();
    const at = selection.tokens.at(-1);
    if (byUs || stale || at === undefined || at >= T || !root.clientWidth) return;
    if (at * step() < view.scrollTop || (at + 1) * step() > view.scrollTop + view.clientHeight)
      view.scrollTop = (at + 0.5) * step() - view.clientHeight / 2;
  });
  return (next) => {
    payload = next;
    stale = true;
    render();
  };
});
