// The view "Check a tutorial": a pasted page, its recomputed numbers marked in the text, and a list that jumps to them.
//
// payload: { pieces [[text, index of its claim or -1]], claims [{ verdict, kind, stated, right, formula, note, line }],
//   counts { right, loose, wrong, inputs, left }, example, cut, words, kinds, most, title, source, file },
//   or { same, words, kinds } if the server was only told that the page keeps its answer
// value: { text }, { kept }, or nothing for the example
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { icon } from "../../parts/icons.js";
import { titled } from "../../parts/titled.js";

const ORDER = ["wrong", "loose", "right"];
const ICONS = { wrong: "cross", loose: "same", right: "tick" };
const KEPT = 20_000; // characters above which a checked text is not sent again with other questions

// Build the list of the checked numbers with a verdict; jump(index) shows one in the text.
function places(payload, verdict, jump) {
  const { claims, words } = payload,
    listed = claims.flatMap((claim, index) => (claim.verdict === verdict ? [[claim, index]] : []));
  if (!listed.length) return [];
  const details = el("details", "pg-proofs"),
    list = el("ol", "pg-proof-list");
  details.open = verdict !== "right";
  details.append(el("summary", "", fill(words[`list_${verdict}`], { n: listed.length })), list);
  for (const [claim, index] of listed) {
    const button = el("button", "pg-proof-place", "", { type: "button" }),
      item = el("li");
    button.append(
      el("span", "pg-muted", fill(words.line, { n: claim.line })),
      el("b", "", verdict === "right" ? claim.stated : `${claim.stated} → ${claim.right}`),
      el("code", "", claim.formula),
    );
    button.onclick = () => jump(index);
    item.append(button);
    list.append(item);
  }
  return [details];
}

// Build the summary: how many numbers are right, loose, wrong, and not recomputed.
function summary({ counts, words }) {
  const row = el("p", "pg-proof-counts", "", { role: "status" });
  for (const name of ["right", "loose", "wrong"]) {
    const item = el("span", `pg-proof-count pg-proof-${name}`);
    item.append(icon(ICONS[name]), ` ${fill(words[`count_${name}`], { n: counts[name] })}`);
    row.append(item);
  }
  row.append(
    el("span", "pg-muted", fill(words.count_inputs, { n: counts.inputs })),
    el("span", "pg-muted", fill(words.count_left, { n: counts.left })),
  );
  return row;
}

define("handtutorial", (root, props, send) => {
  let payload = null,
    chosen = -1;
  const field = el("label", "pg-proof-field"),
    label = el("span", "pg-control-label"),
    area = el("textarea", "", "", { rows: 3, spellcheck: "false", "data-name": "text" }),
    acts = el("div", "pg-proof-acts"),
    check = el("button", "pg-button pg-primary", "", { type: "button", "data-act": "check" }),
    back = el("button", "pg-button pg-quiet", "", { type: "button", "data-act": "example" }),
    told = el("span", "pg-muted", "", { role: "status" }),
    counts = el("div"),
    text = el("div", "pg-proof-text", "", { tabindex: 0, role: "group" }),
    why = el("div", "pg-proof-why", "", { role: "status" }),
    side = el("div", "pg-proof-side"),
    both = el("div", "pg-proof-both");
  field.append(label, area);
  acts.append(check, back, counts, told);
  side.append(why);
  both.append(text, side);
  const show = titled(root, field, acts, both);
  const ask = (value) => {
    props.value = value;
    send("select");
  };
  check.onclick = () => {
    told.textContent = payload.words.checking;
    ask({ text: area.value });
  };
  back.onclick = () => {
    area.value = "";
    ask({});
  };
  area.onkeydown = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) check.click();
  };
  const markAt = (index) => text.querySelector(`[data-claim="${index}"]`);
  const explain = () => {
    const claim = payload.claims[chosen],
      { words: w, kinds } = payload;
    why.replaceChildren();
    why.dataset.verdict = claim?.verdict ?? "";
    if (!claim) {
      why.append(el("span", "pg-muted", payload.claims.length ? w.choose : w.nothing));
      return;
    }
    const line = el("strong");
    line.append(icon(ICONS[claim.verdict]), ` ${fill(w[`said_${claim.verdict}`], claim)}`);
    why.append(line, el("span", "pg-muted", kinds[claim.kind]), el("code", "", `${claim.formula} = ${claim.right}`));
    if (claim.note) why.append(el("span", "", w[claim.note]));
  };
  const choose = (index, jump) => {
    markAt(chosen)?.setAttribute("aria-pressed", "false");
    chosen = index;
    const mark = markAt(index);
    mark?.setAttribute("aria-pressed", "true");
    explain();
    if (!jump || !mark) return;
    text.scrollTop += mark.getBoundingClientRect().top - text.getBoundingClientRect().top - text.clientHeight / 3;
    mark.focus({ preventScroll: true });
  };
  const marked = () => {
    text.replaceChildren(
      ...payload.pieces.map(([piece, index]) => {
        if (index < 0) return document.createTextNode(piece);
        const { verdict, right } = payload.claims[index],
          mark = el("button", `pg-proof pg-proof-${verdict}`, piece, {
            type: "button",
            "data-claim": index,
            "aria-pressed": "false",
            "aria-label": fill(payload.words[`said_${verdict}`], { stated: piece, right }),
          });
        mark.onclick = () => choose(index, false);
        return mark;
      }),
    );
    text.setAttribute("aria-label", payload.words.marked);
  };
  const draw = (next) => {
    if (next.same && !payload) {
      ask({}); // a page that no longer has its text
      return;
    }
    payload = next.same ? { ...payload, words: next.words, kinds: next.kinds } : next;
    const { words: w } = payload;
    label.textContent = w.paste;
    area.placeholder = w.placeholder;
    check.textContent = w.check;
    back.textContent = w.back;
    back.hidden = payload.example;
    told.textContent = payload.cut ? fill(w.cut, { n: payload.most.toLocaleString() }) : "";
    if (!next.same) {
      const whole = payload.pieces.map(([piece]) => piece).join("");
      if (payload.example || !area.value) area.value = whole;
      if (whole.length > KEPT) props.value = { kept: true };
      chosen = payload.claims.findIndex(({ verdict }) => verdict === "wrong");
    }
    counts.replaceChildren(summary(payload));
    marked();
    side.replaceChildren(why, ...ORDER.flatMap((verdict) => places(payload, verdict, (index) => choose(index, true))));
    choose(chosen, false);
    const names = ["line", "verdict", "stated", "right", "kind", "formula"].map((name) => w[`column_${name}`]);
    show(payload, {
      names,
      lines: payload.claims.map((c) => [
        c.line,
        w[`verdict_${c.verdict}`],
        c.stated,
        c.right,
        payload.kinds[c.kind],
        c.formula,
      ]),
    });
    root.dataset.run = `${payload.example} ${payload.claims.length}`;
  };
  draw.stateOf = () => null; // a pasted page belongs into no address
  return draw;
});
