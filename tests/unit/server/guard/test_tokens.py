"""Tokens that every process with the key can read, and nobody else can make."""

import pytest

import viz.server.guard.tokens as module
from viz.server.guard.tokens import KEEP, Tokens, key_of

KEY, OTHER = bytes(range(32)), bytes(32)


def test_another_process_with_the_key_knows_who_has_logged_in():
    one, two = Tokens(KEY), Tokens(KEY)
    token = one.new("Ann . Müller")
    assert two.name_of(token) == "Ann . Müller"
    assert one.new("Ann . Müller") != token


@pytest.mark.parametrize("change", ["name", "time", "signature", "cut", "empty", "key", "surrogate"])
def test_nobody_else_can_make_one(change):
    one = Tokens(KEY)
    name, until, salt, signature = one.new("ann").split(".")
    forged = {
        "name": f"{Tokens(KEY).new('bob').split('.')[0]}.{until}.{salt}.{signature}",
        "time": f"{name}.{int(until) + 1}.{salt}.{signature}",
        "signature": f"{name}.{until}.{salt}.{'0' * len(signature)}",
        "cut": f"{name}.{until}",
        "empty": "",
        "key": Tokens(OTHER).new("ann"),
        "surrogate": "\udcff.x.\udcff",
    }[change]
    assert one.name_of(forged) is None


def test_a_token_ends_by_time_and_by_logging_out():
    now = [1000.0]
    one, two = (Tokens(KEY, lambda: now[0]) for _ in range(2))
    first, second = one.new("ann"), one.new("ann")
    one.end(first)
    assert one.name_of(first) is None and one.name_of(second) == "ann"
    one.end(first), one.end(None), one.end("nonsense")
    assert one.name_of(second) == "ann"
    now[0] += KEEP + 1
    assert one.name_of(second) is None and two.name_of(second) is None


def test_a_name_that_ends_too_many_tokens_ends_all_that_it_had(monkeypatch):
    monkeypatch.setattr(module, "MOST_ENDED", 2)
    now = [1000.0]
    tokens = Tokens(KEY, lambda: now[0])
    kept, other, *ended = (tokens.new(name) for name in ("ann", "bob", "ann", "ann", "ann"))
    tokens.end(ended[0]), tokens.end(ended[1])
    assert tokens.name_of(kept) == "ann"
    now[0] += 1e-3
    tokens.end(tokens.new("ann"))
    assert [tokens.name_of(each) for each in (kept, *ended)] == [None] * 4 and tokens.name_of(other) == "bob"
    now[0] += 1e-3
    assert tokens.name_of(tokens.new("ann")) == "ann"


def test_the_cookie_has_one_name_in_all_processes():
    assert Tokens(KEY).cookie == Tokens(KEY).cookie != Tokens(OTHER).cookie
    assert KEY.hex() not in Tokens(KEY).cookie


@pytest.mark.parametrize("text", ["", "00", "zz" * 32])
def test_a_key_that_is_none_is_refused(text):
    with pytest.raises(ValueError):
        key_of(text)
    assert key_of(KEY.hex()) == KEY
