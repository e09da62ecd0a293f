// The page's own styles, for files that stand alone.

// The framework gives each rule once as it is and once below its own classes, inside @media only the latter.
const LIVE = /:focus|:hover|::-webkit|::-moz/,
  OURS = /pg-|data-part/,
  OF_THE_PAGE = /pg-export|#pg-/;
const freed = (selector) =>
  selector
    .replace(/\.gradio-container(\.gradio-container-[\w-]+)? (\.contain )?(?=\S)/g, "")
    .replace(/(?<![\w.#-])button(?![\w-])/g, ":is(button, pg-button)");
function rulesOf(list, seen) {
  return [...list]
    .map((rule) => {
      if (rule.media) {
        const inner = rulesOf(rule.cssRules, new Set());
        return inner ? `@media ${rule.media.mediaText} {\n${inner}\n}` : "";
      }
      const selector = rule.selectorText;
      if (!selector || LIVE.test(selector) || !OURS.test(selector) || OF_THE_PAGE.test(selector)) return "";
      const text = `${freed(selector)} { ${rule.style.cssText} }`;
      if (seen.has(text)) return "";
      seen.add(text);
      return text;
    })
    .filter(Boolean)
    .join("\n");
}
const sheets = () =>
  [...document.styleSheets].flatMap((sheet) => {
    try {
      return [sheet.cssRules];
    } catch {
      return [];
    }
  });
export const styles = () =>
  sheets()
    .map((rules) => rulesOf(rules, new Set()))
    .filter(Boolean)
    .join("\n");
// The colours of a theme: { "--pg-text": "#1d2330", ... }.
export function colours(isDark) {
  for (const rules of sheets())
    for (const rule of rules) {
      if (
        rule.style?.getPropertyValue("--pg-text") &&
        /dark/.test(rule.selectorText) === isDark &&
        /^(\.dark )?\.gradio-container/.test(rule.selectorText)
      ) {
        return Object.fromEntries(
          [...rule.style]
            .filter((name) => name.startsWith("--pg-"))
            .map((name) => [name, rule.style.getPropertyValue(name).trim()]),
        );
      }
    }
  return {};
}
