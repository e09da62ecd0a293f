// One sequence at every saved step of a run: each head's map, the chosen head in full, and what is predicted.

import { el, fill, roving } from "../../page/dom.js";
import { isDark, onTheme } from "../../page/theme.js";
import { lookup } from "../../parts/colours.js";
import { mountPlot } from "../../parts/figure.js";
import { ownFigure } from "../../parts/figure_numbers.js";
import { lab } from "./runs.js";

const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)}%`;

export function trainingReplay(root, { words, ramps }) {
  const heading = el("h2", "", words.replay_title),
    about = el("p", "pg-about", words.replay_about);
  const controls = el("div", "pg-replay-controls"),
    play = el("button", "pg-button", words.play, { type: "button" });
  const slider = el("input", "", "", { type: "range", min: 0, max: 0, step: 1, "aria-label": words.saved_step });
  const now = el("output", "pg-train-line");
  const board = el("div", "pg-replay-board", "", { role: "group", "aria-label": words.replay_title });
  const large = el("div", "pg-replay-large"),
    guesses = el("div", "pg-guesses"),
    sample = el("div", "pg-sample");
  const pictures = el("div", "pg-replay-pictures");
  pictures.append(board, large);
  controls.append(play, slider, now);
  root.replaceChildren(heading, about, controls, pictures, guesses, sample);
  const plot = mountPlot(large, {});
  let at = null,
    head = null,
    built = "",
    drawn = "",
    timer = null; // at === null: follow the newest

  const run = () => lab.runs.get(lab.current);
  const index = () => Math.min(at ?? Infinity, run().snapshots.length - 1);
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = words.play;
  };

  function weights(snapshot, layer, number) {
    const { heads, probe } = run(),
      T = probe.length,
      start = (layer * heads + number) * T * T;
    return snapshot.weights.subarray(start, start + T * T);
  }
  function paintCell(canvas, values, T) {
    const colours = lookup(ramps[isDark() ? "dark" : "light"]),
      image = new ImageData(T, T);
    for (let q = 0; q < T; q++)
      for (let k = 0; k <= q; k++) {
        const place = q * T + k;
        image.data.set([...colours[Math.round(Math.sqrt(values[place] / 65535) * 254)], 255], place * 4);
      }
    canvas.width = canvas.height = T;
    canvas.getContext("2d").putImageData(image, 0, 0);
  }
  // The head to look at first: the one that most became an induction head, else that reads the token before.
  function best() {
    const last = run().snapshots.at(-1);
    const scores = last.induction.flat().some((value) => value > 0.3) ? last.induction : last.previous_token;
    let place = [0, 0];
    scores.forEach((row, layer) =>
      row.forEach((value, number) => {
        if (value > scores[place[0]][place[1]]) place = [layer, number];
      }),
    );
    return place;
  }
  function build() {
    const { layers, heads } = run();
    board.style.setProperty("--columns", layers); // layers across, heads down, as on every map of heads
    board.replaceChildren(
      ...Array.from({ length: layers * heads }, (_, i) => {
        const [layer, number] = [i % layers, Math.floor(i / layers)];
        const button = el("button", "pg-replay-head", "", {
          type: "button",
          "data-index": i,
          "aria-label": fill(words.head_button, { layer, head: number }),
        });
        button.append(el("canvas"), el("span", "", `${layer}.${number}`));
        button.onclick = () => {
          head = [layer, number];
          draw();
        };
        button.tabIndex = i ? -1 : 0;
        return button;
      }),
    );
  }
  function drawHead(snapshot, chosen) {
    const { figure, probe, source } = run(),
      T = probe.length,
      [layer, number] = chosen;
    const values = weights(snapshot, layer, number),
      picture = ownFigure({ figure });
    picture.data[0].z = Array.from({ length: T }, (_, q) =>
      Array.from({ length: T }, (_, k) => (k <= q ? values[q * T + k] / 65535 : null)),
    );
    picture.layout.uirevision = `${run().id}`;
    plot({
      figure: picture,
      title: fill(words.head_title, { layer, head: number, step: snapshot.step.toLocaleString() }),
      note: run().hidden.includes(layer) ? words.hidden_attention : "",
      source,
      file: `training-${layer}-${number}-step-${snapshot.step}`,
      run: `${run().id} ${layer}.${number} ${snapshot.step}`,
      words: words.plot,
    });
  }
  function drawGuesses(snapshot) {
    const { probe } = run();
    guesses.replaceChildren(el("h3", "", words.guesses_title), el("p", "pg-about", words.guesses_about));
    const strip = el("div", "pg-guess-strip");
    probe.forEach((token, place) => {
      const cell = el("div", "pg-guess"),
        top = snapshot.top[place],
        truth = place + 1 < probe.length ? snapshot.next[place] : null;
      const right = truth !== null && top[0][0] === probe[place + 1];
      cell.append(
        el("b", "", token),
        el("span", right ? "pg-right" : "", top[0][0]),
        el("small", "", percent(top[0][2])),
      );
      cell.title =
        top.map(([text, logit, share]) => `${text}  ${percent(share)}  ${words.logit} ${logit.toFixed(2)}`).join("\n") +
        (truth === null ? "" : `\n${fill(words.truth, { token: probe[place + 1], share: percent(truth) })}`);
      strip.append(cell);
    });
    guesses.append(strip);
  }
  function drawSample(snapshot) {
    const { given: prompt, written } = snapshot.sample;
    sample.replaceChildren(el("h3", "", words.sample_title));
    const text = el("p", "pg-sample-text");
    text.append(el("span", "pg-muted", prompt), el("b", "", written));
    sample.append(text);
  }
  function draw(what) {
    const shown = run();
    root.hidden = !shown?.snapshots.length;
    if (root.hidden) return;
    const shape = `${shown.id} ${shown.layers} ${shown.heads}`;
    if (built !== shape) {
      built = shape;
      at = head = null;
      build();
    }
    const place = index(),
      snapshot = shown.snapshots[place];
    slider.max = shown.snapshots.length - 1;
    slider.value = place;
    slider.setAttribute("aria-valuetext", fill(words.step_of, { step: snapshot.step }));
    now.replaceChildren(
      ...[
        fill(words.step_of, { step: snapshot.step.toLocaleString() }),
        fill(words.loss_held, { loss: snapshot.loss.toFixed(3) }),
        fill(words.accuracy, { accuracy: (100 * snapshot.accuracy).toFixed(1) }),
        ...(snapshot.bits === null ? [] : [fill(words.bits, { bits: snapshot.bits.toFixed(3) })]),
      ].map((text) => el("span", "", text)),
    );
    const moment = `${shape} ${place}`;
    if (what === "data" && moment === drawn) return; // of a step that is saved nothing changes
    drawn = moment;
    const chosen = head ?? best();
    lab.head = chosen;
    board.querySelectorAll("button").forEach((button, i) => {
      const [layer, number] = [i % shown.layers, Math.floor(i / shown.layers)];
      paintCell(button.firstChild, weights(snapshot, layer, number), shown.probe.length);
      button.setAttribute("aria-pressed", layer === chosen[0] && number === chosen[1]);
    });
    drawHead(snapshot, chosen);
    drawGuesses(snapshot);
    drawSample(snapshot);
  }
  slider.oninput = () => {
    stop();
    at = +slider.value === +slider.max ? null : +slider.value;
    draw();
  };
  play.onclick = () => {
    if (timer) return stop();
    play.textContent = words.pause;
    at = index() === run().snapshots.length - 1 ? 0 : index();
    timer = setInterval(() => {
      if (at === null || at + 1 >= run().snapshots.length) {
        at = null;
        stop();
      } else at += 1;
      draw();
    }, 160);
    draw();
  };
  roving(
    board,
    (key, place) =>
      ({ ArrowRight: place + 1, ArrowLeft: place - 1, ArrowDown: place + run().layers, ArrowUp: place - run().layers })[
        key
      ] ?? null,
  );
  onTheme(() => draw());
  return draw;
}
