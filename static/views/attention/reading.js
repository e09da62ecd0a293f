// The prompt as running text, coloured by what one token reads, or by what reads it. The payload is described in links.js.
import { exporting } from "../../export/menu.js";
import { framed, onJoin } from "../../page/characters.js";
import { el, fill, rests, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { adding, onSelect, pickToken, selection } from "../../page/selection/selection.js";
import { onTheme } from "../../page/theme.js";
import { ink, mixed } from "../../parts/colours.js";
import { decode, digits, eachLink, hue, slug, swatch } from "./links.js";

const TOP = 8;

define("reading", (root) => {
  const title = el("h2"),
    about = el("p", "pg-about"),
    settings = el("div", "pg-links-set");
  const directions = el("span", "pg-tools", "", { role: "group" }),
    heads = el("span", "pg-tools", "", { role: "group" });
  const readout = el("p", "pg-links-readout", "", { "aria-live": "polite" });
  const text = el("div", "pg-reading-text", "", { role: "group" });
  const scale = el("p", "pg-reading-scale"),
    lists = el("div", "pg-reading-lists");
  const foot = el("div");
  settings.append(directions, heads);
  root.append(title, about, settings, readout, text, scale, lists, foot);

  let payload = null,
    panels = [],
    T = 0,
    stale = false,
    width = 0,
    left = true,
    only = null,
    hovered = null;
  const chosen = () => (panels.length > 1 && only === null ? panels : [panels[only ?? 0]]);
  const centre = () => {
    const picked = selection.tokens.filter((at) => at < T);
    return picked.length ? picked : [T - 1];
  };
  // What each head says of all tokens together with these ones: Float64Array [T], NaN where there is nothing.
  const valuesOf = (panel, tokens, asLeft) => {
    const values = new Float64Array(T).fill(NaN);
    for (const token of tokens)
      eachLink(panel, token, asLeft, (row, key, weight) => {
        const other = asLeft ? key : row;
        values[other] = (Number.isNaN(values[other]) ? 0 : values[other]) + weight;
      });
    return values;
  };
  // The mean over heads. In a short prompt every number is known: where a head has none, there is no mean.
  const mean = (rows) =>
    Float64Array.from({ length: T }, (_, at) => {
      const known = rows.filter((values) => !Number.isNaN(values[at]));
      if (!known.length || (payload.kept === null && known.length < rows.length)) return NaN;
      return known.reduce((sum, values) => sum + values[at], 0) / rows.length;
    });
  const values = (asLeft = left) => mean(chosen().map((panel) => valuesOf(panel, centre(), asLeft)));
  const top = (numbers) =>
    [...numbers.keys()]
      .filter((at) => numbers[at] > 0)
      .sort((a, b) => numbers[b] - numbers[a] || a - b)
      .slice(0, TOP);
  const named = (at) => fill(payload.words.of_one, { token: payload.tokens[at], position: at });
  const who = () => (centre().length > 1 ? fill(payload.words.sum, { n: centre().length }) : named(centre()[0]));
  const numberText = (value) =>
    Number.isNaN(value) ? "" : value >= 1e-4 || value === 0 ? value.toFixed(6) : value.toExponential(3);

  const colours = () => {
    const style = getComputedStyle(root),
      one = chosen();
    const full = one.length > 1 ? style.getPropertyValue("--pg-focus").trim() : hue(one[0].index);
    return {
      none: style.getPropertyValue("--pg-panel").trim(),
      full,
      text: style.getPropertyValue("--pg-text").trim(),
    };
  };
  const colour = () => {
    const weights = values(),
      largest = weights.reduce((a, b) => (b > a ? b : a), 0),
      { none, full, text: plain } = colours(),
      centred = new Set(centre());
    for (const token of text.querySelectorAll("button")) {
      const at = +token.dataset.index,
        share = weights[at] > 0 ? Math.sqrt(weights[at] / largest) : 0;
      const ground = mixed(none, full, share),
        style = share ? `background-color: rgb(${ground}); color: ${ink(ground, plain)}` : "";
      if (token.style.cssText !== style) token.style.cssText = style;
      token.dataset.value = Number.isNaN(weights[at]) ? "" : weights[at];
      if (token.ariaPressed !== String(centred.has(at))) token.ariaPressed = centred.has(at);
    }
    const bar = el("i", "pg-reading-ramp", "", { "aria-hidden": "true" });
    bar.style.background = `linear-gradient(to right, ${Array.from({ length: 9 }, (_, i) => `rgb(${mixed(none, full, Math.sqrt(i / 8))}) ${12.5 * i}%`).join(", ")})`;
    scale.replaceChildren(
      el("span", "", payload.measure),
      el("b", "", "0"),
      bar,
      el("b", "", digits(largest)),
      el("span", "", `(${payload.words.scale})`),
    );
  };
  const explain = () => {
    const { words } = payload;
    if (hovered === null || hovered >= T) {
      const picked = selection.tokens.some((at) => at < T),
        now = fill(words[left ? "now_reads" : "now_read_by"], { token: who() });
      readout.replaceChildren(
        el("span", "pg-links-mono", now),
        ...(picked ? [] : [el("span", "pg-muted", words.default_note)]),
      );
      return;
    }
    const weight = values()[hovered],
      pair = left ? { query: who(), key: named(hovered) } : { query: named(hovered), key: who() };
    if (Number.isNaN(weight)) {
      readout.replaceChildren(el("span", "pg-muted", fill(words.readout_nothing, pair)));
      return;
    }
    const each =
      chosen().length > 1
        ? chosen().map((panel) => {
            const item = el("span", "pg-links-item");
            item.append(
              swatch(panel.index),
              `${panel.head.join(".")} ${numberText(valuesOf(panel, centre(), left)[hovered])}`,
            );
            return item;
          })
        : [];
    readout.replaceChildren(
      el("span", "pg-links-mono", fill(words.readout_reads, pair)),
      el("strong", "pg-reading-number", numberText(weight)),
      ...each,
    );
  };
  const list = (asLeft) => {
    const { words } = payload,
      weights = values(asLeft),
      best = top(weights),
      largest = weights[best[0]],
      part = el("div", "pg-reading-list");
    part.dataset.list = asLeft ? "reads" : "read_by";
    part.append(el("h3", "", words[asLeft ? "top_reads" : "top_read_by"]));
    if (!best.length) part.append(el("p", "pg-muted", words.no_readers));
    for (const at of best) {
      const line = el("div", "pg-reading-line"),
        bar = el("i", "", "", { "aria-hidden": "true" });
      const chip = el("button", "pg-chip", payload.tokens[at], {
        type: "button",
        "data-at": at,
        "aria-label": fill(words.token_name, { token: payload.tokens[at], position: at }),
        title: new Map(payload.parts).get(at) ?? "",
      });
      chip.onclick = (event) => pickToken(at, adding(event));
      bar.style.width = `${(100 * weights[at]) / largest}%`;
      bar.style.background = colours().full;
      const track = el("span", "pg-reading-track");
      track.append(bar);
      line.append(chip, el("span", "pg-muted", String(at)), track, el("b", "", digits(weights[at])));
      part.append(line);
    }
    return part;
  };
  const switches = () => {
    const { words } = payload;
    const button = (label, pressed, act) => {
      const node = el("button", "pg-button pg-quiet pg-links-head", "", { type: "button", "aria-pressed": pressed });
      node.append(...label);
      node.onclick = () => {
        act();
        refresh();
      };
      return node;
    };
    const keep = document.activeElement,
      group = [directions, heads].find((each) => each.contains(keep)),
      at = group && [...group.children].indexOf(keep);
    directions.replaceChildren(
      button([words.reads_from], left, () => {
        left = true;
      }),
      button([words.who_reads], !left, () => {
        left = false;
      }),
    );
    heads.hidden = panels.length < 2;
    heads.replaceChildren(
      button([words.mean], only === null, () => {
        only = null;
      }),
      ...panels.map((panel) =>
        button([swatch(panel.index), panel.name], only === panel.index, () => {
          only = panel.index;
        }),
      ),
    );
    if (group) group.children[at]?.focus();
  };
  const refresh = () => {
    if (!payload || stale || !root.clientWidth) return;
    switches();
    colour();
    explain();
    const focused = lists.contains(document.activeElement);
    lists.replaceChildren(list(true), list(false));
    if (focused) text.querySelector(`button[data-index="${centre()[0]}"]`)?.focus({ preventScroll: true });
    root.dataset.run = payload.run;
  };
  const build = () => {
    const { words, tokens } = payload,
      breaks = new Map(payload.breaks);
    stale = false;
    panels = decode(payload);
    T = tokens.length;
    hovered = null;
    if (only !== null && only >= panels.length) only = null;
    title.textContent = payload.title;
    about.textContent = [payload.note, payload.kept && fill(words.known, payload)].filter(Boolean).join(" ");
    about.hidden = !about.textContent;
    directions.setAttribute("aria-label", words.direction);
    heads.setAttribute("aria-label", words.which);
    text.setAttribute("aria-label", words.text);
    const parts = new Map(payload.parts);
    const nodes = tokens.map((token, at) => {
      const named = [fill(words.token_name, { token, position: at }), parts.get(at)].filter(Boolean).join(", ");
      const button = el("button", "pg-reading-token", "", {
        type: "button",
        "data-index": at,
        "aria-label": named,
        title: parts.get(at) ?? "",
        tabindex: at ? -1 : 0,
      });
      const [, signs, rest] = token.match(/^([·↵⇥]*)([^]*)$/);
      button.append(...(signs ? [el("span", "pg-reading-space", signs)] : []), rest);
      return [button, ...Array.from({ length: breaks.get(at) ?? 0 }, () => el("br"))];
    });
    text.replaceChildren(...framed(nodes, payload.frames));
    footer();
    refresh();
  };
  const render = () => {
    if (!payload || root.hidden || !root.clientWidth) return;
    if (stale) build();
    else refresh();
  };
  const lines = () => {
    const weights = values();
    return [...weights.keys()]
      .filter((at) => !Number.isNaN(weights[at]))
      .map((at) => [at, payload.tokens[at], weights[at]]);
  };
  const names = () =>
    (left
      ? [payload.words.key_position, payload.words.attended]
      : [payload.words.query_position, payload.words.attending]
    ).concat(`${payload.measure}: ${who()}`);
  const footer = () => {
    const { source, python, title: named, note } = payload,
      file = () => `text-${slug(payload)}-${left ? "reads" : "read-by"}-${centre().join("-")}`;
    foot.replaceChildren(exporting(root, { file, source, python, title: named, note, names, lines, table: true }));
  };

  const over = (event) => {
    if (rests(event)) return;
    const token = event.target.closest?.(".pg-reading-token");
    if (!token) return out();
    hovered = +token.dataset.index;
    if (event.type === "focusin") {
      for (const other of text.querySelectorAll("button[tabindex='0']")) other.tabIndex = -1;
      token.tabIndex = 0;
    }
    if (payload && !stale) explain();
  };
  const out = () => {
    if (hovered !== null && payload && !stale) {
      hovered = null;
      explain();
    }
  };
  text.addEventListener("mouseover", over);
  text.addEventListener("focusin", over);
  text.addEventListener("mouseleave", out);
  text.addEventListener("focusout", out);
  text.addEventListener("click", (event) => {
    const token = event.target.closest(".pg-reading-token");
    if (token) pickToken(+token.dataset.index, adding(event));
  });
  roving(text, (key, at, n) => ({ ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: n - 1 })[key] ?? null);
  onJoin(() => {
    stale = true;
    render();
  });
  new ResizeObserver(() => {
    if (root.clientWidth !== width) {
      width = root.clientWidth;
      render();
    }
  }).observe(root);
  onTheme(refresh);
  onSelect(refresh);
  return (next) => {
    payload = next;
    stale = true;
    render();
  };
});
