"""The bundled model with Mamba layers: the file that was measured, its size, and how well it predicts."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from model.api import list_models, load_model
from model.attention.state_space import decay_tokens, state_space
from model.loading import sources
from model.training import data, loop

WEIGHTS = sources.WEIGHTS / "tinymamba"
STORY = Path(__file__).parents[2] / "data" / "story.txt"
SHA256 = {
    "model.safetensors": "43f91a4ae1c76e5a2876a88455149f6bf4114cb59ae5baafd0be9a4000066710",
    "tokenizer.json": "998054cd96adeffe045716cecb116ffca36daaf9dc64e1711f9f3b565297c053",
}


@pytest.fixture(scope="module")
def lm():
    return load_model("tinymamba", offline=True)


@pytest.mark.parametrize("name", SHA256)
def test_file_is_the_one_that_was_measured(name):
    assert hashlib.sha256((WEIGHTS / name).read_bytes()).hexdigest() == SHA256[name]


def test_it_is_tiny_and_a_hybrid(lm):
    assert (WEIGHTS / "model.safetensors").stat().st_size < 310_000
    assert lm.config.mixers == ("mamba", "softmax", "mamba") and lm.config.n_ctx == 256
    listed = list_models().set_index("id").loc["tinymamba"]
    assert listed["n_params"] == lm.n_params == 149_696 and listed["n_ctx"] == 256 and listed["ready"]
    assert f"{lm.n_params:,} parameters" in (WEIGHTS / "README.md").read_text(encoding="utf-8")


def test_bits_per_byte_of_a_story_it_has_not_seen(lm):
    ids = np.array(lm.tokenizer.encode_ids(STORY.read_text(encoding="utf-8")))
    found = loop.evaluate(lm.model, data.consecutive(ids), data.token_bytes(lm.tokenizer), length=256)
    assert found.bits_per_byte < 1.9  # log2(768) bits a token, untrained, would be above 4


def test_its_state_keeps_some_numbers_long_and_others_briefly(lm):
    run = lm.trace("The cat sat on the mat because it was tired")
    for layer, median in ((0, 7), (2, 9)):
        tokens = decay_tokens(state_space(run, layer, 1))
        assert np.median(tokens) == pytest.approx(median, abs=0.5)
        assert np.quantile(tokens, 0.9) > 75 and np.quantile(tokens, 0.1) < 2


def test_vocabulary_gives_back_any_text(lm):
    for text in ("Once upon a time", "naïve façade 你好 🐢", "a\n\n\tb  c\r\n"):
        assert lm.decode(lm.encode(text).ids) == text
