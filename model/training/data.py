"""Training data: documents, a byte-level BPE vocabulary, token files, and batches drawn from them."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from model.errors import InputError, say
from model.text.bpe_ranks import ALPHABET
from model.text.surrogates import joined
from model.text.tokenizer import Tokenizer, from_tokenizer_json
from model.training.tasks import IGNORE, ONE_CHARACTER, Task, bpe_file, symbol_vocabulary

END_OF_TEXT = "<|endoftext|>"
BYTES = 257  # size of the smallest vocabulary: 256 bytes and the end of text


@dataclass(frozen=True, eq=False)
class Batch:
    """Input ids and their next tokens; IGNORE marks positions that are not scored."""

    ids: np.ndarray  # [B, T] int64
    targets: np.ndarray  # [B, T] int64


# (rng, rows, tokens per row, completed fraction of the run) -> a batch. All randomness comes from rng.
Source = Callable[[np.random.Generator, int, int, float], Batch]
# (rows, tokens per row) -> fixed batches of all held-out text
HeldOut = Callable[[int, int], Iterator[Batch]]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and evaluation data for a run."""

    name: str
    tokenizer: Tokenizer
    tokenizer_json: str
    train: Source
    held_out: Mapping[str, HeldOut]  # by name of the held-out text

    @property
    def token_bytes(self) -> np.ndarray:
        """The number of bytes of each token's text; 0 for special tokens. [V]"""
        return token_bytes(self.tokenizer)


def token_bytes(tokenizer: Tokenizer) -> np.ndarray:
    """Count the bytes of each token's text; 0 for special tokens. [V]"""
    special = set(tokenizer.special.values())
    lengths = [0 if i in special else len(tokenizer.decode_bytes([i])) for i in range(tokenizer.vocab_size)]
    return np.array(lengths, dtype=np.int64)


# --- documents and vocabulary ----------------------------------------------------------------------


def end_of_text(tokenizer: Tokenizer) -> int:
    """Return the id of the end-of-text token. Raises InputError if the vocabulary has none."""
    if END_OF_TEXT not in tokenizer.special:
        raise InputError("The vocabulary has no end-of-text token.", tokenizer.name, "Use a model for text.")
    return tokenizer.special[END_OF_TEXT]


def documents(text: str) -> list[str]:
    """Split a text into documents at lines "<|endoftext|>"; empty documents are dropped."""
    parts = (part.strip("\n") for part in text.replace("\r\n", "\n").split(END_OF_TEXT))
    return [part for part in parts if part.strip()]


def split_documents(texts: Sequence[str], share: float, seed: int = 0) -> tuple[list[str], list[str]]:
    """Split texts into (training, held-out) documents, with at least one held out; a single one is cut near its end.

    Raises InputError if the text is too short to be split.
    """
    if len(texts) > 1:
        count = max(1, round(len(texts) * share))
        chosen = set(np.random.default_rng(seed).permutation(len(texts))[:count].tolist())
        return [t for i, t in enumerate(texts) if i not in chosen], [texts[i] for i in sorted(chosen)]
    text = texts[0] if texts else ""
    cut = int(len(text) * (1 - share))
    newline = text.rfind("\n", cut // 2, cut)
    cut = newline + 1 if newline > 0 else cut
    if min(cut, len(text) - cut) < 16:
        raise InputError("The text is too short for training.", f"{len(text)} characters", "Give a few pages of text.")
    return [text[:cut]], [text[cut:]]


def train_vocabulary(texts: Iterator[str] | Sequence[str], vocab_size: int) -> str:
    """Train a byte-level BPE vocabulary and return it as a tokenizer.json: bytes first, then merges, the end of text
    last.

    Ids are merge ranks, so that tiktoken's engine and the file agree. Sennrich et al. 2016, Radford et al. 2019.
    """
    from tokenizers import Tokenizer as Trainer
    from tokenizers import decoders, models, pre_tokenizers, trainers

    if vocab_size < BYTES:
        raise InputError("The vocabulary is too small.", f"{vocab_size} tokens", say("It needs at least {}.", BYTES))
    maker = Trainer(models.BPE())
    maker.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    maker.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    maker.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=vocab_size - 1, initial_alphabet=alphabet, show_progress=False)
    )
    maker.add_special_tokens([END_OF_TEXT])
    return maker.to_str()


def character_vocabulary(texts: Sequence[str]) -> str:
    """Build a tokenizer.json whose tokens are the characters of the texts in Unicode order, with the end of text last.

    Like `symbol_vocabulary`, it has the form of a byte-level BPE that all loaders read: a multi-byte character is
    built by merges, whose parts come after the characters.
    """
    letter = {byte: char for char, byte in ALPHABET.items()}
    characters = sorted({character for text in texts for character in text})
    spelled = ["".join(letter[byte] for byte in character.encode()) for character in characters]
    vocab = {each: number for number, each in enumerate(spelled)}
    merges = list(dict.fromkeys((each[:end], each[end]) for each in spelled for end in range(1, len(each))))
    for part in (part for pair in merges for part in pair):
        vocab.setdefault(part, len(vocab))
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    end = {"id": len(vocab), "content": END_OF_TEXT, "special": True, **flags}
    return bpe_file(vocab, [list(pair) for pair in merges], ONE_CHARACTER, [end])


def read_vocabulary(tokenizer_json: str) -> Tokenizer:
    """Build a tokenizer from the content of a tokenizer.json."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer.json"
        path.write_text(tokenizer_json, encoding="utf-8")
        return from_tokenizer_json(path)


def pack(texts: Sequence[str], tokenizer: Tokenizer) -> np.ndarray:
    """Tokenize all documents into one sequence, each followed by the end of text. uint16 [N]

    Raises InputError if the vocabulary has more than 2^16 tokens.
    """
    if tokenizer.vocab_size > 1 << 16:
        raise InputError("The vocabulary is too large for 16-bit files.", f"{tokenizer.vocab_size} tokens", "")
    end = end_of_text(tokenizer)
    parts = [np.array([*tokenizer.encode_ids(text), end], dtype=np.uint16) for text in texts]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint16)


# --- batches ---------------------------------------------------------------------------------------


def windows(tokens: np.ndarray, end: int) -> Source:
    """Return a source of windows of a token sequence: half of them start anywhere, and half at a document start.

    The latter are included because prompts begin at the start of a document.
    """
    starts = np.flatnonzero(tokens == end) + 1

    def draw(rng: np.random.Generator, rows: int, length: int, done: float) -> Batch:
        last = len(tokens) - length - 1
        if last < 0:
            raise InputError("The text is too short for this context.", f"{len(tokens)} tokens", "Give more text.")
        at = rng.integers(0, last + 1, size=rows)
        if len(starts):
            snapped = starts[np.minimum(np.searchsorted(starts, at), len(starts) - 1)]
            near = (snapped >= at) & (snapped < at + length) & (snapped <= last) & (rng.random(rows) < 0.5)
            at = np.where(near, snapped, at)
        return _batch(tokens[at[:, None] + np.arange(length + 1)])

    return draw


def _batch(ids: np.ndarray, scored: np.ndarray | None = None) -> Batch:
    """Split ids [B, T + 1], scored [B, T], into inputs and their next tokens."""
    ids = ids.astype(np.int64)
    targets = ids[:, 1:] if scored is None else np.where(scored, ids[:, 1:], IGNORE)
    return Batch(ids[:, :-1], targets)


def consecutive(tokens: np.ndarray) -> HeldOut:
    """Return all tokens in adjacent windows, each predicted once; the remainder of the last row is masked."""

    def every(rows: int, length: int) -> Iterator[Batch]:
        starts = np.arange(0, len(tokens) - 1, length)
        place = starts[:, None] + np.arange(length + 1)  # [windows, T + 1]
        ids = tokens[np.minimum(place, len(tokens) - 1)]
        for at in range(0, len(starts), rows):
            yield _batch(ids[at : at + rows], place[at : at + rows, 1:] < len(tokens))

    return every


def repeated(vocab_size: int) -> Source:
    """Return a source of random tokens, repeated to the end of the row, with only the repetition scored. It teaches
    copying.

    Periods range from 1/64 to half of the row, and most rows have few distinct tokens. Both are drawn log-uniformly,
    so that short and simple patterns are learned first.
    """

    def draw(rng: np.random.Generator, rows: int, length: int, done: float) -> Batch:
        shortest, longest = max(1, length // 64), length // 2
        period = np.exp(rng.uniform(np.log(shortest), np.log(longest + 1), size=rows)).astype(int)
        once = rng.integers(0, vocab_size, size=(rows, longest + 1))
        alphabet = np.exp(rng.uniform(np.log(min(8, longest)), np.log(4 * longest), size=rows)).astype(int)[:, None]
        few = np.take_along_axis(once, rng.integers(0, np.minimum(alphabet, longest + 1), size=once.shape), axis=1)
        once = np.where(alphabet > longest, once, few)
        ids = np.take_along_axis(once, np.arange(length + 1)[None, :] % period[:, None], axis=1)
        return _batch(ids, np.arange(1, length + 1)[None, :] > period[:, None])

    return draw


@dataclass(frozen=True)
class DataSource:
    """One source of a mixture: its fraction of the rows, and its fraction in the final phase."""

    source: Source
    share: float
    final_share: float


def mixture(parts: Sequence[DataSource], final_from: float = 1.0) -> Source:
    """Return a source that draws rows from several sources in proportion to their shares. The final phase begins at
    the fraction `final_from` of the run.
    """

    def draw(rng: np.random.Generator, rows: int, length: int, done: float) -> Batch:
        shares = np.array([part.final_share if done >= final_from else part.share for part in parts], dtype=float)
        counts = np.bincount(rng.choice(len(parts), size=rows, p=shares / shares.sum()), minlength=len(parts))
        batches = [part.source(rng, int(n), length, done) for part, n in zip(parts, counts, strict=True) if n]
        return Batch(np.concatenate([b.ids for b in batches]), np.concatenate([b.targets for b in batches]))

    return draw


# --- datasets --------------------------------------------------------------------------------------


def text_dataset(text: str, vocab_size: int | None, *, held_out: float = 0.1, seed: int = 0) -> Dataset:
    """Build the dataset of a single text: vocabulary, training tokens, and held-out part. If `vocab_size` is None, the
    tokens are its characters.

    The vocabulary includes the characters of the held-out part, so the model can produce all of them.
    """
    train, held_out_part = split_documents(documents(joined(text)), held_out, seed)
    every = [*train, *held_out_part]
    tokenizer_json = character_vocabulary(every) if vocab_size is None else train_vocabulary(train, vocab_size)
    tokenizer = read_vocabulary(tokenizer_json)
    end = end_of_text(tokenizer)
    return Dataset(
        "text",
        tokenizer,
        tokenizer_json,
        windows(pack(train, tokenizer), end),
        {"text": consecutive(pack(held_out_part, tokenizer))},
    )


def task_dataset(name: str, task: Task, *, examples: int = 256, seed: int = 0) -> Dataset:
    """Build the dataset of a synthetic task: fresh examples for training, a fixed set of other examples for
    evaluation.
    """
    tokenizer_json = symbol_vocabulary(task.symbols)

    def train(rng: np.random.Generator, rows: int, length: int, done: float) -> Batch:
        return _batch(*task.make(rng, rows, length, False))

    def held_out(rows: int, length: int) -> Iterator[Batch]:
        full = _batch(*task.make(np.random.default_rng([seed, 1]), examples, length, True))
        for at in range(0, examples, rows):
            yield Batch(full.ids[at : at + rows], full.targets[at : at + rows])

    return Dataset(name, read_vocabulary(tokenizer_json), tokenizer_json, train, {name: held_out})


def write_tokens(path: Path, tokens: np.ndarray) -> None:
    """Write a token sequence as little-endian uint16."""
    tokens.astype("<u2").tofile(path)


def read_tokens(path: Path, vocab_size: int = 1 << 16) -> np.ndarray:
    """Open a memory-mapped token file. uint16 [N]. Raises InputError if the file is broken or belongs to another
    vocabulary.
    """
    try:
        tokens = np.memmap(path, dtype="<u2", mode="r")
    except (OSError, ValueError) as error:  # the file is empty, or ends within a token
        raise InputError("A token file cannot be read.", f"{path.name}: {error}", "Run prepare again.") from error
    if (largest := int(tokens.max())) >= vocab_size:
        got = f"{path.name}: token {largest} of {vocab_size}"
        raise InputError("A token file belongs to another vocabulary.", got, "Run prepare again.")
    return tokens
