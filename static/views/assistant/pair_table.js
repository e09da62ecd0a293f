// A table of the pairs so far: texts can be edited, swapped or removed, and pairs saved to a file or loaded from one.
import { save } from "../../export/files.js";
import { el, fill } from "../../page/dom.js";
import { cross, iconButton } from "../../parts/icons.js";
import { button } from "../../parts/run.js";
import { rowOf, tableOf } from "../../parts/table.js";
import { asLines, clear, edit, fromLines, pairs, remove } from "./pairs.js";

const SHOWN = 50; // number of rows shown initially

function pairRow(index, { words, longest }) {
  const pair = pairs[index],
    { chosen, rejected } = pair;
  const text = (key) => {
    const field = el("textarea", "", "", { rows: 3, "aria-label": words[key], maxlength: longest });
    field.value = pair[key];
    field.onchange = () => {
      if (field.value === pair[key === "chosen" ? "rejected" : "chosen"]) field.value = pair[key];
      else edit(index, { [key]: field.value, by: "person" });
    };
    return field;
  };
  const swap = () => edit(index, { chosen: rejected, rejected: chosen, by: "person" }),
    acts = [
      iconButton("swap", words.swap, swap, { look: "pg-cross", title: words.swap }),
      cross(words.remove, () => remove(index), { title: words.remove }),
    ];
  return rowOf([
    pair.prompt,
    text("chosen"),
    text("rejected"),
    words[`by_${pair.by}`],
    { look: "pg-pairs-acts", inside: acts },
  ]);
}

// put(pairs) adds the pairs of a file; say(text) reports the result. Returns { nodes, draw(payload, agreement) }.
export function pairTable(put, say) {
  const head = el("div", "pg-pairs-head"),
    box = el("div", "pg-lab-scroll"),
    file = el("input", "", "", { type: "file", accept: ".jsonl,.json,.txt" });
  let shown = SHOWN,
    payload = null;
  file.hidden = true;
  const keep = () => save("pairs.jsonl", new Blob([asLines()], { type: "application/jsonl" }));
  file.onchange = async () => {
    const [chosen] = file.files;
    file.value = "";
    if (!chosen) return;
    try {
      const found = fromLines(await chosen.text(), payload.longest);
      put(found);
      say(fill(payload.words.loaded, { n: found.length }));
    } catch (line) {
      say(fill(payload.words.wrong_line, { line }));
    }
  };
  const fillHead = (agreement) => {
    const { words } = payload,
      by = (who) => pairs.filter((pair) => pair.by === who).length,
      counts = fill(words.counts, { n: pairs.length, person: by("person"), rule: by("rule") }),
      agreed = agreement && by("person") ? fill(words.agreement, agreement) : "",
      enabled = pairs.length > 0;
    head.replaceChildren(
      el("h2", "", words.pairs),
      el("span", "pg-pairs-count", counts),
      el("span", "pg-muted", agreed),
      button(words.save, keep, { enabled }),
      button(words.load, () => file.click()),
      button(words.clear, clear, { enabled }),
    );
  };
  const draw = (next, agreement) => {
    payload = next;
    const { words } = payload,
      n = Math.min(pairs.length, shown);
    fillHead(agreement);
    // The newest pair comes first, since it is the most likely one to be revised.
    const rows = Array.from({ length: n }, (_, i) => pairRow(pairs.length - 1 - i, payload));
    const columns = ["prompt", "chosen", "rejected", "by", "change"].map((key) => words[key]),
      parts = [tableOf({ look: "pg-lab-table pg-pairs-table", columns, rows })];
    if (pairs.length > n)
      parts.push(
        button(fill(words.more, { n: pairs.length - n }), () => {
          shown = pairs.length;
          draw(payload, agreement);
        }),
      );
    box.replaceChildren(...(pairs.length ? parts : [el("p", "pg-muted", words.none)]));
  };
  return { nodes: [head, box, file], draw };
}
