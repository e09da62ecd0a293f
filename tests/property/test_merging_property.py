"""The merges replayed one by one end at the tokenizer's own ids, whatever the text."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from model.errors import InputError
from model.loading.tokenizer_comparison import built_in, local_vocabularies
from model.text.bpe_steps import MOST_CHARACTERS, replay, split

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cn"]), max_size=60) | st.text(
    "the cat's ing12é😀人\n\t '\x1c\x85\u2028\u200d", max_size=MOST_CHARACTERS
)


@pytest.fixture(scope="module")
def tokenizers():
    return [built_in(name) for name in local_vocabularies()]


@pytest.mark.long
@settings(max_examples=120, deadline=None)
@given(text=TEXTS)
@example(text="")
@example(text="a" * MOST_CHARACTERS)
@example(text="<|endoftext|><|im_start|>user")
def test_the_steps_end_at_the_tokenizers_own_ids(tokenizers, text):
    for tokenizer in tokenizers:
        try:
            wanted = tokenizer.encode_ids(text)
        except InputError as error:  # a byte that this vocabulary has no token for
            with pytest.raises(InputError, match=error.what):
                replay(tokenizer, text)
            continue
        pieces = replay(tokenizer, text)
        assert [number for piece in pieces for number in piece.ids] == wanted
        assert b"".join(piece.raw for piece in pieces) == text.encode()
        for piece in pieces:
            ends = piece.parts(len(piece.merges))
            assert b"".join(ends) == piece.raw
            if not piece.whole and not piece.added:
                assert ends == [tokenizer.raw[number] for number in piece.ids]
        if not any(piece.added for piece in pieces):
            assert split(tokenizer, text) == [piece.text for piece in pieces]
