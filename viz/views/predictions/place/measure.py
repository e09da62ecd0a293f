"""A vector of one run at one cell of the lens grid, put at a cell of another: both grids, and the run after it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from model.arguments import check_position, check_whole
from model.gpt.placed_vectors import vector_text
from model.steering.placing import Placing, placing, placing_edit, reachable
from model.tracing.logit_lens import LensReading, read_layers
from model.tracing.trace import Trace
from viz.charts.distribution import likeliest
from viz.seam.scene import Scene
from viz.seam.settings import Settings, Text
from viz.seam.view import Measure
from viz.views.predictions.lens.measure import columns_of, page_of
from viz.work.prompt import Prompt, with_text

EXAMPLE = "Tom lost his favorite toy. Tom was very"
MOST_COLUMNS = 24  # three grids are shown at once
DRAWS, FEW, LONG, TOP = 4, 2, 128, 3  # random vectors; fewer for prompts of more than LONG tokens
SETTINGS = (Text("source", EXAMPLE, max_length=400),)

Cell = tuple[int, int]  # layers passed, position
Cells = tuple[Cell | None, Cell | None]  # of the source and of the target, as the page sent them; None: the default


@dataclass(frozen=True, eq=False)
class Grid:
    """The lens on a page of a run, with the cell that is picked on it."""

    reading: LensReading
    pieces: tuple[str, ...]  # texts of all tokens of the run
    cell: Cell


@dataclass(frozen=True, eq=False)
class Placed:
    """The run with the vector in its place, and what changed."""

    grid: Grid
    reach: np.ndarray  # cells that could change, bool [L + 1, P]
    moved: np.ndarray  # |after - before| / |before| of the stream, float32 [L + 1, P]
    source: Cell
    vector: str  # as edits write it
    watched: int  # the token that the source itself predicts after its position
    effect: Placing
    before: np.ndarray  # logits at the selected position, [V]
    after: np.ndarray
    reached: bool  # whether the prediction there could change


def read_cells(value: object, scene: Scene) -> Cells:
    """Return the picked cells of both grids as (layers passed, position); None for one that is not sent."""
    fields = value if isinstance(value, Mapping) else {}
    return _cell(fields.get("source")), _cell(fields.get("target"))


def _cell(sent: object) -> Cell | None:
    if isinstance(sent, list) and len(sent) == 2 and all(type(each) is int and 0 <= each < 1 << 20 for each in sent):
        return sent[0], sent[1]
    return None


def checked_cell(run: Trace, layers: int, position: int) -> Cell:
    """Return a cell from a program's arguments: a negative number of layers is the default, and a negative position
    counts from the end. Raises InputError for a cell that does not exist.
    """
    L, T = run.config.n_layer, len(run.tokens)
    check_position(position, T, from_end=True)
    check_whole("layers", layers, -1, L)
    return 3 * L // 4 if layers < 0 else layers, position % T


def beside(scene: Scene, settings: Settings) -> tuple[str, Prompt]:
    """Return the model and the prompt of the source: the scene's own if the field is empty."""
    return scene.model.id, source_prompt(scene, settings.source)


def source_prompt(scene: Scene, text: str) -> Prompt:
    """Return the prompt of the source; an empty text stands for the scene's own."""
    return with_text(scene.prompt, text.strip()) if text.strip() else scene.prompt


def _source_run(scene: Scene, settings: Settings) -> Trace:
    return scene.beside(*beside(scene, settings))


def _usual(picked: Cell | None, run: Trace, lowest: int) -> Cell:
    """Return the picked cell within the grid; by default the last token after three quarters of the layers."""
    L, T = run.config.n_layer, len(run.tokens)
    row, position = picked or (3 * L // 4, T - 1)
    return min(max(row, lowest), L), min(position, T - 1)


def _grid(scene: Scene, run: Trace, cell: Cell) -> Grid:
    start, end = page_of(len(run.tokens), cell[1], min(columns_of(scene, False), MOST_COLUMNS))
    return Grid(read_layers(run, range(start, end), top=TOP), run.tokens.pieces, cell)


def source_only(scene: Scene, settings: Settings) -> Settings:
    """Drop the cell of the target, on which the source does not depend."""
    return settings.but(grids=settings.grids[0])


def target_only(scene: Scene, settings: Settings) -> Settings:
    """Drop the cell of the source, on which the run without the vector does not depend."""
    return Settings((("grids", settings.grids[1]),))


def measure_source(scene: Scene, settings: Settings) -> Grid:
    """Read the lens on the run that gives the vector."""
    run = _source_run(scene, settings)
    return _grid(scene, run, _usual(settings.grids, run, 0))


def measure_target(scene: Scene, settings: Settings) -> Grid:
    """Read the lens on the run that receives the vector, as it is without it."""
    return _grid(scene, scene.trace, _usual(settings.grids, scene.trace, 1))


def measure_placed(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> Placed:
    """Place the vector, and measure its effect beside random vectors of its length."""
    source, target = results["source"].cell, results["target"].cell
    run, other, (row, position) = scene.trace, _source_run(scene, settings), target
    vector = other.hidden(source[0])[source[1]]
    watched, at = likeliest(other.logits_at(source[1]), 1)[0], scene.position
    after = run.edit(placing_edit(vector, row, position))
    grid = _grid(scene, after, target)
    page = slice(int(grid.reading.positions[0]), int(grid.reading.positions[-1]) + 1)
    change = np.linalg.norm(after.residuals.numpy()[:, page] - run.residuals.numpy()[:, page], axis=-1)
    size = np.linalg.norm(run.residuals.numpy()[:, page], axis=-1)
    cells = reachable(run, row, position)
    return Placed(
        grid,
        cells[:, page],
        (change / np.maximum(size, np.finfo(np.float32).tiny)).astype(np.float32),
        source,
        vector_text(vector),
        watched,
        placing(run, vector, row, position, watched, at=at, draws=DRAWS if len(run.tokens) <= LONG else FEW),
        run.logits_at(at),
        after.logits_at(at),
        bool(cells[-1, at]),
    )


MEASURES = (
    Measure("source", measure_source, ("model", "prompt"), ("source", "grids"), beside=beside, question=source_only),
    Measure("target", measure_target, ("run",), ("grids",), question=target_only),
    Measure("placed", measure_placed, ("run", "token"), ("source", "grids"), uses=("source", "target"), beside=beside),
)
