"""Pairs of texts of a model that begins with BOS and has more rows than tokens, held against transformers."""

import numpy as np
import pytest
import torch

from model.alignment import instructions
from model.alignment.instructions import Example
from model.alignment.preferences import Pair
from model.alignment.reinforcement.pairs import from_texts, rows_of
from model.alignment.reinforcement.texts import rewards_of, task
from model.alignment.reward_model import pair_ids
from model.api import load_model
from tests.support.models.begun_llama import END, PROMPT, ROWS, save_begun

ANSWERS = (" on the mat", " because it was tired")


def nothing(answers):
    return np.zeros(len(answers.ids))


@pytest.mark.parametrize(("ends", "last"), [(END, [END]), (5, [])])
def test_pairs_are_scored_over_all_rows_as_by_transformers(tmp_path, ends, last):
    hf, lm = save_begun(tmp_path, ends=ends), load_model(tmp_path)
    assert lm.tokenizer.vocab_size < ROWS == hf.config.vocab_size
    prompt = [0, *lm.tokenizer.encode_ids(PROMPT)]
    pairs = from_texts(lm.model, task(lm.tokenizer, [PROMPT], nothing), [(PROMPT, *ANSWERS)])
    sides = ((pairs.chosen, pairs.chosen_reference), (pairs.rejected, pairs.rejected_reference))
    for answer, (rows, said) in zip(ANSWERS, sides, strict=True):
        ids = [*prompt, *lm.tokenizer.encode_ids(answer), *last]
        assert rows.texts() == [ids]
        with torch.no_grad():
            each = hf.double()(torch.tensor([ids])).logits[0, :-1].log_softmax(-1)
        expected = each[torch.arange(len(ids) - 1), torch.tensor(ids[1:])][len(prompt) - 1 :].sum()
        assert said.item() == pytest.approx(expected.item(), abs=1e-4)  # of about -100


@pytest.mark.parametrize(("ends", "last"), [(END, [END]), (5, [])])
def test_demonstrations_end_where_the_files_agree(tmp_path, ends, last):
    save_begun(tmp_path, ends=ends)
    tokenizer = load_model(tmp_path).tokenizer
    assert instructions.has_end(tokenizer) == bool(last)
    ids, start = instructions.to_ids(Example("Say", "", "the mat"), tokenizer, tokenizer.end_id)
    assert ids[0] == 0 and ids[:start] == instructions.prompt_ids(Example("Say", "", "the mat"), tokenizer)
    assert (ids[-1] == END) == bool(last)


def test_reinforcement_gives_a_reward_model_the_texts_it_was_trained_on(tmp_path):
    """From BOS to the last token before the end."""
    save_begun(tmp_path)
    lm, read = load_model(tmp_path), []
    (pair,) = pair_ids(lm, [Pair(PROMPT, *ANSWERS)])

    def reward(answers):
        read.extend(answers.ids)
        return nothing(answers)

    work = task(lm.tokenizer, [PROMPT], reward)
    answers = [[*lm.tokenizer.encode_ids(answer), END] for answer in ANSWERS]
    rewards_of(work, rows_of([work.prompts[0]] * 2, answers))
    assert read == list(pair) and all(ids[0] == 0 for ids in read)
