"""Every family with its products on every device of this machine: transformers' numbers, and the text it writes."""

import pytest
import torch

from model.loading.checkpoint import build, load_folder
from model.loading.devices import available, placed
from tests.parity.common import compare, greedy, hf_greedy, ids, save
from tests.parity.families import CASES, build_hf


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", available())
def test_logits_patterns_hidden_states_and_generation(kind, case, tmp_path):
    hf = build_hf(case, shaken=True)
    ours, where = placed(build(*load_folder(save(hf, tmp_path))), kind, torch.float32)
    assert where.startswith(kind)
    compare(ours, hf, ids())
    prompt = ids(seed=2, length=7)
    assert torch.equal(greedy(ours, prompt, 20), hf_greedy(hf, prompt, 20))
