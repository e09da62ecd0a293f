"""The whole vocabulary at one position as a table: searchable, sortable, one page at a time or all of it as CSV."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from model.sampling.pipeline import MOST_STEPS
from viz.labels import visible
from viz.numbers import logit, percent, whole
from viz.seam.scene import Scene
from viz.seam.settings import choice, number
from viz.views.sampling.distribution.figures import Stages

PAGE = 50  # number of rows per page
_LONGEST = 100  # maximum number of characters of a query
_AFTER = tuple(f"after_{n}" for n in range(1, MOST_STEPS + 1))
_SIGNS = str.maketrans({"·": " ", "↵": "\n", "⇥": "\t"})  # symbols displayed by the page -> white space


def frame(stages: Stages) -> pd.DataFrame:
    """Build the table: rank, id, logit, after_1 .. after_S (NaN from the step that removes the token on), out, before,
    after.

    It has one row per token, in increasing order of id. `out` is the number of the step that removed the token, or 0.
    """
    V = stages.logits.shape[1]
    after = {f"after_{n}": np.where(np.isfinite(row), row, np.nan) for n, row in enumerate(stages.logits[1:], 1)}
    return pd.DataFrame(
        {
            "rank": stages.ranks,
            "id": np.arange(V),
            "logit": stages.logits[0],
            **after,
            "out": stages.out,
            "before": stages.probabilities[0],
            "after": stages.probabilities[-1],
        },
        copy=False,
    )


@dataclass(frozen=True)
class RowsRequest:
    """A request for table rows: query, page, sort column and direction, or all rows."""

    query: str = ""
    page: int = 0  # counted from 0
    by: str = "rank"  # a column of `frame`, or "token"
    down: bool = False
    all: int = 0  # number of the request for all rows; 0 if they are not requested

    @property
    def reads_texts(self) -> bool:
        """True if the request needs the strings of all tokens."""
        return bool(self.query or self.all or self.by == "token")


def read(sent: object, scene: Scene) -> RowsRequest:
    """Parse a page's request for table rows; an invalid value is replaced by its default (first page, by rank)."""
    query = sent.get("query") if isinstance(sent, Mapping) else None
    query = query[:_LONGEST] if isinstance(query, str) else ""
    columns = ("rank", "token", "id", "logit", *_AFTER, "out", "before", "after")
    down = choice(sent, "down", ("no", "yes")) == "yes"
    page, all_rows = int(number(sent, "page", 0, 1e6, 0)), int(number(sent, "all", 0, 1e9, 0))
    return RowsRequest(query, page, choice(sent, "by", columns), down, all_rows)


@dataclass(frozen=True, eq=False)
class Rows:
    """One page of the table."""

    rows: pd.DataFrame
    total: int  # number of rows that match the query
    page: int
    pages: int


def page_of(table: pd.DataFrame, request: RowsRequest, pieces: Sequence[str]) -> Rows:
    """Return the requested page of the table. `pieces`: the strings of all tokens [V], unused unless
    `request.reads_texts`.
    """
    rows = table if not request.query else table[matches(request.query, pieces)]
    if request.by == "token":
        ids = rows["id"].tolist()
        rows = rows.iloc[sorted(range(len(ids)), key=lambda n: pieces[ids[n]], reverse=request.down)]
    else:
        rows = ordered(rows, request.by, request.down)
    pages = max(1, -(-len(rows) // PAGE))
    page = min(max(request.page, 0), pages - 1)
    return Rows(rows.iloc[page * PAGE : (page + 1) * PAGE], len(rows), page, pages)


def ordered(table: pd.DataFrame, by: str, down: bool) -> pd.DataFrame:
    """Sort the table by a column, in decreasing order if `down`; the model's rank breaks ties, and NaN comes last."""
    values = table[by].to_numpy(np.float64)
    return table.iloc[np.lexsort((table["rank"].to_numpy(), -values if down else values))]  # NaN last either way


def matches(query: str, pieces: Sequence[str]) -> np.ndarray:
    """Find the tokens that contain the query or have it as their id. bool [V]

    The query may contain the symbols that the page shows for white space. A query without capital letters ignores case.
    """
    text, exact = query.translate(_SIGNS), query != query.lower()
    candidates = pieces if exact else [piece.lower() for piece in pieces]
    mask = np.fromiter((text in each or query in each for each in candidates), bool, len(pieces))
    if query.isascii() and query.isdigit() and int(query) < len(pieces):
        mask[int(query)] = True
    return mask


def shown_rows(rows: pd.DataFrame, pieces: Sequence[str]) -> list[dict]:
    """Format one page for the browser: {"id", "text", "out", "rank", "numbers", "shares"} per row; a number is "" once
    the token is removed.
    """
    steps = [name for name in rows.columns if name.startswith("after_")]
    shown = []
    for row, piece in zip(rows.to_dict("records"), pieces, strict=True):
        numbers = [logit(row[name]) if row[name] == row[name] else "" for name in ("logit", *steps)]
        shares = [percent(row["before"]), "" if row["out"] else percent(row["after"])]
        shown.append(
            {
                "id": int(row["id"]),
                "text": visible(piece),
                "out": int(row["out"]),
                "rank": whole(row["rank"]),
                "numbers": numbers,
                "shares": shares,
            }
        )
    return shown


def rows_of(table: pd.DataFrame, names: Sequence[str], pieces: Sequence[str]) -> dict:
    """Return all rows in increasing order of rank: {"names", "lines"}.

    `names`: the column titles, the first for the token's string. Numbers keep the precision of their type; they are
    None once a token is removed.
    """
    table = table.sort_values("rank")
    columns = [[visible(pieces[token]) for token in table["id"].tolist()]]
    for name in table.columns:
        values = table[name].tolist()
        if table[name].dtype == np.float32:
            values = [float(f"{value:.9g}") for value in values]
        columns.append([None if value != value else value for value in values])
    return {"names": list(names), "lines": [list(line) for line in zip(*columns, strict=True)]}
