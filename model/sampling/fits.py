"""Only what fits: a cut that excludes every token after which the text could no longer follow a rule."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.errors import DeadEnd
from model.sampling.pipeline import Context, Step
from model.sampling.rules.matching import (
    RuleState,
    character_ranges,
    check_open,
    next_bytes,
    next_characters,
    state_of,
)
from model.sampling.rules.rule import Rule

LIKELIEST = 3  # number of forbidden tokens stored with every generated token


def fits(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Keep the tokens after which the generated text can still be completed to one that follows the rule.

    Willard and Louf 2023; Geng et al. 2023. The rule begins after the prompt. End tokens remain where the text is
    complete. Without a rule, and after a text that is over or has left its rule, nothing changes. Unlike other cuts, it
    need not keep the most likely token. Raises DeadEnd if no token can come, or if earlier steps excluded all of them.
    """
    if step.rule is None:
        return logits.clone()
    written = context.ids[context.prompt :]
    state = state_of(step.rule, written)
    if not state.binds or closes(step, context):
        return logits.clone()
    check_open(step.rule, written, state)
    allowed = torch.from_numpy(state.allowed)
    result = torch.full_like(logits, -torch.inf)
    result[: len(allowed)] = logits[: len(allowed)].masked_fill(~allowed, -torch.inf)
    if not torch.isfinite(result).any():
        raise nothing_fits(next_characters(step.rule, written))
    return result


def nothing_fits(characters: str = "") -> DeadEnd:
    """Return the error of a rule that forbids every token that earlier steps kept; `characters` may come next."""
    hint = "Put “Only what fits” before the cuts. If there are several rules, let them agree here."
    return DeadEnd("The rule forbids every token that the earlier steps kept.", characters, hint)


def closes(step: Step, context: Context) -> bool:
    """Return whether the text is complete, nothing may follow, and the vocabulary has no token to end it."""
    if step.rule is None or step.rule.vocabulary.ending:
        return False
    return state_of(step.rule, context.ids[context.prompt :]).status == "complete"


def ended_by_rule(steps: tuple[Step, ...], context: Context) -> str:
    """Return "rule" if the rules end the text because the vocabulary has no token to do so: every rule lets it end, and
    no token may follow. Otherwise return "".
    """
    if not any(step.rule is not None and not step.rule.vocabulary.ending for step in steps):
        return ""
    binding = _binding(steps, context)
    ends = bool(binding) and all(state.may_end for _, _, state in binding)
    return "rule" if ends and not _allowed(binding).any() else ""


def check_together(steps: tuple[Step, ...], context: Context) -> None:
    """Raise DeadEnd if one rule is complete and another needs more, where the vocabulary has no token to end a text;
    with such a token, the masks exclude all tokens.
    """
    if sum(step.rule is not None for step in steps) < 2 or not any(closes(step, context) for step in steps):
        return
    for _, rule, state in _binding(steps, context):
        if not state.may_end:
            wanted = next_characters(rule, context.ids[context.prompt :])
            raise DeadEnd("One rule is complete, and another needs more.", wanted, "Let the rules agree here.")


def _binding(steps: Sequence[Step], context: Context) -> list[tuple[int, Rule, RuleState]]:
    """Return the rules that still say what may come next, each with the index of its step and its state."""
    written = context.ids[context.prompt :]
    found = [(at, step.rule, state_of(step.rule, written)) for at, step in enumerate(steps) if step.rule is not None]
    return [each for each in found if each[2].binds]


def _allowed(binding: Sequence[tuple[int, Rule, RuleState]]) -> np.ndarray:
    """Return whether all of at least one rule allow each token. bool [V]"""
    return np.logical_and.reduce([state.allowed for _, _, state in binding])


def only_token(steps: Sequence[Step], written: Sequence[int]) -> int | None:
    """Return the only token that the rules of the steps allow after the generated tokens [n]; None if they allow
    several or none, or if no rule binds the text. Raises InputError if a rule exceeds a limit there.
    """
    binding = _binding(steps, Context(tuple(written)))
    if not binding:
        return None
    tokens = np.flatnonzero(_allowed(binding))
    return int(tokens[0]) if len(tokens) == 1 else None


@dataclass(frozen=True)
class RuleFit:
    """The effect of one rule by itself at one position of a text."""

    step: int  # index of its step
    kind: str  # a key of model.sampling.rules.rule.KINDS
    status: str  # "open", or "complete" if only the end may come
    forbidden: float  # total probability, in the model itself, of the tokens that it forbids
    allowed: int  # number of tokens that it allows
    may_end: bool  # whether it lets the text end here
    forced: str  # the only text that it lets follow
    instead: str  # the characters that it lets come


@dataclass(frozen=True)
class Fit:
    """The effect of a strategy's rules at one position of a text, all together and each by itself."""

    forbidden: float  # total probability, in the model itself, of the tokens that any rule forbids
    allowed: int  # number of tokens that all rules allow
    may_end: bool  # whether the text could have ended here
    forced: str  # the only text that could follow
    likeliest: tuple[tuple[int, float], ...]  # the most likely forbidden tokens: id, probability
    instead: str  # the characters that could come
    rules: tuple[RuleFit, ...] = ()  # those that bind the text here, in the order of the steps


def fit_of(steps: tuple[Step, ...], context: Context, probabilities: np.ndarray) -> Fit | None:
    """Return what the rules of the steps say about the model's probabilities [V]; None without a rule, and after a text
    that is over or has left its rules.
    """
    binding = _binding(steps, context)
    if not binding:
        return None
    written = context.ids[context.prompt :]
    allowed = _allowed(binding)
    out = _outside(probabilities, allowed)
    best = np.argpartition(-out, min(LIKELIEST, len(out) - 1))[:LIKELIEST]
    best = best[np.argsort(-out[best], kind="stable")]
    characters = [next_bytes(rule, written) for _, rule, _ in binding]
    rules = tuple(
        RuleFit(
            at,
            rule.kind,
            state.status,
            float(_outside(probabilities, state.allowed).sum()),
            int(state.allowed.sum()),
            state.may_end,
            forced_text(state),
            character_ranges(np.flatnonzero(may).tolist()),
        )
        for (at, rule, state), may in zip(binding, characters, strict=True)
    )
    return Fit(
        forbidden=float(out.sum()),
        allowed=int(allowed.sum()),
        may_end=all(each.may_end for each in rules),
        forced=max((each.forced for each in rules), key=len),
        likeliest=tuple((int(token), float(out[token])) for token in best if out[token] > 0),
        instead=character_ranges(np.flatnonzero(np.logical_and.reduce(characters)).tolist()),
        rules=rules,
    )


def _outside(probabilities: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Return the probabilities [V] of the tokens that are not allowed, and 0 for the others."""
    out = probabilities.copy()
    out[: len(allowed)][allowed] = 0
    return out


def forced_text(state: RuleState) -> str:
    """Return the text that is forced, without a character that is not complete."""
    return state.forced.decode("utf-8", "ignore")
