// Plotly, loaded when the first figure is drawn.
import { el } from "../page/dom.js";

let library = null;

export function plotly() {
  library ??= new Promise((resolve, reject) => {
    const script = el("script", "", "", { src: "playground/plotly/plotly.min.js" });
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => {
      library = null;
      reject(new Error("plotly.min.js could not be loaded"));
    };
    document.head.append(script);
  });
  return library;
}
