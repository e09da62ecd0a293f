"""Text to train on: documents, vocabulary, token files, and the batches drawn from them."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from model.errors import InputError
from model.training import data
from model.training.data import END_OF_TEXT, Batch, DataSource
from model.training.tasks import IGNORE

TEXT = [
    "The fox ran. The fox ran home.\n\nThe hen sat, and the hen sat.\n",
    "\tÉté à la plage: 1234 cafés!  Thé?",
    "狐狸跑回家。狐狸跑。",
    "The cat 🦊🦊 sat on the mat.\nThe cat sat.",
]
VARIED = [
    "",
    "a",
    "The fox sat on the hen.",
    "naïve Été, ça va",
    "狐狸坐下了",
    "🦊 and 🐔\n\n\n🦊",
    "1234567890 12 3",
    "a     b  \n   c\t\td ",
    "don't we'll I'm THE\r\nfox\u2028",
    "\x00\x01\x7f",
    "½²Ⅷ ١٢٣ e\u0301",
]


@pytest.fixture(scope="module")
def vocabulary() -> str:
    return data.train_vocabulary(TEXT * 3, 320)


@pytest.fixture(scope="module")
def tokenizer(vocabulary):
    return data.read_vocabulary(vocabulary)


@pytest.fixture(scope="module")
def theirs(vocabulary) -> Tokenizer:
    return Tokenizer.from_str(vocabulary)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# --- documents ---


def test_documents_are_what_stands_between_the_marks():
    text = f"\n\n  One.\n\nTwo. \r\n{END_OF_TEXT}\r\nThree.\r\n{END_OF_TEXT}\n \n{END_OF_TEXT}{END_OF_TEXT}Four"
    assert data.documents(text) == ["  One.\n\nTwo. ", "Three.", "Four"]
    assert data.documents("") == data.documents(END_OF_TEXT) == []


def test_whole_documents_are_held_out():
    texts = [f"document {i}" for i in range(20)]
    train, held = data.split_documents(texts, 0.1)
    assert (len(train), len(held)) == (18, 2)
    assert sorted(train + held, key=texts.index) == texts
    assert train == sorted(train, key=texts.index) and held == sorted(held, key=texts.index)
    assert data.split_documents(texts, 0.1) == (train, held)
    assert len({tuple(data.split_documents(texts, 0.1, seed)[1]) for seed in range(8)}) > 4
    assert [len(part) for part in data.split_documents(texts[:2], 0.01)] == [1, 1]


def test_a_single_text_is_cut_near_its_end():
    """90% of 1000 characters in lines of 10 is 900, where a line ends; from 853 the cut goes back to the end of one."""
    lines = "123456789\n" * 100
    assert data.split_documents([lines], 0.1) == ([lines[:900]], [lines[900:]])
    assert data.split_documents(["abcd" + lines], 0.15) == (["abcd" + lines[:840]], [lines[840:]])  # int(853.4)
    assert data.split_documents(["x" * 200], 0.1) == (["x" * 180], ["x" * 20])
    early = "x" * 20 + "\n" + "x" * 179  # a line that ends in the first half is too far away
    assert data.split_documents([early], 0.1) == ([early[:180]], [early[180:]])


@pytest.mark.parametrize(("size", "share"), [(0, 0.1), (30, 0.5), (150, 0.1), (150, 0.9)])
def test_a_text_too_short_to_hold_any_out_is_refused(size: int, share: float):
    """16 characters are the least of either part: a half of 32, a tenth of 160."""
    assert [len(part) for (part,) in data.split_documents(["x" * 32], 0.5)] == [16, 16]
    assert [len(part) for (part,) in data.split_documents(["x" * 160], 0.1)] == [144, 16]
    with pytest.raises(InputError, match=f"too short for training.*{size} characters"):
        data.split_documents(["x" * size] if size else [], share)


# --- vocabulary ---


def test_bytes_come_first_and_the_end_of_text_last(tokenizer, vocabulary):
    """320 tokens: 256 bytes, 63 merges, the end of text."""
    assert tokenizer.vocab_size == 320
    assert {tokenizer.decode_bytes([i]) for i in range(256)} == {bytes([i]) for i in range(256)}
    assert tokenizer.special == {END_OF_TEXT: 319}
    parts = {tokenizer.decode_bytes([i]) for i in range(256)}
    for i in range(256, 319):  # every merge joins two tokens that came before it
        token = tokenizer.decode_bytes([i])
        assert any(token[:cut] in parts and token[cut:] in parts for cut in range(1, len(token)))
        parts.add(token)
    assert len(parts) == 319


def test_the_end_of_text_is_read_only_on_request(tokenizer):
    assert 319 not in tokenizer.encode_ids(f"a{END_OF_TEXT}")
    assert tokenizer.encode_ids(f"a{END_OF_TEXT}", special=True)[-1] == 319


def test_the_smallest_vocabulary_is_the_bytes():
    smallest = data.read_vocabulary(data.train_vocabulary(TEXT, data.BYTES))
    assert smallest.vocab_size == 257
    assert len(smallest.encode_ids("Thé")) == 4
    with pytest.raises(InputError, match="256 tokens"):
        data.train_vocabulary(TEXT, 256)


def test_a_text_with_little_to_merge_gives_a_smaller_vocabulary():
    """ "ab" is the one pair: 256 bytes, "ab", the end of text."""
    small = data.read_vocabulary(data.train_vocabulary(iter(["ab"]), 1000))
    assert (small.vocab_size, small.special[END_OF_TEXT]) == (258, 257)
    assert small.encode_ids("ab") == [256]


@pytest.mark.parametrize("text", [*VARIED, *TEXT])
def test_ids_are_those_of_the_tokenizers_library(tokenizer, theirs, text: str):
    assert theirs.get_vocab_size() == tokenizer.vocab_size
    ids = tokenizer.encode_ids(text)
    assert ids == theirs.encode(text).ids
    assert tokenizer.decode(ids) == text


@settings(max_examples=150, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"])) | st.text("The fox sat.\n  12é🦊狐"))
def test_any_text_has_the_ids_of_the_tokenizers_library(tokenizer, theirs, text: str):
    assert tokenizer.encode_ids(text) == theirs.encode(text).ids


def test_bytes_of_each_token(tokenizer):
    sizes = data.token_bytes(tokenizer)
    assert sizes.shape == (320,) and sizes[319] == 0
    assert sizes[:256].tolist() == [1] * 256 and sizes[256:319].min() >= 2
    assert sizes[tokenizer.encode_ids(TEXT[1])].sum() == len(TEXT[1].encode())


# --- token files ---


def test_documents_are_packed_each_with_its_end(tokenizer):
    tokens = data.pack(["The fox", "", "狐\n"], tokenizer)
    assert tokens.dtype == np.uint16
    assert tokenizer.decode(tokens) == f"The fox{END_OF_TEXT}{END_OF_TEXT}狐\n{END_OF_TEXT}"
    assert (tokens == 319).sum() == 3
    assert data.pack([], tokenizer).shape == (0,) and data.pack([], tokenizer).dtype == np.uint16


def test_a_vocabulary_beyond_16_bits_is_refused():
    def numbered(size: int):
        return SimpleNamespace(vocab_size=size, special={END_OF_TEXT: size - 1}, encode_ids=lambda text: [0])

    assert data.pack(["a"], numbered(65536)).tolist() == [0, 65535]
    with pytest.raises(InputError, match="65537 tokens"):
        data.pack(["a"], numbered(65537))


def test_tokens_come_back_from_a_file(tmp_path):
    tokens = np.array([0, 1, 258, 65535], dtype=np.uint16)
    data.write_tokens(tmp_path / "a.u16", tokens)
    assert (tmp_path / "a.u16").read_bytes() == bytes([0, 0, 1, 0, 2, 1, 255, 255])  # low byte first
    back = data.read_tokens(tmp_path / "a.u16")
    assert isinstance(back, np.memmap) and back.dtype == np.uint16
    assert back.tolist() == tokens.tolist()


# --- windows ---

END = 99
STREAM = np.array([0, 1, 2, END, 4, END, 6, 7, END, 9, 10, END, 12, 13, 14], dtype=np.uint16)  # at 4, 6, 9 and 12


class Dice:
    """A generator whose places and coins are given."""

    def __init__(self, at: list[int], coins: list[float]) -> None:
        self.at, self.coins = np.array(at), np.array(coins)

    def integers(self, low: int, high: int, size: int) -> np.ndarray:
        assert (low, high, size) == (0, 12, len(self.at))  # 15 tokens hold 12 windows of 3 + 1
        return self.at

    def random(self, size: int) -> np.ndarray:
        return self.coins


@pytest.mark.parametrize(
    ("at", "coin", "start"),
    [
        (2, 0.4, 4),  # a document starts at 4, within 2 .. 4
        (2, 0.5, 2),  # the other half stays
        (1, 0.0, 1),  # 1 .. 3: none starts
        (4, 0.4, 4),  # one starts here, which comes before the one at 6
        (5, 0.4, 6),
        (7, 0.4, 9),
        (9, 0.9, 9),
        (10, 0.0, 10),  # 12 starts within 10 .. 12, but the row would end behind the text
        (11, 0.0, 11),
    ],
)
def test_half_of_the_windows_move_to_the_document_that_starts_in_them(at: int, coin: float, start: int):
    batch = data.windows(STREAM, END)(Dice([at], [coin]), 1, 3, 0.0)
    assert batch.ids.tolist() == [STREAM[start : start + 3].tolist()]
    assert batch.targets.tolist() == [STREAM[start + 1 : start + 4].tolist()]
    assert batch.ids.dtype == batch.targets.dtype == np.int64


def test_behind_the_last_document_windows_stay():
    """Documents start at 2 and 3; a window at 5 must not be moved back, nor beyond the list of starts."""
    tokens = np.array([0, END, END, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14])
    assert data.windows(tokens, END)(Dice([5], [0.0]), 1, 3, 0.0).ids.tolist() == [[5, 6, 7]]


def test_windows_are_parts_of_the_text_from_end_to_end():
    """Without documents all 91 places come, evenly: of 9100 draws 100 each, give or take 10."""
    tokens = np.arange(1000, 1100)
    batch = data.windows(tokens, END)(rng(), 9100, 9, 0.0)
    assert np.array_equal(batch.ids, batch.ids[:, :1] + np.arange(9))
    assert np.array_equal(batch.targets, batch.ids + 1)
    counts = np.bincount(batch.ids[:, 0] - 1000)
    assert len(counts) == 91 and counts.min() > 50 and counts.max() < 150


def test_the_same_dice_draw_the_same_windows():
    draw = data.windows(STREAM, END)
    assert np.array_equal(draw(rng(1), 200, 3, 0.0).ids, draw(rng(1), 200, 3, 0.0).ids)
    assert not np.array_equal(draw(rng(1), 200, 3, 0.0).ids, draw(rng(2), 200, 3, 0.0).ids)


def test_too_little_text_for_a_window_is_refused():
    draw = data.windows(STREAM, END)
    assert draw(rng(), 2, 14, 0.0).ids.tolist() == [STREAM[:14].tolist()] * 2
    with pytest.raises(InputError, match="15 tokens"):
        draw(rng(), 2, 15, 0.0)


@pytest.mark.parametrize("size", [0, 1, 2, 5, 8, 9, 10, 17])
def test_what_is_held_out_is_predicted_once_each(size: int):
    """Every token but the first is scored once, in order, after the token that comes before it."""
    tokens = np.arange(100, 100 + size).astype(np.uint16)
    batches = [*data.consecutive(tokens)(2, 4)]
    assert all(1 <= len(batch.ids) <= 2 and batch.ids.shape[1] == 4 for batch in batches)
    ids = np.concatenate([batch.ids.ravel() for batch in batches]) if batches else np.empty(0, int)
    targets = np.concatenate([batch.targets.ravel() for batch in batches]) if batches else np.empty(0, int)
    scored = targets != IGNORE
    assert targets[scored].tolist() == [*range(101, 100 + size)]
    assert ids[scored].tolist() == [*range(100, 99 + size)]
    assert len(batches) == -(-max(size - 1, 0) // 8)  # two rows of four predict 8


# --- repeated tokens and mixtures ---


@pytest.mark.parametrize(("length", "shortest", "longest"), [(32, 1, 16), (9, 1, 4), (4, 1, 2), (2, 1, 1)])
def test_the_second_round_repeats_the_first_and_alone_is_scored(length: int, shortest: int, longest: int):
    with warnings.catch_warnings(action="error"):
        batch = data.repeated(50)(rng(), 3000, length, 0.0)
    ids = np.concatenate([batch.ids, batch.targets[:, -1:]], axis=1)  # the last token may be masked where none repeats
    periods = np.where(batch.targets != IGNORE, np.arange(length), length).min(axis=1)
    for row, targets, period in zip(ids, batch.targets, periods.tolist(), strict=True):
        assert targets[:period].tolist() == [IGNORE] * period  # what follows token 0 .. period - 1
        assert targets[period:].tolist() == row[period + 1 :].tolist() == row[1 : length + 1 - period].tolist()
    assert {*periods.tolist()} == {*range(shortest, longest + 1)}
    assert batch.ids.min() >= 0 and batch.ids.max() < 50
    if length == 32:
        assert {*batch.ids.ravel().tolist()} == {*range(50)}


def test_short_rounds_and_few_tokens_are_as_common_as_long_ones_and_many():
    """Of 64 tokens a round has 1 to 32, each doubling one row in five (3000 rows: 600, give or take 22).

    Rows draw from 8 to 128 tokens: up to 32 for half of them, which a long round repeats, the rest from all.
    """
    batch = data.repeated(60_000)(rng(), 3000, 64, 0.0)
    periods = np.where(batch.targets != IGNORE, np.arange(64), 64).min(axis=1)
    doublings = np.bincount(np.minimum(np.log2(periods).astype(int), 4))
    assert len(doublings) == 5 and doublings.min() > 500 and doublings.max() < 700
    distinct = np.array([len({*row[:period]}) for row, period in zip(batch.ids, periods.tolist(), strict=True)])
    many = (distinct >= periods - 1)[periods >= 24]
    assert len(many) > 200 and 0.4 < many.mean() < 0.6
    assert distinct[periods >= 24].min() < 10


def labeled(label: int):
    """A source of rows full of `label`; the targets are the share of the run that is behind, in percent."""
    return lambda rng, rows, length, done: Batch(
        np.full((rows, length), label), np.full((rows, length), int(100 * done))
    )


def never(rng, rows, length, done):
    raise AssertionError("drawn from")


def test_rows_come_by_their_shares():
    """Shares 1 : 3 of 4000 rows: 1000 and 3000, give or take 27."""
    draw = data.mixture([DataSource(labeled(0), 1, 0), DataSource(labeled(1), 3, 0), DataSource(never, 0, 1)])
    batch = draw(rng(), 4000, 5, 0.37)
    assert batch.ids.shape == batch.targets.shape == (4000, 5)
    assert (batch.targets == 37).all()
    assert abs(int((batch.ids[:, 0] == 1).sum()) - 3000) < 110
    assert np.array_equal(draw(rng(), 40, 5, 0.0).ids, draw(rng(), 40, 5, 0.0).ids)


def test_the_final_phase_has_shares_of_its_own():
    draw = data.mixture([DataSource(labeled(0), 1, 0.2), DataSource(labeled(1), 0, 0.8)], final_from=0.75)
    assert draw(rng(), 1000, 2, 0.7499).ids.max() == 0
    for done in (0.75, 0.9):
        assert abs(int(draw(rng(), 1000, 2, done).ids[:, 0].sum()) - 800) < 60
    always = data.mixture([DataSource(labeled(0), 1, 0), DataSource(never, 0, 1)])
    assert always(rng(), 50, 2, 0.999).ids.max() == 0


# --- a text as a dataset ---


@pytest.mark.parametrize("text", ["To be, or not to be\n", "机器学习很有趣，é 🐈 naïve\n\tx"])
def test_a_vocabulary_of_characters_has_one_token_for_each(text):
    """Against the tokenizers library, which reads the same file."""
    file = data.character_vocabulary([text])
    tokenizer, theirs = data.read_vocabulary(file), Tokenizer.from_str(file)
    characters = sorted(set(text))
    assert [tokenizer.encode_ids(each) for each in characters] == [[n] for n in range(len(characters))]
    assert tokenizer.encode_ids(text) == theirs.encode(text).ids == [characters.index(each) for each in text]
    assert tokenizer.decode(tokenizer.encode_ids(text)) == text
    assert tokenizer.special == {END_OF_TEXT: tokenizer.vocab_size - 1}
    if text.isascii():
        assert tokenizer.vocab_size == len(characters) + 1
    with pytest.raises(InputError, match="no token"):
        tokenizer.encode_ids("Q")


def test_a_text_is_trained_on_but_for_what_is_held_out():
    """Ten documents "n n n ...", one of them held out: its number is read by no training window."""
    names = [name * 8 for name in ("ant ", "bee ", "cat ", "dog ", "eel ", "fox ", "gnu ", "hen ", "ibis ", "jay ")]
    dataset = data.text_dataset(END_OF_TEXT.join(names), 300, held_out=0.1, seed=2)
    held = [*dataset.held_out["text"](16, 64)]
    text = dataset.tokenizer.decode([held[0].ids[0, 0], *held[0].targets[held[0].targets != IGNORE]])
    assert len(held) == 1 and text.removesuffix(END_OF_TEXT) in names
    read = {dataset.tokenizer.decode(row) for row in dataset.train(rng(), 200, 30, 0.0).ids}
    assert not any(text[:3] in row for row in read)
    assert all(any(name[:3] in row for row in read) for name in names if name[:3] != text[:3])
    assert np.array_equal(dataset.token_bytes, data.token_bytes(dataset.tokenizer))
    assert data.read_vocabulary(dataset.tokenizer_json).vocab_size == dataset.tokenizer.vocab_size
