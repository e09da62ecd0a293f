// Figures at rest: a copy of what a figure shows, without anything that can be pressed, and pictures of it.
(() => {
  const { el, vendor, isDark } = window.playground;
  const WIDTH = 900, EDGE = 24, MOST_PIXELS = 16000; // of a picture; browsers draw no longer canvas
  const GONE = ".pg-export, .pg-no-export, .pg-button:not([aria-pressed]), [hidden], [popover], script, style, link, iframe, object, embed, template, datalist, noscript, base, meta";
  const KEPT = /^(class|style|title|alt|src|width|height|dir|lang|open|scope|colspan|rowspan|role|start|value|max|min|data-[\w-]+|aria-(hidden|pressed|sort|current|label))$/;

  // --- a copy ---

  const renamed = (node, tag) => {
    const made = document.createElement(tag);
    for (const { name, value } of [...node.attributes]) made.setAttribute(name, value);
    made.append(...node.childNodes);
    node.replaceWith(made);
    return made;
  };
  const isSvg = (node) => node.namespaceURI === "http://www.w3.org/2000/svg";
  // Only what shapes an element stays on it: no handlers, no addresses.
  function strip(node) {
    for (const { name, value } of [...node.attributes]) {
      const address = /^(href|xlink:href|src|srcset|action|formaction|poster|ping)$/i.test(name);
      const fine = isSvg(node) ? !/^on/i.test(name) && (!address || /^(#|data:image\/)/.test(value)) : KEPT.test(name) && (!address || value.startsWith("data:image/"));
      if (!fine) node.removeAttribute(name);
    }
  }
  const said = (field) => {
    if (field.type === "checkbox" || field.type === "radio") return field.checked ? "☑" : "☐";
    return field.matches("select") ? field.selectedOptions[0]?.textContent ?? "" : field.value;
  };

  // The copy of an element. `chart(node)` gives what stands in place of a Plotly figure. Where `dead`, buttons are
  // <pg-button>: they look the same, and there is nothing to press.
  function still(root, { chart, dead }) {
    const copy = root.cloneNode(true), own = [...root.querySelectorAll("*")], made = [...copy.querySelectorAll("*")];
    const later = [];
    own.forEach((node, i) => {
      const twin = made[i];
      const gone = node.closest(GONE);
      if (gone && gone !== root && root.contains(gone)) { if (gone === node) later.push(() => twin.remove()); return; }
      if (node.parentElement?.closest(".pg-chart")) return;
      if (node.matches(".pg-chart")) later.push(() => twin.replaceWith(chart(node) ?? ""));
      else if (node.matches("canvas")) later.push(() => {
        if (!node.width || !node.height) return twin.remove();
        const image = el("img", node.className, "", { src: node.toDataURL(), alt: "", style: node.getAttribute("style") ?? "" });
        if (!image.style.width && node.clientWidth) image.style.width = `${node.clientWidth}px`;
        twin.replaceWith(image);
      });
      else if (node.matches("input, select, textarea")) later.push(() => twin.replaceWith(el("span", "pg-said", node.type === "range" ? "" : said(node))));
      else if (dead && node.matches("button")) later.push(() => {
        const text = twin.textContent ? twin.getAttribute("title") : twin.getAttribute("title") ?? twin.getAttribute("aria-label");
        const button = renamed(twin, "pg-button");
        button.removeAttribute("aria-label");
        if (text) button.title = text;
      });
      else if (node.matches("a, form, label")) later.push(() => renamed(twin, node.matches("form") ? "div" : "span"));
    });
    for (const step of later) step();
    for (const node of [copy, ...copy.querySelectorAll("*")]) strip(node);
    return copy;
  }

  // --- the page's own styles, for files that stand alone ---

  // The framework gives each rule once as it is and once below its own classes, inside @media only the latter.
  const LIVE = /:focus|:hover|::-webkit|::-moz/, OURS = /pg-|data-part/, OF_THE_PAGE = /pg-export|#pg-/;
  const freed = (selector) => selector.replace(/\.gradio-container(\.gradio-container-[\w-]+)? (\.contain )?(?=\S)/g, "").replace(/(?<![\w.#-])button(?![\w-])/g, ":is(button, pg-button)");
  function rulesOf(list, seen) {
    return [...list].map((rule) => {
      if (rule.media) { const inner = rulesOf(rule.cssRules, new Set()); return inner ? `@media ${rule.media.mediaText} {\n${inner}\n}` : ""; }
      const selector = rule.selectorText;
      if (!selector || LIVE.test(selector) || !OURS.test(selector) || OF_THE_PAGE.test(selector)) return "";
      const text = `${freed(selector)} { ${rule.style.cssText} }`;
      if (seen.has(text)) return "";
      seen.add(text);
      return text;
    }).filter(Boolean).join("\n");
  }
  const sheets = () => [...document.styleSheets].flatMap((sheet) => { try { return [sheet.cssRules]; } catch { return []; } });
  const styles = () => sheets().map((rules) => rulesOf(rules, new Set())).filter(Boolean).join("\n");
  // The colours of a theme: { "--pg-text": "#1d2330", ... }.
  function colours(isDark) {
    for (const rules of sheets()) for (const rule of rules) {
      if (rule.style?.getPropertyValue("--pg-text") && /dark/.test(rule.selectorText) === isDark && /^(\.dark )?\.gradio-container/.test(rule.selectorText)) {
        return Object.fromEntries([...rule.style].filter((name) => name.startsWith("--pg-")).map((name) => [name, rule.style.getPropertyValue(name).trim()]));
      }
    }
    return {};
  }

  // --- pictures ---

  // A data: address as a blob; read by hand, as a page may forbid itself to fetch anything but its own.
  function blobOf(url) {
    const [, type, coded, body] = url.match(/^data:([^;,]*)[^,]*?(;base64)?,([^]*)$/);
    return new Blob([coded ? Uint8Array.from(atob(body), (c) => c.charCodeAt(0)) : decodeURIComponent(body)], { type });
  }
  const dataOf = (blob) => new Promise((resolve) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.readAsDataURL(blob);
  });
  const image = (url) => new Promise((resolve, reject) => {
    const made = new Image();
    made.onload = () => resolve(made);
    made.onerror = () => reject(new Error("a picture could not be read"));
    made.src = url;
  });
  const looks = (root) => {
    const style = getComputedStyle(root), colour = (name) => style.getPropertyValue(name).trim();
    return { ground: colour("--pg-panel"), text: colour("--pg-text"), soft: colour("--pg-soft"), line: colour("--pg-line"), font: "ui-sans-serif, system-ui, sans-serif" };
  };
  // Text in lines that are no wider than `wide`; what has no spaces is cut where it must be.
  function wrapped(text, font, wide) {
    const pen = el("canvas").getContext("2d"), out = [""];
    pen.font = font;
    for (const word of text.split(/(?<=\s)/)) {
      if (pen.measureText(out.at(-1) + word).width <= wide) { out[out.length - 1] += word; continue; }
      if (out.at(-1)) out.push("");
      for (const sign of word) if (pen.measureText(out.at(-1) + sign).width <= wide) out[out.length - 1] += sign; else out.push(sign);
    }
    return out.map((line) => line.trim()).filter(Boolean);
  }
  const drawn = (name, attributes, text) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text.replace(/[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/g, "\ufffd"); // XML knows no such characters
    return node;
  };
  const asSvg = (node) => new Blob([new XMLSerializer().serializeToString(node)], { type: "image/svg+xml" });

  // Title above, where the numbers are from below.
  function frame({ title, source }, { text, soft, font }, width, height) {
    const heads = wrapped(title, `600 16px ${font}`, width - 2 * EDGE), feet = wrapped(source, `11px ${font}`, width - 2 * EDGE);
    const top = EDGE + 22 * heads.length, whole = top + height + 16 * feet.length + EDGE;
    const lines = [...heads.map((line, i) => ({ line, y: EDGE + 12 + 22 * i, size: 16, weight: 600, fill: text })),
      ...feet.map((line, i) => ({ line, y: top + height + 14 + 16 * i, size: 11, weight: 400, fill: soft }))];
    return { top, whole, lines };
  }
  async function ofPlotly(one, format) {
    const Plotly = await window.playground.plotly(), { data, layout } = one.figure(), own = looks(one.root), high = layout.meta?.height ? Math.max(480, layout.meta.height) : 780;
    window.playground.themed(layout, { text: own.text, line: own.line, isDark: isDark(), narrow: false });
    const { top, whole, lines } = frame(one, own, WIDTH, high);
    const bare = { ...layout, title: undefined, height: undefined, width: undefined, paper_bgcolor: own.ground, margin: { l: EDGE, r: EDGE, t: 32, b: 16 } };
    const url = await Plotly.toImage({ data, layout: bare }, { format, width: WIDTH, height: high, scale: format === "png" ? 2 : 1 });
    if (format === "svg") {
      const svg = drawn("svg", { width: WIDTH, height: whole, viewBox: `0 0 ${WIDTH} ${whole}` });
      const inner = new DOMParser().parseFromString(await blobOf(url).text(), "image/svg+xml").documentElement;
      inner.setAttribute("y", top);
      svg.append(drawn("rect", { width: "100%", height: "100%", fill: own.ground }), inner,
        ...lines.map(({ line, y, size, weight, fill }) => drawn("text", { x: EDGE, y, "font-size": size, "font-weight": weight, "font-family": own.font, fill }, line)));
      return asSvg(svg);
    }
    const canvas = el("canvas", "", "", { width: WIDTH * 2, height: whole * 2 }), pen = canvas.getContext("2d");
    pen.scale(2, 2);
    pen.fillStyle = own.ground;
    pen.fillRect(0, 0, WIDTH, whole);
    pen.drawImage(await image(url), 0, top, WIDTH, high);
    for (const { line, y, size, weight, fill } of lines) {
      pen.font = `${weight} ${size}px ${own.font}`;
      pen.fillStyle = fill;
      pen.fillText(line, EDGE, y);
    }
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  }

  // What is not Plotly: a copy beside the page, as wide as its widest part, and a picture of that.
  async function ofPage(one, format) {
    await vendor("modern-screenshot.min.js");
    const charts = new Map();
    for (const [root, source] of window.playground.exported.sources) if (source.figure && one.root.contains(root)) {
      const src = await dataOf(await ofPlotly(window.playground.exported.told(root), "png"));
      charts.set(root.querySelector(".pg-chart"), el("img", "", "", { src, style: "width: 100%" }));
    }
    const copy = still(one.root, { chart: (node) => charts.get(node), dead: false });
    const widest = Math.max(one.root.clientWidth, ...[...one.root.querySelectorAll("*")].map((node) => (node.scrollWidth > node.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(node).overflowX) ? node.scrollWidth : 0)));
    const holder = el("div", "pg-still pg-still-picture"), box = one.root.closest(".gradio-container") ?? document.body;
    holder.style.width = `${widest + 2 * EDGE}px`;
    if (!copy.textContent.includes(one.title)) holder.append(el("h2", "", one.title));
    holder.append(copy, el("p", "pg-source", one.source));
    box.append(holder);
    try {
      const { ground } = looks(one.root), { offsetWidth: width, offsetHeight: height } = holder, scale = Math.min(2, MOST_PIXELS / Math.max(width, height));
      const options = { scale, width, height, backgroundColor: ground, font: false, style: { position: "static" } };
      if (format === "png") return blobOf(await window.playgroundShot.domToPng(holder, options));
      const svg = new DOMParser().parseFromString(await blobOf(await window.playgroundShot.domToSvg(holder, options)).text(), "image/svg+xml").documentElement;
      svg.prepend(drawn("title", {}, one.title), drawn("desc", {}, one.source));
      return asSvg(svg);
    } finally { holder.remove(); }
  }
  const picture = (one, format) => (one.own ? one.own(format) : one.figure ? ofPlotly(one, format) : ofPage(one, format));
  window.playground.still = { still, styles, colours, picture };
})();
