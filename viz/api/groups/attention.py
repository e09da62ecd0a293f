"""The attention tab's numbers: all heads, one head's map, its strongest links, one cell, and who looks where."""

import dataclasses
from typing import Annotated

from model.attention.cell import explain
from model.attention.find_heads import RANKINGS, rank_heads
from model.attention.measures import MEASURES
from model.attention.measures import measure as measured
from model.errors import InputError, say
from viz.api.answers import largest_cells, ranked_heads
from viz.api.arguments import OneOf, Rows
from viz.api.reading import at, named, on, place, places, prompt_tokens
from viz.page.background import kept
from viz.page.picking import cell_of
from viz.page.scene import Scene
from viz.views.attention.cell import view as cell
from viz.views.attention.find import view as find

Measure = Annotated[str, OneOf(tuple(MEASURES))]


def head_metrics(scene: Scene) -> dict:
    """Every head of the model in eight numbers on this prompt. They are: previous token, self, first token (sink),
    entropy, effective span, mean distance, duplicate token, induction.

    Returns:
        heads: a record a head with layer, head and the metrics. Shares lie between 0 and 1, effective_span and
        distance are in tokens; null where the prompt has nothing to measure, as without a repeated token.
    """
    return {"tokens": prompt_tokens(scene), "heads": scene.trace.head_metrics()}


def _matrix(scene: Scene, name: str, layer: int, head: int) -> object:
    """A measure of a head [T, T], NaN where nothing is seen; those of whole layers are kept, as for the page."""
    on(scene, layer, head)

    def make() -> object:
        with scene.playground.computing:
            return measured(scene.trace, name, layer, head)

    if MEASURES[name].of == "layer":
        return kept(scene.playground, (scene.trace.key, name, layer), make)
    return make()


def attention(scene: Scene, layer: int, head: int, measure: Measure = "weights", queries: list[int] = ()) -> dict:
    """One head's attention as a matrix: a row a query, a column a key.

    Args:
        measure: weights: attention after the softmax. scores: q.k / sqrt(d_head) before it. without_first: weights
            with the first token left out. value_weighted: length of what each key writes. rollout and flow: how much
            of each input token reaches a token through all layers up to this one, heads together.
        queries: Positions whose rows are wanted, counted from 0, negative from the end; all where none are given.
            A whole matrix has tokens x tokens numbers.

    Returns:
        rows: a list a query, null for keys that it cannot see; queries: their positions; tokens: texts of the prompt.
    """
    wanted, z = places(scene, queries), _matrix(scene, measure, layer, head)
    return {
        "layer": layer,
        "head": head,
        "measure": measure,
        "tokens": prompt_tokens(scene),
        "queries": wanted,
        "rows": z[wanted],
    }


def attention_links(scene: Scene, layer: int, head: int, measure: Measure = "weights", most: Rows = 40) -> dict:
    """The strongest links of one head: which token reads which, the largest number first.

    Args:
        measure: As in attention.

    Returns:
        links: records with query, key (positions), query_text, key_text and value.
    """
    z, tokens = _matrix(scene, measure, layer, head), prompt_tokens(scene)
    links = [
        {"query": query, "key": key, "query_text": tokens[query], "key_text": tokens[key], "value": value}
        for query, key, value in largest_cells(z, most)
    ]
    return {"layer": layer, "head": head, "measure": measure, "links": links}


def attention_cell(scene: Scene, layer: int, head: int, query: int = -1, key: int | None = None) -> dict:
    """Why one cell of a head's attention has its number, step by step: projections, rotation, products, score,
    softmax, and what the cell writes.

    Args:
        query: Position of the token that looks; negative counts from the end.
        key: Position of the token that is looked at, not after the query. Not given: the one it reads most, itself
            and the first token aside.

    Returns:
        Every vector and number of the way: q, k, products, dot, score, exponentials, weight, value, output; and
        check: whether the run's own score and weight are the same.
    """
    looked = at(on(scene, layer, head), query)
    query, key = cell_of(looked) if key is None else (place(scene, query), place(scene, key))
    with scene.playground.computing:
        found = explain(scene.trace, layer, head, query, key)
    told = cell.check(found, cell.changes(scene.picked.edits, (layer, head), (query, key)))
    tokens = prompt_tokens(scene)
    parts = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    return {"query_text": tokens[query], "key_text": tokens[key], **parts, "check": told}


def find_heads(
    scene: Scene,
    queries: list[int],
    keys: list[int],
    measure: Annotated[str, OneOf(tuple(RANKINGS))] = "weights",
    most: Rows = 20,
) -> dict:
    """Which heads look from some tokens back to some others, the strongest first.

    Args:
        queries: Positions of the tokens that look, counted from 0, negative from the end.
        keys: Positions of the tokens that are looked at.
        measure: weights: summed attention weight on the keys, mean over the queries. value_weighted: length of what
            the keys write.

    Returns:
        heads: records with layer, head, value; of all heads the strongest.
    """
    if not queries or not keys:
        raise InputError("An argument is missing.", "queries" if not queries else "keys", "Give at least one position.")
    q, k = (tuple(sorted(places(scene, each))) for each in (queries, keys))
    T = len(scene.trace.tokens)
    if len(q) * T > find.MOST_ROWS:
        raise InputError("These are too many queries.", str(len(q)), say("At most {}.", find.MOST_ROWS // T))

    def make() -> object:
        with scene.playground.computing:
            return rank_heads(scene.trace, q, k, measure)

    values = kept(scene.playground, (scene.trace.key, "find", find.Asked(q, k, measure)), make)
    return {"measure": measure, "queries": q, "keys": k, "heads": ranked_heads(values, most)}


def head_vectors(scene: Scene, layer: int, head: int, positions: list[int] = ()) -> dict:
    """Queries, keys and values of one head, positions applied (RoPE), and its output before the projection o.

    Args:
        positions: Tokens whose vectors are wanted; all where none are given.

    Returns:
        q, k, v, z: a vector of d_head numbers a position; kv_head: which of the shared key and value heads it has.
    """
    on(scene, layer, head)
    wanted = places(scene, positions)
    with scene.playground.computing:
        found, z = scene.trace.qkv(layer, head), scene.trace.z(layer, head)
    return {
        "layer": layer,
        "head": head,
        "kv_head": head // scene.model.config.group_size,
        "positions": wanted,
        "tokens": [named(scene.model, scene.trace.tokens.ids[each])["text"] for each in wanted],
        "q": found.q[wanted],
        "k": found.k[wanted],
        "v": found.v[wanted],
        "z": z[wanted],
    }
