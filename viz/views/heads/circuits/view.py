"""Head circuits: what a head writes if it reads a token, which keys a query looks for, and its main directions."""

from typing import Annotated

import numpy as np

from model.token_tables.token_table import CIRCUITS, Ends
from viz.labels import quoted
from viz.numbers import decimals, difference, percent, whole
from viz.seam.programs.arguments import OneOf
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, named, on
from viz.seam.python_lines import model_script
from viz.seam.scene import Scene
from viz.seam.view import Figure, Job, Payload, Seen, Table, View
from viz.views.heads.circuits.figures import scores_figure, values_figure
from viz.views.heads.circuits.measure import (
    DRAWS,
    MEASURES,
    PAIRS,
    ROW_DRAWS,
    SAMPLE,
    SETTINGS,
    SHOWN,
    TOKENS,
    TOP,
    VALUE_DRAWS,
    distance_of,
)
from viz.words import joined


def _table_line(seen: Seen, head: tuple[int, int]) -> str:
    """Write the Python expression of the head's table."""
    layer, number = head
    if seen.settings.circuit == "ov":
        table = f"ov_table(lm.model, {layer}, {number}, lm.tokenizer.vocab_size)"
    else:
        table = f"qk_table(lm.model, {layer}, {number}, {distance_of(seen.settings)}, lm.tokenizer.vocab_size)"
    return f"table = {table}" + (".centered()" if seen.settings.relative else "")


def _python(seen: Seen, lines: list[str], of_tables: str = "", others: tuple[str, ...] = ()) -> str:
    """Write the Python lines; `of_tables` are names of model.token_tables.token_table."""
    imports = list(others)
    if of_tables:
        imports += [f"from model.token_tables.head_tables import {seen.settings.circuit}_table"]
        imports += [f"from model.token_tables.token_table import {of_tables}"]
    return model_script(seen.facts, lines, imports)


def _piece(seen: Seen, token: int) -> dict:
    """Build the cell of a token."""
    return {"text": quoted(seen.facts.piece(int(token))), "token": int(token)}


def _signed(value: float) -> str:
    """Format an entry or a score with its sign and two decimals."""
    return difference(float(value), places=2)


def _circuit(seen: Seen, key: str) -> str:
    """Return the words of a part that depend on the circuit."""
    return seen.here[f"{key}_{seen.settings.circuit}"]


def row(seen: Seen) -> Payload:
    """Build the two tables of the tokens at both ends of the row."""
    words, result, ends = seen.here, seen.result, seen.result.ends
    layer, head = result.head
    token = quoted(seen.facts.piece(result.token))
    values = {"layer": layer, "head": head, "token": token, "distance": distance_of(seen.settings)}
    random = {"n": ROW_DRAWS, "high": _signed(result.random_high), "low": _signed(result.random_low)}
    own = {"own": _signed(result.own), "rank": whole(result.rank), "size": whole(_size(seen)), "token": token}
    tables = [
        {
            "caption": _circuit(seen, side),
            "columns": [words["token"], words[f"value_{seen.settings.circuit}"]],
            "rows": [[_piece(seen, n), _signed(x)] for n, x in zip(ids, numbers, strict=True)],
        }
        for side, ids, numbers in (("high", ends.high, ends.high_values), ("low", ends.low, ends.low_values))
    ]
    lines = [_table_line(seen, result.head), f"ends_of(table_row(table, {result.token}), {TOP})"]
    lines += [f"random_rows(lm.model, table, {result.token}, {ROW_DRAWS}).max(1).mean()"]
    return {
        "title": _circuit(seen, "title").format(**values),
        "about": joined([words["control"].format(**random), words["own"].format(**own)]),
        "tables": tables,
        "names": [words["token"], words["entry"]],
        "lines": _lines(seen, ends),
        "python": _python(
            seen, lines, "ends_of, table_row", ("from model.token_tables.random_heads import random_rows",)
        ),
    }


def _size(seen: Seen) -> int:
    return seen.facts.config.vocab_size


def _lines(seen: Seen, ends: Ends) -> list[list]:
    """List both ends of a row for the export."""
    both = ((ends.high, ends.high_values), (ends.low, ends.low_values))
    return [[seen.facts.piece(int(n)), float(x)] for ids, values in both for n, x in zip(ids, values, strict=True)]


def pairs(seen: Seen) -> Payload:
    """Build the two tables of the strongest pairs."""
    words, result = seen.here, seen.result
    layer, head = result.head
    columns = [_circuit(seen, "x"), _circuit(seen, "y"), words["value"]]
    sides = (("high", result.high, result.high_values), ("low", result.low, result.low_values))
    tables = [
        {
            "caption": _circuit(seen, side),
            "columns": columns,
            "rows": [
                [quoted(seen.facts.piece(int(x))), _piece(seen, y), _signed(value)]
                for (x, y), value in zip(ids, values, strict=True)
            ],
        }
        for side, ids, values in sides
    ]
    lines = [_table_line(seen, result.head), "found = extremes(table)", f"high, low = found.strongest({PAIRS})"]
    return {
        "title": words["title"].format(layer=layer, head=head),
        "about": _circuit(seen, "about").format(share=percent(result.own), size=whole(_size(seen))),
        "tables": tables,
        "names": columns,
        "lines": [
            [seen.facts.piece(int(x)), seen.facts.piece(int(y)), float(value)]
            for _, ids, values in sides
            for (x, y), value in zip(ids, values, strict=True)
        ],
        "python": _python(seen, [*lines, "high, found.high[high], found.high_values[high]"], "extremes"),
    }


def scores(seen: Seen) -> Payload:
    """Draw the score of every head, with this head's beside the others' and those of random heads."""
    words, result, score, at = seen.here, seen.result, seen.settings.score, seen.facts.head
    values = getattr(result, score)
    random = result.random_eigenvalues if score == "eigenvalues" else result.random_own
    name = words[f"{score}_{seen.settings.circuit}"]
    known = values[np.isfinite(values)]
    note = words["note"].format(
        layer=at[0],
        head=at[1],
        own=_signed(values[at]),
        heads=whole(len(known)),
        middle=_signed(np.median(known)),
        n=DRAWS,
        low=_signed(random.min()),
        high=_signed(random.max()),
    )
    circuit, distance = seen.settings.circuit, distance_of(seen.settings)
    call = (
        f"head_scores(lm.model, {circuit!r}, {distance}, vocab=lm.tokenizer.vocab_size, sample={SAMPLE}, draws={DRAWS})"
    )
    return {
        "figure": scores_figure(values, {"layer": words["layer"], "head": words["head"], "value": name}),
        "title": words[f"title_{score}_{circuit}"],
        "note": note,
        "columns": [words["layer"], words["head"], name],
        "python": _python(seen, [f"{call}.{score}"], "", ("from model.token_tables.random_heads import head_scores",)),
    }


def _spectrum_python(seen: Seen, lines: list[str]) -> str:
    layer, head = seen.result.head
    given = f"lm.model, {layer}, {head}, {seen.settings.circuit!r}"
    first = f"found = head_directions({given}, {distance_of(seen.settings)})"
    names = "direction_tokens, head_directions, random_singular_values"
    lines = [first, *(each.format(given=given) for each in lines)]
    return _python(seen, lines, "", (f"from model.token_tables.singular import {names}",))


def values(seen: Seen) -> Payload:
    """Draw the singular values beside those of random heads."""
    words, result = seen.here, seen.result
    layer, head = result.head
    names = {key: words[key] for key in ("own", "random", "across", "value")}
    return {
        "figure": values_figure(result.values, result.random, names),
        "title": _circuit(seen, "title").format(layer=layer, head=head),
        "note": words["note"].format(n=VALUE_DRAWS),
        "columns": [words["series"], words["across"], words["value"]],
        "python": _spectrum_python(seen, ["found.values", f"random_singular_values({{given}}, {VALUE_DRAWS})"]),
    }


def directions(seen: Seen) -> Payload:
    """Build the table of the tokens at both ends of the first directions."""
    words, result = seen.here, seen.result
    layer, head = result.head

    def listed(ids: np.ndarray) -> str:
        return " ".join(f"“{quoted(seen.facts.piece(int(n)))}”" for n in ids)

    rows = [
        [
            str(n + 1),
            decimals(float(result.values[n])),
            *(listed(ids) for ids in (read.high, wrote.high, read.low, wrote.low)),
        ]
        for n, (read, wrote) in enumerate(zip(result.reads, result.writes, strict=True))
    ]
    line = (
        f"direction_tokens(lm.model, {layer}, found, {SHOWN}, lm.tokenizer.vocab_size)  # .reads, .writes: [{SHOWN}, V]"
    )
    return {
        "title": _circuit(seen, "title").format(layer=layer, head=head),
        "about": _circuit(seen, "about").format(n=TOKENS),
        "columns": [
            words["number"],
            words["value"],
            *(_circuit(seen, key) for key in ("read", "wrote", "unread", "unwrote")),
        ],
        "rows": rows,
        "python": _spectrum_python(seen, [line]),
    }


def _job(seen: Seen) -> Payload:
    """Say what is computed, until it is."""
    return {"text": "" if seen.results[seen.part.removesuffix("_job")] is not None else seen.here["hint"]}


def head_circuit(
    scene: Scene,
    layer: int,
    head: int,
    circuit: Annotated[str, OneOf(CIRCUITS)] = "ov",
    token: str = "",
    relative: bool = True,
) -> dict:
    """Compute what a head's weights do with one token, and its singular directions, from the embedding alone.

    Args:
        circuit: ov: what the head adds to the logits if it attends to the token; qk: the scores of all keys for the
            token as query (with RoPE, one token apart).
        token: The text of a single token; empty: the last token of the prompt.
        relative: Whether the mean over all tokens is subtracted.

    Returns:
        token; high, low: tokens at both ends of its row, with values; own, rank: the entry of the token itself, and its
        rank; random_high, random_low: mean largest and smallest entry for random heads of the same size;
        singular_values; directions: read and written tokens of the first directions, at their positive (high) and
        negative (low) ends; for qk, read is the query's side and written the key's.
    """
    at, V = on(scene, layer, head), scene.model
    found = measured(VIEW, "row", at, circuit=circuit, token=token, relative=relative)
    spectrum = measured(VIEW, "spectrum", at, circuit=circuit)

    def tokens(ids: np.ndarray) -> list[str]:
        return [V.tokenizer.piece(int(n)) for n in ids]

    def valued(ids: np.ndarray, numbers: np.ndarray) -> list[dict]:
        return [named(V, n) | {"value": x} for n, x in zip(ids, numbers, strict=True)]

    return {
        "token": named(V, found.token),
        "high": valued(found.ends.high, found.ends.high_values),
        "low": valued(found.ends.low, found.ends.low_values),
        "own": found.own,
        "rank": found.rank,
        "random_high": found.random_high,
        "random_low": found.random_low,
        "singular_values": spectrum.values,
        "directions": [
            {
                "read": {"high": tokens(read.high), "low": tokens(read.low)},
                "written": {"high": tokens(wrote.high), "low": tokens(wrote.low)},
            }
            for read, wrote in zip(spectrum.reads, spectrum.writes, strict=True)
        ],
    }


VIEW = View(
    "head_circuits",
    settings=SETTINGS,
    form_depends=("model", "layer"),
    measures=MEASURES,
    layout=("form", ("row", ("scores_job", "scores")), "directions", ("values", ("pairs_job", "pairs"))),
    parts={
        "row": Table(row, of="row", settings=()),
        "scores_job": Job("scores", _job, settings=()),
        "scores": Figure(scores, of="scores", depends=("head",), settings=("score",)),
        "pairs_job": Job("pairs", _job, settings=()),
        "pairs": Table(pairs, of="pairs", settings=()),
        "values": Figure(values, of="spectrum", settings=()),
        "directions": Table(directions, of="spectrum", settings=()),
    },
    api=(Endpoint(head_circuit, reads="plain run"),),
)
