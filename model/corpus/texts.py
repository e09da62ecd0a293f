"""Texts to read a model on, and their division into sequences of equal length."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from model.api import LanguageModel
from model.corpus.kinds import kinds_of
from model.errors import InputError, say
from model.public import nonempty, one_of, public, whole
from model.text.held_out import TEXT

BUNDLED = {"princess": TEXT, "shakespeare": TEXT.with_name("shakespeare.txt")}  # see the README in their folder
VARIABLE = "PLAYGROUND_CORPUS"  # the folder of --corpus; only the command line sets it
MOST_BYTES = 2_000_000  # of the texts of a folder together
LENGTH, SEQUENCES = 64, 128
SHORTEST, LONGEST = 8, 128  # tokens of a sequence
MOST_SEQUENCES = 1024


@dataclass(frozen=True, eq=False)
class Corpus:
    """Sequences of equal length. Each begins with the tokens that the model puts before a text, if there are any."""

    ids: np.ndarray  # [N, T] int64
    kinds: np.ndarray  # [N, T] uint8, index into KINDS
    begins: int  # tokens of each sequence that the model puts before a text

    @property
    def first(self) -> int:
        """The first position that is a token of the text and sees another token: at least 1."""
        return max(self.begins, 1)


@public(name=one_of(BUNDLED))
def bundled(name: str) -> tuple[str, ...]:
    """Read a bundled text: a chapter of A Little Princess, or the beginning of Coriolanus."""
    return (BUNDLED[name].read_text(encoding="utf-8"),)


@public()
def folder_texts(folder: str) -> tuple[str, ...]:
    """Read the .txt files of a folder, in the order of their names.

    Raises InputError for a folder that does not exist or has no such file, for a file that is not UTF-8, and for more
    than MOST_BYTES together.
    """
    place = Path(folder).expanduser()
    if not folder or not place.is_dir():
        raise InputError("There is no such folder.", str(place), "Name a folder with .txt files.")
    files = sorted(path for path in place.glob("*.txt") if path.is_file())
    if not files:
        raise InputError("The folder has no .txt file.", str(place), "Put texts with UTF-8 encoding in it.")
    size = sum(path.stat().st_size for path in files)
    if size > MOST_BYTES:
        hint = say("At most {} MB can be read: keep some of the files.", MOST_BYTES / 1e6)
        raise InputError("The texts of the folder are too large.", f"{size / 1e6:.1f} MB", hint)
    return tuple(_read(path) for path in files)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError("A text of the folder is not in UTF-8.", path.name, "Save it as UTF-8.") from None


def given_folder() -> str:
    """Return the folder that the command line names by --corpus; "" without one."""
    return os.environ.get(VARIABLE, "")


@public(texts=nonempty, length=whole(SHORTEST, LONGEST), sequences=whole(1, MOST_SEQUENCES))
def corpus_of(lm: LanguageModel, texts: Sequence[str], length: int = LENGTH, sequences: int = SEQUENCES) -> Corpus:
    """Cut texts into consecutive sequences of `length` tokens, and keep at most `sequences`, evenly spread.

    A sequence does not cross texts, and begins with the tokens that the model puts before a text, such as BOS. What is
    left at the end of a text is dropped, unless no text fills a sequence: then the longest one is the only sequence.
    `length` is cut to the context of the model. Raises InputError if no text has SHORTEST tokens.
    """
    begin = list(lm.tokenizer.begin_ids)
    most = min(length, lm.config.n_ctx)
    room = most - len(begin)
    ids: list[list[int]] = []
    kinds: list[np.ndarray] = []
    longest: tuple[list[int], np.ndarray] = ([], np.empty(0, np.uint8))
    for text in texts:
        tokens = lm.tokenizer.encode_ids(text)
        found = kinds_of([lm.tokenizer.piece(each) for each in tokens])
        longest = max(longest, (tokens, found), key=lambda each: len(each[0]))
        for start in range(0, len(tokens) - room + 1, room):
            ids.append(tokens[start : start + room])
            kinds.append(found[start : start + room])
    if not ids:
        ids, kinds = [longest[0]], [longest[1]]
    if len(ids[0]) + len(begin) < min(SHORTEST, most):
        hint = say("Give a text of at least {} tokens.", SHORTEST)
        raise InputError("The text is too short for a corpus.", f"{len(ids[0])} tokens", hint)
    n = min(len(ids), sequences)
    taken = [at * len(ids) // n for at in range(n)]
    all_ids = np.array([[*begin, *ids[at]] for at in taken], dtype=np.int64)
    all_kinds = np.array([[*[0] * len(begin), *kinds[at]] for at in taken], dtype=np.uint8)
    all_kinds[:, 0] = 0  # the first token of a sequence, at which attention rests, whatever it is
    return Corpus(all_ids, all_kinds, len(begin))
