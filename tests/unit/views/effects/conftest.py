"""A model whose vocabulary has tokens of several bytes."""

import base64

import pytest

from model.api import LanguageModel
from model.text.tokenizer import from_tiktoken
from tests.support.models.helpers import tiny_model


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    """A shaken model of 3 layers x 4 heads over single bytes and a few longer tokens."""
    ranks = tmp_path_factory.mktemp("bytes") / "bytes.tiktoken"
    pieces = [bytes([i]) for i in range(256)] + [b"th", b" a", "·".encode(), "·!".encode()]
    ranks.write_text("".join(f"{base64.b64encode(piece).decode()} {i}\n" for i, piece in enumerate(pieces)))
    tokenizer = from_tiktoken(ranks, special={"<|end|>": 260})
    return LanguageModel("tiny", "Tiny", tiny_model({"vocab_size": 261, "n_ctx": 300}), tokenizer)
