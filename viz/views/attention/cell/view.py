"""Why this number: one cell of the main head, computed in front of the reader."""

import math
from dataclasses import dataclass

from model.attention.cell import Explanation, explain
from model.errors import InputError
from model.gpt.edits import EDITS, Edit
from viz.page.parts import plot_words
from viz.page.picking import source
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture
from viz.views.attention.cell.figures import named, number, why_payload
from viz.words import section

# What float32 may lose: of a score, relative to its absolute terms; of a weight, as a share.
ROUNDING = 1e-5


@dataclass(frozen=True)
class Changed:
    """How edits reach one row of one head, beyond its queries, keys and values."""

    cell_blocked: bool
    row_blocked: bool
    forced: bool  # the pattern is replaced
    output: bool  # the head's output is replaced or scaled


def pictures(scene: Scene, cell: tuple[int, int]) -> dict[str, Picture]:
    """One part, "why", for a cell (query, key) of the main head."""
    return {"why": Picture((scene.run, scene.head, cell), lambda: payload(scene, cell))}


def payload(scene: Scene, cell: tuple[int, int]) -> dict:
    """The steps, what the run itself computed, and the words. Raises InputError where the numbers are not finite."""
    (layer, head), (query, key) = scene.head, cell
    words, tokens, config = scene.words, scene.trace.tokens, scene.model.config
    found = explain(scene.trace, layer, head, query, key)
    if not all(map(math.isfinite, (found.dot, found.denominator, found.row_output_norm))):
        raise InputError(words["why.not_finite"], f"{layer}.{head}", words["why.not_finite_hint"])
    asker, asked = named(tokens, query), named(tokens, key)
    place = {"layer": layer, "head": head, "query": asker, "key": asked}
    changed = changes(scene.picked.edits, (layer, head), cell)
    steps = why_payload(found, tokens)
    return steps | {
        "run": f"{scene.run} {layer}.{head} {query} {key}",
        "title": words["why.title"].format(**place, weight=f"{found.weight:.4g}"),
        "names": [asker, asked],
        "group": config.group_size,
        "post": config.norm_placement == "post",
        "check": check(found, changed),
        "stage_names": [words[f"why.stage_{stage['name']}"] for stage in steps["stages"]],
        "words": section(words, "why") | plot_words(words),
        "source": source(scene),
        "file": f"why-{layer}-{head}-query-{query}-key-{key}",
        "python": python_lines(
            scene, [f"explain(run, {layer}, {head}, {query}, {key})"], ["from model.attention.cell import explain"]
        ),
    }


def changes(edits: tuple[Edit, ...], head: tuple[int, int], cell: tuple[int, int]) -> Changed:
    """What the edits do to this head's row after its queries, keys and values are made."""
    here = [edit for edit in edits if edit.layer in (None, head[0]) and edit.head in (None, head[1])]
    blocked = {edit.key for edit in here if edit.kind == "block_edge" and edit.query == cell[0]}
    sites = {EDITS[edit.kind].site for edit in here}
    return Changed(cell[1] in blocked, bool(blocked), "pattern" in sites, "z" in sites)


def check(found: Explanation, changed: Changed) -> dict:
    """The run's own numbers beside ours: "same" to rounding, else why not: "forced", "cell", "row" or "apart"."""
    size = float(abs(found.products).sum()) / found.scale
    apart = {"score": found.model_score - found.score, "weight": found.model_weight - found.weight}
    same = abs(apart["score"]) <= ROUNDING * size and abs(apart["weight"]) <= ROUNDING
    if same:
        state = "same"
    elif changed.forced:
        state = "forced"
    elif changed.row_blocked:
        state = "cell" if changed.cell_blocked else "row"
    else:
        state = "apart"
    return {
        "state": state,
        "score": number(found.model_score),
        "weight": number(found.model_weight),
        "apart": [number(apart["score"]), number(apart["weight"])],
        "output": changed.output,
    }
