"""The checks agree for every way to wire a block, and each of them fails where what it checks is broken."""

import dataclasses

import pytest
import torch

import model.checks.path_checks as paths
from model.api import LanguageModel
from model.checks.registry import CHECKS, GROUPS, QUICK_TOGETHER, pass_seconds, quick, run_checks, seconds_of, summary
from model.checks.result import REASONS, RULES, UNITS, subject_of
from model.gpt.edits import Edit
from model.tracing.trace import Trace
from tests.support.models.checked import EDITS, OURS, PROMPT, made, not_agreed
from tests.support.models.helpers import ALL_VARIANTS, OWN_LAYERS, tiny_model
from tests.support.models.mixtures import MIXTURES


def tiny_subject(tokenizer, changes):
    lm = LanguageModel("tiny", "Tiny", tiny_model({**changes, "vocab_size": 256, "n_ctx": 300}), tokenizer)
    return subject_of(lm, lm.trace(PROMPT), PROMPT)


@pytest.mark.parametrize("variant", [*ALL_VARIANTS, *MIXTURES])
def test_all_agree_for_every_wiring(tokenizer, variant):
    found = run_checks(made(tokenizer, variant), OURS)
    assert list(found) == OURS and not not_agreed(found)
    assert all(each.compared > 0 and each.difference <= each.bound for each in found.values())
    assert all(each.unit in UNITS and each.rule in RULES and each.seconds > 0 for each in found.values())


@pytest.mark.parametrize("name", OWN_LAYERS)
def test_all_but_the_gradient_agree_for_layers_that_differ_in_size(tokenizer, name):
    found = run_checks(tiny_subject(tokenizer, OWN_LAYERS[name]), OURS)
    assert {key: each.reason for key, each in not_agreed(found).items()} == {"gradient": "own_layers"}
    assert all(found[key].compared > 0 for key in ("parts", "sources"))


def test_scores_with_rounded_positions_agree(tokenizer):
    rounded = {"positions": "alibi", "alibi_rounded": True, "n_head": 16, "n_kv_head": 16, "d_head": 4}
    assert not not_agreed(run_checks(tiny_subject(tokenizer, rounded), ["scores", "cached"]))


@pytest.mark.parametrize("variant", ALL_VARIANTS)
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


@pytest.mark.parametrize("window", [None, 4, 5])
def test_scores_of_later_tokens_are_checked_in_encoders(tokenizer, window):
    changes = {"two_way": True, "mixer": ("softmax", "sliding_window", "softmax"), "window": window}
    subject = tiny_subject(tokenizer, changes if window else {"two_way": True})
    found = run_checks(subject, ("rows", "scores", "softmax", "finite"))
    assert not not_agreed(found)
    T = len(subject.run.tokens.ids)
    assert window or found["scores"].compared == subject.run.config.n_layer * subject.run.config.n_head * T * T


def test_sums_of_heads_are_not_defined_beside_a_mamba(tokenizer):
    changes = {"ssm_beside": True, "ssm_heads": 2, "d_ssm_head": 4, "d_state": 4}
    found = run_checks(tiny_subject(tokenizer, changes), ("parts", "sources"))
    assert {each.reason for each in found.values()} == {"beside"}


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
    from model.tracing.trace import run

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


@pytest.mark.parametrize("seed", [0, 4])
def test_the_bound_of_a_gradient_does_not_rest_on_few_draws(tokenizer, seed):
    """With 4 draws of rounding, these right gradients exceeded it."""
    shape = ALL_VARIANTS["gptj"] | {"qk_norm_kind": "layernorm_bias", "vocab_size": 256, "n_ctx": 300}
    found = run_checks(made(tokenizer, edits=EDITS, change=lambda _: tiny_model(shape, seed)), ["gradient"])
    assert found["gradient"].state == "agrees" and found["gradient"].difference > 0


def test_too_large_a_copy_is_refused(tokenizer, monkeypatch):
    monkeypatch.setattr(paths, "MOST_BYTES", 1000)
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
