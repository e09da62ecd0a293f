// Destinations of the search: the page's own controls, a setting in its view, a strategy of Side by side.
import { go } from "../address/places.js";
import { chooseTheme, isDark } from "../theme.js";

const PATIENCE = 10_000, // milliseconds to wait for a view to draw its settings
  LOOK = 50,
  SETTLED = 600, // milliseconds until content above a setting has stopped moving it
  MARKED = 2000;

// --- the page's own controls ------------------------------------------------------------------------

const press = (selector) => () => {
  const all = [...document.querySelectorAll(selector)];
  return all.find((each) => each.getClientRects().length) ?? all[0];
};
// Each function returns its control, or nothing if the page lacks it. The keys match those in viz/page/search.py.
const CONTROLS = {
  learn: press(".pg-learn-open"),
  tour: press(".pg-header-items .pg-tour-open"),
  glossary: press(".pg-header-items .pg-glossary-open"),
  report: press(".pg-header-items .pg-report-open"),
  share: press(".pg-header-items .pg-share"),
  keys: press(".pg-keys-open"),
  arrays: press(".pg-arrays-open"),
  log_out: press(".pg-header-items .pg-log-out button"),
  language: press(".pg-header-items .pg-language"),
  examples: press("#pg-examples [aria-haspopup=dialog]"),
  models: press(".pg-models-open"),
  export: press("[data-screen] .pg-export-open"),
  theme: () => document.body,
};
export const ACTIONS = Object.keys(CONTROLS);

// List the available actions: { target, name, about, way }. `words` of the search name controls without a label.
export function actions(words) {
  return ACTIONS.flatMap((key) => {
    const control = CONTROLS[key]();
    if (!control || control.closest("[hidden]:not(.pg-tab)")) return [];
    const own = control === document.body ? "" : control.textContent.trim() || control.getAttribute("aria-label");
    return {
      target: `action.${key}`,
      name: words[`action_${key}`] ?? own,
      about: words[`action_${key}_about`] ?? control.title,
      way: [key],
    };
  });
}

// Perform an action.
export function act(key) {
  const control = CONTROLS[key]();
  if (control === document.body) chooseTheme(isDark() ? "light" : "dark");
  else {
    control?.scrollIntoView({ block: "nearest" });
    control?.click();
  }
}

// --- a setting --------------------------------------------------------------------------------------

let ways = 0; // number of navigations so far; a newer one cancels the previous one

// Wait until find() returns a result and resolve to it, or to nothing after a timeout.
async function found(find) {
  const mine = ++ways,
    until = performance.now() + PATIENCE;
  while (mine === ways && performance.now() < until) {
    const node = find();
    if (node) return node;
    await new Promise((done) => setTimeout(done, LOOK));
  }
  return null;
}
const seen = (node) => (node?.getClientRects().length ? node : null);
const inputOf = (field) => field.querySelector("select, input, textarea, button");

function set(field, value) {
  const input = inputOf(field);
  if (input.type === "checkbox") {
    if (input.checked !== value) input.click();
  } else if (input.value !== String(value)) {
    input.value = value;
    input.dispatchEvent(new Event("change", { bubbles: true }));
  }
}

function show(field, input) {
  field.scrollIntoView({ block: "center" });
  input.focus({ preventScroll: true });
  field.classList.add("pg-sought");
  setTimeout(() => field.classList.remove("pg-sought"), MARKED);
}

// Open the view of a setting, focus it, and select an option if one is specified. Settings on which its visibility
// depends are changed to show it.
export async function openSetting({ tab, view, part, name, when = {} }, option) {
  go(tab, view);
  const form = () => document.querySelector(`[data-part="${CSS.escape(part)}"]`);
  const fieldOf = (each) => form()?.querySelector(`[data-name="${CSS.escape(each)}"]`);
  const drawn = await found(() => seen(form()) && fieldOf(name) && form());
  if (!drawn) return;
  for (const [other, values] of Object.entries(when)) {
    const field = fieldOf(other);
    if (!field) continue; // the field does not exist for this model or prompt
    const { type, checked, value } = inputOf(field);
    if (!values.includes(type === "checkbox" ? checked : value)) set(field, values[0]);
  }
  if (option !== undefined) set(fieldOf(name), option);
  const aim = () => {
    const field = seen(fieldOf(name));
    if (field) show(field, inputOf(field));
    return field;
  };
  if (!aim()) return;
  setTimeout(() => {
    const field = fieldOf(name);
    if (field?.contains(document.activeElement)) field.scrollIntoView({ block: "nearest" });
  }, SETTLED);
}

// --- a strategy -------------------------------------------------------------------------------------

// Open Side by side, add a strategy to the comparison, and scroll its settings into view.
export async function openStrategy(key) {
  go("sampling", "side_by_side");
  const first = await found(() => seen(document.querySelector("[data-part=strategies] .pg-strat")));
  first?.closest("[data-part]").dispatchEvent(new CustomEvent("pg-choose", { detail: key }));
}
