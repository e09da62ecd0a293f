"""Keys that are held to change nothing: with an odd value of each, transformers and we compute the same logits."""

import json

import pytest
import torch

from model.loading.checkpoint import read_config
from model.loading.families import neutral_keys
from model.loading.families.neutral_keys import EVERY_FAMILY, keys_of
from tests.parity.common import ids, save
from tests.parity.families import CASES, build_hf

OWN = {
    "gpt2": keys_of(neutral_keys.GPT2),
    "llama GQA": keys_of(neutral_keys.LLAMA),
    "mistral": keys_of(neutral_keys.MISTRAL),
    "mixtral": keys_of(neutral_keys.EXPERTS),
    "phi3": keys_of(neutral_keys.PHI3),
    "smollm3": keys_of(neutral_keys.LLAMA) | keys_of(neutral_keys.SMOLLM3),
    "gptj": keys_of(neutral_keys.GPT2) | keys_of(neutral_keys.GPTJ),
    "codegen": keys_of(neutral_keys.GPT2) | keys_of(neutral_keys.GPTJ),
    "gpt_neo": keys_of(neutral_keys.GPT2) | keys_of(neutral_keys.GPT_NEO),
    "opt": keys_of(neutral_keys.OPT),
    "bloom": keys_of(neutral_keys.BLOOM),
    "mpt": keys_of(neutral_keys.MPT),
    "gpt_bigcode": keys_of(neutral_keys.GPT2) | keys_of(neutral_keys.GPT_BIGCODE),
    "starcoder2": keys_of(neutral_keys.STARCODER2),
    "falcon": keys_of(neutral_keys.FALCON),
    "cohere2": keys_of(neutral_keys.COHERE2),
    "gpt_oss": keys_of(neutral_keys.EXPERTS) | keys_of(neutral_keys.GPT_OSS),
    "granitemoe": keys_of(neutral_keys.EXPERTS),
    "seed_oss": keys_of(neutral_keys.LLAMA) | keys_of(neutral_keys.SEED_OSS),
    "qwen3_5": keys_of(neutral_keys.QWEN3_5),
    "lfm2": keys_of(neutral_keys.LFM2),
}
FAMILIES = [*OWN, "qwen2", "qwen3", "gpt_neox parallel", "gemma", "gemma3", "olmo2", "olmoe"]
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
    "auto_map": {"AutoConfig": "another.Config"},
    "router_jitter_noise": 0.7,
    "router_aux_loss_coef": 0.7,
    "output_router_logits": False,
    "initializer_range": 0.7,
    "reorder_and_upcast_attn": True,
    "summary_type": "mean",
    "summary_use_proj": False,
    "summary_activation": "tanh",
    "summary_proj_to_labels": False,
    "pretraining_tp": 2,
    "skip_bias_add_qkv": True,
    "tokenizer_name": "another",
    "init_device": "meta",
    "init_config": {"name": "another"},
    "init_std": 0.7,
    "embedding_fraction": 0.7,
    **dict.fromkeys(
        (
            *(
                "attention_softmax_in_fp32",
                "scale_attention_softmax_in_fp32",
                "masked_softmax_fusion",
                "learned_pos_emb",
            ),
            *(
                "bias_dropout_fusion",
                "skip_bias_add",
                "validate_runner_input",
                "pre_allocate_kv_cache",
                "pad_key_length",
            ),
        ),
        False,
    ),
}
EPSILON = {
    **dict.fromkeys(
        ("gpt2", "gptj", "codegen", "gpt_neo", "bloom", "mpt", "gpt_bigcode", "falcon"), "layer_norm_epsilon"
    ),
    **dict.fromkeys(("gpt_neox parallel", "cohere2"), "layer_norm_eps"),
    "starcoder2": "norm_epsilon",
    "lfm2": "norm_eps",
    "opt": "enable_bias",  # it has no key for epsilon
}
WIDTH = {
    **dict.fromkeys(("gpt2", "gptj", "codegen", "gpt_bigcode"), "n_positions"),
    "bloom": "seq_length",
    "mpt": "max_seq_len",
}
WITHOUT_SDPA = ("gptj", "codegen", "gpt_neo", "gpt_oss", "bloom", "mpt")


def odd_values(case: str) -> dict:
    """Return a value other than the usual one for every neutral key of a family."""
    keys = keys_of(EVERY_FAMILY) | OWN.get(case, frozenset())
    odd = ODD | (
        dict.fromkeys(("attn_implementation", "_attn_implementation"), "eager") if case in WITHOUT_SDPA else {}
    )
    return {key: odd.get(key, 0.5 if "drop" in key else 7) for key in sorted(keys - {"model_type"})}


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
    assert plain.get(WIDTH.get(case, "max_position_embeddings"), 2048) == config.n_ctx
    matters = EPSILON.get(case, "rms_norm_eps")
    changed = False if matters == "enable_bias" else 1.0
    assert (logits(**{matters: changed}) - right).abs().max() > 0.1  # a key that matters shows


def test_every_setting_of_generation_that_transformers_moves_is_neutral():
    """transformers drops from a config the settings of generation that have a default."""
    from transformers import GenerationConfig

    moved = GenerationConfig._get_default_generation_params().keys()
    assert len(moved) > 20 and moved <= keys_of(EVERY_FAMILY)


def test_no_neutral_key_is_read_by_a_case():
    """The cases of the parity tests set keys that matter; none of them stands among the neutral ones."""
    used = {key for _, _, values in CASES.values() for key, value in values.items() if value is not None}
    used -= {"bos_token_id"}  # transformers wants one for CWM
    used -= {"router_jitter_noise"}  # PhiMoE reads it as a threshold; it is Mixtral that only trains with it
    named = keys_of(EVERY_FAMILY) | OWN["gpt2"] | OWN["llama GQA"] | OWN["mixtral"]
    assert used and not used & named
