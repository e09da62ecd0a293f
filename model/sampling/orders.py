"""The orders of the steps: what every order of the same steps leaves at one position, and which pairs of steps differ.

Orders that begin with the same steps share their results, and so do orders whose results are equal bit by bit: the
orders form a graph in which each result is computed once. Steps that act by chance read the same second random number
in every order, that of the context.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from model.errors import DeadEnd
from model.public import public, unchecked
from model.sampling.pipeline import Context, Step, checked, entropy, softmax
from model.sampling.warps import NOTHING, WARPS, checked_logits, run_steps

MOST_ORDERED = 6  # maximum number of steps whose orders are all compared: 720 orders
LARGE = 1 << 16  # one step less for a larger vocabulary
# Two distributions are equal if they place at most this much probability differently. Logits are float32: one of 100 is
# rounded by up to 4e-6 at each step.
ROUNDING = 1e-5
NO_LOGITS = torch.empty(0)

Order = tuple[int, ...]  # indices of the steps


@dataclass(frozen=True)
class Result:
    """The distribution at the end of an order, in numbers. No token remains if a rule forbids all that were kept."""

    kept: int  # number of remaining tokens
    entropy: float  # nats
    top: int  # the most likely token, ties by the smaller id; -1 if no token remains
    largest: float  # its probability
    distance: float  # total variation distance from the present order, 0 to 1


@dataclass(frozen=True)
class Group:
    """The orders that end in the same distribution, up to rounding."""

    orders: tuple[Order, ...]  # the present order first, then in increasing order
    result: Result
    tokens: int  # number of the set of remaining tokens, from 0: groups with the same number keep the same tokens


@dataclass(frozen=True)
class Orders:
    """The orders of the steps, grouped by their results."""

    steps: tuple[Step, ...]
    groups: tuple[Group, ...]  # the present order's first; groups of the same set of tokens adjacent
    pairs: tuple[tuple[int, int], ...]  # steps whose exchange as neighbors changes a result in one of the orders
    every: bool  # False: too many steps, so that only the present order and its exchanges of two neighbors are compared

    @property
    def count(self) -> int:
        """The number of orders that were compared."""
        return sum(len(group.orders) for group in self.groups)


@public(steps=unchecked)
def compare_orders(logits: Tensor | np.ndarray, steps: tuple[Step, ...], context: Context = NOTHING) -> Orders:
    """Run the steps in every order on one position's logits [V], and group the orders that give the same.

    Orders with the same set of remaining tokens are further divided by their distributions, which are equal if their
    total variation distance from the first one of the group is at most ROUNDING. With more than MOST_ORDERED steps, or
    one less for more than LARGE tokens, only the present order and its exchanges of two neighbors are compared. Raises
    the errors of `shape`.
    """
    values = checked_logits(logits)
    checked(steps, WARPS, len(values))
    every = len(steps) <= MOST_ORDERED - (len(values) > LARGE)
    ends, pairs = _run(values, steps, context, _listed(len(steps), every))
    reference = ends[0].final
    numbers: dict[int, int] = {}  # set -> its number, in the order of the groups
    sets: list[list[_End]] = []
    for end in ends:
        if end.set not in numbers:
            numbers[end.set] = len(sets)
            sets.append([])
        sets[numbers[end.set]].append(end)
    sets[1:] = sorted(sets[1:], key=lambda ends: -sum(len(end.orders) for end in ends))
    groups = [
        Group((end.orders[0], *sorted(end.orders[1:])), _result(end.final, reference), number)
        for number, ends in enumerate(sets)
        for end in ends
    ]
    return Orders(tuple(steps), tuple(groups), pairs, every)


@public(steps=unchecked)
def result_of(
    logits: Tensor | np.ndarray, steps: tuple[Step, ...], present: tuple[Step, ...], context: Context = NOTHING
) -> Result:
    """Compute the numbers of `steps`, with the distance from the result of `present`."""
    values = checked_logits(logits)
    for each in (steps, present):
        checked(each, WARPS, len(values))
    return _result(*(_final(_after(values, each, context)) for each in (steps, present)))


# --- distributions ---


@dataclass(frozen=True, eq=False)
class _Final:
    """The remaining tokens [n] in increasing order of their ids, and their probabilities [n]; perhaps none."""

    ids: np.ndarray
    probabilities: np.ndarray
    size: int


def _final(logits: Tensor) -> _Final:
    values = logits.numpy()
    ids = np.flatnonzero(values > -np.inf)
    return _Final(ids, softmax(values[ids]) if len(ids) else np.empty(0), len(values))


def _after(logits: Tensor, steps: tuple[Step, ...], context: Context) -> Tensor:
    """Run steps; -inf for all tokens if a rule forbids every token that was kept."""
    if not torch.isfinite(logits).any():
        return logits
    try:
        return run_steps(logits, steps, context)
    except DeadEnd:
        return torch.full_like(logits.float(), -torch.inf)


def _distance(one: _Final, other: _Final) -> float:
    """Compute the total variation distance: half of the sum of |p - q|; 1 from a distribution to no token."""
    if not len(one.ids) or not len(other.ids):
        return float(len(one.ids) != len(other.ids))
    if np.array_equal(one.ids, other.ids):
        return float(np.abs(one.probabilities - other.probabilities).sum()) / 2
    difference = np.zeros(one.size)
    difference[one.ids] = one.probabilities
    difference[other.ids] -= other.probabilities
    return float(np.abs(difference).sum()) / 2


def _equal(one: _Final, other: _Final) -> bool:
    return np.array_equal(one.ids, other.ids) and _distance(one, other) <= ROUNDING


def _result(final: _Final, reference: _Final) -> Result:
    if not len(final.ids):
        return Result(0, 0.0, -1, 0.0, _distance(final, reference))
    at = int(final.probabilities.argmax())
    return Result(
        kept=len(final.ids),
        entropy=float(entropy(final.probabilities)),
        top=int(final.ids[at]),
        largest=float(final.probabilities[at]),
        distance=_distance(final, reference),
    )


# --- the graph of partial orders ---


@dataclass(eq=False)
class _State:
    """The result of a partial order, and the orders that pass through it."""

    logits: Tensor
    orders: list[Order]
    after: dict[int, "_State"] = field(default_factory=dict)  # step -> the result of the step


@dataclass(eq=False)
class _End:
    """A group of orders: its first distribution, and the number of its set of tokens."""

    final: _Final
    orders: list[Order]
    set: int


def _listed(n: int, every: bool) -> list[Order]:
    """List the orders to compare, the present one first."""
    present = tuple(range(n))
    if every:
        return list(permutations(present))
    return [present, *((*present[:at], at + 1, at, *present[at + 2 :]) for at in range(n - 1))]


def _run(
    logits: Tensor, steps: Sequence[Step], context: Context, orders: list[Order]
) -> tuple[list[_End], tuple[tuple[int, int], ...]]:
    """Run the orders, level by level; return their groups, that of the first order first, and the pairs of steps that
    do not commute.
    """
    differ: set[tuple[int, int]] = set()
    before: list[_State] = []
    level = [_State(logits, orders)]
    for done in range(len(steps)):
        found: dict[tuple[frozenset[int], int], list[_State]] = {}
        for state in level:
            _expand(state, done, steps, context, found)
        _compare_pairs(before, differ)
        before, level = level, [each for states in found.values() for each in states]
    return _grouped(level, orders[0]), tuple(sorted(differ))


def _expand(
    state: _State,
    done: int,
    steps: Sequence[Step],
    context: Context,
    found: dict[tuple[frozenset[int], int], list[_State]],
) -> None:
    """Apply each next step to a state; an equal result of the same steps in another order is the same state."""
    for n in sorted({order[done] for order in state.orders}):
        passing = [order for order in state.orders if order[done] == n]
        result = _after(state.logits, (steps[n],), context)
        array = result.numpy()
        key = frozenset(passing[0][: done + 1]), crc32(array)
        for other in found.setdefault(key, []):
            if np.array_equal(other.logits.numpy(), array):
                other.orders += passing
                break
        else:
            other = _State(result, passing)
            found[key].append(other)
        state.after[n] = other
    state.logits = NO_LOGITS  # frees its memory


def _compare_pairs(states: list[_State], differ: set[tuple[int, int]]) -> None:
    """Add the pairs of steps that give different distributions from a state, one after the other in either order."""
    for state in states:
        for a, b in combinations(sorted(state.after), 2):
            one, other = state.after[a].after.get(b), state.after[b].after.get(a)
            if one is other or one is None or other is None or (a, b) in differ:
                continue
            if not _equal(_final(one.logits), _final(other.logits)):
                differ.add((a, b))


def _grouped(states: list[_State], first: Order) -> list[_End]:
    """Group the final states by their sets of tokens and by their distributions, that of the order `first` first."""
    ends: list[_End] = []
    sets: dict[tuple[int, int], list[tuple[np.ndarray, list[_End]]]] = {}
    count = 0
    for state in sorted(states, key=lambda each: min(each.orders)):
        final = _final(state.logits)
        state.logits = NO_LOGITS
        alike = sets.setdefault((len(final.ids), crc32(final.ids)), [])
        inside = next((members for ids, members in alike if np.array_equal(ids, final.ids)), None)
        if inside is None:
            inside = []
            alike.append((final.ids, inside))
            count += 1
        same = next((end for end in inside if _equal(end.final, final)), None)
        if same is None:
            same = _End(final, [], inside[0].set if inside else count - 1)
            inside.append(same)
            ends.append(same)
        same.orders += state.orders
    ends[0].orders.sort(key=lambda order: order != first)
    return ends
