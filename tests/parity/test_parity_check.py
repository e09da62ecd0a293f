"""The page's own comparison with transformers: it agrees for every family, and sees what is wrong with a mutant."""

import dataclasses
import json
import sys

import pytest
import torch

import model.checks.parity as parity
from model.api import LanguageModel, load_model
from model.checks.parity import family_of, hf_config, hf_state
from model.checks.registry import run_checks
from model.checks.result import Subject, subject_of
from model.gpt import layers, passes
from model.gpt.config import ModelConfig, to_dict
from model.gpt.mixers import projection
from model.loading.families import FAMILIES
from model.loading.from_memory import config_values, weights_of
from tests.parity.families import CASES, config_of
from tests.parity.gated_families import GATED_CASES
from tests.parity.more_families import MORE_CASES
from tests.support.models.encoders import save_encoder
from tests.support.models.helpers import VARIANTS, byte_tokenizer, tiny_config, tiny_model

KEYS = [f"parity_{name}" for name in ("logits", "patterns", "hidden", "random", "tokens")]
PROMPT = "abcabd ab, the ½ 文\n\n  end"
WIRED = {"gpt2": "gpt2", "llama": "llama", "qwen3": "qwen3", "neox": "gpt_neox"}
QWEN2 = {
    "norm": "rmsnorm",
    "norm_bias": False,
    "positions": "rope",
    "mlp": "swiglu",
    "mlp_bias": False,
    "o_bias": False,
}
MORE = {
    "qwen2": QWEN2,
    "untied gpt2, erf": {"n_kv_head": 4, "tie_embeddings": False, "mlp": "gelu"},
    "llama with biases": {
        **VARIANTS["llama"],
        "q_bias": True,
        "k_bias": True,
        "v_bias": True,
        "o_bias": True,
        "mlp_bias": True,
        "tie_embeddings": False,
    },
    "neox, sequential": {**VARIANTS["neox"], "parallel_residual": False, "rotary_fraction": 1.0},
}
ALL = {name: VARIANTS[name] for name in WIRED} | MORE


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return byte_tokenizer(tmp_path_factory.mktemp("bytes"))


def made(tokenizer, changes, prompt=PROMPT) -> Subject:
    model = tiny_model({**changes, "vocab_size": 300, "n_ctx": 300})  # 44 rows that no token has
    lm = LanguageModel("tiny", "Tiny", model, tokenizer)
    return subject_of(lm, lm.trace(prompt), prompt)


@pytest.mark.parametrize("name", ALL)
def test_every_family_agrees(tokenizer, name):
    subject = made(tokenizer, ALL[name])
    found = run_checks(subject, KEYS)
    assert {key: each.state for key, each in found.items()} == dict.fromkeys(KEYS, "agrees")
    assert all(each.compared > 10 for each in found.values())
    assert found["parity_random"].position is None  # of no token of the prompt


TEXT = "The cat [MASK] on the mat. [SEP] it was tired"


MODERN = {"n_segment": None, "norm_placement": "pre", "positions": "rope", "rope_theta_local": 300.0, "unnormed": (0,)}
MODERN |= {"norm_bias": False, "mlp": "geglu", "mixer": ("softmax", "sliding_window", "sliding_window"), "window": 5}
MODERN |= dict.fromkeys(("q_bias", "k_bias", "v_bias", "o_bias", "mlp_bias"), False)
ENCODERS = {"bert": {}, "distilbert": {"n_segment": None, "norm_eps": 1e-12}, "modernbert": MODERN}


@pytest.mark.parametrize("shape", ENCODERS.values(), ids=ENCODERS)
def test_an_encoder_agrees_and_its_segments_count(tmp_path, monkeypatch, shape):
    lm = load_model(save_encoder(tmp_path / "encoder", **shape))
    assert {key: each.state for key, each in _checked(lm).items()} == dict.fromkeys(KEYS, "agrees")
    if "n_segment" not in shape:
        monkeypatch.setattr(parity, "_inputs", lambda model, ids: {})
        assert _checked(lm)["parity_logits"].state == "differs"


def _checked(lm):
    return run_checks(subject_of(lm, lm.trace(TEXT), TEXT), KEYS)


@pytest.mark.parametrize("case", ["lfm2", "qwen3_5"])
def test_layers_of_several_mixers_agree(tokenizer, case):
    """Its counterpart gives patterns for the layers of attention alone."""
    told = json.loads(config_of(case, vocab_size=256).to_json_string(use_diff=True))
    config = FAMILIES[told.pop("model_type")].to_config(told)
    found = run_checks(made(tokenizer, to_dict(config)), KEYS)
    assert {key: each.state for key, each in found.items()} == dict.fromkeys(KEYS, "agrees")


@pytest.mark.parametrize("name", [name for name in VARIANTS if name not in WIRED])
def test_what_has_no_counterpart_says_so(tokenizer, name):
    found = run_checks(made(tokenizer, VARIANTS[name]), KEYS)
    assert {each.state for key, each in found.items() if key != "parity_tokens"} == {"unable"}
    assert found["parity_logits"].reason == "no_counterpart" and found["parity_logits"].got
    assert found["parity_tokens"].state == "agrees"


@pytest.mark.parametrize("case", CASES)
def test_configs_there_and_back(case):
    """Every config that can be read, written as transformers' and read again, is the same."""
    told = json.loads(config_of(case).to_json_string(use_diff=True))  # as it is written to a config.json
    kind = told["model_type"]
    config = FAMILIES[kind].to_config({key: told[key] for key in told if key != "model_type"})
    found, why = family_of(config)  # its own, or one of the same wiring
    assert not why and FAMILIES[found].to_config(hf_config(config, found)) == config


@pytest.mark.parametrize("name", ALL)
def test_weights_there_and_back(name):
    """What is handed to transformers is what reading a file of it would have given."""
    model = tiny_model(ALL[name])
    kind, _ = family_of(model.config)
    from model.loading.convert import convert

    theirs = hf_state(model.state_dict(), model.config, kind)
    again = convert(theirs.keys(), theirs.__getitem__, FAMILIES[kind].layout, model.config)
    assert all(torch.equal(model.state_dict()[key], tensor) for key, tensor in again.items())


@pytest.mark.parametrize("case", [*MORE_CASES, *(case for case in GATED_CASES if "part" not in case)])
def test_weights_of_more_families_there_and_back(case):
    """The same for every conversion of a family, with the weights that its own model has."""
    from model.loading.convert import convert
    from tests.parity.families import build_hf

    given = build_hf(case, shaken=True)
    state = weights_of(given)
    kind = given.config.model_type
    values = config_values(given)
    config, layout = FAMILIES[kind].to_config(values), FAMILIES[kind].layout_for(values)
    ours = convert(state.keys(), state.__getitem__, layout, config)
    theirs = hf_state(ours, config, kind)
    if case in GATED_CASES:  # whose layers differ, so that a name may fit another layer, too
        assert theirs.keys() <= given.state_dict().keys()
    again = convert(theirs.keys(), theirs.__getitem__, layout, config)
    assert again.keys() == ours.keys() and all(torch.equal(ours[key], tensor) for key, tensor in again.items())


# --- mutants ---


def _swap_norms(model):
    for block in model.blocks:
        block.norm1, block.norm2 = block.norm2, block.norm1


def _drop_bias(model):
    for block in model.blocks:
        block.attn.v.bias.data.zero_()


@pytest.mark.parametrize(("name", "change"), [("llama", _swap_norms), ("gpt2", _swap_norms), ("gpt2", _drop_bias)])
def test_wrong_weights_are_seen(tokenizer, monkeypatch, name, change):
    sound, mutant = made(tokenizer, ALL[name]), made(tokenizer, ALL[name])
    change(mutant.lm.model)
    whole = parity._built
    monkeypatch.setattr(parity, "_built", lambda model, kind: whole(sound.lm.model, kind))
    mutant = subject_of(mutant.lm, mutant.lm.trace(PROMPT), PROMPT)
    found = run_checks(mutant, KEYS[:4])
    assert {each.state for each in found.values()} == {"differs"}


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("llama", {"rotate": lambda x, cos, sin, pairs: x}),  # no RoPE
        ("llama", {"rotate": lambda x, cos, sin, pairs: layers.rotate(x, cos, -sin)}),
        ("neox", {"rotate": lambda x, cos, sin, pairs: x}),
        ("qwen3", {"rotate": lambda x, cos, sin, pairs: x}),
    ],
)
def test_wrong_functions_are_seen(tokenizer, monkeypatch, name, changes):
    for function, wrong in changes.items():
        monkeypatch.setattr(projection, function, wrong)
    found = run_checks(made(tokenizer, ALL[name]), KEYS[:4])
    assert {each.state for each in found.values()} == {"differs"}


def test_a_wrong_step_by_step_path_is_seen(tokenizer, monkeypatch):
    """Only the patterns that are looked at are wrong; the streams come from the fused path."""
    monkeypatch.setattr(passes, "attention_scores", lambda q, k: layers.attention_scores(1.01 * q, k))
    found = run_checks(made(tokenizer, ALL["llama"]), KEYS[:4])
    assert [found[key].state for key in KEYS[:3]] == ["agrees", "differs", "agrees"]


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("gpt2", "mlp", "gelu"),
        ("llama", "rope_theta", 10_000.0),
        ("neox", "parallel_residual", False),
        ("llama", "norm_eps", 1e-3),
    ],
)
def test_wrong_fields_are_seen(tokenizer, monkeypatch, name, field, value):
    """transformers is told another config than the one the page computes with."""
    whole = parity.hf_config
    monkeypatch.setattr(
        parity, "hf_config", lambda config, kind: whole(dataclasses.replace(config, **{field: value}), kind)
    )
    found = run_checks(made(tokenizer, ALL[name]), KEYS[:4])
    assert found["parity_logits"].state == found["parity_hidden"].state == "differs"


@pytest.mark.parametrize("shown", ["residuals", "logits"])
def test_what_the_page_shows_is_what_is_compared(tokenizer, shown):
    """A trace that differs from what its model computes is seen."""
    subject = made(tokenizer, ALL["gpt2"])
    with torch.inference_mode():
        if shown == "residuals":
            subject.run.residuals[1, 3] *= 1.01
        else:
            subject.run.logits[3] *= 1.01
    found = run_checks(subject, KEYS[:3])
    assert found["parity_hidden" if shown == "residuals" else "parity_logits"].state == "differs"


def test_wrong_ids_are_seen(tokenizer, monkeypatch):
    subject = made(tokenizer, ALL["gpt2"])
    subject.run.tokens.ids[5] += 1
    found = run_checks(subject, ["parity_tokens"])["parity_tokens"]
    assert (found.state, found.difference, found.position) == ("differs", 1.0, 5)


# --- refusals ---


def test_without_transformers_it_says_so(tokenizer, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    found = run_checks(made(tokenizer, ALL["gpt2"]), KEYS)
    assert {(each.state, each.reason) for each in found.values()} == {("unable", "no_transformers")}


def test_a_large_model_is_refused(tokenizer, monkeypatch):
    monkeypatch.setattr(parity, "MOST_BYTES", 1000)
    found = run_checks(made(tokenizer, ALL["gpt2"]), KEYS[:4])
    assert {each.reason for each in found.values()} == {"too_large"}


def test_weights_that_transformers_leaves_out_are_no_agreement(tokenizer, monkeypatch):
    whole = parity.hf_state

    def fewer(*given):
        state = whole(*given)
        state.pop(next(iter(state)))
        return state

    monkeypatch.setattr(parity, "hf_state", fewer)
    assert run_checks(made(tokenizer, ALL["llama"]), KEYS[:1])["parity_logits"].state == "broken"


def test_memory_is_shared_and_random_numbers_are_left_alone(tokenizer):
    subject = made(tokenizer, ALL["llama"])
    before, weights = torch.random.get_rng_state(), subject.lm.model.state_dict()
    kept = {name: tensor.clone() for name, tensor in weights.items()}
    built = parity._built(subject.lm.model, "llama")
    assert built.model.embed_tokens.weight.data_ptr() == subject.lm.model.embed.weight.data_ptr()
    run_checks(subject, KEYS)
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(kept[name], tensor) for name, tensor in weights.items())


@pytest.mark.parametrize("changes", [{"embed_multiplier": 3.0}, {"norm_bias": False}, {"qk_norm": True}])
def test_configs_without_a_family(changes):
    config: ModelConfig = tiny_config({"n_kv_head": 4, **changes})
    assert family_of(config)[0] == "" and family_of(config)[1]
