"""The first steps of a tiny training, wiring by wiring: losses, gradients, and what the numbers say."""

import math
from collections.abc import Mapping

from model.design.block_trials import LENGTH, ROWS, VARIANTS, WARMUP, WIDTH, Trained, Trial
from viz.page.scene import Scene
from viz.views.design.norms_residuals.figures import (
    COLOURS,
    DASHES,
    GREY,
    SMOOTH,
    Axes,
    Drawn,
    heat_figure,
    last_mean,
    lines_figure,
    loss_told,
    running_mean,
    told,
)
from viz.views.design.trials import framed, python_of
from viz.words import section

MARGIN = 0.02  # nats a byte: losses that differ by less are called alike
VANISHED = 1e-3  # a gradient this many times another one is next to nothing beside it
_PAIRS = {
    "placement": ("pre", "post"),
    "warmup_pre": ("pre", "pre_cold"),
    "warmup_post": ("post", "post_cold"),
    "residuals": ("pre", "pre_bare"),
}


def name_of(words: Mapping[str, str], key: str) -> str:
    """What a wiring or variant is called."""
    return words[f"wiring.name_{key}"]


def _source(scene: Scene, trial: Trial) -> str:
    said = section(scene.words, "wiringloss")
    return f"{said['source'].format(rate=f'{trial.rate:g}', warmup=WARMUP)} · {_model(scene, trial)}"


def _model(scene: Scene, trial: Trial) -> str:
    return scene.words["wiringloss.model"].format(
        depth=trial.depth, width=WIDTH, start=scene.words[f"wiring.start_{trial.start}"], rows=ROWS, length=LENGTH
    )


def _train_lines(trial: Trial) -> str:
    return f"found = train_wirings(lesson, {trial!r})"


def loss_payload(scene: Scene, found: Trained) -> dict:
    """Losses of all variants, step by step, and that of who knows the frequencies only."""
    said, trial = section(scene.words, "wiringloss"), found.trial
    at = range(1, trial.steps + 1)
    drawn = [
        Drawn(name_of(scene.words, key), COLOURS[key], at, running_mean(row), None, DASHES.get(key, "solid"))
        for key, row in zip(VARIANTS, found.losses, strict=True)
    ]
    drawn.append(Drawn(said["frequencies"], GREY, at, running_mean(found.frequencies), None, "dash", told=False))
    lines = [_train_lines(trial), "found.losses  # [variant, step], variants as in VARIANTS"]
    return {
        "figure": lines_figure(drawn, Axes(said["step"], said["loss"])),
        "title": said["title"],
        "note": said["note"].format(n=SMOOTH),
        "source": _source(scene, trial),
        "columns": [said["series"], said["step"], said["loss"]],
        "python": python_of(["from model.design.block_trials import VARIANTS, Trial, train_wirings"], lines),
    } | framed(scene, "first-steps", f"{trial} loss")


def heat_payload(scene: Scene, found: Trained, variant: str) -> dict:
    """The gradient of every block at every step of one variant."""
    said, trial = section(scene.words, "wiringheat"), found.trial
    at = list(VARIANTS).index(variant)
    x, y = scene.words["wiringloss.step"], scene.words["wiringstart.block"]
    lines = [_train_lines(trial), f"found.norms[{at}]  # [step, block] of {variant!r}"]
    sizes = sorted(each for row in found.norms[at].tolist() for each in row if each > 0)
    return {
        "figure": heat_figure(found.norms[at], x, y, said["value"]),
        "title": said["title"].format(name=name_of(scene.words, variant)),
        "note": said["note"].format(ratio=told(sizes[-1] / sizes[0] if sizes else math.nan)),
        "source": _source(scene, trial),
        "columns": [y, x, said["value"]],
        "python": python_of(["from model.design.block_trials import Trial, train_wirings"], lines),
    } | framed(scene, f"gradients-{variant}", f"{trial} heat {variant}")


def table_payload(scene: Scene, found: Trained) -> dict:
    """Every variant's numbers, and which of them have begun to use the context."""
    said, rows, better = section(scene.words, "wiringtable"), [], []
    guess = float(found.frequencies[-SMOOTH:].mean())
    ends = dict(zip(VARIANTS, last_mean(found.losses), strict=True))
    for at, key in enumerate(VARIANTS):
        losses, norms = found.losses[at].tolist(), found.norms[at]
        name, gain = name_of(scene.words, key), guess - ends[key]
        done = [step for step, loss in enumerate(losses) if math.isfinite(loss)]
        end = loss_told(ends[key]) if len(done) == len(losses) else said["astray"].format(n=len(done) + 1)
        ratios = [told(float(norms[step, 0] / norms[step, -1])) for step in (done[:1] + done[-1:])]
        rows.append([name, loss_told(losses[0]), end, loss_told(gain), *ratios, told(1000 * float(found.seconds[at]))])
        better += [name] if gain > MARGIN else []
    columns = [said[key] for key in ("variant", "first", "end", "gain", "start_ratio", "end_ratio", "ms")]
    columns[2] = columns[2].format(n=SMOOTH)
    given = {"margin": f"{MARGIN:g}", "names": ", ".join(better)}
    return {
        "title": said["title"],
        "columns": columns,
        "rows": rows,
        "check": said["learned" if better else "none"].format(**given),
        "same": False,
        "source": _source(scene, found.trial),
        "file": "first-steps",
        "run": f"{found.trial} table {scene.language}",
    }


def facts_payload(scene: Scene, found: Trained) -> dict:
    """Placement, warm-up and residuals, each as a pair of variants that differ in nothing else."""
    said = section(scene.words, "wiringfacts")
    ends = dict(zip(VARIANTS, last_mean(found.losses), strict=True))
    items = [[said[key], _pair(scene, said, pair, ends)] for key, pair in _PAIRS.items()]
    items.append([said["vanished"], _vanished(scene, said, found)])
    items.append([said["caveat"], said["caveat_text"].format(n=SMOOTH)])
    return {"title": said["title"], "items": items, "run": f"{found.trial} facts {scene.language}"}


def _vanished(scene: Scene, said: Mapping[str, str], found: Trained) -> str:
    """In which variants the first block's gradient is next to nothing beside the last block's, at the end."""
    ratios = dict(zip(VARIANTS, (found.norms[:, -1, 0] / found.norms[:, -1, -1]).tolist(), strict=True))
    gone = [f"{name_of(scene.words, key)} ({told(ratio)})" for key, ratio in ratios.items() if ratio < VANISHED]
    return said["vanished_text" if gone else "vanished_none"].format(names=", ".join(gone), share=f"{VANISHED:g}")


def _pair(scene: Scene, said: Mapping[str, str], pair: tuple[str, str], ends: Mapping[str, float]) -> str:
    """Which of two variants ends lower, if any."""
    first, second = (float(ends[key]) for key in pair)
    gap = second - first
    given = {
        "a": name_of(scene.words, pair[0]),
        "b": name_of(scene.words, pair[1]),
        "first": loss_told(first),
        "second": loss_told(second),
        "margin": f"{MARGIN:g}",
    }
    if not math.isfinite(gap):
        return said["astray"].format(**given)
    if abs(gap) < MARGIN:
        return said["same"].format(**given)
    return said["text"].format(**given, gap=loss_told(abs(gap)), side=said["lower" if gap > 0 else "higher"])
