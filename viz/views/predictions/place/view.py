"""Placing a vector: a cell of one lens grid put at a cell of another, and the grid of the run after it."""

from dataclasses import asdict

from model.attention.effects import next_rows
from viz.charts.distribution import entropy, moved, prediction_rows
from viz.labels import quoted, shorten
from viz.numbers import nats, percent
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import at, measured, named
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.view import Asking, Custom, Payload, Seen, View
from viz.theme import RAMPS
from viz.views.predictions.place.figures import grid_payload
from viz.views.predictions.place.measure import (
    EXAMPLE,
    MEASURES,
    SETTINGS,
    TOP,
    Grid,
    Placed,
    checked_cell,
    read_cells,
    source_prompt,
)
from viz.words import Words, plot_words, section
from viz.work.prompt import python_of, with_text

ROWS = 5  # top tokens of each side
_IMPORTS = ["from model.steering.placing import placing, placing_edit, reachable"]


def _python(seen: Seen) -> str:
    """Write the Python lines that place the vector and compute the numbers."""
    placed: Placed = seen.results["placed"]
    (row, position), (source_row, source_position) = placed.grid.cell, placed.source
    text, draws = seen.settings.source.strip(), len(placed.effect.random_kl)
    other = f"lm.trace({python_of(with_text(seen.facts.prompt, text))})" if text else "run.unedited()"
    positions = placed.grid.reading.positions
    lines = [
        f"other = {other}",
        f"vector = other.hidden({source_row})[{source_position}]",
        f"after = run.edit(placing_edit(vector, {row}, {position}))",
        f"after.logit_lens({TOP}, range({positions[0]}, {positions[-1] + 1}))",
        f"reachable(run, {row}, {position})  # [layer, position]",
        f"placing(run, vector, {row}, {position}, {placed.watched}, at={seen.facts.position}, draws={draws})",
    ]
    return script(seen.facts, lines, _IMPORTS)


def grids(seen: Seen) -> Payload:
    """Build the grids of the source, of the prompt, and of the prompt with the vector in its place."""
    source, target, placed = (seen.results[name] for name in ("source", "target", "placed"))
    words, piece = seen.here, seen.facts.piece

    def shares(grid: Grid) -> dict:
        return grid_payload(grid.reading, grid.pieces, piece, grid.cell, grid.reading.probabilities[..., 0], 1.0)

    top = float(placed.moved.max()) or 1.0
    after = grid_payload(placed.grid.reading, placed.grid.pieces, piece, placed.grid.cell, placed.moved, top)
    after["reach"] = placed.reach.ravel().tolist()
    table = Words(seen.all_words, "lens").within("table").plain()
    return {
        "title": words["title"],
        "about": words["about"],
        "grids": {"source": shares(source), "target": shares(target), "after": after},
        "ramps": {name: list(stops) for name, stops in RAMPS.items()},
        "top": percent(top),
        "file": "place-vector",
        "python": _python(seen),
        "words": table | words.plain() | plot_words(seen.all_words),
    }


def use(seen: Seen) -> Payload:
    """Say what the vector does beside random ones, and build the edit that keeps it, for a button."""
    words, placed, facts = seen.here, seen.results["placed"], seen.facts
    effect, (row, position), (source_row, source_position) = placed.effect, placed.grid.cell, placed.source
    source: Grid = seen.results["source"]
    values = {
        "token": quoted(shorten(facts.piece(placed.watched), 24)),
        "before": percent(effect.base_share),
        "after": percent(effect.share),
        "low": percent(float(effect.random_share.min())),
        "high": percent(float(effect.random_share.max())),
        "kl": nats(effect.kl),
        "least": nats(float(effect.random_kl.min())),
        "most": nats(float(effect.random_kl.max())),
        "n": len(effect.random_kl),
    }
    said = ("told", "moved") if placed.reached else ("unreached",)
    told = [words[each].format(**values, position=facts.position) for each in said]
    name = words["name"].format(token=shorten(source.pieces[source_position].strip(), 16), row=source_row)
    edit = {"kind": "place_vector", "layer": row - 1, "site": "resid_post", "vector": placed.vector}
    edit |= {"positions": str(position), "name": name}
    return {
        "title": words["title"].format(
            source=quoted(source.pieces[source_position]),
            source_row=source_row,
            target=quoted(placed.grid.pieces[position]),
            row=row,
        ),
        "told": told,
        "use": words["use"],
        "edit": edit,
    }


def prediction(seen: Seen) -> Payload:
    """Build the table of the most likely next tokens before and after the vector is placed."""
    words, placed, facts = seen.here, seen.results["placed"], seen.facts
    table = next_rows(placed.before, placed.after, ROWS)
    texts = section(seen.all_words, "before_after")
    columns = ("column_id", "column_token", "csv_p_before", "csv_p_after", "csv_logit_before", "csv_logit_after")
    return {
        "title": words["title"].format(token=quoted(facts.pieces[facts.position]), position=facts.position),
        "note": words["note"],
        "edited": True,
        "rows": prediction_rows(table, [facts.piece(int(number)) for number in table["id"]]),
        **moved([entropy(placed.before), entropy(placed.after)], placed.effect.kl),
        "file": f"place-vector-next-{facts.position}",
        "columns": [texts[name] for name in columns],
        "python": _python(seen),
        "words": texts | plot_words(seen.all_words),
    }


def place_vector(
    scene: Scene,
    source: str = EXAMPLE,
    source_layers: int = -1,
    source_position: int = -1,
    layers: int = -1,
    target: int = -1,
    position: int = -1,
) -> dict:
    """Put the stream of one token of another prompt in the place of a token's, and compare the prediction.

    Args:
        source: The prompt that gives the vector; empty: the prompt itself.
        source_layers: Number of layers that the vector has passed, from 0; negative: three quarters of the layers.
        source_position: Its position; negative ones count from the end.
        layers: Number of layers passed where it is placed, from 1; negative: three quarters of the layers.
        target: The position where it is placed.
        position: The position after which the prediction is compared.

    Returns:
        edit: the edit that places the vector; reach: by layers passed and position, whether the cell could change;
        moved: by how much its stream changed, relative to its length, at the positions listed in positions; watched:
        the token that the source itself predicts; share, base_share and random_share: its probability with the vector,
        without, and with random vectors of the same length; kl and random_kl: KL(before || after) in nats.
    """
    selected, own = at(scene, position), scene.beside(scene.model.id, source_prompt(scene, source))
    cells = checked_cell(own, source_layers, source_position), checked_cell(scene.trace, layers, target)
    found: Placed = measured(VIEW, "placed", selected, source=source, grids=cells)
    row, where = found.grid.cell
    edit = {"kind": "place_vector", "layer": row - 1, "site": "resid_post", "vector": found.vector}
    return {
        "edit": edit | {"positions": str(where)},
        "source_cell": list(found.source),
        "target_cell": [row, where],
        "positions": found.grid.reading.positions.tolist(),
        "reach": found.reach,
        "moved": found.moved,
        "watched": named(scene.model, found.watched),
        **asdict(found.effect),
    }


VIEW = View(
    "place",
    settings=SETTINGS,
    measures=MEASURES,
    layout=("form", "grids", ("use", "prediction")),
    parts={
        "grids": Asking("placegrids", read_cells, grids, of=("source", "target", "placed"), settings=("source",)),
        "use": Custom("steer", use, of=("placed", "source"), settings=()),
        "prediction": Custom("beforeafter", prediction, of="placed", depends=("token",), settings=("source",)),
    },
    api=(Endpoint(place_vector),),
)
