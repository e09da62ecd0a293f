"""Prompts as programs: the same questions asked with several prompt variants, and the number of right answers."""

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
from viz.views.sampling.prompts.figures import AccuracyBar, AccuracyLine, accuracy_figure, curve_figure
from viz.views.sampling.prompts.measure import (
    COUNTS,
    MOST_ORDER,
    OF_CURVE,
    OF_TRIAL,
    ON_CURVE,
    ORDERS,
    SETTINGS,
    WAYS,
    TrialResult,
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
    label,
    listed,
    question_set_of,
    read_shown,
)
from viz.work.playground import Playground


def job(seen: Seen) -> Payload:
    """Describe the number of questions and the purpose of the question set, with notes on a suitable model and on
    ignored edits.
    """
    words, settings, selected = seen.here, seen.settings, question_set_of(seen)
    about = seen.words.within("sets")[selected.key]
    text = words["hint"].format(n=whole(questions(settings)), about=about)
    if selected.model != seen.facts.model_id:
        text = f"{text} {words['made_for'].format(model=selected.model)}"
    if seen.facts.edits:
        text = f"{text} {words['unedited']}"
    return {"text": text}


def accuracies(seen: Seen) -> Payload:
    """Draw one bar per variant with its interval."""
    words, result = seen.here, seen.result
    bars = [
        AccuracyBar(label(seen, name, row), sum(row.right), len(row.right), *row.interval) for name, row in result.rows
    ]
    return {
        "figure": accuracy_figure(bars, chance(question_set_of(seen)), words.plain()),
        "title": words["title"].format(set=seen.words.within("settings")[f"asked_{seen.settings.asked}"]),
        "note": words["note"].format(n=whole(bars[0].n)),
        "columns": [words["share"], words["variant"]],
        "python": _python(seen),
    }


def _python(seen: Seen) -> str:
    """Build the Python lines that run the same variants."""
    variants = [f"    {row.variant!r}," for _, row in seen.result.rows]
    n = questions(seen.settings)
    lines = [
        f'questions = question_set("{seen.settings.asked}")',
        "variants = [",
        *variants,
        "]",
        f"rows = trial(lm, questions, variants, {n})",
        "[(row.variant.strategy, row.share, row.interval) for row in rows]",
    ]
    imports = [
        "from model.prompting.prompts import Shots",
        "from model.prompting.question_sets import question_set",
        "from model.prompting.trial import Variant, trial",
    ]
    return model_script(seen.facts, lines, imports)


def curve_job(seen: Seen) -> Payload:
    """Describe the numbers of questions, of orders and of examples."""
    values = {"n": whole(questions(seen.settings)), "orders": ORDERS, "counts": ", ".join(map(str, ON_CURVE))}
    return {"text": seen.here["hint"].format(**values)}


def curve(seen: Seen) -> Payload:
    """Draw the accuracy by number of examples."""
    words, result = seen.here, seen.result
    lines = []
    for name, shares in zip((words["right"], words["shuffled"]), result.shares, strict=True):
        means = [float(each.mean()) for each in shares]  # NaN for one example, whose label cannot be shuffled
        spans = [wilson(mean, 0 if math.isnan(mean) else result.questions) for mean in means]
        lines.append(AccuracyLine(name, shares, *zip(*spans, strict=True)))
    python = [
        f'questions = question_set("{seen.settings.asked}")',
        f'result = curve(lm, questions, {ON_CURVE}, {ORDERS}, "{seen.settings.score}", {result.questions})',
        "result.shares  # [labels (right, shuffled), counts, orders]",
    ]
    imports = ["from model.prompting.question_sets import question_set", "from model.prompting.trial import curve"]
    return {
        "figure": curve_figure(result.counts, lines, chance(question_set_of(seen)), words.plain()),
        "title": words["title"].format(set=seen.words.within("settings")[f"asked_{seen.settings.asked}"]),
        "note": words["note"].format(
            orders=ORDERS, n=whole(result.questions), most=percent(float(result.shares[0, -1].mean()))
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
    """Ask the same questions with several prompt variants, and compare the accuracies with intervals and paired tests.

    Args:
        asked: A bundled question set.
        ways: The variants to compare with a prompt without examples: examples, reasoning (chain of thought, votes),
            tools (ReAct), system (chat template and system prompt), or all.
        examples: Number of examples in a few-shot prompt.
        questions: The first 8 or 16 questions, or all.
        score: How answers with choices are scored: sum or mean (per token) of the log-probabilities, or text: by the
            answer in the generated text.
        order: 0 keeps the order of the examples in the set; any other number is the seed of a random selection and
            order.

    Returns:
        questions: the number of questions; variants: for each one name, right (the number of right answers), share (the
        accuracy), low and high (95% Wilson interval), only_here and only_first (the numbers of questions that only this
        or only the first variant answered right) and p (exact McNemar test); answers: each with variant, question, said
        (the answer) and right; left_out: variants that the question set or the model does not support.
    """
    chosen = {"asked": asked, "ways": ways, "count": examples, "most": questions, "score": score, "order": order}
    result: TrialResult = measured(VIEW, "trial", unprompted(playground, model), **chosen)
    variants = []
    for name, row in result.rows:
        (low, high), test = row.interval, against(result, row)
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
        for name, row in result.rows
        for each in row.answers
    ]
    return {
        "questions": len(result.rows[0][1].right),
        "variants": variants,
        "answers": answers,
        "left_out": list(result.left_out),
    }


def few_shot_curve(
    playground: Playground,
    model: LanguageModel,
    asked: Annotated[str, OneOf(keys())] = "pairs",
    questions: Annotated[str, OneOf(("8", "16", "all"))] = "all",
    score: Annotated[str, OneOf(SCORES)] = "sum",
) -> dict:
    """Measure the accuracy of few-shot prompts by number of examples, in three orders, with correct and with shuffled
    labels.

    Args:
        asked: A bundled question set.
        questions: The first 8 or 16 questions, or all.
        score: How answers are scored: sum or mean (per token) of the log-probabilities of the choices, or text: by the
            answer in the generated text.

    Returns:
        questions: the number of questions; rows: for each number of examples, examples (that number), and right and
        shuffled: the accuracies with correct and with shuffled labels, one per order; null for shuffled labels with a
        single example, which cannot be shuffled.
    """
    result = measured(VIEW, "curve", unprompted(playground, model), asked=asked, most=questions, score=score)
    rows = [
        {"examples": count, "right": result.shares[0, index], "shuffled": result.shares[1, index]}
        for index, count in enumerate(result.counts)
    ]
    return {"questions": result.questions, "rows": rows}


VIEW = View(
    "prompts",
    needs=("layers", "next"),
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
