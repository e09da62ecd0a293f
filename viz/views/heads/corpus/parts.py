"""The parts of one head over a corpus: kinds, distances, tokens, sequences by decile, jobs, and similar heads."""

from collections.abc import Sequence

import numpy as np

from model.corpus.deciles import DECILES, deciles
from model.corpus.head import CODES, HeadReading
from model.corpus.kinds import KINDS
from model.tracing.head_metrics import HEAD_METRICS
from viz.labels import quoted, shorten, visible
from viz.numbers import decimals, factor, number, percent, signed, whole
from viz.seam.python_lines import model_script
from viz.seam.view import Payload, Seen
from viz.theme import RAMPS
from viz.views.heads.corpus.figures import distance_figure, jobs_figure, kinds_figure
from viz.views.heads.corpus.measure import FOLDER, OWN, Reading, kind_name, name_of, sequences_of
from viz.words import joined

LISTED, OFTEN = 10, 8  # rows of a list; occurrences below which a token is not listed by its lift
_TICKS = (0, 0.05, 0.25, 0.5, 1)  # weights on the color scale, which has their square roots
_BEFORE, _NAMED = 6, 5  # tokens before the query in a hover, and tokens named in a cell
ABSENT: Payload = {"absent": True}


def head_of(seen: Seen) -> HeadReading | None:
    """Return the reading of a head, or None if something else was read."""
    value = seen.results["reading"].value
    return value if isinstance(value, HeadReading) else None


def source(seen: Seen) -> str:
    """Name the model, the corpus and what was read of it."""
    corpus, facts = seen.results["reading"].corpus, seen.facts
    n, length = corpus.ids.shape
    name = seen.words[f"settings.corpus_{seen.settings.corpus}"]
    values = {"model": facts.label, "dtype": facts.dtype, "corpus": name, "n": whole(n), "length": whole(length)}
    return seen.words["source"].format(**values)


def corpus_lines(seen: Seen) -> tuple[list[str], list[str]]:
    """Write the lines that build the corpus, and their imports."""
    s, reader = seen.settings, {FOLDER: "folder_texts"}.get(seen.settings.corpus, "bundled")
    names = {FOLDER: "the folder of --corpus"}
    texts = f"[{s.own!r}]" if s.corpus == OWN else f"{reader}({names.get(s.corpus, s.corpus)!r})"
    read = "" if s.corpus == OWN else f", {reader}"
    n = sequences_of(seen.facts.n_params, s.length)
    imports = f"from model.corpus.texts import {', '.join(sorted(('corpus_of', *read[2:].split())))}"
    return [f"corpus = corpus_of(lm, {texts}, {s.length}, {n})"], [imports]


def _python(seen: Seen, *last: str, imports: Sequence[str] = ()) -> str:
    """Write the Python lines that read the head, followed by `last`."""
    lines, needed = corpus_lines(seen)
    layer, head = seen.facts.head
    needed += ["from model.corpus.head import read_head", *imports]
    return model_script(seen.facts, [*lines, f"reading = read_head(lm, corpus, {layer}, {head})", *last], needed)


def _about(seen: Seen, reading: HeadReading) -> dict[str, str]:
    return {"head": seen.words["named"].format(layer=reading.layer, head=reading.head)}


def kinds(seen: Seen) -> Payload:
    """Draw the head's weight by kind of query and key, beside uniform attention."""
    reading, words = head_of(seen), seen.here
    if reading is None:
        return ABSENT
    own, even = (each / each.sum() for each in (reading.kinds, reading.kinds_uniform))
    used = [at for at in range(len(KINDS)) if reading.kinds_uniform[at].any() or reading.kinds_uniform[:, at].any()]
    block = np.ix_(used, used)
    best = int(np.argmax((own - even)[1:, 1:]))
    q, k = (1 + each for each in divmod(best, len(KINDS) - 1))
    names = [kind_name(seen.words, kind) for kind in KINDS]
    told = {"query": names[q], "key": names[k], "own": percent(own[q, k]), "uniform": percent(even[q, k])}
    return {
        "figure": kinds_figure(own[block], even[block], [names[at] for at in used], words.plain()),
        "title": words["title"].format(**_about(seen, reading)),
        "note": words["note"].format(**told),
        "source": source(seen),
        "file": "corpus-kinds",
        "columns": [words["query"], words["key"], words["value"]],
        "python": _python(
            seen,
            "own, even = (each / each.sum() for each in (reading.kinds, reading.kinds_uniform))",
            "100 * (own - even)  # [query kind, key kind], in the order of KINDS",
        ),
    }


def distances(seen: Seen) -> Payload:
    """Draw the head's weight by distance between query and key, beside uniform attention."""
    reading, words = head_of(seen), seen.here
    if reading is None:
        return ABSENT
    own, even = (each / each.sum() for each in (reading.distances, reading.distances_uniform))
    apart = np.arange(len(own))
    values = {"mean": decimals(float(own @ apart), 1), "even": decimals(float(even @ apart), 1)}
    return {
        "figure": distance_figure(own, even, words.plain()),
        "title": words["title"],
        "note": words["note"].format(**values),
        "source": source(seen),
        "file": "corpus-distances",
        "columns": [words["series"], words["x"], words["value"]],
        "python": _python(seen, "reading.distances / reading.distances.sum()  # by distance, from 0"),
    }


def tokens(seen: Seen) -> Payload:
    """Build the tables of the tokens that the head attends to and from, by weight and by lift."""
    reading, words = head_of(seen), seen.here
    if reading is None:
        return ABSENT
    use, tables, lines = reading.tokens, [], []
    total = use.counts.sum()
    for side in ("key", "query"):
        weight, lift = getattr(use, side), use.lift(side)
        share = weight / max(weight.sum(), 1e-30)
        often = np.flatnonzero(use.counts >= min(OFTEN, use.counts.max(initial=0)))
        for order, ranked in (("most", np.argsort(-weight)), ("lift", often[np.argsort(-lift[often])])):
            rows = [
                [
                    {"text": visible(seen.facts.piece(int(use.ids[at]))), "token": None},
                    {"text": percent(float(share[at]))},
                    factor(float(lift[at])),
                    {"text": whole(use.counts[at]), "small": f" {percent(float(use.counts[at] / total))}"},
                ]
                for at in ranked[:LISTED].tolist()
            ]
            columns = [words[name] for name in ("token", f"share_{side}", "lift", "count")]
            tables.append({"caption": words[f"{side}_{order}"], "columns": columns, "rows": rows})
        lines += [
            [
                side,
                seen.facts.piece(int(use.ids[at])),
                *(f"{each[at]:.6g}" for each in (weight, share, lift, use.counts)),
            ]
            for at in np.argsort(-weight).tolist()
        ]
    return {
        "title": words["title"].format(**_about(seen, reading)),
        "about": words["about"].format(n=OFTEN),
        "tables": tables,
        "names": [words[name] for name in ("side", "token", "weight", "share", "lift", "count")],
        "lines": lines,
        "rows": [],
        "source": source(seen),
        "file": "corpus-tokens",
        "python": _python(seen, "use = reading.tokens", "use.ids, use.key, use.lift('key'), use.counts"),
    }


def passages(seen: Seen) -> Payload:
    """Build sequences by decile of a metric, as tokens that are tinted by the attention of or to a picked token."""
    reading, words, found = head_of(seen), seen.here, seen.results["reading"]
    if reading is None:
        return ABSENT
    metric = seen.settings.metric
    values = reading.metrics[:, list(HEAD_METRICS).index(metric)]
    rows = []
    for place, part in enumerate(deciles(values)):
        picked = reading.pattern(part.middle)
        picked[:, : found.corpus.first] = 0
        np.fill_diagonal(picked, 0)
        at = int(picked.max(1).argmax())
        label = words["decile"].format(n=DECILES - place, low=number(part.low), high=number(part.high))
        if place == 0:
            label = words["top"].format(low=number(part.low), high=number(part.high))
        rows.append(
            {
                "label": label,
                "value": words["value"].format(value=number(float(values[part.middle]))),
                "tokens": texts(seen, found.corpus.ids[part.middle]),
                "codes": reading.codes[part.middle].tolist(),
                "at": at,
            }
        )
    undefined = int((~np.isfinite(values)).sum())
    note = words["note"].format(metric=name_of(seen.words, metric))
    if undefined:
        note = joined([note, words["undefined"].format(n=whole(undefined))])
    ticks = [[float(np.sqrt(tick)), f"{100 * tick:.0f}%"] for tick in _TICKS]
    return {
        "title": words["title"].format(**_about(seen, reading), metric=name_of(seen.words, metric)),
        "note": note,
        "codes": CODES,
        "scale": {
            "label": words["scale"],
            "ramps": {name: list(stops) for name, stops in RAMPS.items()},
            "ticks": ticks,
        },
        "rows": rows,
        "words": words.plain(),
        "names": [words["sequence"], words["metric"]],
        "lines": [[n, f"{value:.6g}"] for n, value in enumerate(values.tolist())],
        "source": source(seen),
        "file": f"corpus-{metric}",
        "python": _python(
            seen,
            f"values = reading.metrics[:, {list(HEAD_METRICS).index(metric)}]  # {metric}, by sequence",
            "[(part.low, part.high, reading.pattern(part.middle)) for part in deciles(values)]",
            imports=["from model.corpus.deciles import deciles"],
        ),
    }


def texts(seen: Seen, ids: np.ndarray) -> list[str]:
    """Return the tokens of a sequence as the page shows them in running text."""
    return [seen.facts.piece(each) for each in ids.tolist()]


def jobs(seen: Seen) -> Payload:
    """Draw the outputs of the head along two principal components, colored by cluster."""
    reading, words, found = head_of(seen), seen.here, seen.results["reading"]
    if reading is None:
        return ABSENT
    ids, found_jobs = found.corpus.ids, reading.jobs
    hovers = []
    for n, t in found_jobs.places.tolist():
        before = "".join(visible(seen.facts.piece(each)) for each in ids[n, max(t - _BEFORE, 0) : t].tolist())
        key = ids[n, int(reading.row(n, t).argmax())]
        query = quoted(visible(seen.facts.piece(int(ids[n, t]))))
        values = {"context": shorten(before, 60), "query": query, "key": quoted(visible(seen.facts.piece(int(key))))}
        hovers.append(words["hover"].format(**values))
    shares = {"x": percent(found_jobs.shares[0]), "y": percent(found_jobs.shares[1])}
    labels = words.plain() | {axis: words[axis].format(share=shares[axis]) for axis in ("x", "y")}
    return {
        "figure": jobs_figure(found_jobs.points, found_jobs.cluster, hovers, labels),
        "title": words["title"].format(**_about(seen, reading)),
        "note": words["note"].format(n=whole(len(hovers)), explained=percent(found_jobs.explained)),
        "source": source(seen),
        "file": "corpus-jobs",
        "columns": [words["series"], labels["x"], labels["y"]],
        "python": _python(seen, "reading.jobs.points, reading.jobs.cluster, reading.jobs.places"),
    }


def clusters(seen: Seen) -> Payload:
    """Build the table of the clusters: which tokens they are outputs at, and what the head reads there."""
    reading, words, found = head_of(seen), seen.here, seen.results["reading"]
    if reading is None:
        return ABSENT
    rows = []
    for number_of in range(int(reading.jobs.cluster.max(initial=0)) + 1):
        places = reading.jobs.places[reading.jobs.cluster == number_of]
        queries = found.corpus.ids[places[:, 0], places[:, 1]]
        used, counts = np.unique(queries, return_counts=True)
        keys, weights, rest, distance = reading.read_at(found.corpus, places)
        rows.append(
            [
                words["cluster"].format(n=number_of + 1),
                whole(len(places)),
                _named(seen, used, counts),
                _named(seen, keys, weights),
                percent(rest),
                decimals(distance, 1),
            ]
        )
    return {
        "title": words["title"],
        "about": words["about"],
        "columns": [words[name] for name in ("which", "count", "queries", "keys", "rest", "distance")],
        "rows": rows,
        "source": source(seen),
        "file": "corpus-clusters",
        "python": _python(
            seen,
            "places = reading.jobs.places[reading.jobs.cluster == 0]",
            "reading.read_at(corpus, places)  # tokens, weight on each, weight at rest, mean distance",
        ),
    }


def _named(seen: Seen, ids: np.ndarray, weights: np.ndarray) -> str:
    """List the tokens with the largest weights, with their shares."""
    total = max(float(weights.sum()), 1e-30)
    order = np.argsort(-weights, kind="stable")[:_NAMED].tolist()
    pieces = [(visible(seen.facts.piece(int(ids[at]))), float(weights[at]) / total) for at in order]
    return ", ".join(f"“{quoted(piece)}” {percent(share)}" for piece, share in pieces)


def similar(seen: Seen) -> Payload:
    """Build the table of the heads with the most similar attention, and of those with the most similar weights."""
    reading, words = head_of(seen), seen.here
    if reading is None:
        return ABSENT
    H = reading.ov.shape[1]
    own = reading.layer * H + reading.head

    def ranked(scores: np.ndarray) -> list[int]:
        flat = scores.ravel()
        return [at for at in np.argsort(flat, kind="stable").tolist() if at != own and np.isfinite(flat[at])]

    def row(at: int) -> list:
        place = divmod(at, H)
        cell = {"text": "{}.{}".format(*place), "head": list(place)}
        return [cell, decimals(float(reading.divergence[place]), 3), *(signed(float(each[place])) for each in weights)]

    weights = (reading.ov, reading.qk)
    columns = [words[name] for name in ("head", "divergence", "ov", "qk")]
    orders = {"pattern": reading.divergence, "weights_ov": -reading.ov, "weights_qk": -reading.qk}
    tables = [
        {"caption": words[name], "columns": columns, "rows": [row(at) for at in ranked(scores)[: LISTED // 2]]}
        for name, scores in orders.items()
        if np.isfinite(scores).any()
    ]
    about = words["about"] if len(tables) > 1 else words["pattern_only"]
    every = ranked(reading.divergence)
    return {
        "title": words["title"].format(**_about(seen, reading)),
        "about": about,
        "tables": tables,
        "rows": [],
        "names": columns,
        "lines": [
            ["{}.{}".format(*divmod(at, H)), *(f"{each.ravel()[at]:.6g}" for each in (reading.divergence, *weights))]
            for at in every
        ],
        "source": source(seen),
        "file": "corpus-similar",
        "python": _python(seen, "reading.divergence, reading.ov, reading.qk  # [layer, head]"),
    }


def reading_of(seen: Seen) -> Reading:
    """Return what was read."""
    return seen.results["reading"]
