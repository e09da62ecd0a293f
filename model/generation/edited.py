"""Generation under edits: every step gives the prediction of `trace(text).edit(...)`, computed with a cache."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from model.errors import InputError
from model.gpt.cache import KVCache
from model.gpt.edit_checks import check_edits
from model.gpt.edits import EDITS, Edit, acting, directions_of, embeddings_of, sites_edited, starting_at, tap_of
from model.gpt.passes import Attend, Pass, attend_explicit, attend_fused
from model.gpt.tap import Tap
from model.gpt.transformer import Transformer

ATTENTION = frozenset(("scores", "pattern"))


@dataclass(frozen=True, eq=False)
class Edited:
    """The edits of a text, and the tap that applies them to its rows. Constructed by `of`."""

    edits: tuple[Edit, ...]
    tap: Tap

    def reaches(self, layer: int) -> bool:
        """Return True if the edits change the computation of a layer."""
        return bool(sites_edited(self.edits, layer))

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Run attention, unfused if scores or a pattern are edited, otherwise with the fused kernel."""
        return (attend_explicit(self.tap) if self.explicit(layer) else attend_fused)(layer, q, k, v)

    def explicit(self, layer: int) -> bool:
        """Return True if the edits change the scores or the pattern of a layer."""
        return not ATTENTION.isdisjoint(sites_edited(self.edits, layer))


def of(model: Transformer, edits: Sequence[Edit], T: int, *, forgetful: bool = False) -> Edited | None:
    """Return the edits of a text whose prompt has T tokens, or None if there are no edits.

    `forgetful` is True if a strategy evicts keys. Raises InputError for edits that do not apply to the model or the
    prompt, for replacement by a mean over the text, since the text grows here, and for edits of attention with evicted
    keys, since patterns are addressed by position.
    """
    if not edits:
        return None
    check_edits(edits, model.config, T)
    for edit in edits:
        kind = EDITS[edit.kind]
        if kind.takes == "mean":
            what = "A mean over the prompt cannot be applied while text is generated."
            raise InputError(what, edit.kind, "Switch it off, or multiply it by a factor.")
        windows = "sliding_window" in (
            model.config.mixers if edit.layer is None else (model.config.mixers[edit.layer],)
        )
        if kind.site in ATTENTION and (forgetful or windows):
            raise InputError(
                "Attention cannot be edited while keys are evicted.",
                edit.kind,
                "Let the strategies keep all keys, or remove this edit.",
            )
    if not acting(edits):
        return None
    directions = directions_of(edits, model.unembed.weight)
    embeddings = embeddings_of(edits, model.embed.weight, model.config.embed_factor)
    return Edited(tuple(edits), tap_of(edits, {}, directions, embeddings))


def trunk(model: Transformer, ids: Tensor, cache: KVCache, edited: Edited, memory: Attend | None) -> Tensor:
    """Run `model.trunk` under edits. ids [n, T] -> [n, T, D]"""
    start, T = cache.length, ids.shape[1]
    model.check(ids, start)
    cache.reserve(*ids.shape)
    run = model.prepare(start, T, attend=memory or edited.attend, cache=cache)
    x = embedded(model, ids, start, run, edited)
    x = through(model, x, run, starting_at(edited.tap, start), edited.reaches, edited.explicit)
    cache.advance(T)
    return x


def embedded(model: Transformer, ids: Tensor, start: int, run: Pass, edited: Edited | None) -> Tensor:
    """Return the stream that enters the first block, with edited embeddings. [n, T] -> [n, T, D]"""
    if edited is None or not edited.reaches(-1):
        return model.embed_tokens(ids, start, run)
    tapped = replace(run, tap=starting_at(edited.tap, start))  # `beside` is the same object
    return model.embed_tokens(ids, start, tapped)


def through(
    model: Transformer,
    x: Tensor,
    run: Pass,
    tap: Tap | None,
    reaches: Callable[[int], bool],
    explicit: Callable[[int], bool] = lambda layer: False,
) -> Tensor:
    """Run all blocks, with the tap only in the layers that it affects; the others stay on the fast path. x [N, T, D]

    `explicit` names the layers whose scores and pattern the tap edits. Layers of more than a plain softmax do not call
    the attention function of the pass, and show their scores to the tap only where it says so.
    """
    for layer, block in enumerate(model.blocks):
        tapped = tap is not None and reaches(layer)
        x = block(x, layer, replace(run, tap=tap, explicit=explicit(layer)) if tapped else run)
    return x


def tap_of_rows(several: Sequence[Edited | None], counts: Sequence[int], starts: Sequence[int]) -> Tap | None:
    """Return one tap for a batch that applies each text's edits to its `counts` rows, which stand at the position in
    `starts`, or None if no text has edits.
    """
    if not any(several):
        return None
    taps = [None if each is None else starting_at(each.tap, at) for each, at in zip(several, starts, strict=True)]

    def tap(site: str, layer: int, x: Tensor) -> Tensor:
        affected = [each is not None and site in sites_edited(each.edits, layer) for each in several]
        if not any(affected):
            return x
        parts = zip(taps, affected, x.split(list(counts)), strict=True)
        return torch.cat([each(site, layer, rows) if each and edited else rows for each, edited, rows in parts])

    return tap
