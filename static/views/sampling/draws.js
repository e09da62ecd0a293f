// One random number on a distribution: a bar cut into tokens, the number as a marker, and the part that it falls into.
//
// payload of "drawbar": { title, note, ids, texts, shares, edges, total, count, seed, first, numbers, most, found, rug,
//   source, file, python, words, run }; value { seed, step, u }, u a number by hand or null.
//   The edges of the parts that can be seen are there in full digits, and so are the next random numbers: the page finds
//   the part by itself. Only a number in the tail, or one beyond those, needs a request.
import { exporting } from "../../export/menu.js";
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { onTheme } from "../../page/theme.js";

const HIGH = 30,
  PAUSE = 120;
const percent = (share) => {
  const points = 100 * share;
  return `${points >= 1 || !points ? points.toFixed(points >= 10 ? 1 : 2) : +points.toPrecision(2)} %`;
};
const digits = (value) => value.toFixed(6);

define("drawbar", (root, props, trigger) => {
  const title = el("h2"),
    note = el("p", "pg-about"),
    form = el("div", "pg-controls");
  const status = el("p", "pg-draw-said", "", { role: "status" }),
    read = el("p", "pg-about pg-draw-read");
  const stage = el("div", "pg-draw-stage"),
    flag = el("span", "pg-draw-flag", "", { "aria-hidden": "true" });
  const bar = el("div", "pg-draw-bar", "", { role: "img" }),
    line = el("span", "pg-draw-line", "", { "aria-hidden": "true" });
  const slider = el("input", "", "", { type: "range", min: 0, max: 0.999, step: 0.001 });
  const rug = el("canvas", "pg-draw-rug", "", { "aria-hidden": "true" }),
    axis = el("div", "pg-draw-axis", "", { "aria-hidden": "true" });
  const caption = el("p", "pg-about"),
    foot = el("div");
  const seed = el("input", "", "", { type: "number", min: 0, step: 1 }),
    step = el("input", "", "", { type: "number", min: 0, step: 1 });
  const again = el("button", "pg-button pg-primary", "", { type: "button" });
  for (const text of ["0", "0.25", "0.5", "0.75", "1"]) axis.append(el("span", "", text));
  stage.append(flag, bar, slider, rug, axis, line);
  root.append(title, note, form, status, stage, read, caption, foot);
  let payload = null,
    parts = [],
    timer = null,
    requested = null;

  const now = () => ({ seed: 0, step: 0, u: null, ...props.value });
  const number = () => {
    const { seed, step: at, u } = now();
    if (u !== null) return u;
    return seed === payload.seed ? payload.numbers[at - payload.first] : undefined;
  };
  // Where u falls: the first part that ends beyond it.
  const placed = (u) => {
    const { edges, texts, shares, ids, total, count, found: hits } = payload;
    let at = edges.findIndex((edge) => edge > u * total);
    if (at < 0 && edges.length === count) at = count - 1; // rounding
    if (at >= 0)
      return {
        rank: at + 1,
        text: texts[at],
        id: ids[at],
        share: shares[at],
        from: at ? edges[at - 1] : 0,
        to: edges[at],
      };
    return hits.find((each) => each.u === u);
  };
  const ask = (pause = 0) => {
    const question = JSON.stringify(now());
    if (question === requested) return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      requested = question;
      trigger("select", { index: 0, value: question });
    }, pause);
  };
  const change = (changed, pause = 0, tell = false) => {
    props.value = { ...now(), ...changed };
    if (!show() || tell) ask(pause);
  };

  // The sentence, with the token set apart; what a token says is never a template.
  const sentence = (template, values) => {
    const [before, after = ""] = template.split("{token}");
    status.replaceChildren(
      fill(before, values),
      ...(template.includes("{token}") ? [el("b", "pg-draw-token", values.token)] : []),
      fill(after, values),
    );
  };
  // Shows the part that u falls into; false where only the server knows it.
  const show = () => {
    const { words, count } = payload,
      value = now(),
      u = number();
    if (document.activeElement !== seed) seed.value = value.seed;
    if (document.activeElement !== step) step.value = value.step;
    const place = u === undefined ? undefined : placed(u);
    root.dataset.waiting = place ? "" : "yes";
    if (u !== undefined) {
      const at = `${Math.min(u, 1) * 100}%`;
      line.style.left = flag.style.left = at;
      flag.style.transform = `translateX(${-u * 100}%)`;
      flag.textContent = `u = ${digits(u)}`;
      slider.value = u;
    }
    for (const { node, rank } of parts)
      node.classList.toggle(
        "pg-here",
        Boolean(place) && (rank === place.rank || (rank === 0 && place.rank > payload.edges.length)),
      );
    if (!place) {
      status.textContent = words.looking;
      return false;
    }
    const values = {
      ...value,
      u: digits(u),
      from: digits(place.from),
      to: digits(place.to),
      token: place.text,
      share: percent(place.share),
      rank: place.rank.toLocaleString("en"),
      n: count.toLocaleString("en"),
    };
    sentence(`${value.u === null ? words.random : words.by_hand} ${words.falls}`, values);
    slider.setAttribute("aria-valuetext", status.textContent);
    root.dataset.token = place.id;
    return true;
  };

  const partOf = (rank, text, share, from, label) => {
    const node = el("div", rank ? "pg-draw-part" : "pg-draw-part pg-draw-rest");
    const { total } = payload;
    node.style.left = `${(from / total) * 100}%`;
    node.style.width = `${(share / total) * 100}%`;
    if (rank) node.style.setProperty("--pg-tint", `${Math.round(14 + 34 / Math.sqrt(rank))}%`);
    node.onpointerenter = () => {
      read.textContent = label;
    };
    parts.push({ node, rank, text, share });
    return node;
  };
  const cut = () => {
    const { texts, shares, edges, ids, total, count, words } = payload;
    parts = [];
    const nodes = texts.map((text, at) => {
      const from = at ? edges[at - 1] : 0;
      const values = {
        token: text,
        id: ids[at],
        rank: at + 1,
        share: percent(shares[at]),
        from: digits(from),
        to: digits(edges[at]),
      };
      return partOf(at + 1, text, shares[at], from, fill(words.part, values));
    });
    if (edges.length < count) {
      const from = edges.at(-1),
        share = total - from,
        n = (count - edges.length).toLocaleString("en");
      nodes.push(
        partOf(
          0,
          fill(words.more, { n }),
          share,
          from,
          fill(words.rest, { n, share: percent(share), from: digits(from) }),
        ),
      );
    }
    bar.replaceChildren(...nodes);
    bar.setAttribute("aria-label", fill(words.bar, { n: count.toLocaleString("en") }));
    fit();
  };
  // A label stands where it fits.
  const fit = () => {
    const wide = bar.clientWidth;
    if (!wide) return;
    for (const { node, rank, text, share } of parts) {
      const room = (share / payload.total) * wide - 8,
        label = percent(share);
      const labels = [];
      if (text.length * 7.9 <= room) {
        labels.push(el("span", rank ? "pg-draw-text" : "pg-draw-more", text));
        if (label.length * 6.6 <= room) labels.push(el("span", "pg-draw-share", label));
      }
      node.style.borderRightWidth = room > -4 ? "" : 0; // of parts that are hardly wider than their border
      node.replaceChildren(...labels);
    }
    paint();
  };
  const paint = () => {
    const width = rug.clientWidth,
      ratio = window.devicePixelRatio || 1,
      pen = rug.getContext("2d"),
      { counts } = payload.rug;
    if (!width) return;
    rug.width = width * ratio;
    rug.height = HIGH * ratio;
    pen.scale(ratio, ratio);
    pen.fillStyle = getComputedStyle(rug).getPropertyValue("--pg-soft").trim();
    const top = Math.max(...counts),
      step = width / counts.length;
    counts.forEach((count, at) => {
      const high = (count / top) * (HIGH - 2);
      pen.fillRect(at * step, HIGH - high, Math.max(step - 0.5, 0.5), high);
    });
  };

  const field = (text, input) => {
    const label = el("label", "pg-control pg-control-number");
    label.append(el("span", "pg-control-label", text), input);
    return label;
  };
  const whole = (input, name, limit) => () => {
    if (input.value === "" || !input.validity.valid) return;
    change({ [name]: +input.value, u: null }, PAUSE, name === "seed");
    input.max = limit;
  };
  const footer = () => {
    const { words, file, source } = payload;
    const lines = () => payload.texts.map((text, at) => [payload.ids[at], text, payload.shares[at], payload.edges[at]]);
    const text = () => {
      const { seed, step: at, u } = now();
      return payload.python.replace(/^u = .*$/m, () => `u = ${u === null ? `uniform(${seed}, ${at})` : u}`);
    };
    const names = [words.column_id, words.column_token, words.column_share, words.column_edge];
    foot.replaceChildren(
      exporting(root, { file, source, python: text, title: payload.title, note: payload.note, names, lines }),
    );
  };

  again.onclick = () => change({ step: Math.min(now().step + (now().u === null ? 1 : 0), payload.most.step), u: null });
  slider.oninput = () => change({ u: +slider.value }, PAUSE);
  bar.onpointerdown = (event) => {
    const { left, width } = bar.getBoundingClientRect();
    change({ u: Math.min(Math.max(+((event.clientX - left) / width).toFixed(6), 0), 0.999999) });
    slider.focus({ preventScroll: true });
    event.preventDefault();
  };
  bar.onpointerleave = () => {
    read.textContent = payload.words.help;
  };
  let width = 0;
  new ResizeObserver(() => {
    if (payload && root.clientWidth !== width) {
      width = root.clientWidth;
      fit();
    }
  }).observe(root);
  onTheme(() => payload && paint());

  const draw = (next) => {
    payload = next;
    const { words, most: limits } = payload;
    if (!form.childElementCount) form.append(field("", seed), field("", step), again);
    [...form.querySelectorAll(".pg-control-label")].forEach((label, at) => {
      label.textContent = at ? words.step : words.seed;
    });
    seed.max = limits.seed;
    step.max = limits.step;
    seed.oninput = whole(seed, "seed", limits.seed);
    step.oninput = whole(step, "step", limits.step);
    again.textContent = words.again;
    slider.setAttribute("aria-label", words.slider);
    title.textContent = payload.title;
    note.textContent = payload.note;
    read.textContent = words.help;
    caption.textContent = fill(words.rug, {
      n: payload.rug.n.toLocaleString("en"),
      last: (payload.rug.n - 1).toLocaleString("en"),
      seed: payload.seed,
    });
    cut();
    footer();
    if (!show()) ask();
    root.dataset.run = payload.run;
  };
  draw.stateOf = (value) => value;
  return draw;
});
