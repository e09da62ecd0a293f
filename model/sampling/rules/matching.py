"""The state of a rule after a text: which tokens may come next, what is forced, and whether the text may end.

llguidance (https://github.com/guidance-ai/llguidance) follows the rule byte by byte: a derivative-based lexer and an
Earley parser, and a walk through the tree of all tokens for the mask.
"""

import functools
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from model.errors import DeadEnd, InputError
from model.sampling.rules.bytes_of_tokens import SINGLE, ByteVocabulary
from model.sampling.rules.rule import Rule
from model.sampling.rules.source import mistake, source_of, too_costly, try_out

_STATES = 64  # number of masks kept for each rule
_END = b"<end of text>"  # stands for an end token in a vocabulary without one
# Limits of llguidance, in its own units; at most a few hundred milliseconds to start and some tens for a step.
_LIMITS = {
    "initial_lexer_fuel": 1_000_000,
    "step_lexer_fuel": 200_000,
    "step_max_items": 50_000,
    "max_lexer_states": 50_000,
    "max_grammar_size": 100_000,
    "max_items_in_row": 2000,
    "verbose_errors": False,
}


@dataclass(frozen=True, eq=False)
class RuleState:
    """The tokens that a rule allows after a text, and the state of its parse."""

    status: str  # "open", "complete" (only an end token may come), "over" (an end token came) or "left" (it broke off)
    allowed: np.ndarray  # whether the rule allows each token; all of them once the rule is over or left. bool [V]
    may_end: bool  # whether the text so far is complete
    forced: bytes  # the only bytes that may come next, as far as that is certain
    fits: int  # number of tokens that fit; all of them unless the text left the rule

    @property
    def binds(self) -> bool:
        """True if the rule still says what may come next."""
        return self.status in ("open", "complete")


@functools.lru_cache(maxsize=4)
def _tokenizer(vocabulary: ByteVocabulary) -> Any:
    """Build llguidance's tree of all tokens. The last token is an end token of our own if the vocabulary has none."""
    from llguidance import LLTokenizer, TokenizerWrapper

    class Tokens(SimpleNamespace):
        def __call__(self, text: object) -> list[int]:
            return []  # only needed for forced tokens, which `no_forcing` turns off

    ending = sorted(vocabulary.ending) or [len(vocabulary.raw)]
    raw = [*vocabulary.raw, *([] if vocabulary.ending else [_END])]
    special = sorted({*vocabulary.special, *ending})
    own = Tokens(eos_token_id=ending[0], bos_token_id=None, tokens=raw, special_token_ids=special)
    return LLTokenizer(TokenizerWrapper(own), eos_token=ending)


@dataclass(eq=False)
class _Reader:
    """A compiled rule, which is moved from text to text by taking back tokens and reading others."""

    rule: Rule
    start: Any  # llguidance's matcher before any token
    matcher: Any
    read: list[int] = field(default_factory=list)
    states: "OrderedDict[tuple[int, ...], RuleState]" = field(default_factory=OrderedDict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def state(self, ids: tuple[int, ...]) -> RuleState:
        """Return the state after a text."""
        with self.lock:
            if ids not in self.states:
                self.states[ids] = self._state(ids)
                if len(self.states) > _STATES:
                    self.states.popitem(last=False)
            self.states.move_to_end(ids)
            return self.states[ids]

    def _state(self, ids: tuple[int, ...]) -> RuleState:
        vocabulary, matcher = self.rule.vocabulary, self.matcher
        V = len(vocabulary.raw)
        same = next((n for n, (a, b) in enumerate(zip(self.read, ids, strict=False)) if a != b), None)
        same = min(len(self.read), len(ids)) if same is None else same
        if len(self.read) > same and not matcher.rollback(len(self.read) - same):
            matcher.reset()
            same = 0
        del self.read[same:]
        for place in range(same, len(ids)):
            token = ids[place]
            if token in vocabulary.ending:
                over = matcher.is_accepting() and place == len(ids) - 1
                return RuleState("over" if over else "left", np.ones(V, bool), over, b"", place + over)
            if not (0 <= token < V and matcher.try_consume_tokens([token])):
                self._check()
                return RuleState("left", np.ones(V, bool), False, b"", place)
            self.read.append(token)
        bits = np.frombuffer(matcher.compute_bitmask(), np.uint8)
        if "NoExtension" in matcher.get_error():
            self._renew()
            return RuleState("open", np.zeros(V, bool), False, b"", len(ids))
        self._check()
        allowed = np.unpackbits(bits, bitorder="little")[:V].astype(bool)
        may_end, forced = matcher.is_accepting(), b"" if matcher.is_accepting() else matcher.compute_ff_bytes()
        self._check()
        goes_on = allowed.sum() > sum(bool(allowed[each]) for each in vocabulary.ending)
        status = "complete" if may_end and not goes_on else "open"
        return RuleState(status, allowed, may_end, forced, len(ids))

    def _check(self) -> None:
        """Raise InputError if a limit was exceeded."""
        if self.matcher.is_error():
            self._renew()
            raise too_costly(self.rule.text[:60])

    def _renew(self) -> None:
        """Begin again: llguidance does not leave an error."""
        self.matcher = self.start.deep_copy()
        self.read.clear()


@functools.lru_cache(maxsize=16)
def _reader(rule: Rule) -> _Reader:
    from llguidance import LLMatcher, LLParserLimits

    source = source_of(rule)
    try_out(rule.kind, source)
    matcher = LLMatcher(_tokenizer(rule.vocabulary), source, log_level=0, limits=LLParserLimits(**_LIMITS))
    if matcher.is_error():
        raise mistake(rule.kind, matcher.get_error())
    return _Reader(rule, matcher, matcher.deep_copy())


def compiled(rule: Rule) -> Rule:
    """Compile a rule, once, and return it. Raises InputError for a mistake in it, with its place, and for one that
    takes too much time or memory.
    """
    _reader(rule)
    start = state_of(rule.over(SINGLE), ())
    if not start.allowed.any() and not start.may_end:
        raise InputError("No text follows this rule.", rule.text[:60], "Remove what can never be met.")
    return rule


def state_of(rule: Rule, ids: Sequence[int]) -> RuleState:
    """Return the state of a rule after the tokens that were generated [n]. Raises the errors of `compiled`."""
    return _reader(rule).state(tuple(map(int, ids)))


def check_open(rule: Rule, ids: Sequence[int], state: RuleState) -> None:
    """Raise DeadEnd if the rule needs a text that no token of the vocabulary continues."""
    if state.status == "open" and not state.allowed.any():
        wanted = next_characters(rule, ids)
        if not wanted:
            hint = "Remove what can never be met."
            raise DeadEnd("From here, no text can follow the rule.", rule.text[:60], hint)
        what = "No token of this vocabulary continues the text as the rule wants it."
        raise DeadEnd(what, wanted, "Change the rule there, or use a model with these characters.")


# --- what could have come instead ------------------------------------------------------------------------------


def read_so_far(rule: Rule, ids: Sequence[int]) -> bytes:
    """Return the bytes of the text so far, without an end token."""
    return b"".join(rule.vocabulary.raw[token] for token in ids if token not in rule.vocabulary.special)


def next_bytes(rule: Rule, ids: Sequence[int]) -> np.ndarray:
    """Return whether each byte may come next, whatever the vocabulary. bool [256]"""
    return state_of(rule.over(SINGLE), tuple(read_so_far(rule, ids))).allowed


def next_characters(rule: Rule, ids: Sequence[int]) -> str:
    """Return the characters that may come next, as in "0–9 a–f", in the order of their code points."""
    return character_ranges(np.flatnonzero(next_bytes(rule, ids)).tolist())


def character_ranges(values: Sequence[int], most: int = 8) -> str:
    """Format byte values in increasing order as ranges of characters; bytes beyond ASCII are "non-ASCII"."""
    ranges: list[list[int]] = []
    for value in (each for each in values if each < 0x80):
        if ranges and value == ranges[-1][1] + 1:
            ranges[-1][1] = value
        else:
            ranges.append([value, value])
    names = [
        _name(low) if low == high else f"{_name(low)}{'–' if high > low + 1 else ' '}{_name(high)}"
        for low, high in ranges[:most]
    ]
    more = ["…"] if len(ranges) > most else []
    return " ".join([*names, *more, *(["non-ASCII"] if any(each >= 0x80 for each in values) else [])])


def _name(value: int) -> str:
    return {0x20: "·", 0x0A: "↵", 0x09: "⇥"}.get(value) or (chr(value) if 0x21 <= value < 0x7F else f"<0x{value:02X}>")


@dataclass(frozen=True)
class Reason:
    """Why a rule forbids a token."""

    fits: str  # the beginning of the token that fits
    fails: str  # the first character that does not
    instead: str  # the characters that may come there


def reason(rule: Rule, ids: Sequence[int], token: int) -> Reason:
    """Return where a forbidden token breaks the rule after a text, byte by byte. A special token is no text: it fits
    nowhere.
    """
    vocabulary, so_far = rule.vocabulary, read_so_far(rule, ids)
    raw = b"" if token in vocabulary.special else vocabulary.raw[token]
    single = rule.over(SINGLE)
    state = state_of(single, tuple(so_far + raw))
    fits = max(state.fits - len(so_far), 0)
    at = state_of(single, tuple(so_far + raw[:fits]))
    rest = raw[fits:].decode("utf-8", "replace")
    instead = character_ranges(np.flatnonzero(at.allowed).tolist()) if at.binds else ""
    return Reason(raw[:fits].decode("utf-8", "replace"), rest[:1], instead)
