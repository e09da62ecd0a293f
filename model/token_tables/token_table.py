"""A table over pairs of tokens that a head's weights define, kept as two factors and read in chunks.

    table[x, y] = rows[x] . columns[y]      [V, V], of rank d_head at most

For the OV circuit, rows[x] is the head's value for token x, and columns[y] what one unit of each dimension of it adds
to the logit of y. For the QK circuit, rows[x] is the query of token x divided by sqrt(d_head), and columns[y] the key
of token y. Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits", section "One-Layer Attention-Only
Transformers".
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from model.arguments import check_token
from model.progress import Progress, silent
from model.public import array, public, unchecked, whole
from model.tracing.ranking import top_ids

Circuit = Literal["ov", "qk"]
CIRCUITS: tuple[Circuit, ...] = ("ov", "qk")
_CELLS = 1 << 22  # cells of the table in memory at once: 16 MB


@dataclass(frozen=True, eq=False)
class TokenTable:
    """A table of one head over the first V tokens of the vocabulary. Built by `ov_table` and `qk_table`."""

    circuit: Circuit
    layer: int
    head: int
    distance: int  # tokens between key and query; 0 for OV
    rows: Tensor  # [V, E] float32
    columns: Tensor  # [V, E] float32

    def __len__(self) -> int:
        return len(self.rows)

    def centered(self) -> "TokenTable":
        """Return the table less its mean row: table[x, y] minus the mean of table[., y] over all tokens.

        What is the same for every x, such as the biases of values and queries, cancels.
        """
        return replace(self, rows=self.rows - self.rows.mean(0))


@dataclass(frozen=True, eq=False)
class Ends:
    """The tokens with the largest and the smallest entries of one row, the most extreme first. Ties: smaller id."""

    high: np.ndarray  # [n] ids
    high_values: np.ndarray  # [n] float32
    low: np.ndarray  # [n] ids
    low_values: np.ndarray  # [n] float32


@dataclass(frozen=True, eq=False)
class Extremes:
    """For every token x of a table, the y with the largest and with the smallest entry."""

    high: np.ndarray  # [V] ids
    high_values: np.ndarray  # [V] float32
    low: np.ndarray  # [V] ids
    low_values: np.ndarray  # [V] float32

    @property
    def own(self) -> float:
        """The fraction of tokens whose largest entry is their own."""
        return float((self.high == np.arange(len(self.high))).mean())

    def strongest(self, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the tokens x with the largest `high_values`, and those with the smallest `low_values`. Ties: smaller
        id. int64 [most] each
        """
        high, low = np.argsort(-self.high_values, kind="stable"), np.argsort(self.low_values, kind="stable")
        return high[:most], low[:most]


@public()
def table_row(table: TokenTable, token: int) -> np.ndarray:
    """Compute the entries of one token with all tokens: of OV, what reading it adds to every logit; of QK, the score
    of every key. float32 [V]

    Raises InputError for a token outside the table.
    """
    check_token(token, len(table))
    return (table.columns @ table.rows[token]).numpy()


@public(values=array("V"), most=whole(1))
def ends_of(values: np.ndarray, most: int = 12) -> Ends:
    """Return the ids of the largest and of the smallest values. [V]"""
    each = torch.from_numpy(np.ascontiguousarray(values))
    high, low = top_ids(each, most).numpy(), top_ids(-each, most).numpy()
    return Ends(high, values[high], low, values[low])


@public(progress=unchecked)
@torch.inference_mode()
def extremes(table: TokenTable, progress: Progress = silent) -> Extremes:
    """Find the largest and the smallest entry of every row, over the whole vocabulary, in chunks of bounded memory.

    2 V^2 d_head operations. `progress(tokens done, V, "Reading pairs of tokens")` may raise an exception to cancel.
    """
    V = len(table)
    size, found = max(_CELLS // V, 1), []
    for start in range(0, V, size):
        progress(start, V, "Reading pairs of tokens")
        chunk = table.rows[start : start + size] @ table.columns.T  # [size, V]
        (high_values, high), (low_values, low) = chunk.max(1), chunk.min(1)
        found.append((high, high_values, low, low_values))
    return Extremes(*(torch.cat(parts).numpy() for parts in zip(*found, strict=True)))


@torch.inference_mode()
def own_rank(rows: Tensor, columns: Tensor, ids: Tensor) -> float:
    """Compute the mean place of a token's own entry in its row, from -1 (below all others) to 1 (above all); 0 by
    chance: the fraction of other entries below it minus the fraction above it (Somers 1962).

    rows [n, E] are those of the tokens `ids` [n], columns [V, E].
    """
    V, total = len(columns), 0
    size = max(_CELLS // V, 1)
    for some, own in zip(rows.split(size), ids.split(size), strict=True):
        entries = some @ columns.T
        at = entries.gather(1, own[:, None])
        total += (entries < at).sum().item() - (entries > at).sum().item()
    return total / (len(ids) * max(V - 1, 1))
