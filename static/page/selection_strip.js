// The strips above the tabs: header, notice, token chips, selection.
(() => {
  const { define, el, fill, roving, select, selection, onSelect } = window.playground;

  define("header", (root) => (payload) => {
    const title = el("h1", "", payload.title);
    const status = el("p", "pg-status", "", { "aria-live": "polite" });
    for (const part of payload.status) status.append(el("span", "", part));
    const language = el("a", "pg-language", payload.language.text);
    // The state in the address comes along; it may change at any time.
    const aim = () => { language.href = playground.addressIn(payload.language.code); };
    language.onpointerdown = language.onfocus = language.onclick = aim;
    aim();
    const items = el("div", "pg-header-items");
    items.append(...playground.headerItems.map(([, make]) => make(payload.words)), language);
    playground.slow = payload.slow;
    root.replaceChildren(title, el("p", "pg-tagline", payload.tagline), status, items);
  });

  define("notice", (root, props, trigger) => (payload) => {
    root.hidden = !payload.text;
    root.className = `pg-notice pg-notice-${payload.kind ?? "info"}`;
    root.setAttribute("role", payload.kind === "error" ? "alert" : "status");
    const said = el("div", "pg-notice-text");
    said.append(el("strong", "", payload.text ?? ""), el("span", "", payload.hint ?? ""));
    root.replaceChildren(said);
    if (payload.bar) {
      const bar = el("progress", "", "", { max: 1, "aria-label": payload.text });
      if (payload.fraction !== null) bar.value = payload.fraction;
      root.append(bar);
    }
    const fire = { cancel: () => trigger("cancel"), retry: () => trigger("retry") };
    for (const { name, text } of payload.actions ?? []) {
      const button = el("button", "pg-button", text, { type: "button" });
      button.onclick = fire[name];
      root.append(button);
    }
  });

  define("tokens", (root) => {
    const label = el("span", "pg-label");
    const hint = el("span", "pg-hint");
    const strip = el("div", "pg-chips", "", { role: "group" });
    const top = el("div", "pg-strip-top");
    top.append(label, hint);
    root.append(top, strip);
    let current = null;
    const paint = () => {
      for (const chip of strip.children) {
        const on = selection.tokens.includes(+chip.dataset.index);
        chip.setAttribute("aria-pressed", on);
      }
    };
    const explain = (event) => {
      const at = event.target.dataset?.index;
      const token = at === undefined ? null : current.tokens[at];
      hint.textContent = token ? fill(current.words.hint, { id: token.id, position: at, bytes: token.bytes }) : current.words.help;
    };
    strip.addEventListener("mouseover", explain);
    strip.addEventListener("focusin", explain);
    strip.addEventListener("mouseleave", () => { if (current) hint.textContent = current.words.help; });
    strip.addEventListener("click", (event) => {
      const at = +(event.target.dataset?.index ?? -1);
      if (at < 0) return;
      const others = selection.tokens.filter((token) => token !== at);
      const was = others.length < selection.tokens.length;
      select({ tokens: event.shiftKey ? (was ? others : [...others, at]) : was && !others.length ? [] : [at] });
    });
    roving(strip, (key, at, n) => ({ ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: n - 1 })[key] ?? null);
    onSelect(paint);
    return (payload) => {
      const changed = current?.run !== payload.run;
      current = payload;
      label.textContent = payload.words.label;
      strip.setAttribute("aria-label", payload.words.label);
      hint.textContent = payload.words.help;
      strip.replaceChildren(...payload.tokens.map((token, index) => {
        const chip = el("button", "pg-chip", token.text, { type: "button", "data-index": index });
        chip.tabIndex = index ? -1 : 0;
        return chip;
      }));
      root.dataset.run = payload.run;
      playground.tokens = payload.tokens;
      playground.shown = { model: payload.model, prompt: payload.prompt };
      if (changed) select(payload.run === playground.tokensOf ? {} : { tokens: [] });
      if (payload.run === playground.tokensOf) playground.tokensOf = null; // once: a later return begins without any
      paint();
    };
  });

  // What an edit is called: the word of its kind with what it needs filled in.
  const named = (kinds, edit) => fill(kinds[edit.kind] ?? edit.kind, {
    ...edit, at: edit.layer === undefined ? "" : `${edit.layer}.${edit.head}`, });

  define("selection", (root, props, trigger) => {
    let words = null, kinds = {}, hues = [];
    let sent = "";
    const value = () => ({ heads: selection.heads, tokens: selection.tokens, pair: selection.pair, edits: selection.edits });
    const item = (text, drop, hue) => {
      const chip = el("span", "pg-selected", text);
      if (hue) chip.style.setProperty("--pg-hue", hue);
      if (drop) {
        const cross = el("button", "pg-cross", "×", { type: "button", "aria-label": `${words.remove}: ${text}` });
        cross.onclick = drop;
        chip.append(cross);
      }
      return chip;
    };
    const paint = () => {
      if (!words) return;
      const { heads, tokens, edits } = selection;
      const several = heads.length > 1;
      const items = [
        ...heads.map(([layer, head], i) => item(
          fill(several ? words.head : words.heads, { layer, head }),
          several && (() => select({ heads: heads.filter((_, n) => n !== i) })), hues[i % hues.length])),
        ...tokens.map((at) => item(
          `${words.token} ${playground.tokens?.[at]?.text ?? ""} (${at})`,
          () => select({ tokens: tokens.filter((token) => token !== at) }))),
        ...edits.map((edit, i) => {
          const chip = item(named(kinds, edit), () => select({ edits: edits.filter((_, n) => n !== i) }));
          chip.classList.add("pg-edit");
          return chip;
        }),
      ];
      const list = items.length ? items : [el("span", "pg-muted", words.none)];
      const clear = el("button", "pg-button pg-quiet", words.clear, { type: "button" });
      clear.onclick = () => select({ tokens: [], heads: heads.slice(-1), edits: [] });
      clear.hidden = !tokens.length && !several && !edits.length;
      root.replaceChildren(el("span", "pg-label", words.label), ...list, clear);
      if (edits.length) root.append(el("span", "pg-muted", words.edited));
    };
    onSelect(() => {
      paint();
      const now = JSON.stringify(value());
      if (now === sent) return;
      sent = now;
      props.value = value();
      trigger("select", { index: 0, value: now });
    });
    return (payload) => {
      ({ words, kinds, hues } = payload);
      playground.hues = hues;
      playground.editName = (edit) => named(kinds, edit);
      if (payload.heads) {
        playground.firstHeads ??= payload.heads;
        Object.assign(selection, { heads: payload.heads, edits: payload.edits });
        if (payload.tokens) { // of a prompt whose chips may not be on the page yet
          const chips = document.querySelector('[data-part="tokens"]')?.dataset.run;
          Object.assign(selection, { tokens: payload.tokens, pair: payload.pair });
          playground.tokensOf = chips === payload.run ? null : payload.run;
        }
        props.value = value();
        sent = JSON.stringify(props.value);
      }
      select({});
    };
  });
})();
