"""The vocabulary as vectors: the neighbors of a token in W_E and in W_U, and a map of many tokens."""

from typing import Annotated

from model.api import LanguageModel
from model.token_tables.neighbors import SIDES, Neighbors, nearest_tokens
from model.token_tables.vocabulary_map import is_installed
from viz.labels import quoted
from viz.numbers import decimals, percent, whole
from viz.seam.programs.arguments import Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import named, token_id
from viz.seam.python_lines import model_script
from viz.seam.view import Figure, Job, Payload, Seen, Table, View
from viz.views.anatomy.vocabulary.figures import map_figure
from viz.views.anatomy.vocabulary.measure import MEASURES, POINTS, SETTINGS, TOP, hits_of
from viz.words import joined
from viz.work.playground import Playground


def _neighbors_line(seen: Seen, side: str) -> str:
    given = f"lm.model, {seen.result.token}, {side!r}, {TOP}, centered={seen.settings.centered}"
    return f"nearest_tokens({given}, vocab=lm.tokenizer.vocab_size)"


def near(seen: Seen) -> Payload:
    """Build the two tables of neighbors."""
    words, result = seen.here, seen.result

    def table(side: str, found: Neighbors) -> dict:
        rows = [
            [
                {"text": quoted(seen.facts.piece(int(token))), "token": int(token)},
                {"text": decimals(float(cosine)), "bar": max(float(cosine), 0)},
            ]
            for token, cosine in zip(found.ids, found.cosines, strict=True)
        ]
        caption = words[side].format(typical=decimals(found.typical))
        return {"caption": caption, "columns": [words["token"], words["cosine"]], "rows": rows}

    sides = {"embedding": result.embedding, "unembedding": result.unembedding}
    known = {side: found for side, found in sides.items() if found is not None}
    tied = seen.facts.config.tie_embeddings and len(known) == 2
    notes = [words["about"], words["tied"] if tied else "", "" if len(known) == 2 else words["no_head"]]
    return {
        "title": words["title"].format(token=quoted(seen.facts.piece(result.token))),
        "about": joined(notes),
        "tables": [table(side, found) for side, found in known.items()],
        "names": [words["table"], words["token"], words["cosine"]],
        "lines": [
            [side, seen.facts.piece(int(token)), float(cosine)]
            for side, found in known.items()
            for token, cosine in zip(found.ids, found.cosines, strict=True)
        ],
        "python": model_script(
            seen.facts,
            [_neighbors_line(seen, side) for side in known],
            ["from model.token_tables.neighbors import nearest_tokens"],
        ),
    }


def job(seen: Seen) -> Payload:
    """Say what t-SNE takes, or that its package is missing; nothing while the other method is selected."""
    if seen.settings.method != "tsne":
        return {"text": "", "done": True}
    if not is_installed():
        return {"text": seen.here["missing"], "unready": True}
    return {"text": seen.here["hint"].format(n=whole(POINTS))}


def places(seen: Seen) -> Payload:
    """Draw the map, with the tokens that contain the searched text and the neighbors of the token marked."""
    words, side, method = seen.here, seen.settings.side, seen.settings.method
    found = seen.results["pca"] if method == "pca" else seen.results["tsne"]
    if found is None:
        return {"empty": {"text": words["empty"], "hint": words["empty_hint"]}}
    pieces = [seen.facts.piece(int(token)) for token in found.ids]
    wanted = seen.settings.search.strip()
    hits = hits_of(pieces, wanted)
    result = seen.results["near"]
    nearest = getattr(result, side)
    around = {result.token, *(nearest.ids.tolist() if nearest else ())}
    close = [n for n, token in enumerate(found.ids.tolist()) if token in around]
    axes = ("", "")
    if found.shares:
        axes = tuple(words["axis"].format(n=n + 1, share=percent(share)) for n, share in enumerate(found.shares))
    marked = {words["close"].format(token=quoted(seen.facts.piece(result.token))): close}
    marked |= {words["hits"].format(text=quoted(wanted)): hits}
    notes = [words[f"note_{method}"].format(n=whole(found.fitted))]
    notes += [words["found"].format(n=whole(len(hits)), text=quoted(wanted))] if wanted else []
    also = f", also={found.ids[found.fitted :].tolist()}" if method == "pca" else ""
    call = f"vocabulary_map(lm.model, ids, {side!r}, {method!r}{also})"
    return {
        "figure": map_figure(found.places, pieces, marked, axes, words),
        "title": words[f"title_{side}"],
        "note": joined(notes),
        "columns": [words["series"], words["x"], words["y"]],
        "python": model_script(
            seen.facts,
            ["ids = mapped_ids(lm)", call],
            [
                "from model.token_tables.vocabulary_map import vocabulary_map",
                "from viz.views.anatomy.vocabulary.measure import mapped_ids",
            ],
        ),
    }


def token_neighbors(
    playground: Playground,
    model: LanguageModel,
    token: str,
    centered: bool = True,
    most: Annotated[int, Within(1, 100)] = 12,
) -> dict:
    """Find the tokens nearest to a token by cosine, in the embedding W_E and in the unembedding W_U.

    Args:
        token: The text of a single token, or id: and its number.
        centered: Whether the mean over the vocabulary is subtracted from all vectors.

    Returns:
        token; embedding, unembedding: tokens with their cosine, nearest first; the gain of the final norm is folded
        into W_U, and unembedding is null for a model whose output has no direction for a token; typical: the 99th
        percentile of the cosines with all tokens, for each.
    """
    number = token_id(model, token)
    sides = SIDES[: 1 if model.config.headless or model.config.head_dense else 2]
    V = model.tokenizer.vocab_size
    with playground.computing:
        found = {
            side: nearest_tokens(model.model, number, side, min(most, V - 1), centered=centered, vocab=V)
            for side in sides
        }
    listed = {
        side: [named(model, n) | {"cosine": x} for n, x in zip(each.ids, each.cosines, strict=True)]
        for side, each in found.items()
    }
    return (
        {"token": named(model, number), "unembedding": None}
        | listed
        | {"typical": {side: each.typical for side, each in found.items()}}
    )


VIEW = View(
    "vocabulary",
    settings=SETTINGS,
    form_depends=("model",),
    measures=MEASURES,
    layout=("form", ("near", ("job", "places"))),
    parts={
        "near": Table(near, of="near", settings=()),
        "job": Job("tsne", job, settings=("method",)),
        "places": Figure(places, of=("pca", "near"), also=("tsne",), settings=("search",)),
    },
    api=(Endpoint(token_neighbors, reads="model", kind="computed"),),
)
