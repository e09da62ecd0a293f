"""The checks agree for every way to wire a block, and each of them fails where what it checks is broken."""

import dataclasses
import math

import pytest
import torch

import model.checks.run_checks as check_runs
import model.generation.strategies as decoders
import model.gpt.edits as interventions
import model.gpt.logit_lens as lens
import model.gpt.transformer as transformer
import model.predictions.attribution as attribution
import model.predictions.gradients as gradients
from model.api import LanguageModel
from model.checks.registry import CHECKS, GROUPS, QUICK_TOGETHER, pass_seconds, quick, run_checks, seconds_of, summary
from model.checks.result import REASONS, RULES, UNITS, Subject, subject_of
from model.gpt.cache import KVCache
from model.gpt.edits import Edit
from model.gpt.trace import Trace
from model.sampling import pipeline
from tests.support.helpers import VARIANTS, byte_tokenizer, tiny_model

PROMPT = "abcabd ab"
OURS = [key for key in CHECKS if not key.startswith("parity")]
EDITS = (
    Edit("zero", 1, 2),
    Edit("uniform", 0, 1),
    Edit("mean", 2, 3),
    Edit("block_edge", query=3, key=1),
    Edit("scale", 0, 0, factor=2.0),
    Edit("previous_token", 2, 0),
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return byte_tokenizer(tmp_path_factory.mktemp("bytes"))


def made(tokenizer, variant="gpt2", prompt=PROMPT, edits=()) -> Subject:
    """A new model each time: some tests break it."""
    model = tiny_model({**VARIANTS[variant], "vocab_size": 256, "n_ctx": 300})
    lm = LanguageModel("tiny", "Tiny", model, tokenizer)
    run = lm.trace(prompt)
    return subject_of(lm, run.edit(*edits) if edits else run, prompt)


def not_agreed(found):
    return {key: each for key, each in found.items() if each.state != "agrees"}


@pytest.mark.parametrize("variant", VARIANTS)
def test_all_agree_for_every_wiring(tokenizer, variant):
    found = run_checks(made(tokenizer, variant), OURS)
    assert list(found) == OURS and not not_agreed(found)
    assert all(each.compared > 0 and each.difference <= each.bound for each in found.values())
    assert all(each.unit in UNITS and each.rule in RULES and each.seconds > 0 for each in found.values())


@pytest.mark.parametrize("variant", VARIANTS)
def test_all_agree_on_an_edited_run(tokenizer, variant):
    assert not not_agreed(run_checks(made(tokenizer, variant, edits=EDITS), OURS))


@pytest.mark.parametrize("variant", ["gpt2", "llama", "post"])
def test_one_token_and_a_long_prompt(tokenizer, variant):
    found = run_checks(made(tokenizer, variant, "a"), OURS)
    assert {key: each.reason for key, each in not_agreed(found).items()} == dict.fromkeys(
        ("later_tokens", "chunked", "cached"), "one_token"
    )
    assert not not_agreed(run_checks(made(tokenizer, variant, "ab c" * 75), OURS))


def test_bounds_are_not_slack(tokenizer):
    """A thousandth of the numbers' size is beyond every bound that is about rounding."""
    for variant in ("gpt2", "llama", "post"):
        for key, each in run_checks(made(tokenizer, variant), OURS).items():
            assert each.bound <= 1e-3 * each.scale, key


def test_groups_name_every_check_once():
    assert [key for keys in GROUPS.values() for key in keys] == list(CHECKS)
    assert all((check.look is None) != (check.at is None) for check in CHECKS.values())
    assert {check.kind for check in CHECKS.values()} == {"measured", "derived", "simulated"}


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
    whole = attribution._back
    monkeypatch.setattr(attribution, "_back", lambda norm, scale, u: 1.01 * whole(norm, scale, u))


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
    monkeypatch.setattr(decoders, "draw", lambda p, u: pipeline.draw(p, 1 - 2**-53 - u))


def _break_fused(subject, monkeypatch):
    whole = transformer.fused_attention
    monkeypatch.setattr(transformer, "fused_attention", lambda q, k, v: whole(1.02 * q, k, v))


def _break_explicit(subject, monkeypatch):
    monkeypatch.setattr(transformer, "attention_pattern", _sharper)


def _break_mask(subject, monkeypatch):
    def seeing(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=q.shape[1] != k.shape[1])

    monkeypatch.setattr(transformer, "fused_attention", seeing)


def _break_cache(subject, monkeypatch):
    whole = KVCache.put

    def put(self, layer, k, v):
        k, v = whole(self, layer, k, v)
        return (k.roll(1, 2), v) if self.length and layer == 1 else (k, v)

    monkeypatch.setattr(KVCache, "put", put)


def _break_batch(subject, monkeypatch):
    """Rows of a batch look at one another."""
    whole = transformer.Attention.forward
    monkeypatch.setattr(
        transformer.Attention,
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
    monkeypatch.setattr(gradients, "_embedded", lambda run, at: 1.01 * whole(run, at))


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


@pytest.mark.parametrize(("key", "change"), BROKEN, ids=lambda value: getattr(value, "__name__", value))
def test_what_is_broken_is_seen(tokenizer, monkeypatch, key, change):
    subject = made(tokenizer)
    assert run_checks(made(tokenizer), [key])[key].state == "agrees"
    change(subject, monkeypatch)
    found = run_checks(subject, [key])[key]
    assert found.state == "differs" and found.difference > found.bound


def test_every_check_was_seen_failing():
    parity = {key for key in CHECKS if key.startswith("parity")}  # tests/parity/test_parity_check.py
    assert set(SITES) | {key for key, _ in BROKEN} | parity == set(CHECKS)


# --- what cannot be checked, and what goes wrong while checking ---


@pytest.mark.parametrize("key", ["fused", "rows", "lens", "tokens"])
def test_a_check_that_cannot_run_says_so_and_agrees_with_nothing(tokenizer, monkeypatch, caplog, key):
    def fail(*_):
        raise RuntimeError("no such thing")

    subject, check = made(tokenizer), CHECKS[key]
    monkeypatch.setitem(CHECKS, key, dataclasses.replace(check, **{"look" if check.look else "at": fail}))
    found = run_checks(subject, [key, "softmax"])
    assert (found[key].state, found[key].reason, found[key].got) == ("broken", "RuntimeError", "no such thing")
    assert found["softmax"].state == "agrees"  # the others go on
    assert "no such thing" in caplog.text
    assert summary(found) == {"agrees": 1, "differs": 0, "unable": 0, "broken": 1}


def test_blocks_that_cannot_be_recomputed_break_all_their_checks(tokenizer, monkeypatch):
    subject = made(tokenizer)
    monkeypatch.setattr(Trace, "sites", lambda *_: 1 / 0)
    found = run_checks(subject, ["rows", "softmax", "tokens"])
    assert [each.state for each in found.values()] == ["agrees", "broken", "broken"]
    assert found["rows"].reason == "ZeroDivisionError"


@pytest.mark.parametrize("at", [0, 1, 3, 6, 12])
def test_a_cancel_ends_the_work_and_is_no_finding(tokenizer, at):
    class Stopped(Exception):
        pass

    seen = []

    def progress(done, total, what):
        seen.append((done, total))
        if len(seen) > at:
            raise Stopped

    with pytest.raises(Stopped):
        run_checks(made(tokenizer), OURS, progress)
    assert len(seen) == at + 1


def test_progress_only_grows_and_ends_near_its_total(tokenizer):
    seen = []
    run_checks(made(tokenizer), OURS, lambda *told: seen.append(told))
    done = [each[0] for each in seen]
    assert done == sorted(done) and 0.95 < done[-1] / seen[0][1] <= 1 and len({each[1] for each in seen}) == 1


def test_unknown_checks_are_refused_and_without_a_text_there_is_nothing_to_spell(tokenizer):
    with pytest.raises(ValueError, match="unknown checks"):
        run_checks(made(tokenizer), ["rows", "nothing"])
    subject = dataclasses.replace(made(tokenizer), prompt=None)
    assert run_checks(subject, ["tokens"])["tokens"].reason == "no_prompt"


def test_a_run_with_a_tap_of_its_own_is_refused(tokenizer):
    from model.gpt.trace import run

    plain = made(tokenizer)
    tapped = run(plain.lm.model, plain.run.tokens, tap=lambda site, layer, x: x)
    with pytest.raises(ValueError, match="run with a tap"):
        subject_of(plain.lm, tapped)


def test_all_edited_is_not_agreement(tokenizer):
    """Where edits replace every pattern there is no softmax to compare, which is said instead of a tick."""
    edits = [Edit("uniform", layer, head) for layer in range(3) for head in range(4)]
    found = run_checks(made(tokenizer, edits=edits), ["softmax", "rows"])
    assert (found["softmax"].state, found["softmax"].reason) == ("unable", "all_edited")
    assert found["rows"].state == "agrees"


def test_too_large_a_copy_is_refused(tokenizer, monkeypatch):
    monkeypatch.setattr(check_runs, "MOST_BYTES", 1000)
    found = run_checks(made(tokenizer), ["float64", "gradient"])
    assert {each.reason for each in found.values()} == {"too_large"} <= set(REASONS)


def test_the_subject_is_left_as_it_was(tokenizer):
    subject = made(tokenizer, edits=EDITS[:2])
    before = {name: tensor.clone() for name, tensor in subject.lm.model.state_dict().items()}
    residuals, random = subject.run.residuals.clone(), torch.random.get_rng_state()
    run_checks(subject, OURS)
    assert all(torch.equal(before[name], tensor) for name, tensor in subject.lm.model.state_dict().items())
    assert torch.equal(residuals, subject.run.residuals) and torch.equal(random, torch.random.get_rng_state())
    assert not any(parameter.grad is not None for parameter in subject.lm.model.parameters())


def test_the_same_seed_gives_the_same_findings(tokenizer):
    keys = [key for key in OURS if CHECKS[key].random]
    first, second = (run_checks(made(tokenizer), keys) for _ in range(2))
    assert {key: each.difference for key, each in first.items()} == {key: second[key].difference for key in keys}


# --- what is quick ---


def test_quick_checks_fit_their_budget(tokenizer):
    subject = made(tokenizer)
    assert set(OURS) - set(quick(subject)) <= {"cached", "float64", "gradient"}
    assert not [key for key in quick(subject) if key.startswith("parity")]
    long = dataclasses.replace(subject, run=subject.lm.trace("ab c" * 75))
    assert pass_seconds(subject) < pass_seconds(long) < seconds_of(long)


def test_a_large_model_waits(tokenizer, monkeypatch):
    """With passes of half a second no whole pass is made at once, nor all blocks walked."""
    subject = made(tokenizer)
    monkeypatch.setattr("model.checks.registry.pass_seconds", lambda subject, most=None: 0.1 if most else 0.5)
    found = quick(subject)
    assert {"tokens", "lens", "sampler"} <= set(found) and not {"fused", "rows"} & set(found)
    assert sum((0.1 if CHECKS[key].short else 0.5) * CHECKS[key].passes for key in found) <= QUICK_TOGETHER
