// Prompts as programs: the questions of a variant, which expand to the prompt and the transcript.
//
// payload of "promptlist": { title, note, variants [[key, name]], shown, rows [{ question, answer, said, right, tied, prompt,
//   parts [[who, text]] }], words, file, source, run }
import { exporting } from "../../export/menu.js";
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { icon } from "../../parts/icons.js";

define("promptlist", (root, props, ask) => {
  const head = el("div", "pg-many-bar"),
    note = el("p", "pg-about"),
    list = el("ol", "pg-prompts"),
    foot = el("div");
  root.append(head, note, list, foot);

  const passage = (who, text) => {
    const part = el("div", "pg-prompts-part");
    part.append(el("b", "", who), el("pre", "", text));
    return part;
  };
  const item = (row, words) => {
    const node = el("li", row.right ? "pg-prompts-right" : "pg-prompts-wrong"),
      details = el("details"),
      summary = el("summary"),
      said = fill(row.said ? words.said : words.nothing, { said: row.said });
    const mark = el("span", "pg-prompts-mark", "", {
      role: "img",
      "aria-label": row.right ? words.right : words.wrong,
    });
    mark.append(icon(row.right ? "tick" : "cross"));
    summary.append(mark, el("span", "pg-prompts-question", row.question), el("span", "pg-prompts-said", said));
    if (!row.right) summary.append(el("span", "pg-muted", fill(words.expected, { answer: row.answer })));
    if (row.tied) summary.append(el("span", "pg-muted", row.tied));
    details.append(summary);
    // The transcript is built only when it is first opened.
    details.ontoggle = () => {
      if (!details.open || details.children.length > 1) return;
      details.append(passage(words.prompt, row.prompt), ...row.parts.map(([who, text]) => passage(who, text)));
    };
    node.append(details);
    return node;
  };
  const draw = (payload) => {
    const { words, variants, shown, rows } = payload;
    const both = el("label", "pg-inline"),
      select = el("select");
    select.append(...variants.map(([key, name]) => new Option(name, key)));
    select.value = shown;
    select.onchange = () => {
      props.value = { variant: select.value };
      ask("select");
    };
    both.append(el("span", "pg-muted", words.variant), select);
    head.replaceChildren(el("h2", "", payload.title), both);
    note.textContent = payload.note;
    list.replaceChildren(...rows.map((row) => item(row, words)));
    foot.replaceChildren(
      exporting(root, {
        file: payload.file,
        title: payload.title,
        note: payload.note,
        source: payload.source,
        names: [words.question, words.csv_answer, words.csv_said, words.right, words.prompt, words.csv_transcript],
        lines: rows.map((row) => [
          row.question,
          row.answer,
          row.said,
          row.right ? words.yes : words.no,
          row.prompt,
          row.parts.map(([who, text]) => `${who}: ${text}`).join("\n"),
        ]),
      }),
    );
    root.dataset.run = payload.run;
  };
  draw.stateOf = (value) => value;
  return draw;
});
