"""Find the head: which heads attend from the given tokens back to the given earlier ones?"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from model.attention.find_heads import RANKINGS, punctuation, rank_heads
from model.errors import InputError, PlaygroundError, say
from viz.charts.layer_head_map import HeadWords
from viz.labels import shorten, visible
from viz.numbers import decimals, whole
from viz.seam.programs.answers import ranked_heads
from viz.seam.programs.arguments import OneOf, Rows
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, places
from viz.seam.python_lines import script
from viz.seam.scene import Scene, prompt_id
from viz.seam.settings import Settings
from viz.seam.view import Asking, Figure, Measure, Payload, Seen, View
from viz.views.attention.cells import cell_of, named
from viz.views.attention.find.figures import even_share, heads_figure, positions_of, ranked
from viz.words import translate

MOST_ROWS = 1 << 16  # maximum of query tokens x prompt tokens for a ranking on a click
NAMED = 3  # maximum number of tokens of a row named in a sentence
PLACES = 4  # number of decimals of a head's score, as in the list next to the sentence


@dataclass(frozen=True)
class Chosen:
    """Query tokens, key tokens and a measure, and the prompt and selection for which they were chosen."""

    queries: tuple[int, ...]
    keys: tuple[int, ...]
    measure: str  # key of model.attention.find_heads.RANKINGS
    prompt: str = ""  # short id of the prompt
    tokens: tuple[int, ...] = ()
    pair: tuple[int, int] | None = None


@dataclass(frozen=True, eq=False)
class Ranking:
    """The score of each head."""

    values: np.ndarray  # [L, H]


@dataclass(frozen=True)
class RefusedSearch:
    """The reason why heads cannot be ranked for the given tokens."""

    what: str
    got: str
    hint: str


def chosen_of(value: object, scene: Scene) -> Chosen:
    """Parse the page's rows if they belong to this prompt and selection; otherwise derive them from the selection.

    A pair determines query and key. If several tokens are selected, the last is the query and the others are keys. If
    one token or none is selected, the query and key are those of `cell_of`.
    """
    fields = value if isinstance(value, Mapping) else {}
    name, T, picked = fields.get("measure"), len(scene.tokens), scene.picked
    measure = name if isinstance(name, str) and name in RANKINGS else next(iter(RANKINGS))
    origin = (measure, prompt_id(scene), picked.tokens, picked.pair)
    if fields.get("run") == prompt_id(scene) and fields.get("at") == _at(picked.tokens, picked.pair):
        queries, keys = positions_of(fields.get("from"), T), positions_of(fields.get("to"), T)
        if queries is not None and keys is not None:
            return Chosen(queries, keys, *origin)
    if not picked.pair and len(picked.tokens) > 1:
        last = max(picked.tokens)
        return Chosen((last,), tuple(sorted(set(picked.tokens) - {last})), *origin)
    query, key = cell_of(scene)
    return Chosen((query,), (key,), *origin)


def _at(tokens: tuple[int, ...], pair: tuple[int, int] | None) -> dict:
    """Return the selection for which rows are chosen, in the form in which the page sends it back."""
    return {"tokens": list(tokens), "pair": list(pair) if pair else None}


def question(scene: Scene, settings: Settings) -> Settings:
    """Return the rows and the measure, without the selection for which they were chosen."""
    rows = settings.rows
    return Settings((("queries", rows.queries), ("to", rows.keys), ("measure", rows.measure)))


def measure(scene: Scene, settings: Settings) -> Ranking | RefusedSearch:
    """Compute every head's score, or return the reason why it is rejected, so that the rows can be corrected."""
    try:
        return Ranking(ranking(scene, settings))
    except PlaygroundError as error:
        return RefusedSearch(error.what, error.got, error.hint)


def ranking(scene: Scene, settings: Settings) -> np.ndarray:
    """Compute every head's score, [L, H]. Raises InputError if it would take too long."""
    T = len(scene.tokens)
    if len(settings.queries) * T > MOST_ROWS:
        raise InputError(
            say("In a prompt of this length, at most {} query tokens can be selected.", MOST_ROWS // T),
            str(len(settings.queries)),
            "Remove some from the first row.",
        )
    return rank_heads(scene.trace, settings.queries, settings.to, settings.measure)


# --- the list ---


def rows(seen: Seen) -> Payload:
    """Build both rows of tokens, the list of heads and a sentence about the first, or the reason for a rejection."""
    chosen, facts, words, result = seen.settings.rows, seen.facts, seen.here, seen.result
    shown = {
        "run": facts.run,
        "prompt": chosen.prompt,
        "at": _at(chosen.tokens, chosen.pair),
        "tokens": [shorten(visible(piece), 40) for piece in facts.pieces],
        "from": list(chosen.queries),
        "to": list(chosen.keys),
        "punctuation": punctuation(facts.pieces),
        "measure": chosen.measure,
        "measures": [[key, words[key], words[f"{key}_help"]] for key in RANKINGS],
        "words": words.plain(),
    }
    if isinstance(result, RefusedSearch):
        return shown | {"refused": _refused(result, facts.language), "lines": [], "sentence": "", "even": None}
    lines, shares = ranked(result.values), chosen.measure == "weights"
    return shown | {
        "refused": None,
        "lines": [line | {"name": words["name"].format(**_place(line))} for line in lines],
        "top": 1.0 if shares else lines[0]["value"] if lines else 1.0,
        "sentence": _sentence(seen, lines[0]) if lines else "",
        "even": even_share(chosen.queries, chosen.keys) if shares else None,
    }


def _refused(result: RefusedSearch, language: str) -> dict:
    got = f" ({result.got})" if result.got else ""
    return {"text": translate(result.what, language) + got, "hint": translate(result.hint, language)}


def _place(line: dict) -> dict:
    return {"layer": line["head"][0], "head": line["head"][1]}


def _sentence(seen: Seen, line: dict) -> str:
    """Format a sentence about the first head of the list."""
    chosen = seen.settings.rows
    several = "_mean" if len(chosen.queries) > 1 else ""
    gaps = {**_ends(seen), "n": whole(len(chosen.queries)), "value": decimals(line["value"], PLACES)}
    return seen.here[f"{chosen.measure}_said{several}"].format(**_place(line), **gaps)


def _ends(seen: Seen) -> dict[str, str]:
    """Format both rows of tokens."""
    return {"from": _names(seen, seen.settings.rows.queries), "to": _names(seen, seen.settings.rows.keys)}


def _names(seen: Seen, positions: tuple[int, ...]) -> str:
    """Format the first NAMED tokens, and the number of remaining ones."""
    words = seen.words
    first, *others = (named(seen.facts.tokens, at) for at in positions[:NAMED])
    names = functools.reduce(lambda names, name: words["two"].format(names=names, name=name), others, first)
    more = len(positions) - NAMED
    return words["more"].format(names=names, n=whole(more)) if more > 0 else names


# --- all heads ---


def heads_map(seen: Seen) -> Payload:
    """Draw the scores of all heads as a grid."""
    chosen, words, texts, result = seen.settings.rows, seen.here, seen.all_words, seen.result
    if isinstance(result, RefusedSearch):
        raise InputError(result.what, result.got, result.hint)
    measure = seen.words[f"rows.{chosen.measure}"]
    ramp = texts["attention.ramp"].format(curve=texts["attention.settings.curve_sqrt"])
    lines = [f"rank_heads(run, {list(chosen.queries)}, {list(chosen.keys)}, {chosen.measure!r})  # [L, H]"]
    names = HeadWords(words["layer"], words["head"], measure)
    return {
        "figure": heads_figure(result.values, names, "share" if chosen.measure == "weights" else "size"),
        "title": words["title"].format(**_ends(seen)),
        "note": words["note"],
        "source": f"{seen.facts.source} · {ramp}",
        "file": f"find-{chosen.measure}-from-{_spell(chosen.queries)}-to-{_spell(chosen.keys)}",
        "run": f"{seen.facts.run} {chosen.measure} {_spell(chosen.queries)} {_spell(chosen.keys)}",
        "columns": [words["layer"], words["head"], measure],
        "python": script(seen.facts, lines, ["from model.attention.find_heads import rank_heads"]),
    }


def _spell(positions: tuple[int, ...]) -> str:
    """Format positions for a file name."""
    return "_".join(map(str, positions[:NAMED])) + (f"_and_{len(positions) - NAMED}" if len(positions) > NAMED else "")


# --- for programs ---


def find_heads(
    scene: Scene,
    queries: list[int],
    keys: list[int],
    measure: Annotated[str, OneOf(tuple(RANKINGS))] = "weights",
    most: Rows = 20,
) -> dict:
    """Rank the heads by their attention from the given query tokens back to the given key tokens, in decreasing order.

    Args:
        queries: Positions of the query tokens, counted from 0; negative counts from the end.
        keys: Positions of the key tokens.
        measure: weights: attention weight, summed over the keys and averaged over the queries. value_weighted: length
            of the summed output of the keys, averaged over the queries.

    Returns:
        heads: records with layer, head and value of the strongest heads.
    """
    if not queries or not keys:
        raise InputError("An argument is missing.", "queries" if not queries else "keys", "Give at least one position.")
    q, k = (tuple(sorted(places(scene, each))) for each in (queries, keys))
    result = measured(VIEW, "main", scene, rows=Chosen(q, k, measure))
    if isinstance(result, RefusedSearch):
        raise InputError(result.what, result.got, result.hint)
    return {"measure": measure, "queries": q, "keys": k, "heads": ranked_heads(result.values, most)}


VIEW = View(
    "find",
    needs=(),
    measures=(Measure("main", measure, settings=("rows",), question=question),),
    layout=("rows", "map"),
    parts={
        "rows": Asking("find", chosen_of, rows, of="main", settings=("rows",)),
        "map": Figure(heads_map),
    },
    api=(Endpoint(find_heads),),
)
