"""What a query may still see: patterns that are fixed before a text is read, and caches that forget while it is.

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

    Of `first` at most budget - 1 tokens are kept, so that a query sees itself. Raises InputError for an unknown kind
    and for numbers out of range.
    """

    kind: str = "window"
    budget: int = 32  # keys that a query sees at most, itself included
    first: int = 4  # tokens from the beginning of the text that are never forgotten
    global_at: tuple[int, ...] = ()  # positions that every query sees and that see everything; () for the first ones
    dilation: int = 2  # distance of two neighbors in a dilated window
    seed: int = 0  # of random keys
    read: float = 0.5  # share of the text that counts as the prompt, after which SnapKV compresses

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in POLICIES:
            hint = say("Choose one of: {}.", ", ".join(POLICIES))
            raise InputError("There is no way of forgetting of that name.", shown(self.kind), hint)


@dataclass(frozen=True)
class Kind:
    """An entry of POLICIES: where the keys to see follow from positions alone, `mask(policy, T)` says which."""

    source: str
    mask: Callable[[Policy, int], Tensor] | None  # -> bool [T, S]; None: they follow from the attention itself
    uses: tuple[str, ...] = ()  # fields of a policy besides the budget


def _near(T: int, width: int) -> Tensor:
    """Return each query and the width - 1 tokens before it. [T, S] bool"""
    behind = torch.arange(T)[:, None] - torch.arange(T)[None, :]
    return (behind >= 0) & (behind < width)


def _window(policy: Policy, T: int) -> Tensor:
    """Return the last `budget` tokens. Beltagy et al. 2020, section 3.1."""
    return _near(T, policy.budget)


def _first(policy: Policy, T: int) -> Tensor:
    """Return the first tokens, and as many of the last ones as the budget leaves. Xiao et al. 2023, section 3.2."""
    kept = min(policy.first, policy.budget - 1)
    seen = _near(T, policy.budget - kept)
    seen[:, :kept] = True
    return seen.tril_()


def _dilated(policy: Policy, T: int) -> Tensor:
    """Return every `dilation`-th token before the query, `budget` of them. Beltagy et al. 2020, section 3.1."""
    behind = torch.arange(T)[:, None] - torch.arange(T)[None, :]
    return (behind >= 0) & (behind < policy.budget * policy.dilation) & (behind % policy.dilation == 0)


def stride_of(policy: Policy, T: int) -> tuple[int, int]:
    """Return the window of the strided pattern, and the distance of the tokens seen beyond it, within the budget."""
    near = max(1, policy.budget // 2)
    far = policy.budget - near
    return near, (-(-T // far) if far else T + 1)


def _strided(policy: Policy, T: int) -> Tensor:
    """Return a window of half the budget, and beyond it one token in so many. Child et al. 2019, section 4.3."""
    near, stride = stride_of(policy, T)
    column = torch.arange(T) % stride == stride - 1
    return (_near(T, near) | column[None, :]).tril_()


def _block(policy: Policy, T: int) -> Tensor:
    """Return the tokens of the query's own block of `budget`. Qiu et al. 2019, section 3.1, without their
    permutations.
    """
    block = torch.arange(T) // policy.budget
    return (block[:, None] == block[None, :]).tril_()


def globals_of(policy: Policy, T: int, most: int) -> list[int]:
    """Return the global tokens within the budget: those that were named, or else the first ones."""
    named = [at for at in dict.fromkeys(policy.global_at) if 0 <= at < T]
    return sorted((named or list(range(T)))[:most])


def _longformer(policy: Policy, T: int) -> Tensor:
    """Return a window, and global tokens: all see them and they see all. Beltagy et al. 2020, section 3.1."""
    chosen = globals_of(policy, T, policy.budget // 2)
    return _with_global(_near(T, policy.budget - len(chosen)), chosen)


def _bigbird(policy: Policy, T: int) -> Tensor:
    """Return a window of half the budget, a quarter of global tokens, the rest random. Zaheer et al. 2020,
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
        picked = order.topk(min(more, T), largest=False)
        seen.scatter_(1, picked.indices, seen.gather(1, picked.indices) | (picked.values < 1))
    return seen


def _with_global(seen: Tensor, chosen: list[int]) -> Tensor:
    """Return the same with columns and rows of global tokens. Changes its argument."""
    seen[:, chosen] = True
    seen[chosen] = True
    return seen.tril_()


POLICIES: dict[str, Kind] = {
    "window": Kind("Beltagy et al. 2020, section 3.1", _window),
    "first": Kind("Xiao et al. 2023, section 3.2", _first, ("first",)),
    "h2o": Kind("Zhang et al. 2023, algorithm 1", None),
    "snapkv": Kind("Li et al. 2024, section 4", None),
    "dilated": Kind("Beltagy et al. 2020, section 3.1", _dilated, ("dilation",)),
    "strided": Kind("Child et al. 2019, section 4.3", _strided),
    "block": Kind("Qiu et al. 2019, section 3.1", _block),
    "longformer": Kind("Beltagy et al. 2020, section 3.1", _longformer, ("global_at",)),
    "bigbird": Kind("Zaheer et al. 2020, section 2", _bigbird, ("global_at", "seed")),
}
CACHES = ("window", "first", "h2o", "snapkv")  # those that a cache can follow: what it forgets never comes back


def check_memory(policy: Policy) -> None:
    """Raise InputError for a policy that makes no sense or that no cache of keys can follow."""
    if policy.kind not in CACHES:
        hint = say("Choose one of: {}.", ", ".join(CACHES))
        raise InputError("A cache cannot forget in this way: it would need keys again.", policy.kind, hint)


@public(T=whole(0, 1 << 15))
def mask_of(policy: Policy, T: int) -> Tensor:
    """Return which keys each query sees, for a kind that depends on positions only. bool [T, S]; never a later key.

    Raises ValueError for a kind that follows from the attention.
    """
    mask = POLICIES[policy.kind].mask
    if mask is None:
        raise ValueError(f"the policy {policy.kind} has no mask: what it keeps depends on what is attended to")
    return mask(policy, T)
