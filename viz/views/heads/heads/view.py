"""Metrics of every head, on this prompt or over a probe set, and the composition scores between heads."""

import math
from collections.abc import Mapping

from model.api import LanguageModel
from model.attention.spans import spans_of
from model.attention.surveys import LABELS, MARGIN
from model.tracing.head_metrics import HEAD_METRICS
from viz.numbers import duration, signed, whole
from viz.seam import panels
from viz.seam.jobs.at_once import estimate
from viz.seam.programs.answers import ranked_heads
from viz.seam.programs.arguments import Rows
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, on, unprompted
from viz.seam.python_lines import model_script, script
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.seam.view import Custom, Facts, Figure, Job, Measure, Payload, Seen, View
from viz.views.heads.heads.cards import ORDER, cards, hue_of
from viz.views.heads.heads.figures import (
    Color,
    HeadNumbers,
    Metric,
    Plane,
    composition_figure,
    head_table,
    scatter_figure,
)
from viz.views.heads.heads.measure import LEAST, OF_PROMPT, SOURCES, SURVEY, WIRING, cost, measured_heads, prompt
from viz.words import Words, joined
from viz.work.playground import Playground

METRICS = (*HEAD_METRICS, "copying")
UP = ("induction", *(key for key in METRICS if key != "induction"))  # the first option is the default
COLORS = ("layer", "label", "first_token", "entropy", "copying")
INSTEAD = ("first_token", "entropy", "self", "distance")  # metrics defined for every prompt of at least two tokens


def name_of(words: Words, key: str) -> str:
    """Return the name of a metric."""
    return words.catalogue["heads.copying.name" if key == "copying" else f"metric.{key}"]


def help_of(words: Words, key: str) -> str:
    """Return the help text of a metric."""
    return words.catalogue["heads.copying.help" if key == "copying" else f"metric_help.{key}"]


def metrics(seen: Seen) -> dict[str, Metric]:
    """Build all metrics in the reader's language, each with the reason why it may be undefined for some heads."""
    words, missing, by_words = seen.words, _missing(seen), source_of(seen) == "words"
    result = {}
    for key, metric in HEAD_METRICS.items():
        name = "words" if by_words and metric.unit == "tokens" else metric.unit
        unit, kind = words[f"units.{name.replace(' ', '_')}"], "share" if metric.high == 1 else "size"
        label, help_text = name_of(words, key), help_of(words, key)
        if by_words:
            label = words.catalogue.get(f"metric_by.words.{key}", label)
            help_text = words.catalogue[f"metric_help_by.words.{key}"]
        result[key] = Metric(key, label, help_text, unit, kind, missing.get(key, ""))
    unit, why = words["copying.unit"], words["copying.missing"]
    result["copying"] = Metric("copying", name_of(words, "copying"), help_of(words, "copying"), unit, "signed", why)
    return result


def _missing(seen: Seen) -> dict[str, str]:
    """Return the reasons why heads may lack a metric, by its key."""
    words = seen.words.within("missing")
    source = source_of(seen)
    if source not in OF_PROMPT:
        return {}
    by = "_words" if source == "words" else ""
    if len(spans_of(seen.facts.tokens.raw, OF_PROMPT[source])) == 1:
        return dict.fromkeys(HEAD_METRICS, words[f"one{by}"])
    return {key: words[f"{key}{by}"] for key in ("duplicate_token", "induction")}


def run_of(scene: Scene, settings: Settings) -> Settings:
    """Reduce the settings to the key of the run whose metrics are shown; None for a probe set that was measured."""
    probed = settings.source not in OF_PROMPT and panels.measured(VIEW, "survey", scene, Settings())
    unit = OF_PROMPT.get(settings.source, "tokens")
    return Settings((("run", None if probed else scene.trace.key), ("unit", unit)))


def is_summed(settings: Settings) -> bool:
    """Return whether the metrics are computed after the run. They are then cached; the trace has those of tokens."""
    return settings.unit != "tokens"


def source_of(seen: Seen) -> str:
    """Return the source of the shown metrics: the selected one, or the prompt if the probe set is not measured yet."""
    source = seen.settings.source
    return "prompt" if seen.results["survey"] is None and source not in OF_PROMPT else source


def shown_heads(seen: Seen) -> HeadNumbers:
    """Return the metrics of all heads from the source that is shown."""
    return measured_heads(source_of(seen), seen.results["prompt"], seen.results["survey"])


def caption(seen: Seen) -> str:
    """Name the source of the metrics: one run of this prompt, or means over a probe set. Say if it is not measured."""
    words, source = seen.words.within("caption"), source_of(seen)
    if source == "words":
        raw = seen.facts.tokens.raw
        return words["words"].format(tokens=whole(len(raw)), words=whole(len(spans_of(raw, "words"))))
    if source == "prompt":
        n, early = len(seen.facts.tokens), source != seen.settings.source
        text = words["prompt" if n > 1 else "one"].format(tokens=whole(n))
        return joined([seen.words["unmeasured"], text]) if early else text
    return words[source].format(n=whole(getattr(seen.results["survey"], source).sequences))


def source_line(seen: Seen) -> str:
    """Name the model behind the metrics and, for a probe set, the duration of the survey.

    Only the metrics on the prompt are affected by edits.
    """
    if source_of(seen) in OF_PROMPT:
        return seen.facts.source
    time = duration(seen.seconds["survey"])
    return seen.words["measured"].format(model=seen.facts.label, dtype=seen.facts.dtype, time=time)


def python_of(facts: Facts, source: str, axes: tuple[str, ...] = ()) -> str:
    """Write the Python lines that compute the table of the selected source, or only its columns `axes`."""
    with_copying = "copying" in axes
    columns = f"[{list(dict.fromkeys(axes))}]" if axes and not with_copying else ""
    imports = ["from model.attention.circuits import copying"] if with_copying else []
    last = ["copying(lm.model)  # [L, H]"] if with_copying else []
    if source == "words":
        line = f"span_heads(run, 'words').metrics{columns}  # indexed (layer, head)"
        return script(facts, [line, *last], ["from model.attention.span_heads import span_heads", *imports])
    if source == "prompt":
        return script(facts, [f"run.head_metrics(){columns}  # indexed (layer, head)", *last], imports)
    statistics = [f"survey.mean{columns}, survey.spread{columns}  # indexed (layer, head)", *last]
    if source == "sentences":
        lines = ["survey = sentence_survey(lm.model, lm.encode)", *statistics]
        return model_script(facts, lines, ["from model.attention.surveys import sentence_survey", *imports])
    lines = ["survey = random_survey(lm.model, pool=lm.tokenizer.vocab_size)", *statistics, f"labels(survey, {LEAST})"]
    return model_script(facts, lines, ["from model.attention.surveys import labels, random_survey", *imports])


# --- the table -------------------------------------------------------------------------------------


def table(seen: Seen) -> Payload:
    """Build the table of all heads with their metrics."""
    words, texts, result, source = seen.here, seen.all_words, shown_heads(seen), source_of(seen)
    columns = [metric for metric in metrics(seen).values() if metric.key in result.values]
    names = [[name, texts[f"label.{name}"], texts[f"metric_help.{name}"], hue_of(name)] for name in ORDER]
    rule = words["rule"].format(least=LEAST, margin=MARGIN)
    return head_table(result, columns) | {
        "caption": caption(seen),
        "names_of": names,
        "source": source_line(seen),
        "unstored": source in OF_PROMPT,
        "file": f"heads-{source}",
        "python": python_of(seen.facts, source),
        "words": words.plain() | {"rule": rule, "head": words["head"], **names_only(seen)},
    }


def names_only(seen: Seen) -> dict[str, str]:
    """Return the header of the column of names, and the text for heads without a name."""
    return {key: seen.words[key] for key in ("names", "nameless")}


# --- one metric against another --------------------------------------------------------------------


def scatter(seen: Seen) -> Payload:
    """Draw the scatter plot of one metric against another, one point per head."""
    words, settings, result, source = seen.here, seen.settings, shown_heads(seen), source_of(seen)
    surveyed, all_metrics = seen.results["survey"] is not None, metrics(seen)
    (x, y), notes = axes_of(seen, result, all_metrics)
    if result.values[[x.key, y.key]].isna().all(axis=None):
        return {"empty": {"text": words["no_numbers"], "hint": all_metrics[x.key].missing}}
    color = settings.colour if surveyed or settings.colour not in ("label", "copying") else "layer"
    if color != settings.colour:
        notes.append(words["colour_later"])
    plane = Plane(result, x, y, color_of(seen, color, result, all_metrics), seen.words["named"])
    picture = scatter_figure(plane, seen.facts.heads)
    return {
        "figure": picture.update_layout(uirevision=f"{seen.facts.model_id} {source} {x.key} {y.key}"),
        "title": words["title"].format(x=x.label, y=y.label),
        "note": joined([caption(seen), words["note"], *notes]),
        "source": source_line(seen),
        "unstored": source in OF_PROMPT,
        "file": f"heads-{x.key}-{y.key}-{source}",
        "columns": [words["head"], x.label, y.label],
        "python": python_of(seen.facts, source, (x.key, y.key)),
        "words": {**Words(seen.all_words, "plot").plain(), "series": seen.words["names"]},
    }


def axes_of(
    seen: Seen, result: HeadNumbers, all_metrics: Mapping[str, Metric]
) -> tuple[tuple[Metric, Metric], list[str]]:
    """Return the metrics of the two axes, and notes.

    A metric that is undefined for every head, or not measured yet, is replaced by one of INSTEAD, and a note says so.
    """
    chosen, notes = [], []
    for key in (seen.settings.x, seen.settings.y):
        taken = {seen.settings.x, seen.settings.y, *(metric.key for metric in chosen)}
        other = next(each for each in INSTEAD if each not in taken)
        measured = key in result.values
        if not measured or (result.values[key].isna().all() and result.values[other].notna().any()):
            names = {"metric": all_metrics[key].label, "other": all_metrics[other].label}
            notes.append(joined([all_metrics[key].missing if measured else "", seen.here["instead"].format(**names)]))
            key = other
        chosen.append(all_metrics[key])
    return tuple(chosen), notes


def color_of(seen: Seen, name: str, result: HeadNumbers, all_metrics: Mapping[str, Metric]) -> Color:
    """Build the color of the points that has the given name."""
    words = seen.words
    if name == "layer":
        return Color(words["layer"], result.values.index.get_level_values("layer").to_numpy(float))
    if name == "label":
        names = tuple((label, seen.all_words[f"label.{label}"]) for label in LABELS)
        return Color(words["names"], names=names, nameless=words["nameless"])
    return Color(all_metrics[name].label, result.values[name].to_numpy(float), all_metrics[name].kind == "signed")


# --- composition scores between heads --------------------------------------------------------------


def together(seen: Seen) -> Payload:
    """Draw the composition scores between the main head and each head of the other layers."""
    words, facts, (layer, head) = seen.here, seen.facts, seen.facts.head
    if facts.config.n_layer == 1:
        return {"empty": {"text": words["one_layer"], "hint": words["one_layer_hint"]}}
    names = words.plain() | {"head": words["head"], "layer": words["layer"]}
    lines = [
        f"scores = composition(lm.model, {layer}, {head})",
        "scores.reads, scores.feeds  # by q, k, v: [L, H] each",
        "scores.baseline, scores.baseline_sd",
        f"copying(lm.model)[{layer}, {head}]",
    ]
    return {
        "figure": composition_figure(seen.result, names, across=False),
        "wide": composition_figure(seen.result, names, across=True).to_dict()["layout"],
        "title": words["title"].format(layer=layer, head=head),
        "note": joined(_notes(seen)),
        "file": f"composition-{layer}-{head}",
        "unstored": True,  # it reads only the names of the heads
        "columns": [words["input"], words["layer"], words["head"], words["above"]],
        "python": model_script(facts, lines, ["from model.attention.circuits import composition, copying"]),
    }


def _notes(seen: Seen) -> list[str]:
    """Explain how to read the maps, what they omit, and how strongly the head copies."""
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
    """Measure what every head does without a prompt, on repeated random tokens and on sentences, and name the heads.

    Returns:
        random, sentences: one record per head with the metrics of head_metrics, means over the sequences; names:
        records of layer, head, name (previous token, induction ...), score and baseline, for the heads that have a
        name; copying: the copying scores by layer and head, -1 to 1; sequences: the number of sequences of each probe
        set.
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
    """Compute how strongly one head composes with earlier and later heads, from the weights alone.

    Returns:
        reads: for the query, key and value (q, k, v) of this head, the heads whose output it reads most strongly;
        feeds: the heads whose query, key or value reads its output most strongly; baseline, baseline_sd: mean and
        standard deviation of the scores of unrelated random heads.
    """
    result = measured(VIEW, "wiring", on(unprompted(playground, model), layer, head))
    sides = {"reads": result.reads, "feeds": result.feeds}
    return (
        {"layer": layer, "head": head}
        | {name: {kind: ranked_heads(z, most) for kind, z in side.items()} for name, side in sides.items()}
        | {"baseline": result.baseline, "baseline_sd": result.baseline_sd}
    )


def job(seen: Seen) -> Payload:
    """Describe the survey and estimate its duration until it is measured."""
    if seen.results["survey"] is not None:
        return {"text": ""}
    config = seen.facts.config
    seconds = estimate(*cost(None, seen.settings), config.n_layer, seen.facts.n_params)
    return {"text": joined([seen.here["hint"], seen.here["estimate"].format(seconds=whole(math.ceil(seconds)))])}


def _metric(name: str, options: tuple[str, ...]) -> Choice:
    return Choice(name, options, label=name_of, help=help_of)


def _color_name(words: Words, key: str) -> str:
    return words[f"colour_{key}"] if key in ("layer", "label") else name_of(words, key)


# The trace caches the metrics, so they are not kept again.
PROMPT = Measure("prompt", prompt, depends=(), settings=("source",), question=run_of, locks=False, keep=is_summed)
VIEW = View(
    "heads",
    needs=(),
    settings=(
        Choice("source", SOURCES),
        _metric("x", METRICS),
        _metric("y", UP),
        Choice("colour", COLORS, label=_color_name),
    ),
    measures=(PROMPT, SURVEY, WIRING),
    names_heads="survey",
    layout=("cards", "survey", "form", (("table",), ("scatter",)), "composition"),
    parts={
        "survey": Job("survey", job),
        "cards": Custom("headcards", cards, of=(), also=("survey",), settings=()),
        "table": Custom("headtable", table, of="prompt", also=("survey",), settings=("source",)),
        "scatter": Figure(scatter, of="prompt", also=("survey",), depends=("heads",)),
        "composition": Figure(together, of="wiring", also=("survey",), settings=()),
    },
    api=(
        Endpoint(head_survey, views=("heads.heads",), reads="model", long=True),
        Endpoint(composition, views=("heads.heads",), reads="model", kind="computed"),
    ),
)
