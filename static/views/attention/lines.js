// Attention as lines between two columns of the same tokens, one hue a head. The payload is described in links.js.
import { exporting } from "../../export/menu.js";
import { el, fill, hint, rests } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { adding, onSelect, pickToken, selection } from "../../page/selection/selection.js";
import { isDark, onTheme } from "../../page/theme.js";
import { asArrays, asLines, grouped, namesOf, partnersOf, shows, sift, visitLinks } from "./lines_links.js";
import { ACROSS, linesPicture } from "./lines_picture.js";
import { numbersAt, readoutOf } from "./lines_readout.js";
import { asSvg, curve, decode, hue, onCanvas, slug, swatch } from "./links.js";

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

  const settled = () => ({ panels: on(), tokens: T, share: slider.value / 100, hide: box.checked });
  const visit = (take, from = 0, to = T) => visitLinks(settled(), active(), take, from, to);
  const shown = () => {
    // as lists, for exports
    const links = [];
    visit((...link) => links.push(link));
    return links;
  };

  const partners = (now) => partnersOf(settled(), now);
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

  // Names the hovered or pinned tokens, sets the numbers beside the partners, and dims all others.
  const isolate = () => {
    const now = active(),
      readers = now ? partners(now) : [],
      { words } = payload;
    grid.classList.toggle("pg-lines-alone", Boolean(now));
    for (const button of marked) button.classList.remove("pg-lines-on");
    marked = now
      ? [
          ...now.tokens.map((at) => buttons(now.left ? "left" : "right")[at]),
          ...[...new Set(readers.map(({ other }) => other))].map((at) => buttons(now.left ? "right" : "left")[at]),
        ]
      : [];
    for (const button of marked) button.classList.add("pg-lines-on");
    for (const button of pressed) button.setAttribute("aria-pressed", "false");
    pressed = selection.tokens.filter((at) => at < T).map((at) => buttons(side)[at]);
    for (const button of pressed) button.setAttribute("aria-pressed", "true");
    numbers.replaceChildren();
    if (!now) {
      readout.textContent = hint(words, "help");
      return;
    }
    readout.replaceChildren(...readoutOf(payload, now, readers, panels.length > 1));
    for (const [other, items] of grouped(readers.slice(0, NUMBERS))) {
      const at = { button: buttons(now.left ? "right" : "left")[other], left: now.left, top: other * step() };
      numbers.append(numbersAt(at, items, panels.length > 1, grid.clientWidth));
    }
  };
  const refresh = () => {
    if (!payload || stale || !root.clientWidth) return;
    isolate();
    schedule();
  };
  const resift = () => {
    amount.textContent = fill(payload.words.mass_of, { n: slider.value });
    sift(panels, settled());
    panels.total = on().reduce((sum, panel) => {
      for (let row = 0; row < T; row++)
        for (let link = panel.starts[row]; link < panel.most[row]; link++)
          sum += shows(panel, row, panel.keys[link], panel.weights[link], link, box.checked);
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
    about.textContent = [payload.note, payload.kept && fill(words.known, payload)].filter(Boolean).join(" ");
    about.hidden = !about.textContent;
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

  // A picture of what is in view, as a list of shapes.
  const compose = () => {
    const now = active(),
      [from, to] = inView(),
      tokens = [];
    for (let at = from; at < to; at++)
      for (const isLeft of [true, false])
        tokens.push({
          at,
          isLeft,
          text: payload.tokens[at].slice(0, 24),
          y: (at + 0.5) * step() - view.scrollTop + 4,
          strong: marked.includes(buttons(isLeft ? "left" : "right")[at]),
        });
    const numbered = new Map(now ? grouped(partners(now).slice(0, NUMBERS)) : []);
    const shapes = curves(ACROSS).shapes;
    return linesPicture(payload, { panels: on(), shapes, tokens, numbered, now, high: view.clientHeight }, root);
  };
  const footer = () => {
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
        names: namesOf(payload),
        lines: () => asLines(shown(), payload.tokens),
        arrays: () => asArrays(shown(), panels, payload.tokens),
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
