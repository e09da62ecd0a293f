// Plotly, loaded when the first figure is drawn.
import { el } from "../../page/dom.js";

let library = null,
  before = Promise.resolve();

// Let a short animation end before the first figure is drawn: loading the library would make it stutter.
export function plotlyAfter(ended) {
  before = ended;
}

const load = () =>
  new Promise((resolve, reject) => {
    const script = el("script", "", "", { src: "playground/plotly/plotly.min.js" });
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => {
      library = null;
      reject(new Error("plotly.min.js could not be loaded"));
    };
    document.head.append(script);
  });

export function plotly() {
  library ??= window.Plotly ? Promise.resolve(window.Plotly) : before.then(load); // a file may contain it
  return library;
}
