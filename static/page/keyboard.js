// Keyboard shortcuts of the whole page, and a delay of typed input while runs are slow.
import { isTyping } from "./dom.js";
import { focusPrompt } from "./prompt/prompt.js";
import { select } from "./selection/selection.js";
import { pageState } from "./state.js";

const PROMPT = "#prompt textarea, #prompt input";
const PAUSE = 250; // milliseconds without input after which a slow run starts

// While runs are slow, delay typed input until the user pauses briefly; fast runs follow every key press.
let held = null;
document.addEventListener(
  "input",
  (event) => {
    const box = event.target;
    if (!pageState.slow || event.released || !box.matches?.(PROMPT)) return;
    event.stopImmediatePropagation();
    clearTimeout(held);
    held = setTimeout(() => {
      const release = new Event("input", { bubbles: true });
      release.released = true;
      box.dispatchEvent(release);
    }, PAUSE);
  },
  true,
);

document.addEventListener("keydown", (event) => {
  if (isTyping()) return;
  if (event.key === "/" && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    focusPrompt();
  } else if (event.key === "Escape") {
    select({ tokens: [] });
  }
});

// Gradio's model menu handles a key after the page does: Tab has already closed the menu, and Gradio would reopen it.
document.addEventListener(
  "keydown",
  (event) => {
    if (event.key === "Tab" && event.target.closest?.("#model")) event.stopPropagation();
  },
  true,
);
