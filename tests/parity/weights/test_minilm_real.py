"""The real all-MiniLM-L6-v2, a checkpoint of the layers alone, against transformers: tokens, hidden states, maps."""

import numpy as np
import pytest
import torch

from model.api import load_model
from model.errors import InputError
from tests.support.models.minilm import minilm

pytestmark = pytest.mark.long

TEXTS = ("The quick brown fox jumps.", "Unbelievably, tokenization of naïve words!", "a first text [SEP] a second text")


@pytest.fixture(scope="module")
def pair():
    """(our model, transformers' model, its tokenizer)"""
    import transformers

    folder = minilm()
    hf = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    return load_model(str(folder)), hf, transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("text", TEXTS)
def test_tokens_hidden_states_and_maps_are_those_of_transformers(pair, text):
    lm, hf, tokenizer = pair
    run, ids = lm.trace(text), tokenizer(text, return_tensors="pt").input_ids
    assert run.tokens.ids.tolist() == ids[0].tolist()
    first, _, second = text.partition(" [SEP] ")
    kinds = tokenizer(first, second or None, return_tensors="pt").token_type_ids
    with torch.inference_mode():
        wanted = hf(input_ids=ids, token_type_ids=kinds, output_hidden_states=True, output_attentions=True)
    for layer, hidden in enumerate(wanted.hidden_states):
        assert np.abs(hidden[0].numpy() - run.hidden(layer)).max() < 2e-5
    for layer, maps in enumerate(wanted.attentions):
        ours = np.stack([run.pattern(layer, head) for head in range(lm.config.n_head)])
        assert np.abs(maps[0].numpy() - ours).max() < 1e-5
    assert lm.n_params == 22_565_376


def test_it_has_no_head_and_says_so(pair):
    lm = pair[0]
    assert lm.gives == {"layers"} and "no head that predicts tokens" in lm.lacks("token").what
    with pytest.raises(InputError, match="no head that predicts tokens"):
        _ = lm.trace(TEXTS[0]).logits
