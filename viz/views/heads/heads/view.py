"""Every head in numbers, on this prompt or over a probe set, and which heads work together."""

import math
from collections.abc import Mapping

from model.api import LanguageModel
from model.attention.surveys import LABELS, MARGIN
from model.tracing.head_metrics import HEAD_METRICS
from viz.numbers import duration, signed, whole
from viz.seam.programs.answers import ranked_heads
from viz.seam.programs.arguments import Rows
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, on, unprompted
from viz.seam.python_lines import model_script, script
from viz.seam.settings import Choice
from viz.seam.view import Custom, Facts, Figure, Job, Payload, Seen, View
from viz.theme import HUES
from viz.views.heads.heads.figures import (
    Color,
    Measured,
    Metric,
    Plane,
    composition_figure,
    head_table,
    scatter_figure,
)
from viz.views.heads.heads.measure import LEAST, PROMPT, SOURCES, SURVEY, WIRING, measured_heads
from viz.words import Words, joined
from viz.work.playground import Playground

METRICS = (*HEAD_METRICS, "copying")
UP = ("induction", *(key for key in METRICS if key != "induction"))  # the first one is the default
COLORS = ("layer", "label", "first_token", "entropy", "copying")
INSTEAD = ("first_token", "entropy", "self", "distance")  # metrics that every prompt of two tokens has


def name_of(words: Words, key: str) -> str:
    """Return the name of a metric."""
    return words.catalogue["heads.copying.name" if key == "copying" else f"metric.{key}"]


def help_of(words: Words, key: str) -> str:
    """Return the help of a metric."""
    return words.catalogue["heads.copying.help" if key == "copying" else f"metric_help.{key}"]


def metrics(seen: Seen) -> dict[str, Metric]:
    """All metrics in the reader's language, with why one may have no number here."""
    words, missing = seen.words, _missing(seen)
    result = {}
    for key, metric in HEAD_METRICS.items():
        unit, kind = words[f"units.{metric.unit.replace(' ', '_')}"], "share" if metric.high == 1 else "size"
        result[key] = Metric(key, name_of(words, key), help_of(words, key), unit, kind, missing.get(key, ""))
    unit, why = words["copying.unit"], words["copying.missing"]
    result["copying"] = Metric("copying", name_of(words, "copying"), help_of(words, "copying"), unit, "signed", why)
    return result


def _missing(seen: Seen) -> dict[str, str]:
    """Why a metric may have no number, by its key."""
    words = seen.words.within("missing")
    if seen.settings.source != "prompt":
        return {}
    if len(seen.facts.tokens) == 1:
        return dict.fromkeys(HEAD_METRICS, words["one"])
    return {key: words[key] for key in ("duplicate_token", "induction")}


def shown_heads(seen: Seen) -> Measured | None:
    """Return the numbers of all heads from the chosen source; None for a probe set that was not measured yet."""
    return measured_heads(seen.settings.source, seen.results["prompt"], seen.results["survey"])


def unmeasured(seen: Seen) -> Payload:
    """Instead of a picture of the probe set that was not measured yet."""
    words = seen.words
    hint = words["unmeasured_hint"].format(button=words["survey.start"])
    return {"empty": {"text": words["unmeasured"], "hint": hint}}


def caption(seen: Seen) -> str:
    """Return the subject of the numbers: one run of this prompt, or means over a probe set."""
    words, source = seen.words.within("caption"), seen.settings.source
    if source == "prompt":
        n = len(seen.facts.tokens)
        return words["prompt" if n > 1 else "one"].format(tokens=whole(n))
    return words[source].format(n=whole(getattr(seen.results["survey"], source).sequences))


def source_line(seen: Seen) -> str:
    """Whose numbers these are; edits change the run of the prompt only."""
    if seen.settings.source == "prompt":
        return seen.facts.source
    time = duration(seen.seconds["survey"])
    return seen.words["measured"].format(model=seen.facts.label, dtype=seen.facts.dtype, time=time)


def python_of(facts: Facts, source: str, axes: tuple[str, ...] = ()) -> str:
    """Return the lines that make the frame of the chosen source, or its columns that are `axes`."""
    copied = "copying" in axes
    columns = f"[{list(dict.fromkeys(axes))}]" if axes and not copied else ""
    imports = ["from model.attention.circuits import copying"] if copied else []
    last = ["copying(lm.model)  # [L, H]"] if copied else []
    if source == "prompt":
        return script(facts, [f"run.head_metrics(){columns}  # indexed (layer, head)", *last], imports)
    both = [f"found.mean{columns}, found.spread{columns}  # indexed (layer, head)", *last]
    if source == "sentences":
        lines = ["found = sentence_survey(lm.model, lm.encode)", *both]
        return model_script(facts, lines, ["from model.attention.surveys import sentence_survey", *imports])
    lines = ["found = random_survey(lm.model, pool=lm.tokenizer.vocab_size)", *both, f"labels(found, {LEAST})"]
    return model_script(facts, lines, ["from model.attention.surveys import labels, random_survey", *imports])


# --- the table -------------------------------------------------------------------------------------


def table(seen: Seen) -> Payload:
    """Return all heads in numbers."""
    words, texts, result = seen.here, seen.all_words, shown_heads(seen)
    if result is None:
        return unmeasured(seen)
    columns = [metric for metric in metrics(seen).values() if metric.key in result.values]
    names = [[name, texts[f"label.{name}"], texts[f"metric_help.{name}"], HUES[n]] for n, name in enumerate(LABELS)]
    rule = words["rule"].format(least=LEAST, margin=MARGIN)
    return head_table(result, columns) | {
        "caption": caption(seen),
        "names_of": names,
        "source": source_line(seen),
        "file": f"heads-{seen.settings.source}",
        "python": python_of(seen.facts, seen.settings.source),
        "words": words.plain() | {"rule": rule, "head": words["head"], **names_only(seen)},
    }


def names_only(seen: Seen) -> dict[str, str]:
    """Return the title of a column of names, and the text for none."""
    return {key: seen.words[key] for key in ("names", "nameless")}


# --- one metric against another --------------------------------------------------------------------


def scatter(seen: Seen) -> Payload:
    """Return every head as a point."""
    words, settings, result, known = seen.here, seen.settings, shown_heads(seen), seen.results["survey"] is not None
    if result is None or (not known and "copying" in (settings.x, settings.y)):
        return unmeasured(seen)
    every = metrics(seen)
    (x, y), notes = axes_of(seen, result, every)
    if result.values[[x.key, y.key]].isna().all(axis=None):
        return {"empty": {"text": words["no_numbers"], "hint": every[x.key].missing}}
    color = settings.colour if known or settings.colour not in ("label", "copying") else "layer"
    if color != settings.colour:
        notes.append(words["colour_later"])
    plane = Plane(result, x, y, color_of(seen, color, result, every), seen.words["named"])
    picture = scatter_figure(plane, seen.facts.heads)
    return {
        "figure": picture.update_layout(uirevision=f"{seen.facts.model_id} {settings.source} {x.key} {y.key}"),
        "title": words["title"].format(x=x.label, y=y.label),
        "note": joined([caption(seen), words["note"], *notes]),
        "source": source_line(seen),
        "file": f"heads-{x.key}-{y.key}-{settings.source}",
        "columns": [words["head"], x.label, y.label],
        "python": python_of(seen.facts, settings.source, (x.key, y.key)),
        "words": {**Words(seen.all_words, "plot").plain(), "series": seen.words["names"]},
    }


def axes_of(seen: Seen, result: Measured, every: Mapping[str, Metric]) -> tuple[tuple[Metric, Metric], list[str]]:
    """Return the two metrics; one without numbers on this prompt is replaced by another, with a note."""
    chosen, notes = [], []
    for key in (seen.settings.x, seen.settings.y):
        taken = {seen.settings.x, seen.settings.y, *(metric.key for metric in chosen)}
        other = next(each for each in INSTEAD if each not in taken)
        if result.values[key].isna().all() and result.values[other].notna().any():
            names = {"metric": every[key].label, "other": every[other].label}
            notes.append(f"{every[key].missing} {seen.here['instead'].format(**names)}")
            key = other
        chosen.append(every[key])
    return tuple(chosen), notes


def color_of(seen: Seen, name: str, result: Measured, every: Mapping[str, Metric]) -> Color:
    """Return the meaning of a point's color."""
    words = seen.words
    if name == "layer":
        return Color(words["layer"], result.values.index.get_level_values("layer").to_numpy(float))
    if name == "label":
        names = tuple((label, seen.all_words[f"label.{label}"]) for label in LABELS)
        return Color(words["names"], names=names, nameless=words["nameless"])
    return Color(every[name].label, result.values[name].to_numpy(float), every[name].kind == "signed")


# --- which heads work together ---------------------------------------------------------------------


def together(seen: Seen) -> Payload:
    """How strongly the main head is wired to each head of other layers."""
    words, facts, (layer, head) = seen.here, seen.facts, seen.facts.head
    if facts.config.n_layer == 1:
        return {"empty": {"text": words["one_layer"], "hint": words["one_layer_hint"]}}
    names = words.plain() | {"head": words["head"], "layer": words["layers"].format(head=f"{layer}.{head}")}
    lines = [
        f"found = composition(lm.model, {layer}, {head})",
        "found.reads, found.feeds  # by q, k, v: [L, H] each",
        "found.baseline, found.baseline_sd",
        f"copying(lm.model)[{layer}, {head}]",
    ]
    return {
        "figure": composition_figure(seen.result, names, across=False),
        "wide": composition_figure(seen.result, names, across=True).to_dict()["layout"],
        "title": words["title"].format(layer=layer, head=head),
        "note": joined(_notes(seen)),
        "file": f"composition-{layer}-{head}",
        "columns": [words["input"], words["head"], words["layer"], words["above"]],
        "python": model_script(facts, lines, ["from model.attention.circuits import composition, copying"]),
    }


def _notes(seen: Seen) -> list[str]:
    """How to read the maps, what was left out, and whether the head copies."""
    words, (layer, head), surveyed = seen.here, seen.facts.head, seen.results["survey"]
    notes = [words["note"].format(layer=layer, head=head), words["caveat"]]
    if surveyed is None:
        return [*notes, words["copies_later"].format(button=seen.words["survey.start"])]
    score = surveyed.copying[layer, head]
    if math.isnan(score):
        return [*notes, seen.words["copying.missing"]]
    return [words["copies"].format(score=signed(score)), *notes]


# --- for programs ----------------------------------------------------------------------------------


def head_survey(playground: Playground, model: LanguageModel) -> dict:
    """What every head does without a prompt of one's own: on repeated random tokens and on sentences, with the names
    that this gives to heads (previous token, induction ...) and copying scores.

    Returns:
        random, sentences: a record a head with the metrics of head_metrics, means over the sequences; names: layer,
        head, name, score and baseline of the heads that have one; copying: by layer and head, -1 to 1.
    """
    result = measured(VIEW, "survey", unprompted(playground, model))
    names = [
        {"layer": layer, "head": head, "name": name, "score": score, "baseline": baseline}
        for (layer, head), named in result.names.items()
        for name, score, baseline in named
    ]
    return {
        "random": result.random.mean,
        "sentences": result.sentences.mean,
        "names": names,
        "copying": result.copying,
        "sequences": {"random": result.random.sequences, "sentences": result.sentences.sequences},
    }


def composition(playground: Playground, model: LanguageModel, layer: int, head: int, most: Rows = 10) -> dict:
    """How strongly one head is wired to the others, by its weights alone: which heads it reads, and which read it.

    Returns:
        reads: for its query, key and value (q, k, v) the heads whose output it reads most; feeds: the heads whose
        query, key or value reads its output most; baseline and its sd: scores of unrelated random heads.
    """
    result = measured(VIEW, "wiring", on(unprompted(playground, model), layer, head))
    sides = {"reads": result.reads, "feeds": result.feeds}
    return (
        {"layer": layer, "head": head}
        | {name: {kind: ranked_heads(z, most) for kind, z in side.items()} for name, side in sides.items()}
        | {"baseline": result.baseline, "baseline_sd": result.baseline_sd}
    )


def _metric(name: str, options: tuple[str, ...]) -> Choice:
    return Choice(name, options, label=name_of, help=help_of)


def _color_name(words: Words, key: str) -> str:
    return words[f"colour_{key}"] if key in ("layer", "label") else name_of(words, key)


VIEW = View(
    "heads",
    settings=(
        Choice("source", SOURCES),
        _metric("x", METRICS),
        _metric("y", UP),
        Choice("colour", COLORS, label=_color_name),
    ),
    measures=(PROMPT, SURVEY, WIRING),
    names_heads="survey",
    layout=("form", "survey", (("table",), ("scatter",)), "composition"),
    parts={
        "survey": Job("survey"),
        "table": Custom("headtable", table, of="prompt", also=("survey",), settings=("source",)),
        "scatter": Figure(scatter, of="prompt", also=("survey",), depends=("heads",)),
        "composition": Figure(together, of="wiring", also=("survey",), settings=()),
    },
    api=(Endpoint(head_survey, reads="model", long=True), Endpoint(composition, reads="model", kind="computed")),
)
