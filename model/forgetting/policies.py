"""The keys visible to a query under fixed attention patterns, and under caches that evict keys while a text is read.

             window         first tokens     dilated        strided        block          global + window
    query 0  x              x                x              x              x              x
          1  xx             xx               .x             xx             xx             xx
          2  .xx            xxx              x.x            .xx            ..x            xxx
          3  ..xx           x.xx             .x.x           ..xx           ..xx           x.xx
          4  ...xx          x..xx            ..x.x          ..x.x + ...    ....x          x..xx

Every policy has a budget, the maximum number of keys visible to a query, including its own.
Global tokens of Longformer and BigBird are an exception: they attend to all earlier keys.
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
    """A sparse-attention or cache-eviction policy. `kind` is a key of POLICIES; fields that it does not use are
    ignored.

    At most budget - 1 of the `first` tokens are kept, so that a query always sees itself. Raises InputError for an
    unknown kind and for numbers out of range.
    """

    kind: str = "window"
    budget: int = 32  # maximum number of keys visible to a query, including its own
    first: int = 4  # number of tokens at the beginning of the text that are never evicted
    global_at: tuple[int, ...] = ()  # positions of global tokens; () for the first tokens of the text
    dilation: int = 2  # spacing of the keys in a dilated window
    seed: int = 0  # seed for random keys
    read: float = 0.5  # fraction of the text that counts as the prompt, after which SnapKV evicts

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in POLICIES:
            hint = say("Choose one of: {}.", ", ".join(POLICIES))
            raise InputError("No eviction policy has this name.", shown(self.kind), hint)


@dataclass(frozen=True)
class PolicyKind:
    """An entry of POLICIES. `mask(policy, T)` returns the visible keys if they depend on positions alone."""

    source: str
    mask: Callable[[Policy, int], Tensor] | None  # -> bool [T, S]; None if it depends on the attention weights
    uses: tuple[str, ...] = ()  # fields of Policy that it uses besides the budget


def _near(T: int, width: int) -> Tensor:
    """Build the mask of a sliding window of `width` tokens that ends with the query's own. [T, S] bool"""
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
    """Build the mask of `budget` keys up to the query, `dilation` tokens apart. Beltagy et al. 2020, section 3.1."""
    behind = torch.arange(T)[:, None] - torch.arange(T)[None, :]
    return (behind >= 0) & (behind < policy.budget * policy.dilation) & (behind % policy.dilation == 0)


def stride_of(policy: Policy, T: int) -> tuple[int, int]:
    """Return the window width of the strided pattern, and the spacing of the visible tokens before the window, within
    the budget.
    """
    near = max(1, policy.budget // 2)
    far = policy.budget - near
    return near, (-(-T // far) if far else T + 1)


def _strided(policy: Policy, T: int) -> Tensor:
    """Build the mask of a window of half the budget, with evenly spaced tokens before it. Child et al. 2019, section
    4.3.
    """
    near, stride = stride_of(policy, T)
    column = torch.arange(T) % stride == stride - 1
    return (_near(T, near) | column[None, :]).tril_()


def _block(policy: Policy, T: int) -> Tensor:
    """Build the mask of the query's own block of `budget` tokens. Qiu et al. 2019, section 3.1, without the
    permutations.
    """
    block = torch.arange(T) // policy.budget
    return (block[:, None] == block[None, :]).tril_()


def globals_of(policy: Policy, T: int, most: int) -> list[int]:
    """Return the global tokens within the budget: the named ones, or the first tokens of the text if none is named."""
    named = [at for at in dict.fromkeys(policy.global_at) if 0 <= at < T]
    return sorted((named or list(range(T)))[:most])


def _longformer(policy: Policy, T: int) -> Tensor:
    """Build the mask of a window with global tokens, which are visible to all later queries and see all earlier keys.

    Beltagy et al. 2020, section 3.1.
    """
    chosen = globals_of(policy, T, policy.budget // 2)
    return _with_global(_near(T, policy.budget - len(chosen)), chosen)


def _bigbird(policy: Policy, T: int) -> Tensor:
    """Build the mask of a window of half the budget, with up to a quarter of global tokens and random keys for the
    rest.

    Zaheer et al. 2020, section 2.
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
    """Add the columns and rows of global tokens to a mask in place, and make it causal."""
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
CACHES = ("window", "first", "h2o", "snapkv")  # kinds for caches, which never need evicted keys again


def check_memory(policy: Policy) -> None:
    """Raise InputError for a policy that no KV cache can implement."""
    if policy.kind not in CACHES:
        hint = say("Choose one of: {}.", ", ".join(CACHES))
        raise InputError("A cache cannot use this policy: it would need evicted keys again.", policy.kind, hint)


@public(T=whole(0, 1 << 15))
def mask_of(policy: Policy, T: int) -> Tensor:
    """Build the mask of visible keys for a kind that depends on positions only. bool [T, S], False for later keys

    Raises ValueError for a kind that depends on the attention weights.
    """
    mask = POLICIES[policy.kind].mask
    if mask is None:
        raise ValueError(f"the policy {policy.kind} has no mask: what it keeps depends on what is attended to")
    return mask(policy, T)
