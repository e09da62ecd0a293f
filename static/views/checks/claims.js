// The view "Claims": a list of sentences in groups, each with its verdict on the loaded model and on a stored one.
//
// payload: { title, groups [{ name, rows [{ key, claim, verdicts [{ state, effect, interval, said } or null] }] }], chosen
//   (a key), models [name], states [[state, label]], source, file, python, words, run }; the first verdict of a row is
//   that of the loaded model, and null asks for a test. The value is the chosen key.
import { alongColumn, el, fill, roving } from "../../page/dom.js";
import { define, mounted, onDrawn } from "../../page/mount.js";
import { icon } from "../../parts/icons.js";
import { titled } from "../../parts/titled.js";

const SIGNS = { true: "tick", false: "cross", depends: "same", unable: "minus" };
const ONE = "claims_one"; // the part with the button that tests the chosen claim

function chip(verdict, labels) {
  const node = el("span", "pg-claim-verdict");
  if (!verdict) return node;
  const { state, effect, said } = verdict,
    top = el("b", "", "");
  node.dataset.state = state;
  node.title = said;
  top.append(icon(SIGNS[state]), labels[state]);
  node.append(top, el("small", "", effect));
  return node;
}

// The groups with only the rows of a state on the loaded model; all rows for "".
const filtered = (groups, state) =>
  groups
    .map((group) => ({ ...group, rows: group.rows.filter(({ verdicts }) => !state || verdicts[0]?.state === state) }))
    .filter(({ rows }) => rows.length);

// Count the rows by their state on the loaded model.
const counted = (groups, state) => filtered(groups, state).reduce((n, { rows }) => n + rows.length, 0);

const lines = ({ groups, models, states }) => {
  const labels = Object.fromEntries(states);
  return groups.flatMap(({ name, rows }) =>
    rows.map(({ claim, verdicts }) => [
      name,
      claim,
      ...models.flatMap((_, n) => {
        const { state, effect, interval } = verdicts[n] ?? {};
        return [labels[state] ?? "", effect ?? "", interval ?? ""];
      }),
    ]),
  );
};
const columns = ({ models, words: w }) => [
  "",
  w.claim,
  ...models.flatMap((model) => [w.verdict, w.effect, w.interval].map((each) => `${model}: ${each}`)),
];

define("claimlist", (root, props, ask) => {
  const bar = el("div", "pg-claim-bar", "", { role: "group" }),
    head = el("div", "pg-claim-head"),
    list = el("div", "pg-claim-list", "", { role: "group" }),
    show = titled(root, bar, head, list);
  let now = null,
    state = "", // the verdict that is shown alone
    wanted = ""; // the claim whose test starts once its button is there
  const choose = (key) => {
    props.value = key;
    ask("select");
  };
  const start = () => {
    const button = mounted.get(ONE)?.root.querySelector("button.pg-primary:not([disabled])");
    if (!button) return;
    wanted = "";
    button.click();
  };
  const test = (key) => {
    wanted = key;
    if (now.chosen === key) start();
    else choose(key);
  };
  onDrawn((drawn) => {
    if (wanted && drawn.dataset.part === ONE && now.chosen === wanted) start();
  });
  const rowOf = ({ key, claim, verdicts }, index, labels) => {
    const node = el("div", "pg-claim-row"),
      button = el("button", "pg-claim", "", {
        type: "button",
        "data-index": index,
        "data-key": key,
        "aria-pressed": key === now.chosen,
        tabindex: key === now.chosen ? 0 : -1,
      });
    button.append(el("span", "pg-claim-text", claim), ...verdicts.map((verdict) => chip(verdict, labels)));
    button.onclick = () => choose(key);
    node.append(button);
    if (!verdicts[0]) {
      const tester = el("button", "pg-button pg-claim-test", now.words.test, {
        type: "button",
        "aria-label": fill(now.words.test_help, { claim }),
      });
      tester.onclick = () => test(key);
      node.append(tester);
    }
    return node;
  };
  const arrange = () => {
    const labels = Object.fromEntries(now.states),
      at = list.scrollTop;
    root.style.setProperty("--pg-models", now.models.length);
    const filters = [["", now.words.every], ...now.states].map(([key, label]) => {
      const button = el("button", "pg-claim-filter", label, { type: "button", "aria-pressed": key === state });
      button.append(el("small", "", String(counted(now.groups, key))));
      button.onclick = () => {
        state = key;
        arrange();
        bar.querySelector('[aria-pressed="true"]')?.focus({ preventScroll: true });
      };
      return button;
    });
    bar.replaceChildren(...filters);
    head.replaceChildren(el("span", "pg-claim-text"), ...now.models.map((model) => el("b", "", model)));
    let index = 0;
    const groups = filtered(now.groups, state).flatMap(({ name, rows }) => [
      el("h3", "", name),
      ...rows.map((row) => rowOf(row, index++, labels)),
    ]);
    list.replaceChildren(...(groups.length ? groups : [el("p", "pg-muted", now.words.none)]));
    list.scrollTop = at;
    const buttons = list.querySelectorAll("button[data-index]");
    if (buttons.length && !list.querySelector('[tabindex="0"]')) buttons[0].tabIndex = 0;
  };
  roving(list, alongColumn);
  const draw = (payload) => {
    const focused = list.contains(document.activeElement) && document.activeElement.dataset.key;
    now = payload;
    bar.setAttribute("aria-label", now.words.show);
    list.setAttribute("aria-label", now.title);
    arrange();
    if (focused) list.querySelector(`[data-key="${focused}"]`)?.focus({ preventScroll: true });
    show(payload, { names: columns(now), lines: () => lines(now) });
  };
  draw.stateOf = (value) => value;
  return draw;
});
