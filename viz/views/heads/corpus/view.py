"""A head, a neuron or a direction over a corpus, and a search for heads by kinds of tokens."""

from typing import Annotated

import numpy as np

from model.api import LanguageModel
from model.corpus.deciles import DECILES, deciles
from model.corpus.directions import DirectionReading
from model.corpus.head import HeadReading
from model.corpus.kinds import KINDS
from model.corpus.search import ANY, APART, SAME, PairWeights, search
from model.corpus.texts import BUNDLED, LONGEST, SHORTEST
from model.tracing.head_metrics import HEAD_METRICS
from viz.labels import quoted, visible
from viz.numbers import factor, number, percent, signed, whole
from viz.seam.jobs.at_once import estimate
from viz.seam.programs.arguments import Long, OneOf, Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, on, unprompted
from viz.seam.python_lines import model_script
from viz.seam.view import Custom, Figure, Job, Payload, Seen, Table, View
from viz.theme import SIGNED_RAMPS
from viz.views.heads.corpus.figures import histogram_figure
from viz.views.heads.corpus.measure import OWN, READING, SETTINGS, USUAL, Reading, kind_name, load_of, sequences_of
from viz.views.heads.corpus.parts import (
    ABSENT,
    clusters,
    corpus_lines,
    distances,
    jobs,
    kinds,
    passages,
    similar,
    source,
    texts,
    tokens,
)
from viz.words import joined
from viz.work.playground import Playground

BINS, LISTED = 60, 12
SOURCES = (*BUNDLED, OWN)  # that programs may name; the folder of the command line is for the page


def job(seen: Seen) -> Payload:
    """Say how much is read, and estimate its duration until it is measured."""
    words, facts = seen.here, seen.facts
    n = sequences_of(facts.n_params, seen.settings.length)
    text = words["hint"].format(n=whole(n), length=whole(seen.settings.length))
    edited = words["no_edits"] if facts.edits else ""
    if seen.results["reading"] is not None:
        return {"text": edited}
    load = load_of(facts.config, facts.n_params, seen.settings.length)
    seconds = estimate(*load, facts.config.n_layer, facts.n_params)
    return {"text": joined([text, words["estimate"].format(seconds=whole(max(round(seconds), 1))), edited])}


# --- a neuron or a direction ---


def _direction(seen: Seen) -> DirectionReading | None:
    value = seen.results["reading"].value
    return value if isinstance(value, DirectionReading) else None


def _name(seen: Seen) -> str:
    """Name the neuron or the direction."""
    s, found, words = seen.settings, seen.results["reading"], seen.words
    if s.over == "neuron":
        return words["named_neuron"].format(layer=s.layer, neuron=s.neuron)
    if found.token is None:
        return words["named_vector"].format(layer=s.layer)
    return words["named_token"].format(layer=s.layer, token=quoted(visible(seen.facts.piece(found.token))))


def _python(seen: Seen, *last: str, imports: tuple[str, ...] = ()) -> str:
    """Write the Python lines that read the neuron or the direction, followed by `last`."""
    lines, needed = corpus_lines(seen)
    s, found = seen.settings, seen.results["reading"]
    if s.over == "neuron":
        needed.append("from model.corpus.directions import read_neuron")
        lines.append(f"reading = read_neuron(lm, corpus, {s.layer}, {s.neuron})")
    else:
        needed.append("from model.corpus.directions import read_direction")
        name = "typed_vector" if found.token is None else "token_vector"
        made = f"{s.vector!r}, lm.config.d_model" if found.token is None else f"lm, {found.token}"
        needed.append(f"from model.steering.vectors import {name}")
        vector = f"{name}({made})"
        lines.append(f"reading = read_direction(lm, corpus, {vector}, {s.layer})")
    return model_script(seen.facts, [*lines, *last], [*needed, *imports])


def contexts(seen: Seen) -> Payload:
    """Build sequences by decile of their largest activation, as tokens that are tinted by the activation."""
    reading, words, corpus = _direction(seen), seen.here, seen.results["reading"].corpus
    if reading is None:
        return ABSENT
    top = float(np.abs(reading.counted).max(initial=0)) or 1.0
    rows = []
    for place, part in enumerate(deciles(reading.peaks)):
        shown = part.members[::-1][:2].tolist() if place == 0 else [part.middle]
        for n in shown:
            values = reading.values[n]
            label = words["decile"].format(n=DECILES - place, low=number(part.low), high=number(part.high))
            rows.append(
                {
                    "label": words["top"].format(value=number(part.high)) if place == 0 else label,
                    "value": words["peak"].format(value=signed(float(reading.peaks[n]))),
                    "tokens": texts(seen, corpus.ids[n]),
                    "places": [
                        None if at < corpus.first else round(min(max(0.5 + float(value) / (2 * top), 0), 1), 4)
                        for at, value in enumerate(values)
                    ],
                    "texts": [signed(float(value)) for value in values],
                    "at": int(reading.at[n]),
                }
            )
    ramps = {name: list(stops) for name, stops in SIGNED_RAMPS.items()}
    return {
        "title": words["title"].format(name=_name(seen)),
        "note": words["note"],
        "scale": {"label": words["scale"], "ramps": ramps, "ticks": [[0, signed(-top)], [0.5, "0"], [1, signed(top)]]},
        "rows": rows,
        "words": words.plain(),
        "names": [words["sequence"], words["peak_name"], words["position"]],
        "lines": [
            [n, f"{peak:.6g}", int(at)] for n, (peak, at) in enumerate(zip(reading.peaks, reading.at, strict=True))
        ],
        "source": source(seen),
        "file": "corpus-contexts",
        "python": _python(
            seen,
            "[(part.low, part.high, reading.values[part.middle]) for part in deciles(reading.peaks)]",
            imports=("from model.corpus.deciles import deciles",),
        ),
    }


def histogram(seen: Seen) -> Payload:
    """Draw how many tokens have which activation."""
    reading, words = _direction(seen), seen.here
    if reading is None:
        return ABSENT
    values = reading.counted.ravel()
    low, middle, high = (number(float(each)) for each in np.quantile(values, (0.01, 0.5, 0.99)))
    return {
        "figure": histogram_figure(values, BINS, words.plain()),
        "title": words["title"],
        "note": words["note"].format(n=whole(len(values)), low=low, middle=middle, high=high),
        "source": source(seen),
        "file": "corpus-histogram",
        "columns": [words["x"], words["value"]],
        "python": _python(
            seen, f"np.histogram(reading.counted.ravel(), {BINS})  # counts, edges", imports=("import numpy as np",)
        ),
    }


def moves(seen: Seen) -> Payload:
    """Build the table of the tokens that the neuron or the direction makes more and less likely."""
    reading, words = _direction(seen), seen.here
    if reading is None:
        return ABSENT
    moved = reading.moved

    def cell(at: int) -> dict:
        return {"text": visible(seen.facts.piece(at)), "token": at}

    each = zip(moved.ids.tolist(), moved.values, moved.low_ids.tolist(), moved.low_values, strict=True)
    rows = [[cell(a), signed(float(x)), cell(b), signed(float(y))] for a, x, b, y in each]
    return {
        "title": words["title"],
        "about": words["about"],
        "columns": [words[name] for name in ("raised", "up", "lowered", "down")],
        "rows": rows,
        "source": source(seen),
        "file": "corpus-tokens",
        "python": _python(seen, "reading.moved"),
    }


# --- the search ---


def pairs(seen: Seen) -> Payload:
    """Build the table of all heads by the share of their attention that falls on the pattern of tokens."""
    value, words, s = seen.results["reading"].value, seen.here, seen.settings
    if not isinstance(value, PairWeights):
        return ABSENT
    found = search(value, s.query, s.key, s.same, s.apart)
    ends = {"query": kind_name(seen.words, s.query), "key": kind_name(seen.words, s.key)}
    more = [seen.words[f"settings.same_{s.same}"], seen.words[f"settings.apart_{s.apart}"]]
    title = words["title"].format(**ends, more=", ".join(more))
    rows = []
    for place in found.order:
        share, even = float(found.shares[place]), float(found.expected[place[0]])
        cell = {"text": "{}.{}".format(*place), "head": list(place)}
        rows.append(
            [cell, {"text": percent(share), "bar": share}, percent(even), factor(share / even) if even else "–"]
        )
    lines, needed = corpus_lines(seen)
    lines += [
        "pairs = pair_weights(lm, corpus)",
        f"found = search(pairs, {s.query!r}, {s.key!r}, {s.same!r}, {s.apart!r})",
    ]
    return {
        "title": title,
        "about": words["about" if rows else "none"].format(n=whole(found.queries)),
        "columns": [words[name] for name in ("head", "share", "expected", "ratio")],
        "rows": rows[:LISTED],
        "lines": [[row[0]["text"], row[1]["text"], *row[2:]] for row in rows],
        "source": source(seen),
        "file": "corpus-pairs",
        "python": model_script(
            seen.facts,
            [*lines, "found.order, found.shares, found.expected"],
            [*needed, "from model.corpus.search import pair_weights, search"],
        ),
    }


# --- for programs ---

Length = Annotated[int, Within(SHORTEST, LONGEST)]
Source = Annotated[str, OneOf(SOURCES)]
Own = Annotated[str, Long()]


def corpus_head(
    playground: Playground,
    model: LanguageModel,
    layer: int,
    head: int,
    corpus: Source = "princess",
    length: Length = USUAL,
    own: Own = "",
) -> dict:
    """Read one head over a corpus: its metrics by sequence, and its attention by distance, kind and token.

    Args:
        corpus: A bundled text, or own for the text of `own`.
        length: Tokens of a sequence.
        own: The text to read; empty for a bundled one.

    Returns:
        metrics: each head metric by sequence; distances and distances_uniform: the share of the weight by distance, of
        the head and of uniform attention; kinds: names; weights and weights_uniform: the share of the weight by kind of
        query and key; tokens: records with the token, its count, and its share and lift as key and as query;
        divergence: Jensen-Shannon divergence of every head from this one, in bits; ov and qk: cosines of the weights.
    """
    scene = on(unprompted(playground, model), layer, head)
    result: Reading = measured(VIEW, "reading", scene, over="head", corpus=corpus, length=length, own=own)
    reading: HeadReading = result.value  # type: ignore[assignment]
    use = reading.tokens
    sides = {
        side: (getattr(use, side) / max(getattr(use, side).sum(), 1e-30), use.lift(side)) for side in ("key", "query")
    }
    records = [
        {"token": model.tokenizer.piece(int(number)), "id": int(number), "count": int(use.counts[at])}
        | {f"{side}_share": float(share[at]) for side, (share, _) in sides.items()}
        | {f"{side}_lift": float(lift[at]) for side, (_, lift) in sides.items()}
        for at, number in enumerate(use.ids)
    ]
    return {
        "metrics": {name: reading.metrics[:, at] for at, name in enumerate(HEAD_METRICS)},
        "distances": reading.distances / reading.distances.sum(),
        "distances_uniform": reading.distances_uniform / reading.distances_uniform.sum(),
        "kinds": list(KINDS),
        "weights": reading.kinds / reading.kinds.sum(),
        "weights_uniform": reading.kinds_uniform / reading.kinds_uniform.sum(),
        "tokens": sorted(records, key=lambda each: -each["key_share"])[:200],
        "divergence": reading.divergence,
        "ov": reading.ov,
        "qk": reading.qk,
    }


def corpus_direction(
    playground: Playground,
    model: LanguageModel,
    layer: Annotated[int, Within(0, 4096)],
    neuron: Annotated[int, Within(-1, 1 << 20)] = -1,
    vector: Own = " she",
    corpus: Source = "princess",
    length: Length = USUAL,
    own: Own = "",
) -> dict:
    """Read a neuron, or a direction of the residual stream, over a corpus: its activation at every token.

    Args:
        neuron: A neuron of the layer; -1 for the direction.
        vector: One token, whose unembedding is the direction, or the numbers of a vector. Read after the layer.
        corpus: A bundled text, or own for the text of `own`.
        length: Tokens of a sequence.
        own: The text to read; empty for a bundled one.

    Returns:
        values: the activation by sequence and position; tokens: the texts; peaks, at: the largest activation of each
        sequence after its first token, and its position; raised, lowered: tokens that it makes more and less likely.
    """
    over = {"over": "direction", "vector": vector} if neuron < 0 else {"over": "neuron", "neuron": neuron}
    given = {"layer": str(layer), "corpus": corpus, "length": length, "own": own}
    result: Reading = measured(VIEW, "reading", unprompted(playground, model), **over, **given)
    reading: DirectionReading = result.value  # type: ignore[assignment]
    piece, moved = model.tokenizer.piece, reading.moved
    return {
        "values": reading.values,
        "tokens": [[piece(each) for each in row] for row in result.corpus.ids.tolist()],
        "peaks": reading.peaks,
        "at": reading.at,
        "raised": [{"token": piece(int(a)), "value": float(x)} for a, x in zip(moved.ids, moved.values, strict=True)],
        "lowered": [
            {"token": piece(int(a)), "value": float(x)} for a, x in zip(moved.low_ids, moved.low_values, strict=True)
        ],
    }


def corpus_pairs(
    playground: Playground,
    model: LanguageModel,
    query: Annotated[str, OneOf((ANY, *KINDS))] = "name",
    key: Annotated[str, OneOf((ANY, *KINDS))] = "name",
    same: Annotated[str, OneOf((*SAME, ANY))] = "yes",
    apart: Annotated[str, OneOf(tuple(APART))] = "earlier",
    corpus: Source = "princess",
    length: Length = USUAL,
    own: Own = "",
) -> dict:
    """Rank all heads by the share of their attention that goes from one kind of token to another.

    Args:
        query: Kind of the attending token.
        key: Kind of the attended token.
        same: Whether both are the same token.
        apart: Range of distances.
        corpus: A bundled text, or own for the text of `own`.
        length: Tokens of a sequence.
        own: The text to read; empty for a bundled one.

    Returns:
        queries: number of tokens of the kind; heads: records by decreasing share, with layer, head, share, the share
        expected of uniform attention, and their ratio.
    """
    given = {"over": "pairs", "corpus": corpus, "length": length, "own": own}
    result: Reading = measured(VIEW, "reading", unprompted(playground, model), **given)
    found = search(result.value, query, key, same, apart)  # type: ignore[arg-type]
    heads = []
    for layer, head in found.order:
        share, even = float(found.shares[layer, head]), float(found.expected[layer])
        ratio = share / even if even else None
        heads.append({"layer": layer, "head": head, "share": share, "expected": even, "ratio": ratio})
    return {"queries": found.queries, "heads": heads}


VIEW = View(
    "corpus",
    settings=SETTINGS,
    form_depends=("model",),
    measures=(READING,),
    layout=(
        "form",
        "job",
        ("kinds", "distances"),
        "tokens",
        "pairs",
        ("histogram", "moves"),
        "contexts",
        "passages",
        "jobs",
        "clusters",
        "similar",
    ),
    parts={
        "job": Job("reading", job),
        "kinds": Figure(kinds, of="reading", settings=()),
        "distances": Figure(distances, of="reading", settings=()),
        "tokens": Table(tokens, of="reading", settings=()),
        "pairs": Table(pairs, of="reading", settings=("query", "key", "same", "apart")),
        "histogram": Figure(histogram, of="reading", settings=()),
        "moves": Table(moves, of="reading", settings=()),
        "contexts": Custom("passages", contexts, of="reading", settings=()),
        "passages": Custom("passages", passages, of="reading", settings=("metric",)),
        "jobs": Figure(jobs, of="reading", settings=()),
        "clusters": Table(clusters, of="reading", settings=()),
        "similar": Table(similar, of="reading", settings=()),
    },
    api=(
        Endpoint(corpus_head, reads="model", long=True),
        Endpoint(corpus_direction, reads="model", long=True),
        Endpoint(corpus_pairs, reads="model", long=True),
    ),
)
