"""A generation_config.json read as steps: the same logits as the chain of processors that transformers builds."""

import json
from types import SimpleNamespace

import pytest
import torch

from model.sampling.pipeline import Context
from model.sampling.settings import generation_config
from model.sampling.settings.tools import read_settings, write_settings
from model.sampling.warps import final

TEXT = (1, 2, 3, 1, 2, 4, 1, 2)
CONFIGS = [
    {},
    {"do_sample": True},
    {"do_sample": True, "temperature": 0.7, "top_k": 30, "top_p": 0.8, "min_p": 0.02},
    {"do_sample": True, "top_k": 0, "typical_p": 0.6, "epsilon_cutoff": 0.01, "eta_cutoff": 0.02, "temperature": 1.7},
    {
        "do_sample": True,
        "repetition_penalty": 1.3,
        "no_repeat_ngram_size": 2,
        "sequence_bias": [[[5], 4.0], [[6], -4.0]],
    },
]


# Their processors, and our warps.
WARPS = {
    "SequenceBiasLogitsProcessor": "logit_bias",
    "RepetitionPenaltyLogitsProcessor": "repetition_penalty",
    "NoRepeatNGramLogitsProcessor": "no_repeat_ngram",
    "NoBadWordsLogitsProcessor": "banned_words",
    "PrefixConstrainedLogitsProcessor": "fits",
    "TemperatureLogitsWarper": "temperature",
    "TopKLogitsWarper": "top_k",
    "TopPLogitsWarper": "top_p",
    "MinPLogitsWarper": "min_p",
    "TypicalLogitsWarper": "typical",
    "EpsilonLogitsWarper": "epsilon",
    "EtaLogitsWarper": "eta",
}


def processors(config: dict, **others):
    """transformers' own chain; the import takes seconds, so only where it is used."""
    from transformers import GenerationConfig, GenerationMixin

    settings = GenerationConfig(**{"top_k": 50, "do_sample": False} | config)
    model = GenerationMixin()
    model.config = SimpleNamespace(is_encoder_decoder=False)
    settings._eos_token_tensor = None  # set by generate
    return model._get_logits_processor(settings, input_ids_seq_length=len(TEXT), model_kwargs={}, **others)


def theirs(config: dict, logits: torch.Tensor) -> torch.Tensor:
    """The logits after transformers' own chain."""
    return processors(config)(torch.tensor([TEXT]), logits[None].clone())[0]


def test_transformers_builds_its_processors_in_this_order():
    names = ("temperature", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff")
    config = dict.fromkeys(names, 0.5) | {"do_sample": True, "top_p": 0.9, "repetition_penalty": 1.2}
    config |= {"no_repeat_ngram_size": 3, "bad_words_ids": [[2]], "sequence_bias": [[[1], 2.0]]}
    built = [type(each).__name__ for each in processors(config, prefix_allowed_tokens_fn=lambda row, ids: [3])]
    assert tuple(WARPS[name] for name in built if name in WARPS) == generation_config.ORDER


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: "-".join(config) or "empty")
def test_the_steps_do_what_the_processors_do(config):
    found = read_settings(json.dumps(config) if config else '{"do_sample": false}', "transformers")
    for seed in range(4):
        logits = 3 * torch.randn(300, generator=torch.Generator().manual_seed(seed))
        ours, expected = final(logits, found.steps, Context(TEXT, 3)), theirs(config, logits)
        if not config.get("do_sample"):  # theirs then takes the largest
            assert int(ours.argmax()) == int(expected.argmax()) and int(ours.isfinite().sum()) == 1
        else:
            assert torch.allclose(ours, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("config", CONFIGS[1:], ids=lambda config: "-".join(config))
def test_what_is_written_back_does_the_same(config):
    steps = read_settings(json.dumps(config), "transformers").steps
    again = json.loads(write_settings(steps, "transformers").text)
    logits = 3 * torch.randn(300, generator=torch.Generator().manual_seed(9))
    assert torch.equal(theirs(config, logits), theirs(again, logits))
