"""The logit lens, attribution and steering of a prompt set against transformers: hooks on its modules and autograd."""

import numpy as np
import pytest
import torch

from model.predictions.gradients import gradients
from model.sets.aligned import AlignedPair
from model.sets.effects import set_effects
from model.sets.steered import FACTORS
from model.sets.templates import Pair
from tests.parity.two_models import blocks
from tests.support.models.helpers import assert_close

CLEAN, CORRUPT, ANSWERS = (5, 17, 3, 44, 9), (5, 17, 31, 44, 9), (60, 2)
OTHERS = (("The cat sat", "The dog sat"), ("on the mat", "on the dog"))


def pair(clean=CLEAN, corrupt=CORRUPT, texts=("", "")) -> AlignedPair:
    return AlignedPair(Pair(*texts, "", ""), clean, corrupt, *ANSWERS)


def final_norm(hf):
    return hf.transformer.ln_f if hasattr(hf, "transformer") else hf.model.norm


def out_projection(block) -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor | float]:
    """Return the module after the heads, its weight [D, H E], and its bias."""
    if hasattr(block, "attn"):
        return block.attn.c_proj, block.attn.c_proj.weight.T, block.attn.c_proj.bias
    return block.self_attn.o_proj, block.self_attn.o_proj.weight, 0.0


def states(hf, ids) -> list[torch.Tensor]:
    """Return the stream at the last token before each layer, and after the last one, before its norm. [D] each"""
    kept = []
    hooks = [
        final_norm(hf).register_forward_pre_hook(lambda module, given: kept.append(given[0][0, -1])),
    ]
    with torch.no_grad():
        hidden = hf(torch.tensor([ids]), output_hidden_states=True, use_cache=False).hidden_states
    hooks[0].remove()
    return [*(x[0, -1] for x in hidden[:-1]), kept[-1]]


def gap(logits: torch.Tensor) -> torch.Tensor:
    return logits[..., ANSWERS[0]] - logits[..., ANSWERS[1]]


def test_the_lens_is_the_norm_and_the_head_on_hidden_states(both):
    hf, lm = both
    found = set_effects(lm, [pair()], "lens").values[0, :, 0]
    with torch.no_grad():
        expected = [float(gap(hf.lm_head(final_norm(hf)(x)))) for x in states(hf, CLEAN)]
    assert_close(found, np.array(expected), 1e-4)


def test_direct_attribution_is_the_output_of_hooks_through_the_frozen_norm(both):
    hf, lm = both
    z, mlps, hooks = [], [], []
    for block in blocks(hf):
        module, _, _ = out_projection(block)
        hooks.append(module.register_forward_pre_hook(lambda module, given: z.append(given[0][0, -1])))
        hooks.append(block.mlp.register_forward_hook(lambda module, given, out: mlps.append(out[0, -1])))
    end = states(hf, CLEAN)[-1]
    for hook in hooks:
        hook.remove()
    norm, u = final_norm(hf), hf.lm_head.weight[ANSWERS[0]] - hf.lm_head.weight[ANSWERS[1]]
    centered = isinstance(norm, torch.nn.LayerNorm)
    scale = (
        (end.var(unbiased=False) + norm.eps).sqrt() if centered else (end**2).mean().add(norm.variance_epsilon).sqrt()
    )

    def through(x: torch.Tensor) -> float:
        return float((x - x.mean() if centered else x) / scale * norm.weight @ u)

    with torch.no_grad():
        heads, layers = [], []
        for at, block in enumerate(blocks(hf)):
            _, weight, bias = out_projection(block)
            parts = z[at].view(4, -1), weight.view(len(end), 4, -1)
            heads.append([through(parts[1][:, h] @ parts[0][h]) for h in range(4)])
            layers.append([through(weight @ z[at] + bias), through(mlps[at])])
    assert_close(set_effects(lm, [pair()], "direct_heads").values[0], np.array(heads), 1e-4)
    assert_close(set_effects(lm, [pair()], "direct_layers").values[0], np.array(layers), 1e-4)


def test_integrated_gradients_are_those_of_autograd_along_a_fine_path(both):
    hf, lm = both
    found = gradients(lm.trace(CLEAN), -1, *ANSWERS, 512)  # the set's function, with more steps for random weights
    embed = hf.get_input_embeddings()
    x = embed(torch.tensor([CLEAN])).detach()
    base = embed.weight.detach().mean(0).expand_as(x)
    shares = (torch.arange(400) + 0.5) / 400
    along = (base + shares[:, None, None] * (x - base)).requires_grad_()
    gap(hf(inputs_embeds=along).logits[:, -1]).sum().backward()
    expected = ((x[0] - base[0]) * along.grad.mean(0)).sum(-1).numpy()
    assert_close(found.integrated, expected, 0.02 * np.abs(expected).max())


def test_steering_is_a_hook_that_adds_the_mean_difference_at_the_last_token(both):
    hf, lm = both
    kept = [pair(*(tuple(lm.encode(text).ids.tolist()) for text in texts), texts) for texts in OTHERS]
    found = set_effects(lm, [pair()], "steer", calibration=kept).values[0]
    differences = [
        [a - b for a, b in zip(states(hf, each.clean), states(hf, each.corrupt), strict=True)] for each in kept
    ]
    vectors = [torch.stack(rows).mean(0) for rows in zip(*differences, strict=True)][1:]
    with torch.no_grad():
        before = gap(hf(torch.tensor([CORRUPT])).logits[0, -1])
    for layer, block in enumerate(blocks(hf)):
        for n, factor in enumerate(FACTORS):

            def after(module, given, out, delta=factor * vectors[layer]):
                x = (out[0] if isinstance(out, tuple) else out).clone()
                x[:, -1] += delta
                return (x, *out[1:]) if isinstance(out, tuple) else x

            hook = block.register_forward_hook(after)
            with torch.no_grad():
                change = gap(hf(torch.tensor([CORRUPT]), use_cache=False).logits[0, -1]) - before
            hook.remove()
            assert found[layer, n] == pytest.approx(float(change), abs=1e-3)
    assert np.abs(found).max() > 0.1
