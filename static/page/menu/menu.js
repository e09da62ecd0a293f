// The menu of the page itself: its theme (as the system, light, or dark), the list of its keys, and attention arrays.
import { iconButton } from "../../parts/icons.js";
import { alongColumn, el, roving } from "../dom.js";
import { headerItem } from "../header_items.js";
import { popup } from "../popup.js";
import { chooseTheme, THEMES, themeChoice } from "../theme.js";
import { choose as chooseArrays, renameArrays } from "./arrays.js";
import { nameKeys, openKeys } from "./keys.js";

headerItem(60, (words) => {
  nameKeys(words);
  const place = el("span", "pg-menu"),
    open = iconButton("theme", words.menu, null, { look: "pg-button pg-quiet pg-menu-open", title: words.menu }),
    box = el("div", "pg-menu-box", "", { popover: "auto", role: "dialog", "aria-label": words.menu }),
    themes = el("div", "pg-menu-themes", "", { role: "group", "aria-label": words.theme });
  open.append(el("span", "", words.menu));
  const themed = () => {
    for (const button of themes.children) button.setAttribute("aria-pressed", button.dataset.theme === themeChoice());
  };
  const close = popup(open, box, {
    width: 210,
    right: true,
    opening: themed,
    opened: () => box.querySelector("[aria-pressed=true]").focus(),
  });
  const item = (look, text, act, more = {}) => {
    const button = el("button", `pg-button ${look}`, text, { type: "button", ...more });
    button.dataset.index = box.querySelectorAll("button").length;
    button.onclick = act;
    return button;
  };
  box.append(el("span", "pg-label", words.theme), themes);
  for (const name of THEMES) {
    const choose = () => {
      chooseTheme(name);
      themed();
    };
    themes.append(item("", words[`theme_${name}`], choose, { "data-theme": name }));
  }
  const show = () => {
    close();
    openKeys();
  };
  const keys = item("pg-keys-open", words.keys, show, { title: words.keys_help });
  keys.append(el("kbd", "", "?"));
  const openArrays = () => {
    close();
    chooseArrays();
  };
  box.append(keys, item("pg-arrays-open", words.arrays, openArrays, { title: words.arrays_help }));
  roving(box, alongColumn);
  place.append(open, box);
  renameArrays();
  return place;
});
