"""Change the norm: how predictions change if norms are swapped, lose a part, or are frozen or removed."""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated

from model.activations.norm_swap import SWAPS, WHERE, places_of, swaps_of
from model.activations.norm_walk import norms_of
from model.attention.effects import next_tokens
from model.gpt.config import ModelConfig
from viz.charts.distribution import moved, prediction_rows
from viz.labels import quoted
from viz.numbers import duration, nats, number, whole
from viz.seam.programs.arguments import OneOf, Rows
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, named, place
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Choice
from viz.seam.view import Custom, Figure, Job, Measure, Payload, Seen, View
from viz.views.activations.norm_swap.figures import size_figure
from viz.views.activations.norm_swap.measure import (
    Changed,
    measure_changed,
    measure_next,
    measure_quick,
    places,
    question,
    wheres,
)
from viz.views.activations.norms import Site, index_of, place_key, place_name
from viz.views.activations.runs import is_quick
from viz.words import Words, joined, plot_words

_COLUMNS = ("column_id", "column_token", "csv_p_before", "csv_p_after", "csv_logit_before", "csv_logit_after")
_IMPORTS = ["from model.activations.norm_swap import places_of, swapped"]


# --- settings ---------------------------------------------------------------------------------------


def _swap(words: Mapping[str, str], option: str, norm: str) -> str:
    other = {"layernorm": "RMSNorm", "rmsnorm": "LayerNorm"}[norm]
    return words[f"swap_{option}"].format(other=other)


def _where(words: Mapping[str, str], option: str, config: ModelConfig) -> str:
    key = place_key(config, option).removeprefix("at_") if option.startswith(("norm", "after")) else option
    count = 1 if option == "one" else len(places_of(config, option))
    return words[f"where_{key}"].format(n=count)


def _norm(words: Words, option: str, scene: Scene) -> str:
    config = scene.model.config
    return place_name(words.catalogue, config, norms_of(config)[int(option)])


SWAP = Choice(
    "swap",
    lambda scene: swaps_of(scene.model.config),
    scene_label=lambda words, option, scene: _swap(words, option, scene.model.config.norm),
)
WHICH = Choice("where", wheres, scene_label=lambda words, option, scene: _where(words, option, scene.model.config))
NORM = Choice(
    "norm",
    lambda scene: tuple(map(str, range(len(norms_of(scene.model.config))))),
    when={"where": ("one",)},
    scene_label=_norm,
)
_FIELDS = ("swap", "where", "norm")


def job(seen: Seen) -> Payload:
    """Describe the cost of the changed run: its seconds, or that it starts automatically."""
    facts = seen.facts
    if is_quick(facts.n_params, len(facts.tokens)):
        return {"text": seen.here["at_once"], "done": True}
    return {"text": seen.here["takes"].format(seconds=duration(max(1, round(2 * facts.seconds))))}


# --- results ---------------------------------------------------------------------------------------


def _changed(seen: Seen) -> Changed | None:
    """Return the changed run, whether computed automatically or by the button; None before that."""
    return seen.results["quick"] or seen.results["changed"]


def _placeholder(seen: Seen) -> Payload:
    """Build the placeholder of a part that needs the changed run."""
    return {"empty": {"text": seen.here["empty"], "hint": seen.here["empty_hint"]}}


def _change_name(seen: Seen) -> str:
    """Format the name of the change for titles."""
    settings, config, words = seen.settings, seen.facts.config, seen.words.within("settings")
    if settings.where == "one":
        where = place_name(seen.all_words, config, places(config, settings)[0])
    else:
        where = _where(words, settings.where, config)
    return seen.words["named"].format(swap=_swap(words, settings.swap, config.norm), where=where)


def _overflow_note(seen: Seen) -> str:
    """Describe where values overflow and for how many tokens they stay finite; "" without an overflow."""
    changed, words = _changed(seen), seen.words
    if changed is None or changed.overflow is None:
        return ""
    n, T, L = len(changed.read), len(seen.facts.tokens), seen.facts.config.n_layer
    where = words["in_output"] if changed.overflow == L else words["in_layer"].format(layer=changed.overflow)
    token = quoted(seen.facts.pieces[n])  # the first token with an overflow
    return joined([where, words["some_left" if n else "none_left"].format(n=n, T=T, token=token)])


def _file(seen: Seen) -> str:
    return f"norm-{seen.settings.swap}-{seen.settings.where}"


def _python(seen: Seen, last: str, imports: Sequence[str] = ()) -> str:
    """Build the Python lines that compute the changed run, ending with `last`."""
    settings, config = seen.settings, seen.facts.config
    norms = f"places_of(lm.config, {settings.where!r})"
    if settings.where == "one":
        norms = repr(list(places(config, settings)))
    return script(seen.facts, [f"changed = swapped(run, {settings.swap!r}, {norms})", last], [*_IMPORTS, *imports])


def facts(seen: Seen) -> Payload:
    """Build the summary over the prompt: KL divergence, loss, perplexity and any overflow."""
    words, changed = seen.here, _changed(seen)
    if changed is None:
        return _placeholder(seen)
    n, items = len(changed.read), []
    if changed.overflow is not None:
        items.append([words["overflow"], _overflow_note(seen)])
    if changed.kl is not None:
        items.append([words["kl"], words["kl_text"].format(kl=nats(changed.kl), n=whole(n))])
    if changed.losses is not None:
        losses, perplexities = (dict(zip(("before", "after"), map(of, changed.losses), strict=True)) for of in _LOSS)
        scored = min(n, len(seen.facts.tokens) - 1)
        items.append([words["loss"], words["loss_text"].format(**losses, n=whole(scored))])
        items.append([words["perplexity"], words["perplexity_text"].format(**perplexities)])
    elif n:
        items.append([words["loss"], words["no_loss"]])
    return {"title": words["title"].format(change=_change_name(seen)), "about": words["about"], "items": items}


def perplexity(loss: float) -> str:
    """Format exp(loss), as a power of ten if it would overflow a float."""
    return number(math.exp(loss)) if loss < 700 else f"10^{whole(loss / math.log(10))}"


_LOSS = (nats, perplexity)


def prediction(seen: Seen) -> Payload:
    """Build the table of the most likely next tokens before and after the change; a placeholder after an overflow."""
    words, at, result = seen.here, seen.facts.position, seen.results["next"]
    if _changed(seen) is None:
        return _placeholder(seen)
    token = quoted(seen.facts.pieces[at])
    if result is None:
        return {"empty": {"text": words["none"].format(token=token, position=at), "hint": _overflow_note(seen)}}
    labels = Words(seen.all_words, "before_after")
    imports = ["from model.attention.effects import next_tokens"]
    return {
        "title": words["title"].format(token=token, position=at, change=_change_name(seen)),
        "note": words["note"],
        "edited": True,
        "rows": prediction_rows(result.table, [seen.facts.piece(int(token)) for token in result.table["id"]]),
        **moved(result.entropy, result.kl),
        "columns": [labels[name] for name in _COLUMNS],
        "words": labels.plain() | plot_words(seen.all_words),
        "file": f"{_file(seen)}-next-token-{at}",
        "python": _python(seen, f"next_tokens(run, changed, {at})", imports),
    }


def sizes(seen: Seen) -> Payload:
    """Draw the length of the residual stream in each layer, before and after the change."""
    words, changed, at = seen.here, _changed(seen), seen.facts.position
    if changed is None:
        return _placeholder(seen)
    labels = {name: words[name] for name in ("median", "largest", "layer", "length")}
    labels |= {"before": seen.words["before"], "after": seen.words["after"], "here": words["here"].format(position=at)}
    return {
        "figure": size_figure(changed.before, changed.lengths, at, labels),
        "title": words["title"].format(change=_change_name(seen)),
        "note": f"{words['note']} {_overflow_note(seen)}".strip(),
        "columns": [words["series"], words["layer"], words["length"]],
        "file": f"{_file(seen)}-stream",
        "python": _python(seen, "changed.lengths  # [L + 1, T]"),
    }


# --- for programs -----------------------------------------------------------------------------------


def norm_swap(
    scene: Scene,
    change: Annotated[str, OneOf(tuple(SWAPS))] = "frozen",
    where: Annotated[str, OneOf(WHERE)] = "all",
    layer: int = 0,
    site: Site = "norm1",
    position: int = -1,
    most: Rows = 10,
) -> dict:
    """Measure how predictions change if norms are swapped for the other kind, lose a part, or are frozen or removed.

    Args:
        change: other: the other kind, LayerNorm or RMSNorm. no_mean, no_gain, no_bias: the norm without that part.
            frozen: the same divisor for every token. removed: the input passes through unchanged.
        where: all norms, the norms at one site (norm1, norm2, final), or one: the norm given by layer and site.
        layer: Layer of the norm if where is one.
        site: Site of the norm if where is one: embed_norm, norm1, after1, norm2, after2 or final.

    Returns:
        kl: mean KL divergence of the predictions (nats); loss: before and after (nats per token); overflow: the block
        in which values first overflow float32, or null; next: the most likely next tokens, each with p_before, p_after
        and logits; lengths: length of the residual stream by layer and token, before and after.
    """
    t, config = place(scene, position), scene.model.config
    one = index_of(scene.model, layer, site) if where == "one" else 0
    settings = {"swap": change, "where": where, "norm": str(one)}
    result: Changed = measured(VIEW, "quick", scene, **settings) or measured(VIEW, "changed", scene, **settings)
    rows = None
    if t < len(result.read):
        with scene.playground.computing:
            table = next_tokens(scene.trace, result.run(scene), t, most, scene.model.tokenizer.vocab_size)
        rows = [row | named(scene.model, row["id"]) for row in table.to_dict("records")]
    norms = (norms_of(config)[one],) if where == "one" else places_of(config, where)
    return {
        "norms": [{"layer": each, "site": name} for each, name in norms],
        "kl": result.kl,
        "loss": None if result.losses is None else dict(zip(("before", "after"), result.losses, strict=True)),
        "overflow": result.overflow,
        "position": t,
        "next": rows,
        "lengths": {"before": result.before, "after": result.lengths},
    }


_RUN = {"of": ("quick",), "also": ("changed",)}

VIEW = View(
    "norm_swap",
    settings=(SWAP, WHICH, NORM),
    form_depends=("model",),
    measures=(
        Measure("quick", measure_quick, settings=_FIELDS, question=question),
        Measure("changed", measure_changed, settings=_FIELDS, question=question, slow=True),
        Measure("next", measure_next, ("run", "token"), _FIELDS, question=question, uses=("quick", "changed")),
    ),
    layout=("form", "job", ("next", "sizes"), "facts"),
    parts={
        "job": Job("changed", job, depends=("run",), settings=()),
        "facts": Custom("normfacts", facts, **_RUN),
        "next": Custom("beforeafter", prediction, of=("quick", "next"), also=("changed",), depends=("token",)),
        "sizes": Figure(sizes, **_RUN, depends=("token",)),
    },
    api=(Endpoint(norm_swap, long=True),),
)
