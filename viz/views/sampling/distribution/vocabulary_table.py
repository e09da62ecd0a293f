"""The whole vocabulary of one position as a table: searched, sorted, a page at a time, or all of it as CSV."""

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

PAGE = 50  # rows of a page
_LONGEST = 100  # characters of a search
_AFTER = tuple(f"after_{n}" for n in range(1, MOST_STEPS + 1))
_SIGNS = str.maketrans({"·": " ", "↵": "\n", "⇥": "\t"})  # as the page shows them -> what they stand for
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet runs what begins with one of these


def frame(stages: Stages) -> pd.DataFrame:
    """Return a row a token, in the order of ids: rank, id, logit, after_1 .. after_S (NaN once it is out), out, before,
    after.

    `out` is the step that dropped it, 0 for one that is in.
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
class Request:
    """Which rows of the table."""

    query: str = ""
    page: int = 0  # from 0
    by: str = "rank"  # a column of `frame`, or "token"
    down: bool = False
    all: int = 0  # the number of the page's request for every row; 0 where it makes none

    @property
    def reads_texts(self) -> bool:
        """Whether the texts of all tokens are needed."""
        return bool(self.query or self.all or self.by == "token")


def read(sent: object, scene: Scene) -> Request:
    """Return the request for the table that a page sent; an invalid one is the first page."""
    query = sent.get("query") if isinstance(sent, Mapping) else None
    query = query[:_LONGEST] if isinstance(query, str) else ""
    columns = ("rank", "token", "id", "logit", *_AFTER, "out", "before", "after")
    down = choice(sent, "down", ("no", "yes")) == "yes"
    page, every = int(number(sent, "page", 0, 1e6, 0)), int(number(sent, "all", 0, 1e9, 0))
    return Request(query, page, choice(sent, "by", columns), down, every)


@dataclass(frozen=True, eq=False)
class Rows:
    """A page of the table."""

    rows: pd.DataFrame
    total: int  # rows that fit the query
    page: int
    pages: int


def page_of(table: pd.DataFrame, request: Request, pieces: Sequence[str]) -> Rows:
    """Return the requested rows. `pieces`: the texts of all tokens; not read where the request does not need them."""
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
    """Sorted by a column; ties are broken by the likelier token, and tokens without a number come last."""
    values = table[by].to_numpy(np.float64)
    return table.iloc[np.lexsort((table["rank"].to_numpy(), -values if down else values))]  # NaN is last either way


def matches(query: str, pieces: Sequence[str]) -> np.ndarray:
    """Which tokens contain the text, with the signs that the page shows for spaces, or have this id. bool [V]

    A query without capitals finds them, too.
    """
    sought, exact = query.translate(_SIGNS), query != query.lower()
    texts = pieces if exact else [piece.lower() for piece in pieces]
    fits = np.fromiter((sought in text or query in text for text in texts), bool, len(pieces))
    if query.isascii() and query.isdigit() and int(query) < len(pieces):
        fits[int(query)] = True
    return fits


def shown_rows(rows: pd.DataFrame, pieces: Sequence[str]) -> list[dict]:
    """Return a page as the browser shows it: {"id", "text", "out", "cells"}; cells as text, "" once a token is out."""
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
    """Return every row, likeliest first: {"names", "lines"}. Names: of the columns, the token's text being the first.

    Numbers with as many digits as their type has; None where a token is out.
    """
    table = table.sort_values("rank")
    columns = [[visible(pieces[token]) for token in table["id"].tolist()]]
    for name in table.columns:
        values = table[name].tolist()
        if table[name].dtype == np.float32:
            values = [float(f"{value:.9g}") for value in values]
        columns.append([None if value != value else value for value in values])
    return {"names": list(names), "lines": [list(line) for line in zip(*columns, strict=True)]}
