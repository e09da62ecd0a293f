"""Mamba, plain and shaken: the loader and the state spaces give transformers' numbers."""

import pytest
import torch

from model.gpt.tap import record
from model.loading.checkpoint import build, load_folder
from tests.parity.common import D, L, V, assert_close, greedy, hf_greedy, ids, save, shake
from tests.support.models.rounding import within


@pytest.mark.parametrize("shaken", [False, True], ids=["plain", "shaken"])
@pytest.mark.parametrize(
    "changes", [{}, {"expand": 3, "conv_kernel": 3, "state_size": 5, "tie_word_embeddings": False}]
)
def test_logits_hidden_states_and_generation(changes, shaken, tmp_path):
    import transformers

    values = {"vocab_size": V, "hidden_size": D, "num_hidden_layers": L, "state_size": 8} | changes
    special = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    torch.manual_seed(0)
    hf = transformers.MambaForCausalLM(transformers.MambaConfig(**values, **special)).eval()
    if shaken:
        shake(hf)
    ours, tokens, store = build(*load_folder(save(hf, tmp_path))), ids(), {}
    with torch.inference_mode():
        wanted = hf(tokens, output_hidden_states=True)
        logits = ours(tokens, tap=record({"resid_pre"}, store))
        bound = within(ours, tokens, sites=["resid_pre", "logits"])
        for layer in range(1, L):  # the first of transformers' hidden states leaves layer 0
            theirs, allowed = wanted.hidden_states[layer - 1], bound["resid_pre", layer]
            assert_close(store["resid_pre", layer], theirs, allowed, f"stream {layer}")
        assert_close(logits, wanted.logits, bound["logits", L], "logits")
    prompt = ids(seed=2, length=7)
    assert torch.equal(greedy(ours, prompt, 20), hf_greedy(hf, prompt, 20))
