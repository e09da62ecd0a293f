"""Each check fails where what it checks is broken."""

import dataclasses
import math

import pytest
import torch

import model.checks.path_checks as paths
import model.checks.run_checks as check_runs
import model.generation.strategies as decoders
import model.gpt.edits as interventions
import model.predictions.attribution as attribution
import model.predictions.gradients as gradients
import model.tracing.logit_lens as lens
from model.checks.registry import CHECKS, run_checks
from model.generation import decoder
from model.gpt import passes
from model.gpt.cache import KVCache
from model.gpt.decode_step import PLAIN
from model.gpt.linear import tune
from model.gpt.mixers.attention import Attention
from model.sampling import pipeline
from model.tracing.trace import Trace
from tests.support.models.checked import made

# --- each check fails where what it checks is broken ---


def _tilted(pattern):
    """Rows that sum to a little less than 1."""
    return pattern * 0.999


def _sharper(scores):
    return (1.01 * scores).softmax(-1)


def _patch_site(monkeypatch, name, change):
    """A site of every block is recorded wrong, as if the block had computed it so."""
    whole = Trace.sites

    def sites(self, layer, names):
        found = whole(self, layer, names)
        return {**found, name: change(found[name])} if name in found else found

    monkeypatch.setattr(Trace, "sites", sites)


def _off(x):
    """One number in ten thousand is off by a hundredth of the largest."""
    x = x.clone()
    x.view(-1)[len(x.view(-1)) // 2] += 0.01 * x.abs().max() + 0.01
    return x


def _nan(x):
    x = x.clone()
    x.view(-1)[3] = math.nan
    return x


SITES = {  # check: (the site that is wrong, how)
    "rows": ("pattern", _tilted),
    "no_future": ("pattern", lambda p: p + 1e-7),
    "scores": ("scores", lambda s: s * 1.001),
    "norm_unit": ("norm1_scale", lambda s: s * 1.001),
    "softmax": ("pattern", lambda p: (p + 1e-4) / (p + 1e-4).sum(-1, keepdim=True)),
    "mixed": ("z", _off),
    "head_outputs": ("attn_out", _off),
    "sublayers": ("mlp_out", _off),
    "norm_formula": ("norm2_out", _off),
    "finite": ("mlp_post", _nan),
    "recomputed": ("resid_post", _off),
    "one_head": ("pattern", lambda p: p.flip(1)),
    "stepwise": ("pattern", lambda p: p.flip(1)),
}


@pytest.mark.parametrize("variant", ["gpt2", "llama", "post"])
@pytest.mark.parametrize("key", SITES)
def test_a_wrong_site_is_seen(tokenizer, monkeypatch, key, variant):
    subject = made(tokenizer, variant)
    name, change = SITES[key]
    _patch_site(monkeypatch, name, change)
    found = run_checks(subject, [key])[key]
    assert found.state == "differs" and found.difference > found.bound


RULES = [  # what the rules of later families add: check, variant, site, how it is wrong
    ("rows", "oss", "pattern", _tilted),
    ("scores", "gemma", "scores", lambda s: s * 1.001),
    ("scores", "bloom", "scores", lambda s: s * 1.001),
    ("softmax", "oss", "pattern", lambda p: p / p.sum(-1, keepdim=True)),
    ("head_outputs", "oss", "attn_out", _off),
    ("sublayers", "gemma", "after2_out", _off),
    ("norm_formula", "olmo", "after1_out", _off),
    ("norm_unit", "olmo", "after2_scale", lambda s: s * 1.001),
]


@pytest.mark.parametrize(("key", "variant", "site", "change"), RULES)
def test_a_wrong_site_of_later_families_is_seen(tokenizer, monkeypatch, key, variant, site, change):
    subject = made(tokenizer, variant)
    assert run_checks(subject, [key])[key].state == "agrees"
    _patch_site(monkeypatch, site, change)
    found = run_checks(subject, [key])[key]
    assert found.state == "differs" and found.difference > found.bound


def _break_stream(subject, monkeypatch):
    with torch.inference_mode():
        subject.run.residuals[0, 2, 5] += 0.05


def _break_nan(subject, monkeypatch):
    with torch.inference_mode():
        subject.run.residuals[1, 2, 5] = math.nan


def _break_weight(subject, monkeypatch):
    subject.lm.model.blocks[1].mlp.up.weight.data[0, 0] = math.inf


def _break_head(subject, monkeypatch):
    """W_U changes after the logits were made."""
    assert subject.run.logits is not None
    subject.lm.model.unembed.weight.data[7] += 0.01


def _break_any_weight(subject, monkeypatch):
    """A block computes something else than the run did."""
    assert subject.run.logits is not None
    subject.lm.model.blocks[1].mlp.down.weight.data *= 1.01


def _break_lens(subject, monkeypatch):
    whole = lens.lens_logits
    monkeypatch.setattr(lens, "lens_logits", lambda model, x, tap=None: whole(model, 1.01 * x, tap) * 1.01)


def _break_logits(subject, monkeypatch):
    """Probabilities that do not sum to 1: softmax over too few tokens."""
    whole = torch.Tensor.softmax
    monkeypatch.setattr(torch.Tensor, "softmax", lambda self, dim: whole(self, dim) * 0.999)


def _break_parts(subject, monkeypatch):
    whole = attribution.back
    monkeypatch.setattr(attribution, "back", lambda norm, scale, u: 1.01 * whole(norm, scale, u))


def _break_values(subject, monkeypatch):
    whole = attribution.value_rows
    monkeypatch.setattr(attribution, "value_rows", lambda *given: 1.01 * whole(*given))


def _break_sampler(subject, monkeypatch):
    whole = check_runs.rows_of
    monkeypatch.setattr(check_runs, "rows_of", lambda logits: whole(logits * 1.001))


def _break_seed(subject, monkeypatch):
    calls = iter(range(10_000))
    whole = decoders.uniform
    monkeypatch.setattr(decoders, "uniform", lambda seed, step, row=0: whole(seed + next(calls), step, row))


def _break_order(subject, monkeypatch):
    """The same draw twice, but the unlikeliest token first."""
    monkeypatch.setattr(decoder, "draw", lambda p, u: pipeline.draw(p, 1 - 2**-53 - u))


def _break_fused(subject, monkeypatch):
    whole = passes.fused_attention
    monkeypatch.setattr(passes, "fused_attention", lambda q, k, v: whole(1.02 * q, k, v))


def _break_explicit(subject, monkeypatch):
    monkeypatch.setattr(passes, "attention_pattern", _sharper)


def _break_mask(subject, monkeypatch):
    def seeing(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=q.shape[1] != k.shape[1])

    monkeypatch.setattr(passes, "fused_attention", seeing)


def _break_cache(subject, monkeypatch):
    whole = KVCache.put

    def put(self, layer, k, v):
        k, v = whole(self, layer, k, v)
        return (k.roll(1, 2), v) if self.length and layer == 1 else (k, v)

    monkeypatch.setattr(KVCache, "put", put)


def _break_batch(subject, monkeypatch):
    """Rows of a batch look at one another."""
    whole = Attention.forward
    monkeypatch.setattr(
        Attention,
        "forward",
        lambda self, x, layer, run: (
            0.99 * whole(self, x, layer, run) + 0.01 * whole(self, x, layer, run).mean(0, keepdim=True)
        ),
    )


def _break_edit(subject, monkeypatch):
    kind = interventions.EDITS["scale"]

    def function(z, edit, mean):
        z[:, edit.head] *= edit.factor + 0.01

    monkeypatch.setitem(interventions.EDITS, "scale", dataclasses.replace(kind, function=function))


def _break_gradient(subject, monkeypatch):
    whole = gradients._embedded
    monkeypatch.setattr(gradients, "_embedded", lambda *given: 1.01 * whole(*given))


def _break_tokens(subject, monkeypatch):
    monkeypatch.setattr(type(subject.lm.tokenizer), "decode_bytes", lambda self, ids: b"abcabd aB")


def _break_spans(subject, monkeypatch):
    subject.run.tokens.spans[4] -= 1


BROKEN = [
    ("tokens", _break_tokens),
    ("tokens", _break_spans),
    ("embedding", _break_stream),
    ("numbers", _break_nan),
    ("weights", _break_weight),
    ("lens", _break_lens),
    ("unembedding", _break_head),
    ("probabilities", _break_logits),
    ("parts", _break_parts),
    ("sources", _break_values),
    ("sampler", _break_sampler),
    ("draws", _break_seed),
    ("draws", _break_order),
    ("fused", _break_fused),
    ("fused", _break_any_weight),
    ("explicit", _break_explicit),
    ("later_tokens", _break_mask),
    ("chunked", _break_cache),
    ("cached", _break_cache),
    ("batched", _break_batch),
    ("no_edit", _break_edit),
    ("float64", _break_any_weight),
    ("gradient", _break_gradient),
    ("recomputed", _break_any_weight),
    ("sublayers", _break_stream),
    ("stepwise", _break_any_weight),
]


def _ready(model):
    model.join()
    tune(model)
    return model


@pytest.mark.parametrize("wrong", PLAIN)
def test_a_wrong_step_is_seen_in_whichever_way_it_is_taken(tokenizer, monkeypatch, wrong):
    subject = made(tokenizer, "llama", change=_ready)
    good = run_checks(subject, ["cached"])["cached"]
    assert (
        good.state == "agrees"
        and good.compared == 3 * run_checks(made(tokenizer, "llama"), ["cached"])["cached"].compared
    )
    whole = paths.taken

    def off(model, ids, cache, how):
        return whole(model, ids, cache, how) * (1.001 if how == wrong else 1)

    monkeypatch.setattr(paths, "taken", off)
    found = run_checks(subject, ["cached"])["cached"]
    assert found.state == "differs" and found.difference > found.bound


@pytest.mark.parametrize(("key", "change"), BROKEN, ids=lambda value: getattr(value, "__name__", value))
def test_what_is_broken_is_seen(tokenizer, monkeypatch, key, change):
    subject = made(tokenizer)
    assert run_checks(made(tokenizer), [key])[key].state == "agrees"
    change(subject, monkeypatch)
    found = run_checks(subject, [key])[key]
    assert found.state == "differs" and found.difference > found.bound


@pytest.mark.parametrize(("key", "name"), [("unembedding", "final_norm"), ("norm_formula", "blocks.1.norm2")])
def test_a_gain_that_should_not_be_is_seen(tokenizer, key, name):
    subject = made(tokenizer, "oss")
    assert run_checks(subject, [key])[key].state == "agrees"
    subject = made(tokenizer, "oss")
    subject.run.model.get_submodule(name).weight.mul_(1.01)
    assert run_checks(subject, [key])[key].state == "differs"


def test_every_check_was_seen_failing():
    parity = {key for key in CHECKS if key.startswith("parity")}  # tests/parity/test_parity_check.py
    assert set(SITES) | {key for key, _ in BROKEN} | parity == set(CHECKS)
