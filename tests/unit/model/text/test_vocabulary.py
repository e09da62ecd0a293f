"""Where a text ends: at rows of the model that have no token, and in training only where the files agree."""

import pytest
import torch

from model.api import load_model
from model.loading.checkpoint import load_folder
from model.text.chat import ending
from model.text.tokenizer import from_folder
from model.text.vocabulary import with_rows
from tests.support.models.begun_llama import END, PROMPT, ROWS, save_begun


def written(lm, ids, count):
    """The ids that greedy generation writes, with the one that ends the text."""
    ticks = lm.generate(ids, "greedy", count)
    return [tick.changes[0].made[0].id for tick in ticks if tick.changes[0] and tick.changes[0].made]


def test_a_text_ends_at_a_row_without_a_token_as_in_transformers(tmp_path):
    """Each of END and the row may come first; the row's weights are those of the fourth token that was written."""
    hf, row = save_begun(tmp_path), ROWS - 3
    lm = load_model(tmp_path)
    assert lm.tokenizer.vocab_size < row
    prompt = lm.encode(PROMPT).ids
    ids = torch.tensor(prompt)[None]

    def expected():
        made = hf.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False)
        return made[0, ids.shape[1] :].tolist()

    *before, reached = expected()[:4]
    assert reached not in before and reached != END
    with torch.no_grad():
        hf.lm_head.weight[[row, reached]] = hf.lm_head.weight[[reached, row]]
    for ends in ([END, row], [row, END]):
        hf.config.eos_token_id = hf.generation_config.eos_token_id = ends
        hf.save_pretrained(tmp_path)
        lm = load_model(tmp_path)
        assert written(lm, prompt.tolist(), 12) == expected() == [*before, row]
        assert ending(lm.tokenizer) == {END, row} and lm.tokenizer.special[f"<|row {row}|>"] == row
        assert lm.decode([row]) == f"<|row {row}|>" and lm.tokenizer.vocab_size == row + 1


@pytest.mark.parametrize("beyond", [ROWS, ROWS + 1, 10**9])
def test_a_row_that_the_model_lacks_ends_nothing(tmp_path, beyond):
    save_begun(tmp_path, ends=[END, beyond])
    plain = from_folder(tmp_path)
    assert plain.vocabulary.rows_that_end == (beyond,)
    assert with_rows(plain.vocabulary, load_folder(tmp_path)[0].vocab_size) is plain.vocabulary
    assert ending(load_model(tmp_path).tokenizer) == {END}


@pytest.mark.parametrize(
    ("ends", "expected"),
    [(END, END), ([END, 5], END), ([5, END], END), (None, END), (5, None), ([5, 6], None), (ROWS - 1, None)],
)
def test_an_answer_ends_with_eos_only_where_generation_ends_there_too(tmp_path, ends, expected):
    save_begun(tmp_path, ends=ends)
    tokenizer = load_model(tmp_path).tokenizer
    assert (tokenizer.eos_id, tokenizer.end_id) == (END, expected)
