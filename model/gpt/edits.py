"""Edits of a forward pass: small values that a RunKey can hold, and the tap that applies them.

Edits of one site apply in the given order. Whatever the order of the edits, sites follow the order of the computation:
embed, scores, pattern, z, resid_mid, mlp_post, mlp_out, resid_post.

Ablation of heads: Michel et al. 2019, section 3. Mean ablation: Wang et al. 2022, section 2. Adding a direction or a
vector: Turner et al. 2023, "Activation Addition". Projecting out a direction: Arditi et al. 2024, section 2.4. Hiding
tokens from attention: Geva et al. 2023, section 5. Placing a vector: Ghandeharioun et al. 2024, "Patchscopes".
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from model.gpt.layers import future
from model.gpt.placed_vectors import ranges, vector_of
from model.gpt.tap import Tap

MAX_FACTOR = 100.0  # maximum absolute factor

MAX_VALUE = 1000.0  # maximum absolute activation; those of the largest neurons have this order of magnitude

# Means over the positions. (layer, head): z of the head, [E]; (layer, None): the output of the layer's MLP, [D].
Means = Mapping[tuple[int, int | None], Tensor]
Directions = Mapping[int, Tensor]  # token: the direction of its logit in the stream, [D] of length 1
NO_DIRECTIONS: Directions = MappingProxyType({})
Embeddings = Mapping[int | None, Tensor]  # token: its row of W_E as it enters the stream, [D]; None: the mean row
NO_EMBEDDINGS: Embeddings = MappingProxyType({})


@dataclass(frozen=True)
class Edit:
    """One change of a forward pass. The fields that a kind uses are listed in EDITS; the others stay None."""

    kind: str  # a key of EDITS
    layer: int | None = None  # None: every layer, allowed only for block_edge
    head: int | None = None  # None: every head, for block_edge; also None for edits that do not act on heads
    factor: float | None = None
    query: int | None = None
    key: int | None = None
    neuron: int | None = None
    value: float | None = None  # new activation
    token: int | None = None  # token id
    site: str | None = None  # where a vector is added: one of STREAM_SITES
    vector: str | None = None  # its numbers, [D], as written by model.gpt.placed_vectors.vector_text
    positions: str | None = None  # tokens that are edited, such as "0,3-5" or "4-"; None: every token
    name: str | None = None  # what the reader calls the vector


FIELDS = (
    *("layer", "head", "factor", "query", "key", "neuron", "value", "token"),
    *("site", "vector", "positions", "name"),
)
# Before a block, after its attention and after the block; in parallel blocks, the MLP does not read the second.
STREAM_SITES = ("resid_pre", "resid_mid", "resid_post")


@dataclass(frozen=True)
class EditKind:
    """A kind of edit. `function` modifies a tensor of `site` in place, given the edit and, if the kind needs one, a
    vector.
    """

    needs: tuple[str, ...]  # required fields
    optional: tuple[str, ...]  # optional fields
    site: str  # a site of model.gpt.tap.SITES; the default one, where the edit names its own
    function: Callable[[Tensor, Edit, Tensor | None], None]
    # the vector is one of Means, Directions or Embeddings, or that of the edit
    takes: Literal["mean", "direction", "embedding", "vector"] | None = None
    of: Literal["heads", "mlp", "neuron", "direction", "token"] = "heads"  # edited component


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
    row = edit.query - (S - T)  # with a cache, or for part of the prompt, the row may not be in this tensor
    if 0 <= row < T:
        scores[:, slice(None) if edit.head is None else edit.head, row, edit.key] = -math.inf


def _mlp_zero(out: Tensor, edit: Edit, mean: Tensor | None) -> None:
    out.zero_()


def _mlp_mean(out: Tensor, edit: Edit, mean: Tensor | None) -> None:
    out[:] = mean


def _mlp_scale(out: Tensor, edit: Edit, mean: Tensor | None) -> None:
    out *= edit.factor


def _neuron_zero(post: Tensor, edit: Edit, vector: Tensor | None) -> None:
    post[..., edit.neuron] = 0


def _neuron_scale(post: Tensor, edit: Edit, vector: Tensor | None) -> None:
    post[..., edit.neuron] *= edit.factor


def _neuron_value(post: Tensor, edit: Edit, vector: Tensor | None) -> None:
    post[..., edit.neuron] = edit.value


def _project_out(stream: Tensor, edit: Edit, direction: Tensor) -> None:
    along = stream @ direction.to(stream.dtype)  # [B, T]
    stream -= along[..., None] * direction.to(stream.dtype)


def _add_direction(stream: Tensor, edit: Edit, direction: Tensor) -> None:
    stream += edit.factor * direction.to(stream.dtype)


def _add_vector(stream: Tensor, edit: Edit, vector: Tensor) -> None:
    stream += edit.factor * vector.to(stream)


def _place_vector(stream: Tensor, edit: Edit, vector: Tensor) -> None:
    stream[:] = vector.to(stream)


def _hide_token(scores: Tensor, edit: Edit, vector: Tensor | None) -> None:
    T, S = scores.shape[2:]
    heads, hidden = slice(None) if edit.head is None else edit.head, torch.zeros(S, dtype=torch.bool)
    for low, high in ranges(edit.positions):
        hidden[low:high] = True
    others = _queries(T, S)[:, None] != torch.arange(S)  # a token still sees itself
    scores[:, heads] = scores[:, heads].masked_fill(hidden & others, -math.inf)


def _embed_zero(embedded: Tensor, edit: Edit, vector: Tensor | None) -> None:
    embedded.zero_()


def _queries(T: int, S: int) -> Tensor:
    """Return the positions of the queries, the last T of S. [T]"""
    return torch.arange(S - T, S)


_HEAD = ("layer", "head")

EDITS: dict[str, EditKind] = {
    "zero": EditKind(_HEAD, (), "z", _zero),
    "mean": EditKind(_HEAD, (), "z", _mean, "mean"),
    "scale": EditKind((*_HEAD, "factor"), (), "z", _scale),
    "previous_token": EditKind(_HEAD, (), "pattern", _previous_token),
    "first_token": EditKind(_HEAD, (), "pattern", _first_token),
    "uniform": EditKind(_HEAD, (), "pattern", _uniform),
    "block_edge": EditKind(("query", "key"), _HEAD, "scores", _block_edge),
    "mlp_zero": EditKind(("layer",), (), "mlp_out", _mlp_zero, of="mlp"),
    "mlp_mean": EditKind(("layer",), (), "mlp_out", _mlp_mean, "mean", "mlp"),
    "mlp_scale": EditKind(("layer", "factor"), (), "mlp_out", _mlp_scale, of="mlp"),
    "neuron_zero": EditKind(("layer", "neuron"), (), "mlp_post", _neuron_zero, of="neuron"),
    "neuron_scale": EditKind(("layer", "neuron", "factor"), (), "mlp_post", _neuron_scale, of="neuron"),
    "neuron_value": EditKind(("layer", "neuron", "value"), (), "mlp_post", _neuron_value, of="neuron"),
    "project_out": EditKind(("layer", "token"), (), "resid_post", _project_out, "direction", "direction"),
    "add_direction": EditKind(("layer", "token", "factor"), (), "resid_post", _add_direction, "direction", "direction"),
    "add_vector": EditKind(
        ("layer", "site", "factor", "vector"), ("positions", "name"), "resid_post", _add_vector, "vector", "direction"
    ),
    "place_vector": EditKind(
        ("layer", "site", "vector", "positions"), ("name",), "resid_post", _place_vector, "vector", "direction"
    ),
    "hide_token": EditKind(("positions",), _HEAD, "scores", _hide_token, of="token"),
    "embed_zero": EditKind(("positions",), (), "embed", _embed_zero, of="token"),
    "embed_mean": EditKind(("positions",), (), "embed", _place_vector, "embedding", "token"),
    "embed_token": EditKind(("positions", "token"), (), "embed", _place_vector, "embedding", "token"),
}


class _EditTap(Protocol):
    """A tap that also takes the position of the first row it is given."""

    def __call__(self, site: str, layer: int, x: Tensor, start: int = 0) -> Tensor:
        """Return the edited tensor."""


def tap_of(
    edits: Sequence[Edit],
    means: Means,
    directions: Directions = NO_DIRECTIONS,
    embeddings: Embeddings = NO_EMBEDDINGS,
) -> Tap:
    """Return the tap that applies the edits. It supports batches of any size and does not modify its input.

    `means[layer, head]` is required for each edit by a mean, `directions[token]` for each edit by a direction, and
    `embeddings[token]` for each embedding that replaces another; raises ValueError for a missing one. With z set to 0,
    the logits are those of a model whose o projection has zeros
    in that head's columns; with mlp_out set to 0, those of a model whose down projection and its bias are zero. The
    rows of its input start at position 0; `starting_at` gives the tap for rows of a later part of a text.
    """
    edits = tuple(edits)
    if lacking := [place for place in mean_places(edits) if place not in means]:
        raise ValueError(f"no mean of (layer, head) {lacking}; given: {sorted(means, key=str)}")
    if unknown := [token for token in direction_tokens(edits) if token not in directions]:
        raise ValueError(f"no direction of the tokens {unknown}; given: {sorted(directions)}")
    if absent := [token for token in _embedded_tokens(edits) if token not in embeddings]:
        raise ValueError(f"no embedding of the tokens {absent}; given: {sorted(embeddings, key=str)}")
    placed = [(edit, _place(edit), _vector(edit, means, directions, embeddings)) for edit in acting(edits)]

    def tap(site: str, layer: int, x: Tensor, start: int = 0) -> Tensor:
        active = [(edit, vector) for edit, (at, of), vector in placed if at == site and of in (None, layer)]
        if not active:
            return x
        x = x.clone()
        for edit, vector in active:
            for part in _rows(x, edit, start):
                EDITS[edit.kind].function(part, edit, vector)
        return x

    return tap


def acting(edits: Sequence[Edit]) -> list[Edit]:
    """Return the edits without vectors times 0, so that a run with only those is bitwise the unedited one."""
    return [edit for edit in edits if EDITS[edit.kind].takes != "vector" or edit.factor != 0]


def starting_at(tap: Tap, start: int) -> Tap:
    """Return a tap of `tap_of` for tensors whose first row is the token at position `start` of the text."""
    return functools.partial(cast(_EditTap, tap), start=start) if start else tap


def _vector(edit: Edit, means: Means, directions: Directions, embeddings: Embeddings) -> Tensor | None:
    """Return the vector that an edit takes, if its kind takes one."""
    takes = EDITS[edit.kind].takes
    if takes == "vector":
        return torch.from_numpy(vector_of(edit.vector))
    if takes == "embedding":
        return embeddings[edit.token]
    return None if takes is None else means[edit.layer, edit.head] if takes == "mean" else directions[edit.token]


def _place(edit: Edit) -> tuple[str, int | None]:
    """Return the site and the layer at which an edit acts; the layer of an embedding is -1.

    The stream before a block is the stream after the one before it, and is edited there.
    """
    if edit.site is None:
        site = EDITS[edit.kind].site
        return site, -1 if site == "embed" else edit.layer
    return ("resid_post", edit.layer - 1) if edit.site == "resid_pre" else (edit.site, edit.layer)


def _rows(x: Tensor, edit: Edit, start: int) -> list[Tensor]:
    """Return views of the rows of x [B, T, D] that an edit changes; x itself if it changes all, or scores."""
    if edit.positions is None or EDITS[edit.kind].site == "scores":
        return [x]
    spans = [(max(low - start, 0), None if high is None else high - start) for low, high in ranges(edit.positions)]
    return [x[:, low:high] for low, high in spans if high is None or high > low]


def mean_places(edits: Sequence[Edit]) -> list[tuple[int, int | None]]:
    """Return the (layer, head) pairs whose mean these edits require; a head of None means the layer's MLP."""
    return [(edit.layer, edit.head) for edit in edits if EDITS[edit.kind].takes == "mean"]


def direction_tokens(edits: Sequence[Edit]) -> list[int]:
    """Return the tokens whose direction these edits require."""
    return [edit.token for edit in edits if EDITS[edit.kind].takes == "direction"]


def _embedded_tokens(edits: Sequence[Edit]) -> list[int | None]:
    """Return the tokens whose embedding these edits require; None means the mean embedding."""
    return [edit.token for edit in edits if EDITS[edit.kind].takes == "embedding"]


def embeddings_of(edits: Sequence[Edit], embed: Tensor, factor: float) -> Embeddings:
    """Return each token's row of W_E times the model's factor, and for None the mean of all rows. W_E [V, D] -> [D]
    each

    Positions are added afterwards, so a token that takes another's embedding keeps its place.
    """
    table = embed.detach()
    return {token: (table.mean(0) if token is None else table[token]) * factor for token in _embedded_tokens(edits)}


def directions_of(edits: Sequence[Edit], unembed: Tensor) -> Directions:
    """Return the direction in the stream that increases each token's logit. W_U [V, D] -> [D] each

    It is the token's row of W_U, normalized to length 1 (0 for a row of zeros), without the final norm (nostalgebraist
    2020).
    """
    return {token: F.normalize(unembed.detach()[token], dim=0) for token in direction_tokens(edits)}


def sites_edited(edits: Sequence[Edit], layer: int) -> frozenset[str]:
    """Return the sites of a layer that the edits change; layer -1 has that of the embedding."""
    places = [_place(edit) for edit in acting(edits)]
    return frozenset(site for site, of in places if of == layer or (of is None and layer >= 0))
