"""Why this number: the complete computation of one cell of the main head."""

import dataclasses
import math
from dataclasses import dataclass

from model.attention.cell import Explanation, explain
from model.errors import InputError
from model.gpt.config import ModelConfig
from model.gpt.edits import EDITS, Edit
from model.gpt.layers import rope_frequencies
from model.gpt.mixers.projection import Turn
from model.gpt.placed_vectors import ranges
from model.source_code.excerpts import Code
from model.source_code.parts import wiring_of
from model.source_code.steps import STEPS, code_of_step
from viz.numbers import number
from viz.seam.code import code_payload
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import at, measured, named, on, place, places, prompt_tokens
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.seam.view import Custom, Measure, Payload, Seen, View
from viz.views.attention import cells
from viz.views.attention.cell.figures import finite, steps_payload
from viz.views.attention.cells import cell_of

# Tolerance for float32 rounding: relative to the sum of absolute terms for a score, absolute for a weight.
ROUNDING = 1e-5


@dataclass(frozen=True)
class Changed:
    """Effects of edits on one row of one head, beyond those on its queries, keys and values."""

    cell_blocked: bool
    row_blocked: bool
    forced: bool  # the pattern is replaced
    output: bool  # the head's output is replaced or scaled


def measure(scene: Scene, settings: Settings) -> Explanation:
    """Compute every step of the cell. Raises InputError if its numbers are not finite."""
    (layer, head), (query, key) = scene.head, cell_of(scene)
    steps = explain(scene.trace, layer, head, query, key)
    if not all(map(math.isfinite, (steps.dot, steps.denominator, steps.row_output_norm))):
        raise InputError(
            "The numbers of this head are not finite.",
            f"{layer}.{head}",
            "Choose another head, or remove the edit that makes them overflow.",
        )
    return steps


@dataclass(frozen=True)
class Lines:
    """The model's code for every step of the computation."""

    steps: dict[str, Code]


def measure_code(scene: Scene, settings: Settings) -> Lines:
    """Return the code that computes the steps, with the shapes of this run."""
    wiring, (query, _) = wiring_of(scene.model.model, scene.head[0]), cell_of(scene)
    return Lines({step: code_of_step(wiring, step, len(scene.tokens), query) for step in STEPS})


def _still(config: ModelConfig, layer: int) -> int:
    """Count the pairs of dimensions that RoPE leaves as they are in a layer, since their angle is 0."""
    turn = Turn.of(config, layer)
    return int((rope_frequencies(config, local=turn.local) == 0).sum()) if turn.rotates else 0


def shown_steps(seen: Seen) -> Payload:
    """Build the payload of the steps, with the words and a check against the run's own numbers."""
    result, facts, words = seen.result, seen.facts, seen.here
    (layer, head), (query, key) = facts.head, (result.query, result.key)
    names = [cells.named(facts.tokens, query), cells.named(facts.tokens, key)]
    labels = {"layer": layer, "head": head, "query": names[0], "key": names[1]}
    payload = steps_payload(result, facts.tokens)
    return payload | {
        "run": f"{facts.run} {layer}.{head} {query} {key}",
        "title": words["title"].format(**labels, weight=number(result.weight, 4)),
        "note": seen.words["about"],
        "names": names,
        "group": facts.config.at(layer).group_size,
        "kv_source": None if (source := facts.config.kv_source(layer)) == layer else source,
        "still": _still(facts.config, layer),
        "placed": {"pre": "", "post": "post"}.get(facts.config.norm_placement, "after"),
        "check": check(result, changes(facts.edits, facts.head, (query, key))),
        "stage_names": [words[f"stage_{stage['name']}"] for stage in payload["stages"]],
        "words": words.plain(),
        "code": {step: code_payload(code, seen.all_words) for step, code in seen.results["code"].steps.items()},
        "file": f"why-{layer}-{head}-query-{query}-key-{key}",
        "python": script(
            facts, [f"explain(run, {layer}, {head}, {query}, {key})"], ["from model.attention.cell import explain"]
        ),
    }


def changes(edits: tuple[Edit, ...], head: tuple[int, int], cell: tuple[int, int]) -> Changed:
    """Determine how edits affect this head's row after its queries, keys and values are computed."""
    local = [edit for edit in edits if edit.layer in (None, head[0]) and edit.head in (None, head[1])]
    blocked = {edit.key for edit in local if edit.kind == "block_edge" and edit.query == cell[0]}
    for low, high in (span for edit in local if edit.kind == "hide_token" for span in ranges(edit.positions)):
        blocked |= set(range(low, cell[0] + 1 if high is None else high)) - {cell[0]}
    sites = {EDITS[edit.kind].site for edit in local}
    return Changed(cell[1] in blocked, bool(blocked), "pattern" in sites, "z" in sites)


def check(steps: Explanation, changed: Changed) -> dict:
    """Compare the run's own score and weight with the recomputed ones.

    The state is `same` if they agree up to rounding. Otherwise it is the reason for the difference: `forced` (replaced
    pattern), `cell` or `row` (blocked edge), or `apart` (unknown).
    """
    scale = float(abs(steps.products).sum()) / steps.scale + abs(steps.score)
    differences = {"score": steps.model_score - steps.score, "weight": steps.model_weight - steps.weight}
    if abs(differences["score"]) <= ROUNDING * scale and abs(differences["weight"]) <= ROUNDING:
        state = "same"
    elif changed.forced:
        state = "forced"
    elif changed.row_blocked:
        state = "cell" if changed.cell_blocked else "row"
    else:
        state = "apart"
    return {
        "state": state,
        "score": finite(steps.model_score),
        "weight": finite(steps.model_weight),
        "apart": [finite(differences["score"]), finite(differences["weight"])],
        "output": changed.output,
    }


# --- for programs ---


def attention_cell(scene: Scene, layer: int, head: int, query: int = -1, key: int | None = None) -> dict:
    """Explain the computation of one attention cell: projections, rotation, products, score, softmax and output.

    Args:
        query: Position of the query token; negative counts from the end.
        key: Position of the key token, at most that of the query. By default, the one with the largest weight, except
            for the query itself and the first token.

    Returns:
        All intermediate vectors and numbers: q, k, products, dot, score, exponentials, weight, value, output; null for
        a rule that the layer lacks (cap, slope, window, sink, angles); and check: whether the run's own score and
        weight are the same.
    """
    selected = at(on(scene, layer, head), query)
    if key is not None:
        pair = (place(scene, query), place(scene, key))
        selected = dataclasses.replace(selected, picked=dataclasses.replace(selected.picked, pair=pair))
    result = measured(VIEW, "main", selected)
    tokens, changed = prompt_tokens(scene), changes(scene.picked.edits, (layer, head), (result.query, result.key))
    steps = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    texts = {"query_text": tokens[result.query], "key_text": tokens[result.key]}
    return texts | steps | {"check": check(result, changed)}


def head_vectors(scene: Scene, layer: int, head: int, positions: list[int] = ()) -> dict:
    """Return one head's queries and keys (after RoPE, if any) and values, and its output before the projection o.

    Args:
        positions: Positions of the tokens; all by default.

    Returns:
        q, k, v, z: one vector of d_head numbers per position; kv_head: index of the key and value head that it uses.
    """
    on(scene, layer, head)
    rows = places(scene, positions)
    with scene.playground.computing:
        vectors, z = scene.trace.qkv(layer, head), scene.trace.z(layer, head)
    return {
        "layer": layer,
        "head": head,
        "kv_head": head // scene.model.config.at(layer).group_size,
        "positions": rows,
        "tokens": [named(scene.model, scene.tokens.ids[each])["text"] for each in rows],
        "q": vectors.q[rows],
        "k": vectors.k[rows],
        "v": vectors.v[rows],
        "z": z[rows],
    }


VIEW = View(
    "cell",
    needs=("layers",),
    measures=(
        Measure("main", measure, depends=("run", "head", "tokens", "pair"), locks=False),
        Measure("code", measure_code, depends=("run", "head", "tokens", "pair"), locks=False),
    ),
    layout=("steps",),
    parts={"steps": Custom("why", shown_steps, ("main", "code"))},
    api=(Endpoint(attention_cell), Endpoint(head_vectors)),
)
