"""The whole vocabulary of one position as a table: searched, sorted, a page at a time, or all of it as CSV."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from viz.labels import visible
from viz.views.predictions.figures import percent
from viz.views.sampling.distribution.figures import PAGE, Stages

_SIGNS = str.maketrans({"·": " ", "↵": "\n", "⇥": "\t"})  # as the page shows them -> what they stand for
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet runs what begins with one of these


def frame(found: Stages) -> pd.DataFrame:
    """A row a token, in the order of ids: rank, id, logit, after_1 .. after_S (NaN once it is out), out, before, after.

    `out` is the step that dropped it, 0 for one that is in.
    """
    V = found.logits.shape[1]
    after = {f"after_{n}": np.where(np.isfinite(row), row, np.nan) for n, row in enumerate(found.logits[1:], 1)}
    return pd.DataFrame(
        {
            "rank": found.ranks,
            "id": np.arange(V),
            "logit": found.logits[0],
            **after,
            "out": found.out,
            "before": found.probabilities[0],
            "after": found.probabilities[-1],
        },
        copy=False,
    )


@dataclass(frozen=True)
class Asked:
    """Which rows of the table."""

    query: str = ""
    page: int = 0  # from 0
    by: str = "rank"  # a column of `frame`, or "token"
    down: bool = False


@dataclass(frozen=True, eq=False)
class Rows:
    """A page of the table."""

    rows: pd.DataFrame
    total: int  # rows that fit the query
    page: int
    pages: int


def page_of(table: pd.DataFrame, asked: Asked, pieces: Callable[[], Sequence[str]]) -> Rows:
    """The rows asked for. `pieces` gives the texts of all tokens; called only to search or to sort by them."""
    found = table if not asked.query else table[matches(asked.query, pieces())]
    if asked.by == "token":
        texts, ids = pieces(), found["id"].tolist()
        found = found.iloc[sorted(range(len(ids)), key=lambda n: texts[ids[n]], reverse=asked.down)]
    else:
        found = ordered(found, asked.by, asked.down)
    pages = max(1, -(-len(found) // PAGE))
    page = min(max(asked.page, 0), pages - 1)
    return Rows(found.iloc[page * PAGE : (page + 1) * PAGE], len(found), page, pages)


def ordered(table: pd.DataFrame, by: str, down: bool) -> pd.DataFrame:
    """Sorted by a column; of equals the likelier token first, and tokens without a number last."""
    values = table[by].to_numpy(np.float64)
    return table.iloc[np.lexsort((table["rank"].to_numpy(), -values if down else values))]  # NaN is last either way


def matches(query: str, pieces: Sequence[str]) -> np.ndarray:
    """Which tokens contain the text, with the signs that the page shows for spaces, or have this id. bool [V]

    A query without capitals finds them, too.
    """
    meant, exact = query.translate(_SIGNS), query != query.lower()
    texts = pieces if exact else [piece.lower() for piece in pieces]
    fits = np.fromiter((meant in text or query in text for text in texts), bool, len(pieces))
    if query.isascii() and query.isdigit() and int(query) < len(pieces):
        fits[int(query)] = True
    return fits


def told_rows(rows: pd.DataFrame, pieces: Sequence[str]) -> list[dict]:
    """A page as the browser shows it: {"id", "text", "out", "cells"}; cells as text, "" once a token is out."""
    steps = [name for name in rows.columns if name.startswith("after_")]
    made = []
    for row, piece in zip(rows.to_dict("records"), pieces, strict=True):
        numbers = [f"{row[name]:.3f}" if row[name] == row[name] else "" for name in ("logit", *steps)]
        shares = [percent(row["before"]), "" if row["out"] else percent(row["after"])]
        made.append(
            {
                "id": int(row["id"]),
                "text": visible(piece),
                "out": int(row["out"]),
                "rank": f"{row['rank']:,}",
                "numbers": numbers,
                "shares": shares,
            }
        )
    return made


def rows_of(table: pd.DataFrame, names: Sequence[str], pieces: Sequence[str]) -> dict:
    """Every row, likeliest first: {"names", "lines"}. Names: of the columns, the token's text being the first.

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
