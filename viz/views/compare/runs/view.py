"""Comparison of two runs: this run (A) and another prompt, another model or the run without edits (B)."""

from typing import Annotated

from model.errors import InputError
from model.tracing.head_metrics import HEAD_METRICS
from viz.charts.distribution import likeliest
from viz.seam.programs.answers import by_head
from viz.seam.programs.arguments import Few, OneOf, Prompt
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, model_of, named, on
from viz.seam.scene import Scene
from viz.seam.view import Asking, Custom, Figure, Table, View
from viz.views.compare import run_b
from viz.views.compare.alignment import difference
from viz.views.compare.run_b import NoRunB, Other, RunBRequest
from viz.views.compare.runs.measure import (
    MEASURE,
    MEASURES,
    OF_HEADS,
    PATTERN,
    Next,
    divergence,
    likely_of_both,
    too_many,
)
from viz.views.compare.runs.parts import (
    alignment,
    heads,
    map_a,
    map_b,
    map_difference,
    metrics,
    next_tokens,
    read_metric,
)
from viz.work.prompt import with_text

OfHead = Annotated[str, OneOf(OF_HEADS)]


def _request(scene: Scene, prompt: str, model: str) -> RunBRequest:
    """Build the request for run B from the arguments of a call.

    Raises InputError if both a prompt and a model are given, or if neither is given and the run has no edits.
    """
    if prompt and model:
        raise InputError("Both the prompt and the model differ.", "", "Give another prompt or another model, not both.")
    if model:
        return RunBRequest("model", model_of(scene.playground, model).id, scene.prompt)
    if not prompt and not scene.picked.edits:
        raise InputError("There is nothing to compare with.", "", "Give another prompt, another model, or edits.")
    other = with_text(scene.prompt, prompt) if prompt else scene.prompt
    return RunBRequest("prompt" if prompt else "unedited", scene.model.id, other)


def _other(scene: Scene, request: RunBRequest) -> Other:
    """Return run B; raises InputError if it is missing."""
    other = measured(VIEW, "other", scene, run_b=request)
    if isinstance(other, NoRunB):
        raise run_b.refusal(scene.words, other)
    return other


def _next(scene: Scene, other: Other, result: Next, limit: int) -> dict:
    """Build the answer about next tokens: the top tokens of both runs and, for a shared vocabulary, the divergence."""
    a, b = result.a, result.b
    at = {"position_a": result.at[0], "position_b": result.at[1]}
    if other.one_vocabulary:
        ids = likely_of_both(a, b, limit)
        rows = [named(scene.model, n) | {"p_a": a[n], "p_b": b[n]} for n in ids]
        return at | {"tokens": rows, "kl": divergence(a, b)}
    pieces_b = zip(likeliest(b, limit), result.pieces_b, strict=False)
    return at | {
        "tokens_a": [named(scene.model, n) | {"p": a[n]} for n in likeliest(a, limit)],
        "tokens_b": [{"id": n, "text": piece, "p": b[n]} for n, piece in pieces_b],
        "kl": None,
    }


def _heads(scene: Scene, other: Other, patterns: bool) -> list[dict] | None:
    """Build one record per head; None if the models' shapes differ. Raises InputError for too large patterns."""
    if not other.one_shape:
        return None
    metrics = {name: measured(VIEW, "heads", scene, run_b=other.request, metric=name).both for name in HEAD_METRICS}
    numbers = {f"{name}_{side}": both[n] for name, both in metrics.items() for n, side in enumerate("ab")}
    if patterns and other.one_vocabulary:
        if too_many(scene.model.config, len(scene.tokens), len(other.tokens)):
            words = scene.words
            raise InputError(words["runs.heads.too_many"], "", words["runs.heads.too_many_hint"])
        numbers["pattern"] = measured(VIEW, "heads", scene, run_b=other.request, metric=PATTERN).difference
    return by_head(numbers)


def compare_runs(
    scene: Scene, other_prompt: Prompt = "", other_model: str = "", patterns: bool = False, most: Few = 10
) -> dict:
    """Compare two runs: this run (A) and another prompt, another model or the run without edits (B).

    Args:
        other_prompt: The text of run B; in a conversation, the text of its last user message. Leave it empty to change
            the model or to remove the edits instead.
        other_model: Id of the model of run B, which reads the same prompt. Empty: the same model; if `other_prompt` is
            also empty, B is this run without its edits.
        patterns: Also compare the attention patterns of all heads.
        most: Maximum number of most likely next tokens per run.

    Returns:
        alignment: steps with their kind (same, replaced, only_a, only_b) and the position in A and in B. next: the most
        likely next tokens at the compared positions, and kl: KL(A || B) in nats, null if the vocabularies differ.
        heads: one record per head with metric_a and metric_b for each metric and, if requested, pattern: the mean
        absolute difference of the weights; null if the models' shapes differ.
    """
    other = _other(scene, _request(scene, other_prompt, other_model))
    return {
        "other": {
            "how": other.request.how,
            "model": other.request.model_id,
            "tokens": list(other.tokens.pieces),
        },
        "tokens": list(scene.tokens.pieces),
        "alignment": [{"kind": step.kind, "a": step.a, "b": step.b} for step in other.alignment.steps],
        "next": _next(scene, other, measured(VIEW, "next", scene, run_b=other.request), most),
        "heads": _heads(scene, other, patterns),
    }


def compare_head(
    scene: Scene, layer: int, head: int, other_prompt: Prompt = "", other_model: str = "", measure: OfHead = "weights"
) -> dict:
    """Compare the attention of one head in two runs, with the difference where their tokens correspond.

    Args:
        other_prompt: As in compare_runs; may be empty.
        other_model: As in compare_runs; may be empty. The head of the other model has the same indices; if the models'
            shapes differ, it is the one with the nearest metrics.
        measure: As in attention.

    Returns:
        a, b: matrices with one row per query, null for masked keys. difference: A minus B at the tokens of A, null
        where a token has no counterpart; null as a whole if the two models' vocabularies differ.
    """
    selected = on(scene, layer, head)
    other = _other(selected, _request(selected, other_prompt, other_model))
    maps = measured(VIEW, "maps", selected, run_b=other.request, measure=measure)
    return {
        "measure": measure,
        "head_a": (layer, head),
        "head_b": maps.head,
        "a": maps.a,
        "b": maps.b,
        "difference": difference(maps.a, maps.b, other.alignment.pairs) if other.one_vocabulary else None,
    }


VIEW = View(
    "runs",
    needs=(),
    settings=(MEASURE,),
    measures=MEASURES,
    layout=(
        "run_b",
        "form",
        ("a", "b", "difference"),
        "alignment",
        (("metric", "heads"), "next"),
    ),
    parts={
        "run_b": run_b.PART,
        "alignment": Custom("alignment", alignment, of="other", settings=()),
        "a": Figure(map_a, of=("other", "maps"), settings=()),
        "b": Figure(map_b, of=("other", "maps"), settings=()),
        "difference": Figure(map_difference, of=("other", "maps"), settings=()),
        "metric": Asking("controls", read_metric, metrics),
        "heads": Figure(heads, of=("other", "heads"), settings=()),
        "next": Table(next_tokens, of=("other", "next"), settings=()),
    },
    api=(Endpoint(compare_runs), Endpoint(compare_head)),
)
