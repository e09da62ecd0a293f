"""Draws: how one random number selects one token, and a test of many draws against the probabilities."""

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from model.sampling.draw_statistics import LEVEL, Fit, UnitBar, band, bar_of, fit, uniforms
from model.sampling.outcomes import counts as two_number_counts
from model.sampling.outcomes import expected
from viz.numbers import decimals, number, percent, whole
from viz.seam.programs.arguments import Rows, Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import at, measured, named
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.seam.settings import number as number_sent
from viz.seam.view import Asking, Custom, Figure, Measure, Payload, Seen, View
from viz.views.sampling.draws.figures import RUG, TOP, DrawCount, groups, label, many_figure, rug, single
from viz.views.sampling.pipelines import PIPELINE, after, by_chance, context_of, logits_of, pipeline_lines, steps_of
from viz.words import Words, plot_words

NUMBERS = (100, 1000, 10_000)  # offered numbers of draws
AHEAD = 64  # number of random numbers sent at once, so that the page can step without a request
MOST_SEED, MOST_STEP = 2**31 - 1, 999_999
MAX_SEED = 999_999  # maximum seed of the endpoint, the same as for generated texts
COUNT = Choice("n", tuple(map(str, NUMBERS)), "1000", label=lambda words, option: whole(int(option)))


@dataclass(frozen=True)
class Numbers:
    """The requested random numbers: AHEAD consecutive ones of a seed, or a single one set by hand."""

    seed: int = 0
    first: int = 0  # step of the first of the AHEAD random numbers
    u: float | None = None
    step: int = field(default=0, compare=False, repr=False)  # no part depends on it: the page has all AHEAD numbers


def read(sent: object, scene: Scene) -> Numbers:
    """Parse the random numbers that a page requests, clamped to their bounds."""
    seed = int(number_sent(sent, "seed", 0, MOST_SEED, 0))
    step = int(number_sent(sent, "step", 0, MOST_STEP, 0))
    u = number_sent(sent, "u", 0, 1 - 2**-53, -1)
    return Numbers(seed, step // AHEAD * AHEAD, None if u < 0 else u, step)


@dataclass(frozen=True, eq=False)
class Many:
    """The first n draws of a seed, with counts and 95% ranges for the top tokens and for all others combined."""

    seed: int
    u: np.ndarray  # float64 [n]
    counts: np.ndarray  # counts of all tokens that can be drawn, in decreasing order of probability [tokens]
    shares: np.ndarray  # probabilities of the top tokens, and of all others combined [k]
    drawn: np.ndarray  # counts of the same [k]
    low: np.ndarray  # lower bounds of the 95% ranges of these counts [k]
    high: np.ndarray  # upper bounds [k]
    fit: Fit | None

    @property
    def n(self) -> int:
        """The number of draws."""
        return len(self.u)


def measure(scene: Scene, settings: Settings) -> UnitBar:
    """Compute the distribution at the selected position: the run's own logits through the pipeline.

    If a step acts by chance, it is averaged over the outcomes.
    """
    return bar_of(expected(logits_of(scene), settings.pipeline, context_of(scene)))


def question(scene: Scene, settings: Settings) -> Settings:
    """Return the settings that many draws depend on: the pipeline, the seed and the number of draws."""
    return Settings((("pipeline", settings.pipeline), ("seed", settings.bar.seed), ("n", int(settings.n))))


def measure_many(scene: Scene, settings: Settings) -> Many:
    """Draw many tokens, count them, and test the counts against the probabilities."""
    bar, u = measure(scene, settings), uniforms(settings.seed, settings.n)
    if by_chance(settings.pipeline):
        logits, context = logits_of(scene), context_of(scene)
        counts = two_number_counts(logits, settings.pipeline, settings.seed, settings.n, context)[bar.ids]
    else:
        counts = bar.counts(u)
    shares, drawn = groups(bar.shares, counts)
    low, high = band(settings.n, shares)
    return Many(settings.seed, u, counts, shares, drawn, low, high, fit(counts, bar.shares))


# --- one random number ---


def one_draw(seen: Seen) -> Payload:
    """Build the payload of the bar: the visible intervals with exact edges, the random numbers, and the token of each
    number that falls into the tail.
    """
    words, facts, bar, many = seen.here, seen.facts, seen.result, seen.results["many"]
    settings, n = seen.settings.bar, single(bar.shares)
    ahead = uniforms(settings.seed, AHEAD, settings.first).tolist()
    numbers = ahead if settings.u is None else [*ahead, settings.u]
    return {
        "title": words["title"].format(after=after(seen)),
        "note": words[_note(seen)].format(n=whole(len(bar.ids))),
        "ids": bar.ids[:n].tolist(),
        "texts": [label(facts.piece(int(token))) for token in bar.ids[:n]],
        "shares": bar.shares[:n].tolist(),
        "edges": bar.edges[:n].tolist(),
        "total": bar.total,
        "count": len(bar.ids),
        "seed": settings.seed,
        "first": settings.first,
        "numbers": ahead,
        "most": {"seed": MOST_SEED, "step": MOST_STEP},
        "found": [part for part in (_part_of(seen, u) for u in numbers) if part["rank"] > n],
        "rug": {"counts": rug(many.u), "n": many.n, "bins": RUG},
        "file": f"draws-position-{facts.position}",
        "python": _one_draw_lines(seen),
        "words": words.within("labels").plain() | plot_words(seen.all_words),
    }


def _note(seen: Seen) -> str:
    if by_chance(seen.settings.pipeline):
        return "by_chance"
    return "one" if len(seen.result.ids) == 1 else "note"


def _part_of(seen: Seen, u: float) -> dict:
    """Return the interval of the bar that contains a random number."""
    bar = seen.result
    place = int(bar.places(u))
    token = int(bar.ids[place])
    return {
        "u": u,
        "rank": place + 1,
        "id": token,
        "text": label(seen.facts.piece(token)),
        "share": float(bar.shares[place]),
        "from": bar.start(place),
        "to": float(bar.edges[place]),
    }


_PROBABILITIES = "probabilities = expected(logits, steps, context)"
_EXPECTED = "from model.sampling.outcomes import expected"


def _one_draw_lines(seen: Seen) -> str:
    """Build the Python lines of one draw. The page inserts its current number into the line that begins with `u = `."""
    settings = seen.settings.bar
    u = f"uniform({settings.seed}, {settings.step})" if settings.u is None else repr(settings.u)
    lines = [_PROBABILITIES, f"u = {u}", "token = draw(probabilities, u)", "lm.tokenizer.piece(token)"]
    return pipeline_lines(seen, lines, (_EXPECTED, "from model.sampling.pipeline import draw, uniform"))


# --- many draws ---


def lines_of(seen: Seen) -> list[DrawCount]:
    """Return the top tokens and all others combined, each with its probability, observed count and 95% range."""
    bar, many, piece = seen.result, seen.results["many"], seen.facts.piece
    names = [label(piece(int(token))) for token in bar.ids[:TOP]]
    if len(many.shares) > len(names):  # the last entry combines the other tokens; a single one keeps its own label
        remaining = len(bar.ids) - TOP
        names.append(
            label(piece(int(bar.ids[TOP]))) if remaining == 1 else seen.here["more"].format(n=whole(remaining))
        )
    columns = (each.tolist() for each in (many.shares, many.drawn, many.low, many.high))
    return [DrawCount(*row) for row in zip(names, *columns, strict=True)]


def many_draws(seen: Seen) -> Payload:
    """Draw the probabilities beside the observed relative frequencies."""
    words, many, lines = seen.here, seen.results["many"], lines_of(seen)
    outside = sum(not line.inside for line in lines)
    note = words["note"].format(seed=many.seed, last=whole(many.n - 1), level=f"{number(100 * LEVEL)}%")
    verdict = words["all_inside" if outside == 0 else "outside"].format(n=outside, all=len(lines))
    random = by_chance(seen.settings.pipeline)
    imports = (
        "from model.sampling.outcomes import counts, expected" if random else _EXPECTED,
        f"from model.sampling.draw_statistics import band, bar_of, fit{'' if random else ', uniforms'}",
    )
    python = [
        _PROBABILITIES,
        "bar = bar_of(probabilities)",
        f"counts = counts(logits, steps, {many.seed}, {many.n}, context)[bar.ids]"
        if random
        else f"counts = bar.counts(uniforms({many.seed}, {many.n}))",
        f"low, high = band({many.n}, bar.shares[:{TOP}])",
        "fit(counts, bar.shares)",
    ]
    return {
        "figure": many_figure(lines, many.n, words.plain()),
        "title": words["title"].format(n=whole(many.n), after=after(seen)),
        "note": f"{note} {verdict}",
        "file": f"draws-{many.n}-position-{seen.facts.position}",
        "columns": [words["series"], words["draws"], words["share"], words["token"]],
        "python": pipeline_lines(seen, python, imports),
    }


def agreement(seen: Seen) -> Payload:
    """Describe the chi-square test, the number of distinct tokens drawn, and the sampling error of the top token's
    frequency.
    """
    words, bar, many = seen.here, seen.result, seen.results["many"]
    result, n, share = many.fit, whole(many.n), float(bar.shares[0])
    items = [[words["test"], _test(words, result, len(bar.ids), many.n)]]
    if result:
        items.append([words["verdict"], words["fits" if result.p >= 0.05 else "rare"].format(p=percent(result.p))])
    drawn = int((many.counts > 0).sum())
    items.append([words["seen"], words["seen_text"].format(seen=whole(drawn), all=whole(len(bar.ids)), n=n)])
    top = percent(float(many.counts[0] / many.n))
    items.append([words["top"], words["top_text"].format(share=percent(share), came=top)])
    half = 1.96 * (share * (1 - share) / many.n) ** 0.5
    if half:
        values = {"half": number(100 * half, 2), "n": n, "more": whole(4 * many.n)}
        items.append([words["error"], words["error_text"].format(**values)])
    return {"title": words["title"], "about": words["about"], "items": items}


def _test(words: Words, result: Fit | None, tokens: int, n: int) -> str:
    """Format the result of the test, or explain why the number of draws or tokens does not allow one."""
    if result is None:
        return words["no_test_one" if tokens == 1 else "no_test"].format(n=whole(n))
    p = decimals(result.p, 3) if result.p >= 0.001 else number(result.p, 2)
    text = words["test_text"].format(statistic=decimals(result.statistic), degrees=result.degrees, p=p)
    return f"{text} {words['shared'].format(n=whole(result.shared))}" if result.shared else text


# --- for programs ---


def draws(
    scene: Scene,
    steps: list[dict] | None = None,
    position: int = -1,
    seed: Annotated[int, Within(0, MAX_SEED)] = 0,
    count: Annotated[int, Within(1, 10_000)] = 1000,
    most: Rows = 20,
) -> dict:
    """Draw the next token many times, and test the counts against its probabilities with a chi-square test.

    Args:
        count: Number of draws.

    Returns:
        possible: number of tokens that can be drawn. tokens: the most likely ones, each with probability, drawn (the
        count), and low and high: the 95% range of the count. fit: statistic, degrees of freedom and p-value of the
        test, or null if there are too few draws or tokens for it. first: the first twenty random numbers with the token
        that each selects.
    """
    scene = at(scene, position)
    chosen = {"pipeline": steps_of(scene.model, steps), "bar": Numbers(seed), "n": str(count)}
    bar: UnitBar = measured(VIEW, "main", scene, **chosen)
    many: Many = measured(VIEW, "many", scene, **chosen)
    low, high = band(count, bar.shares[:most])
    tokens = [
        named(scene.model, n) | {"probability": p, "drawn": drawn, "low": a, "high": b}
        for n, p, drawn, a, b in zip(bar.ids[:most], bar.shares, many.counts, low, high, strict=False)
    ]
    first = [{"u": u, **named(scene.model, bar.ids[int(bar.places(u))])} for u in many.u[:20].tolist()]
    return {
        "position": scene.position,
        "possible": len(bar.ids),
        "tokens": tokens,
        "fit": many.fit,
        "first": first,
    }


VIEW = View(
    "draws",
    needs=("next",),
    settings=(COUNT,),
    measures=(
        Measure("main", measure, depends=("run", "token"), settings=("pipeline",), locks=False),
        Measure(
            "many",
            measure_many,
            depends=("run", "token"),
            settings=("pipeline", "bar", "n"),
            question=question,
            locks=False,
            keep=False,
        ),
    ),
    layout=("pipeline", "bar", "form", "many", "fit"),
    parts={
        "pipeline": PIPELINE,
        "bar": Asking("drawbar", read, one_draw, of=("main", "many"), settings=("bar",)),
        "many": Figure(many_draws, of=("main", "many"), settings=()),
        "fit": Custom("normfacts", agreement, of=("main", "many"), settings=()),
    },
    problems="bar",
    api=(Endpoint(draws),),
)
