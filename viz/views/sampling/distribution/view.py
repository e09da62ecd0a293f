"""The distribution: one position's logits through a pipeline of warps, over the whole vocabulary.

Everything is computed from logits that the run already has; the model does not run again.
"""

import dataclasses

from model.sampling.orders import Result
from model.sampling.pipeline import MOST_STEPS, softmax
from model.sampling.warps import WARPS, shape, values_of
from viz.labels import quoted
from viz.numbers import BIT, NONE, bits, number, percent, whole
from viz.seam.programs.arguments import Rows
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import at, measured, named
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings, form
from viz.seam.view import Asking, Custom, Figure, Form, Measure, Payload, Seen, Table, View
from viz.views.sampling import tool_settings
from viz.views.sampling.distribution.effects_table import (
    CHANCE,
    chances,
    chosen_context,
    each_token,
    measure_effects,
    shaped_lines,
    stage_number,
)
from viz.views.sampling.distribution.figures import (
    Cut,
    Shown,
    Stages,
    bars_figure,
    curve_figure,
    place,
    shown_tokens,
    stages_of,
    step_rows,
    surprisal,
)
from viz.views.sampling.distribution.orders_table import Compared, counted, measure_orders, orders_table
from viz.views.sampling.distribution.rule import measure_rule, needs_rule, rule_report, rule_table
from viz.views.sampling.distribution.vocabulary_table import (
    PAGE,
    RowsRequest,
    frame,
    page_of,
    read,
    rows_of,
    shown_rows,
)
from viz.views.sampling.pipelines import (
    PIPELINE,
    after,
    by_chance,
    context_of,
    logits_of,
    numbered,
    steps_of,
    value_of,
)
from viz.words import Words, plot_words


def _stage_label(words: Words, option: str) -> str:
    return words["stage_last"] if option == "last" else words["stage_step"].format(step=option)


STAGE = Choice("stage", ("last", *map(str, range(1, MOST_STEPS + 1))), label=_stage_label)
AXIS = Choice("axis", ("linear", "log"))


def measure(scene: Scene, settings: Settings) -> Stages:
    """Compute every stage of the pipeline for the logits at the selected position."""
    size = scene.model.tokenizer.vocab_size
    shaped = shape(logits_of(scene), settings.pipeline, chosen_context(scene, settings.chance))
    stages = shaped.stages[:, :size]
    order = (-stages[0]).argsort(stable=True).int().numpy()
    logits = stages.numpy()
    return stages_of(logits, softmax(logits), shaped.report(), order)


def needs_pieces(scene: Scene, settings: Settings) -> Settings:
    """Return the only setting that `measure_pieces` depends on: whether the table needs the strings of all tokens."""
    return Settings((("needed", settings.table.reads_texts),))


def measure_pieces(scene: Scene, settings: Settings) -> tuple[str, ...]:
    """Decode every token of the vocabulary into a string [V]; empty if the table does not need them."""
    tokenizer = scene.model.tokenizer
    return tuple(map(tokenizer.piece, range(tokenizer.vocab_size))) if settings.needed else ()


# --- parts ---


def _names(seen: Seen) -> list[str]:
    """Format the steps of the pipeline, numbered in order."""
    return numbered(seen.all_words, seen.settings.pipeline)


def _next_token(seen: Seen) -> int | None:
    """Return the id of the actual next token or of the token that is masked, or None if the prompt has none."""
    return seen.facts.actual


def options(seen: Seen) -> Payload:
    """Build the form that selects the stage shown by the bars and the scale of their axis."""
    names = _names(seen)

    def label(words: Words, option: str) -> str:
        return _stage_label(words, option if option == "last" else names[int(option) - 1])

    steps = map(str, range(1, len(names) + 1))
    stage = dataclasses.replace(STAGE, options=("last", *steps), label=label)
    chance = (CHANCE,) if by_chance(seen.settings.pipeline) else ()
    return form((stage, AXIS, *chance), seen.words.within("settings"), None)


def facts(seen: Seen) -> Payload:
    """Build the comparison before and after the pipeline: entropy, effective choices, tokens, top probability, next
    token.
    """
    words, stages = seen.here, seen.result
    ends = [stages.reports[n] for n in (0, -1)]
    pairs = {
        "entropy": [bits(each.entropy / BIT) for each in ends],
        "choices": [number(each.effective) for each in ends],
        "left": [whole(each.kept) for each in ends],
        "top": [percent(float(stages.probabilities[n].max())) for n in (0, -1)],
    }
    return {
        "title": words["title"].format(after=after(seen)),
        "facts": [*([words[name], *pair, words[f"{name}_help"]] for name, pair in pairs.items()), *chances(seen)],
        "next": _next(seen),
        "words": {"before": seen.words["before"], "then": words["then"]},
    }


def _next(seen: Seen) -> dict:
    """Describe the actual next token: its rank, probability and surprisal before and after the pipeline, and the step
    that removed it, if any.
    """
    words, stages, token = seen.here, seen.result, _next_token(seen)
    if token is None:
        return {"text": words["no_next"], "facts": []}
    shares = [float(stages.probabilities[n][token]) for n in (0, -1)]
    ranks = [place(stages.logits[n], token) for n in (0, -1)]
    pairs = {
        "rank": [NONE if rank is None else whole(rank) for rank in ranks],
        "share": [percent(share) for share in shares],
        "bits": [surprisal(share) for share in shares],
    }
    text = words["next_is"].format(token=quoted(seen.facts.piece(token)))
    if step := int(stages.out[token]):
        text = words["next_out"].format(token=quoted(seen.facts.piece(token)), step=_names(seen)[step - 1])
    return {
        "text": text,
        "facts": [[words[f"next_{name}"], *pair, words[f"next_{name}_help"]] for name, pair in pairs.items()],
    }


def steps(seen: Seen) -> Payload:
    """Build the table of the stages: a row for the model's own distribution, then one row per step."""
    words = seen.here
    names = [words["model"], *_names(seen)]
    kinds = ["model", *(WARPS[step.warp].kind for step in seen.settings.pipeline)]
    return {
        "title": words["title"],
        "note": words["note"],
        "file": "distribution-steps",
        "source": "",
        "columns": [words[f"column_{name}"] for name in ("step", "left", "removed", "entropy", "choices")],
        "rows": step_rows(seen.result, names, kinds),
    }


def bars(seen: Seen) -> Payload:
    """Draw the probabilities of the top tokens in the model's own distribution and after the selected step."""
    words, stages, names, stage = seen.here, seen.result, _names(seen), stage_number(seen.settings)
    tokens = shown_tokens(stages, stage, _next_token(seen))
    series = {"before": seen.words["before"]}
    series["after"] = seen.words["after_all"] if stage == len(names) else names[stage - 1]
    shown = Shown(tokens, list(map(seen.facts.piece, tokens)), stage, _next_token(seen), seen.settings.axis == "log")
    last = f"shaped.probabilities({stage})[ids]" if stage < len(names) else "shaped.probabilities()[ids]"
    python = shaped_lines(seen, f"ids = {tokens}", f"shaped.probabilities(0)[ids], {last}  # before, after")
    return {
        "figure": bars_figure(stages, shown, words.plain() | series, names),
        "title": words["title"].format(after=after(seen)),
        "note": words["note"].format(n=len(tokens)),
        "file": f"distribution-{seen.facts.position}",
        "columns": [words["series"], words["share"], words["token"]],
        "python": python,
    }


def curve(seen: Seen) -> Payload:
    """Draw the cumulative probability before and after the pipeline, with the cut of each truncating step."""
    words, stages, cuts = seen.here, seen.result, []
    for n, (step, name) in enumerate(zip(seen.settings.pipeline, _names(seen), strict=True)):
        if (
            WARPS[step.warp].kind == "cut"
            and not WARPS[step.warp].chance
            and not WARPS[step.warp].takes_rule
            and stages.reports[n + 1].kept < stages.reports[n].kept
        ):
            cuts.append(Cut(n, name, values_of(step)["p"] if step.warp == "top_p" else None))
    series = {"before": seen.words["before"], "after": seen.words["after_all"]}
    lines = [
        "np.cumsum(np.sort(shaped.probabilities(0))[::-1])  # before",
        "np.cumsum(np.sort(shaped.probabilities())[::-1])  # after",
    ]
    return {
        "figure": curve_figure(stages, cuts, words.plain() | series),
        "title": words["title"].format(after=after(seen)),
        "note": words["note"],
        "file": f"cumulative-{seen.facts.position}",
        "columns": [words["series"], words["rank"], words["mass"]],
        "python": shaped_lines(seen, *lines, imports=("import numpy as np",)),
    }


def table(seen: Seen) -> Payload:
    """Build one page of the vocabulary table, and all of its rows on request."""
    words, request, pieces = seen.here, _request(seen), seen.results["pieces"]
    vocabulary = frame(seen.result)
    page = page_of(vocabulary, request, pieces)
    columns = [[name, words[f"column_{name}"]] for name in ("rank", "token", "id", "logit")]
    columns += [[f"after_{n}", name] for n, name in enumerate(_names(seen), 1)]
    columns += [[name, words[f"column_{name}"]] for name in ("out", "before", "after")]
    last = "shaped.stages, shaped.probabilities(0), shaped.probabilities()  # [S + 1, V], [V], [V]"
    payload = {
        "title": words["title"].format(n=whole(len(vocabulary))),
        "note": words["note"],
        "columns": columns,
        "rows": shown_rows(page.rows, [seen.facts.piece(int(token)) for token in page.rows["id"]]),
        "total": words["total"].format(n=whole(page.total), V=whole(len(vocabulary))),
        "page": page.page,
        "pages": page.pages,
        "size": PAGE,
        "by": request.by,
        "down": request.down,
        "following": _next_token(seen),
        "file": f"vocabulary-{seen.facts.position}",
        "python": shaped_lines(seen, last),
        "words": words.within("labels").plain() | plot_words(seen.all_words),
    }
    if request.all:
        names = [words["column_token"], *(name for key, name in columns if key != "token")]
        payload |= {"all": request.all, "table": rows_of(vocabulary, names, pieces)}
    return payload


def _request(seen: Seen) -> RowsRequest:
    """Return the request for table rows, sorted by rank if its sort column belongs to a step that does not exist."""
    request, last = seen.settings.table, len(seen.settings.pipeline)
    exists = not request.by.startswith("after_") or int(request.by.removeprefix("after_")) <= last
    return request if exists else dataclasses.replace(request, by="rank")


# --- for programs ---


def distribution(scene: Scene, steps: list[dict] | None = None, position: int = -1, most: Rows = 20) -> dict:
    """Compute the distribution of the next token after each step of a sampling pipeline.

    Returns:
        stages: the model's own distribution, then one entry per step: number of remaining tokens (kept), removed
        probability, entropy (nats) and effective number of choices. tokens: the most likely before or after the
        pipeline, each with its logit and probability at every stage, and removed_by: the number of the step that
        removed it, from 1, or null. really_next: the actual next token, or null at the prompt's last position. A model
        that reads in both directions predicts the token at the position itself, masked; really_next is then the
        prompt's own token there, or null for a mask. rule: null, or for steps {"warp": "fits", "rule": {"kind":
        choice, regex, json, gbnf or lark, "text"}}: the forbidden probability, the number of allowed tokens, whether
        the text may end, the forced text, the characters that may come, and the likeliest forbidden tokens, each with
        where it fails and what may come there. With several rules, these are the numbers of all together; by (of a
        token) has the rules that forbid it, and rules the same numbers of each by itself, with its step, from 1.
    """
    scene, pipeline = at(scene, position), steps_of(scene.model, steps)
    stages: Stages = measured(VIEW, "main", scene, pipeline=pipeline)
    names = [{"warp": None, "values": {}}, *value_of(pipeline)]
    next_token = scene.actual
    tokens = [
        named(scene.model, n)
        | {
            "logits": stages.logits[:, n],
            "probabilities": stages.probabilities[:, n],
            "removed_by": int(stages.out[n]) or None,
        }
        for n in shown_tokens(stages, len(pipeline), next_token, most)
    ]
    reports = [name | vars(report) for name, report in zip(names, stages.reports, strict=True)]
    actual = None if next_token is None else named(scene.model, next_token)
    ruled = rule_report(scene.model, pipeline, context_of(scene), stages.probabilities[0])
    return {"position": scene.position, "stages": reports, "tokens": tokens, "really_next": actual, "rule": ruled}


def step_orders(scene: Scene, steps: list[dict] | None = None, position: int = -1) -> dict:
    """Compare every order of the steps of a sampling pipeline on the distribution of the next token.

    Returns:
        results: the different distributions, the present order's first, each with its orders (lists of step numbers,
        from 1), the number of its set of remaining tokens, how many remain (kept; 0 if a rule forbids all that were
        kept), entropy (nats), the most likely token (top, null if none remains) and its probability, and the total
        variation distance from the present order. pairs: the numbers of two steps whose exchange as neighbors changes a
        result. every: false if there are too many steps, so that only exchanges of two neighbors are compared. tools:
        the same numbers in the default orders of four tools, and the steps that a tool lacks. Empty for fewer than two
        steps. A step that acts by chance has the random number of seed 0.
    """
    scene, pipeline = at(scene, position), steps_of(scene.model, steps)
    compared: Compared | None = measured(VIEW, "orders", scene, pipeline=pipeline)
    if compared is None:
        return {"position": scene.position, "results": [], "pairs": [], "every": True, "tools": []}

    def numbers(result: Result) -> dict:
        return vars(result) | {"top": named(scene.model, result.top) if result.kept else None}

    found = compared.orders
    return {
        "position": scene.position,
        "results": [
            {"orders": [counted(order) for order in group.orders], "tokens": group.tokens} | numbers(group.result)
            for group in found.groups
        ],
        "pairs": [counted(pair) for pair in found.pairs],
        "every": found.every,
        "tools": [
            {"tool": each.tool, "order": counted(each.order), "lacking": counted(each.lacking)} | numbers(each.result)
            for each in compared.tools
        ],
    }


VIEW = View(
    "distribution",
    needs=("token",),
    settings=(STAGE, AXIS, CHANCE),
    measures=(
        Measure("main", measure, depends=("run", "token"), settings=("pipeline", "chance"), locks=False, keep=False),
        Measure(
            "effects",
            measure_effects,
            depends=("run", "token"),
            settings=("pipeline", "stage", "chance"),
            locks=False,
            keep=False,
        ),
        Measure("orders", measure_orders, depends=("run", "token"), settings=("pipeline", "chance"), locks=False),
        Measure(
            "pieces",
            measure_pieces,
            depends=("model",),
            settings=("table",),
            question=needs_pieces,
            locks=False,
        ),
        Measure("rule", measure_rule, depends=("run", "token"), settings=("pipeline",), question=needs_rule),
    ),
    layout=("pipeline", "facts", "form", "rule", "bars", "steps", "effects", "orders", "curve", "table"),
    parts={
        "pipeline": PIPELINE,
        "facts": Custom("shapefacts", facts, settings=()),
        "form": Form(options, settings=("pipeline",)),
        "bars": Figure(bars, settings=("stage", "axis")),
        "rule": Table(rule_table, of="rule", settings=()),
        "steps": Table(steps, settings=()),
        "effects": Table(each_token, of="effects", settings=("stage",)),
        "orders": Custom("shapeorders", orders_table, of="orders", settings=()),
        "curve": Figure(curve, settings=()),
        "table": Asking("shapetable", read, table, of=("main", "pieces"), settings=("table",)),
    },
    problems="facts",
    streams=(tool_settings.FEED,),
    api=(Endpoint(distribution), Endpoint(step_orders), *tool_settings.API),
)
