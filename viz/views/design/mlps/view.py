"""Three MLPs with equal parameters: the functions inside them, what they cost, and a short training of each."""

import math
from collections.abc import Mapping

import gradio as gr

from model.design.block_trials import LENGTH, ROWS, STARTS, WARMUP
from model.design.mlp_trials import (
    DEPTH,
    KINDS,
    SEEDS,
    WIDTH,
    Compared,
    Cost,
    MlpTrial,
    config_of,
    cost,
    curves,
    gated,
    train_mlps,
    verdict,
)
from model.progress import Progress
from viz.page import background
from viz.page.old_view import View
from viz.page.parts import choice, part
from viz.page.playground import Playground
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.views.design.mlps.figures import COLOURS, functions_figure, gate_figure, largest_gap, slices
from viz.views.design.norms_residuals.figures import (
    GREY,
    SMOOTH,
    Axes,
    Drawn,
    lines_figure,
    loss_told,
    mean_band,
    told,
)
from viz.views.design.trials import chosen, framed, page_lesson, python_of
from viz.words import section

PARTS = (
    "mlps_form",
    "mlps_left",
    "mlps_right",
    "mlps_cost",
    "mlps_training",
    "mlps_job",
    "mlps_loss",
    "mlps_facts",
    "mlps_table",
)
RATES = ("0.001", "0.003")
STEPS = ("240", "120", "360")
BEST = ("glorot", *(key for key in STARTS if key != "glorot"))
TAKES = {120: 12, 240: 25, 360: 37}  # seconds, about
_SHOWS = ("functions", "gate")
_UPS = (-2.0, -1.0, 0.0, 1.0, 2.0)


def build() -> dict[str, gr.HTML]:
    """The functions, what each MLP costs, then the training: losses left, what they say right."""
    made = {"mlps_form": part("mlps_form", None, kind="controls", value={})}
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["mlps_left"] = part("mlps_left", None, kind="figure")
        with gr.Column(min_width=320):
            made["mlps_right"] = part("mlps_right", None, kind="figure")
    made["mlps_cost"] = part("mlps_cost", None, kind="labtable")
    made["mlps_training"] = part("mlps_training", None, kind="controls", value={})
    made["mlps_job"] = part("mlps_job", None, kind="job", events=("start", "cancel"))
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["mlps_loss"] = part("mlps_loss", None, kind="figure")
        with gr.Column(min_width=320):
            made["mlps_facts"] = part("mlps_facts", None, kind="normfacts")
            made["mlps_table"] = part("mlps_table", None, kind="labtable")
    return made


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """What is drawn; below, weights, rate and steps of the training."""
    said = section(words, "mlps")
    starts = [[key, words[f"wiring.start_{key}"]] for key in BEST]
    return {
        "mlps_form": {"controls": [chosen(said, "show", [[key, said[f"show_{key}"]] for key in _SHOWS], _SHOWS[0])]},
        "mlps_training": {
            "controls": [
                chosen(said, "start", starts, BEST[0]),
                chosen(said, "rate", [[rate, rate] for rate in RATES], RATES[0]),
                chosen(said, "steps", [[n, n] for n in sorted(STEPS, key=int)], STEPS[0]),
            ]
        },
    }


def trial_of(values: Values) -> MlpTrial:
    """The training that the form describes."""
    form = values.get("mlps_training")
    return MlpTrial(choice(form, "start", BEST), float(choice(form, "rate", RATES)), int(choice(form, "steps", STEPS)))


def train_job(playground: Playground, trial: MlpTrial) -> background.Job:
    """All kinds and seeds."""

    def work(progress: Progress) -> Compared:
        return train_mlps(page_lesson(playground), trial, progress)

    return background.Job(("trials", "mlps", trial), work)


def plan(scene: Scene, values: Values) -> background.Job:
    """What the button starts."""
    return train_job(scene.playground, trial_of(values))


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """Functions and costs at once; losses once they were measured. Nothing depends on the prompt."""
    words, trial = scene.words, trial_of(values)
    show = choice(values.get("mlps_form"), "show", _SHOWS)
    found = scene.playground.results.peek(train_job(scene.playground, trial).key)
    state = (trial, found is not None)
    takes = words["mlps.train_takes"].format(steps=trial.steps, seeds=SEEDS, seconds=TAKES[trial.steps])

    def after(name: str, make) -> Picture:
        blank = {"text": words[f"mlps.empty_{name}"], "hint": words["mlps.empty_hint"]}
        return Picture((state, name), lambda: make(scene, found.value) if found else {"empty": blank})

    pair = (function_payload, slope_payload) if show == "functions" else (gate_payload, slices_payload)
    return {
        "mlps_left": Picture(show, lambda: pair[0](scene)),
        "mlps_right": Picture(show, lambda: pair[1](scene)),
        "mlps_cost": Picture("cost", lambda: cost_payload(scene)),
        "mlps_job": Picture(state, lambda: background.button(words["mlps.train_start"], words, found, takes)),
        "mlps_loss": after("loss", loss_payload),
        "mlps_facts": after("facts", facts_payload),
        "mlps_table": after("table", table_payload),
    }


def name_of(words: Mapping[str, str], key: str) -> str:
    """What an MLP is called."""
    return words[f"mlps.name_{key}"]


# --- the functions ---


def _functions(scene: Scene, which: int, name: str) -> dict:
    """All functions, or with `which` 1 their derivatives."""
    said, (x, found) = section(scene.words, "mlpsfunction"), curves()
    names = [scene.words[f"mlps.function_{key}"] for key in found]
    gap, at = largest_gap(x, found["gelu"][0], found["gelu_tanh"][0])
    note = said["note_slope"] if which else said["note"].format(gap=told(gap), at=told(at))
    lines = ["x, found = curves()", f"{{name: values[{which}] for name, values in found.items()}}"]
    return {
        "figure": functions_figure(x, found, which, Axes(said["x"], said[name], height=340), names),
        "title": said["title_slope" if which else "title"],
        "note": note,
        "source": said["source"],
        "columns": [said["function"], said["x"], said[name]],
        "python": "\n".join(["from model.design.mlp_trials import curves", "", *lines]),
    } | framed(scene, f"activation-{name}", name)


def function_payload(scene: Scene) -> dict:
    """The functions."""
    return _functions(scene, 0, "value")


def slope_payload(scene: Scene) -> dict:
    """Their derivatives."""
    return _functions(scene, 1, "slope")


_GATE_LINES = "\n".join(
    ["from model.design.mlp_trials import gated", "", "x, values = gated()", "values  # [up, gate]"]
)


def gate_payload(scene: Scene) -> dict:
    """What passes SwiGLU's gate, for both branches."""
    said = section(scene.words, "mlpsgate")
    return {
        "figure": gate_figure(*gated(), said),
        "title": said["title"],
        "note": said["note"],
        "source": said["source"],
        "columns": [said["up"], said["gate"], said["passed"]],
        "python": _GATE_LINES,
    } | framed(scene, "swiglu-gate", "gate")


def slices_payload(scene: Scene) -> dict:
    """The same as lines, one for each of some values of the linear branch."""
    said, (x, values) = section(scene.words, "mlpsgate"), gated()
    hues = ("#d55e00", "#e69f00", "#7a7a7a", "#56b4e9", "#0072b2")
    rows = slices(x, values, _UPS)
    drawn = [
        Drawn(said["line"].format(n=f"{up:g}".replace("-", "−")), hue, x.tolist(), row)
        for up, hue, row in zip(_UPS, hues, rows, strict=True)
    ]
    return {
        "figure": lines_figure(drawn, Axes(said["gate"], said["passed"], height=340)),
        "title": said["lines_title"],
        "note": said["lines_note"],
        "source": said["source"],
        "columns": [said["series"], said["gate"], said["passed"]],
        "python": _GATE_LINES,
    } | framed(scene, "swiglu-lines", "slices")


# --- sizes ---


def costs(vocab_size: int) -> dict[str, Cost]:
    """What each kind costs."""
    return {kind: cost(config_of(kind, vocab_size)) for kind in KINDS}


def cost_payload(scene: Scene) -> dict:
    """Widths, parameters and operations side by side."""
    said, found = section(scene.words, "mlpscost"), costs(page_lesson(scene.playground).vocab_size)
    rows = [
        [
            name_of(scene.words, kind),
            f"{each.d_mlp:,}",
            str(3 if kind == "swiglu" else 2),
            f"{each.mlp_params:,}",
            f"{each.params:,}",
            f"{each.mlp_flops:,}",
            f"{each.train_flops:,}",
        ]
        for kind, each in found.items()
    ]
    gap = found["swiglu"].params - found["gelu"].params
    given = {"D": WIDTH, "narrow": found["swiglu"].d_mlp, "wide": found["gelu"].d_mlp}
    return {
        "title": said["title"],
        "about": said["about"],
        "columns": [said[key] for key in ("mlp", "width", "matrices", "params", "model", "flops", "train")],
        "rows": rows,
        "check": said["difference"].format(n=f"{gap:,}"),
        "same": gap == 0,
        "source": said["source"].format(**given),
        "file": "mlp-sizes",
        "run": f"cost {scene.language}",
    }


# --- the training ---


def _source(scene: Scene, found: Compared) -> str:
    trial = found.trial
    return scene.words["mlpsloss.source"].format(
        depth=DEPTH,
        width=WIDTH,
        start=scene.words[f"wiring.start_{trial.start}"],
        rate=f"{trial.rate:g}",
        warmup=WARMUP,
        rows=ROWS,
        length=LENGTH,
        tokens=f"{found.tokens:,}",
    )


def loss_payload(scene: Scene, found: Compared) -> dict:
    """Losses on held-out text as they fall, with the spread over seeds."""
    said, trial = section(scene.words, "mlpsloss"), found.trial
    drawn = []
    for kind, held in zip(KINDS, found.held_out, strict=True):
        mean, band = mean_band(held)
        drawn.append(Drawn(name_of(scene.words, kind), COLOURS[kind], found.moments, mean, band, marks=True))
    level = [found.frequencies] * len(found.moments)
    drawn.append(Drawn(said["frequencies"], GREY, found.moments, level, None, "dash", told=False))
    lines = [f"found = train_mlps(lesson, {trial!r})", "found.held_out  # [kind, seed, moment], kinds as in KINDS"]
    return {
        "figure": lines_figure(drawn, Axes(said["step"], said["loss"])),
        "title": said["title"],
        "note": said["note"].format(seeds=SEEDS),
        "source": _source(scene, found),
        "columns": [said["series"], said["range"], said["step"], said["loss"]],
        "python": python_of(["from model.design.mlp_trials import KINDS, MlpTrial, train_mlps"], lines),
    } | framed(scene, "mlps-held-out", f"{trial} loss")


def table_payload(scene: Scene, found: Compared) -> dict:
    """Losses, time, parameters and operations of each kind."""
    said, sizes, rows = section(scene.words, "mlpstable"), costs(page_lesson(scene.playground).vocab_size), []
    for at, kind in enumerate(KINDS):
        end = found.held_out[at, :, -1]
        span = f"{loss_told(float(end.min()))} – {loss_told(float(end.max()))}"
        rows.append(
            [
                name_of(scene.words, kind),
                loss_told(float(found.losses[at, :, -SMOOTH:].mean())),
                loss_told(float(end.mean())),
                span,
                told(1000 * float(found.seconds[at])),
                f"{sizes[kind].params:,}",
                f"{sizes[kind].train_flops:,}",
            ]
        )
    columns = [said[key] for key in ("mlp", "train", "held", "spread", "ms", "params", "flops")]
    columns[1] = columns[1].format(n=SMOOTH)
    return {
        "title": said["title"],
        "columns": columns,
        "rows": rows,
        "source": _source(scene, found),
        "file": "mlps",
        "run": f"{found.trial} table {scene.language}",
    }


def facts_payload(scene: Scene, found: Compared) -> dict:
    """Whether a difference is larger than the spread over seeds, and what a step takes."""
    said, items = section(scene.words, "mlpsfacts"), []
    ends = dict(zip(KINDS, found.held_out[:, :, -1], strict=True))
    for a, b in (("swiglu", "gelu"), ("swiglu", "relu"), ("gelu", "relu")):
        names = {"a": name_of(scene.words, a), "b": name_of(scene.words, b)}
        items.append([said["pair"].format(**names), told_pair(said, names, ends[a], ends[b])])
    first, second = (1000 * float(each) for each in found.seconds[:2])
    given = {"first": told(first), "second": told(second), "ratio": told(first / second)}
    names = {"a": name_of(scene.words, "swiglu"), "b": name_of(scene.words, "gelu")}
    items.append([said["time"], said["time_text"].format(**given, **names)])
    items.append([said["caveat"], said["caveat_text"].format(seeds=SEEDS, steps=found.trial.steps)])
    return {"title": said["title"], "items": items, "run": f"{found.trial} facts {scene.language}"}


def told_pair(said: Mapping[str, str], names: Mapping[str, str], first, second) -> str:
    """One sentence on two kinds, by their losses at the end. [S] each"""
    found = verdict(first, second)
    if not math.isfinite(found.difference):
        return said["astray"]
    side = said["lower" if found.difference < 0 else "higher"]
    key = "within" if abs(found.difference) <= found.spread else "apart" if found.apart else "beyond"
    return said[key].format(**names, gap=loss_told(abs(found.difference)), side=side, spread=loss_told(found.spread))


VIEW = View(
    "mlps",
    build,
    draw,
    parts=PARTS,
    fixed=fixed,
    asks=("mlps_form", "mlps_training"),
    jobs={"mlps_job": plan},
)
