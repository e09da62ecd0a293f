// The strip that lists the selected heads and tokens, each with a remove button; the edits have their own line.

import { cross } from "../../parts/icons.js";
import { el, fill } from "../dom.js";
import { define } from "../mount.js";
import { pageState } from "../state.js";
import { headNames } from "./head_list.js";
import { offButton } from "./off.js";
import { adds, alwaysAdd, onSelect, select, selection } from "./selection.js";
import { tokenButtons } from "./token_edits.js";
import { nameWatched, ROLES, tokenText, watch, watchedText } from "./watched.js";

// Name the place at which a vector is added: its site, and its tokens if it is not added to all.
function placed(places, edit) {
  const place = fill(places[edit.site] ?? "", edit);
  return edit.positions === undefined ? place : fill(places.some, { ...edit, place });
}
// Name the tokens of an edit: a single one by its text, several by their positions.
function which(places, { positions }) {
  const text = /^\d+$/.test(positions ?? "") && pageState.tokens?.[+positions]?.text;
  return text ? `“${text}” (${positions})` : fill(places.tokens, { positions });
}
// Format the name of an edit from the words of its kind and its parameters.
const named = (kinds, places, edit) =>
  fill(kinds[edit.kind] ?? edit.kind, {
    ...edit,
    name: edit.name ?? places.unnamed,
    place: placed(places, edit),
    which: which(places, edit),
    at: edit.layer === undefined ? "" : `${edit.layer}.${edit.head}`,
    token: tokenText(edit.token),
  });

define("selection", (root, props, ask) => {
  let words = null,
    kinds = {},
    hues = [];
  let sent = "",
    said = ""; // message about what the server had to drop
  const value = () => ({
    heads: selection.heads,
    tokens: selection.tokens,
    pair: selection.pair,
    edits: selection.edits,
    target: selection.target,
    distractor: selection.distractor,
    of: selection.of,
  });
  const off = offButton(() => selection.heads, { off: "head_off", on: "head_on", beside: false });
  const item = (text, drop, hue) => {
    const chip = el("span", hue ? "pg-selected pg-selected-hued" : "pg-selected", text);
    if (hue) chip.style.setProperty("--pg-hue", hue);
    if (drop) chip.append(cross(`${words.remove}: ${text}`, drop));
    return chip;
  };
  const paint = () => {
    if (!words) return;
    const { heads, tokens } = selection,
      watched = ROLES.filter((role) => selection[role] !== null);
    const several = heads.length > 1;
    const items = [
      ...heads.map(([layer, head], i) => {
        const drop = several && (() => select({ heads: heads.filter((_, n) => n !== i) }));
        const chip = item(fill(words.head, { layer, head }), drop, hues[i % hues.length]);
        chip.title = fill(words.heads, { layer, head });
        chip.firstChild.after(headNames(layer, head));
        return chip;
      }),
      off.root,
      ...tokens.map((at) =>
        item(`${words.token} ${pageState.tokens?.[at]?.text ?? ""} (${at})`, () =>
          select({ tokens: tokens.filter((token) => token !== at) }),
        ),
      ),
      ...tokenButtons(words, pageState.tokenEdits),
      ...watched.map((role) => item(`${words[role]} ${watchedText(role)}`, () => watch(role, null))),
    ];
    const list = items.length ? items : [el("span", "pg-muted", words.none)];
    const clear = cross(words.clear, () =>
      select({ tokens: [], heads: heads.slice(-1), target: null, distractor: null }),
    );
    clear.hidden = !tokens.length && !several && !watched.length;
    const add = el("button", "pg-button pg-quiet pg-add", words.add, { type: "button", "aria-pressed": adds() });
    add.title = words.add_help;
    add.onclick = () => {
      alwaysAdd(!adds());
      root.querySelector(".pg-add").focus();
    };
    root.replaceChildren(el("span", "pg-label", words.label), clear, ...list, add);
    if (said) root.append(el("span", "pg-selection-said", said, { role: "status" }));
  };
  onSelect(() => {
    const now = JSON.stringify(value());
    if (now !== sent) said = "";
    paint();
    if (now === sent) return;
    sent = now;
    props.value = value();
    ask("select");
  });
  return (payload) => {
    ({ words, kinds, hues } = payload);
    pageState.hues = hues;
    pageState.editSites = payload.sites;
    pageState.editMany = payload.many;
    pageState.editName = (edit) => named(kinds, payload.places, edit);
    if (payload.heads) {
      pageState.firstHeads ??= payload.heads;
      const { heads, edits, target, distractor, of } = payload;
      Object.assign(selection, { heads, edits, target, distractor, of });
      for (const role of ROLES) if (payload[role] !== null) nameWatched(payload[role], payload.names[role]);
      for (const [id, text] of payload.directions) nameWatched(id, text);
      said = (payload.dropped ?? []).map((name) => words[`dropped_${name}`]).join(" ");
      if (payload.tokens) {
        // the prompt's chips may not be mounted yet
        const chips = document.querySelector('[data-part="tokens"]')?.dataset.run;
        Object.assign(selection, { tokens: payload.tokens, pair: payload.pair });
        pageState.tokensOf = chips === payload.run ? null : payload.run;
      }
      props.value = value();
      sent = JSON.stringify(props.value);
    }
    select({});
  };
});
