"""Numbers of scale: compute-optimal plans under published laws, texts in several vocabularies, and merges."""

from typing import Annotated

from model.anatomy.known_models import KNOWN, TINYGPT
from model.anatomy.scaling import LAWS, extra_compute, planned
from model.anatomy.scaling_curves import WITH_PRICE
from model.anatomy.tokenizer_comparison import counted
from model.api import LanguageModel
from model.text.bpe_steps import replay
from viz.api.arguments import Long, OneOf, Within
from viz.page.playground import Playground
from viz.page.scene import Scene
from viz.views.anatomy.tokenizers import view as vocabs
from viz.views.anatomy.tokenizers.figures import SAMPLES, part_text


def scaling_laws(
    playground: Playground,
    given: Annotated[str, OneOf(("compute", "params", "tokens"))] = "compute",
    value: Annotated[float, Within(1e-3, 1e15)] = 5.76,
    exponent: Annotated[int, Within(0, 30)] = 23,
) -> dict:
    """The compute-optimal model under every published scaling law, and what known models were trained with.

    Args:
        given: What `value` is: compute (FLOPs), params or tokens.
        value: How much of it, times 10^exponent.
        exponent: The power of ten: value 5.76 and exponent 23 are 5.76e23 FLOPs.

    Returns:
        plans: law, params, tokens, compute, ratio (tokens a parameter), loss (nats a token of that study; null where
        the law gives none) and half (compute of a model of half the size for the same loss, over the least); models:
        name, params, tokens, year and source, as published.
    """
    amount = float(f"{value}e{exponent}")
    plans = [planned(law, given, amount) for law in LAWS]
    rows = [vars(plan) | {"ratio": plan.ratio, "half": _half(plan.law)} for plan in plans]
    return {"given": given, "value": amount, "plans": rows, "models": [vars(each) for each in (*KNOWN, TINYGPT)]}


def _half(law: str) -> float | None:
    """The compute of a model of half the optimal size; None for a law without a loss."""
    return float(extra_compute(law, 0.5)) if law in WITH_PRICE else None


def tokenizers(scene: Scene) -> dict:
    """The prompt in several vocabularies, and sample texts of several languages and kinds in each.

    Returns:
        vocabularies: name, size, tokens, bytes_per_token, characters_per_token and single (share of the bytes that are
        tokens of their own and only part of a character); null where the vocabulary cannot write the text. samples:
        text, and tokens by vocabulary.
    """
    found = vocabs.vocabularies(scene)
    rows = []
    for named in found:
        each = vocabs.tried(named, scene.prompt)
        rows.append({"name": named.key, "size": each.size, **vars(counted(each))} if each else {"name": named.key})
    samples = [
        {"kind": key, "text": text, "tokens": {named.key: _length(named, text) for named in found}}
        for key, text in SAMPLES.items()
    ]
    return {"vocabularies": rows, "samples": samples}


def _length(named: vocabs.Named, text: str) -> int | None:
    each = vocabs.tried(named, text)
    return len(each.raw) if each else None


def merges(playground: Playground, model: LanguageModel, text: Annotated[str, Long()] = "unbelievable") -> dict:
    """How byte-pair encoding builds the tokens of a text, merge by merge, up to the tokenizer's own ids.

    Args:
        text: At most 300 characters.

    Returns:
        pieces: text, added and whole (found without a merge), merges (left, right, rank; in their order) and ids.
    """
    pieces = []
    for piece in replay(model.tokenizer, text):
        rows = []
        for step, merge in enumerate(piece.merges):
            parts = piece.parts(step)
            left, right = (part_text(parts[merge.at + n]) for n in (0, 1))
            rows.append({"left": left, "right": right, "rank": merge.rank})
        pieces.append(
            {"text": piece.text, "added": piece.added, "whole": piece.whole, "merges": rows, "ids": list(piece.ids)}
        )
    return {"pieces": pieces}
