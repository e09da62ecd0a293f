// The light or dark theme and its listeners.
const listeners = new Set();

export const isDark = () => document.body.classList.contains("dark");

// Register a listener that is called after each change: listener(dark).
export const onTheme = (listener) => listeners.add(listener);

// Apply the theme to scroll bars, select menus and other elements that the browser renders itself.
const dressBrowser = (dark) => {
  document.documentElement.style.colorScheme = dark ? "dark" : "light";
};

let last = isDark();
dressBrowser(last);
onTheme(dressBrowser);
new MutationObserver(() => {
  const dark = isDark();
  if (dark === last) return;
  last = dark;
  for (const listener of listeners) listener(dark);
}).observe(document.documentElement, { attributes: true, subtree: true, attributeFilter: ["class"] });
