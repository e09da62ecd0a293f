"""The keys visible to a query: fixed attention patterns, and caches that evict keys while a text is read.

             window         first tokens     dilated        strided        block          global + window
    query 0  x              x                x              x              x              x
          1  xx             xx               .x             xx             xx             xx
          2  .xx            xxx              x.x            .xx            ..x            xxx
          3  ..xx           x.xx             .x.x           ..xx           ..xx           x.xx
          4  ...xx          x..xx            ..x.x          ..x.x + ...    ....x          x..xx

Every policy has a budget: no query sees more keys than that, itself included. Rows of global tokens, which see
everything before them, are the exception that Longformer and BigBird make.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from model.arguments import shown
from model.errors import InputError, say
from model.public import MOST_SEED, between, public, unchecked, whole

MOST_BUDGET = 1 << 20


@public(
    kind=unchecked,
    budget=whole(1, MOST_BUDGET),
    first=whole(0, MOST_BUDGET),
    global_at=whole(0, MOST_BUDGET),
    dilation=whole(1, MOST_BUDGET),
    seed=whole(0, MOST_SEED),
    read=between(0, 1),
)
@dataclass(frozen=True)
class Policy:
    """A sparse-attention or cache-eviction policy. `kind` is a key of POLICIES; fields it does not use are ignored.

    At most budget - 1 of the `first` tokens are kept, so that a query sees itself. Raises InputError for an unknown
    kind and for numbers out of range.
    """

    kind: str = "window"
    budget: int = 32  # keys that a query sees at most, itself included
    first: int = 4  # tokens from the beginning of the text that are never forgotten
    global_at: tuple[int, ...] = ()  # positions that all queries see and that see everything; () for the first ones
    dilation: int = 2  # spacing of the keys in a dilated window
    seed: int = 0  # of random keys
    read: float = 0.5  # share of the text that counts as the prompt, after which SnapKV compresses

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in POLICIES:
            hint = say("Choose one of: {}.", ", ".join(POLICIES))
            raise InputError("No eviction policy has this name.", shown(self.kind), hint)


@dataclass(frozen=True)
class PolicyKind:
    """An entry of POLICIES. `mask(policy, T)` gives the visible keys if they depend on positions alone."""

    source: str
    mask: Callable[[Policy, int], Tensor] | None  # -> bool [T, S]; None: depends on the attention weights
    uses: tuple[str, ...] = ()  # fields of a policy besides the budget


def _near(T: int, width: int) -> Tensor:
    """Build the mask of a sliding window: each query sees itself and the width - 1 tokens before it. [T, S] bool"""
    behind = torch.arange(T)[:, None] - torch.arange(T)[None, :]
    return (behind >= 0) & (behind < width)


def _window(policy: Policy, T: int) -> Tensor:
    """Build the mask of the last `budget` tokens. Beltagy et al. 2020, section 3.1."""
    return _near(T, policy.budget)


def _first(policy: Policy, T: int) -> Tensor:
    """Build the mask of the first tokens and the most recent ones within the budget. Xiao et al. 2023, section 3.2."""
    kept = min(policy.first, policy.budget - 1)
    seen = _near(T, policy.budget - kept)
    seen[:, :kept] = True
    return seen.tril_()


def _dilated(policy: Policy, T: int) -> Tensor:
    """Build the mask of every `dilation`-th token before the query, `budget` of them. Beltagy et al. 2020,
    section 3.1.
    """
    behind = torch.arange(T)[:, None] - torch.arange(T)[None, :]
    return (behind >= 0) & (behind < policy.budget * policy.dilation) & (behind % policy.dilation == 0)


def stride_of(policy: Policy, T: int) -> tuple[int, int]:
    """Return the window width of the strided pattern, and the spacing of the tokens seen beyond it, within
    the budget.
    """
    near = max(1, policy.budget // 2)
    far = policy.budget - near
    return near, (-(-T // far) if far else T + 1)


def _strided(policy: Policy, T: int) -> Tensor:
    """Build the mask of a window of half the budget, with evenly spaced tokens beyond it. Child et al. 2019, section
    4.3.
    """
    near, stride = stride_of(policy, T)
    column = torch.arange(T) % stride == stride - 1
    return (_near(T, near) | column[None, :]).tril_()


def _block(policy: Policy, T: int) -> Tensor:
    """Build the mask of the query's own block of `budget` tokens. Qiu et al. 2019, section 3.1, without their
    permutations.
    """
    block = torch.arange(T) // policy.budget
    return (block[:, None] == block[None, :]).tril_()


def globals_of(policy: Policy, T: int, most: int) -> list[int]:
    """Return the global tokens within the budget: the named ones, or else the first ones."""
    named = [at for at in dict.fromkeys(policy.global_at) if 0 <= at < T]
    return sorted((named or list(range(T)))[:most])


def _longformer(policy: Policy, T: int) -> Tensor:
    """Build the mask of a window with global tokens, which all tokens see and which see all. Beltagy et al. 2020,
    section 3.1.
    """
    chosen = globals_of(policy, T, policy.budget // 2)
    return _with_global(_near(T, policy.budget - len(chosen)), chosen)


def _bigbird(policy: Policy, T: int) -> Tensor:
    """Build the mask of a window of half the budget, a quarter of global tokens, the rest random. Zaheer et al. 2020,
    section 2.
    """
    chosen = globals_of(policy, T, policy.budget // 4)
    near = max(1, policy.budget // 2)
    seen = _with_global(_near(T, near), chosen)
    more = policy.budget - near - len(chosen)
    if more > 0:
        generator = torch.Generator().manual_seed(policy.seed)
        order = torch.rand(T, T, generator=generator).masked_fill_(torch.ones(T, T, dtype=torch.bool).triu_(), 2.0)
        order.masked_fill_(seen, 2.0)
        selected = order.topk(min(more, T), largest=False)
        seen.scatter_(1, selected.indices, seen.gather(1, selected.indices) | (selected.values < 1))
    return seen


def _with_global(seen: Tensor, chosen: list[int]) -> Tensor:
    """Add the columns and rows of global tokens to a mask. Changes its argument in place."""
    seen[:, chosen] = True
    seen[chosen] = True
    return seen.tril_()


POLICIES: dict[str, PolicyKind] = {
    "window": PolicyKind("Beltagy et al. 2020, section 3.1", _window),
    "first": PolicyKind("Xiao et al. 2023, section 3.2", _first, ("first",)),
    "h2o": PolicyKind("Zhang et al. 2023, algorithm 1", None),
    "snapkv": PolicyKind("Li et al. 2024, section 4", None),
    "dilated": PolicyKind("Beltagy et al. 2020, section 3.1", _dilated, ("dilation",)),
    "strided": PolicyKind("Child et al. 2019, section 4.3", _strided),
    "block": PolicyKind("Qiu et al. 2019, section 3.1", _block),
    "longformer": PolicyKind("Beltagy et al. 2020, section 3.1", _longformer, ("global_at",)),
    "bigbird": PolicyKind("Zaheer et al. 2020, section 2", _bigbird, ("global_at", "seed")),
}
CACHES = ("window", "first", "h2o", "snapkv")  # kinds that a cache can implement: evicted keys are never needed again


def check_memory(policy: Policy) -> None:
    """Raise InputError for a policy that no cache of keys can implement."""
    if policy.kind not in CACHES:
        hint = say("Choose one of: {}.", ", ".join(CACHES))
        raise InputError("A cache cannot use this policy: it would need evicted keys again.", policy.kind, hint)


@public(T=whole(0, 1 << 15))
def mask_of(policy: Policy, T: int) -> Tensor:
    """Build the mask of visible keys for a kind that depends on positions only. bool [T, S]; never a later key.

    Raises ValueError for a kind that depends on the attention weights.
    """
    mask = POLICIES[policy.kind].mask
    if mask is None:
        raise ValueError(f"the policy {policy.kind} has no mask: what it keeps depends on what is attended to")
    return mask(policy, T)
