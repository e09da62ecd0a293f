"""View of the loss beyond a model's trained context length, with the usual remedies."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated

from model.api import LanguageModel
from model.design.past_length import FAMILIES, MeanLoss, Scheme, by_position, edges, parts_of
from model.errors import InputError, say
from model.gpt.config import ModelConfig
from viz.numbers import difference, nats, number, plain, whole
from viz.seam.programs.arguments import Long, OneOf, Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, unprompted
from viz.seam.python_lines import script
from viz.seam.view import Custom, Figure, Job, Measure, Payload, Seen, Table, View
from viz.views.design.past_length.figures import SchemeCurve, loss_figure
from viz.views.design.past_length.measure import (
    AUTO,
    MOST,
    QUESTION,
    SETTINGS,
    MeasuredLengths,
    lengths_of,
    measure,
    plan,
    question,
)
from viz.words import Words
from viz.work.playground import Playground

LEAST = 16  # minimum number of tokens per window


# --- names of schemes ---


def _word(config: ModelConfig, scheme: Scheme) -> str:
    """Return the `words` key of a scheme; for three of the schemes it depends on the model's position encoding."""
    return f"{scheme.key}_{config.positions}" if scheme.key in ("as_is", "interpolate", "zero") else scheme.key


def scheme_name(words: Words, config: ModelConfig, scheme: Scheme) -> str:
    """Format the name of a scheme."""
    return words[f"scheme.{_word(config, scheme)}"].format(s=number(scheme.factor))


def scheme_help(words: Words, config: ModelConfig, scheme: Scheme) -> str:
    """Format the sentence that explains a scheme."""
    text = words[f"scheme_help.{_word(config, scheme)}"]
    return text.format(s=number(scheme.factor), n=whole(config.n_ctx), last=whole(config.n_ctx - 1))


# --- parts ---


def job(seen: Seen) -> Payload:
    """Describe the number and length of the windows, with the estimated duration."""
    words, planned = seen.here, seen.results["plan"]
    values = {"windows": planned.windows, "length": whole(planned.length), "ways": len(planned.schemes)}
    text = words["takes"].format(**values, seconds=whole(max(1, round(planned.seconds))))
    return {"text": f"{text} {words['no_edits']}" if seen.facts.edits else text}


def facts(seen: Seen) -> Payload:
    """Describe the model's position encoding and each scheme to evaluate."""
    words, config, planned = seen.here, seen.facts.config, seen.result
    about = words[f"model_{config.positions}"].format(n=whole(config.n_ctx))
    if planned.length <= config.n_ctx:
        about = f"{about} {words['inside'].format(length=whole(planned.length), n=whole(config.n_ctx))}"
    items = [[scheme_name(seen.words, config, each), scheme_help(seen.words, config, each)] for each in planned.schemes]
    if config.positions == "rope" and planned.family == FAMILIES[0] and config.rope_scaling:
        items.append([words["scaled"], words["scaled_help"]])
    return {"title": words["title"], "about": about, "items": items}


def _source(seen: Seen) -> str:
    """Format the source of the results: the model, its dtype, the windows and the text."""
    words, past = seen.words.within("source"), seen.result.past
    return words["text"].format(
        model=seen.facts.label,
        dtype=seen.facts.dtype,
        windows=past.loss.shape[1],
        length=whole(past.length),
        text=words["own" if seen.result.plan.own_text else "bundled"],
    )


def _python(seen: Seen, last: str) -> str:
    """Format the Python lines that repeat the measurement, followed by `last`."""
    planned = seen.result.plan
    text = 'open("text.txt", encoding="utf-8").read()' if planned.own_text else "bundled_text()"
    lines = [
        f"ids = lm.tokenizer.encode_ids({text})",
        "first = lm.tokenizer.begin_id",
        f"windows = windows_of(ids, {planned.length}, {planned.windows}, first)",
        f"schemes = schemes_of(lm.config, {planned.length}, {planned.factor!r}, {planned.family!r})",
        "past = past_trained(lm.model, windows, schemes, first)",
        last,
    ]
    names = "by_position, edges, parts_of, past_trained, schemes_of, windows_of"
    imports = [f"from model.design.past_length import {names}"]
    if not planned.own_text:
        imports.append("from model.text.held_out import bundled_text")
    return script(seen.facts, lines, imports)


def figure(seen: Seen) -> Payload:
    """Draw the loss by position, or its difference from the reference."""
    words, past, apart = seen.here, seen.result.past, seen.settings.show == "difference"
    ends = edges(past.length, past.trained)
    loss, error = by_position(past, ends, difference=apart)
    curves = [
        SchemeCurve(scheme_name(seen.words, seen.facts.config, each), loss[n], error[n])
        for n, each in enumerate(past.schemes)
    ]
    names = words.plain() | {
        "trained": words["trained"].format(n=whole(past.trained)),
        "loss": words["apart" if apart else "loss"],
    }
    windows = past.loss.shape[1]
    note = words["note"].format(windows=windows, width=ends[1] - ends[0])
    return {
        "figure": loss_figure(curves, ends, past.trained, names),
        "title": words["title_apart" if apart else "title"],
        "note": f"{note} {words['note_band' if windows > 1 else 'note_one']}",
        "source": _source(seen),
        "columns": [words["way"], words["positions"], words["position"], names["loss"]],
        "python": _python(seen, f"by_position(past, edges(past.length, past.trained), difference={apart})"),
    }


def table(seen: Seen) -> Payload:
    """Build the table of mean losses within and beyond the trained length, with differences from the reference."""
    words, config, past = seen.here, seen.facts.config, seen.result.past
    beyond, rows, lines = past.length > past.trained, [], []
    for n, scheme in enumerate(past.schemes):
        name, parts = scheme_name(seen.words, config, scheme), parts_of(past, n)[: 1 + beyond]
        row = [{"text": name, "help": scheme_help(seen.words, config, scheme)}]
        for each in parts:
            row += [nats(each.loss), difference(each.delta, each.error) if n else words["reference"]]
        rows.append(row)
        lines.append([name, *(plain(value) for each in parts for value in (each.loss, each.delta))])
    inside, outside = parts_of(past, 0)
    columns = [words["way"], words["inside_loss"].format(n=whole(min(past.trained, past.length))), words["delta"]]
    about = words["about"].format(inside=whole(inside.tokens))
    if outside is not None:
        columns += [words["beyond_loss"].format(n=whole(past.trained)), words["delta"]]
        about = words["about_both"].format(inside=whole(inside.tokens), beyond=whole(outside.tokens))
    return {
        "title": words["title"],
        "about": about,
        "columns": columns,
        "rows": rows,
        "lines": lines,
        "source": _source(seen),
        "python": _python(seen, "[parts_of(past, n) for n in range(len(schemes))]"),
    }


# --- endpoint ---


def past_trained_length(
    playground: Playground,
    model: LanguageModel,
    length: Annotated[int, Within(0, MOST)] = 0,
    factor: Annotated[float, Within(0, 64)] = 0.0,
    family: Annotated[str, OneOf(FAMILIES)] = "stretch",
    text: Annotated[str, Long()] = "",
) -> dict:
    """Return the loss by position, within and beyond the trained length, with the usual remedies.

    The model is not changed.

    Args:
        length: Tokens per window; 0: twice the trained length if that is quick, else a shorter length.
        factor: Scale factor s of linear interpolation, NTK-aware, Llama 3 and YaRN scaling; 0: the factor that the
            length
            requires, or 4 within the trained length.
        family: stretch: these scalings. theta: other bases of the rotation. No effect on models without RoPE.
        text: The text to evaluate. Empty: a chapter of A Little Princess.

    Returns:
        trained: the trained length; windows: the number of windows; ways: one record per scheme with scheme, factor,
        inside and beyond (mean loss in nats per token, delta: its difference from the first scheme, error: the standard
        error of delta, tokens; beyond is null if the windows fit), and losses and errors, one per bucket of positions.
        edges: the first position of each bucket, and the end of the last bucket.
    """
    scene = unprompted(playground, model)
    length = length or lengths_of(scene)[0]
    if length < LEAST:
        raise InputError("The windows are too short.", f"{length} tokens", say("Give at least {} tokens.", LEAST))
    chosen = {"length": str(length), "family": family, "factor": str(factor) if factor else AUTO}
    reading: MeasuredLengths = measured(VIEW, "main", scene, **chosen, text="own" if text else "bundled", own=text)
    past = reading.past
    ends = edges(past.length, past.trained)
    losses, errors = by_position(past, ends)
    ways = []
    for n, scheme in enumerate(past.schemes):
        inside, beyond = parts_of(past, n)
        means = {"inside": _fields(inside), "beyond": _fields(beyond)}
        ways.append({"scheme": scheme.key, "factor": scheme.factor, **means, "losses": losses[n], "errors": errors[n]})
    return {"trained": past.trained, "length": past.length, "windows": past.loss.shape[1], "edges": ends, "ways": ways}


def _fields(part: MeanLoss | None) -> Mapping[str, float] | None:
    return None if part is None else dataclasses.asdict(part)


VIEW = View(
    "past_length",
    settings=SETTINGS,
    form_depends=("model",),
    measures=(
        Measure("plan", plan, depends=("model",), settings=QUESTION, question=question, locks=False),
        Measure("main", measure, depends=("model",), settings=QUESTION, question=question, slow=True),
    ),
    layout=("form", "job", ("figure", ("table", "facts"))),
    parts={
        "job": Job("main", job, also=("plan",), depends=("edits",), settings=()),
        "figure": Figure(figure, settings=("show",)),
        "table": Table(table, settings=()),
        "facts": Custom("normfacts", facts, of="plan", settings=()),
    },
    api=(Endpoint(past_trained_length, reads="model", long=True),),
)
