"""Find the head: which heads look from these tokens back to those?"""

import functools
from dataclasses import dataclass

from model.attention.find_heads import RANKINGS, rank_heads
from model.errors import InputError, PlaygroundError
from viz.labels import shorten, visible
from viz.page.background import kept
from viz.page.parts import choice, plot_words
from viz.page.picking import cell_of, prompt_id, source
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.views.attention.cell.figures import named
from viz.views.attention.find.figures import even_share, heads_figure, positions_of, ranked
from viz.words import section, translate

MOST_ROWS = 1 << 16  # tokens that look x tokens of the prompt: beyond it a ranking takes longer than a click may
NAMED = 3  # tokens of a row that are named in a sentence


@dataclass(frozen=True)
class Asked:
    """From which tokens to which, measured how."""

    queries: tuple[int, ...]
    keys: tuple[int, ...]
    measure: str  # of model.finding.RANKINGS


def pictures(scene: Scene, values: Values) -> dict[str, Picture]:
    """The rows of tokens with the ranked heads, and the map of all heads."""
    asked = asked_of(scene, values.get("find"))
    key = (scene.run, asked)
    return {
        "find": Picture((*key, _at(scene)), lambda: find_payload(scene, asked)),
        "findmap": Picture(key, lambda: map_payload(scene, asked)),
    }


def asked_of(scene: Scene, value: object) -> Asked:
    """What the page asks for, where it chose its rows on this prompt and this selection; else what the selection says.

    A pair asks from its query to its key; several tokens from the last to the others; one token, or none, from it or
    the last one to what the main head reads most there.
    """
    given = value if isinstance(value, dict) else {}
    measure, T, picked = choice(given, "measure", tuple(RANKINGS)), len(scene.trace.tokens), scene.picked
    if given.get("run") == prompt_id(scene) and given.get("at") == _at(scene):
        queries, keys = positions_of(given.get("from"), T), positions_of(given.get("to"), T)
        if queries is not None and keys is not None:
            return Asked(queries, keys, measure)
    if not picked.pair and len(picked.tokens) > 1:
        last = max(picked.tokens)
        return Asked((last,), tuple(sorted(set(picked.tokens) - {last})), measure)
    query, key = cell_of(scene)
    return Asked((query,), (key,), measure)


def _at(scene: Scene) -> dict:
    """The selection on which rows are chosen, as the page sends it back."""
    pair = scene.picked.pair
    return {"tokens": list(scene.picked.tokens), "pair": list(pair) if pair else None}


def _ranking(scene: Scene, asked: Asked):
    """Every head's number, an array [L, H], once a question; raises InputError for one that cannot be answered."""
    T = len(scene.trace.tokens)
    if len(asked.queries) * T > MOST_ROWS:
        what = scene.words["find.too_many"].format(n=MOST_ROWS // T)
        raise InputError(what, str(len(asked.queries)), scene.words["find.too_many_hint"])

    def make():
        return rank_heads(scene.trace, asked.queries, asked.keys, asked.measure)

    return kept(scene.playground, (scene.trace.key, "find", asked), make)


def find_payload(scene: Scene, asked: Asked) -> dict:
    """Both rows, the heads in order and what the first of them does; or what is wrong with the rows."""
    words, tokens = scene.words, scene.trace.tokens
    shown = {
        "run": scene.run,
        "prompt": prompt_id(scene),
        "at": _at(scene),
        "tokens": [shorten(visible(piece), 40) for piece in tokens.pieces],
        "from": list(asked.queries),
        "to": list(asked.keys),
        "measure": asked.measure,
        "measures": [[key, words[f"find.{key}"], words[f"find.{key}_help"]] for key in RANKINGS],
        "words": section(words, "find"),
    }
    try:
        values = _ranking(scene, asked)
    except PlaygroundError as error:
        got = f" ({error.got})" if error.got else ""
        told = {"text": translate(error.what, scene.language) + got, "hint": translate(error.hint, scene.language)}
        return shown | {"told": told, "lines": [], "sentence": "", "even": None}
    lines = ranked(values)
    even = even_share(asked.queries, asked.keys) if asked.measure == "weights" else None
    return shown | {
        "told": None,
        "lines": [line | {"name": words["find.name"].format(**_place(line))} for line in lines],
        "top": 1.0 if asked.measure == "weights" else lines[0]["value"] if lines else 1.0,
        "sentence": _sentence(scene, asked, lines[0]) if lines else "",
        "even": even,
    }


def _place(line: dict) -> dict:
    return {"layer": line["head"][0], "head": line["head"][1]}


def _sentence(scene: Scene, asked: Asked, line: dict) -> str:
    """What the first head of the list does."""
    several = "_mean" if len(asked.queries) > 1 else ""
    gaps = {"from": _names(scene, asked.queries), "to": _names(scene, asked.keys), "n": len(asked.queries)}
    return scene.words[f"find.{asked.measure}_said{several}"].format(
        **_place(line), **gaps, value=f"{line['value']:.4f}"
    )


def _names(scene: Scene, positions: tuple[int, ...]) -> str:
    """Up to three tokens by name, and how many more."""
    words = scene.words
    first, *others = (named(scene.trace.tokens, at) for at in positions[:NAMED])
    names = functools.reduce(lambda names, name: words["find.two"].format(names=names, name=name), others, first)
    more = len(positions) - NAMED
    return words["find.more"].format(names=names, n=more) if more > 0 else names


def map_payload(scene: Scene, asked: Asked) -> dict:
    """The same numbers for all heads as a heat map."""
    words, values = scene.words, _ranking(scene, asked)
    names = section(words, "find")
    kind = "share" if asked.measure == "weights" else "size"
    figure = heads_figure(values, {**names, "measure": names[asked.measure]}, kind)
    where = {"from": _names(scene, asked.queries), "to": _names(scene, asked.keys)}
    lines = [f"rank_heads(run, {list(asked.queries)}, {list(asked.keys)}, {asked.measure!r})  # [L, H]"]
    return {
        "figure": figure.to_json(),
        "title": names["map_title"].format(**where),
        "note": names["map_about"],
        "source": f"{source(scene)} · {words['looking.ramp_note'].format(curve=words['curve.sqrt'])}",
        "file": f"find-{asked.measure}-from-{_spell(asked.queries)}-to-{_spell(asked.keys)}",
        "run": f"{scene.run} {asked.measure} {_spell(asked.queries)} {_spell(asked.keys)}",
        "columns": [names["head"], names["layer"], names[asked.measure]],
        "python": python_lines(scene, lines, ["from model.attention.find_heads import rank_heads"]),
        "words": plot_words(words),
    }


def _spell(positions: tuple[int, ...]) -> str:
    """Positions in a file's name."""
    return "_".join(map(str, positions[:NAMED])) + (f"_and_{len(positions) - NAMED}" if len(positions) > NAMED else "")
