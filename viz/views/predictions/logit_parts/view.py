"""View of the parts of the model whose outputs sum to a token's logit, with gradients for comparison."""

from model.predictions.attribution import Attribution
from model.predictions.gradients import affordable
from viz.labels import quoted, visible
from viz.numbers import exact, logit, signed, whole
from viz.seam.programs.endpoint import Endpoint
from viz.seam.python_lines import script
from viz.seam.targets import OFFERED, Usual, fields
from viz.seam.view import Asking, Custom, Figure, Job, Measure, Payload, Seen, Table, View
from viz.theme import SIGNED
from viz.views.predictions.logit_parts.api import gradients, logit_parts, part_tokens
from viz.views.predictions.logit_parts.figures import (
    layers_figure,
    map_figure,
    steps_of,
    strongest,
    token_rows,
    tokens_figure,
)
from viz.views.predictions.logit_parts.measure import (
    TOP,
    SameTokens,
    Watched,
    inside_of,
    measure_gradients,
    measure_parts,
    measure_promoted,
    measure_sources,
    measure_target,
    measure_written,
)
from viz.words import Words, joined, plot_words

_HUES = [SIGNED[1], SIGNED[-2]]  # colors of parts that lower the logit, and of parts that raise it


def _target(seen: Seen) -> Watched | SameTokens:
    """Return the logit to decompose."""
    return seen.results["target"]


def _refused(seen: Seen) -> bool:
    return isinstance(_target(seen), SameTokens)


def _empty(seen: Seen) -> Payload:
    """Build the placeholder shown if no logit can be decomposed; the first part of the view gives the reason."""
    return {"empty": {"text": seen.words["no_target"], "hint": seen.words["no_target_hint"]}}


def _why(seen: Seen) -> str:
    """Explain why the logit cannot be decomposed."""
    return seen.words["same_token"]


def _usual(seen: Seen) -> Usual:
    """Return the default target."""
    return {} if _refused(seen) else {"target": _target(seen).token}


def _figure_words(seen: Seen) -> Words:
    """Return the words shared by all figures."""
    return seen.words.within("figure")


def _column(seen: Seen) -> str:
    """Format the header of a column of contributions."""
    words = _figure_words(seen)
    return f"{words['value']} ({words['unit']})"


def _logit(seen: Seen) -> str:
    """Format the logit for a title."""
    target, words, piece = _target(seen), seen.words, seen.facts.piece
    names = {"token": quoted(piece(target.token)), "position": target.position}
    if target.distractor is None:
        return words["of_logit"].format(**names)
    return words["of_difference"].format(**names, distractor=quoted(piece(target.distractor)))


def _python(seen: Seen, lines: list[str], imports: tuple[str, ...] = ()) -> str:
    """Write the Python lines that decompose the logit, followed by `lines`."""
    target = _target(seen)
    first = [
        f"outputs = components(run, {target.position})",
        f"parts = attribute(outputs, lm.model, {target.arguments})",
    ]
    names = ", ".join(sorted({"attribute", "components", *imports}))
    return script(seen.facts, [*first, *lines], [f"from model.predictions.attribution import {names}"])


def _file(seen: Seen, name: str) -> str:
    """Format a file name that includes the position and the tokens."""
    target = _target(seen)
    return f"{name}-{target.position}-{target.arguments.replace(', ', '-')}"


# --- the parts ---


def check(seen: Seen) -> Payload:
    """Name the logit, compare it with the sum of its parts, and explain which scales are frozen."""
    if _refused(seen):
        return {"problem": {"text": _why(seen), "hint": ""}}
    words, target, config, piece = seen.here, _target(seen), seen.facts.config, seen.facts.piece
    parts: Attribution = seen.results["main"]
    names = {"position": target.position, "token": quoted(piece(target.token)), "token_id": target.token}
    if target.distractor is not None:
        names |= {"distractor": quoted(piece(target.distractor)), "distractor_id": target.distractor}
    frozen = "none" if not config.final_norm and config.norm_placement == "pre" else config.norm
    notes = [words[f"frozen_{frozen}"]]
    if config.norm_placement == "post":
        notes.append(words["frozen_post"])
    if config.norm_placement in ("output", "sandwich"):
        notes.append(words["frozen_after"])
    if config.logit_cap is not None:
        notes.append(words["capped"])
    kind = "logit" if target.distractor is None else "difference"
    text, note = words[f"watching_{kind}"].format(**names), joined(notes)
    return {
        "about": text,
        "items": [
            [words["sum"], exact(parts.total)],
            [words[kind], exact(parts.logit)],
            [words["gap"], signed(parts.gap, 2)],
        ],
        "below": note,
        "exported": {"file": "sum-of-parts", "title": text, "note": note},
    }


def part_map(seen: Seen) -> Payload:
    """Draw the map of all heads and MLPs, with a list of the strongest parts beside it."""
    if _refused(seen):
        return _empty(seen)
    words, axes, parts = seen.here, _figure_words(seen), seen.results["main"]
    lines = ["parts.heads, parts.mlps  # [layer, head] and [layer]", "parts.total, parts.logit"]
    return {
        "figure": map_figure(parts.heads, parts.mlps, axes),
        "title": words["title"].format(of=_logit(seen)),
        "note": words["note"],
        "columns": [words["part"], axes["axis_layer"], axes["axis_head"], _column(seen)],
        "ranked": strongest(parts.parts()),
        "mlp": seen.settings.map,
        "layers": seen.facts.config.n_layer,
        "hues": _HUES,
        "words": plot_words(seen.all_words) | words.plain(),
        "file": _file(seen, "parts"),
        "python": _python(seen, lines),
    }


def layers(seen: Seen) -> Payload:
    """Draw how the logit accumulates from layer to layer."""
    if _refused(seen):
        return _empty(seen)
    words, parts = seen.here, seen.results["main"]
    return {
        "figure": layers_figure(steps_of(parts.parts()), len(parts.mlps), _figure_words(seen)),
        "title": words["title"].format(of=_logit(seen)),
        "note": words["note"],
        "columns": [words["kind"], words["part"], _column(seen)],
        "file": _file(seen, "layers"),
        "python": _python(seen, ["parts.parts()  # every part, in the order in which they are written"]),
    }


# --- one part in detail ---


def sources(seen: Seen) -> Payload:
    """Draw the main head's contribution by key token; an MLP has no sources."""
    if _refused(seen):
        return _empty(seen)
    words, axes, target, parts = seen.here, _figure_words(seen), _target(seen), seen.results["main"]
    if seen.settings.map is not None:
        return {"empty": {"text": words["mlp"], "hint": words["mlp_hint"]}}
    layer, head = seen.facts.head
    names = {"layer": layer, "head": head, "value": signed(float(parts.heads[layer, head]))}
    lines = [f"by_source(run, {layer}, {head}, {target.position}, parts.directions[{layer}])  # [token]"]
    return {
        "figure": tokens_figure({"": seen.results["sources"]}, seen.facts.pieces, target.position, axes),
        "title": words["title"].format(**names),
        "note": words["note"].format(**names),
        "columns": [axes["axis_token"], words["position"], _column(seen)],
        "file": _file(seen, f"sources-{layer}-{head}"),
        "python": _python(seen, lines, ("by_source",)),
    }


def tokens(seen: Seen) -> Payload:
    """Build the tables of the tokens that one head or MLP promotes and suppresses most."""
    if _refused(seen):
        return _empty(seen)
    words, at, result = seen.here, _target(seen).position, seen.results["promoted"]
    layer, head = seen.facts.head if seen.settings.map is None else (seen.settings.map, None)
    sides = {"promoted": (result.ids, result.values), "suppressed": (result.low_ids, result.low_values)}
    top = max(float(abs(values).max()) for _, values in sides.values()) or 1.0
    rows = {
        side: token_rows(ids, values, [seen.facts.piece(int(number)) for number in ids], top)
        for side, (ids, values) in sides.items()
    }
    name = seen.words["map.part_mlp" if head is None else "map.part_head"].format(layer=layer, head=head)
    note = {"position": at, "token": quoted(seen.facts.pieces[at]), "mean": signed(result.mean)}
    lines = [f"promoted(outputs, lm.model, {layer}, {head}, {TOP}, lm.tokenizer.vocab_size)"]
    return {
        "title": words["title"].format(part=name),
        "note": words["note"].format(**note),
        "tables": [{"caption": words[side], "rows": each} for side, each in rows.items()],
        "names": [words["id"], _figure_words(seen)["axis_token"], _column(seen)],
        "lines": [
            [int(number), visible(seen.facts.piece(int(number))), float(value)]
            for ids, values in sides.values()
            for number, value in zip(ids, values, strict=True)
        ],
        "file": _file(seen, f"promoted-{layer}{'' if head is None else f'-{head}'}"),
        "python": _python(seen, lines, ("promoted",)),
    }


# --- gradients ---


def job(seen: Seen) -> Payload:
    """Report the number of gradients to compute, or why there is nothing to compare."""
    if _refused(seen):
        return {"text": _why(seen), "unready": True}
    return {"text": seen.here["hint"].format(most=whole(affordable(_target(seen).position + 1)))}


def compared(seen: Seen) -> Payload:
    """Draw two bars per token, and report the error in the sum of the integrated gradients."""
    if _refused(seen):
        return _empty(seen)
    words, target, result = seen.here, _target(seen), seen.results["gradients"]
    if result is None:
        return {"empty": {"text": words["empty"], "hint": words["empty_hint"]}}
    axes = _figure_words(seen)
    series = {words["gradient_x_activation"]: result.gradient_x_activation, words["integrated"]: result.integrated}
    numbers = {"sum": float(result.integrated.sum()), "change": result.moved, "value": result.value}
    numbers = {name: logit(value) for name, value in (numbers | {"baseline": result.baseline}).items()}
    notes = [words["note"], words["adds_up"].format(**numbers, gap=signed(result.gap), taken=whole(result.taken))]
    if result.rough:
        notes.append(words["rough"])
    arguments = f"{target.token}, {target.distractor}, {affordable(target.position + 1)}"
    imports = ["from model.predictions.gradients import gradients"]
    return {
        "figure": tokens_figure(series, seen.facts.pieces, target.position, axes),
        "title": words["title"].format(of=_logit(seen)),
        "note": joined(notes),
        "file": _file(seen, "gradients"),
        "columns": [words["method"], axes["axis_token"], words["position"], _column(seen)],
        "python": script(seen.facts, [f"gradients(run, {target.position}, {arguments})"], imports),
    }


VIEW = View(
    "logit_parts",
    needs=("layers", "next"),
    measures=(
        Measure("target", measure_target, depends=("run", "plain", "token", "watched")),
        Measure("written", measure_written, depends=("run", "token")),
        Measure("main", measure_parts, depends=(), uses=("target", "written")),
        Measure("sources", measure_sources, depends=("head",), settings=("map",), uses=("main",)),
        Measure("promoted", measure_promoted, depends=("head",), settings=("map",), uses=("written",)),
        Measure("gradients", measure_gradients, depends=(), uses=("target",), slow=True, needs=("weights",)),
        OFFERED,
    ),
    layout=("targets", "map", "check", "layers", ("sources", "tokens"), "job", "gradients"),
    parts={
        "targets": fields(usual=_usual, of=("target",)),
        "check": Custom("normfacts", check, of=("target", "main"), settings=()),
        "map": Asking("wrotemap", inside_of, part_map, of=("target", "main"), settings=("map",)),
        "layers": Figure(layers, of=("target", "main"), settings=()),
        "sources": Figure(sources, of=("target", "main", "sources"), settings=("map",)),
        "tokens": Table(tokens, of=("target", "promoted"), settings=("map",)),
        "job": Job("gradients", job, also=("target",), settings=()),
        "gradients": Figure(compared, of="target", also=("gradients",), settings=()),
    },
    api=(Endpoint(logit_parts), Endpoint(part_tokens), Endpoint(gradients, long=True)),
)
