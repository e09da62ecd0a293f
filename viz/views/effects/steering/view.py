"""Steering with a vector from pairs of texts: its tokens, gain and cost beside random directions, and its edit."""

from typing import Annotated

import numpy as np

from model.gpt.placed_vectors import vector_text
from model.steering.vectors import READS
from viz.labels import quoted, visible
from viz.numbers import decimals, nats, percent, signed, whole
from viz.seam.programs.arguments import OneOf
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, named
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.view import Custom, Figure, Job, Payload, Seen, Table, View
from viz.views.effects.steering.figures import along_figure, beside_random
from viz.views.effects.steering.measure import DRAWS, EXAMPLE, FACTORS, MEASURES, SETTINGS, WATCHED, Steering, pairs_of
from viz.words import joined

_IMPORTS = [
    "from model.steering.effects import projections, steering_sweep, tokens_moved",
    "from model.steering.vectors import pair_vectors, steering_edit",
]


def job(seen: Seen) -> Payload:
    """Say what is measured and, if the run has edits, that they are not applied."""
    n = whole(seen.facts.config.n_layer * len(FACTORS) * (1 + DRAWS))
    edited = seen.here["no_edits"] if seen.facts.edits else ""
    return {"text": joined([seen.here["hint"].format(n=n), edited])}


def _python(seen: Seen, last: str) -> str:
    """Write the Python lines that compute the vectors, followed by `last`."""
    pairs = pairs_of(seen.settings.pairs)
    lines = [f"vectors = pair_vectors(lm, {pairs!r}, read={seen.settings.read!r})", last]
    return script(seen.facts, lines, _IMPORTS)


def use(seen: Seen) -> Payload:
    """Build the edit that adds the vector with the chosen factor after the chosen layer, for a button."""
    words, layer, factor = seen.here, seen.settings.layer, seen.settings.factor
    vector, sweep = seen.result.vectors[layer], seen.result.sweep
    at = FACTORS.index(factor) if factor in FACTORS else None
    values = {"layer": layer, "factor": decimals(factor), "length": decimals(float(np.linalg.norm(vector)))}
    told = [words["length"].format(**values)]
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
    edit = {"kind": "add_vector", "layer": layer, "factor": factor, "site": "resid_post"}
    edit |= {"vector": vector_text(vector), "name": _name(seen)}
    return {"title": words["title"].format(**values), "told": joined(told), "use": words["use"], "edit": edit}


def _name(seen: Seen) -> str:
    """Name the vector by its first pair."""
    first, second = (text if len(text) <= 24 else f"{text[:23]}…" for text in pairs_of(seen.settings.pairs)[0])
    return f"{first} − {second}"


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
        "source": seen.facts.source,
        "python": _python(seen, last),
    }


def _sweep_line(seen: Seen) -> str:
    ids = list(seen.result.watched)
    return f"steering_sweep(run, vectors, range({seen.facts.config.n_layer}), {list(FACTORS)}, {ids}, draws={DRAWS})"


def _chart(seen: Seen, own: np.ndarray, random: np.ndarray, base: float | None) -> Payload:
    words, layer = seen.here, seen.settings.layer
    named_words = {key: words[key] for key in ("own", "random", "base", "across", "value")}
    return {
        "figure": beside_random(FACTORS, own[layer], random[:, layer], base, named_words),
        "title": words["title"].format(layer=layer),
        "note": words["note"].format(n=DRAWS),
        "columns": [words["series"], words["across"], words["value"]],
        "source": seen.facts.source,
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
    """Build the table of gain and cost by layer and factor, each with the mean of the random directions."""
    words, sweep = seen.here, seen.result.sweep
    at = [n for n, factor in enumerate(FACTORS) if factor]
    random_share, random_kl = sweep.random_share.mean(0), sweep.random_kl.mean(0)

    def cell(layer: int, n: int) -> dict[str, str]:
        gain = f"{percent(float(sweep.share[layer, n]))} ({percent(float(random_share[layer, n]))})"
        return {"text": gain, "small": f" {nats(float(sweep.kl[layer, n]))} ({nats(float(random_kl[layer, n]))})"}

    return {
        "title": words["title"],
        "about": words["about"].format(n=DRAWS, before=percent(sweep.base_share)),
        "columns": [words["layer"], *(f"× {decimals(FACTORS[n])}" for n in at)],
        "rows": [[str(layer), *(cell(layer, n) for n in at)] for layer in range(len(sweep.share))],
        "source": seen.facts.source,
        "python": _python(seen, _sweep_line(seen)),
    }


def along(seen: Seen) -> Payload:
    """Draw the component of every token's stream along each layer's vector."""
    words = seen.here
    return {
        "figure": along_figure(seen.result.along, seen.facts.pieces, words.plain()),
        "title": words["title"],
        "note": words["note"],
        "columns": [words["layer"], words["token"], words["value"]],
        "source": seen.facts.source,
        "python": _python(seen, "projections(run, vectors)  # [L, T]"),
    }


def steering(
    scene: Scene, pairs: str = EXAMPLE, watch: str = WATCHED, read: Annotated[str, OneOf(READS)] = "last"
) -> dict:
    """Steer with the mean difference of pairs of texts, at every layer, beside random directions of the same length.

    Args:
        pairs: One pair per line, the two texts separated by |.
        watch: Words whose probability together is the gain, separated by spaces; of each, its first token.
        read: Whether a text is read at its last token, or as the mean over its tokens.

    Returns:
        vectors: each layer's vector as text, for edits of kind add_vector at site resid_post; watched: the tokens of
        the words; factors; share, kl (nats) and perplexity by layer and factor; random_share, random_kl and
        random_perplexity by draw, layer and factor; base_share and base_perplexity: without steering; along: the
        component of each token's stream along the vector, by layer and token.
    """
    found: Steering = measured(VIEW, "main", scene, pairs=pairs, watch=watch, read=read)
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
    layout=("form", "job", ("gain", "cost"), "use", ("tokens", "along"), "layers"),
    parts={
        "job": Job("main", job, depends=("edits",), settings=()),
        "use": Custom("steer", use, settings=("layer", "factor")),
        "gain": Figure(gain, settings=_CHOSEN),
        "cost": Figure(cost, settings=_CHOSEN),
        "tokens": Table(tokens, settings=_CHOSEN),
        "along": Figure(along, settings=()),
        "layers": Table(layers, settings=()),
    },
    api=(Endpoint(steering, reads="plain run", long=True),),
)
