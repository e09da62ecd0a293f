"""Fine-tune: a model learns to answer from examples of instructions and answers."""

from dataclasses import dataclass

from model.alignment.example_sets import SETS
from model.alignment.instructions import Example
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.seam.view import Measure, Payload, Seen, Table, View

SET = Choice("set", tuple(SETS))
SHOWN = 8  # examples in the table


@dataclass(frozen=True)
class Examples:
    """The examples that are learned from."""

    rows: tuple[Example, ...]


def measure_examples(scene: Scene, settings: Settings) -> Examples:
    """The examples of the chosen set."""
    return Examples(tuple(SETS[settings.set]()))


def table(seen: Seen) -> Payload:
    """The first examples."""
    words, rows = seen.here, seen.result.rows
    return {
        "title": words["title"].format(n=len(rows)),
        "columns": [words["instruction"], words["input"], words["output"]],
        "rows": [[each.instruction, each.input, each.output] for each in rows[:SHOWN]],
    }


VIEW = View(
    "fine_tune",
    layout=("form", "table"),
    settings=(SET,),
    measures=(Measure("examples", measure_examples, depends=(), settings=("set",), locks=False),),
    parts={"table": Table(table, "examples")},
)
