"""The tables of a head: what it writes if it reads a token (OV), and which keys a query scores high (QK).

The stream is the embedding of one token alone: without a position's embedding, and without what earlier layers add. For
the first layer of a model without position embeddings this is exact; for later layers it is the direct path of the
embedding. The norm before attention is applied to that embedding, divisor included, and so are the biases, clamps and
norms of queries, keys and values, and RoPE. The norms after the head are linear: gain and, for LayerNorm, centering,
with divisor 1. So entries of an OV table are logits before the division by the final norm's divisor.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from model.arguments import check_head
from model.errors import InputError, say
from model.gpt.mixers.needs import need_alone, need_directions, need_scores
from model.gpt.mixers.projection import one_head
from model.gpt.transformer import Transformer, attention_input, output_matrix
from model.predictions.attribution import on_the_way, through
from model.public import public, whole
from model.token_tables.token_table import TokenTable

_ROWS = 4096  # maximum number of embeddings processed at once


@public(vocab=whole(1))
@torch.inference_mode()
def ov_table(model: Transformer, layer: int, head: int, vocab: int | None = None) -> TokenTable:
    """Build the OV table: entry [x, y] is what the head adds to the logit of y if it attends to x alone, with weight 1.

    table[x, y] = W_U[y] . N(W_O v(x)), where v(x) is the head's value for the embedding of x, and N the norms after
    the head without divisors and biases. Multipliers count; a cap of the logits is ignored. `vocab` limits the table to
    the first tokens. Raises InputError for a layer or head that does not exist, a layer without attention, a head whose
    output has a gate, and a model whose tokens have no direction.
    """
    check_ov(model, layer)
    check_head(head, model.config.n_head)
    v = torch.cat([head_values(model, layer, head, ids) for ids in chunks(model, vocab)])
    return TokenTable("ov", layer, head, 0, v, unembedded(model, layer, written(model, layer, head), vocab))


@public(distance=whole(0), vocab=whole(1))
@torch.inference_mode()
def qk_table(model: Transformer, layer: int, head: int, distance: int = 0, vocab: int | None = None) -> TokenTable:
    """Build the QK table: entry [x, y] is the score of the key of token y, `distance` tokens before the query of x.

    table[x, y] = q(x) . k(y) / sqrt(d_head), before a cap, ALiBi and the softmax. With RoPE, query and key are rotated;
    without it, scores do not depend on the distance. ALiBi subtracts the same from all keys at one distance, so it
    changes no order. `vocab` limits the table to the first tokens. Raises InputError for a layer or head that does not
    exist, a layer without attention, and a distance beyond the context or the layer's window.
    """
    need_scores(model.config, layer)
    need_alone(model.config)
    check_head(head, model.config.n_head)
    check_distance(model, layer, distance)
    q, k = (
        torch.cat([part(model, layer, head, ids, distance) for ids in chunks(model, vocab)])
        for part in (head_queries, head_keys)
    )
    return TokenTable("qk", layer, head, distance, q, k)


def check_ov(model: Transformer, layer: int) -> None:
    """Raise InputError unless the weights alone give what the layer's heads write to the logits."""
    need_scores(model.config, layer)
    need_alone(model.config)
    need_directions(model.config)
    if model.config.output_gate:
        what = "The output of a head of this model is multiplied by a gate that depends on the attending token."
        raise InputError(what, f"layer {layer}: output_gate", "Choose another model, such as TinyGPT.")


def check_distance(model: Transformer, layer: int, distance: int) -> None:
    """Raise InputError for a distance at which the layer has no score."""
    window = model.blocks[layer].attn.window
    most = min(model.config.n_ctx, window or model.config.n_ctx) - 1
    if distance > most:
        what = "The key is too far from the query: beyond the context or the layer's window."
        raise InputError(what, str(distance), say("Choose a distance up to {}.", most))


def embedded(model: Transformer, ids: slice | Tensor) -> Tensor:
    """Return the stream of tokens, each by itself and without a position. [n, D]"""
    x = model.embed.weight[ids]
    x = x if model.config.embed_factor == 1 else x * model.config.embed_factor
    return x if model.embed_norm is None else model.embed_norm(x)


def read_by(model: Transformer, layer: int, ids: slice | Tensor) -> Tensor:
    """Return what a layer's attention reads of tokens alone. [n, D]"""
    return attention_input(model, layer, embedded(model, ids))


def head_values(model: Transformer, layer: int, head: int, ids: slice | Tensor) -> Tensor:
    """Compute the values of tokens alone. float32 [n, E]"""
    attn = model.blocks[layer].attn
    v = one_head(attn, attn.v, None, head // model.config.group_size, read_by(model, layer, ids))
    return v.float()


def head_queries(model: Transformer, layer: int, head: int, ids: slice | Tensor, distance: int) -> Tensor:
    """Compute the queries of tokens alone at position `distance`, over sqrt(d_head). float32 [n, E]"""
    attn, run = model.blocks[layer].attn, model.prepare(distance, 1)
    q = one_head(attn, attn.q, attn.q_norm, head, read_by(model, layer, ids)) * attn.turn.q_factor
    return attn.turn.rotated(q, attn.turn.table(run)).float() / model.config.d_head**0.5


def head_keys(model: Transformer, layer: int, head: int, ids: slice | Tensor, distance: int) -> Tensor:
    """Compute the keys of tokens alone at position 0, in a text that ends at position `distance`. float32 [n, E]"""
    attn, run = model.blocks[layer].attn, model.prepare(0, 1, text=distance + 1)
    k = one_head(attn, attn.k, attn.k_norm, head // model.config.group_size, read_by(model, layer, ids))
    return attn.turn.rotated(k, attn.turn.table(run)).float()


def chunks(model: Transformer, vocab: int | None) -> Iterator[slice]:
    """Yield chunks of the vocabulary, or of its first `vocab` tokens."""
    V = min(vocab or model.config.vocab_size, model.config.vocab_size)
    for start in range(0, V, _ROWS):
        yield slice(start, min(start + _ROWS, V))


def written(model: Transformer, layer: int, head: int) -> Tensor:
    """Return what each dimension of a head's value adds to the stream, with the output multiplier. float32 [E, D]"""
    E = model.config.z_width(layer)
    return output_matrix(model, layer)[:, head * E : (head + 1) * E].T.float()


def unembedded(model: Transformer, layer: int, directions: Tensor, vocab: int | None) -> Tensor:
    """Compute what directions of the output of a layer's heads add to every logit. [n, D] -> float32 [V, n]"""
    for _, _, norm in on_the_way(model, layer, after_attention=True):
        directions = through(norm, 1.0, directions)
    parts = [model.unembed.weight[ids].float() @ directions.T for ids in chunks(model, vocab)]
    return torch.cat(parts) * model.config.logit_multiplier
