"""Keys that are held to change nothing: with an odd value of each, transformers and we compute the same logits."""

import json

import pytest
import torch

from model.loading.checkpoint import read_config
from model.loading.families import neutral_keys
from model.loading.families.neutral_keys import EVERY_FAMILY, keys_of
from tests.parity.common import ids, save
from tests.parity.families import CASES, build_hf

OWN = {"gpt2": keys_of(neutral_keys.GPT2), "llama GQA": keys_of(neutral_keys.LLAMA)}
FAMILIES = ["gpt2", "llama GQA", "qwen2", "qwen3", "gpt_neox parallel"]
# transformers checks the kinds of its own fields; a dropout is 0.5, and every other key the number 7.
ODD = {
    "architectures": ["Another"],
    "transformers_version": "9.9",
    "tokenizer_class": "Another",
    "attn_implementation": "sdpa",
    "_attn_implementation": "sdpa",
    "torch_dtype": "float64",
    "dtype": "float32",
    "id2label": {"0": "a", "1": "b", "2": "c"},
    "label2id": {"a": 0, "b": 1, "c": 2},
    "problem_type": "regression",
    "cache_implementation": "dynamic",
    "num_labels": 3,
    "return_dict": True,  # its forward needs it itself
    "output_hidden_states": True,
    "output_attentions": False,
    "use_cache": False,
    "is_decoder": True,
    "initializer_range": 0.7,
    "reorder_and_upcast_attn": True,
    "summary_type": "mean",
    "summary_use_proj": False,
    "summary_activation": "tanh",
    "summary_proj_to_labels": False,
}


def odd_values(case: str) -> dict:
    """Return a value other than the usual one for every neutral key of a family."""
    keys = keys_of(EVERY_FAMILY) | OWN.get(case, frozenset())
    return {key: ODD.get(key, 0.5 if "drop" in key else 7) for key in sorted(keys - {"model_type"})}


@torch.inference_mode()
@pytest.mark.parametrize("case", FAMILIES)
def test_neutral_keys_change_no_logit(case, tmp_path):
    import transformers

    hf = build_hf(case, shaken=True)
    right = hf(ids()).logits
    file = save(hf, tmp_path) / "config.json"
    plain, (_, config) = json.loads(file.read_text()), read_config(tmp_path)

    def logits(**more: object) -> torch.Tensor:
        file.write_text(json.dumps(plain | more))
        again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
        return again(ids(), return_dict=True).logits

    torch.testing.assert_close(logits(**odd_values(case)), right, rtol=1e-4, atol=1e-4)
    assert read_config(tmp_path)[1] == config
    width = "n_positions" if case == "gpt2" else "max_position_embeddings"
    assert plain[width] == config.n_ctx
    epsilon = {"gpt2": "layer_norm_epsilon", "gpt_neox parallel": "layer_norm_eps"}.get(case, "rms_norm_eps")
    assert (logits(**{epsilon: 1.0}) - right).abs().max() > 0.1  # a key that matters does show


def test_every_setting_of_generation_that_transformers_moves_is_neutral():
    """transformers drops from a config the settings of generation that have a default."""
    from transformers import GenerationConfig

    moved = GenerationConfig._get_default_generation_params().keys()
    assert len(moved) > 20 and moved <= keys_of(EVERY_FAMILY)


def test_no_neutral_key_is_read_by_a_case():
    """The cases of the parity tests set keys that matter; none of them stands among the neutral ones."""
    used = {key for _, _, values in CASES.values() for key, value in values.items() if value is not None}
    named = keys_of(EVERY_FAMILY) | OWN["gpt2"] | OWN["llama GQA"]
    assert used and not used & named
