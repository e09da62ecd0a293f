// The time of the moving picture: it plays once, stops anywhere, and can be scrubbed by pointer and keyboard.
//
// Time is counted in steps: 0 is the first step, and 2.5 is halfway between the third and the fourth.
import { el } from "../../page/dom.js";
import { plotlyAfter } from "../../parts/figure/plotly.js";
import { icon } from "../../parts/icons.js";

const DURATION = 3400; // milliseconds from the first step to the last
const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// Build the controls of a picture. `paint(at)` draws it at a time. Returns { node, follow, pause }: follow({ steps, words })
// takes the texts of the steps and paints; the first one that a visitor sees is played, unless motion is to be reduced.
export function player(root, paint) {
  const node = el("div", "pg-way-player"),
    button = el("button", "pg-button pg-quiet pg-way-play", "", { type: "button" }),
    slider = el("input", "", "", { type: "range", min: 0, step: 0.01 }),
    text = el("span", "pg-way-step");
  node.append(button, slider, text);
  let steps = [],
    words = {},
    at = 0,
    frame = 0, // of the next animation frame while playing
    played = false,
    ended = () => {};

  const last = () => steps.length - 1;
  const show = () => {
    const step = steps[Math.min(last(), Math.floor(at + 0.001))],
      label = frame ? words.pause : at < last() ? words.play : words.again;
    if (button.title !== label) {
      button.replaceChildren(icon(frame ? "pause" : at < last() ? "play" : "again"));
      button.title = label;
      button.setAttribute("aria-label", label);
    }
    slider.value = at;
    if (text.textContent !== step) {
      text.textContent = step;
      slider.setAttribute("aria-valuetext", step);
    }
    paint(at);
  };
  const pause = () => {
    if (!frame) return;
    cancelAnimationFrame(frame);
    frame = 0;
    document.removeEventListener("keydown", onSpace);
    ended();
    show();
  };
  const play = () => {
    if (at >= last()) at = 0;
    const from = at,
      since = performance.now();
    const next = (now) => {
      at = root.offsetParent ? Math.min(last(), from + (Math.max(0, now - since) / DURATION) * last()) : last();
      frame = requestAnimationFrame(next);
      if (at >= last()) pause();
      else show();
    };
    document.addEventListener("keydown", onSpace);
    frame = requestAnimationFrame(next);
    show();
  };
  // While the picture plays, the space bar stops it, unless the focus is in a control that uses the space bar itself.
  function onSpace(event) {
    if (
      event.key !== " " ||
      event.target.closest?.("button, select, textarea, [contenteditable], input:not([type=range])")
    )
      return;
    event.preventDefault();
    event.stopPropagation();
    pause();
  }
  const seek = (to) => {
    pause();
    at = Math.max(0, Math.min(last(), to));
    show();
  };
  button.onclick = () => (frame ? pause() : play());
  slider.oninput = () => seek(+slider.value);
  const KEYS = {
    ArrowRight: () => Math.floor(at + 1.001),
    ArrowUp: () => Math.floor(at + 1.001),
    ArrowLeft: () => Math.ceil(at - 1.001),
    ArrowDown: () => Math.ceil(at - 1.001),
    Home: () => 0,
    End: last,
  };
  slider.onkeydown = (event) => {
    if (event.key === " ") {
      event.preventDefault();
      event.stopPropagation();
      button.click();
    } else if (KEYS[event.key]) {
      event.preventDefault();
      seek(KEYS[event.key]());
    }
  };
  return {
    node,
    pause,
    follow(payload) {
      const atEnd = at >= last();
      ({ steps, words } = payload);
      slider.max = last();
      slider.setAttribute("aria-label", words.scrub);
      at = atEnd ? last() : Math.min(at, last());
      if (played || still()) {
        if (!played) at = last();
        played = true;
        return show();
      }
      played = true;
      at = 0;
      plotlyAfter(
        new Promise((done) => {
          ended = done;
        }),
      );
      setTimeout(() => frame && document.hidden && seek(last()), DURATION); // a page in the background has no frames
      play();
    },
  };
}
