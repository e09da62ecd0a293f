"""The state of a rule: exact masks by brute force, forced text, dead ends, costs."""

import time

import numpy as np
import pytest

from model.errors import DeadEnd, InputError
from model.sampling.rules import matching, source
from model.sampling.rules.bytes_of_tokens import SINGLE
from model.sampling.rules.matching import (
    character_ranges,
    check_open,
    compiled,
    next_characters,
    reason,
    state_of,
)
from tests.support.rules import RULES, rule, vocabulary

FULL = vocabulary()
END = max(FULL.ending)


def ids_of(text: str, tokens=FULL) -> list[int]:
    """One token for each character."""
    return [tokens.raw.index(char.encode()) for char in text]


def allowed(state, tokens=FULL) -> set[bytes]:
    return {tokens.raw[n] for n in np.flatnonzero(state.allowed)}


def test_the_mask_of_a_choice_is_exact():
    choice = rule("choice", "·yes\n·no")
    assert allowed(state_of(choice, [])) == {b" ", b" y", b" no"}
    assert allowed(state_of(choice, ids_of(" "))) == {b"y", b"n", b"yes", b"no"}
    assert allowed(state_of(choice, ids_of(" ye"))) == {b"s"}
    assert allowed(state_of(choice, ids_of(" yes"))) == {b"<|end|>"}


@pytest.mark.parametrize("start", ["", "1", "12", "12a", "12ab", "12abb"])
def test_a_mask_equals_the_tokens_that_fit_byte_by_byte(start):
    """Independent of the walk through the tree of tokens: each token is read as single bytes."""
    followed = rule("regex", r"[0-9]{2}(ab|abb| yes)?")
    state, single = state_of(followed, ids_of(start)), followed.over(SINGLE)
    for token, raw in enumerate(FULL.raw):
        text = start.encode() + raw
        by_bytes = state_of(single, tuple(text)).fits == len(text) and token not in FULL.special
        assert state.allowed[token] == (state.may_end if token == END else by_bytes), raw


@pytest.mark.parametrize(("kind", "text", "fits"), RULES)
def test_any_walk_through_the_masks_ends_with_a_text_that_follows_the_rule(kind, text, fits):
    followed, rng = rule(kind, text), np.random.default_rng(0)
    for _ in range(8):
        ids: list[int] = []
        while not ids or ids[-1] != END:
            state = state_of(followed, ids)
            ids.append(END if state.may_end else int(rng.choice(np.flatnonzero(state.allowed))))
            assert len(ids) < 200
        written = b"".join(FULL.raw[each] for each in ids[:-1]).decode()
        assert fits(written), written
        assert state_of(followed, ids).status == "over"


def test_the_order_of_texts_does_not_matter():
    followed = rule("regex", r"[a-z]{1,6}[0-9]+")
    texts = [ids_of(text) for text in ("abc", "ab", "abd1", "", "abd", "zz9", "abc")]
    matching._reader.cache_clear()
    first = [state_of(followed, text).allowed for text in texts]
    for text, mask in zip(texts, first, strict=True):
        matching._reader.cache_clear()
        assert np.array_equal(state_of(followed, text).allowed, mask)


def test_what_is_forced_and_when_a_text_may_end():
    date = rule("regex", r"[0-9]{2}-ab(c)?")
    assert state_of(date, ids_of("12")).forced == b"-ab" and not state_of(date, ids_of("12")).may_end
    assert state_of(date, ids_of("12-ab")).may_end and state_of(date, ids_of("12-ab")).status == "open"
    assert state_of(date, ids_of("12-abc")).status == "complete"


def test_a_text_that_leaves_the_rule_is_no_longer_bound():
    choice = rule("choice", "yes\nno")
    state = state_of(choice, ids_of("yx"))
    assert state.status == "left" and state.allowed.all() and state.fits == 1 and not state.binds
    assert state_of(choice, [*ids_of("y"), END]).status == "left"
    assert state_of(choice, ids_of("ye")).status == "open"  # the reader goes on after a text that left


def test_special_tokens_and_ids_without_a_token_never_fit():
    tokens = vocabulary()
    tokens = type(tokens)((*tokens.raw, b"", b"abc"), tokens.special | {len(tokens.raw) + 1}, tokens.ending)
    state = state_of(rule("regex", "[a-z]{3}", tokens), [])
    assert not state.allowed[-2:].any() and state.allowed[tokens.raw.index(b"ab")]


def test_a_vocabulary_without_a_character_is_a_dead_end():
    tokens = vocabulary(letters="ab")
    dead = rule("regex", "a[xyz]", tokens)
    state = state_of(dead, [0])
    with pytest.raises(DeadEnd) as error:
        check_open(dead, [0], state)
    assert error.value.got == "x–z" and "vocabulary" in error.value.what


def test_a_rule_that_leads_nowhere_says_so():
    nowhere = rule("lark", 'start: "a" B\nB: /b/ & /c/')
    with pytest.raises(DeadEnd, match="no text can follow"):
        check_open(nowhere, ids_of("a"), state_of(nowhere, ids_of("a")))
    with pytest.raises(InputError, match="No text follows this rule"):
        compiled(rule("regex", r"[^\x00-\x{10FFFF}]"))
    assert state_of(nowhere, []).allowed.any()  # still usable


def test_why_a_token_is_forbidden():
    choice = rule("choice", "·yes\n·no")
    token = FULL.raw.index(b" y")
    assert reason(choice, [], FULL.raw.index(b"es")).fails == "e"
    found = reason(choice, [], FULL.raw.index(b"12"))
    assert (found.fits, found.fails, found.instead) == ("", "1", "·")
    found = reason(choice, ids_of(" "), token)
    assert (found.fits, found.fails, found.instead) == ("", " ", "n y")
    assert (reason(choice, ids_of(" "), END).fits, reason(choice, ids_of(" "), END).fails) == ("", "")


def test_characters_are_named_as_ranges():
    assert character_ranges([*range(48, 58), 97, 98]) == "0–9 a b"
    assert character_ranges([1, 9, 10, 32, 200]) == "<0x01> ⇥ ↵ · non-ASCII"
    assert character_ranges(range(33, 127, 2)).endswith("…")
    assert next_characters(rule("regex", "é"), []) == "non-ASCII"


@pytest.mark.parametrize(
    ("kind", "text", "got"),
    [
        ("regex", "ab[c", "character 3: unclosed character class"),
        ("regex", r"(a)\1", "character 4: backreferences are not supported"),
        ("regex", "a\\", "\\"),
        ("lark", 'start: "a"\n | ) x', "line 2, column 4"),
        ("lark", "start: foo", 'line 1, column 8: unknown name: "foo"'),
        ("json", '{"type": "strin"}', "Invalid type: strin"),
        ("gbnf", 'root = "a"', "line 1"),
        ("gbnf", "root ::= foo", "foo"),
        ("lark", '%llguidance {}\nstart: "a"', "%llguidance"),
    ],
)
def test_a_mistake_is_named_with_its_place(kind, text, got):
    with pytest.raises(InputError) as error:
        compiled(rule(kind, text))
    assert got in error.value.got and error.value.hint


@pytest.mark.parametrize("ending", ["raise SystemExit(1)", "print('at 2(8): invalid')"])
def test_a_grammar_is_tried_out_in_a_process_that_may_die(monkeypatch, tmp_path, ending):
    script = tmp_path / "trial.py"
    script.write_text(ending)
    monkeypatch.setattr(source, "_TRIAL", script)
    source.try_out.cache_clear()
    with pytest.raises(InputError):
        compiled(rule("lark", 'start: "tried" | "out"'))
    source.try_out.cache_clear()


HOSTILE = [
    ("lark", "start: T0\n" + "".join(f"T{n}: T{n + 1} T{n + 1}\n" for n in range(60)) + 'T60: "b"'),
    ("regex", r"(a{1000}){1000}(a|aa)*b{1000}"),
    ("regex", r"(.*a.{12}){8}"),
    ("choice", "\n".join("x" * 15 + str(n) for n in range(1000))),
    ("gbnf", "root ::= " + "(" * 90 + '"a"' + ")" * 90),
    ("lark", 'start: s\ns: s s | "a" | ""'),
]


@pytest.mark.parametrize(("kind", "text"), HOSTILE)
def test_hostile_rules_are_limited_in_time(kind, text):
    began, hostile = time.process_time(), rule(kind, text)
    try:
        compiled(hostile)
        for n in range(30):
            state_of(hostile, ids_of("a" * n))
    except InputError as error:
        assert "time or memory" in error.what
    assert time.process_time() - began < 5
