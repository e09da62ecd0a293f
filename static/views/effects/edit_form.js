// The form for a new edit: its target, its kind, the parameters of that kind, and the attention link to block.
//
// `desk`: { payload, form: { kind, factor, everywhere, block, neuron, value, token, positions, pair } }; see edits.js.
import { el, fill } from "../../page/dom.js";
import { selection } from "../../page/selection/selection.js";
import { positionsText } from "../../page/selection/token_edits.js";
import { ROLES, watchedText } from "../../page/selection/watched.js";
import { choices, labeled, numbered } from "./widgets.js";

export const kindOf = ({ payload, form }) => payload.kinds.find(({ key }) => key === form.kind);

// Return the link to block: the pair selected on the page, unless another one is set in the form.
export function pairOf({ payload, form }) {
  if (form.pair) return form.pair;
  const { tokens, pair } = selection,
    end = payload.tokens.length - 1;
  if (pair) return pair;
  if (tokens.length > 1) return [Math.max(...tokens), Math.min(...tokens)];
  const query = tokens[0] ?? end;
  return [query, Math.max(query - 1, 0)];
}

// Return the tokens whose direction can be edited: target and distractor first, then the prompt's tokens.
function offered({ roles, vocabulary }) {
  const watched = ROLES.filter((role) => selection[role] !== null).map((role) => [
    selection[role],
    `${roles[role]} ${watchedText(role)}`,
  ]);
  return [...watched, ...vocabulary.filter(([id]) => !watched.some(([other]) => other === id))];
}

// Return the positions that can be edited: the selected tokens together first, then each token.
function listed({ tokens, words }) {
  const each = tokens.map((text, at) => [String(at), `${at} ${text}`]),
    picked = positionsText(selection.tokens),
    names = selection.tokens.map((at) => tokens[at]).join("");
  if (selection.tokens.length < 2) return each;
  return [[picked, fill(words.positions_picked, { tokens: names })], ...each];
}

const typed = (limits) => el("input", "", "", { type: "number", ...limits });

// Build the fields that only some kinds of edits need, by name; changed() is called after each change.
function neededFields({ payload, form }, changed) {
  const { words, layers, neurons, value, factor } = payload,
    tokens = offered(payload);
  if (!tokens.some(([id]) => id === form.token)) form.token = tokens[0][0];
  const places = listed(payload);
  if (!places.some(([text]) => text === form.positions))
    form.positions = selection.tokens.length ? positionsText(selection.tokens) : places.at(-1)[0];
  // `read` converts the input's text to a value of the form.
  const field = (name, text, input, read) => {
    input.value = form[name];
    input.oninput = () => {
      form[name] = read(input.value);
      changed();
    };
    return [name, labeled(text, input, name)];
  };
  return new Map([
    field("block", words.layer, choices(numbered(layers), form.block), Number),
    field("neuron", words.neuron, typed({ step: 1, min: 0, max: neurons - 1 }), String),
    field("positions", words.positions, choices(places, form.positions), String),
    field(
      "token",
      kindOf({ payload, form }).of === "token" ? words.other_token : words.token,
      choices(tokens, form.token),
      Number,
    ),
    field("value", words.value, typed({ step: "any", min: -value, max: value }), String),
    field("factor", words.factor, typed({ step: "any", min: -factor, max: factor }), String),
  ]);
}

// Build the fields of a link: its query and key token, and the heads.
function linkFields(desk, changed) {
  const { payload, form } = desk,
    { words, tokens } = payload,
    options = tokens.map((text, at) => [at, `${at} ${text}`]),
    [query, key] = pairOf(desk),
    from = choices(options, query),
    to = choices(options, key),
    where = [
      ["picked", words.where_picked],
      ["all", words.where_all],
    ],
    everywhere = choices(where, form.everywhere ? "all" : "picked");
  from.onchange = to.onchange = () => {
    form.pair = [+from.value, +to.value];
    changed();
  };
  everywhere.onchange = () => {
    form.everywhere = everywhere.value === "all";
    changed();
  };
  return [
    labeled(words.query, from, "query"),
    labeled(words.key, to, "key"),
    labeled(words.where, everywhere, "where"),
  ];
}

// Build the form. Returns { fields, help, link, draw, drawLink }: three elements and the functions that draw them.
export function editForm(desk, changed) {
  const fields = el("div", "pg-controls"),
    help = el("p", "pg-about"),
    link = el("div", "pg-controls");
  const drawLink = () => {
    if (!link.hidden) link.replaceChildren(...linkFields(desk, changed));
  };
  const draw = () => {
    const { words, kinds, groups } = desk.payload,
      { form } = desk,
      { of } = kindOf(desk),
      needed = neededFields(desk, changed);
    const named = (list) => list.map(({ key, name }) => [key, name]),
      group = choices(named(groups), of),
      kind = choices(named(kinds.filter((each) => each.of === of)), form.kind);
    const show = () => {
      const { about, needs } = kindOf(desk);
      help.textContent = needs.includes("token") ? `${about} ${words.any_token}` : about;
      for (const [name, node] of needed) node.hidden = !needs.includes(name);
      needed.get("block").hidden = !needs.includes("layer") || of === "heads";
      link.hidden = form.kind !== "block_edge";
      drawLink();
    };
    group.onchange = () => {
      form.kind = kinds.find((each) => each.of === group.value).key;
      draw();
      changed();
      fields.querySelector("select").focus();
    };
    kind.onchange = () => {
      form.kind = kind.value;
      show();
      changed();
    };
    fields.replaceChildren(labeled(words.of, group, "of"), labeled(words.change, kind, "kind"), ...needed.values());
    show();
  };
  return { fields, help, link, draw, drawLink };
}
