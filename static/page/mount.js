// What the page's parts share: making elements, the selection, and the light or dark theme.
// Text that a person or a model wrote only ever goes through textContent.
(() => {
  const parts = {};
  // heads: the last one is the main one; pair: one cell [query, key]; edits: changes to the run, as the server reads them.
  const selection = { heads: [], tokens: [], pair: null, edits: [] };
  const hidden = new Set(); // parts of views that are not chosen
  const mounted = new Map(); // name of a part -> { kind, root, props, redraw }
  const drawnListeners = new Set();
  const mountListeners = new Set();
  const headerItems = [];
  const selectionListeners = new Set();
  const askListeners = new Set();
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
    container.addEventListener("focusin", ({ target }) => {
      if (!target.matches("button[data-index]")) return;
      for (const other of container.querySelectorAll('button[data-index][tabindex="0"]')) other.tabIndex = -1;
      target.tabIndex = 0;
    });
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

  // Scrolling moves elements below a pointer that rests; only a pointer that moves points at something.
  let pointer = "";
  const where = (event) => `${event.screenX} ${event.screenY}`;
  document.addEventListener("mousemove", (event) => { pointer = where(event); }, { passive: true });
  const rests = (event) => event.type === "mouseover" && where(event) === pointer;

  window.playground = {
    el, fill, roving, rests, isDark, selection,
    define: (name, mount) => { parts[name] = mount; },
    // Called by each gr.HTML part once it is on the page; draw(payload) runs now and at every new payload.
    mount(kind, element, props, trigger, watch) {
      const root = element.querySelector("[data-part]");
      root.hidden = hidden.has(root.dataset.part);
      const problem = el("div", "pg-problem", "", { role: "status" });
      let told = null;
      problem.hidden = true;
      root.before(problem);
      const ask = (event, data) => {
        trigger(event, data);
        if (event === "select") askListeners.forEach((listener) => listener(root));
      };
      const draw = parts[kind](root, props, ask);
      // What a link says of a part may be anything; a part that cannot draw it goes back to where it started.
      const drawn = (payload) => {
        try {
          draw(payload);
        } catch (error) {
          if (!entry.foreign) throw error;
          entry.foreign = false;
          props.value = JSON.parse(entry.initial);
          draw(payload);
        }
      };
      const redraw = () => {
        const payload = props.payload ? JSON.parse(props.payload) : null;
        told = payload?.problem ?? payload?.empty; // what is wrong, or what is not there yet
        entry.tell();
        problem.className = payload?.problem ? "pg-problem" : "pg-problem pg-quiet-box";
        problem.replaceChildren(...(told ? [el("strong", "", told.text), el("span", "", told.hint)] : []));
        root.classList.toggle("pg-failed", Boolean(told));
        if (payload && !told) drawn(payload);
        drawnListeners.forEach((listener) => listener(root, payload));
      };
      // kept(value): what of the part's value belongs to the page's state, or null; kinds that ask have it.
      const tell = () => { problem.hidden = !told || hidden.has(root.dataset.part); };
      const entry = { kind, root, props, redraw, tell, kept: draw?.kept, initial: JSON.stringify(props.value ?? null), foreign: false };
      mounted.set(root.dataset.part, entry);
      mountListeners.forEach((listener) => listener(root.dataset.part, entry));
      watch("payload", redraw);
      redraw();
    },
    mounted,
    // Told after each drawing of a part: listener(root, payload).
    onDrawn: (listener) => drawnListeners.add(listener),
    // Told when a part comes onto the page, before it is drawn: listener(name, entry).
    onMount: (listener) => mountListeners.add(listener),
    // Told when a part has asked the server for another drawing: listener(root).
    onAsk: (listener) => askListeners.add(listener),
    // A control of the page's head: make(words) -> element, in the order of the numbers.
    headerItem: (order, make) => { headerItems.push([order, make]); headerItems.sort(([a], [b]) => a - b); },
    headerItems,
    onTheme: (listener) => themeListeners.add(listener),
    onSelect: (listener) => selectionListeners.add(listener),
    // Show one of several parts that take turns.
    choose(shown, all) {
      for (const name of all) {
        if (shown.includes(name)) hidden.delete(name); else hidden.add(name);
        const root = document.querySelector(`[data-part="${CSS.escape(name)}"]`);
        if (root) root.hidden = hidden.has(name);
        mounted.get(name)?.tell();
      }
    },
    select(change) {
      if (change.tokens && !("pair" in change)) change = { ...change, pair: null };
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

  // A head joins or leaves those that are picked; without `add` it is the only one. Eight hues, so eight heads.
  window.playground.pickHead = (layer, head, add) => {
    const others = selection.heads.filter((each) => each[0] !== layer || each[1] !== head);
    const was = others.length < selection.heads.length;
    const next = !add ? [[layer, head]] : was && others.length ? others : [...others, [layer, head]];
    window.playground.select({ heads: next.slice(-8) });
  };
  window.playground.adding = (event) => event.ctrlKey || event.metaKey || event.shiftKey;
})();
