"""Encoders, plain and shaken: the loader and the two-way forward give transformers' numbers."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from model.checks.parity import hf_config, hf_state
from model.loading.checkpoint import build, load_folder
from model.loading.families import FAMILIES
from model.loading.families.others.bert import OFFSET
from tests.parity.common import N_CTX, D, H, L, M, V, compare, ids, save, shake

COMMON = {"vocab_size": V, "max_position_embeddings": N_CTX}
SIZES = COMMON | {"hidden_size": D, "intermediate_size": M, "num_hidden_layers": L, "num_attention_heads": H}
CASES = {
    "bert": ("Bert", SIZES | {"pad_token_id": 0}),
    "bert relu": ("Bert", SIZES | {"hidden_act": "relu", "type_vocab_size": 3}),
    "roberta": ("Roberta", SIZES | {"max_position_embeddings": N_CTX + 2, "pad_token_id": 1, "type_vocab_size": 1}),
    "xlm-roberta": (
        "XLMRoberta",
        SIZES | {"max_position_embeddings": N_CTX + 2, "pad_token_id": 1, "type_vocab_size": 1},
    ),
    "camembert": ("Camembert", SIZES | {"max_position_embeddings": N_CTX + 2, "pad_token_id": 1, "type_vocab_size": 1}),
    "modernbert": ("ModernBert", SIZES | {"local_attention": 6, "pad_token_id": 0}),
    "modernbert with biases": (
        "ModernBert",
        SIZES
        | {"attention_bias": True, "mlp_bias": True, "classifier_bias": True, "norm_bias": True, "pad_token_id": 0}
        | {"local_attention": 8, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    ),
    "distilbert": ("DistilBert", COMMON | {"dim": D, "hidden_dim": M, "n_layers": L, "n_heads": H}),
    "distilbert untied": (
        "DistilBert",
        COMMON | {"dim": D, "hidden_dim": M, "n_layers": L, "n_heads": H, "tie_word_embeddings": False},
    ),
}


@pytest.mark.parametrize("shaken", [False, True], ids=["plain", "shaken"])
@pytest.mark.parametrize("case", CASES)
def test_logits_patterns_and_hidden_states(case, shaken, tmp_path):
    import transformers

    kind, values = CASES[case]
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**values)
    config._attn_implementation = "eager"
    hf = getattr(transformers, f"{kind}ForMaskedLM")(config).eval()
    if shaken:
        shake(hf)
    ours = build(*load_folder(save(hf, tmp_path)))
    compare(ours, hf, ids().clamp(min=2))  # transformers numbers positions without those of padding


def saved(case: str, folder: Path) -> tuple[str, dict[str, torch.Tensor]]:
    """A shaken model of a case, as transformers writes it: its model_type and the weights of its file."""
    import transformers

    kind, values = CASES[case]
    hf = getattr(transformers, f"{kind}ForMaskedLM")(getattr(transformers, f"{kind}Config")(**values)).eval()
    shake(hf)
    return hf.config.model_type, load_file(save(hf, folder) / "model.safetensors")


@pytest.mark.parametrize("case", CASES)
def test_config_and_weights_there_and_back(case, tmp_path):
    """The page's own comparison passes to transformers exactly what the file has."""
    kind, published = saved(case, tmp_path)
    config, state = load_folder(tmp_path)
    assert FAMILIES[kind].to_config(hf_config(config, kind)) == config
    again = hf_state(state, config, kind)
    for name, tensor in again.items():
        unread = OFFSET if "position_embeddings" in name and kind in ("roberta", "xlm-roberta", "camembert") else 0
        assert torch.equal(tensor[unread:], published[name][unread:]) and tensor.shape == published[name].shape, name
    assert published.keys() - again.keys() <= {"lm_head.decoder.bias", "cls.predictions.decoder.bias"}


# Names of published files beside those of transformers' own: old ones, second ones, and weights without use here.
PUBLISHED = {
    "bert": {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
        "bert.pooler.dense.weight": "",
        "bert.pooler.dense.bias": "",
        "cls.seq_relationship.weight": "",
        "cls.seq_relationship.bias": "",
    },
    "roberta": {
        "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
        "roberta.embeddings.position_ids": "",
        "roberta.pooler.dense.weight": "",
        "roberta.pooler.dense.bias": "",
    },
    "modernbert": {"decoder.weight": "model.embeddings.tok_embeddings.weight"},
}


@pytest.mark.parametrize("case", PUBLISHED)
def test_names_of_published_files_give_the_same_weights(case, tmp_path):
    _, tensors = saved(case, tmp_path)
    _, expected = load_folder(tmp_path)
    for name, same in PUBLISHED[case].items():
        tensors[name] = tensors[same].clone() if same else torch.full((3,), 7.0)
    if case == "bert":  # as TensorFlow named them
        for new, old in (("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")):
            tensors = {name.replace(new, old): tensor for name, tensor in tensors.items()}
        assert sum(name.endswith("gamma") for name in tensors) == 2 * L + 2
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    _, found = load_folder(tmp_path)
    assert found.keys() == expected.keys() and all(torch.equal(found[name], expected[name]) for name in found)


def test_a_second_text_has_a_vector_of_its_own(tmp_path):
    import dataclasses

    import transformers

    config = transformers.BertConfig(**SIZES)
    config._attn_implementation = "eager"
    hf = transformers.BertForMaskedLM(config).eval()
    shake(hf)
    ours, state = load_folder(save(hf, tmp_path))
    tokens = torch.tensor([[4, 7, 9, 3, 8, 6, 3, 5]])
    model = build(dataclasses.replace(ours, segment_end=3), state)
    with torch.inference_mode():
        wanted = hf(tokens, token_type_ids=torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1]])).logits
        assert torch.allclose(model(tokens), wanted, atol=1e-4)
        assert not torch.allclose(build(ours, state)(tokens), wanted, atol=1e-2)
