"""Direct logit attribution: decomposes a logit into the contributions of the model's components.

A logit is a dot product u.x with the residual stream that leaves the last block, and the stream is a sum of the
outputs of all components. Each norm in between divides by a number that depends on the stream itself. With that number
frozen at its value in the run, a norm is linear, and the direction u can be carried back through it to every
component. Sources: Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits", from the section "Zero-
layer transformers" on; nostalgebraist 2020.

Only direct effects count: what a component changes through later layers is attributed to those layers. A model that
caps its logits is decomposed before the cap, which is not linear and has no parts.
"""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor

from model.arguments import check_head, check_layer, check_token
from model.attention.measures import attend_rows, gate_rows, value_rows
from model.errors import InputError
from model.gpt.edits import EDITS, sites_edited
from model.gpt.mixers.needs import need_causal, need_directions, need_heads_alone, need_scores
from model.gpt.mlp import MLP
from model.gpt.norm import Norm
from model.gpt.passes import Pass, attend_fused
from model.gpt.tap import record
from model.gpt.transformer import Block, Transformer, output_matrix
from model.predictions.frozen_norms import back, carried, on_the_way, through
from model.public import array, public, unchecked, whole
from model.tracing.one_token import single_token_pass
from model.tracing.trace import Trace

_NORMS = ("norm1", "after1", "norm2", "after2")  # of a block, where it has them
_SITES = ("z", "mlp_post", "mlp_out", "entry_out", *(f"{name}_scale" for name in _NORMS))
# sites at which edits of MLPs and of the stream are visible
_EDITED = ("resid_pre", "attn_out", "after1_out", "norm1_out", "resid_mid", "norm2_out", "after2_out", "resid_post")


@dataclass(frozen=True, eq=False)
class Components:
    """Outputs of all components at one position of a run, float32: all that `attribute` needs, for any token."""

    position: int  # nonnegative
    embed: Tensor  # [D], scaled where the config requires it
    pos_embed: Tensor | None  # [D]; None for RoPE and for models without position encoding
    z: tuple[Tensor, ...]  # every head's output before o: one tensor [H, E] per layer (ModelConfig.z_width)
    mlp: Tensor  # every MLP's output, [L, D]; includes the bias only in the layers of `whole`
    # divisor of each norm: ("norm1", layer), ("after1", layer), ..., ("final", L), ("embed_norm", -1)
    scales: dict[tuple[str, int], float]
    logits: Tensor  # the model's own, before any cap, [V]
    # layers with an edited MLP output, with experts or without an MLP, where output and biases are one component
    whole: tuple[int, ...] = ()
    # layer -> what edits added to the stream that leaves it, [D]
    added: dict[int, Tensor] = field(default_factory=dict)
    entry: Tensor | None = None  # what each layer's vector of the token adds, [L, D]; see ModelConfig.d_layer_input

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        tensors = (self.embed, self.pos_embed, *self.z, self.mlp, self.logits, *self.added.values(), self.entry)
        return sum(tensor.nbytes for tensor in tensors if tensor is not None)


@dataclass(frozen=True, eq=False)
class Attribution:
    """Direct contributions to one logit, or to the difference of two. In logits, before any cap, float64; a field is
    None if the model has no such component.
    """

    position: int
    token: int
    distractor: int | None
    heads: np.ndarray  # [L, H]
    mlps: np.ndarray  # without their biases, [L]; those of experts are included
    o_bias: np.ndarray | None  # [L]
    mlp_bias: np.ndarray | None  # [L]
    norm1_bias: np.ndarray | None  # [L]; None for pre-norm, where these biases act only through heads and MLPs
    norm2_bias: np.ndarray | None  # [L]
    final_bias: float | None
    embed: float
    pos_embed: float | None
    logit: float  # the model's own, before any cap
    directions: np.ndarray  # direction whose dot product is taken with each layer's attention output, [L, D]
    # contribution of what edits added to the stream that leaves each layer, [L]; None without such edits
    edits: np.ndarray | None = None
    after1_bias: np.ndarray | None = None  # biases of the norms after the attention, [L]
    after2_bias: np.ndarray | None = None  # and after the MLP, [L]
    embed_norm_bias: float | None = None
    head_bias: float | None = None
    entry: np.ndarray | None = None  # what each layer's vector of the token adds, [L]

    def parts(self) -> pd.DataFrame:
        """Return one row for each contribution, in the order of the computation, with columns kind, layer, head and
        value.

        Layer is -1 for embeddings and their norm, and `n_layer` for the biases of the final norm and of the output
        head; head is -1 for everything but heads.
        """
        L, H = self.heads.shape
        rows = [("embedding", -1, -1, self.embed), ("position", -1, -1, self.pos_embed)]
        rows.append(("embed_norm_bias", -1, -1, self.embed_norm_bias))
        after = {"o_bias": self.o_bias, "after1_bias": self.after1_bias, "norm1_bias": self.norm1_bias}
        after |= {"mlp": self.mlps, "mlp_bias": self.mlp_bias, "after2_bias": self.after2_bias}
        after |= {"entry": self.entry, "norm2_bias": self.norm2_bias, "edit": self.edits}
        for layer in range(L):
            rows += [("head", layer, head, self.heads[layer, head]) for head in range(H)]
            rows += [(kind, layer, -1, None if each is None else each[layer]) for kind, each in after.items()]
        rows += [("final_bias", L, -1, self.final_bias), ("head_bias", L, -1, self.head_bias)]
        present = [row for row in rows if row[3] is not None]
        return pd.DataFrame(present, columns=["kind", "layer", "head", "value"])

    @property
    def total(self) -> float:
        """The sum of all contributions."""
        return float(self.parts()["value"].sum())

    @property
    def gap(self) -> float:
        """total - logit, which is nothing but the rounding error of float32."""
        return self.total - self.logit


@dataclass(frozen=True, eq=False)
class Promoted:
    """The tokens whose logits one component raises most, and those whose logits it raises least. In logits, float32."""

    ids: np.ndarray  # in decreasing order of value, [n] int64
    values: np.ndarray  # [n]
    low_ids: np.ndarray  # in increasing order of value, [n] int64
    low_values: np.ndarray  # [n]
    mean: float  # over the vocabulary; a constant shift changes no probability


# --- outputs of all components ----------------------------------------------------------------------


@public()
@torch.inference_mode()
def components(run: Trace, position: int = -1) -> Components:
    """Return the outputs of all components at a position; negative positions count from the end.

    In layers without edits, only keys and values are computed for earlier tokens. The experts of a layer are one
    component, with their biases. Raises InputError if the position is out of range. Raises ValueError if the run has a
    tap that is not made of edits, because it may add something that belongs to no component.
    """
    run.require_key()
    need_causal(run.config)
    need_directions(run.config)
    need_heads_alone(run.config)
    logits = torch.from_numpy(run.logits_at(position))
    at, model, L = position % len(run.tokens), run.model, run.config.n_layer
    if run.config.logit_cap is not None:
        logits = model.uncapped(model.normed(run.residuals[-1][at][None]))[0]
    store: dict[tuple[str, int], Tensor] = {}
    tap = record({"embed", "pos_embed", "embed_norm_scale", "final_scale"}, store)
    ids = torch.from_numpy(np.ascontiguousarray(run.tokens.ids[None, at : at + 1], dtype=np.int64))
    model.embed_tokens(ids, at, run.embedding_pass(tap, at))
    if model.final_norm is not None:
        model.final_norm.tapped(run.residuals[-1][at], "final", L, Pass(None, attend_fused, None, tap))
    z, mlp, scales, unsplit, added, entry = [], [], {}, [], {}, []
    for layer, block in enumerate(model.blocks):
        changed = sites_edited(run.key.edits, layer)
        sites = _edited(run, layer, at) if changed or not run.config.alone else _one_token(run, layer, at)
        z.append(sites["z"])
        if "mlp_out" in changed or not isinstance(block.mlp, MLP):
            unsplit.append(layer)
            mlp.append(sites["mlp_out"])
        else:
            mlp.append(F.linear(sites["mlp_post"], block.mlp.down.weight) * block.mlp.factor)
        if not changed.isdisjoint(("resid_mid", "resid_post")):
            added[layer] = _added(block, sites)
        entry += [sites["entry_out"]] if block.entry is not None else []
        scales |= {(name, layer): float(sites[f"{name}_scale"]) for name in _NORMS if f"{name}_scale" in sites}
    if model.final_norm is not None:
        scales["final", L] = float(store["final_scale", L])
    if model.embed_norm is not None:
        scales["embed_norm", -1] = float(store["embed_norm_scale", -1])
    pos_embed = store.get(("pos_embed", -1))
    return Components(
        at,
        store["embed", -1][0, 0].clone(),
        None if pos_embed is None else pos_embed[0].clone(),
        tuple(z),
        torch.stack(mlp),
        scales,
        logits,
        tuple(unsplit),
        added,
        torch.stack(entry) if entry else None,
    )


def _one_token(run: Trace, layer: int, at: int) -> dict[str, Tensor]:
    """Compute the sites of an unedited block for a single token."""
    store: dict[tuple[str, int], Tensor] = {}
    each = single_token_pass(run.model, run.residuals[layer], layer, at, record(_SITES, store))
    run.model.blocks[layer](run.residuals[layer][None, at : at + 1], layer, each)
    return _last(store)


def _edited(run: Trace, layer: int, at: int) -> dict[str, Tensor]:
    """Compute the sites of a block that is edited or reads more than its stream; it may need all earlier tokens."""
    store: dict[tuple[str, int], Tensor] = {}
    each = run.prepare(layer, at + 1, record((*_SITES, *_EDITED), store))
    run.model.blocks[layer](run.residuals[layer][None, : at + 1], layer, each)
    return _last(store)


def _added(block: Block, sites: dict[str, Tensor]) -> Tensor:
    """Compute what edits added to the stream of a block, as it leaves it: what entered after the attention passes
    through the second norm if that lies on the stream. [D]
    """
    if block.post_norm:
        middle = sites["resid_mid"] - sites["norm1_out"]
        return sites["resid_post"] - sites["norm2_out"] + through(block.norm2, float(sites["norm2_scale"]), middle)
    read, wrote = (
        sites[out if norm is None else f"{name}_out"]
        for out, norm, name in (("attn_out", block.after1, "after1"), ("mlp_out", block.after2, "after2"))
    )
    wrote = wrote if block.entry is None else wrote + sites["entry_out"]
    scale = 1.0 if block.scale is None else float(block.scale)
    after = sites["resid_post"] - scale * (sites["resid_mid"] + wrote)
    return after + scale * (sites["resid_mid"] - (sites["resid_pre"] + read))


def _last(store: dict[tuple[str, int], Tensor]) -> dict[str, Tensor]:
    """Select each site at the last token: z [H, E], mlp_post [M], scales [1], others [D]."""
    return {name: (tensor[0, :, -1] if name == "z" else tensor[0, -1]) for (name, _), tensor in store.items()}


# --- contributions to a logit -----------------------------------------------------------------------


@public(distractor=unchecked)
@torch.inference_mode()
def attribute(outputs: Components, model: Transformer, token: int, distractor: int | None = None) -> Attribution:
    """Compute the direct contributions to a token's logit, or to its difference from a distractor's, with frozen
    norms.

    A contribution is the component's output times the direction u = W_U[token] - W_U[distractor], times the model's
    logit multiplier, carried back through the norms between the component and the logits, and through the numbers by
    which layers multiply the stream. A pre-norm model has one such norm. A post-norm model has one after every
    sublayer, and the bias of each is a component too, as are the biases of norms of a sublayer's output, of the
    embeddings' norm and of the output head. The contributions add up to the logit before any cap, up to the rounding
    error of float32; dot products are in float64. Raises InputError if a token is out of range.
    """
    check_token(token, model.config.vocab_size)
    _check_tokens(model.config.vocab_size, token, distractor)
    c, L = model.config, model.config.n_layer
    u = _difference(model.unembed.weight, token, distractor) * c.logit_multiplier
    head_bias = None
    if model.unembed.bias is not None:
        head_bias = float(_difference(model.unembed.bias, token, distractor)) * c.logit_multiplier
    heads = torch.empty(L, c.n_head, dtype=torch.float64)
    directions = torch.empty(L, c.d_model, dtype=torch.float64)
    names = ("mlp", "o", "mlp_bias", "norm1", "norm2", "after1", "after2", "edits", "entry")
    each = {name: torch.zeros(L, dtype=torch.float64) for name in names}
    final_bias = embed_norm_bias = None
    if model.final_norm is not None:
        final_bias = _dot(model.final_norm.bias, u)
        u = back(model.final_norm, outputs.scales["final", L], u)
    for layer in reversed(range(L)):
        block = model.blocks[layer]
        each["edits"][layer] = _dot(outputs.added.get(layer), u) or 0
        u = u if block.scale is None else u * float(block.scale)
        each["entry"][layer] = (0 if outputs.entry is None else _dot(outputs.entry[layer], u)) or 0
        if block.post_norm:
            u = _past(block.norm2, "norm2", layer, u, outputs, each)
        toward = u if block.after2 is None else _past(block.after2, "after2", layer, u, outputs, each)
        each["mlp"][layer] = outputs.mlp[layer].double() @ toward
        if layer not in outputs.whole:
            each["mlp_bias"][layer] = (_dot(block.mlp.down.bias, toward) or 0) * block.mlp.factor
        if block.post_norm:
            u = _past(block.norm1, "norm1", layer, u, outputs, each)
        toward = u if block.after1 is None else _past(block.after1, "after1", layer, u, outputs, each)
        directions[layer] = toward
        along = (toward @ output_matrix(model, layer).double()).view(c.n_head, -1)
        heads[layer] = (outputs.z[layer].double() * along).sum(1)
        each["o"][layer] = (_dot(block.attn.o.bias, toward) or 0) * block.attn.factor
    if model.embed_norm is not None:
        embed_norm_bias = _dot(model.embed_norm.bias, u)
        u = back(model.embed_norm, outputs.scales["embed_norm", -1], u)
    biased = c.norm == "layernorm" and c.norm_bias
    post, after = biased and c.norm_placement == "post", biased and model.blocks[0].after1 is not None
    return Attribution(
        outputs.position,
        token,
        distractor,
        heads.numpy(),
        each["mlp"].numpy(),
        each["o"].numpy() if c.o_bias else None,
        each["mlp_bias"].numpy() if c.mlp_bias and any(isinstance(b.mlp, MLP) for b in model.blocks) else None,
        each["norm1"].numpy() if post else None,
        each["norm2"].numpy() if post else None,
        final_bias,
        _dot(outputs.embed, u),
        _dot(outputs.pos_embed, u),
        float(outputs.logits[token]) - (0 if distractor is None else float(outputs.logits[distractor])),
        directions.numpy(),
        each["edits"].numpy() if outputs.added else None,
        each["after1"].numpy() if after else None,
        each["after2"].numpy() if after else None,
        embed_norm_bias,
        head_bias,
        None if outputs.entry is None else each["entry"].numpy(),
    )


def _difference(weight: Tensor, token: int, distractor: int | None) -> Tensor:
    """Return the token's row, less the distractor's if there is one. [V, ...] -> float64 [...]"""
    return weight[token].detach().double() - (0 if distractor is None else weight[distractor].detach().double())


def _past(norm: Norm, name: str, layer: int, u: Tensor, outputs: Components, biases: dict[str, Tensor]) -> Tensor:
    """Carry u back through a norm of a layer, and enter its bias's contribution in `biases`. [D] -> [D]"""
    biases[name][layer] = _dot(norm.bias, u) or 0
    return back(norm, outputs.scales[name, layer], u)


def _dot(vector: Tensor | None, u: Tensor) -> float | None:
    """Compute vector.u, or return None if the vector is None. [D] each"""
    return None if vector is None else float(vector.detach().double() @ u)


@public(u=array("D"))
@torch.inference_mode()
def by_source(run: Trace, layer: int, head: int, position: int, u: np.ndarray) -> np.ndarray:
    """Split a head's contribution by source token: A[position, s] (v_s W_O).u for every source token s. float64 [T]

    `u` [D] is `attribute(...).directions[layer]`. The result adds up to `attribute(...).heads[layer, head]` and is 0
    after the position, and before a sliding window. A sink has no value, so it contributes nothing. Edits of scores and
    patterns are respected. Raises InputError if the head's output is edited or the head has no attention pattern,
    because its output is then not a sum over tokens.
    """
    need_scores(run.config, layer)
    run.require_key()
    check_head(head, run.config.n_head)
    if any(EDITS[edit.kind].site == "z" and (edit.layer, edit.head) == (layer, head) for edit in run.key.edits):
        what = "The output of this head is edited, so it is not a sum over tokens."
        raise InputError(what, f"head {layer}.{head}", "Remove the edit, or choose another head.")
    if len(u) != run.config.d_model:
        raise ValueError(f"u must be a direction of the residual stream, [{run.config.d_model}], got {u.shape}")
    pattern = attend_rows(run, layer, [position])[head, 0].double()  # [T]
    own = run.config.at(layer)
    v, E = value_rows(run, layer, range(len(run.tokens)))[head // own.group_size].double(), own.d_head  # [T, E]
    columns = output_matrix(run.model, layer)[:, head * E : (head + 1) * E]  # [D, E]
    along, gates = torch.from_numpy(u) @ columns.double(), gate_rows(run, layer, [position])
    if gates is not None:  # the same for all source tokens
        along = along * gates[head, 0]
    return (pattern * (v @ along)).numpy()


@public(top=whole(1), vocab=whole(1))
@torch.inference_mode()
def promoted(
    outputs: Components, model: Transformer, layer: int, head: int | None, top: int = 10, vocab: int | None = None
) -> Promoted:
    """Find the tokens that one component promotes and suppresses most, through the frozen norms and W_U.

    The component is a head, or the layer's MLP if `head` is None. A token's value is the component's contribution to
    its logit, as in `attribute`, up to the rounding error of float32. Ids from `vocab` on have no token and are
    excluded. Raises InputError if the layer or head is out of range.
    """
    check_layer(layer, model.config.n_layer)
    if head is not None:
        check_head(head, model.config.n_head)
    if head is None:
        x = outputs.mlp[layer]
    else:
        E = model.config.z_width(layer)
        x = F.linear(outputs.z[layer][head], output_matrix(model, layer)[:, head * E : (head + 1) * E])
    for name, at, norm in on_the_way(model, layer, after_attention=head is not None):
        x = through(norm, outputs.scales[name, at], x)
    x = carried(model, layer, x)
    values = model.unembed(x)  # [V]
    values = (values if model.unembed.bias is None else values - model.unembed.bias) * model.config.logit_multiplier
    values = values[:vocab]
    high, low = values.topk(min(top, len(values))), values.topk(min(top, len(values)), largest=False)
    return Promoted(
        high.indices.numpy(), high.values.numpy(), low.indices.numpy(), low.values.numpy(), float(values.mean())
    )


def _check_tokens(vocab: int, *tokens: int | None) -> None:
    """Raise InputError for an id without a row in W_U."""
    for token in tokens:
        if token is not None:
            check_token(token, vocab)
