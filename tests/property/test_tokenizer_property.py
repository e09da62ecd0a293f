"""What holds for any text and any list of merges."""

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from model.errors import InputError, UnsupportedModel
from model.text.bpe_ranks import ALPHABET
from model.text.tokenizer import from_gguf

MERGES = ["t h", "th e", "Ġ the", "Ġ Ġ", "i n", "in g", "Ã ©", "ð Ł", "ðŁ ĺ", "1 2"]


def metadata(merges: list[str], pre: str = "gpt-2") -> dict:
    tokens = list(dict.fromkeys(["<|end|>", *(merge.replace(" ", "") for merge in merges), *ALPHABET]))
    types = [3] + [1] * (len(tokens) - 1)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.token_type": types,
    }


@pytest.fixture(scope="module")
def tokenizers():
    return [from_gguf(metadata(MERGES, pre)) for pre in ("gpt-2", "smollm", "llama-bpe")]


@settings(max_examples=100, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"])) | st.text("the ing12é😀<|end|>\n"), special=st.booleans())
def test_any_text_comes_back(tokenizers, text, special):
    for tokenizer in tokenizers:
        tokens = tokenizer.encode(text, special=special)
        assert b"".join(tokens.raw) == text.encode()
        assert tokenizer.decode(tokens.ids) == text
        assert np.array_equal(tokens.spans[1:, 0], tokens.spans[:-1, 1])
        assert np.array_equal(tokens.spans[:, 1] - tokens.spans[:, 0], [len(raw) for raw in tokens.raw])
        assert len(tokens) == 0 or (tokens.spans[0, 0] == 0 and tokens.spans[-1, 1] == len(text.encode()))
        again = tokenizer.tokens(tokens.ids)
        assert again.pieces == tokens.pieces and np.array_equal(again.spans, tokens.spans)
        assert tokens.pieces == tuple(tokenizer.piece(number) for number in tokens.ids)


@settings(max_examples=50, deadline=None)
@given(before=st.text(max_size=5), after=st.text(max_size=5), bad=st.integers(0xD800, 0xDFFF))
def test_any_surrogate_is_refused(tokenizers, before, after, bad):
    with pytest.raises(InputError, match="surrogate"):
        tokenizers[0].encode(before + chr(bad) + after)


@settings(max_examples=100, deadline=None)
@given(ids=st.lists(st.integers(0, 255)))
def test_any_ids_decode(tokenizers, ids):
    tokenizer = tokenizers[0]
    assert tokenizer.decode(ids) == tokenizer.decode_bytes(ids).decode("utf-8", "replace")
    assert tokenizer.tokens(ids).ids.tolist() == ids


@st.composite
def merge_lists(draw) -> list[tuple[str, str]]:
    """Any pairs of tokens known so far, over two letters: duplicates, and pairs that can never meet, are common."""
    known, merges = ["a", "b"], []
    for _ in range(draw(st.integers(0, 14))):
        pair = draw(st.sampled_from(known)), draw(st.sampled_from(known))
        if pair not in merges:
            merges.append(pair)
        if "".join(pair) not in known:
            known.append("".join(pair))
    if merges and draw(st.booleans()):  # some of Llama 3's merges stand before those that make their parts
        merges.insert(draw(st.integers(0, len(merges) - 1)), merges.pop())
    return merges


@pytest.mark.long
@settings(max_examples=400, deadline=None)
@given(merges=merge_lists(), texts=st.lists(st.text("ab", min_size=1, max_size=24), min_size=1, max_size=8))
def test_any_list_of_merges_is_followed_exactly(merges, texts):
    """tiktoken joins what it has a token for, the list names pairs: the ranks make the two the same."""
    data = metadata([" ".join(pair) for pair in merges])
    try:
        ours = from_gguf(data)
    except UnsupportedModel as error:
        assert "order" in error.what or "not in the list" in error.what
        reject()  # rare: no ranks can follow such a list, and refusing is right
    vocab = {token: i for i, token in enumerate(data["tokenizer.ggml.tokens"])}
    reference = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    reference.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    for text in [*texts, "ab" * 20, "aab" * 12, "abb" * 12, "a" * 30]:
        assert ours.encode(text).ids.tolist() == reference.encode(text).ids, text
