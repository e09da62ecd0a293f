"""The compare tab's numbers: a run beside another prompt, another model or the run without edits, and patching."""

from typing import Annotated

from model.attention.effects import PATCH_SITES, recovered
from model.attention.effects import patch as patched
from model.attention.measures import MEASURES, attend_rows
from model.attention.measures import measure as measured
from model.errors import InputError
from model.gpt.head_metrics import HEAD_METRICS
from model.progress import Progress
from viz.api.answers import by_head
from viz.api.arguments import Few, OneOf, Prompt
from viz.api.reading import done, named, on
from viz.api.registry import model_of
from viz.page import background
from viz.page.background import kept
from viz.page.scene import Scene
from viz.views.compare.patching import view as patching
from viz.views.compare.runs import view as compare
from viz.views.compare.runs.figures import all_gaps, difference, divergence, likely, shares_of
from viz.views.compare.runs.run_b import Other, other_run

OfHead = Annotated[str, OneOf(tuple(name for name, each in MEASURES.items() if each.of == "head"))]


def _other(scene: Scene, prompt: str, model: str) -> Other:
    """Run B: another prompt, or another model, or the run without edits; raises InputError."""
    if prompt and model:
        raise InputError("Two things differ at once.", "", "Give another prompt or another model, not both.")
    if model:
        other = model_of(scene.playground, model)
        return other_run(scene, {"with": "model", "model": other.id}, {other.id: other.label})
    if not prompt and not scene.picked.edits:
        raise InputError("There is nothing to compare with.", "", "Give another prompt, another model, or edits.")
    return other_run(scene, {"with": "prompt" if prompt else "unedited", "prompt": prompt}, {})


def _next(scene: Scene, other: Other, at: tuple[int, int], most: int) -> dict:
    """The likeliest next tokens of both runs, and how far they are apart where their tokens are the same."""
    pairs = ((scene.model, scene.trace, at[0]), (other.model, other.trace, at[1]))
    a, b = (shares_of(run.logits_at(t)[: model.tokenizer.vocab_size]) for model, run, t in pairs)
    if other.one_vocabulary:
        ids = sorted({*likely(a, most), *likely(b, most)}, key=lambda n: -max(a[n], b[n]))
        rows = [named(scene.model, n) | {"p_a": a[n], "p_b": b[n]} for n in ids]
        return {"tokens": rows, "kl": divergence(a, b)}
    lists = [
        [named(model, n) | {"p": p[n]} for n in likely(p, most)] for (model, _, _), p in zip(pairs, (a, b), strict=True)
    ]
    return {"tokens_a": lists[0], "tokens_b": lists[1], "kl": None}


def _gaps(scene: Scene, other: Other) -> object:
    """Mean |A - B| of every head's weights over aligned cells. [L, H]"""
    config, lengths = scene.model.config, [len(run.tokens) for run in (scene.trace, other.trace)]
    if config.n_layer * config.n_head * max(lengths) ** 2 > compare.MOST_CELLS:
        words = scene.words
        raise InputError(words["compare.too_many"], "", words["compare.too_many_hint"])

    def layer_of(layer: int) -> tuple:
        runs = zip((scene.trace, other.trace), lengths, strict=True)
        return tuple(attend_rows(run, layer, range(T)).numpy() for run, T in runs)

    def make() -> object:
        with scene.playground.computing:
            return all_gaps(map(layer_of, range(config.n_layer)), other.alignment.pairs)

    return kept(scene.playground, ("gaps", scene.trace.key, other.trace.key), make)


def compare_runs(
    scene: Scene, other_prompt: Prompt = "", other_model: str = "", patterns: bool = False, most: Few = 10
) -> dict:
    """Two runs side by side: this one (A) and another prompt, another model or the run without edits (B).

    Args:
        other_prompt: The text of run B. Empty where the model or the edits are what differs.
        other_model: Id of the model of run B, which reads the same prompt. Empty: the same model; without another
            prompt, B is then this run without its edits.
        patterns: Whether every head's patterns are compared as well.
        most: Likeliest next tokens of each run.

    Returns:
        alignment: kind (same, replaced, only_a, only_b) and the position in A and in B. next: the next tokens after
        both ends, and kl (nats). heads: a record a head with metric_a, metric_b of each metric and, where asked for,
        pattern: mean difference of the weights; null where the models have other heads.
    """
    other = _other(scene, other_prompt, other_model)
    at = compare.position(scene, other)
    heads = None
    if other.one_shape:
        numbers = {
            f"{name}_{side}": run.metrics[..., n]
            for n, name in enumerate(HEAD_METRICS)
            for side, run in (("a", scene.trace), ("b", other.trace))
        }
        if patterns and other.one_vocabulary:
            numbers["pattern"] = _gaps(scene, other)
        heads = by_head(numbers)
    return {
        "other": {"how": other.how, "model": other.model.id, "tokens": list(other.trace.tokens.pieces)},
        "tokens": list(scene.trace.tokens.pieces),
        "alignment": [{"kind": step.kind, "a": step.a, "b": step.b} for step in other.alignment.steps],
        "next": {"position_a": at[0], "position_b": at[1]} | _next(scene, other, at, most),
        "heads": heads,
    }


def compare_head(
    scene: Scene, layer: int, head: int, other_prompt: Prompt = "", other_model: str = "", measure: OfHead = "weights"
) -> dict:
    """One head's attention in two runs, and the difference where their tokens correspond.

    Args:
        other_prompt: As in compare_runs; may be empty.
        other_model: As in compare_runs, may be empty; the head of the other model is the same one, or the one
            with the nearest numbers where it has others.
        measure: As in attention.

    Returns:
        a, b: matrices, a row a query, null for keys that it cannot see; difference: a minus b on the tokens of A, null
        where there is no counterpart, and null as a whole where the two models cut text into other tokens.
    """
    looked = on(scene, layer, head)
    other = _other(looked, other_prompt, other_model)
    with scene.playground.computing:
        a, b = measured(scene.trace, measure, layer, head), measured(other.trace, measure, *other.head)
    return {
        "measure": measure,
        "head_a": (layer, head),
        "head_b": other.head,
        "a": a,
        "b": b,
        "difference": difference(a, b, other.alignment.pairs) if other.one_vocabulary else None,
    }


def patch(
    scene: Scene,
    other_prompt: Prompt,
    site: Annotated[str, OneOf(PATCH_SITES)] = "resid_pre",
    into: Annotated[str, OneOf(patching.INTO)] = "b",
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
    other = other_run(scene, {"with": "prompt", "prompt": other_prompt}, {})
    asked = {"site": site, "into": into, "token": token, "distractor": distractor}
    found = patching.patching_of(scene, other, asked)

    def work(progress: Progress) -> object:
        return patched(found.clean, found.corrupted, found.target, found.site, progress)

    effects = done(scene.playground, background.Job(found.key, work))
    return {
        "site": site,
        "into": into,
        "tokens_a": list(scene.trace.tokens.pieces),
        "tokens_b": list(other.trace.tokens.pieces),
        "token": named(scene.model, found.target.token),
        "distractor": named(scene.model, found.target.distractor),
        "effects": effects,
        "recovered": recovered(effects, *found.ends),
        "clean": found.ends[0],
        "corrupted": found.ends[1],
    }
