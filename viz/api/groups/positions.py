"""How positions are written: the vectors of each scheme, and one query and key turned in pairs."""

import dataclasses
from typing import Annotated

from model.api import LanguageModel
from model.design.positions import (
    PRECISIONS,
    SCHEMES,
    as_rope,
    contributions,
    decay_bound,
    frequencies,
    head_qk,
    kernel,
    pair_of,
    polar,
    shift_bound,
    shift_errors,
    similarity,
    vectors,
    wavelengths,
)
from viz.api.arguments import OneOf, Within
from viz.api.reading import check_head, place, prompt_tokens
from viz.page.playground import Playground
from viz.page.scene import Scene

OWN = "own"
MOST_VECTORS = 512


def position_vectors(
    playground: Playground,
    model: LanguageModel,
    scheme: Annotated[str, OneOf((OWN, *SCHEMES))] = OWN,
    length: Annotated[int, Within(1, MOST_VECTORS)] = 64,
) -> dict:
    """How a scheme writes the first positions: its vectors, how alike they are by distance, its wavelengths.

    Args:
        scheme: own: the model's. learned: the table in its weights, if it has one. sinusoidal, rope: by their formulas
            with the sizes of the model, rope with theta 10,000 where the model has none. none: no position is written.
        length: How many positions, from 0.

    Returns:
        vectors: a row a position; learned and sinusoidal: d_model numbers that are added; rope: the cosines and then
        the sines of its pairs. similarity: distance, mean cosine of the vectors so far apart, and the 10 and 90 % over
        positions; null for none. wavelengths: positions in which each pair turns once, kernel: mean cosine by distance,
        bound: of Su et al. 2021, 3.4.3, by distance; all null for learned and none. theta and rotary: of rope; rotary:
        dimensions of a head that turn.
    """
    config = model.config
    name = config.positions if scheme == OWN else scheme
    count = min(length, config.n_ctx) if name == "learned" else length
    table = vectors(model.model, name, range(count))
    answer = {"scheme": name, "own": name == config.positions, "vectors": table}
    turns = name in ("sinusoidal", "rope")
    theta = frequencies(config, name) if turns else None
    found = None if name == "none" else dataclasses.asdict(similarity(table))
    answer |= {
        "similarity": found,
        "wavelengths": wavelengths(theta) if turns else None,
        "kernel": kernel(theta, range(count)) if turns else None,
        "bound": decay_bound(theta, range(count)) if turns else None,
    }
    rope = as_rope(config) if name == "rope" else None
    return answer | {"theta": rope and rope.rope_theta, "rotary": rope and rope.d_rotary}


def rope_pairs(
    scene: Scene,
    layer: int,
    head: int,
    query: int = -1,
    key: int = 0,
    shifts: Annotated[int, Within(0, 1 << 20)] = 4096,
) -> dict:
    """One query and one key of a head as pairs of dimensions that RoPE turns: what each pair adds to the score.

    A model without RoPE does not turn them; then theta is 10,000, own is false, and model_score is the sum of before.

    Args:
        query: Position of the query; negative counts from the end.
        key: Position of the key; negative counts from the end. The later of the two is taken for the query.
        shifts: The largest shift of both positions that is tried, in powers of two.

    Returns:
        pairs: wavelength, lengths |q| and |k|, angles before turning (radians), and what the pair adds before turning
        and turned; rest: what dimensions that are not turned add. score: the sum turned; model_score: the model's own
        q.k / sqrt(d_head). shift: for each precision, the shifts, how far the score moves, and the bound by rounding.
    """
    check_head(scene.model, layer, head)
    m, n = sorted((place(scene, query), place(scene, key)), reverse=True)
    with scene.playground.computing:
        pair = pair_of(scene.model.config, head_qk(scene.trace, layer, head), m, n)
    theta = frequencies(pair.config, "rope")
    (q, q_angle), (k, k_angle) = polar(pair.q, len(theta)), polar(pair.k, len(theta))
    before, after = contributions(pair, [0, pair.distance])
    columns = {
        "wavelength": wavelengths(theta),
        "q": q,
        "k": k,
        "q_angle": q_angle,
        "k_angle": k_angle,
        "before": before[:-1],
        "adds": after[:-1],
    }
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    by = [2**power for power in range(21) if 2**power <= shifts]
    moved = {
        name: {"shifts": by, "moved": shift_errors(pair, by, name), "bound": shift_bound(pair, by, name)}
        for name in PRECISIONS
    }
    tokens = prompt_tokens(scene)
    return {
        "layer": layer,
        "head": head,
        "own": pair.own,
        "theta": pair.config.rope_theta,
        "query": m,
        "key": n,
        "tokens": {"query": tokens[m], "key": tokens[n]},
        "pairs": rows,
        "rest": after[-1],
        "score": after.sum(),
        "model_score": pair.score,
        "shift": moved,
    }
