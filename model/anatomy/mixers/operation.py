"""Sizes of forward passes, and kinds of operations in them."""

from collections.abc import Sequence
from dataclasses import dataclass

from model.gpt.config import ModelConfig
from model.public import public, whole


@public(T=whole(1, 1 << 40), S=whole(1, 1 << 40), logits=whole(0, 1 << 40))
@dataclass(frozen=True)
class PassSize:
    """The size of a forward pass: T tokens attend to S tokens, themselves included.

    The unembedding runs for the last `logits` tokens. A prompt has T = S; a token generated with S - 1 cached tokens
    has T = 1. Raises InputError for a size out of range, ValueError for inconsistent sizes.
    """

    T: int
    S: int
    logits: int = 1

    def __post_init__(self) -> None:
        if not (self.T <= self.S and self.logits <= self.T):
            got = f"got T {self.T}, S {self.S}, logits {self.logits}"
            raise ValueError(f"T must be at most S and logits at most T, {got}")

    @property
    def pairs(self) -> int:
        """Number of causal pairs, whose key is not after the query: T S - T (T - 1) / 2 of the T S pairs."""
        return self.T * self.S - self.T * (self.T - 1) // 2

    def pairs_around(self, window: int) -> int:
        """Return the number of pairs of a prompt whose key is at most window / 2 tokens away, before or after."""
        half = min(window // 2, self.T - 1)
        return self.T * (2 * half + 1) - half * (half + 1)

    def pairs_within(self, window: int) -> int:
        """Return the number of causal pairs whose key is fewer than `window` tokens before the query."""
        first, last = self.S - self.T + 1, self.S  # numbers of tokens that the first and the last query may see
        if first >= window:
            return self.T * window
        growing = min(last, window)  # up to here, a query sees all tokens before it
        return (growing - first + 1) * (first + growing) // 2 + (last - growing) * window


@dataclass(frozen=True)
class Operation:
    """One kind of operation: FLOPs in one layer, or in the complete model for an operation outside the layers."""

    key: str
    layers: int  # number of repeats: n_layer, or 1
    products: int  # matrix products, as computed with all T x S pairs
    elementwise: int
    useful: int  # matrix products without masked pairs

    @property
    def all_products(self) -> int:
        """Total FLOPs of the matrix products over all layers."""
        return self.layers * self.products

    @property
    def all_useful(self) -> int:
        """Total FLOPs of the unmasked matrix products over all layers."""
        return self.layers * self.useful

    @property
    def all_elementwise(self) -> int:
        """Total elementwise operations over all layers."""
        return self.layers * self.elementwise


def norm_flops(config: ModelConfig, width: int, kind: str) -> int:
    """Count the elementwise FLOPs of a norm on one vector: mean and difference (LayerNorm only), squares, their mean,
    eps, root, division, gain, and bias.
    """
    each = 3 if kind == "rmsnorm" else 5 + config.norm_bias
    return (each + config.norm_weight) * width + 2


def pointwise(key: str, elementwise: int, layers: int) -> Operation:
    """Return an operation without matrix products."""
    return Operation(key, layers, 0, elementwise, 0)


def linear(key: str, layers: int, rows: int, shape: tuple[int, int], each: int = 0) -> Operation:
    """Return a product with a matrix [d_in, d_out], and `each` elementwise operations for each number of its output."""
    products = 2 * rows * shape[0] * shape[1]
    return Operation(key, layers, products, rows * shape[1] * each, products)


def joined(ops: Sequence[Operation], elementwise: int = 0) -> Operation:
    """Return operations of the same layers as one with the first one's key, and some more elementwise operations."""
    first = ops[0]
    return Operation(
        first.key,
        first.layers,
        sum(op.products for op in ops),
        elementwise + sum(op.elementwise for op in ops),
        sum(op.useful for op in ops),
    )
