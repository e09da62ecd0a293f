"""Why scores are divided by the square root of d_head: a head of this model, and random vectors, without it."""

from collections.abc import Mapping
from dataclasses import dataclass

import gradio as gr

from model.design.score_scaling import SIZES, Rows, drawn, products, rows_of, scaled, softmax, summary
from viz.page import background
from viz.page.old_view import View
from viz.page.parts import number, part, plot_words
from viz.page.picking import position_of, source
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.page.typed import quoted
from viz.views.activations.norm.figures import told
from viz.views.design.score_scaling.figures import Both, random_figure, row_figure, rows_figure, scores_figure
from viz.views.predictions.figures import percent
from viz.words import section

PARTS = ("rootd_form", "rootd_table", "rootd_scores", "rootd_row", "rootd_rows", "rootd_random")
TRAINED = 0.5  # the power of d that every model here was trained with
STEP = 0.05
_MEASURES = ("entropy", "largest", "jacobian")


def build() -> dict[str, gr.HTML]:
    """The head in numbers, its scores and one row; then every row, and random vectors."""
    made = {
        "rootd_form": part("rootd_form", None, kind="controls", value={}),
        "rootd_table": part("rootd_table", None, kind="labtable"),
    }
    for left, right in (("rootd_scores", "rootd_row"), ("rootd_rows", "rootd_random")):
        with gr.Row(elem_classes="pg-columns"):
            for name in (left, right):
                with gr.Column(min_width=320):
                    made[name] = part(name, None, kind="figure")
    return made


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """The power of d."""
    return {
        "rootd_form": {
            "controls": [
                {
                    "name": "power",
                    "kind": "range",
                    "label": words["rootd.power"],
                    "value": 0,
                    "min": 0,
                    "max": 1,
                    "step": STEP,
                    "help": words["rootd.power_help"],
                },
            ]
        }
    }


def power_of(values: Values) -> float:
    """What a page asked for, on the slider's steps."""
    return round(round(number(values.get("rootd_form"), "power", 0, 1, 0) / STEP) * STEP, 2)


@dataclass(frozen=True, eq=False)
class Head:
    """One head's products q.k, and what the softmax makes of them as trained and as chosen."""

    dots: object  # float64 [T, T], NaN where a key is not seen
    d: int
    power: float
    trained: Rows
    chosen: Rows

    def scores(self, power: float) -> object:
        """q.k / d^power. [T, T]"""
        return scaled(self.dots, self.d, power)


def head_of(scene: Scene, power: float) -> Head:
    """The main head under a scaling; nothing is run for it but the head's own queries and keys, once."""
    d = scene.model.config.d_head
    key = ("rootd", scene.trace.key, scene.head)

    def scores() -> object:
        with scene.playground.computing:
            return scene.trace.scores(*scene.head)

    dots = products(background.kept(scene.playground, key, scores), d)

    def rows(each: float) -> Rows:
        made = (*key, each)
        return background.kept(
            scene.playground, made, lambda: rows_of(scaled(dots, d, each)), lambda found: 32 * len(dots)
        )

    return Head(dots, d, power, rows(TRAINED), rows(power))


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """All of it at once."""
    power, at = power_of(values), position_of(scene)
    key = (scene.run, scene.head, power)
    return {
        "rootd_table": Picture(key, lambda: table_payload(scene, head_of(scene, power))),
        "rootd_scores": Picture(key, lambda: scores_payload(scene, head_of(scene, power))),
        "rootd_row": Picture((key, at), lambda: row_payload(scene, head_of(scene, power), at)),
        "rootd_rows": Picture(key, lambda: rows_payload(scene, head_of(scene, power))),
        "rootd_random": Picture(("random", scene.language), lambda: random_payload(scene)),
    }


def name_of(words: Mapping[str, str], power: float) -> str:
    """A scaling in words."""
    known = {0.0: "none", TRAINED: "root", 1.0: "whole"}
    return words[f"rootd.is_{known[power]}"] if power in known else words["rootd.is_power"].format(power=f"{power:g}")


def _names(scene: Scene, power: float) -> dict[str, str]:
    """The two lines of every figure."""
    return {"trained": name_of(scene.words, TRAINED), "chosen": name_of(scene.words, power)}


def _where(scene: Scene) -> dict[str, int]:
    layer, head = scene.head
    return {"layer": layer, "head": head, "d": scene.model.config.d_head}


def _frame(scene: Scene, name: str, power: float, lines: list[str]) -> dict:
    """What the figures and the table of the head share."""
    layer, head = scene.head
    start = [f"dots = products(run.scores({layer}, {head}), lm.config.d_head)  # [T, T]"]
    return {
        "source": source(scene),
        "file": f"scaling-{layer}-{head}-{name}",
        "run": f"{scene.run} {scene.head} {power} {name}",
        "python": python_lines(scene, [*start, *lines], [f"from model.design.score_scaling import {_used(lines)}"]),
    }


def _used(lines: list[str]) -> str:
    names = ("products", "rows_of", "scaled", "softmax", "summary")
    return ", ".join(name for name in names if name == "products" or any(f"{name}(" in line for line in lines))


def table_payload(scene: Scene, head: Head) -> dict:
    """The head in a few numbers, under no scaling, sqrt(d), d, and what was chosen."""
    said, powers = section(scene.words, "rootdtable"), sorted({0.0, TRAINED, 1.0, head.power})
    found = [made for power in powers if (made := summary(head.dots, head.d, power))]
    top = max((each.jacobian for each in found), default=1.0) or 1.0
    rows = [
        [
            name_of(scene.words, each.power),
            f"{each.deviation:.3f}",
            f"{each.entropy:.3f}",
            {"text": percent(each.evenness), "bar": each.evenness},
            {"text": f"{each.largest:.3f}", "bar": each.largest},
            percent(each.saturated),
            {"text": f"{each.jacobian:.4f}", "bar": each.jacobian / top},
        ]
        for each in found
    ]
    title = said["title"].format(**_where(scene))
    if not found:
        return {"empty": {"text": title, "hint": said["one"]}}
    names = ("scaling", "deviation", "entropy", "evenness", "largest", "saturated", "jacobian")
    lines = [f"[summary(dots, lm.config.d_head, power) for power in {powers}]"]
    return {
        "title": title,
        "about": said["about"],
        "columns": [said[name] for name in names],
        "rows": rows,
    } | _frame(scene, "numbers", head.power, lines)


def scores_payload(scene: Scene, head: Head) -> dict:
    """How the scores spread."""
    said = section(scene.words, "rootdscores")
    both = Both(head.scores(TRAINED), head.scores(head.power))
    lines = [f"[scaled(dots, lm.config.d_head, power) for power in ({TRAINED}, {head.power})]"]
    return {
        "figure": scores_figure(both, said | _names(scene, head.power)),
        "title": said["title"].format(**_where(scene)),
        "note": said["note"],
        "columns": [said["series"], said["score"], said["share"]],
        "words": plot_words(scene.words),
    } | _frame(scene, "scores", head.power, lines)


def row_payload(scene: Scene, head: Head, at: int) -> dict:
    """One row of weights."""
    said = section(scene.words, "rootdrow")
    weights = [softmax(head.scores(power)[at : at + 1, : at + 1])[0] for power in (TRAINED, head.power)]
    largest = [told(float(part.max())) for part in weights]
    token = quoted(scene, int(scene.trace.tokens.ids[at]))
    each = f"softmax(scaled(dots, lm.config.d_head, power))[{at}, :{at + 1}]"
    return (
        {
            "figure": row_figure(Both(*weights), scene.trace.tokens.pieces, said | _names(scene, head.power)),
            "title": said["title"].format(token=token, position=at, **_where(scene)),
            "note": said["note"].format(before=largest[0], after=largest[1]),
            "columns": [said["series"], said["key"], said["position"], said["weight"]],
            "words": plot_words(scene.words),
        }
        | _frame(scene, f"row-{at}", head.power, [f"[{each} for power in ({TRAINED}, {head.power})]"])
        | {"run": f"{scene.run} {scene.head} {head.power} {at} row"}
    )


def rows_payload(scene: Scene, head: Head) -> dict:
    """Every row's entropy, largest weight and Jacobian."""
    said = section(scene.words, "rootdrows")
    rows = {name: Both(getattr(head.trained, name), getattr(head.chosen, name)) for name in _MEASURES}
    names = said | _names(scene, head.power)
    lines = [f"[rows_of(scaled(dots, lm.config.d_head, power)) for power in ({TRAINED}, {head.power})]"]
    return {
        "figure": rows_figure(rows, head.trained.keys, scene.trace.tokens.pieces, names),
        "title": said["title"].format(**_where(scene)),
        "note": said["note"],
        "columns": [said["series"], said["query"], said["position"], said["value"]],
        "words": plot_words(scene.words),
    } | _frame(scene, "rows", head.power, lines)


def random_payload(scene: Scene) -> dict:
    """Random queries and keys of growing size."""
    said = section(scene.words, "rootdrandom")
    found = background.kept(scene.playground, ("rootd random",), drawn)
    rows = {"variance": ([each.variance for each in found], [each.scaled_variance for each in found])}
    for name in _MEASURES:
        rows[name] = tuple([getattr(each, name)[n] for each in found] for n in (0, 1))
    return {
        "figure": random_figure(SIZES, rows, said),
        "title": said["title"],
        "note": said["note"].format(
            size=SIZES[-1],
            variance=told(float(f"{found[-1].variance:.4g}")),
            before=told(float(f"{found[-1].jacobian[1]:.3g}")),
            after=told(float(f"{found[-1].jacobian[0]:.3g}")),
        ),
        "source": said["source"],
        "file": "scaling-random",
        "run": f"random {scene.language}",
        "columns": [said["series"], said["size"], said["value"]],
        "python": "from model.design.score_scaling import drawn\n\ndrawn()",
        "words": plot_words(scene.words),
    }


VIEW = View("rootd", build, draw, parts=PARTS, fixed=fixed, asks=("rootd_form",))
