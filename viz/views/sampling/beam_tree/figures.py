"""Records of a beam search for the page: the candidates that are drawn, with their numbers."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from viz.labels import visible
from viz.numbers import plain


class Candidate(Protocol):
    """A continuation considered by a beam search: model.generation.search.beam_tree.Candidate."""

    step: int
    parent: int
    id: int
    log_probability: float
    total: float
    penalty: float
    score: float
    group: int
    place: int
    state: str
    ended: str
    reason: str
    pruned: int


def drawn(candidates: Sequence[Candidate], share: int) -> list[int]:
    """Return the indexes of the candidates to draw: all that were kept or finished, and of the others those among the
    first 2 `share` places of their step and group. `share`: beams per group.
    """
    return [
        index for index, each in enumerate(candidates) if each.place < 2 * share or each.reason not in ("below", "late")
    ]


def records(
    candidates: Sequence[Candidate],
    typed: Sequence[str | None],
    shown: Sequence[int],
    results: Sequence[int],
    piece: Callable[[int], str],
) -> list[dict]:
    """Pack the drawn candidates for the page. `parent` is an index of the drawn ones, and `rank` counts the final texts
    from 1; -1 stands for the prompt, and 0 for no final text.
    """
    place = {index: at for at, index in enumerate(shown)}
    rank = {index: n for n, index in enumerate(results, 1)}
    entries = []
    for index in shown:
        each = candidates[index]
        numbers: Mapping[str, float] = {
            "p": math.exp(each.log_probability),
            "total": each.total,
            "penalty": each.penalty,
            "score": each.score,
        }
        entries.append(
            {
                "text": visible(piece(each.id)),
                "id": each.id,
                "step": each.step,
                "parent": place.get(each.parent, -1),
                "group": each.group,
                "place": each.place,
                "state": each.state,
                "reason": each.reason,
                "pruned": each.pruned,
                "ended": each.ended,
                "rank": rank.get(index, 0),
                "typed": typed[index],
            }
            | {name: plain(value) for name, value in numbers.items()}
        )
    return entries
