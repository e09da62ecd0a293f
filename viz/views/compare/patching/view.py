"""Activation patching: the vectors and heads that carry the difference between run A and run B."""

from typing import Annotated

from model.attention.effects import PATCH_SITES, recovered
from model.errors import InputError
from model.records import Tokens
from viz.charts.layer_head_map import HeadWords
from viz.labels import quoted
from viz.numbers import difference, whole
from viz.seam.head_list import HUES, strongest
from viz.seam.programs.answers import ranked_heads
from viz.seam.programs.arguments import OneOf, Prompt, Rows
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import at, measured, named, watching
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.selection import WATCHED
from viz.seam.settings import form
from viz.seam.targets import Usual, fields
from viz.seam.view import Custom, Figure, Form, Job, Payload, Seen, View
from viz.views.compare import run_b
from viz.views.compare.alignment import by_position, merged
from viz.views.compare.patching.figures import MapWords, head_patch_figure, patch_figure
from viz.views.compare.patching.measure import (
    BY,
    INTO,
    MEASURES,
    SETTINGS,
    WHERE,
    Unfit,
    Watched,
    first_difference,
)
from viz.views.compare.run_b import NoRunB, RunBRequest
from viz.words import plot_words, some
from viz.work.prompt import with_text


def options(seen: Seen) -> Payload:
    """Build the form of the patch; it is empty if there is no run B of this model."""
    return {"controls": []} if seen.results["usual"] is None else form(SETTINGS, seen.words.within("settings"), None)


def _roles(seen: Seen) -> tuple[str, ...]:
    """Return the roles of the two selectable tokens; empty if there is no run B of this model."""
    return () if seen.results["usual"] is None else WATCHED


def _usual(seen: Seen) -> Usual:
    """Return the default tokens, which distinguish the runs."""
    return dict(zip(WATCHED, seen.results["usual"] or (), strict=False))


def job(seen: Seen) -> Payload:
    """Estimate the number of runs and their duration, or explain why nothing can be patched.

    A patched run restarts at the patched layer, and positions before the first difference between the prompts are
    skipped.
    Raises InputError if the model of run B failed.
    """
    if isinstance(seen.results["other"], NoRunB):
        return run_b.problem(seen.all_words, seen.results["other"])
    target: Watched | Unfit = seen.results["target"]
    words, settings, facts = seen.here, seen.settings, seen.facts
    start = words["start" if settings.by == "position" else "start_heads"]
    if isinstance(target, Unfit):
        if target.word == "other_model":  # no button: nothing that is entered here makes it possible
            return {"empty": {"text": seen.words["other_model"], "hint": seen.words["other_model_hint"]}}
        return {"unready": True, "text": target.sentence(seen.words), "start": start}
    first = first_difference(facts.tokens, seen.results["other"].tokens) or 0
    runs = facts.config.n_layer * (len(facts.tokens) - first if settings.by == "position" else facts.config.n_head)
    text = words["hint"].format(runs=whole(runs), seconds=whole(max(1, round(runs * facts.seconds / 2))))
    if settings.by == "head" and settings.where == "picked":
        text = f"{words['place'].format(**_place(seen))} {text}"
    return {"text": text, "start": start}


def patch_map(seen: Seen) -> Payload:
    """Draw the fraction of the gap that each patched vector recovers; absent until it is measured."""
    target, effects = seen.results["target"], seen.results["patch"]
    if effects is None or isinstance(target, Unfit) or seen.settings.by != "position":
        return {"absent": True}
    words, site, ends = seen.here, seen.settings.site, target.ends(seen.settings.into)
    labels = MapWords(words["layer"], words["token"], words["raw"], words["share"])
    values = _values(seen, target)
    return {
        "figure": patch_figure(recovered(effects, *ends), effects, _tokens(seen), labels),
        "title": words["title"].format(site=seen.words[f"settings.site_{site}"], **values),
        "note": words["note"].format(**values),
        "file": f"patching-{site}",
        "columns": [words["layer"], words["token"], words["share"]],
        "python": _lines(seen, target, f"patch(clean, corrupted, target, {site!r})  # [L, T]"),
        "words": plot_words(seen.all_words) | some(seen.all_words, "pattern", "query", "key", "weight"),
    }


def head_map(seen: Seen) -> Payload:
    """Draw the fraction of the gap that each patched head recovers, and list the strongest; absent until measured."""
    target, effects = seen.results["target"], seen.results["patch"]
    if effects is None or isinstance(target, Unfit) or seen.settings.by != "head":
        return {"absent": True}
    words, where = seen.here, seen.settings.where
    shares = recovered(effects, *target.ends(seen.settings.into))
    labels = HeadWords(words["layer"], words["head"], words["share"])
    values = _values(seen, target) | _place(seen)
    place = f", {seen.facts.position}" if where == "picked" else ""
    return {
        "figure": head_patch_figure(shares, effects, labels, words["raw"]),
        "title": words[f"title_{where}"].format(**values),
        "note": words["note"].format(**values),
        "file": f"patching-heads-{where}",
        "columns": [words["layer"], words["head"], words["share"]],
        "python": _lines(seen, target, f"patch_heads(clean, corrupted, target{place})  # [layer, head]"),
        "ranked": strongest(shares, difference),
        "signed": True,
        "unit": words["unit"],
        "hues": HUES,
        "words": plot_words(seen.all_words) | {key: words[key] for key in ("ranked", "ranked_about", "head_effect")},
    }


def _tokens(seen: Seen) -> Tokens:
    """Return the tokens of A; where B has a different token, the text shows both."""
    a, b = seen.facts.tokens, seen.results["other"].tokens
    return merged(a, b, by_position(a.ids.tolist(), b.ids.tolist()))


def _place(seen: Seen) -> dict[str, object]:
    """Return the selected position and its token, as values for sentences."""
    at = seen.facts.position
    return {"position": at, "at": quoted(_tokens(seen).pieces[at])}


def _values(seen: Seen, target: Watched) -> dict[str, str]:
    """Return the values for titles and notes: both tokens, the roles of A and B, and the target metric in each run."""
    into = seen.settings.into
    two = {name: quoted(seen.facts.piece(getattr(target, name))) for name in ("token", "distractor")}
    sides = dict(zip(("clean", "corrupted"), ("A", "B") if into == "b" else ("B", "A"), strict=True))
    ends = zip(("m_clean", "m_corrupted"), target.ends(into), strict=True)
    return two | sides | {name: difference(end, places=2) for name, end in ends}


def _lines(seen: Seen, target: Watched, call: str) -> str:
    """Write the Python lines that reproduce a map; `call` is the expression that measures it."""
    request: RunBRequest = seen.results["other"].request
    clean, corrupted = ("run", "other") if seen.settings.into == "b" else ("other", "run")
    lines = [
        request.line,
        f"target = Target('difference', -1, {target.token}, {target.distractor})",
        f"clean, corrupted = {clean}, {corrupted}",
        f"effects = {call}",
        "recovered(effects, metric(clean, target), metric(corrupted, target))",
    ]
    names = ", ".join(("Target", "metric", call.partition("(")[0], "recovered"))
    return script(seen.facts, lines, (f"from model.attention.effects import {names}",))


# --- for programs ---


def patch(
    scene: Scene,
    other_prompt: Prompt,
    site: Annotated[str, OneOf(PATCH_SITES)] = "resid_pre",
    into: Annotated[str, OneOf(INTO)] = "b",
    token: str = "",
    distractor: str = "",
    by: Annotated[str, OneOf(BY)] = "position",
    where: Annotated[str, OneOf(WHERE)] = "all",
    position: int = -1,
    most: Rows = 20,
) -> dict:
    """Patch activations: measure which vectors or heads of one run restore its prediction in the other run.

    Args:
        other_prompt: The text of run B, with as many tokens as the prompt (run A).
        site: The vector to patch when `by` is position: resid_pre (the residual stream before a layer), attn_out or
            mlp_out.
        into: The run that receives the other's vectors: b or a.
        token: The token that represents run A. Empty: its most likely next token.
        distractor: The token that represents run B. Empty: its most likely next token.
        by: The unit of a patch: position (one vector of a layer and token) or head (the output of one head).
        where: The positions at which a head is patched: all, or picked, that is, `position`.

    Returns:
        effects: the change of the difference between the two logits due to each patch alone, by layer and token, or by
        layer and head; recovered: the same as a fraction of the gap between the runs; clean, corrupted: the difference
        in each run; strongest: the heads with the largest absolute fractions when `by` is head, else null.
    """
    if not other_prompt:
        raise InputError("An argument is missing.", "other_prompt", "Give this argument.")
    request = RunBRequest("prompt", scene.model.id, with_text(scene.prompt, other_prompt))
    other = measured(VIEW, "other", scene, run_b=request)
    if isinstance(other, NoRunB):
        raise run_b.refusal(scene.words, other)
    selected = watching(at(scene, position), token, distractor)
    effects = measured(VIEW, "patch", selected, run_b=request, by=by, site=site, where=where, into=into)
    target: Watched = measured(VIEW, "target", selected, run_b=request, by=by, where=where)
    clean, corrupted = target.ends(into)
    shares, heads = recovered(effects, clean, corrupted), by == "head"
    return {
        "by": by,
        "site": None if heads else site,
        "where": where if heads else None,
        "position": selected.position if heads and where == "picked" else None,
        "into": into,
        "tokens_a": list(scene.tokens.pieces),
        "tokens_b": list(other.tokens.pieces),
        "token": named(scene.model, target.token),
        "distractor": named(scene.model, target.distractor),
        "effects": effects,
        "recovered": shares,
        "clean": clean,
        "corrupted": corrupted,
        "strongest": ranked_heads(shares, most, size=True) if heads else None,
    }


VIEW = View(
    "patching",
    settings=SETTINGS,
    needs=("layers", "next"),
    measures=MEASURES,
    layout=("run_b", "form", "targets", "job", "map", "heads"),
    parts={
        "run_b": run_b.PART,
        "form": Form(options, of=("other", "usual")),
        "targets": fields(_roles, _usual, ("other", "usual")),
        "job": Job("patch", job, also=("other", "target"), settings=("by", "where")),
        "map": Figure(patch_map, ("other", "target"), also=("patch",), settings=("by", "site", "into")),
        "heads": Custom("effectmap", head_map, ("other", "target"), also=("patch",), settings=("by", "where", "into")),
    },
    api=(Endpoint(patch, reads="plain run", long=True),),
)
