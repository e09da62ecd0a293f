// A replay of one sequence at every saved step of a run: a map per head, the full map of the selected head, and the
// predictions.

import { el, fill, roving } from "../../page/dom.js";
import { isDark, onTheme } from "../../page/theme.js";
import { lookup } from "../../parts/colors.js";
import { mountPlot } from "../../parts/figure/figure.js";
import { ownFigure } from "../../parts/figure/figure_numbers.js";
import { lab } from "./runs.js";

const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)}%`;

// Return the weights of one head at a saved step, [T, T], in units of 1/65535.
function weightsOf({ heads, probe }, snapshot, layer, number) {
  const size = probe.length ** 2,
    start = (layer * heads + number) * size;
  return snapshot.weights.subarray(start, start + size);
}
function paintCell(canvas, values, T, ramps) {
  const colors = lookup(ramps[isDark() ? "dark" : "light"]),
    image = new ImageData(T, T);
  for (let q = 0; q < T; q++)
    for (let k = 0; k <= q; k++) {
      const place = q * T + k;
      image.data.set([...colors[Math.round(Math.sqrt(values[place] / 65535) * 254)], 255], place * 4);
    }
  canvas.width = canvas.height = T;
  canvas.getContext("2d").putImageData(image, 0, 0);
}
// Select the initial head: the strongest induction head if any, otherwise the strongest previous-token head.
function bestHead({ snapshots }) {
  const last = snapshots.at(-1),
    scores = last.induction.flat().some((value) => value > 0.3) ? last.induction : last.previous_token;
  let place = [0, 0];
  scores.forEach((row, layer) =>
    row.forEach((value, number) => {
      if (value > scores[place[0]][place[1]]) place = [layer, number];
    }),
  );
  return place;
}
const headAt = (run, i) => [Math.floor(i / run.heads), i % run.heads]; // a row per layer, as in all maps

// Build the maps of all heads as buttons; a click calls choose(head). Returns { node, build(run), paint(run, snapshot,
// chosen) }.
function headBoard({ words, ramps }, choose) {
  const node = el("div", "pg-replay-board", "", { role: "group", "aria-label": words.replay_title });
  let across = 1;
  roving(node, (key, at) => {
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + across, ArrowUp: at - across };
    return to[key] ?? null;
  });
  return {
    node,
    build(run) {
      across = run.heads;
      node.style.setProperty("--columns", across);
      node.replaceChildren(
        ...Array.from({ length: run.layers * run.heads }, (_, i) => {
          const [layer, head] = headAt(run, i),
            label = fill(words.head_button, { layer, head });
          const button = el("button", "pg-replay-head", "", { type: "button", "data-index": i, "aria-label": label });
          button.append(el("canvas"), el("span", "", `${layer}.${head}`));
          button.onclick = () => choose([layer, head]);
          button.tabIndex = i ? -1 : 0;
          return button;
        }),
      );
    },
    paint(run, snapshot, chosen) {
      node.querySelectorAll("button").forEach((button, i) => {
        const [layer, number] = headAt(run, i);
        paintCell(button.firstChild, weightsOf(run, snapshot, layer, number), run.probe.length, ramps);
        button.setAttribute("aria-pressed", layer === chosen[0] && number === chosen[1]);
      });
    },
  };
}

// Build the figure payload for the full map of one head.
function headFigure(run, snapshot, [layer, number], words) {
  const { figure, probe, source, id } = run,
    T = probe.length,
    values = weightsOf(run, snapshot, layer, number),
    picture = ownFigure({ figure });
  picture.data[0].z = Array.from({ length: T }, (_, q) =>
    Array.from({ length: T }, (_, k) => (k <= q ? values[q * T + k] / 65535 : null)),
  );
  picture.layout.uirevision = `${id}`;
  return {
    figure: picture,
    title: fill(words.head_title, { layer, head: number, step: snapshot.step.toLocaleString() }),
    note: run.hidden.includes(layer) ? words.hidden_attention : "",
    source,
    file: `training-${layer}-${number}-step-${snapshot.step}`,
    run: `${id} ${layer}.${number} ${snapshot.step}`,
    words: words.plot,
  };
}

// Describe the prediction after each token, and the probability of the actual next token.
function guessesOf({ probe }, snapshot, words) {
  const strip = el("div", "pg-guess-strip");
  probe.forEach((token, place) => {
    const cell = el("div", "pg-guess"),
      top = snapshot.top[place],
      [first, , share] = top[0],
      following = probe[place + 1],
      truth = following === undefined ? null : snapshot.next[place],
      right = truth !== null && first === following;
    cell.append(el("b", "", token), el("span", right ? "pg-right" : "", first), el("small", "", percent(share)));
    const lines = top.map(([text, logit, p]) => `${text}  ${percent(p)}  ${words.logit} ${logit.toFixed(2)}`);
    if (truth !== null) lines.push(fill(words.truth, { token: following, share: percent(truth) }));
    cell.title = lines.join("\n");
    strip.append(cell);
  });
  return [el("h3", "", words.guesses_title), el("p", "pg-about", words.guesses_about), strip];
}
function sampleOf({ given, written }, words) {
  const text = el("p", "pg-sample-text");
  text.append(el("span", "pg-muted", given), el("b", "", written));
  return [el("h3", "", words.sample_title), text];
}

// Build a slider over the saved steps with a play button; change() is called whenever the slider moves. `last()`: the
// newest index.
function stepPlayer(words, last, change) {
  const node = el("div", "pg-replay-controls"),
    play = el("button", "pg-button", words.play, { type: "button" }),
    slider = el("input", "", "", { type: "range", min: 0, max: 0, step: 1, "aria-label": words.saved_step }),
    now = el("output", "pg-train-line");
  let at = null, // index of the shown step; null follows the newest
    timer = null;
  node.append(play, slider, now);
  const place = () => Math.min(at ?? Infinity, last());
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = words.play;
  };
  slider.oninput = () => {
    stop();
    at = +slider.value === +slider.max ? null : +slider.value;
    change();
  };
  play.onclick = () => {
    if (timer) return stop();
    play.textContent = words.pause;
    at = place() === last() ? 0 : place();
    timer = setInterval(() => {
      if (at === null || at + 1 > last()) {
        at = null;
        stop();
      } else at += 1;
      change();
    }, 160);
    change();
  };
  return {
    node,
    place,
    follow() {
      at = null;
    },
    show({ step, loss, accuracy, bits }) {
      slider.max = last();
      slider.value = place();
      slider.setAttribute("aria-valuetext", fill(words.step_of, { step }));
      const texts = [
        fill(words.step_of, { step: step.toLocaleString() }),
        fill(words.loss_held, { loss: loss.toFixed(3) }),
        fill(words.accuracy, { accuracy: (100 * accuracy).toFixed(1) }),
        ...(bits === null ? [] : [fill(words.bits, { bits: bits.toFixed(3) })]),
      ];
      now.replaceChildren(...texts.map((text) => el("span", "", text)));
    },
  };
}

export function trainingReplay(root, payload) {
  const { words } = payload,
    large = el("div", "pg-replay-large"),
    guesses = el("div", "pg-guesses"),
    sample = el("div", "pg-sample"),
    pictures = el("div", "pg-replay-pictures");
  let head = null,
    built = "",
    drawn = "";
  const run = () => lab.runs.get(lab.current),
    player = stepPlayer(
      words,
      () => run().snapshots.length - 1,
      () => draw(),
    ),
    board = headBoard(payload, (chosen) => {
      head = chosen;
      draw();
    });
  pictures.append(board.node, large);
  const title = el("h2", "", words.replay_title),
    about = el("p", "pg-about", words.replay_about);
  root.replaceChildren(title, about, player.node, pictures, guesses, sample);
  const plot = mountPlot(large, {});
  function draw(what) {
    const shown = run();
    root.hidden = !shown?.snapshots.length;
    if (root.hidden) return;
    const shape = `${shown.id} ${shown.layers} ${shown.heads}`;
    if (built !== shape) {
      built = shape;
      head = null;
      player.follow();
      board.build(shown);
    }
    const snapshot = shown.snapshots[player.place()],
      moment = `${shape} ${player.place()}`;
    player.show(snapshot);
    if (what === "data" && moment === drawn) return; // skip: a saved step does not change
    drawn = moment;
    const chosen = head ?? bestHead(shown);
    lab.head = chosen;
    board.paint(shown, snapshot, chosen);
    plot(headFigure(shown, snapshot, chosen, words));
    guesses.replaceChildren(...guessesOf(shown, snapshot, words));
    sample.replaceChildren(...sampleOf(snapshot.sample, words));
  }
  onTheme(() => draw());
  return draw;
}
