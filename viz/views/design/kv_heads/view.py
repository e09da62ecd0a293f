"""View of multi-head, grouped-query and multi-query attention: merging the loaded model's KV heads, and the effect."""

from typing import Annotated

from model.design.kv_sharing import MERGES, Survey, Variant, group_counts, readers
from viz.charts.heatmap import Look, Panel, PatternWords, Window, pattern_figure
from viz.numbers import count, nats, percent, size, whole
from viz.seam.programs.arguments import OneOf
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Choice
from viz.seam.view import Figure, Job, Measure, Payload, Seen, Table, View
from viz.views.design.kv_heads.figures import Sharing, damage_figure, sharing_figure, where_figure
from viz.views.design.kv_heads.measure import (
    SPEED,
    cost_of_run,
    cost_of_survey,
    counts_of,
    has_one_kv_head,
    measure_maps,
    measure_quick_run,
    measure_quick_survey,
    measure_run,
    measure_survey,
    runs,
    work,
)
from viz.words import Words

_IMPORT = ["from model.design.kv_sharing import survey"]
_MAP = {"whole": True, "height": 440, "narrow": 400}  # sent in full, since the page cannot request a part


def _groups_label(words: Words, option: str, scene: Scene) -> str:
    key = "groups_one" if option == "1" else "groups_some"
    return words[key].format(n=option, size=scene.model.config.n_head // int(option))


GROUPS = Choice("groups", lambda scene: tuple(map(str, counts_of(scene.model.config))), scene_label=_groups_label)
MERGE = Choice("merge", tuple(MERGES))


# --- results and placeholders ---


def _survey(seen: Seen) -> Survey | None:
    """Return the comparison of all variants, measured immediately or by the button; None if it is not measured yet."""
    return seen.results["quick_survey"] or seen.results["survey"]


def _missing(seen: Seen) -> Payload:
    """Build the placeholder for a missing measurement, or for a model with a single KV head."""
    if has_one_kv_head(seen.facts.config):
        return {"empty": {"text": seen.words["alone"], "hint": seen.words["alone_hint"]}}
    return {"empty": {"text": seen.here["empty"], "hint": seen.words["empty_hint"]}}


def _hint(seen: Seen, done: bool, n: int) -> Payload:
    """Format the text beside a button that starts `n` runs. `done`: whether their result is available."""
    words, facts = seen.here, seen.facts
    edits = f" {seen.words['no_edits']}" if facts.edits else ""
    if done:
        return {"done": True, "text": words["ready"] + edits}
    seconds = max(1, round(work(facts.config, len(facts.tokens)) * n / SPEED))
    return {"text": words["takes"].format(seconds=seconds) + edits}


def job(seen: Seen) -> Payload:
    """Describe the comparison of all variants that the button starts."""
    return _hint(seen, _survey(seen) is not None, runs(seen.facts.config))


def maps_job(seen: Seen) -> Payload:
    """Describe the run of the selected variant that the button starts."""
    if has_one_kv_head(seen.facts.config):
        return {"done": True, "text": seen.words["alone"]}
    return _hint(seen, bool(seen.results["quick_run"] or seen.results["run"]), 1)


# --- parts ---


def _source(seen: Seen) -> str:
    """Format the source of the results: the model, its dtype, and a note if the run has edits, which do not apply."""
    text = seen.words["source"].format(model=seen.facts.label, dtype=seen.facts.dtype)
    return f"{text} · {seen.words['plain']}" if seen.facts.edits else text


def _name(seen: Seen, variant: Variant, unchanged: bool) -> str:
    """Format the name of a variant. `unchanged`: whether it has the model's own KV heads."""
    if unchanged:
        return seen.words["own"].format(n=variant.groups)
    return f"{variant.groups} · {seen.words[f'settings.merge_{variant.merge}']}"


def _lines(seen: Seen, line: str) -> str:
    return script(seen.facts, ["result = survey(lm.model, run.tokens.ids.tolist())", line], _IMPORT)


def diagram(seen: Seen) -> Payload:
    """Draw which KV head each query head reads."""
    words, config, groups, (layer, head) = seen.here, seen.facts.config, int(seen.settings.groups), seen.facts.head
    return {
        "figure": sharing_figure(Sharing(readers(config, groups), layer, head), words),
        "title": words["title_one" if groups == 1 else "title"].format(H=config.n_head, g=groups),
        "note": words["note" if config.n_kv_head > groups else "note_same"],
        "columns": [words["column_place"], words["column_row"], words["column_name"]],
        "python": script(
            seen.facts,
            [f"readers(lm.config, {groups})  # (KV head before, after) of each query head"],
            ["from model.design.kv_sharing import readers"],
        ),
    }


def table(seen: Seen) -> Payload:
    """Build the table of all variants: cache size, number of parameters, and the error of the predictions."""
    result, words, context = _survey(seen), seen.here, seen.facts.config.n_ctx
    if result is None:
        return {"empty": {"text": words["empty"], "hint": seen.words["empty_hint"]}}
    full, worst = result.variants[0], max(each.kl for each in result.variants)
    rows = [
        [
            _name(seen, each, each is full),
            {"text": size(each.cache * context), "bar": each.cache / full.cache},
            count(each.parameters),
            {"text": nats(each.kl), "bar": each.kl / worst if worst else 0.0},
            percent(each.agree),
            nats(each.loss),
        ]
        for each in result.variants
    ]
    same = full.kl < 1e-6 and full.agree == 1
    numbers = ("groups", "merge", "cache", "parameters", "kl", "agree", "loss")
    return {
        "title": words["title"],
        "about": words["about"],
        "columns": [words[key] for key in ("variant", *numbers[2:])],
        "rows": rows,
        "check": words["same" if same else "apart"].format(kl=nats(full.kl)),
        "same": same,
        "source": f"{_source(seen)} · {words['derived'].format(n=whole(context))}",
        "lines": [[_name(seen, v, v is full), *(getattr(v, name) for name in numbers[2:])] for v in result.variants],
        "python": _lines(seen, f"[({', '.join(f'v.{name}' for name in numbers)}) for v in result.variants]"),
    }


def damage(seen: Seen) -> Payload:
    """Draw the loss as a function of the number of KV heads; for a prompt of one token, draw the divergence instead."""
    result, words = _survey(seen), seen.here
    if result is None or has_one_kv_head(seen.facts.config):
        return _missing(seen)
    by = "kl" if result.loss is None else "loss"
    original = 0.0 if result.loss is None else result.loss
    others = result.variants[1:]
    curves = {
        merge: (
            seen.words[f"settings.merge_{merge}"],
            [original, *(getattr(each, by) for each in others if each.merge == merge)],
        )
        for merge in MERGES
    }
    counts = [result.variants[0].groups, *dict.fromkeys(each.groups for each in others)]
    return {
        "figure": damage_figure(counts, curves, original, words.plain() | {"value": words[by]}),
        "title": words[f"title_{by}"],
        "note": words["note"],
        "source": _source(seen),
        "columns": [words["series"], words["groups"], words[by]],
        "python": _lines(seen, f"[(v.groups, v.merge, v.{by}) for v in result.variants]"),
    }


def where(seen: Seen) -> Payload:
    """Draw the selected variant's divergence at each position."""
    result, words = _survey(seen), seen.here
    if result is None or has_one_kv_head(seen.facts.config):
        return _missing(seen)
    groups, merge = int(seen.settings.groups), seen.settings.merge
    variant = next(each for each in result.variants if (each.groups, each.merge) == (groups, merge))
    line = f"next(v for v in result.variants if (v.groups, v.merge) == ({groups}, {merge!r})).divergences"
    largest = float(variant.divergences.max())
    return {
        "figure": where_figure(variant.divergences, seen.facts.pieces, words),
        "title": words["title"].format(variant=_name(seen, variant, False)),
        "note": words["note"].format(kl=nats(variant.kl), most=nats(largest)),
        "source": _source(seen),
        "columns": [words["series"], words["token"], words["position"], words["kl"]],
        "python": _lines(seen, line),
    }


def _map(seen: Seen) -> Payload:
    """Draw the main head's attention map `before` or `after` merging, or their difference (`change`)."""
    maps, words, (layer, head) = seen.result, seen.words.within("maps"), seen.facts.head
    if maps is None:
        return _missing(seen)
    which, groups, merge = seen.part, int(seen.settings.groups), seen.settings.merge
    z = {"before": maps.before, "after": maps.after, "change": maps.change}[which]
    value, tokens = words["change" if which == "change" else "weight"], seen.facts.tokens
    names = PatternWords(words["query"], words["key"], value, words["largest"])
    look = Look("signed") if which == "change" else Look()
    figure = pattern_figure([Panel(value, z)], tokens, names, Window.whole(len(tokens)), look, meta=_MAP)
    original = f"run.unedited().pattern({layer}, {head})"
    merged = f"pattern_at(lm.model, kept, {layer}, {head})"
    last = {"before": original, "after": merged, "change": f"{merged} - {original}"}[which]
    lines, imports = [f"{last}  # [T, T]"], []
    if which != "before":
        lines.insert(0, f"kept = stops(lm.model, run.tokens.ids.tolist(), {groups}, {merge!r})")
        imports = ["from model.design.kv_sharing import pattern_at, stops"]
    return {
        "figure": figure,
        "title": seen.here["title"].format(layer=layer, head=head, G=seen.facts.config.n_kv_head, g=groups),
        "note": seen.here["note"].format(moved=percent(maps.moved)),
        "source": _source(seen),
        "columns": [value, words["query"], words["key"]],
        "python": script(seen.facts, lines, imports),
    }


# --- endpoint ---


def shared_heads(scene: Scene, merge: Annotated[str, OneOf(("all", *MERGES))] = "all", details: bool = False) -> dict:
    """Merge the model's KV heads into fewer (GQA, MQA) without retraining, and measure the savings and the error.

    Args:
        merge: The KV head that replaces a group of heads. mean: their average. first: the first of them. random: a
            random
            head. all: each of these in turn.
        details: Include the divergence at each position.

    Returns:
        kv_heads: the possible numbers of KV heads, the model's own first; loss: loss of the model on this prompt (nats
        per token). variants: for each kv_heads and merge, cache_a_token (bytes), parameters, kl (mean KL divergence of
        the next-token distribution, nats), agree (fraction of positions with the same top token) and loss; if details
        is true, also divergences, one per token.
    """
    result: Survey = measured(VIEW, "quick_survey", scene) or measured(VIEW, "survey", scene)
    groups, variants = result.variants[0].groups, []
    for each in result.variants:
        if merge not in ("all", each.merge) and each.groups != groups:
            continue
        row = {"kv_heads": each.groups, "merge": each.merge, "cache_a_token": each.cache}
        row |= {name: getattr(each, name) for name in ("parameters", "kl", "agree", "loss")}
        variants.append(row | ({"divergences": each.divergences} if details else {}))
    return {"kv_heads": group_counts(scene.model.config), "loss": result.loss, "variants": variants}


_VARIANT = ("groups", "merge")
_SURVEY = {"of": ("quick_survey",), "also": ("survey",)}

VIEW = View(
    "kv_heads",
    settings=(GROUPS, MERGE),
    form_depends=("model",),
    measures=(
        Measure("quick_survey", measure_quick_survey, depends=("plain",)),
        Measure("survey", measure_survey, depends=("plain",), slow=True, cost=cost_of_survey),
        Measure("quick_run", measure_quick_run, depends=("plain",), settings=_VARIANT),
        Measure("run", measure_run, depends=("plain",), settings=_VARIANT, slow=True, cost=cost_of_run),
        Measure("maps", measure_maps, depends=("plain", "head"), settings=_VARIANT, uses=("quick_run", "run")),
    ),
    layout=(
        "form",
        "job",
        ("diagram", "table"),
        ("damage", "where"),
        "maps_job",
        ("before", "after", "change"),
    ),
    parts={
        "job": Job("survey", job, also=("quick_survey",), settings=()),
        "diagram": Figure(diagram, of=(), depends=("model", "head"), settings=("groups",)),
        "table": Table(table, **_SURVEY, settings=()),
        "damage": Figure(damage, **_SURVEY, settings=()),
        "where": Figure(where, **_SURVEY, settings=_VARIANT),
        "maps_job": Job("run", maps_job, also=("quick_run",), settings=()),
        "before": Figure(_map, of="maps", settings=()),
        "after": Figure(_map, of="maps", settings=()),
        "change": Figure(_map, of="maps", settings=()),
    },
    api=(Endpoint(shared_heads, reads="plain run", long=True),),
)
