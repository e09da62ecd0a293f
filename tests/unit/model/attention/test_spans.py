"""Words and sentences as spans of tokens, by hand; sums of attention over them."""

from itertools import pairwise

import numpy as np
import pytest

from model.attention.spans import UNITS, spans_of, spans_of_strings, summed
from model.errors import InputError


def joined(raw, unit):
    return "|".join(b"".join(raw[start:end]).decode(errors="replace") for start, end in spans_of(raw, unit))


WORDS = [  # tokens with a bar between them -> words with a bar between them
    ("The| cat| sat", "The| cat| sat"),
    ("K|ather|ine|'s| unb|el|ie|v|able| tale|.", "Katherine's| unbelievable| tale|."),
    (" didn|'t", " didn't"),
    (" don|’|t", " don’t"),
    (" dogs|'| bowl", " dogs|'| bowl"),  # an apostrophe after the last letter is a sign
    ("It| costs| 3|.|14|,| not| 1|,|000", "It| costs| 3.14|,| not| 1,000"),
    ("Wait|.|.|.|!|?", "Wait|...|!|?"),
    ("a| well|-|known| (|one|)", "a| well|-|known| (|one|)"),
    ("one| |  | two|   ", "one|    two|   "),  # spaces belong to the next word, if there is one
    ("a|\n|\n|    |b", "a|\n\n|    b"),
    ("t|h|e| |c|a|t", "the| cat"),  # a vocabulary of characters
    ("snake|_|case| x|2", "snake_case| x2"),
    ("我|喜|欢|猫|。", "我|喜|欢|猫|。"),
    ("我|喜欢|猫|。他|也", "我|喜欢|猫|。他|也"),  # a token of several characters is one word
    ("G|PT|很|好", "GPT|很|好"),
    ("สวั|ส|ดี", "สวั|ส|ดี"),
    ("ที|่|นี่", "ที่|นี่"),  # a tone mark belongs to its letter
    ("ね|こ|カメ|ラ", "ね|こ|カメ|ラ"),
    ("한|국|어| 는", "한국어| 는"),  # Korean has spaces
    ("नम|स्|ते| दुनि|या|।", "नमस्ते| दुनिया|।"),
    ("👨|\u200d|👩|\u200d|👧|!", "👨\u200d👩\u200d👧|!"),
    ("Hi|<|endoftext", "Hi|<|endoftext"),
    ("Hi|<|endoftext|>", "Hi|<|endoftext|>"),
]


@pytest.mark.parametrize(("tokens", "words"), WORDS)
def test_words_by_hand(tokens, words):
    raw = [piece.encode() for piece in tokens.split("|")]
    assert joined(raw, "words") == words


SENTENCES = [
    ("The| cat| sat|.| It| slept|!", "The cat sat.| It slept!"),
    ("Dr|.| Smith| paid| 3|.|5| euros|,| e|.g|.| here|.", "Dr. Smith paid 3.5 euros, e.g. here."),
    ("J|.| Smith| left|.| I| too|.", "J. Smith left.| I too."),
    ('"|Go|."| He| went|?!| Yes', '"Go."| He went?!| Yes'),
    ("你好|。|再|见|！”|他|说", "你好。|再见！”|他说"),
    ("好|。他|来", "好。他|来"),  # "。他" begins in the first sentence ... and its sign is there
    ("a|\n|\n|b|.|\n|c", "a\n\n|b.\n|c"),
    ("no| end", "no end"),
    ("สวัส|ดี", "สวัสดี"),
]


@pytest.mark.parametrize(("tokens", "parts"), SENTENCES)
def test_sentences_by_hand(tokens, parts):
    raw = [piece.encode() for piece in tokens.split("|")]
    assert joined(raw, "sentences") == parts


def test_a_token_over_an_edge_goes_where_its_first_character_is():
    assert spans_of(["好".encode(), "。他".encode(), "来".encode()], "sentences") == ((0, 2), (2, 3))
    assert spans_of([b"end.", b"\n\nThe", b" cat"], "words") == ((0, 1), (1, 2), (2, 3))
    assert spans_of([b"end.", b"\n\nThe", b" cat"], "sentences") == ((0, 1), (1, 3))


def test_bytes_of_one_character_stay_together():
    cat = "🐈".encode()
    assert spans_of([b"a", b" " + cat[:1], cat[1:3], cat[3:], b"b"], "words") == ((0, 1), (1, 4), (4, 5))
    you, good = "你".encode(), "好".encode()
    assert spans_of([you[:2], you[2:] + good[:1], good[1:], b"!"], "words") == ((0, 3), (3, 4))
    assert spans_of([b"a", cat[:1], cat[1:2]], "words") == ((0, 1), (1, 3))  # a prompt that ends within a character


def test_special_tokens_are_units_of_their_own():
    raw = [b"<|endoftext|>", b"The", b" c", b"at", b"<|im_end|>", b"s", b"[SEP]", b"</s>"]
    words = ((0, 1), (1, 2), (2, 4), (4, 5), (5, 6), (6, 7), (7, 8))
    assert spans_of(raw, "words") == words
    assert spans_of(raw, "sentences") == ((0, 1), (1, 4), (4, 5), (5, 6), (6, 7), (7, 8))


@pytest.mark.parametrize("unit", UNITS)
def test_empty_prompts_and_empty_tokens(unit):
    assert spans_of([], unit) == ()
    assert spans_of([b"a"], unit) == ((0, 1),)
    assert spans_of([b""], unit) == ((0, 1),)
    assert sum(end - start for start, end in spans_of([b"a", b"", b"b", b""], unit)) == 4


def test_tokens_stay_apart_and_an_unknown_unit_is_named():
    assert spans_of([b"a", b"b"], "tokens") == ((0, 1), (1, 2))
    with pytest.raises(InputError, match="unknown"):
        spans_of([b"a"], "letters")


def test_readable_texts_of_tokens():
    assert spans_of_strings(["Kath", "erine", "'s", " cat", "."], "words") == ((0, 3), (3, 4), (4, 5))
    assert spans_of_strings(["[CLS]", "un", "##believ", "##able", ".", "[SEP]"], "words") == (
        (0, 1),
        (1, 4),
        (4, 5),
        (5, 6),
    )
    assert spans_of_strings(["the", "cat", ".", "it", "slept"], "words") == tuple((at, at + 1) for at in range(5))
    assert spans_of_strings(["the", "cat", ".", "it", "slept"], "sentences") == ((0, 3), (3, 5))
    assert spans_of_strings([" a", "<0xF0><0x9F>", "<0x90><0x88>"], "words") == ((0, 1), (1, 3))


# --- sums ---


def test_keys_are_summed_and_queries_averaged():
    weights = np.array([[1.0, np.nan, np.nan], [0.5, 0.5, np.nan], [0.2, 0.3, 0.5]])
    np.testing.assert_allclose(summed(weights, [(0, 1), (1, 3)], [(0, 1), (1, 3)]), [[1, np.nan], [0.35, 0.65]])
    np.testing.assert_allclose(summed(weights, [(0, 2), (2, 3)], [(0, 2), (2, 3)]), [[1, np.nan], [0.5, 0.5]])
    cross = np.array([[1, 3, 4, 2]])
    np.testing.assert_allclose(summed(cross, [(0, 1)], [(0, 1), (1, 4)]), [[1, 9]])


def test_a_query_without_a_value_is_left_out_of_the_average():
    without_first = np.array([[np.nan, np.nan, np.nan], [np.nan, 1, np.nan], [np.nan, 0.25, 0.75]])
    np.testing.assert_allclose(
        summed(without_first, [(0, 2), (2, 3)], [(0, 1), (1, 2), (2, 3)])[0], [np.nan, 1, np.nan]
    )


@pytest.mark.parametrize("seed", range(5))
def test_rows_still_sum_to_one(seed):
    random = np.random.default_rng(seed)
    T = int(random.integers(1, 30))
    past = np.tri(T, dtype=bool)
    weights = np.where(past, random.random((2, 3, T, T)), np.nan)
    weights = (weights / np.nansum(weights, -1, keepdims=True)).astype(np.float32)
    edges = [0, *np.flatnonzero(random.random(T - 1) < 0.4) + 1, T]
    spans = [(int(a), int(b)) for a, b in pairwise(edges)]
    found = summed(weights, spans, spans)
    assert found.dtype == np.float32 and found.shape == (2, 3, len(spans), len(spans))
    np.testing.assert_allclose(np.nansum(found, -1), 1, atol=1e-6)
    assert (np.isnan(found) == ~np.tri(len(spans), dtype=bool)).all()  # blank above the diagonal only
    one = [(at, at + 1) for at in range(T)]
    np.testing.assert_array_equal(summed(weights, one, one), weights)


@pytest.mark.parametrize("spans", [[(0, 1)], [(0, 2), (1, 3)], [(0, 3), (3, 3)], [], [(1, 3)], [(0, 4)]])
def test_spans_that_do_not_cover_the_tokens(spans):
    with pytest.raises(InputError, match="spans"):
        summed(np.eye(3), spans, [(0, 3)])
