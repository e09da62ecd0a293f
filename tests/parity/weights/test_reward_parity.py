"""The reward of a text is that of transformers' sequence classification with one label."""

import torch

from model.alignment.reward_model import RewardModel
from model.loading.checkpoint import build, load_folder
from tests.parity.common import save
from tests.parity.families import build_hf


def test_rewards_are_those_of_transformers(tmp_path):
    from transformers import GPT2ForSequenceClassification

    hf = build_hf("gpt2", shaken=True)
    hf.config.num_labels, hf.config.pad_token_id = 1, 0
    theirs = GPT2ForSequenceClassification(hf.config).eval()
    theirs.transformer.load_state_dict(hf.transformer.state_dict())
    ours = build(*load_folder(save(hf, tmp_path)))
    texts = [[3, 1, 4], [1, 5, 9, 2, 6, 5, 3, 5, 8], [9], [7, 9, 3, 2]]
    padded, mask = torch.zeros(4, 9, dtype=torch.long), torch.zeros(4, 9, dtype=torch.long)
    for row, ids in enumerate(texts):
        padded[row, : len(ids)], mask[row, : len(ids)] = torch.tensor(ids), 1
    with torch.no_grad():
        expected = theirs(input_ids=padded, attention_mask=mask).logits[:, 0]
    reward = RewardModel(ours, theirs.score.weight[0].detach(), torch.zeros(()))
    assert expected.std() > 1e-3
    torch.testing.assert_close(reward.score_ids(texts), expected, rtol=1e-4, atol=1e-5)
