"""Edits of a forward pass: small values that a RunKey can hold, and the tap that applies them.

Edits of one site apply in the given order; sites follow the order of the computation, scores before pattern before z,
whatever the order of the edits.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from model.arguments import shown
from model.errors import InputError, say
from model.gpt.config import ModelConfig
from model.gpt.layers import future
from model.gpt.tap import Tap

MAX_FACTOR = 100.0  # larger scales give no further insight

Means = Mapping[tuple[int, int], Tensor]  # (layer, head): that head's z averaged over the positions, [E]


@dataclass(frozen=True)
class Edit:
    """One change of a forward pass. The fields that a kind uses are listed in EDITS; the others stay None."""

    kind: str  # a key of EDITS
    layer: int | None = None  # None only for block_edge: every layer
    head: int | None = None  # None only for block_edge: every head
    factor: float | None = None
    query: int | None = None
    key: int | None = None


FIELDS = ("layer", "head", "factor", "query", "key")


@dataclass(frozen=True)
class EditKind:
    """A kind of edit: `function` writes into a tensor of `site`, given the edit and, for "mean", the head's mean."""

    label: str
    doc: str
    needs: tuple[str, ...]  # required fields
    optional: tuple[str, ...]  # optional fields
    site: str  # a site of model.gpt.tap.SITES
    function: Callable[[Tensor, Edit, Tensor | None], None]


def _zero(z: Tensor, edit: Edit, mean: Tensor | None) -> None:
    z[:, edit.head] = 0


def _mean(z: Tensor, edit: Edit, mean: Tensor | None) -> None:
    z[:, edit.head] = mean


def _scale(z: Tensor, edit: Edit, mean: Tensor | None) -> None:
    z[:, edit.head] *= edit.factor


def _previous_token(pattern: Tensor, edit: Edit, mean: Tensor | None) -> None:
    T, S = pattern.shape[2:]
    pattern[:, edit.head] = F.one_hot(_queries(T, S).sub(1).clamp(min=0), S).to(pattern.dtype)


def _first_token(pattern: Tensor, edit: Edit, mean: Tensor | None) -> None:
    pattern[:, edit.head] = 0
    pattern[:, edit.head, :, 0] = 1


def _uniform(pattern: Tensor, edit: Edit, mean: Tensor | None) -> None:
    T, S = pattern.shape[2:]
    share = 1 / (_queries(T, S) + 1)[:, None]  # [T, 1]
    pattern[:, edit.head] = share.expand(T, S).masked_fill(future(T, S), 0)


def _block_edge(scores: Tensor, edit: Edit, mean: Tensor | None) -> None:
    T, S = scores.shape[2:]
    row = edit.query - (S - T)  # with a cache, or on part of the prompt, the row may not be in this tensor
    if 0 <= row < T:
        scores[:, slice(None) if edit.head is None else edit.head, row, edit.key] = -math.inf


def _queries(T: int, S: int) -> Tensor:
    """Positions of the queries: the last T of S. [T]"""
    return torch.arange(S - T, S)


_HEAD = ("layer", "head")

EDITS: dict[str, EditKind] = {
    "zero": EditKind("Zero", "The head writes nothing: its output z becomes 0.", _HEAD, (), "z", _zero),
    "mean": EditKind(
        "Mean",
        "The head writes the same at every position: the mean of its z over this prompt, unedited.",
        _HEAD,
        (),
        "z",
        _mean,
    ),
    "scale": EditKind("Scale", "The head's output z is multiplied by a factor.", (*_HEAD, "factor"), (), "z", _scale),
    "previous_token": EditKind(
        "Previous token",
        "Every token reads only the token before it; the first reads itself.",
        _HEAD,
        (),
        "pattern",
        _previous_token,
    ),
    "first_token": EditKind(
        "First token",
        "Every token reads only the first one.",
        _HEAD,
        (),
        "pattern",
        _first_token,
    ),
    "uniform": EditKind(
        "Uniform",
        "Every token reads itself and all before it alike.",
        _HEAD,
        (),
        "pattern",
        _uniform,
    ),
    "block_edge": EditKind(
        "Block an edge",
        "A query cannot see a key; the rest of its row is renormalised.",
        ("query", "key"),
        _HEAD,
        "scores",
        _block_edge,
    ),
}


def tap_of(edits: Sequence[Edit], means: Means) -> Tap:
    """The tap that applies the edits, on batches of any size and without writing into its input.

    `means[layer, head]` is needed for edits of kind "mean"; a missing one raises ValueError. With z zeroed the logits
    are those of a model whose o projection has zeros in that head's columns. Kinds: EDITS.
    """
    edits = tuple(edits)
    if lacking := [place for place in mean_heads(edits) if place not in means]:
        raise ValueError(f"no mean of (layer, head) {lacking}; given: {sorted(means)}")

    def tap(site: str, layer: int, x: Tensor) -> Tensor:
        here = [edit for edit in edits if EDITS[edit.kind].site == site and edit.layer in (None, layer)]
        if not here:
            return x
        x = x.clone()
        for edit in here:
            EDITS[edit.kind].function(x, edit, means.get((edit.layer, edit.head)))
        return x

    return tap


def mean_heads(edits: Sequence[Edit]) -> list[tuple[int, int]]:
    """The (layer, head) that need their mean for these edits."""
    return [(edit.layer, edit.head) for edit in edits if edit.kind == "mean"]


def sites_edited(edits: Sequence[Edit], layer: int) -> frozenset[str]:
    """The sites of a layer that the edits change: of "scores", "pattern" and "z"."""
    return frozenset(EDITS[edit.kind].site for edit in edits if edit.layer in (None, layer))


# --- validation ---


def edit_of(value: object, config: ModelConfig, T: int) -> Edit:
    """An edit from unchecked plain values, for T tokens; fields of None count as missing.

    `edit_of(dataclasses.asdict(edit), config, T) == edit`. Raises InputError for anything invalid.
    """
    if not isinstance(value, Mapping):
        raise InputError("An edit must be named fields.", type(value).__name__, "Give a kind, a layer and a head.")
    fields = {name: field for name, field in value.items() if field is not None}
    if unknown := [name for name in fields if name not in ("kind", *FIELDS)]:
        raise InputError("An edit has a field that is not known.", shown(unknown[0]), "Remove it.")
    edit = Edit(fields.get("kind"), *(fields.get(name) for name in FIELDS))
    check_edits([edit], config, T)
    return edit if edit.factor is None else dataclasses.replace(edit, factor=float(edit.factor))


def check_edits(edits: Sequence[Edit], config: ModelConfig, T: int) -> None:
    """Raise InputError unless all edits fit the model and T tokens and leave every row a key to read."""
    for edit in edits:
        _check_fields(edit)
        _check_values(edit, config, T)
    _check_rows(edits, config)


def _check_fields(edit: Edit) -> None:
    """Raise InputError unless the kind is known and has its required fields and no others."""
    if not isinstance(edit.kind, str) or edit.kind not in EDITS:
        raise InputError(
            "There is no such kind of edit.", shown(edit.kind), say("Choose one of: {}.", ", ".join(EDITS))
        )
    kind = EDITS[edit.kind]
    present = [name for name in FIELDS if getattr(edit, name) is not None]
    if missing := [name for name in kind.needs if name not in present]:
        raise InputError(
            "An edit lacks a field.", ", ".join(missing), say("This kind needs: {}.", ", ".join(kind.needs))
        )
    if extra := [name for name in present if name not in kind.needs + kind.optional]:
        raise InputError("An edit has a field that its kind does not use.", ", ".join(extra), "Remove it.")


def _check_values(edit: Edit, config: ModelConfig, T: int) -> None:
    """Raise InputError unless every field is in its range."""
    if not _within(edit.layer, config.n_layer):
        raise InputError(
            "There is no such layer.", shown(edit.layer), say("Layers run from 0 to {}.", config.n_layer - 1)
        )
    if not _within(edit.head, config.n_head):
        raise InputError("There is no such head.", shown(edit.head), say("Heads run from 0 to {}.", config.n_head - 1))
    for position in (edit.query, edit.key):
        if not _within(position, T):
            raise InputError("There is no such position.", shown(position), say("Positions run from 0 to {}.", T - 1))
    if edit.query is not None and edit.key > edit.query:
        what = "A token cannot look at a later one."
        raise InputError(what, f"query {edit.query}, key {edit.key}", "Choose a key at or before the query.")
    # The comparison is false for NaN, and right for whole numbers too large for a float.
    if edit.factor is not None and not (type(edit.factor) in (int, float) and abs(edit.factor) <= MAX_FACTOR):
        hint = say("Choose a value from {} to {}.", f"{-MAX_FACTOR:g}", f"{MAX_FACTOR:g}")
        raise InputError("The factor is not a number that can be used.", shown(edit.factor), hint)


def _check_rows(edits: Sequence[Edit], config: ModelConfig) -> None:
    """Raise InputError for a row with all keys blocked: its softmax would be undefined."""
    blocked: dict[tuple[int, int, int], set[int]] = {}  # (layer, head, query): keys
    for edit in edits:
        if edit.kind != "block_edge":
            continue
        for layer in range(config.n_layer) if edit.layer is None else (edit.layer,):
            for head in range(config.n_head) if edit.head is None else (edit.head,):
                keys = blocked.setdefault((layer, head, edit.query), set())
                keys.add(edit.key)
                if len(keys) > edit.query:  # row q sees the q + 1 keys up to itself
                    what = "A token would have nothing left to read."
                    raise InputError(what, f"query {edit.query}", "Leave it at least one key.")


def _within(value: object, count: int) -> bool:
    """None, or an integer of 0 .. count - 1; True and 1.0 do not count as integers."""
    return value is None or (type(value) is int and 0 <= value < count)
