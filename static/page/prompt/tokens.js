// The prompt's tokens as a row of chips; clicking one selects it.
import { icon } from "../../parts/icons.js";
import { areJoined, framed, join, onJoin } from "../characters.js";
import { el, fill, hint, roving } from "../dom.js";
import { define } from "../mount.js";
import { adding, onSelect, pickToken, select, selection } from "../selection/selection.js";
import { pageState } from "../state.js";
import { writtenSpan } from "./look_inside.js";

define("tokens", (root) => {
  const label = el("span", "pg-label");
  const told = el("span", "pg-hint");
  const strip = el("div", "pg-chips", "", { role: "group" });
  const all = el("button", "pg-button pg-chips-all", "", { type: "button", "aria-expanded": "false" });
  const both = el("button", "pg-button pg-chips-join", "", { type: "button" });
  const note = el("p", "pg-tokens-note", "", { role: "status" });
  let chips = [];
  root.append(label, strip, all, both, told, note);
  // Show one row, or all rows on request.
  const room = () => {
    const open = strip.classList.contains("pg-chips-open");
    all.hidden = !open && strip.scrollWidth <= strip.clientWidth + 1;
    all.replaceChildren(...(open ? [icon("shut")] : [icon("open"), ` ${chips.length}`]));
  };
  all.onclick = () => {
    all.setAttribute("aria-expanded", strip.classList.toggle("pg-chips-open"));
    room();
  };
  new ResizeObserver(room).observe(strip);
  let current = null;
  const paint = () => {
    for (const chip of chips) {
      const on = selection.tokens.includes(+chip.dataset.index);
      chip.setAttribute("aria-pressed", on);
    }
  };
  const explain = (event) => {
    const at = event.target.closest?.(".pg-chip")?.dataset.index;
    const token = at === undefined ? null : current.tokens[at];
    told.textContent = token
      ? [fill(current.words.hint, { id: token.id, position: at, bytes: token.bytes }), token.part]
          .filter(Boolean)
          .join(" · ")
      : hint(current.words, "help");
  };
  strip.addEventListener("mouseover", explain);
  strip.addEventListener("focusin", explain);
  strip.addEventListener("mouseleave", () => {
    if (current) told.textContent = hint(current.words, "help");
  });
  strip.addEventListener("click", (event) => {
    const at = +(event.target.closest(".pg-chip")?.dataset.index ?? -1);
    if (at >= 0) pickToken(at, adding(event));
  });
  roving(strip, (key, at, n) => ({ ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: n - 1 })[key] ?? null);
  onSelect(paint);
  // The chips are created once; joining the tokens of a character only moves them.
  const lay = () => {
    both.hidden = !current?.frames.length;
    both.setAttribute("aria-pressed", areJoined());
    for (const small of strip.querySelectorAll(".pg-joined-id")) small.remove();
    strip.replaceChildren(
      ...framed(
        chips.map((chip) => [chip]),
        current.frames,
        current.tokens.map(({ id }) => id),
      ),
    );
    room();
  };
  both.onclick = () => join(!areJoined());
  onJoin(() => current && lay());
  return (payload) => {
    const changed = current?.run !== payload.run;
    current = payload;
    label.textContent = payload.words.label;
    strip.setAttribute("aria-label", payload.words.label);
    all.setAttribute("aria-label", payload.words.all);
    note.textContent = payload.note;
    note.hidden = !payload.note;
    root.classList.toggle("pg-noted", Boolean(payload.note));
    told.textContent = hint(payload.words, "help");
    both.textContent = payload.words.join;
    both.title = payload.words.join_help;
    chips = payload.tokens.map((token, index) => {
      const chip = el("button", "pg-chip", token.text, { type: "button", "data-index": index });
      chip.tabIndex = index ? -1 : 0;
      if (token.part) {
        chip.title = token.part;
        chip.setAttribute("aria-label", `${token.text}, ${token.part}`);
      }
      return chip;
    });
    lay();
    const written = writtenSpan(payload);
    if (written) {
      chips[written[0]].classList.add("pg-chip-first");
      for (const chip of chips.slice(...written)) chip.classList.add("pg-chip-written");
      strip.scrollLeft = strip.scrollWidth; // scroll to the newest token
    }
    root.dataset.run = payload.run;
    pageState.tokens = payload.tokens;
    pageState.shown = { model: payload.model, prompt: payload.prompt };
    if (changed) select(payload.run === pageState.tokensOf ? {} : { tokens: [] });
    if (payload.run === pageState.tokensOf) pageState.tokensOf = null; // used only once: returning to this run selects no tokens
    room();
    paint();
  };
});
