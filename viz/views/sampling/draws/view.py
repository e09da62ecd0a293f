"""Draws: how one random number picks one token, and whether a thousand of them come as often as they should."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import gradio as gr

from model.errors import InputError
from model.generation.next_token import context_at
from model.sampling.draw_statistics import LEVEL, Bar, Fit, band, bar_of, fit, uniforms
from model.sampling.pipeline import Step, softmax
from model.sampling.warps import final
from viz.page.background import kept
from viz.page.old_view import View
from viz.page.parts import choice, number, part, plot_words
from viz.page.picking import position_of, source
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.page.typed import quoted
from viz.views.predictions.figures import percent
from viz.views.sampling.distribution.view import logits_of, steps_sent
from viz.views.sampling.draws.figures import RUG, TOP, Line, groups, label, many_figure, rug, single
from viz.views.sampling.pipelines import steps_code
from viz.words import section

PARTS = ("pipeline", "draws_bar", "draws_form", "draws_many", "draws_fit")
NUMBERS = (1000, 100, 10_000)  # of draws; the first is the default
AHEAD = 64  # random numbers that are sent at once, so that the page can go on by itself
MOST_SEED, MOST_STEP = 2**31 - 1, 999_999


@dataclass(frozen=True)
class Asked:
    """Which random numbers: those of a seed, from a step on; or a number by hand."""

    seed: int
    first: int  # step of the first of the AHEAD numbers
    step: int
    u: float | None
    n: int  # draws to compare


@dataclass(frozen=True, eq=False)
class Looked:
    """The position that is looked at, its pipeline, and what can be drawn there."""

    scene: Scene
    at: int
    steps: tuple[Step, ...]
    bar: Callable[[], Bar]

    @property
    def key(self) -> tuple:
        """What decides the distribution."""
        return self.scene.run, self.at, self.steps

    @property
    def after(self) -> str:
        """Where in the prompt this is."""
        token = quoted(self.scene, int(self.scene.trace.tokens.ids[self.at]))
        return self.scene.words["draws.after"].format(token=token, position=self.at)


def build() -> dict[str, gr.HTML]:
    """The bar in full width; below, many draws left and what they say right."""
    made = {"draws_bar": part("draws_bar", None, kind="drawbar", value={})}
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320, scale=3):
            made["draws_form"] = part("draws_form", None, kind="controls", value={})
            made["draws_many"] = part("draws_many", None, kind="figure")
        with gr.Column(min_width=320, scale=2):
            made["draws_fit"] = part("draws_fit", None, kind="normfacts")
    return made


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """How many draws."""
    options = [[str(n), f"{n:,}"] for n in sorted(NUMBERS)]
    return {
        "draws_form": {
            "controls": [
                {
                    "name": "n",
                    "kind": "choice",
                    "label": words["draws.how_many"],
                    "value": str(NUMBERS[0]),
                    "options": options,
                },
            ]
        }
    }


def asked(values: Values) -> Asked:
    """What a page asked for, within bounds."""
    sent = values.get("draws_bar")
    seed = int(number(sent, "seed", 0, MOST_SEED, 0))
    step = int(number(sent, "step", 0, MOST_STEP, 0))
    u = number(sent, "u", 0, 1 - 2**-53, -1)
    n = int(choice(values.get("draws_form"), "n", tuple(map(str, NUMBERS))))
    return Asked(seed, step // AHEAD * AHEAD, step, None if u < 0 else u, n)


def looked_at(scene: Scene, values: Values) -> Looked:
    """What is drawn from: the run's own logits through the pipeline; raises InputError for steps that cannot be."""
    at, steps = position_of(scene), steps_sent(scene, values)

    def make() -> Bar:
        return bar_of(softmax(final(logits_of(scene, at), steps, context_at(scene.trace, at)).numpy()))

    @functools.cache
    def bar() -> Bar:
        return kept(scene.playground, ("bar", scene.trace.key, at, steps), make, lambda found: 3 * found.ids.nbytes)

    return Looked(scene, at, steps, bar)


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """The bar and many draws; steps that cannot be are told in the bar's place, and the rest stays as it is."""
    wanted = asked(values)
    try:
        looked = looked_at(scene, values)
    except InputError as error:
        return {"draws_bar": Picture((scene.run, str(error)), functools.partial(_raise, error))}
    many = functools.cache(lambda: Many(looked.bar(), wanted.seed, wanted.n))
    state = (looked.key, wanted.seed, wanted.n)
    return {
        "draws_bar": Picture((state, wanted.first, wanted.u), lambda: bar_payload(looked, wanted, many())),
        "draws_many": Picture(state, lambda: many_payload(looked, many())),
        "draws_fit": Picture(state, lambda: fit_payload(looked, many())),
    }


def _raise(error: InputError) -> dict:
    raise error


class Many:
    """The first n draws of a seed."""

    def __init__(self, bar: Bar, seed: int, n: int) -> None:
        self.bar, self.seed, self.n = bar, seed, n
        self.u = uniforms(seed, n)  # [n]
        self.counts = bar.counts(self.u)  # [tokens that can be drawn]

    def lines(self, scene: Scene) -> list[Line]:
        """The likeliest tokens and the rest, each with its band."""
        shares, counts = groups(self.bar.shares, self.counts)
        low, high = band(self.n, shares)
        names = [label(scene.model.tokenizer.piece(int(token))) for token in self.bar.ids[:TOP]]
        if len(shares) > len(names):  # a rest, or one token too many for a rest
            left = len(self.bar.ids) - TOP
            one = label(scene.model.tokenizer.piece(int(self.bar.ids[TOP])))
            names.append(one if left == 1 else scene.words["draws.more"].format(n=f"{left:,}"))
        rows = zip(names, shares.tolist(), counts.tolist(), low.tolist(), high.tolist(), strict=True)
        return [Line(*row) for row in rows]


# --- one random number ---


def bar_payload(looked: Looked, wanted: Asked, many: Many) -> dict:
    """The parts that can be seen, with their edges in full digits; random numbers; and what of these is in the tail."""
    scene, bar, words = looked.scene, looked.bar(), looked.scene.words
    n = single(bar.shares)
    ahead = uniforms(wanted.seed, AHEAD, wanted.first).tolist()
    numbers = ahead if wanted.u is None else [*ahead, wanted.u]
    return {
        "title": words["draws.title"].format(after=looked.after),
        "note": words["draws.one" if len(bar.ids) == 1 else "draws.note"].format(n=f"{len(bar.ids):,}"),
        "ids": bar.ids[:n].tolist(),
        "texts": [label(scene.model.tokenizer.piece(int(token))) for token in bar.ids[:n]],
        "shares": bar.shares[:n].tolist(),
        "edges": bar.edges[:n].tolist(),
        "total": bar.total,
        "count": len(bar.ids),
        "seed": wanted.seed,
        "first": wanted.first,
        "numbers": ahead,
        "most": {"seed": MOST_SEED, "step": MOST_STEP},
        "found": [found for found in (_found(looked, u) for u in numbers) if found["rank"] > n],
        "rug": {"counts": rug(many.u), "n": many.n, "bins": RUG},
        "source": source(scene),
        "file": f"draws-position-{looked.at}",
        "python": bar_lines(looked, wanted),
        "words": section(words, "drawbar") | plot_words(words),
        "run": repr((looked.key, wanted.seed, wanted.first, wanted.u, many.n)),
    }


def _found(looked: Looked, u: float) -> dict:
    """The part into which a number falls."""
    bar = looked.bar()
    place = int(bar.places(u))
    token = int(bar.ids[place])
    return {
        "u": u,
        "rank": place + 1,
        "id": token,
        "text": label(looked.scene.model.tokenizer.piece(token)),
        "share": float(bar.shares[place]),
        "from": bar.start(place),
        "to": float(bar.edges[place]),
    }


_IMPORTS = (
    "from model.generation.next_token import context_at, logits_after",
    "from model.sampling.warps import final",
)


def _lines(looked: Looked) -> list[str]:
    """That make the distribution."""
    return [
        f"at = {looked.at}  # {quoted(looked.scene, int(looked.scene.trace.tokens.ids[looked.at]))!r}",
        "logits, context = logits_after(run, at, lm.tokenizer.vocab_size), context_at(run, at)",
        f"steps = {steps_code(looked.steps)}",
        "probabilities = softmax(final(logits, steps, context).numpy())",
    ]


def bar_lines(looked: Looked, wanted: Asked) -> str:
    """The Python lines of one draw. The page puts what it shows now into the line that begins with "u = "."""
    u = f"uniform({wanted.seed}, {wanted.step})" if wanted.u is None else repr(wanted.u)
    imports = (*_IMPORTS, "from model.sampling.pipeline import Step, draw, softmax, uniform")
    last = [f"u = {u}", "token = draw(probabilities, u)", "lm.tokenizer.piece(token)"]
    return python_lines(looked.scene, [*_lines(looked), *last], imports)


# --- many of them ---


def many_payload(looked: Looked, many: Many) -> dict:
    """Expected and observed shares."""
    words = looked.scene.words
    said = section(words, "manydraws")
    lines = many.lines(looked.scene)
    outside = sum(not line.inside for line in lines)
    note = said["note"].format(seed=many.seed, last=f"{many.n - 1:,}", level=f"{100 * LEVEL:g} %")
    told = said["all_inside" if outside == 0 else "outside"].format(n=outside, all=len(lines))
    imports = (
        *_IMPORTS,
        "from model.sampling.draw_statistics import band, bar_of, fit, uniforms",
        "from model.sampling.pipeline import Step, softmax",
    )
    python = [
        *_lines(looked),
        "bar = bar_of(probabilities)",
        f"counts = bar.counts(uniforms({many.seed}, {many.n}))",
        f"low, high = band({many.n}, bar.shares[:{TOP}])",
        "fit(counts, bar.shares)",
    ]
    return {
        "figure": many_figure(lines, many.n, said),
        "title": said["title"].format(n=f"{many.n:,}", after=looked.after),
        "note": f"{note} {told}",
        "source": source(looked.scene),
        "file": f"draws-{many.n}-position-{looked.at}",
        "run": repr((looked.key, many.seed, many.n)),
        "columns": [said["series"], said["draws"], said["share"], said["token"]],
        "python": python_lines(looked.scene, python, imports),
        "words": plot_words(words),
    }


def fit_payload(looked: Looked, many: Many) -> dict:
    """The chi-square test in words, what came, and what would come if one looked for the likeliest alone."""
    said, bar, words = section(looked.scene.words, "drawfit"), many.bar, looked.scene.words
    result = fit(many.counts, bar.shares)
    items = [[said["test"], _test(said, result, len(bar.ids), many.n)]]
    if result:
        items.append([said["verdict"], said["fits" if result.p >= 0.05 else "rare"].format(p=percent(result.p))])
    seen = int((many.counts > 0).sum())
    given = {"seen": f"{seen:,}", "all": f"{len(bar.ids):,}", "n": f"{many.n:,}"}
    items.append([said["seen"], said["seen_text"].format(**given)])
    top = said["top_text"].format(share=percent(float(bar.shares[0])), came=percent(float(many.counts[0] / many.n)))
    items.append([said["top"], top])
    half = 1.96 * float(bar.shares[0] * (1 - bar.shares[0]) / many.n) ** 0.5
    if half:
        given = {"half": f"{100 * half:.2g}", "n": f"{many.n:,}", "more": f"{4 * many.n:,}"}
        items.append([said["error"], said["error_text"].format(**given)])
    return {
        "title": words["drawfit.title"],
        "about": said["about"],
        "items": items,
        "run": repr((looked.key, many.seed, many.n)),
    }


def _test(said: Mapping[str, str], result: Fit | None, tokens: int, n: int) -> str:
    """The test's numbers, or why there is none."""
    if result is None:
        return said["no_test_one" if tokens == 1 else "no_test"].format(n=f"{n:,}")
    p = f"{result.p:.3f}" if result.p >= 0.001 else f"{result.p:.1e}"
    given = {"statistic": f"{result.statistic:.2f}", "degrees": result.degrees, "p": p}
    text = said["test_text"].format(**given)
    return f"{text} {said['shared'].format(n=f'{result.shared:,}')}" if result.shared else text


VIEW = View(
    "draws",
    build,
    draw,
    parts=PARTS,
    fixed=fixed,
    asks=("pipeline", "draws_bar", "draws_form"),
)
