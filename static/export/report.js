// The session report: everything drawn on this page for the current prompt, in one HTML file.

import { talkText } from "../page/chat/chat.js";
import { el, fill } from "../page/dom.js";
import { headerItem } from "../page/header_items.js";
import { mounted, onDrawn } from "../page/mount.js";
import { promptText } from "../page/prompt/prompt.js";
import { selection } from "../page/selection/selection.js";
import { pageState } from "../page/state.js";
import { save } from "./files.js";
import { folded, page, pause, section } from "./onefile.js";
import { exportWords, sourceOf, sources } from "./sources.js";
import { styles } from "./styles.js";

const MOST = 1500; // maximum number of listed tokens
// Kinds of parts with inputs or explanations, whose content the report shows elsewhere.
const ASKING = new Set([
  "header",
  "notice",
  "guide",
  "programs",
  "tokens",
  "selection",
  "edited",
  "address",
  "linked",
  "shortfall",
  "glossary",
  "controls",
  "job",
  "question",
  "howto",
  "codelines",
  "about",
  "edits",
  "strategies",
  "pipeline",
  "feed",
  "training",
  "tuning",
]);
const RUNS = new Set(["training", "tuning"]); // kinds of forms that contain the figures of a run
let words = null,
  status = [],
  run = "",
  tabs = [],
  busy = false;
onDrawn((root, payload) => {
  if (payload?.report) ({ report: words, status, run, tabs } = payload);
});

const payloadOf = (part) => part?.payload() ?? null;
const isSeen = ({ root }) => root.clientWidth > 0 && !root.hidden;
const before = (a, b) => (a.root.compareDocumentPosition(b.root) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1);

// Return the opened tabs in page order, each with its views and its parts as displayed.
function opened() {
  const parts = [...mounted].map(([name, part]) => ({ name, ...part }));
  return tabs.flatMap(([key, label]) => {
    const question = mounted.get(`${key}_question`) ?? (key === "attention" ? mounted.get("question") : null);
    const panel = question?.root.closest(".tabitem");
    if (!panel) return [];
    const inPanel = parts.filter(({ root }) => panel.contains(root)).sort(before);
    const choosing = inPanel
      .filter(({ kind }) => kind === "controls")
      .map(payloadOf)
      .find((payload) => payload?.shows);
    const labels = new Map(choosing?.controls.find(({ kind }) => kind === "views")?.options ?? []);
    const inView = new Set(Object.values(choosing?.shows ?? {}).flat()),
      taken = new Set();
    const views = [{ label: "", parts: inPanel.filter(({ name }) => !inView.has(name)) }];
    for (const [view, names] of Object.entries(choosing?.shows ?? {})) {
      views.push({
        label: labels.get(view) ?? view,
        parts: inPanel.filter(({ name }) => names.includes(name) && !taken.has(name)),
      });
      names.forEach((name) => taken.add(name));
    }
    return [{ label, question: payloadOf(question)?.text ?? "", views }];
  });
}

const titleOf = ({ root }, payload) =>
  payload?.title || root.querySelector("h2")?.textContent || payload?.words?.title || "";
// Return the figures of a part: one figure per menu if it has several, otherwise the complete part.
function figuresOf(part) {
  const roots = [...sources.keys()].filter(
    (root) => part.root.contains(root) && !root.hidden && !root.closest("[hidden]:not([data-part])"),
  );
  if (ASKING.has(part.kind)) return RUNS.has(part.kind) ? roots : [];
  return roots.includes(part.root) || !roots.length ? [part.root] : roots.length === 1 ? [part.root] : roots;
}
function asFigure(root, roots) {
  const source = sources.has(root) ? root : roots.length === 1 ? roots[0] : null,
    description = source ? sourceOf(source) : null;
  const plain = description && source !== root; // true if the part contains more than the figure with the menu
  return description
    ? { ...description, root, figure: plain && root.children.length > 1 ? undefined : description.figure }
    : { root, title: "", source: "", python: "", words: exportWords() };
}

function lead(payload) {
  const about = payload.parts ? Object.values(payload.parts) : [];
  return about.length ? folded(words.explanation, ...about.map((text) => el("p", "", text))) : null;
}

const fact = (list, name, ...content) => {
  const text = el("dd");
  text.append(...content);
  list.append(el("dt", "", name), text);
};
// Describe the run: the model, the prompt and its tokens, the selection, and the edits.
function facts() {
  const list = el("dl", "pg-report-facts"),
    tokens = pageState.tokens ?? [],
    { heads, tokens: picked, pair, edits } = selection;
  fact(list, words.model, el("bdi", "", status.join(" · ")));
  fact(list, words.prompt, el("pre", "", talkText() ?? promptText() ?? ""));
  const chips = el("div", "pg-report-tokens");
  chips.append(
    ...tokens.slice(0, MOST).map(({ text, id }, at) => el("bdi", "pg-report-token", text, { title: `${at}: ${id}` })),
  );
  if (tokens.length > MOST) chips.append(el("span", "", fill(words.tokens_cut, { n: tokens.length - MOST })));
  fact(list, fill(words.tokens, { n: tokens.length }), chips);
  const selected = [
    heads.length && fill(words.heads, { heads: heads.map((head) => head.join(".")).join(", ") }),
    picked.length &&
      fill(words.positions, { tokens: picked.map((at) => `${at} ${tokens[at]?.text ?? ""}`).join(", ") }),
    pair && fill(words.cell, { query: pair[0], key: pair[1] }),
  ].filter(Boolean);
  fact(list, words.picked, el("bdi", "", selected.join(" · ") || words.nothing));
  fact(
    list,
    words.edits,
    el(
      "bdi",
      "",
      edits.length
        ? edits.map((edit) => pageState.editName?.(edit) ?? JSON.stringify(edit)).join(" · ")
        : words.no_edits,
    ),
  );
  if (/^https?:$/.test(location.protocol))
    fact(list, words.link, el("a", "", words.link_text, { href: location.href, rel: "noreferrer" }));
  return list;
}

const heading = (tag, text, id) => el(tag, "", text, { id });
async function gather(tell) {
  const body = [],
    figures = [],
    left = [],
    contents = el("ol"),
    tabs = opened();
  const all = tabs.flatMap(({ views }) =>
    views.flatMap(({ parts }) => parts.filter(({ kind }) => !ASKING.has(kind) || RUNS.has(kind))),
  ).length;
  let done = 0,
    n = 0;
  for (const tab of tabs) {
    const inside = el("ol"),
      views = [];
    for (const view of tab.views) {
      const entries = [],
        texts = [];
      for (const part of view.parts) {
        const payload = payloadOf(part);
        if (part.kind === "about" && payload?.text) texts.push(el("p", "", payload.text));
        if (part.kind === "howto" && payload) texts.push(lead(payload));
        if (ASKING.has(part.kind) && !RUNS.has(part.kind)) continue;
        tell(++done, all);
        if (
          !payload ||
          payload.absent ||
          (!isSeen(part) && part.root.hidden && !part.root.dataset.run && !payload.scene)
        )
          continue;
        const where = [tab.label, view.label, titleOf(part, payload)].filter(Boolean).join(" · ");
        if (payload.problem || payload.empty) {
          left.push([where, (payload.problem ?? payload.empty).text || words.left_empty]);
          continue;
        }
        if (payload.scene && payload.scene !== run && !isSeen(part)) {
          left.push([where, words.left_stale]);
          continue;
        }
        const roots = figuresOf(part);
        for (const root of roots) {
          await pause();
          try {
            const one = asFigure(
                root,
                [...sources.keys()].filter((each) => root.contains(each)),
              ),
              id = `f${++n}`;
            const node = section(one, figures, { heading: "h4" }),
              name = one.title || titleOf(part, payload) || view.label || tab.label;
            if (!node.textContent.trim() && !node.querySelector("[data-figure], img, svg")) continue;
            node.id = id;
            entries.push({ node, name, id });
          } catch (error) {
            left.push([where, words.left_broken]);
            console.warn(error);
          }
        }
      }
      if (!entries.length) continue;
      const id = `v${++n}`,
        box = el("section"),
        listed = el("li"),
        items = el("ul");
      if (view.label) box.append(heading("h3", view.label, id), ...texts.filter(Boolean));
      else box.append(...texts.filter(Boolean));
      box.append(...entries.map(({ node }) => node));
      items.append(
        ...entries.map(({ name, id: at }) => {
          const item = el("li");
          item.append(el("a", "", name, { href: `#${at}` }));
          return item;
        }),
      );
      if (view.label) listed.append(el("a", "", view.label, { href: `#${id}` }), items);
      inside.append(...(view.label ? [listed] : items.childNodes));
      views.push(box.outerHTML);
    }
    if (!views.length) continue;
    const id = `t${++n}`,
      item = el("li");
    item.append(el("a", "", tab.label, { href: `#${id}` }), inside);
    contents.append(item);
    body.push(
      heading("h2", tab.label, id).outerHTML,
      tab.question ? el("p", "", tab.question).outerHTML : "",
      ...views,
    );
  }
  return { body, figures, left, contents };
}

async function report(tell) {
  const title = words.title,
    { body, figures, left, contents } = await gather(tell);
  const top = el("header"),
    nav = el("nav", "", "", { "aria-label": words.contents }),
    end = el("section");
  top.append(
    el("h1", "", title),
    el(
      "p",
      "pg-source",
      fill(words.made, { date: new Date().toLocaleString(document.documentElement.lang || undefined) }),
    ),
    facts(),
  );
  nav.append(el("h2", "", words.contents), contents);
  end.append(el("h2", "", words.left));
  if (left.length) {
    const list = el("ul");
    list.append(...left.map(([where, why]) => el("li", "", `${where}: ${why}`)));
    end.append(el("p", "", words.left_about), list);
  } else end.append(el("p", "", words.left_none));
  const css = `${styles()}\n${STYLE}`;
  return page({
    title,
    css,
    figures,
    body: [
      top.outerHTML,
      contents.childElementCount ? nav.outerHTML : el("p", "", words.empty).outerHTML,
      ...body,
      end.outerHTML,
    ],
  });
}
const STYLE = `
body > h2, body > section > h2 { margin: 40px 0 6px; padding-top: 10px; border-top: 2px solid var(--pg-line); font-size: 20px; } h3 { margin: 26px 0 4px; font-size: 16px; } h4 { margin: 18px 0 4px; font-size: 14px; }
.pg-report-facts { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 6px 16px; margin: 14px 0; } .pg-report-facts dt { color: var(--pg-soft); } .pg-report-facts dd { margin: 0; min-width: 0; } .pg-report-facts pre { margin: 0; max-height: 30vh; overflow: auto; }
.pg-report-tokens { display: flex; flex-wrap: wrap; gap: 3px; max-height: 30vh; overflow: auto; } .pg-report-token { padding: 0 5px; border: 1px solid var(--pg-line); border-radius: 4px; font: 12px/1.6 ui-monospace, Menlo, Consolas, monospace; white-space: pre-wrap; }
nav ol, nav ul { padding-left: 20px; }
@media (max-width: 480px) { .pg-report-facts { grid-template-columns: minmax(0, 1fr); gap: 2px; } .pg-report-facts dd { margin-bottom: 8px; } }
@media print { .pg-report-facts pre, .pg-report-tokens { max-height: none; } body > h2 { break-before: page; } }
`;

// --- the button in the page's header ---

const item = el("span", "pg-report"),
  button = el("button", "pg-button pg-quiet pg-report-open", "", { type: "button" });
const progress = el("span", "pg-muted", "", { role: "status" });
item.append(button, progress);
button.onclick = async () => {
  if (busy || !words) return;
  busy = button.disabled = true;
  progress.textContent = fill(words.making, { done: 0, all: "…" });
  await pause();
  try {
    const blob = await report((done, all) => {
      progress.textContent = fill(words.making, { done, all });
    });
    save(`attention-report-${status[0] ?? ""}-${new Date().toISOString().slice(0, 10)}.html`, blob);
    progress.textContent = words.done;
  } catch (error) {
    progress.textContent = words.failed;
    console.warn(error);
  }
  busy = button.disabled = false;
};
headerItem(30, (catalogue) => {
  button.textContent = catalogue.report;
  button.title = catalogue.report_help;
  return item;
});
