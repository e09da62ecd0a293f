// The sticky part of the header: the last line, which contains the tokens and the selection.
import { onDrawn } from "./mount.js";

function measure() {
  const frame = document.getElementById("pg-frame"),
    line = document.getElementById("pg-tokens");
  if (!frame || !line) return;
  const above = line.getBoundingClientRect().top - frame.getBoundingClientRect().top;
  frame.style.setProperty("--pg-stuck", `${Math.round(-Math.max(0, above - 4))}px`);
}
const watch = new ResizeObserver(measure);
onDrawn((root) => {
  if (root.dataset.part !== "tokens") return;
  watch.observe(document.getElementById("pg-frame"));
  measure();
});
