"""Checks of each block: its activations, recomputed from its input stream, are compared with their definitions.

Sums are taken in float64, so that the measured rounding is the model's and not the check's.
"""

import math

import torch
from torch import Tensor

from model.attention.measures import output_weights
from model.checks.result import Sites, Subject, Worst, gain
from model.checks.roundoff import summed
from model.gpt.edits import sites_edited
from model.gpt.layers import future
from model.gpt.mixers.scoring import hidden_by_window
from model.gpt.norm import Norm

_STREAM = ("resid_mid", "resid_post")  # sites at which edits change the stream itself


def _shared(x: Tensor, subject: Subject, layer: int) -> Tensor:
    """Repeat each group's KV tensor for its query heads. [G, S, E] -> [H, S, E]"""
    return x.repeat_interleave(subject.run.config.at(layer).group_size, 0)


def _unseen(subject: Subject, layer: int, T: int) -> Tensor:
    """Return a mask of the keys hidden from each query: outside the layer's window, and, unless the model reads both
    ways, in the future. [T, T] bool
    """
    window = subject.run.model.blocks[layer].attn.window
    if subject.run.config.two_way:  # half of the window lies on each side
        away = (torch.arange(T)[:, None] - torch.arange(T)).abs()
        return torch.zeros(T, T, dtype=torch.bool) if window is None else away > window // 2
    return future(T, T) if window is None else future(T, T) | hidden_by_window(T, T, window)


def rows(subject: Subject, layer: int, at: Sites, worst: Worst) -> None:
    """Check that every row of every pattern sums to 1, or, with a sink, to 1 less the sink's weight unless the pattern
    is edited.
    """
    if "pattern" in at:
        total = at["pattern"].double().sum(-1)  # [H, T]
        expected, sinks = torch.ones_like(total), subject.run.model.blocks[layer].attn.scoring.sinks
        if sinks is not None:
            heads = subject.untouched("pattern", layer)
            expected[heads] -= _with_sink(at["scores"][heads], sinks[heads])[1]
        worst.values(total, expected, layer=layer)


def _with_sink(scores: Tensor, sinks: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the softmax over the keys and a sink in float64: the keys' weights and the sink's. [H, T, S], [H] -> [H,
    T, S], [H, T]
    """
    scores, sinks = scores.double(), sinks.detach().double()[:, None, None].expand(*scores.shape[:2], 1)
    every = torch.cat((scores, sinks), -1)
    raised = (every - every.amax(-1, keepdim=True)).exp()
    weights = raised / raised.sum(-1, keepdim=True)
    return weights[..., :-1], weights[..., -1]


def no_future(subject: Subject, layer: int, at: Sites, worst: Worst) -> None:
    """Check that every weight on a later token is 0."""
    if "pattern" in at:
        T = at["pattern"].shape[-1]
        later = at["pattern"].masked_fill(~future(T, T), 0)
        worst.rows(later, torch.zeros_like(later), layer=layer)


def scores(subject: Subject, layer: int, at: Sites, worst: Worst) -> None:
    """Check scores against q.k / sqrt(d_head), with the layer's cap and ALiBi, for every visible key; scores blocked by
    an edit are skipped.
    """
    if "scores" not in at:
        return
    names = ("q_rot", "k_rot") if "q_rot" in at else ("q", "k")
    q, k = at[names[0]].double(), _shared(at[names[1]], subject, layer).double()
    T, E = q.shape[1:]
    actual, unseen = at["scores"], _unseen(subject, layer, T)
    hidden = unseen | (actual.isneginf() if subject.edited("scores") else torch.zeros(T, T, dtype=torch.bool))
    expected, scoring = q @ k.mT / math.sqrt(E), subject.run.model.blocks[layer].attn.scoring
    # A dot product of large terms may be near 0; its rounding error is relative to |q| |k|.
    size = (q.norm(dim=-1) * k.norm(dim=-1).amax(-1, keepdim=True)) / math.sqrt(E)
    if scoring.cap is not None:
        expected = scoring.cap * torch.tanh(expected / scoring.cap)
    if scoring.slopes is not None:
        at_query, slope = torch.arange(T), scoring.slopes.double()[:, None]
        if scoring.root is None:
            expected = expected - slope[..., None] * (at_query[:, None] - at_query).abs()
        else:
            fall = (scoring.slopes.bfloat16()[:, None] * at_query).double() / scoring.root
            expected = expected - fall[..., None] + fall[:, None]
        size = size + slope * at_query
    worst.rows(actual.masked_fill(hidden, 0), expected.masked_fill(hidden, 0), size, layer)


def softmax(subject: Subject, layer: int, at: Sites, worst: Worst) -> None:
    """Check patterns against exp(score) / sum of exp(scores), a sink's included, in every head whose pattern is not
    edited.
    """
    if "pattern" in at:
        heads, sinks = subject.untouched("pattern", layer), subject.run.model.blocks[layer].attn.scoring.sinks
        none = torch.full((len(heads),), -math.inf)
        expected = _with_sink(at["scores"][heads], none if sinks is None else sinks[heads])[0]
        # exp turns the absolute rounding error of a score into a relative error of the weight.
        finite = at["scores"][heads].double().masked_fill(at["scores"][heads].isneginf(), 0)
        worst.rows(at["pattern"][heads], expected, expected.amax(-1) * (1 + finite.abs().amax(-1)), layer, heads)


def mixed(subject: Subject, layer: int, at: Sites, worst: Worst) -> None:
    """Check z, before a gate, against the sum of the values weighted by the pattern, in every head whose output is not
    edited.
    """
    if "z" in at and "pattern" in at:
        heads = subject.untouched("z", layer)
        pattern, v = at["pattern"][heads].double(), _shared(at["v"], subject, layer)[heads].double()
        worst.rows(
            at["mixed" if "mixed" in at else "z"][heads], pattern @ v, (pattern.abs() @ v.abs()).amax(-1), layer, heads
        )


def head_outputs(subject: Subject, layer: int, at: Sites, worst: Worst) -> None:
    """Check that the heads' outputs, multiplied by W_O, and the output bias sum to the output of attention."""
    if "attn_out" in at:
        weight, attn = output_weights(subject.run, layer).double(), subject.run.model.blocks[layer].attn
        each = at["z"].double() @ weight  # [H, T, D]
        total = each.sum(0) if attn.o.bias is None else each.sum(0) + attn.o.bias.detach().double() * attn.factor
        total = total + at["ssm_out"].double() if "ssm_out" in at else total
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

    The first stream plus the outputs of all sublayers, or of the norms after these, is the last stream. Post-norm: the
    stream plus the output of each sublayer is the input of the norm after it.
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
    added = ("attn_out", "mlp_out") if "after1_out" not in at else ("after1_out", "after2_out")
    for name in (*added, "entry_out") if "entry_out" in at else added:
        worst.carry[0] += at[name].double()
        worst.carry[1] += at[name].double().abs()
        worst.carry[2] += subject.block_bound(name, layer)[:, None]
    if (scale := run.model.blocks[layer].scale) is not None:
        worst.carry *= torch.stack((scale.detach(), scale.detach().abs(), scale.detach().abs()))[:, None].double()
    if not sites_edited(run.key.edits, layer).isdisjoint(_STREAM):  # an edit of the stream belongs to no sublayer
        after = run.residuals[layer + 1].double()
        worst.carry = torch.stack((after, after.abs(), torch.zeros_like(after)))
    if layer == run.config.n_layer - 1:
        size = worst.carry[1].amax(-1)
        allowed = worst.carry[2, :, 0] + summed((4 if run.config.layer_scale else 2) * run.config.n_layer + 1) * size
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
        if norm.kind == "layernorm" and gain(norm).abs().min() > 0:
            bias = 0 if norm.bias is None else norm.bias.detach().double()
            out = (at[f"{name}_out"].double() - bias) / gain(norm)
            ratio = at[f"{name}_out"].double().abs().amax(-1) / gain(norm).abs().min()
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
        y = x / scale * gain(norm)
        y = y if norm.bias is None else y + norm.bias.detach().double()
        large = (1 + at[f"{name}_in"].double().abs().amax(-1) / scale[:, 0]) * gain(norm).abs().max()
        worst.rows(at[f"{name}_out"], y, torch.maximum(y.abs().amax(-1), large), layer)


def _norms(subject: Subject, layer: int) -> list[tuple[Norm, str]]:
    """Return the norms of a block with their site names; for the index after the last block, the final norm."""
    model = subject.run.model
    if layer < len(model.blocks):
        names = ("norm1", "after1", "norm2", "after2")
        norms = [(getattr(model.blocks[layer], name), name) for name in names]
        return [(norm, name) for norm, name in norms if norm is not None]
    return [(model.final_norm, "final")]


def finite(subject: Subject, layer: int, at: Sites, worst: Worst) -> None:
    """Check that no value is NaN or infinite, except for the scores of hidden keys."""
    for name, x in at.items():
        if name == "scores":
            unseen = _unseen(subject, layer, x.shape[-1])
            x = x.masked_fill(unseen | x.isneginf() if subject.edited("scores") else unseen, 0)
        wrong = (~x.isfinite()).flatten(0, -2).sum(-1) if x.ndim == 2 else (~x.isfinite()).sum(-1)
        worst.values(wrong, torch.zeros_like(wrong), layer=layer)
