"""Tokens that a rule forces: where only one token is left, it is read in the forward pass of the token before it.

Such a token is known before the model has run. A run of them goes into the cache in one forward pass, which gives the
logits of all its positions, so that every token is decided as without skipping, with the same random number and all of
its statistics.
"""

from collections.abc import Sequence

from model.errors import InputError
from model.generation.decoder import Decoder, Setup
from model.sampling.fits import ended_by_rule, only_token
from model.sampling.pipeline import Context

LONGEST = 48  # maximum number of forced tokens in one forward pass; the states of rules that are kept cover them


def forced_runs(decoders: Sequence[Decoder], setup: Setup, shared: bool = False) -> list[tuple[int, ...]]:
    """Return the tokens that rules force after each row of the decoders, as many for every row [n][k].

    All rows of a batch have the same length, so k is that of the row with the fewest. If `shared`, all rows still have
    the prompt in common, and only tokens that are the same for all of them count. A run ends before a token that ends
    the text, and before the last token, since neither is an input.
    """
    if not all(any(step.rule for step in decoder.strategy.steps) for decoder in decoders):
        return [() for decoder in decoders for _ in decoder.row_texts()]
    known: dict[tuple, tuple[int, ...]] = {}
    runs, most = [], LONGEST
    for decoder in decoders:
        for text in decoder.row_texts():
            key = (decoder.strategy.steps, text)
            if key not in known:
                known[key] = _run(decoder, setup, text, most)
            runs.append(known[key])
            most = len(known[key])
            if not most:
                break
    k = min(map(len, runs))
    if shared:
        k = next((at for at in range(k) if len({run[at] for run in runs}) > 1), k)
    rows = sum(len(decoder.row_texts()) for decoder in decoders)
    return [run[:k] for run in runs] if k else [()] * rows


def _run(decoder: Decoder, setup: Setup, text: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Return at most `most` tokens that rules force after a row's new tokens."""
    run: list[int] = []
    most = min(most, setup.plan.max_new_tokens - 1 - len(text), setup.room - len(text))
    steps, ids = decoder.strategy.steps, (*setup.ids[setup.prompt :], *text)
    while len(run) < most:
        try:
            token = only_token(steps, ids)
            if token is None or token in setup.plan.ending or ended_by_rule(steps, Context((*ids, token))):
                break
        except InputError:  # a limit of the rule, which is reported where that token is decided
            break
        run.append(token)
        ids = (*ids, token)
    return tuple(run)
