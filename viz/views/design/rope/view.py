"""A query and a key as rotating pairs: what each adds to the score, and that only the distance of the two counts."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import gradio as gr

from model.design.positions import (
    PRECISIONS,
    THETA,
    QKPair,
    contributions,
    frequencies,
    head_qk,
    pair_of,
    polar,
    shift_bound,
    shift_errors,
    wavelengths,
)
from model.errors import InputError
from viz.page.background import kept
from viz.page.old_view import View
from viz.page.parts import part, plot_words
from viz.page.picking import cell_of, source
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.page.typed import quoted
from viz.theme import HUES
from viz.views.activations.norm.figures import told
from viz.views.design.rope.figures import (
    MOST_SHIFT,
    SHOWN,
    Curve,
    Errors,
    bars_figure,
    distance_figure,
    most_of,
    numbers,
    shift_figure,
    shifts,
    slow_sum,
    strongest,
    tiny,
)
from viz.views.predictions.figures import brief
from viz.words import section

PARTS = ("rope_pairs", "rope_bars", "rope_distance", "rope_shift", "rope_facts")
FARTHEST = 1024  # distances of the slider, where the context is longer
DRAWN = 256  # and of the curve: more of its ripples could not be told apart


@dataclass(frozen=True, eq=False)
class Shown:
    """One query and one key of the main head. What takes a while is worked out when it is first asked for."""

    scene: Scene
    query: int
    key: int
    pair: Callable[[], QKPair]
    shifted: Callable[[], tuple[Errors, Errors]]

    @property
    def said(self) -> dict[str, str]:
        """The words of the pictures."""
        return section(self.scene.words, "rope")

    @property
    def own(self) -> bool:
        """Whether the model has RoPE itself."""
        return self.scene.model.config.positions == "rope"

    @property
    def farthest(self) -> int:
        """The longest distance that is drawn."""
        return max(self.query - self.key, min(self.scene.model.config.n_ctx, FARTHEST) - 1)

    @property
    def run(self) -> str:
        """A short name of what is shown."""
        return f"{self.scene.run} {self.scene.head} {self.query} {self.key}"


def build() -> dict[str, gr.HTML]:
    """The circles in full width; below, what pairs add and the score by distance; the shift and the numbers."""
    made = {"rope_pairs": part("rope_pairs", None, kind="ropepairs")}
    for row in (("rope_bars", "rope_distance"), ("rope_shift", "rope_facts")):
        with gr.Row(elem_classes="pg-columns"):
            for name in row:
                with gr.Column(min_width=320):
                    made[name] = part(name, None, kind="normfacts" if name == "rope_facts" else "figure")
    return made


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """All of the main head and one pair of tokens."""
    cell = cell_of(scene)
    query, key = max(cell), min(cell)

    @functools.cache
    def pair() -> QKPair:
        return _read(scene, query, key)

    @functools.cache
    def shifted() -> tuple[Errors, Errors]:
        return _shifted(shown)

    shown = Shown(scene, query, key, pair, shifted)
    made = {
        "rope_pairs": pairs_payload,
        "rope_bars": bars_payload,
        "rope_distance": distance_payload,
        "rope_shift": shift_payload,
        "rope_facts": facts_payload,
    }
    return {name: Picture((shown.run, name), functools.partial(payload, shown)) for name, payload in made.items()}


def _read(scene: Scene, query: int, key: int) -> QKPair:
    """q and k of the main head at both tokens; raises InputError where edits drove them beyond float32."""
    name = ("rope", scene.trace.key, scene.head)

    def read() -> object:
        with scene.playground.computing:
            return head_qk(scene.trace, *scene.head)

    pair = pair_of(scene.model.config, kept(scene.playground, name, read), query, key)
    if not (math.isfinite(float(abs(pair.q).max())) and math.isfinite(float(abs(pair.k).max()))):
        raise InputError(scene.words["rope.not_finite"], "", scene.words["rope.not_finite_hint"])
    return pair


def _shifted(shown: Shown) -> tuple[Errors, Errors]:
    """How far the score moves by shift in both number formats, beside the bounds."""
    pair, by, said = shown.pair(), shifts(), shown.said
    made = []
    for name, colour in zip(PRECISIONS, (HUES[4], HUES[0]), strict=True):
        errors, bound = (f(pair, by, name) for f in (shift_errors, shift_bound))
        made.append(Errors(name, said["bound"].format(name=name), errors, bound, colour))
    return tuple(made)


# --- words and lines -------------------------------------------------------------------------------


def head_name(shown: Shown) -> str:
    """The head, and the two tokens with their positions."""
    scene, ids = shown.scene, shown.scene.trace.tokens.ids
    layer, head = scene.head
    return shown.said["head"].format(
        layer=layer,
        head=head,
        query=shown.query,
        key=shown.key,
        query_text=quoted(scene, int(ids[shown.query])),
        key_text=quoted(scene, int(ids[shown.key])),
    )


def source_of(shown: Shown) -> str:
    """Whose q and k these are, and whether the model turns them or only this view does."""
    told_ = source(shown.scene)
    return told_ if shown.own else f"{told_} · {shown.said['derived'].format(theta=f'{THETA:,.0f}')}"


def _lines(shown: Shown, lines: list[str], names: str) -> str:
    layer, head = shown.scene.head
    first = f"pair = pair_of(lm.config, head_qk(run, {layer}, {head}), {shown.query}, {shown.key})"
    return python_lines(shown.scene, [first, *lines], [f"from model.design.positions import {names}"])


def _payload(shown: Shown, name: str, figure: str, more: dict) -> dict:
    """What all figures have in common."""
    layer, head = shown.scene.head
    return {
        "figure": figure,
        "title": shown.said[f"{name}_title"],
        "source": source_of(shown),
        "file": f"rope-{name}-{layer}-{head}-{shown.query}-{shown.key}",
        "run": f"{shown.run} {name}",
        "words": plot_words(shown.scene.words),
    } | more


def _theta(shown: Shown) -> object:
    return frequencies(shown.scene.model.config, "rope")


# --- the circles -----------------------------------------------------------------------------------


def pairs_payload(shown: Shown) -> dict:
    """Everything that the page needs to turn the pairs by itself."""
    scene, pair, theta = shown.scene, shown.pair(), _theta(shown)
    n, said = len(theta), shown.said
    (q, q_angle), (k, k_angle) = polar(pair.q, n), polar(pair.k, n)
    layer, head = scene.head
    note = said["pairs_note"]
    return {
        "title": said["pairs_title"].format(head=head_name(shown)),
        "note": note if shown.own else f"{note} {said['derived_note'].format(theta=f'{THETA:,.0f}')}",
        "derived": not shown.own,
        "q": numbers(q),
        "k": numbers(k),
        "q_angle": numbers(q_angle),
        "k_angle": numbers(k_angle),
        "theta": theta.tolist(),
        "wavelength": numbers(wavelengths(theta)),
        "rest": float(contributions(pair, [0])[0, n]),
        "root": math.sqrt(len(pair.q)),
        "query": shown.query,
        "key": shown.key,
        "first": strongest(q, k),
        "shown": SHOWN,
        "farthest": shown.farthest,
        "most": MOST_SHIFT,
        "words": section(scene.words, "rope_pairs"),
        "source": source_of(shown),
        "file": f"rope-pairs-{layer}-{head}-{shown.query}-{shown.key}",
        "python": _lines(
            shown,
            ["contributions(pair, [pair.distance])  # by pair, last what is not turned"],
            "contributions, head_qk, pair_of",
        ),
        "run": shown.run,
    }


# --- the score -------------------------------------------------------------------------------------


def bars_payload(shown: Shown) -> dict:
    """What each pair adds, before and after turning; both add up to a score."""
    pair, theta, said = shown.pair(), _theta(shown), shown.said
    before, after = contributions(pair, [0, pair.distance])
    n, rest = len(theta), 2 * len(theta) < len(pair.q)
    names = [said["pair"].format(i=i, length=brief(float(length))) for i, length in enumerate(wavelengths(theta))]
    if rest:
        names.append(said["not_turned"].format(first=2 * n, last=len(pair.q) - 1))
    given = {
        "before": told(float(before.sum())),
        "after": told(float(after.sum())),
        "d": pair.distance,
        "gap": tiny(_gap(pair)),
    }
    note = said["bars_note" if shown.own else "bars_derived"].format(**given)
    lines = [
        "before, after = contributions(pair, [0, pair.distance])",
        "before, after, after.sum(), pair.score  # by pair; the score, and what the model has",
    ]
    return _payload(
        shown,
        "bars",
        bars_figure(before[: len(names)], after[: len(names)], names, said),
        {
            "note": note,
            "columns": [said["series"], said["pair_name"], said["pair_axis"], said["adds"]],
            "python": _lines(shown, lines, "contributions, head_qk, pair_of"),
        },
    )


def _gap(pair: QKPair) -> float:
    """Between the sum over pairs and the score that the model has; without RoPE, that is the one before turning."""
    return abs(float(contributions(pair, [pair.distance if pair.own else 0]).sum()) - pair.score)


def distance_payload(shown: Shown) -> dict:
    """The score as the key alone moves away."""
    pair, theta, said = shown.pair(), _theta(shown), shown.said
    longest = max(pair.distance + 1, min(DRAWN, shown.farthest + 1))
    parts = contributions(pair, range(longest))
    score, slow = parts.sum(1), slow_sum(parts, theta, shown.scene.model.config.n_ctx)
    curve = Curve(score, slow, pair.distance, float(score[pair.distance]))
    n = int((wavelengths(theta) > shown.scene.model.config.n_ctx).sum())
    given = {"slow": n, "n": len(theta), "context": f"{shown.scene.model.config.n_ctx:,}"}
    lines = [f"contributions(pair, range({longest})).sum(1)  # the score at each distance"]
    return _payload(
        shown,
        "distance",
        distance_figure(curve, said | {"slow": said["slow"].format(**given)}),
        {
            "note": said["distance_note"],
            "columns": [said["series"], said["distance"], said["score"]],
            "python": _lines(shown, lines, "contributions, head_qk, pair_of"),
        },
    )


# --- the shift -------------------------------------------------------------------------------------


def shift_payload(shown: Shown) -> dict:
    """How far the score moves when both positions are shifted, which in exact arithmetic it does not."""
    said, found, by = shown.said, shown.shifted(), shifts()
    context = shown.scene.model.config.n_ctx
    inside = [n for n, s in enumerate(by) if s < context] or [0]
    note = said["shift_note"].format(
        single=tiny(most_of(found[0].errors[inside])),
        double=tiny(most_of(found[1].errors[inside])),
        bound=tiny(most_of(found[0].bound[inside])),
        n=len(inside),
        context=f"{context:,}",
    )
    lines = ["shifts = [2**n for n in range(21)]"]
    lines += [f"{name}(pair, shifts, {each!r})" for each in PRECISIONS for name in ("shift_errors", "shift_bound")]
    return _payload(
        shown,
        "shift",
        shift_figure(by, found, context, said),
        {
            "note": note,
            "columns": [said["series"], said["shift"], said["error"]],
            "python": _lines(shown, lines, "head_qk, pair_of, shift_bound, shift_errors"),
        },
    )


def facts_payload(shown: Shown) -> dict:
    """The score, the sum, the shift and the angles in numbers."""
    pair, said, theta = shown.pair(), section(shown.scene.words, "rope_facts"), _theta(shown)
    score, content = (float(contributions(pair, [d]).sum()) for d in (pair.distance, 0))
    single, double = shown.shifted()
    near, far = (_at(single, s) for s in (shown.scene.model.config.n_ctx, MOST_SHIFT))
    given = {
        "score": told(score),
        "content": told(content),
        "gap": tiny(_gap(pair)),
        "d": pair.distance,
        "model": told(pair.score),
        "single": tiny(most_of(single.errors)),
        "double": tiny(most_of(double.errors)),
        "bound": tiny(most_of(single.bound)),
        "bound_double": tiny(most_of(double.bound)),
        "most": f"{MOST_SHIFT:,}",
        "n": len(single.errors),
        "near": tiny(near),
        "far": tiny(far),
        "context": f"{shown.scene.model.config.n_ctx:,}",
        "turn": brief(float(pair.distance * theta[0] / (2 * math.pi))),
        "slow": told(float(pair.distance * theta[-1] * 180 / math.pi)),
    }
    held = bool((single.errors <= single.bound).all() and (double.errors <= double.bound).all())
    items = [
        [said["sum"], said["sum_text" if shown.own else "sum_derived"].format(**given)],
        [said["turned"], said["turned_text"].format(**given)],
        [said["angles"], said["angles_text"].format(**given)],
        [said["shift"], said["shift_text" if held else "shift_beyond"].format(**given)],
        [said["grows"], said["grows_text"].format(**given)],
    ]
    if not shown.own:
        items.append([said["model_name"], said["no_rope"].format(theta=f"{THETA:,.0f}")])
    return {"title": said["title"], "about": source_of(shown), "items": items, "run": f"{shown.run} facts"}


def _at(found: Errors, most: int) -> float:
    """The largest error up to a shift."""
    return most_of(found.errors[[n for n, s in enumerate(shifts()) if s <= most]])


VIEW = View("rope", build, draw, parts=PARTS)
