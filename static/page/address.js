// The state of the page as one value: in its address, as a file, and back. Back and forward work.
//
// state: { v, model, prompt, tab, heads, tokens, pair, edits, values: { part: value } }. In the address it stands after
//   the #, which a browser sends to no server. Whatever a link or a file says is checked here for its form, and by the
//   server for what it means; it opens nothing that has to be fetched, and starts no job.
// payload of "address": { words, usual: { model, prompt, tab }, asks: [part], settled }; value { n, ... }: a question and its number.
// payload of "linked": { n, model, text, hint, load, close }: the answer, and a model that is not here.
(() => {
  const { define, el, fill, selection, mounted } = window.playground;
  const LONGEST = 8000; // characters of a link
  const MOST_BYTES = 1 << 20; // of a file
  const DEEPEST = 12, PAUSE = 300, TYPING = 1500, PATIENCE = 20000;

  // --- a state from elsewhere ---

  const isRecord = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
  const isPair = (value) => Array.isArray(value) && value.length === 2 && value.every((n) => Number.isSafeInteger(n) && n >= 0);
  const shallow = (value, left = DEEPEST) => typeof value !== "object" || value === null || (left > 0 && Object.values(value).every((each) => shallow(each, left - 1)));
  const FORMS = {
    model: (value) => typeof value === "string" && value.length > 0 && value.length <= 200,
    prompt: (value) => typeof value === "string" && value.length <= 200000,
    tab: (value) => typeof value === "string" && /^\w{1,40}$/.test(value),
    heads: (value) => Array.isArray(value) && value.length <= 8 && value.every(isPair),
    tokens: (value) => Array.isArray(value) && value.every((n) => Number.isSafeInteger(n) && n >= 0),
    pair: (value) => value === null || isPair(value),
    edits: (value) => Array.isArray(value) && value.length <= 64 && value.every((each) => isRecord(each) && shallow(each, 1)),
    values: (value) => isRecord(value) && Object.entries(value).every(([name, each]) => /^\w{1,60}$/.test(name) && isRecord(each) && shallow(each)),
  };
  // The entries that are what they should be, and the names of the others.
  function checked(given) {
    const state = {}, wrong = [];
    for (const [name, fits] of Object.entries(FORMS)) {
      if (given?.[name] === undefined) continue;
      if (fits(given[name])) state[name] = given[name]; else wrong.push(name);
    }
    return { state, wrong };
  }
  // What is not said is as an untouched page has it.
  function complete(said) {
    const { model, prompt, tab } = usual ?? {};
    const first = { model, prompt, tab, tokens: [], pair: null, edits: [], values: {}, ...said };
    const untouched = first.model === model && first.prompt === prompt;
    return { v: 1, heads: untouched ? playground.firstHeads ?? [] : [], ...first };
  }

  // --- the address ---

  const spell = (lists) => lists.map((list) => (Array.isArray(list) ? list.join(".") : list)).join(",");
  const read = (text, at) => (text === "" ? [] : text.split(",").map((each) => (at ? each.split(at).map(whole) : whole(each))));
  const whole = (text) => (/^\d{1,9}$/.test(text) ? +text : NaN);
  function parsed(text) {
    try { return JSON.parse(text); } catch { return null; }
  }
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

  // Once anything differs from an untouched page, the model and the heads are named, too: another server may begin
  // with others.
  function fragment(state) {
    const first = complete({}), said = new URLSearchParams();
    if (Object.keys(FORMS).every((name) => same(state[name], first[name]))) return "";
    said.set("model", state.model);
    for (const name of ["prompt", "tab"]) if (state[name] !== first[name]) said.set(name, state[name]);
    if (state.heads.length) said.set("heads", spell(state.heads));
    if (state.tokens.length) said.set("tokens", spell(state.tokens));
    if (state.pair) said.set("pair", spell(state.pair));
    if (state.edits.length) said.set("edits", JSON.stringify(state.edits));
    if (Object.keys(state.values).length) said.set("values", JSON.stringify(state.values));
    return `#${String(said).replaceAll("%2C", ",").replaceAll("%3A", ":")}`;
  }
  // The state that a fragment says, or null where it is none.
  function parse(hash) {
    const said = new URLSearchParams(hash.replace(/^#/, ""));
    if (![...said.keys()].some((name) => name in FORMS)) return null;
    const given = Object.fromEntries([...said].filter(([name]) => name in FORMS));
    for (const name of ["edits", "values"]) if (name in given) given[name] = parsed(given[name]);
    if ("heads" in given) given.heads = read(given.heads, ".").filter(isPair).slice(-8);
    if ("tokens" in given) given.tokens = read(given.tokens).filter(Number.isInteger);
    if ("pair" in given) given.pair = read(given.pair);
    return checked(given).state;
  }
  // A state too long for an address is kept with the entry of the tab's own history: no link, but a reload finds it.
  const arrived = () => (history.state?.playground ? checked(history.state.playground).state : parse(location.hash));

  // --- what is on the page ---

  let usual = null, words = null, handle = null, tab = null, asks = null;
  let goal = arrived(); // of a link that is being followed
  let waits = null; // a model that is not here: { model, was }
  const late = new Map(Object.entries(goal?.values ?? {})); // values of parts that are not on the page yet

  const plain = (value) => JSON.parse(JSON.stringify(value ?? null));
  function state() {
    const values = Object.fromEntries(late);
    for (const [name, { kept, props, initial }] of mounted) {
      const value = kept && isRecord(props.value) ? kept(plain(props.value)) : null;
      if (value && Object.keys(value).length && JSON.stringify(value) !== initial) values[name] = value;
    }
    const { model, prompt } = playground.shown ?? usual ?? {};
    const picked = plain({ heads: selection.heads, tokens: selection.tokens, pair: selection.pair, edits: selection.edits });
    return {
      v: 1, model, prompt, tab: tab ?? usual?.tab, ...picked,
      values: Object.fromEntries(Object.entries(values).sort(([a], [b]) => (a < b ? -1 : 1))),
    };
  }
  const bare = () => `${location.pathname}${location.search}`;
  // The link, or null where it is too long for one.
  function link(of = state()) {
    const whole = `${location.origin}${bare()}${fragment(of)}`;
    return { text: whole.length > LONGEST ? null : whole, length: whole.length };
  }

  // --- writing ---

  let acted = false; // by the visitor, since the last link was followed
  let timer = null, typed = 0;
  let last = { text: "", state: null }; // what the address says
  for (const name of ["pointerdown", "keydown", "input", "click"]) document.addEventListener(name, () => { acted = true; }, true);

  const views = ({ values }) => Object.fromEntries(Object.entries(values).filter(([name]) => name.endsWith("_view")));
  const kinds = ({ edits }) => edits.map(({ factor, ...edit }) => edit);
  // Whether what was done is a step that Back takes back; a slider that moves, or a text while it is typed, is none.
  function isStep(before, now) {
    if (now.prompt !== before.prompt) {
      const more = Date.now() - typed < TYPING && now.model === before.model && now.tab === before.tab;
      typed = Date.now();
      return !more;
    }
    return ["model", "tab", "heads"].some((name) => !same(before[name], now[name])) || !same(views(before), views(now)) || !same(kinds(before), kinds(now));
  }
  function write() {
    clearTimeout(timer);
    if (!usual || goal || waits || playground.restoring) return;
    const now = state(), text = fragment(now);
    if (text === last.text) return;
    const step = acted && isStep(last.state ?? complete({}), now), { playground: old, ...rest } = history.state ?? {};
    const long = !link(now).text;
    history[step ? "pushState" : "replaceState"](long ? { ...rest, playground: now } : rest, "", long ? bare() : bare() + text);
    last = { text, state: now };
    showLink();
  }
  const soon = () => { clearTimeout(timer); timer = setTimeout(write, PAUSE); };

  // --- following ---

  let n = 0, asking = false, watchdog = null, settled = [];
  function settle() {
    clearTimeout(watchdog);
    playground.restoring = asking = false;
    handed.clear();
    settled.forEach((done) => done());
    settled = [];
    soon();
  }
  function send(event, value) {
    n += 1;
    for (const [name, own] of handed) if (mounted.get(name).foreign) mounted.get(name).props.value = own; // unless it could not be drawn
    playground.restoring = true;
    clearTimeout(watchdog);
    watchdog = setTimeout(settle, PATIENCE); // the server is gone: the page works on
    handle.props.value = { n, ...value };
    handle.trigger(event, { index: 0, value: String(n) });
  }
  // One drawing for all parts whose values were set from here.
  const redraw = () => { if (handle && !asking) send("select", {}); };
  let drawing = null;
  const redrawSoon = () => { playground.restoring = true; clearTimeout(drawing); drawing = setTimeout(redraw); };

  function ask() {
    if (!handle || !usual || !goal) return;
    const { values, v, ...rest } = complete(goal);
    asking = true;
    send("restore", rest);
  }
  // Gradio sets every value to what the page came with once more after the parts are there: said again at each question.
  const handed = new Map();
  function give(name, value) {
    const entry = mounted.get(name);
    entry.props.value = value;
    entry.foreign = true;
    handed.set(name, value);
  }
  function setValues(values) {
    late.clear();
    handed.clear();
    for (const [name, value] of Object.entries(values)) if (!asks || asks.includes(name)) late.set(name, value);
    for (const [name, entry] of mounted) {
      if (!entry.kept) continue;
      const next = late.has(name) ? late.get(name) : JSON.parse(entry.initial);
      late.delete(name);
      if (same(next, plain(entry.props.value))) continue;
      give(name, next);
      entry.redraw();
    }
  }
  // Show a state: resolves once the server has drawn it.
  function restore(given) {
    clearTimeout(timer);
    goal = checked(given).state;
    waits = null;
    acted = false;
    playground.restoring = true;
    if (usual) last = { text: fragment(complete(goal)), state: complete(goal) };
    setValues(goal.values ?? {});
    return new Promise((done) => { settled.push(done); ask(); });
  }
  function follow() {
    const next = arrived() ?? {};
    if (usual && fragment(complete(next)) === last.text) return;
    restore(next);
  }
  window.addEventListener("popstate", follow);
  window.addEventListener("hashchange", follow);

  playground.onMount((name, entry) => {
    if (!entry.kept || !late.has(name)) return;
    give(name, entry.kept(late.get(name)) ?? late.get(name));
    late.delete(name);
    redrawSoon();
  });
  playground.onDrawn((root) => {
    const { model } = playground.shown ?? {};
    if (waits && root.dataset.part === "tokens" && model !== waits.was) { // loaded, or another one chosen
      const there = model === waits.model;
      stay();
      if (there) ask(); else goal = null;
    }
    if (root.dataset.part !== "address") soon();
  });
  playground.onSelect(soon);
  playground.onAsk((root) => {
    handed.delete(root.dataset.part); // the visitor was there meanwhile
    if (root.dataset.part !== "address") soon();
  });

  define("address", (root, props, trigger) => {
    root.hidden = true;
    handle = { props, trigger };
    return (payload) => {
      const first = !usual;
      ({ words, usual } = payload);
      for (const name of late.keys()) if (!payload.asks.includes(name)) late.delete(name); // no part of this page
      asks = payload.asks;
      paint();
      if (first && goal) {
        last = { text: fragment(complete(goal)), state: complete(goal) };
        playground.restoring = true;
        ask();
      } else if (first) last = { text: "", state: complete({}) };
      if (!asking && payload.settled === n && playground.restoring && n) settle();
    };
  });

  let stay = () => {};
  define("linked", (root, props, trigger) => {
    root.hidden = true;
    stay = () => { root.hidden = true; waits = null; };
    return (payload) => {
      if (payload.n !== n || !asking) return;
      asking = false;
      root.hidden = !payload.model;
      root.className = "pg-linked pg-notice";
      root.setAttribute("role", "status");
      if (payload.model) {
        const said = el("div", "pg-notice-text"), load = el("button", "pg-button pg-primary", payload.load, { type: "button" });
        const close = el("button", "pg-button", payload.close, { type: "button" });
        said.append(el("strong", "", payload.text), el("span", "", payload.hint));
        load.onclick = () => trigger("follow");
        close.onclick = () => { stay(); goal = null; soon(); };
        root.replaceChildren(said, load, close);
        waits = { model: payload.model, was: playground.shown?.model };
      } else goal = null;
      redrawSoon(); // once the prompt and all else that came with this answer is in its place
    };
  });

  // --- the page's head ---

  const share = el("button", "pg-button pg-share", "", { type: "button", "aria-haspopup": "dialog" });
  const box = el("div", "pg-share-box", "", { popover: "auto", role: "dialog", id: "pg-share-box", "data-part": "share", "data-drawn": "" });
  const title = el("h2"), about = el("p", "pg-about"), field = el("label", "pg-share-link"), label = el("span", "pg-label"), address = el("input", "", "", { readonly: "", type: "text" });
  const long = el("p", "pg-share-long"), buttons = el("div", "pg-share-buttons"), told = el("p", "pg-share-told", "", { role: "status" });
  const button = (name, act) => { const made = el("button", "pg-button", "", { type: "button", "data-what": name }); made.onclick = act; return made; };
  const copy = button("copy", copyLink), save = button("save", saveFile), open = button("open", () => file.click()), close = button("close", () => box.hidePopover());
  const file = el("input", "", "", { type: "file", accept: ".json,application/json", hidden: "" });
  field.append(label, address);
  copy.classList.add("pg-primary");
  buttons.append(copy, save, open, close, file);
  box.append(title, about, field, long, buttons, told);

  function paint() {
    title.textContent = words.title;
    about.textContent = words.about;
    label.textContent = words.link;
    box.setAttribute("aria-label", words.title);
    for (const made of [copy, save, open, close]) made.textContent = words[made.dataset.what];
    file.setAttribute("aria-label", words.open);
  }
  const say = (text) => { told.textContent = text; };
  function showLink() {
    if (!words || !box.matches(":popover-open")) return;
    const { text, length } = link();
    field.hidden = copy.hidden = !text;
    long.hidden = Boolean(text);
    long.textContent = fill(words.too_long, { n: length.toLocaleString("en"), most: LONGEST.toLocaleString("en") });
    address.value = text ?? "";
  }
  async function copyLink() {
    write();
    showLink();
    try {
      await navigator.clipboard.writeText(address.value);
      say(words.copied);
    } catch { // no https, or not allowed
      address.focus();
      address.select();
      say(document.execCommand("copy") ? words.copied : words.copy_failed);
    }
  }
  function saveFile() {
    const now = state(), name = `${`attention-${now.model}-${now.tab}`.replace(/[^\w.-]+/g, "-").slice(0, 80)}.json`;
    playground.save(name, new Blob([JSON.stringify(now, null, 1)], { type: "application/json" }));
    say(fill(words.saved, { name }));
  }
  // The page shows a file's state as a step of its own.
  async function openFile(picked) {
    const name = picked.name.slice(0, 80), wrong = (key, more = {}) => say(fill(words[key], { name, ...more }));
    if (picked.size > MOST_BYTES) return wrong("file_large");
    let given;
    try { given = JSON.parse(await picked.text()); } catch { return wrong("file_json"); }
    if (!isRecord(given) || !Number.isInteger(given.v) || given.v < 1) return wrong("file_state");
    if (given.v > 1) return wrong("file_version");
    const found = checked(given);
    if (!Object.keys(found.state).length) return wrong("file_state");
    write();
    const whole = complete(found.state), text = fragment(whole), fits = link(whole).text;
    const { playground: old, ...rest } = history.state ?? {};
    if (text !== last.text) history.pushState(fits ? rest : { ...rest, playground: whole }, "", fits ? bare() + text : bare());
    restore(found.state).then(showLink);
    wrong(found.wrong.length ? "file_fields" : "opened", { fields: found.wrong.join(", ") });
  }
  file.onchange = () => {
    const [picked] = file.files;
    file.value = "";
    if (picked) openFile(picked);
  };
  function place() {
    const { left, bottom } = share.getBoundingClientRect(), room = document.documentElement.clientWidth;
    const width = Math.min(460, room - 16);
    Object.assign(box.style, { width: `${width}px`, left: `${Math.max(8, Math.min(left, room - width - 8))}px`, top: `${bottom + 6}px` });
  }
  box.addEventListener("toggle", ({ newState }) => {
    share.setAttribute("aria-expanded", newState === "open");
    if (newState === "open") { showLink(); (copy.hidden ? save : copy).focus(); }
  });
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation(); // for the page it means something else
    event.preventDefault();
    box.hidePopover();
  });
  address.onfocus = () => address.select();
  window.addEventListener("resize", () => { if (box.matches(":popover-open")) place(); });
  // A press on the button closes an open box by itself, before the click: the click is not to open it again.
  let wasOpen = false;
  share.onpointerdown = () => { wasOpen = box.matches(":popover-open"); };
  share.onclick = () => {
    if (wasOpen) { wasOpen = false; box.hidePopover(); return; }
    if (!box.isConnected) document.getElementById("pg-header").parentElement.append(box); // where the page's styles hold
    say("");
    place();
    write();
    box.showPopover({ source: share });
  };
  playground.headerItem(40, ({ share: text }) => { share.textContent = text; return share; });

  Object.assign(window.playground, {
    state, restore, link: () => link().text,
    restoring: Boolean(goal), // a link's state is on its way
    opened: (key) => { tab = key; soon(); },
    // The same page in another language, with its state.
    addressIn: (language) => {
      write();
      const query = new URLSearchParams(location.search);
      query.set("lang", language);
      return `?${query}${location.hash}`;
    },
  });
})();
