"""The bundled model: the file that was measured, its heads, how well it predicts, and that it is the default."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

from model.api import load_model
from model.attention import probes
from model.loading import sources
from model.training import data, loop

WEIGHTS = sources.WEIGHTS / "tinygpt"
STORY = Path(__file__).parents[2] / "data" / "story.txt"
SHA256 = {
    "model.safetensors": "be757f939f3f7057145ee5d78c0cd607a65421e7cfe4047cc9e3925f38f6839e",
    "tokenizer.json": "d7dfeade1bee9acbe286d613d54edb243492020be0e3ab3f6ff4276299597785",
}


@pytest.fixture(scope="module")
def lm():
    return load_model("tinygpt", offline=True)


@pytest.mark.parametrize("name", SHA256)
def test_file_is_the_one_that_was_measured(name):
    assert hashlib.sha256((WEIGHTS / name).read_bytes()).hexdigest() == SHA256[name]


def test_model_is_small_enough_to_carry(lm):
    assert (WEIGHTS / "model.safetensors").stat().st_size <= 32 << 20
    assert 8_000_000 <= lm.n_params <= 12_000_000
    c = lm.config
    assert (c.n_layer, c.n_head, c.n_ctx, c.vocab_size) == (8, 8, 512, 8192)
    assert (c.norm, c.norm_placement, c.positions, c.mlp) == ("layernorm", "pre", "learned", "gelu_tanh")


def test_it_is_the_default_and_listed_first():
    from app import parse
    from viz.work.playground import Options, Playground

    assert parse([]).model == Options().model == "tinygpt"
    assert Playground(Options()).choices()[0] == ("TinyGPT", "tinygpt")
    assert sources.available()[0] == "tinygpt"


def test_heads_look_back_and_find_earlier_copies(lm):
    """Mean of 16 sequences of random token ids written twice; the baseline has the second half shuffled."""
    heads = probes.probe_heads(lm.model, pool=lm.tokenizer.vocab_size - 1, length=100, sequences=16)
    assert heads["previous_token"].max() > 0.7
    best = heads.loc[heads["induction"].idxmax()]
    assert best["induction"] > 0.5
    assert best["induction_baseline"] < 0.05


def test_bits_per_byte_of_a_story_it_has_not_seen(lm):
    text = STORY.read_text(encoding="utf-8")
    ids = np.array([*lm.tokenizer.encode_ids(text), lm.tokenizer.special[data.END_OF_TEXT]])
    found = loop.evaluate(lm.model, data.consecutive(ids), data.token_bytes(lm.tokenizer), length=512)
    assert found.bits_per_byte < 1.15


def test_vocabulary_gives_back_any_text(lm):
    for text in ("Once upon a time", "naïve façade 你好 🐢", "a\n\n\tb  c\r\n", "\0\x07<|endoftext|>"):
        assert lm.decode(lm.encode(text).ids) == text


def test_greedy_story_is_english(lm):
    """What it writes after the beginning of a story is plain text, and more than one phrase over and over."""
    ids = lm.encode("Once upon a time, there was a little").ids.tolist()
    with torch.inference_mode():
        for _ in range(40):
            ids.append(int(lm.model(torch.tensor([ids]))[0, -1].argmax()))
    text = lm.decode(ids)
    assert text.isascii() and "\ufffd" not in text
    assert len(set(ids)) > 20  # it does not fall into a loop at once
