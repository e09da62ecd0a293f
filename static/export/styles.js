// The page's own styles, for standalone files.

const LIVE = /:focus|:hover|::-webkit|::-moz/,
  OURS = /pg-|data-part/,
  OF_THE_PAGE = /pg-export|#pg-/;

// Convert a selector of the page for a file, which has no page frame and no interactive buttons.
export const freed = (selector) =>
  selector.replace(/& (?=\S)/g, "").replace(/(?<![\w.#-])button(?![\w-])/g, ":is(button, pg-button)");

const FRAME = ":root .gradio-container"; // the scope of the page's rules, which gives them precedence over Gradio's

function rulesOf(list) {
  return [...list]
    .map((rule) => {
      if (rule.media) {
        const inner = rulesOf(rule.cssRules);
        return inner ? `@media ${rule.media.mediaText} {\n${inner}\n}` : "";
      }
      const selector = rule.selectorText;
      if (selector === FRAME && rule.cssRules.length) return rulesOf(rule.cssRules);
      if (!selector || LIVE.test(selector) || !OURS.test(selector) || OF_THE_PAGE.test(selector)) return "";
      return `${freed(selector)} { ${rule.style.cssText} }`;
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

export const styles = () => sheets().map(rulesOf).filter(Boolean).join("\n");

// Return the colors of a theme: { "--pg-text": "#1d2330", ... }.
export function colors(isDark) {
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
