"""Steering with a vector: its tokens, gain and cost beside random directions, its texts, its edit and its files."""

import math
from typing import Annotated, Any

import numpy as np

from model.gpt.edits import STREAM_SITES
from model.gpt.placed_vectors import vector_text
from model.steering.effects import SteeringSweep
from model.steering.texts import SteeredText
from model.steering.vectors import READS
from viz.labels import quoted, visible
from viz.numbers import decimals, nats, percent, signed, whole
from viz.seam.programs.arguments import OneOf, Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, named
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.view import Custom, Figure, Job, Payload, Seen, Table, View
from viz.views.effects.steering.figures import along_figure, beside_random
from viz.views.effects.steering.measure import (
    DRAWS,
    FACTORS,
    MEASURES,
    SETTINGS,
    TOKENS,
    WATCHED,
    Steering,
    factors_of,
    placed,
)
from viz.views.effects.steering.python_lines import files_of, name_of, source_lines
from viz.views.effects.steering.sources import EXAMPLE, SHARE, SOURCES, TYPED, positions_of
from viz.words import joined

SHOWN = (-2.0, -1.0, 1.0, 2.0)  # factors in the table of layers
_IMPORTS = [
    "from model.steering.effects import projections, steering_sweep, tokens_moved",
    "from model.steering.texts import steered_texts",
]


def job(seen: Seen) -> Payload:
    """Say what is measured and, if the run has edits, that they are not applied."""
    n = whole(seen.facts.config.n_layer * len(FACTORS) * (1 + DRAWS))
    edited = seen.here["no_edits"] if seen.facts.edits else ""
    return {"text": joined([seen.here["hint"].format(n=n), edited])}


def write(seen: Seen) -> Payload:
    """Say which texts are written."""
    words, n = seen.here, len(factors_of(placed(seen.settings).factors))
    return {"text": words["hint"].format(n=whole(2 * n), tokens=TOKENS, layer=seen.settings.layer)}


def _python(seen: Seen, last: str) -> str:
    """Write the Python lines that compute the vectors, followed by `last`."""
    lines, imports = source_lines(seen.settings, seen.facts.config, seen.results["main"])
    return script(seen.facts, [*lines, last], [*_IMPORTS, *imports])


def use(seen: Seen) -> Payload:
    """Build the edit that adds the vector with the chosen factor at the chosen layer, for a button, and its files."""
    words, layer, factor = seen.here, seen.settings.layer, seen.settings.factor
    settings, vector, sweep = placed(seen.settings), seen.result.vectors[layer], seen.result.sweep
    at = FACTORS.index(factor) if factor in FACTORS else None
    values = {"layer": layer, "factor": decimals(factor), "length": decimals(float(np.linalg.norm(vector)))}
    told = [words["length" if seen.settings.source in ("pairs", "runs") else "own_length"].format(**values)]
    if at is not None:
        random = sweep.random_share[:, layer, at]
        told.append(
            words["gain"].format(
                **values,
                before=percent(sweep.base_share),
                after=percent(float(sweep.share[layer, at])),
                low=percent(float(random.min())),
                high=percent(float(random.max())),
                kl=nats(float(sweep.kl[layer, at])),
                perplexity=decimals(float(sweep.perplexity[layer, at])),
                base=decimals(sweep.base_perplexity),
            )
        )
    name = name_of(seen.settings)
    edit = {"kind": "add_vector", "layer": layer, "factor": factor, "site": settings.site}
    edit |= {"vector": vector_text(vector), "name": name}
    if positions := positions_of(settings.positions):
        edit["positions"] = positions
    return {
        "title": words["title"].format(**values, site=words[f"at_{settings.site}"].format(layer=layer)),
        "told": [joined(told), *([words["frozen"]] if settings.frozen else [])],
        "use": words["use"],
        "edit": edit,
        "files": files_of(seen.result.vectors, settings.site, name, seen.facts.model_id, words),
    }


def tokens(seen: Seen) -> Payload:
    """Build the table of the tokens that the vector raises and lowers most."""
    words, moved = seen.here, seen.result.moved[seen.settings.layer]
    each = zip(moved.ids, moved.values, moved.low_ids, moved.low_values, strict=True)

    def named_token(number: int) -> str:
        return quoted(visible(seen.facts.piece(int(number))))

    rows = [[named_token(a), signed(float(x)), named_token(b), signed(float(y))] for a, x, b, y in each]
    last = f"tokens_moved(lm.model, vectors[{seen.settings.layer}], {len(rows)}, lm.tokenizer.vocab_size)"
    return {
        "title": words["title"].format(layer=seen.settings.layer),
        "about": words["about"],
        "columns": [words[key] for key in ("raised", "by", "lowered", "down")],
        "rows": rows,
        "python": _python(seen, last),
    }


def _sweep_line(seen: Seen) -> str:
    ids, settings = list(seen.result.watched), placed(seen.settings)
    more = f", site={settings.site!r}" if settings.site != "resid_post" else ""
    more += f", positions={settings.positions!r}" if settings.positions else ""
    more += ", frozen=True" if settings.frozen else ""
    layers = f"range({seen.facts.config.n_layer})"
    return f"steering_sweep(run, vectors, {layers}, {list(FACTORS)}, {ids}, draws={DRAWS}{more})"


def _chart(seen: Seen, own: np.ndarray, random: np.ndarray, base: float | None) -> Payload:
    words, layer = seen.here, seen.settings.layer
    named_words = {key: words[key] for key in ("own", "random", "base", "across", "value")}
    return {
        "figure": beside_random(FACTORS, own[layer], random[:, layer], base, named_words),
        "title": words["title"].format(layer=layer),
        "note": words["note"].format(n=DRAWS),
        "columns": [words["series"], words["across"], words["value"]],
        "python": _python(seen, _sweep_line(seen)),
    }


def gain(seen: Seen) -> Payload:
    """Draw the probability of the watched words by factor, beside random directions."""
    sweep = seen.result.sweep
    return _chart(seen, sweep.share, sweep.random_share, sweep.base_share)


def cost(seen: Seen) -> Payload:
    """Draw the divergence of the prediction by factor, beside random directions."""
    return _chart(seen, seen.result.sweep.kl, seen.result.sweep.random_kl, None)


def layers(seen: Seen) -> Payload:
    """Build the table of gain and cost by layer, each with the mean of the random directions; the export has all."""
    words, sweep = seen.here, seen.result.sweep
    at = [n for n, factor in enumerate(FACTORS) if factor in SHOWN]
    random_share, random_kl = sweep.random_share.mean(0), sweep.random_kl.mean(0)

    def cell(layer: int, n: int) -> dict[str, str]:
        gain = f"{percent(float(sweep.share[layer, n]))} ({percent(float(random_share[layer, n]))})"
        return {"text": gain, "small": f" {nats(float(sweep.kl[layer, n]))} ({nats(float(random_kl[layer, n]))})"}

    every = [
        [str(layer), decimals(factor), *(f"{value[layer, n]:.6g}" for value in _of_sweep(sweep))]
        for layer in range(len(sweep.share))
        for n, factor in enumerate(FACTORS)
    ]
    return {
        "title": words["title"],
        "about": words["about"].format(n=DRAWS, before=percent(sweep.base_share)),
        "columns": [words["layer"], *(f"× {decimals(FACTORS[n])}" for n in at)],
        "rows": [[str(layer), *(cell(layer, n) for n in at)] for layer in range(len(sweep.share))],
        "names": [words[key] for key in ("layer", "factor", "share", "random_share", "kl", "random_kl", "perplexity")],
        "lines": every,
        "python": _python(seen, _sweep_line(seen)),
    }


def _of_sweep(sweep: SteeringSweep) -> tuple[np.ndarray, ...]:
    return sweep.share, sweep.random_share.mean(0), sweep.kl, sweep.random_kl.mean(0), sweep.perplexity


def texts(seen: Seen) -> Payload:
    """Build the table of the texts under every factor, beside those with a random direction of the same length."""
    words, found, settings = seen.here, seen.result, placed(seen.settings)

    def cells(text: SteeredText) -> list[Any]:
        share = "–" if math.isnan(text.share) else percent(text.share)
        return [visible(text.text), share, nats(text.surprise)]

    rows = [
        [f"× {decimals(own.factor)}", *cells(own), *cells(random)]
        for own, random in zip(found.own, found.random, strict=True)
    ]
    titles = [words["factor"], words["own"], words["share"], words["surprise"]]
    more = f", site={settings.site!r}" if settings.site != "resid_post" else ""
    more += f", positions={settings.positions!r}" if settings.positions else ""
    call = (
        f"steered_texts(lm, run.tokens.ids.tolist(), vectors[{seen.settings.layer}], {seen.settings.layer}, "
        f"{list(factors_of(settings.factors))}, words={seen.settings.watch.split()!r}, tokens={TOKENS}, "
        f"seed={settings.seed}{more})"
    )
    return {
        "title": words["title"].format(layer=seen.settings.layer),
        "about": words["about"],
        "columns": [*titles, words["random"], words["share"], words["surprise"]],
        "rows": rows,
        "file": "steered-texts",
        "python": _python(seen, call),
    }


def along(seen: Seen) -> Payload:
    """Draw the component of every token's stream along each layer's vector."""
    words = seen.here
    return {
        "figure": along_figure(seen.result.along, seen.facts.pieces, words.plain()),
        "title": words["title"],
        "note": words["note" if seen.settings.source == "pairs" else "note_own"],
        "columns": [words["layer"], words["token"], words["value"]],
        "python": _python(seen, f"projections(run, vectors, {placed(seen.settings).site!r})  # [L, T]"),
    }


def steering(
    scene: Scene,
    pairs: str = EXAMPLE,
    watch: str = WATCHED,
    read: Annotated[str, OneOf(READS)] = "last",
    source: Annotated[str, OneOf(SOURCES)] = "pairs",
    text: str = "",
    layer: Annotated[int, Within(0, 1000)] = 0,
    neuron: Annotated[int, Within(0, 1_000_000)] = 0,
    share: Annotated[float, Within(0, 4)] = SHARE,
    site: Annotated[str, OneOf(STREAM_SITES)] = "resid_post",
    positions: str = "",
    frozen: bool = False,
) -> dict:
    """Steer with a vector of the residual stream, at every layer, beside random directions of the same length.

    Args:
        pairs: One pair per line, the two texts separated by |; the vector is their mean difference. For source pairs.
        watch: Words whose probability together is the gain, separated by spaces; of each, its first token.
        read: Whether a text of a pair is read at its last token, or as the mean over its tokens.
        source: Where the vector comes from: pairs; runs, this prompt minus another at the last token; token, its row
            of W_U; neuron, what it writes; numbers; or file.
        text: Empty for pairs and neuron; else the other prompt, the token, the numbers (or a vector as text), or a
            .npz or .gguf file in base64.
        layer: Layer of the neuron.
        neuron: Index of the neuron.
        share: Length of the vector of a token or neuron, as a share of the median length of the stream; 0: its own.
        site: Where the vector is added: before the block, after its attention, or after the block.
        positions: Empty for every token; else such as 0,3-5, or 4- for all from one on.
        frozen: Keep the attention weights of the run without steering.

    Returns:
        vectors: each layer's vector as text, for edits of kind add_vector at this site; watched: the tokens of
        the words; factors; share, kl (nats) and perplexity by layer and factor; random_share, random_kl and
        random_perplexity by draw, layer and factor; base_share and base_perplexity: without steering; along: the
        component of each token's stream along the vector, by layer and token.
    """
    settings = {"pairs": pairs, "watch": watch, "read": read, "source": source, "share": share, "more": True}
    settings |= {"neuron_layer": layer, "neuron": neuron, "site": site, "positions": positions, "frozen": frozen}
    settings |= {TYPED[source]: text} if source in TYPED else {}
    found: Steering = measured(VIEW, "main", scene, **settings)
    sweep = vars(found.sweep)
    return {
        "vectors": [vector_text(vector) for vector in found.vectors],
        "watched": [named(scene.model, each) for each in found.watched],
        **{key: value for key, value in sweep.items() if key != "layers"},
        "along": found.along,
    }


_CHOSEN = ("layer",)
VIEW = View(
    "steering",
    settings=SETTINGS,
    form_depends=("model",),
    measures=MEASURES,
    layout=("form", "job", ("gain", "cost"), "use", "layers", ("tokens", "along"), "write", "texts"),
    parts={
        "job": Job("main", job, depends=("edits",), settings=()),
        "use": Custom("steer", use, settings=("layer", "factor")),
        "gain": Figure(gain, settings=_CHOSEN),
        "cost": Figure(cost, settings=_CHOSEN),
        "tokens": Table(tokens, settings=_CHOSEN),
        "along": Figure(along, settings=("source",)),
        "layers": Table(layers, settings=()),
        "write": Job("texts", write, settings=()),
        "texts": Table(texts, of="texts", also=("main",), settings=()),
    },
    api=(Endpoint(steering, reads="plain run", long=True),),
)
