"""Checks of each block: its activations, recomputed from its input stream, are compared with their definitions.

Sums are taken in float64, so that the measured rounding is the model's and not the check's.
"""

import math

import torch
from torch import Tensor

from model.attention.measures import output_weights
from model.checks.result import Sites, Subject, Worst
from model.checks.roundoff import summed
from model.gpt.edits import sites_edited
from model.gpt.layers import future
from model.gpt.mixers.window import outside
from model.gpt.norm import Norm


def _shared(x: Tensor, subject: Subject) -> Tensor:
    """Repeat each group's KV tensor for its query heads. [G, S, E] -> [H, S, E]"""
    return x.repeat_interleave(subject.run.config.group_size, 0)


def _unseen(subject: Subject, layer: int, T: int) -> Tensor:
    """Return a mask of the keys hidden from each query: in the future, or outside the layer's window. [T, T] bool"""
    window = subject.run.model.blocks[layer].attn.window
    return future(T, T) if window is None else future(T, T) | outside(T, T, window)


def rows(subject: Subject, layer: int, at: Sites, worst: Worst) -> None:
    """Check that every row of every pattern sums to 1."""
    if "pattern" in at:
        total = at["pattern"].double().sum(-1)  # [H, T]
        worst.values(total, torch.ones_like(total), layer=layer)


def no_future(subject: Subject, layer: int, at: Sites, worst: Worst) -> None:
    """Check that every weight on a later token is 0."""
    if "pattern" in at:
        T = at["pattern"].shape[-1]
        later = at["pattern"].masked_fill(~future(T, T), 0)
        worst.rows(later, torch.zeros_like(later), layer=layer)


def scores(subject: Subject, layer: int, at: Sites, worst: Worst) -> None:
    """Check scores against q.k / sqrt(d_head) for every visible key; scores blocked by an edit are skipped."""
    if "scores" not in at:
        return
    names = ("q_rot", "k_rot") if "q_rot" in at else ("q", "k")
    q, k = at[names[0]].double(), _shared(at[names[1]], subject).double()
    T, E = q.shape[1:]
    actual, unseen = at["scores"], _unseen(subject, layer, T)
    hidden = unseen | (actual.isneginf() if subject.edited("scores") else torch.zeros(T, T, dtype=torch.bool))
    expected = (q @ k.mT / math.sqrt(E)).masked_fill_(hidden, 0)
    # A dot product of large terms may be near 0; its rounding error is relative to |q| |k|.
    size = (q.norm(dim=-1) * k.norm(dim=-1).amax(-1, keepdim=True)) / math.sqrt(E)
    worst.rows(actual.masked_fill(hidden, 0), expected, size, layer)


def softmax(subject: Subject, layer: int, at: Sites, worst: Worst) -> None:
    """Check patterns against exp(score) / sum of exp(scores), in every head whose pattern is not edited."""
    if "pattern" in at:
        heads = subject.untouched("pattern", layer)
        raised = (at["scores"][heads].double() - at["scores"][heads].double().amax(-1, keepdim=True)).exp()
        expected = raised / raised.sum(-1, keepdim=True)
        # exp turns the absolute rounding error of a score into a relative error of the weight.
        finite = at["scores"][heads].double().masked_fill(at["scores"][heads].isneginf(), 0)
        worst.rows(at["pattern"][heads], expected, expected.amax(-1) * (1 + finite.abs().amax(-1)), layer, heads)


def mixed(subject: Subject, layer: int, at: Sites, worst: Worst) -> None:
    """Check z against the sum of the values weighted by the pattern, in every head whose output is not edited."""
    if "z" in at and "pattern" in at:
        heads = subject.untouched("z", layer)
        pattern, v = at["pattern"][heads].double(), _shared(at["v"], subject)[heads].double()
        worst.rows(at["z"][heads], pattern @ v, (pattern.abs() @ v.abs()).amax(-1), layer, heads)


def head_outputs(subject: Subject, layer: int, at: Sites, worst: Worst) -> None:
    """Check that the heads' outputs, multiplied by W_O, and the output bias sum to the output of attention."""
    if "attn_out" in at:
        weight, bias = output_weights(subject.run, layer).double(), subject.run.model.blocks[layer].attn.o.bias
        each = at["z"].double() @ weight  # [H, T, D]
        total = each.sum(0) if bias is None else each.sum(0) + bias.detach().double()
        worst.rows(at["attn_out"], total, (at["z"].double().abs() @ weight.abs()).sum(0).amax(-1), layer)


def one_head(subject: Subject, layer: int, at: Sites, worst: Worst) -> None:
    """Check that the pattern computed from one head's weights alone equals that head's pattern from the full block."""
    if "pattern" in at:
        for head in range(subject.run.config.n_head):
            shown = torch.from_numpy(subject.run.pattern(layer, head))[None]
            expected = at["pattern"][head][None]
            allowed = subject.block_bound("pattern", layer)[head][None]
            worst.rows(shown, expected, None, layer, torch.tensor([head]), allowed)


def sublayers(subject: Subject, layer: int, at: Sites, worst: Worst) -> None:
    """Check the residual additions.

    Pre-norm: the first stream plus the outputs of all sublayers is the last stream. Post-norm: the stream plus the
    output of each sublayer is the input of the norm after it.
    """
    run = subject.run
    if "attn_out" not in at:
        return
    if run.config.norm_placement == "post":
        for x, added, read in (("resid_pre", "attn_out", "norm1_in"), ("resid_mid", "mlp_out", "norm2_in")):
            total, size = at[x].double() + at[added].double(), (at[x].abs() + at[added].abs()).amax(-1)
            worst.rows(at[read], total, size, layer, allowed=summed(2) * size)
        return
    if worst.carry is None:  # the running sum, its absolute sum, and the bound on its difference from the run
        first = run.residuals[0].double()
        worst.carry = torch.stack((first, first.abs(), torch.zeros_like(first)))
    for name in ("attn_out", "mlp_out"):
        worst.carry[0] += at[name].double()
        worst.carry[1] += at[name].double().abs()
        worst.carry[2] += subject.block_bound(name, layer)[:, None]
    if "resid_post" in sites_edited(run.key.edits, layer):  # an edit of the stream belongs to no sublayer
        after = run.residuals[layer + 1].double()
        worst.carry = torch.stack((after, after.abs(), torch.zeros_like(after)))
    if layer == run.config.n_layer - 1:
        size = worst.carry[1].amax(-1)
        allowed = worst.carry[2, :, 0] + summed(2 * run.config.n_layer + 1) * size
        worst.rows(run.residuals[-1], worst.carry[0], size, allowed=allowed)


def recomputed(subject: Subject, layer: int, at: Sites, worst: Worst) -> None:
    """Check that the output of each recomputed block equals the stored input stream of the next block."""
    if "resid_post" in at:
        allowed = subject.block_bound("resid_post", layer)
        worst.rows(at["resid_post"], subject.run.residuals[layer + 1], None, layer, allowed=allowed)


def norm_unit(subject: Subject, layer: int, at: Sites, worst: Worst) -> None:
    """Check that each normalized vector has mean square 1, epsilon included, and for LayerNorm mean 0."""
    for norm, name in _norms(subject, layer):
        x, scale = at[f"{name}_in"].double(), at[f"{name}_scale"].double()
        x = x - x.mean(-1, keepdim=True) if norm.kind == "layernorm" else x
        square = (x / scale).square().mean(-1) + norm.eps / scale[:, 0].square()
        worst.values(square, torch.ones_like(square), layer=layer)
        if norm.kind == "layernorm" and norm.weight.detach().abs().min() > 0:
            bias = 0 if norm.bias is None else norm.bias.detach().double()
            out = (at[f"{name}_out"].double() - bias) / norm.weight.detach().double()
            ratio = at[f"{name}_out"].double().abs().amax(-1) / norm.weight.detach().double().abs().min()
            mean = out.mean(-1)
            large = 1 + at[f"{name}_in"].double().abs().amax(-1) / scale[:, 0]  # subtracting a large mean loses digits
            worst.values(mean, torch.zeros_like(mean), large + ratio, layer)


def norm_formula(subject: Subject, layer: int, at: Sites, worst: Worst) -> None:
    """Check the output of each norm against its formula, computed in float64.

    LayerNorm: gain (x - mean) / sqrt(variance + eps) + bias. RMSNorm: gain x / sqrt(mean square + eps).
    """
    for norm, name in _norms(subject, layer):
        x = at[f"{name}_in"].double()
        x = x - x.mean(-1, keepdim=True) if norm.kind == "layernorm" else x
        scale = (x.square().mean(-1, keepdim=True) + norm.eps).sqrt()
        y = x / scale * norm.weight.detach().double()
        y = y if norm.bias is None else y + norm.bias.detach().double()
        large = (1 + at[f"{name}_in"].double().abs().amax(-1) / scale[:, 0]) * norm.weight.detach().double().abs().max()
        worst.rows(at[f"{name}_out"], y, torch.maximum(y.abs().amax(-1), large), layer)


def _norms(subject: Subject, layer: int) -> list[tuple[Norm, str]]:
    """Return the norms of a block with their site names; for the index after the last block, the final norm."""
    model = subject.run.model
    if layer < len(model.blocks):
        return [(model.blocks[layer].norm1, "norm1"), (model.blocks[layer].norm2, "norm2")]
    return [(model.final_norm, "final")]


def finite(subject: Subject, layer: int, at: Sites, worst: Worst) -> None:
    """Check that no value is NaN or infinite, except for the scores of hidden keys."""
    for name, x in at.items():
        if name == "scores":
            unseen = _unseen(subject, layer, x.shape[-1])
            x = x.masked_fill(unseen | x.isneginf() if subject.edited("scores") else unseen, 0)
        wrong = (~x.isfinite()).flatten(0, -2).sum(-1) if x.ndim == 2 else (~x.isfinite()).sum(-1)
        worst.values(wrong, torch.zeros_like(wrong), layer=layer)
