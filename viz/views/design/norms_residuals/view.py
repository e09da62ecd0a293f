"""Pre- against post-norm, residuals and warm-up, tried on a tiny model: gradients, then the first steps."""

from collections.abc import Mapping, Sequence

import gradio as gr

from model.design.block_trials import (
    DEPTHS,
    HEADS,
    LENGTH,
    ROWS,
    SEEDS,
    STARTS,
    VARIANTS,
    WIDTH,
    WIRINGS,
    Starts,
    Trained,
    Trial,
    exponent,
    starts,
    starts_by_depth,
    train_wirings,
)
from model.progress import Progress
from viz.page import background
from viz.page.old_view import View
from viz.page.parts import choice, part
from viz.page.playground import Playground
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.views.design.norms_residuals.figures import (
    COLOURS,
    DASHES,
    GREY,
    Axes,
    Drawn,
    by_place,
    lines_figure,
    mean_band,
    told,
)
from viz.views.design.norms_residuals.first_steps import (
    facts_payload,
    heat_payload,
    loss_payload,
    name_of,
    table_payload,
)
from viz.views.design.trials import chosen, framed, page_lesson, python_of
from viz.words import section

PARTS = (
    "wiring_form",
    "wiring_starts",
    "wiring_said",
    "wiring_depths_job",
    "wiring_depths",
    "wiring_training",
    "wiring_train_job",
    "wiring_loss",
    "wiring_heat",
    "wiring_facts",
    "wiring_table",
)
RATES = ("0.003", "0.001", "0.01")
STEPS = {4: 200, 8: 160, 16: 100}  # by depth: about the same time
TAKES = 20  # seconds of a training, about
LEVEL = 1.1  # gradients that differ by less are called alike
DEFAULT = Trial()
_DEPTHS = (str(DEFAULT.depth), *(str(n) for n in DEPTHS if n != DEFAULT.depth))  # the first where none is named
_OF = ("weights", "stream")


def build() -> dict[str, gr.HTML]:
    """Before the first step: by block left, by depth right. Then the training: losses left, gradients right."""
    made = {"wiring_form": part("wiring_form", None, kind="controls", value={})}
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["wiring_starts"] = part("wiring_starts", None, kind="figure")
        with gr.Column(min_width=320):
            made["wiring_depths_job"] = part("wiring_depths_job", None, kind="job", events=("start", "cancel"))
            made["wiring_depths"] = part("wiring_depths", None, kind="figure")
    made["wiring_said"] = part("wiring_said", None, kind="normfacts")
    made["wiring_training"] = part("wiring_training", None, kind="controls", value={})
    made["wiring_train_job"] = part("wiring_train_job", None, kind="job", events=("start", "cancel"))
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["wiring_loss"] = part("wiring_loss", None, kind="figure")
            made["wiring_facts"] = part("wiring_facts", None, kind="normfacts")
        with gr.Column(min_width=320):
            made["wiring_heat"] = part("wiring_heat", None, kind="figure")
            made["wiring_table"] = part("wiring_table", None, kind="labtable")
    return made


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """Depth, weights and what is drawn; below, rate and variant of the training."""
    said = section(words, "wiring")

    def listed(name: str, keys: Sequence[str], word: str) -> dict:
        return chosen(said, name, [[key, said[f"{word}_{key}"]] for key in keys], keys[0])

    return {
        "wiring_form": {
            "controls": [
                chosen(said, "depth", [[str(n), str(n)] for n in DEPTHS], str(DEFAULT.depth)),
                listed("start", STARTS, "start"),
                listed("of", _OF, "of"),
            ]
        },
        "wiring_training": {
            "controls": [
                chosen(said, "rate", [[rate, rate] for rate in sorted(RATES)], RATES[0]),
                listed("variant", tuple(VARIANTS), "name"),
            ]
        },
    }


# --- what is asked for, and what is kept of it ---


def trial_of(values: Values) -> Trial:
    """The training that the two forms describe."""
    form = values.get("wiring_form")
    depth = int(choice(form, "depth", _DEPTHS))
    rate = float(choice(values.get("wiring_training"), "rate", RATES))
    return Trial(depth, choice(form, "start", STARTS), rate, STEPS[depth])


def found_starts(playground: Playground, depth: int, start: str) -> Starts:
    """Gradients before the first step, measured once a server: about 0.3 s for 8 blocks."""

    def make() -> Starts:
        lesson = page_lesson(playground)
        with playground.computing:
            return starts(lesson, depth, start)

    return background.kept(playground, ("trials", "starts", depth, start), make)


def depths_job(playground: Playground, start: str) -> background.Job:
    """The same for every depth."""

    def work(progress: Progress) -> tuple[Starts, ...]:
        return starts_by_depth(page_lesson(playground), start, progress)

    return background.Job(("trials", "depths", start), work)


def train_job(playground: Playground, trial: Trial) -> background.Job:
    """The first steps of every variant."""

    def work(progress: Progress) -> Trained:
        return train_wirings(page_lesson(playground), trial, progress)

    return background.Job(("trials", "wirings", trial), work)


def plan_depths(scene: Scene, values: Values) -> background.Job:
    """What the upper button starts."""
    return depths_job(scene.playground, trial_of(values).start)


def plan_training(scene: Scene, values: Values) -> background.Job:
    """What the lower button starts."""
    return train_job(scene.playground, trial_of(values))


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """Gradients at the start at once; depths and training once they were measured. Nothing depends on the prompt."""
    trial, words = trial_of(values), scene.words
    of = choice(values.get("wiring_form"), "of", _OF)
    variant = choice(values.get("wiring_training"), "variant", tuple(VARIANTS))
    results = scene.playground.results
    deep = results.peek(depths_job(scene.playground, trial.start).key)
    done = results.peek(train_job(scene.playground, trial).key)
    state = (trial, of, variant, deep is not None, done is not None)

    def after(name: str, empty: str, found: background.Result | None, make) -> Picture:
        hint = words["wiring.empty_depths_hint" if empty == "depths" else "wiring.empty_train_hint"]
        blank = {"text": words[f"wiring.empty_{empty}"], "hint": hint}
        return Picture((state, name), lambda: make(found.value) if found else {"empty": blank})

    takes = words["wiring.depths_takes"].format(seeds=SEEDS)
    training = words["wiring.train_takes"].format(steps=trial.steps, seconds=TAKES)
    return {
        "wiring_starts": Picture(state, lambda: starts_payload(scene, trial, of)),
        "wiring_said": Picture(state, lambda: said_payload(scene, trial, of, deep.value if deep else None)),
        "wiring_depths_job": Picture(
            state, lambda: background.button(words["wiring.depths_start"], words, deep, takes)
        ),
        "wiring_depths": after("depths", "depths", deep, lambda found: depths_payload(scene, found, trial.start, of)),
        "wiring_train_job": Picture(
            state, lambda: background.button(words["wiring.train_start"], words, done, training)
        ),
        "wiring_loss": after("loss", "train", done, lambda found: loss_payload(scene, found)),
        "wiring_heat": after("heat", "heat", done, lambda found: heat_payload(scene, found, variant)),
        "wiring_table": after("table", "table", done, lambda found: table_payload(scene, found)),
        "wiring_facts": after("facts", "facts", done, lambda found: facts_payload(scene, found)),
    }


# --- before the first step ---


def _source(scene: Scene, depth: int | str, start: str) -> str:
    said = section(scene.words, "wiringstart")
    given = {"width": WIDTH, "heads": HEADS, "rows": ROWS, "length": LENGTH, "depth": depth}
    return said["source"].format(**given, start=scene.words[f"wiring.start_{start}"])


def starts_payload(scene: Scene, trial: Trial, of: str) -> dict:
    """The gradient of every block, for every wiring."""
    said, found = section(scene.words, "wiringstart"), found_starts(scene.playground, trial.depth, trial.start)
    drawn = []
    for key, values in zip(WIRINGS, getattr(found, of), strict=True):
        mean, band = mean_band(values)
        drawn.append(
            Drawn(
                name_of(scene.words, key),
                COLOURS[key],
                range(trial.depth),
                mean,
                band,
                DASHES.get(key, "solid"),
                marks=True,
            )
        )
    tail = "" if of == "weights" else "_stream"
    lines = [f"starts(lesson, {trial.depth}, {trial.start!r}).{of}  # [wiring, seed, block], wirings as in WIRINGS"]
    return {
        "figure": lines_figure(drawn, Axes(said["block"], said[f"norm{tail}"], log_y=True)),
        "title": said[f"title{tail}"].format(depth=trial.depth),
        "note": said["note"].format(seeds=SEEDS),
        "source": _source(scene, trial.depth, trial.start),
        "columns": [said["series"], said["range"], said["block"], said[f"norm{tail}"]],
        "python": python_of(["from model.design.block_trials import WIRINGS, starts"], lines),
    } | framed(scene, f"gradients-at-start-{trial.depth}", f"{trial.depth} {trial.start} {of}")


def said_payload(scene: Scene, trial: Trial, of: str, deep: tuple[Starts, ...] | None) -> dict:
    """A sentence for each wiring, and what depth does, all from the numbers."""
    said, found = section(scene.words, "wiringsaid"), found_starts(scene.playground, trial.depth, trial.start)
    values = getattr(found, of).mean(1)  # [W, L]
    items = []
    for key, row in zip(WIRINGS, values, strict=True):
        first, end = float(row[0]), float(row[-1])
        ratio = max(first / end, end / first)
        text = said["level" if ratio < LEVEL else "first_larger" if first > end else "last_larger"]
        given = {"first": told(first), "end": told(end), "last": trial.depth - 1, "ratio": told(ratio)}
        items.append([name_of(scene.words, key), text.format(**given)])
    pre, post = float(values[0, -1]), float(values[1, -1])
    items.append([said["beside"], said["beside_text"].format(post=told(post), pre=told(pre), ratio=told(post / pre))])
    if deep:
        powers = [exponent(DEPTHS, each) for each in _last(deep, of)]
        listed = [
            said["depth_item"].format(a=f"{round(a, 2) + 0.0:.2f}".replace("-", "−"), name=name_of(scene.words, key))
            for key, a in zip(WIRINGS, powers, strict=True)
        ]
        theory = f" {said['depth_theory']}" if of == "weights" else ""
        items.append([said["by_depth"], said["depth_text"].format(items=", ".join(listed)) + theory])
    return {"title": said["title"], "items": items, "run": f"{trial} {of} {bool(deep)} {scene.language}"}


def _last(deep: tuple[Starts, ...], of: str) -> list:
    """The last block's gradient of every wiring, mean over seeds, by depth. -> wirings of [depths]"""
    means = [getattr(each, of)[:, :, -1].mean(1) for each in deep]
    return [[float(mean[w]) for mean in means] for w in range(len(WIRINGS))]


def depths_payload(scene: Scene, deep: tuple[Starts, ...], start: str, of: str) -> dict:
    """The last block's gradient by depth, beside the fall that the theory gives."""
    said, axis = section(scene.words, "wiringdepth"), section(scene.words, "wiringstart")
    drawn = []
    for w, key in enumerate(WIRINGS):
        mean, band = by_place([getattr(each, of)[w, :, -1] for each in deep])
        drawn.append(Drawn(name_of(scene.words, key), COLOURS[key], DEPTHS, mean, band, DASHES.get(key, "solid"), True))
    if of == "weights":
        fall = [float(drawn[0].y[0]) * (DEPTHS[0] / depth) ** 0.5 for depth in DEPTHS]
        drawn.append(Drawn(said["theory"], GREY, DEPTHS, fall, None, "dot", told=False))
    tail = "" if of == "weights" else "_stream"
    axes = Axes(said["depth"], axis[f"norm{tail}"], log_x=True, log_y=True, ticks=DEPTHS)
    lines = [f"[found.{of}[:, :, -1] for found in starts_by_depth(lesson, {start!r})]  # [wiring, seed] of each depth"]
    return {
        "figure": lines_figure(drawn, axes),
        "title": said[f"title{tail}"],
        "note": said["note" if of == "weights" else "note_stream"],
        "source": _source(scene, "4, 8, 16", start),
        "columns": [axis["series"], axis["range"], said["depth"], axis[f"norm{tail}"]],
        "python": python_of(["from model.design.block_trials import starts_by_depth"], lines),
    } | framed(scene, "gradients-by-depth", f"depths {start} {of}")


VIEW = View(
    "wiring",
    build,
    draw,
    parts=PARTS,
    fixed=fixed,
    asks=("wiring_form", "wiring_training"),
    jobs={"wiring_depths_job": plan_depths, "wiring_train_job": plan_training},
)
