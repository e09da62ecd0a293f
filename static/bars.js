// The strips above the tabs: header, notice, token chips, selection.
(() => {
  const { define, el, fill, roving, select, selection, onSelect } = window.playground;

  define("header", (root) => (payload) => {
    const title = el("h1", "", payload.title);
    const status = el("p", "pg-status", "", { "aria-live": "polite" });
    for (const part of payload.status) status.append(el("span", "", part));
    const language = el("a", "pg-language", payload.language.text, { href: `?lang=${payload.language.code}` });
    playground.slow = payload.slow;
    root.replaceChildren(title, el("p", "pg-tagline", payload.tagline), status, language);
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
      if (changed) select({ tokens: [] });
      paint();
    };
  });

  define("selection", (root, props, trigger) => {
    let words = null;
    let sent = "";
    const paint = () => {
      if (!words) return;
      const items = [
        ...selection.heads.map(([layer, head]) => fill(words.heads, { layer, head })),
        ...selection.tokens.map((at) => `${words.token} ${playground.tokens?.[at]?.text ?? ""} (${at})`),
      ];
      const list = items.length ? items.map((item) => el("span", "pg-selected", item)) : [el("span", "pg-muted", words.none)];
      const clear = el("button", "pg-button pg-quiet", words.clear, { type: "button" });
      clear.onclick = () => select({ tokens: [] });
      clear.hidden = !selection.tokens.length;
      root.replaceChildren(el("span", "pg-label", words.label), ...list, clear);
    };
    onSelect(() => {
      paint();
      const heads = JSON.stringify(selection.heads);
      if (heads === sent) return; // tokens are marked in the page; only heads are computed
      sent = heads;
      props.value = { heads: selection.heads };
      trigger("select", { index: 0, value: heads });
    });
    return (payload) => {
      words = payload.words;
      selection.heads = payload.heads;
      sent = JSON.stringify(payload.heads);
      select({});
    };
  });
})();
