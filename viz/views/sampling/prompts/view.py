"""Prompts as programs: the same questions asked in several ways, and how many answers are right."""

import math
from typing import Annotated

from model.api import LanguageModel
from model.prompting.question_sets import keys
from model.prompting.trial import SCORES
from model.shares import wilson
from viz.numbers import percent, whole
from viz.seam.programs.arguments import OneOf, Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, unprompted
from viz.seam.python_lines import model_script
from viz.seam.view import Asking, Custom, Figure, Job, Measure, Payload, Seen, Table, View
from viz.views.sampling.prompts.figures import Bar, Line, accuracy_figure, curve_figure
from viz.views.sampling.prompts.measure import (
    COUNTS,
    MOST_ORDER,
    OF_CURVE,
    OF_TRIAL,
    ON_CURVE,
    ORDERS,
    SETTINGS,
    WAYS,
    Found,
    curve_question,
    measure,
    measure_curve,
    question,
    questions,
)
from viz.views.sampling.prompts.tables import (
    against,
    chance,
    compare,
    facts,
    found_set,
    label,
    listed,
    read_shown,
)
from viz.work.playground import Playground


def job(seen: Seen) -> Payload:
    """What is asked of which set; what the set is for."""
    words, settings, asked = seen.here, seen.settings, found_set(seen)
    about = seen.words.within("sets")[asked.key]
    text = words["hint"].format(n=whole(questions(settings)), about=about)
    if asked.model != seen.facts.model_id:
        text = f"{text} {words['made_for'].format(model=asked.model)}"
    if seen.facts.edits:
        text = f"{text} {words['unedited']}"
    return {"text": text}


def accuracies(seen: Seen) -> Payload:
    """Return a bar a variant with its interval."""
    words, found = seen.here, seen.result
    bars = [Bar(label(seen, name, row), sum(row.right), len(row.right), *row.interval) for name, row in found.rows]
    return {
        "figure": accuracy_figure(bars, chance(found_set(seen)), words.plain()),
        "title": words["title"].format(set=seen.words.within("settings")[f"asked_{seen.settings.asked}"]),
        "note": words["note"].format(n=whole(bars[0].n)),
        "columns": [words["share"], words["variant"]],
        "python": _python(seen),
    }


def _python(seen: Seen) -> str:
    """Return the lines that ask the same."""
    rows = [f"    {row.variant!r}," for _, row in seen.result.rows]
    n = questions(seen.settings)
    lines = [
        f'asked = question_set("{seen.settings.asked}")',
        "variants = [",
        *rows,
        "]",
        f"found = trial(lm, asked, variants, {n})",
        "[(row.variant.strategy, row.share, row.interval) for row in found]",
    ]
    imports = [
        "from model.prompting.prompts import Shots",
        "from model.prompting.question_sets import question_set",
        "from model.prompting.trial import Variant, trial",
    ]
    return model_script(seen.facts, lines, imports)


def curve_job(seen: Seen) -> Payload:
    """How often the questions are asked."""
    values = {"n": whole(questions(seen.settings)), "orders": ORDERS, "counts": ", ".join(map(str, ON_CURVE))}
    return {"text": seen.here["hint"].format(**values)}


def curve(seen: Seen) -> Payload:
    """Return the accuracy against the number of examples."""
    words, found = seen.here, seen.result
    lines = []
    for name, shares in zip((words["right"], words["shuffled"]), found.shares, strict=True):
        means = [float(each.mean()) for each in shares]  # NaN for one example: one answer cannot be shuffled
        spans = [wilson(mean, 0 if math.isnan(mean) else found.questions) for mean in means]
        lines.append(Line(name, shares, *zip(*spans, strict=True)))
    python = [
        f'asked = question_set("{seen.settings.asked}")',
        f'found = curve(lm, asked, {ON_CURVE}, {ORDERS}, "{seen.settings.score}", {found.questions})',
        "found.shares  # [labels (right, shuffled), counts, orders]",
    ]
    imports = ["from model.prompting.question_sets import question_set", "from model.prompting.trial import curve"]
    return {
        "figure": curve_figure(found.counts, lines, chance(found_set(seen)), words.plain()),
        "title": words["title"].format(set=seen.words.within("settings")[f"asked_{seen.settings.asked}"]),
        "note": words["note"].format(
            orders=ORDERS, n=whole(found.questions), most=percent(float(found.shares[0, -1].mean()))
        ),
        "columns": [words["series"], words["examples"], words["share"]],
        "python": model_script(seen.facts, python, imports),
    }


# --- for programs ---


def prompt_variants(
    playground: Playground,
    model: LanguageModel,
    asked: Annotated[str, OneOf(keys())] = "pairs",
    ways: Annotated[str, OneOf(tuple(WAYS))] = "examples",
    examples: Annotated[str, OneOf(COUNTS)] = "8",
    questions: Annotated[str, OneOf(("8", "16", "all"))] = "all",
    score: Annotated[str, OneOf(SCORES)] = "sum",
    order: Annotated[int, Within(0, MOST_ORDER)] = 0,
) -> dict:
    """Return the same questions asked in several ways: how many answers are right, with intervals and paired
    comparisons.

    Args:
        asked: A bundled set of questions.
        ways: What is compared with a prompt without examples: examples, reasoning (chain of thought, votes), tools
            (ReAct), system (chat template and system prompt), or all.
        examples: In a few-shot prompt.
        questions: The first 8 or 16, or all.
        score: Of answers with choices: sum or mean (a token) of log-probabilities, or text: what the model writes.
        order: 0: the examples as they stand in the set; any other number shuffles them.

    Returns:
        questions: how many; variants: name, right, share, low and high (95 %, Wilson), only_here and only_first
        (questions that only this or only the first variant answered right) and p (McNemar, exact); answers: variant,
        question, said and right; left_out: variants that the set or the model has nothing for.
    """
    chosen = {"asked": asked, "ways": ways, "count": examples, "most": questions, "score": score, "order": order}
    found: Found = measured(VIEW, "trial", unprompted(playground, model), **chosen)
    variants = []
    for name, row in found.rows:
        (low, high), test = row.interval, against(found, row)
        variants.append(
            {
                "name": name,
                "right": sum(row.right),
                "share": row.share,
                "low": low,
                "high": high,
                "only_here": test.only_first,
                "only_first": test.only_second,
                "p": test.p,
            }
        )
    answers = [
        {"variant": name, "question": each.question.text, "said": each.said, "right": each.right}
        for name, row in found.rows
        for each in row.answers
    ]
    return {
        "questions": len(found.rows[0][1].right),
        "variants": variants,
        "answers": answers,
        "left_out": list(found.left_out),
    }


def few_shot_curve(
    playground: Playground,
    model: LanguageModel,
    asked: Annotated[str, OneOf(keys())] = "pairs",
    questions: Annotated[str, OneOf(("8", "16", "all"))] = "all",
    score: Annotated[str, OneOf(SCORES)] = "sum",
) -> dict:
    """Return the accuracy of few-shot prompts by number of examples, in three orders, with right and with shuffled
    answers.

    Args:
        asked: A bundled set of questions.
        questions: The first 8 or 16, or all.
        score: sum or mean (a token) of the log-probabilities of the choices, or text: what the model writes.

    Returns:
        questions: how many; rows: examples; right and shuffled: a share for each order, null where nothing can be
        shuffled.
    """
    found = measured(VIEW, "curve", unprompted(playground, model), asked=asked, most=questions, score=score)
    rows = [
        {"examples": count, "right": found.shares[0, at], "shuffled": found.shares[1, at]}
        for at, count in enumerate(found.counts)
    ]
    return {"questions": found.questions, "rows": rows}


VIEW = View(
    "prompts",
    settings=SETTINGS,
    measures=(
        Measure("trial", measure, depends=("model",), settings=OF_TRIAL, question=question, slow=True),
        Measure("curve", measure_curve, depends=("model",), settings=OF_CURVE, question=curve_question, slow=True),
    ),
    layout=("form", "job", ("accuracies", "facts"), "compare", "list", "curve_job", "curve"),
    parts={
        "job": Job("trial", job, settings=OF_TRIAL),
        "accuracies": Figure(accuracies, of="trial", settings=OF_TRIAL),
        "facts": Custom("normfacts", facts, of="trial", settings=()),
        "compare": Table(compare, of="trial", settings=()),
        "list": Asking("promptlist", read_shown, listed, of="trial", settings=("asked", "list")),
        "curve_job": Job("curve", curve_job, settings=OF_CURVE),
        "curve": Figure(curve, of="curve", settings=OF_CURVE),
    },
    api=(
        Endpoint(prompt_variants, reads="model", long=True),
        Endpoint(few_shot_curve, reads="model", long=True),
    ),
)
