"""Patching: which vectors carry what differs between run A and run B."""

from typing import Annotated

from model.attention.effects import PATCH_SITES, recovered
from model.errors import InputError
from viz.api.arguments import OneOf, Prompt
from viz.api.endpoint import Endpoint
from viz.api.reading import measured, named, watching
from viz.labels import quoted
from viz.numbers import difference, whole
from viz.seam.prompt import with_text
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.selection import WATCHED
from viz.seam.settings import form
from viz.seam.targets import Usual, fields
from viz.seam.view import Custom, Form, Job, Payload, Seen, View
from viz.views.compare import run_b
from viz.views.compare.alignment import by_position, merged
from viz.views.compare.patching.figures import MapWords, patch_figure
from viz.views.compare.patching.measure import INTO, MEASURES, SETTINGS, Unfit, Watched
from viz.views.compare.run_b import Refused, Request
from viz.words import plot_words, some

_IMPORTS = ("from model.attention.effects import Target, metric, patch, recovered",)


def options(seen: Seen) -> Payload:
    """The form of the patch; nothing where there is no run B of this model."""
    return {"controls": []} if seen.results["usual"] is None else form(SETTINGS, seen.words.within("settings"), None)


def _roles(seen: Seen) -> tuple[str, ...]:
    """Both tokens, or none where there is no run B of this model."""
    return () if seen.results["usual"] is None else WATCHED


def _usual(seen: Seen) -> Usual:
    """The two tokens that tell the runs apart."""
    return dict(zip(WATCHED, seen.results["usual"] or (), strict=False))


def job(seen: Seen) -> Payload:
    """How many runs it takes and about how long, or why there is nothing to patch.

    Raises InputError of a model that failed. A run starts at the layer it is patched in, and none is needed before the
    first token that differs.
    """
    if isinstance(seen.results["other"], Refused):
        return run_b.problem(seen.all_words, seen.results["other"])
    target: Watched | Unfit = seen.results["target"]
    if isinstance(target, Unfit):
        return {"unready": True, "text": target.sentence(seen.words)}
    ids = zip(seen.facts.tokens.ids.tolist(), seen.results["other"].tokens.ids.tolist(), strict=True)
    first = next((t for t, (one, two) in enumerate(ids) if one != two), 0)
    runs = seen.facts.config.n_layer * (len(seen.facts.tokens) - first)
    seconds = max(1, round(runs * seen.facts.seconds / 2))
    return {"text": seen.here["hint"].format(runs=whole(runs), seconds=whole(seconds))}


def patch_map(seen: Seen) -> Payload:
    """The share of the gap that each vector closes; nothing until it was measured."""
    target, effects, other = (seen.results[name] for name in ("target", "patch", "other"))
    if effects is None or isinstance(target, Unfit):
        return {"absent": True}
    words, facts, site, into = seen.here, seen.facts, seen.settings.site, seen.settings.into
    ends = target.ends(into)
    a, b = facts.tokens, other.tokens
    tokens = merged(a, b, by_position(a.ids.tolist(), b.ids.tolist()))
    labels = MapWords(words["layer"], words["token"], words["raw"], words["share"])
    two = {name: quoted(facts.piece(getattr(target, name))) for name in ("token", "distractor")}
    sides = dict(zip(("clean", "corrupted"), ("A", "B") if into == "b" else ("B", "A"), strict=True))
    numbers = dict(zip(("m_clean", "m_corrupted"), (difference(end, places=2) for end in ends), strict=True))
    return {
        "figure": patch_figure(recovered(effects, *ends), effects, tokens, labels),
        "title": words["title"].format(site=seen.words[f"settings.site_{site}"], **two, **sides),
        "note": words["note"].format(**two, **sides, **numbers),
        "file": f"patching-{site}",
        "columns": [words["layer"], words["token"], words["share"]],
        "python": _lines(seen, other.request, target),
        "words": plot_words(seen.all_words) | some(seen.all_words, "pattern", "query", "key", "weight"),
    }


def _lines(seen: Seen, request: Request, target: Watched) -> str:
    clean, corrupted = ("run", "other") if seen.settings.into == "b" else ("other", "run")
    lines = [
        request.line,
        f"target = Target('difference', -1, {target.token}, {target.distractor})",
        f"clean, corrupted = {clean}, {corrupted}",
        f"effects = patch(clean, corrupted, target, {seen.settings.site!r})  # [L, T]",
        "recovered(effects, metric(clean, target), metric(corrupted, target))",
    ]
    return script(seen.facts, lines, _IMPORTS)


# --- for programs ---


def patch(
    scene: Scene,
    other_prompt: Prompt,
    site: Annotated[str, OneOf(PATCH_SITES)] = "resid_pre",
    into: Annotated[str, OneOf(INTO)] = "b",
    token: str = "",
    distractor: str = "",
) -> dict:
    """Activation patching: which vectors, put from one run into another, bring the first run's answer back.

    Args:
        other_prompt: The text of run B, as many tokens long as the prompt (run A).
        site: What is put in: resid_pre (the stream before a block), attn_out or mlp_out.
        into: Which run receives the other's vectors: b or a.
        token: The token that speaks for run A. Empty: its likeliest next one.
        distractor: The token that speaks for run B. Empty: its likeliest next one.

    Returns:
        effects: by layer and token what each vector alone changes in the difference of the two logits; recovered: the
        same as a share of the gap between the runs; clean, corrupted: the difference in either run.
    """
    if not other_prompt:
        raise InputError("An argument is missing.", "other_prompt", "Give it.")
    request = Request("prompt", scene.model.id, with_text(scene.prompt, other_prompt))
    other = measured(VIEW, "other", scene, run_b=request)
    if isinstance(other, Refused):
        raise run_b.refusal(scene.words, other)
    scene = watching(scene, token, distractor)
    effects = measured(VIEW, "patch", scene, run_b=request, site=site, into=into)
    target: Watched = measured(VIEW, "target", scene, run_b=request)
    clean, corrupted = target.ends(into)
    return {
        "site": site,
        "into": into,
        "tokens_a": list(scene.tokens.pieces),
        "tokens_b": list(other.tokens.pieces),
        "token": named(scene.model, target.token),
        "distractor": named(scene.model, target.distractor),
        "effects": effects,
        "recovered": recovered(effects, clean, corrupted),
        "clean": clean,
        "corrupted": corrupted,
    }


VIEW = View(
    "patching",
    settings=SETTINGS,
    measures=MEASURES,
    layout=("run_b", "form", "targets", "job", "map"),
    parts={
        "run_b": run_b.PART,
        "form": Form(options, of=("other", "usual")),
        "targets": fields(_roles, _usual, ("other", "usual")),
        "job": Job("patch", job, also=("other", "target"), settings=()),
        "map": Custom("compared", patch_map, of=("other", "target"), also=("patch",), settings=("site", "into")),
    },
    api=(Endpoint(patch, reads="plain run", long=True),),
)
