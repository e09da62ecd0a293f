// What the page's parts share: making elements, the selection, and the light or dark theme.
// Text that a person or a model wrote only ever goes through textContent.
(() => {
  const parts = {};
  const selection = { heads: [], tokens: [] };
  const selectionListeners = new Set();
  const themeListeners = new Set();
  const isDark = () => document.body.classList.contains("dark");

  new MutationObserver(() => {
    const dark = isDark();
    if (dark === theme.dark) return;
    theme.dark = dark;
    themeListeners.forEach((listener) => listener(dark));
  }).observe(document.documentElement, { attributes: true, subtree: true, attributeFilter: ["class"] });
  const theme = { dark: isDark() };

  function el(tag, className = "", text = "", attributes = {}) {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text) node.textContent = text;
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  }

  // "{tokens} tokens" with {tokens: 3} -> "3 tokens"
  const fill = (template, values) => template.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);

  // Arrow keys move the focus among buttons of which one at a time can be reached by Tab.
  function roving(container, step) {
    container.addEventListener("keydown", (event) => {
      const buttons = [...container.querySelectorAll("button[data-index]")];
      const at = buttons.indexOf(document.activeElement);
      if (at < 0) return;
      const to = step(event.key, at, buttons.length);
      if (to === null || !buttons[to]) return;
      event.preventDefault();
      buttons[at].tabIndex = -1;
      buttons[to].tabIndex = 0;
      buttons[to].focus();
    });
  }

  window.playground = {
    el, fill, roving, isDark, selection,
    define: (name, mount) => { parts[name] = mount; },
    // Called by each gr.HTML part once it is on the page; draw(payload) runs now and at every new payload.
    mount(kind, element, props, trigger, watch) {
      const root = element.querySelector("[data-part]");
      const draw = parts[kind](root, props, trigger);
      const redraw = () => { if (props.payload) draw(props.payload); };
      watch("payload", redraw);
      redraw();
    },
    onTheme: (listener) => themeListeners.add(listener),
    onSelect: (listener) => selectionListeners.add(listener),
    select(change) {
      Object.assign(selection, change);
      selectionListeners.forEach((listener) => listener(selection));
    },
  };

  // While runs are slow, hold what is typed until a short pause; quick runs follow every key.
  const PAUSE = 250;
  let held = null;
  document.addEventListener("input", (event) => {
    const box = event.target;
    if (!window.playground.slow || event.released || !box.matches?.("#prompt textarea, #prompt input")) return;
    event.stopImmediatePropagation();
    clearTimeout(held);
    held = setTimeout(() => {
      const release = new Event("input", { bubbles: true });
      release.released = true;
      box.dispatchEvent(release);
    }, PAUSE);
  }, true);

  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      document.querySelector("#prompt textarea, #prompt input")?.focus();
    } else if (event.key === "Escape" && !typing) {
      window.playground.select({ tokens: [] });
    }
  });
})();
