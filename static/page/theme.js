// The light or dark theme and its listeners.
const listeners = new Set();

export const isDark = () => document.body.classList.contains("dark");

// Told after each change: listener(dark).
export const onTheme = (listener) => listeners.add(listener);

let last = isDark();
new MutationObserver(() => {
  const dark = isDark();
  if (dark === last) return;
  last = dark;
  for (const listener of listeners) listener(dark);
}).observe(document.documentElement, { attributes: true, subtree: true, attributeFilter: ["class"] });
