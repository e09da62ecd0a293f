// The light or dark theme, the visitor's choice of it, and its listeners.
const KEY = "playground-theme", // as in viz/server/first_frame.py, which applies the choice before the first paint
  system = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set();

export const THEMES = ["system", "light", "dark"];
export const isDark = () => document.body.classList.contains("dark");

// Register a listener that is called after each change: listener(dark).
export const onTheme = (listener) => listeners.add(listener);

function stored() {
  try {
    const name = localStorage.getItem(KEY);
    return THEMES.includes(name) ? name : "system";
  } catch {
    return "system"; // storage is unavailable
  }
}
let choice = stored();
export const themeChoice = () => choice;

const dress = (dark) => document.body.classList.toggle("dark", dark);

// Apply one of THEMES and remember it.
export function chooseTheme(name) {
  choice = name;
  try {
    if (name === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, name);
  } catch {
    /* storage is unavailable: the choice lasts until the page is closed */
  }
  dress(name === "system" ? system.matches : name === "dark");
}

// Apply the theme to scroll bars, select menus and other elements that the browser renders itself.
const dressBrowser = (dark) => {
  document.documentElement.style.colorScheme = dark ? "dark" : "light";
};

const first = document.documentElement.dataset.theme;
if (first) dress(first === "dark");
let last = isDark();
dressBrowser(last);
onTheme(dressBrowser);
new MutationObserver(() => {
  if (choice !== "system" && isDark() !== (choice === "dark")) dress(choice === "dark"); // Gradio follows the system
  const dark = isDark();
  if (dark === last) return;
  last = dark;
  for (const listener of listeners) listener(dark);
}).observe(document.documentElement, { attributes: true, subtree: true, attributeFilter: ["class"] });

// Follow a choice made on another page of this browser.
window.addEventListener("storage", ({ key }) => key === KEY && chooseTheme(stored()));
