"""View of position encodings: their vectors, the vectors' similarity by distance, and the pairs' wavelengths."""

from model.design.positions import THETA, WITHOUT_VECTORS, Similarity, as_rope
from viz.numbers import number, percent, whole
from viz.seam.programs.endpoint import Endpoint
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Choice
from viz.seam.view import Custom, Figure, Measure, Payload, Seen, View
from viz.views.design.position_vectors.api import position_vectors
from viz.views.design.position_vectors.figures import (
    SchemeLine,
    Waves,
    alternates,
    matrix_figure,
    pairs_figure,
    similarity_figure,
    spectrum_figure,
    waves_figure,
)
from viz.views.design.position_vectors.measure import (
    ALL,
    FORMULAS,
    MOST_LEARNED,
    OWN,
    Positions,
    Table,
    first_length,
    lengths_of,
    measure,
    measure_table,
    schemes_of,
)
from viz.words import Words, joined


def _scheme_label(words: Words, scheme: str, scene: Scene) -> str:
    if scheme == OWN:
        return words["scheme_own"].format(name=words[f"scheme_{scene.model.config.positions}"])
    return words[f"scheme_{scheme}"]


def _length_label(words: Words, length: str, scene: Scene) -> str:
    n_ctx = scene.model.config.n_ctx
    return (
        words["length_all"].format(n=whole(n_ctx))
        if length == ALL
        else words["length_first"].format(n=whole(int(length)))
    )


SCHEME = Choice("scheme", lambda scene: schemes_of(scene.model.config), OWN, scene_label=_scheme_label)
LENGTH = Choice(
    "length",
    lambda scene: lengths_of(scene.model.config),
    lambda scene: first_length(scene.model.config),
    scene_label=_length_label,
)


# --- names and sources ---


def scheme_name(words: Words, scheme: str) -> str:
    """Return the displayed name of a scheme."""
    return words[f"settings.scheme_{scheme}"]


def _title(seen: Seen, key: str = "title") -> str:
    result: Positions = seen.result
    return seen.here[key].format(name=scheme_name(seen.words, result.scheme), n=whole(result.length))


def _source(seen: Seen, scheme: str) -> str:
    """Format the source of the data: the model's weights, or a formula and its settings."""
    words, config, model = seen.words.within("sources"), seen.facts.config, seen.facts.label
    if scheme == "learned":
        return words["learned" if config.positions == "learned" else "compared"].format(model=model)
    if scheme == "sinusoidal":
        return words["sinusoidal"].format(D=config.d_model, model=model)
    if scheme in WITHOUT_VECTORS:
        return words["compared"].format(model=model)
    rope = as_rope(config)
    key = "rope" if config.positions == "rope" else "would"
    text = words[key].format(model=model, theta=whole(rope.rope_theta), n=rope.d_rotary, E=rope.d_head)
    return f"{text} · {_scaling(seen)}" if rope.rope_scaling else text


def _scaling(seen: Seen) -> str:
    """Format the settings of the model's RoPE scaling."""
    scaling = as_rope(seen.facts.config).rope_scaling
    limits = {
        "llama3": (scaling.low_freq_factor, scaling.high_freq_factor),
        "yarn": (scaling.beta_slow, scaling.beta_fast),
    }
    low, high = limits.get(scaling.kind, (0, 0))
    text = seen.words[f"sources.scaling_{scaling.kind}"].format(
        factor=number(scaling.factor),
        low=number(low),
        high=number(high),
        n=whole(scaling.original_n_ctx or 0),
        share=f"{scaling.rotated or 0:.0%}",
    )
    return (
        text
        if scaling.amplitude == 1
        else f"{text}; {seen.words['sources.amplitude'].format(by=number(scaling.amplitude))}"
    )


def _beside(seen: Seen, scheme: str) -> str:
    """Format the name of a formula drawn for comparison; if the model does not use it, include its settings."""
    config = seen.facts.config
    if scheme == config.positions:
        return scheme_name(seen.words, scheme)
    return seen.words[f"beside_{scheme}"].format(D=config.d_model, E=config.d_head, theta=whole(THETA))


def _lines(seen: Seen, lines: list[str], names: str) -> str:
    return script(seen.facts, lines, [f"from model.design.positions import {names}"])


def _nothing(seen: Seen) -> Payload:
    """Build the placeholder that explains why there are no vectors."""
    words, facts = seen.words, seen.facts
    if seen.result.scheme in WITHOUT_VECTORS:
        hint = words[{"none": "no_vectors_hint", "alibi": "alibi_hint"}[seen.result.scheme]]
        return {"empty": {"text": words["no_vectors"], "hint": hint}}
    scheme = scheme_name(words, facts.config.positions)
    return {"empty": {"text": words["no_table"].format(model=facts.label, own=scheme), "hint": words["no_table_hint"]}}


# --- vectors ---


def matrix(seen: Seen) -> Payload:
    """Draw the position vectors, positions by dimensions."""
    result, words = seen.result, seen.here
    vectors = result.vectors
    if vectors is None:
        return _nothing(seen)
    notes = [words[f"note_{result.scheme}"].format(last=vectors.width // 2 - 1)]
    if vectors.rows[-1] != len(vectors.rows) - 1:
        notes.append(seen.words["every_row"].format(n=vectors.rows[1]))
    if len(vectors.columns) > 1 and vectors.columns[1] > 1:
        notes.append(words["every_column"].format(n=vectors.columns[1]))
    if vectors.largest > 1.2 * vectors.end:
        notes.append(words["beyond"].format(end=number(vectors.end), most=number(vectors.largest)))
    lines = [f"vectors(lm.model, {result.scheme!r}, range({result.length}))  # [positions, dimensions]"]
    return {
        "figure": matrix_figure(vectors.table, vectors.rows, vectors.columns, vectors.end, words),
        "title": _title(seen),
        "note": joined(notes),
        "source": _source(seen, result.scheme),
        "columns": [words["position"], words["dimension"], words["value"]],
        "python": _lines(seen, lines, "vectors"),
    }


# --- similarity ---


def alike(seen: Seen) -> Payload:
    """Draw the cosine by distance for the selected scheme, with the formulas for comparison."""
    result, words = seen.result, seen.here
    lines = []
    for each in sorted(result.formulas, key=lambda each: each.scheme == result.scheme):
        bold = each.scheme == result.scheme
        name = scheme_name(seen.words, each.scheme) if bold else _beside(seen, each.scheme)
        lines.append(SchemeLine(name, each.scheme, result.distances, each.kernel, bold=bold))
    bare = result.scheme in WITHOUT_VECTORS or (result.scheme == "learned" and not result.is_own)
    note = words["note_none" if bare else f"note_{result.scheme}"]
    if result.similarity:
        learned = learned_lines(seen.words, result.similarity)
        lines += learned
        note = note if len(learned) == 1 else f"{note} {words['apart']}"
    bound = next((each.bound for each in result.formulas if each.scheme == result.scheme == "rope"), None)
    below = None if bound is None else SchemeLine(words["bound"], "rope", result.distances, bound)
    return {
        "figure": similarity_figure(lines, below, words),
        "title": _title(seen),
        "note": note,
        "source": _source(seen, result.scheme),
        "columns": [words["scheme"], words["distance"], words["cosine"]],
        "python": _alike_lines(seen),
    }


def _alike_lines(seen: Seen) -> str:
    result = seen.result
    if result.similarity:
        n = min(result.length, MOST_LEARNED)
        lines = [f"similarity(vectors(lm.model, 'learned', range({n})))  # distance, mean, 10%, 90%"]
        return _lines(seen, lines, "similarity, vectors")
    scheme = result.scheme if result.scheme in FORMULAS else "sinusoidal"
    lines = [f"theta = frequencies(lm.config, {scheme!r}, {result.length})", f"kernel(theta, range({result.length}))"]
    if scheme != "rope":
        return _lines(seen, lines, "frequencies, kernel")
    return _lines(seen, [*lines, f"decay_bound(theta, range({result.length}))"], "decay_bound, frequencies, kernel")


def learned_lines(words: Words, result: Similarity) -> list[SchemeLine]:
    """Build the curve of the learned table, or two curves if even and odd distances differ."""
    limit = max(1, 3 * len(result.distance) // 4)  # larger distances occur in too few pairs of positions
    name = scheme_name(words, "learned")
    curves = [(slice(0, limit), name, False)]
    if alternates(result.mean[1:limit]):
        even, odd = (words[f"alike.{kind}"].format(name=name) for kind in ("even", "odd"))
        curves = [(slice(0, limit, 2), even, False), (slice(1, limit, 2), odd, True)]
    return [
        SchemeLine(label, "learned", result.distance[at], result.mean[at], (result.low[at], result.high[at]), pale=pale)
        for at, label, pale in curves
    ]


def pairs(seen: Seen) -> Payload:
    """Draw the cosine of every pair of positions."""
    result, words, at = seen.result, seen.here, seen.result.pairs
    if result.cosines is None:
        return {"empty": {"text": words["nothing"], "hint": ""}}
    note = words["note_learned" if result.scheme == "learned" else "note_formula"]
    step = at[1] if len(at) > 1 else 1
    line = f"cosines(vectors(lm.model, {result.scheme!r}, range(0, {result.length}, {step})))"
    return {
        "figure": pairs_figure(result.cosines, at, words),
        "title": _title(seen),
        "note": f"{note} {seen.words['every_row'].format(n=step)}" if step > 1 else note,
        "source": _source(seen, result.scheme),
        "columns": [words["position"], words["other"], words["cosine"]],
        "python": _lines(seen, [line], "cosines, vectors"),
    }


# --- waves ---


def waves(seen: Seen) -> Payload:
    """Draw the wavelengths of RoPE and of sinusoidal vectors, or the spectrum of a learned table."""
    result, table, words, config = seen.result, seen.results["table"], seen.here, seen.facts.config
    if result.scheme == "learned" and table and table.spectrum:
        return _spectrum(seen, table)
    drawn = []
    for each in sorted(result.formulas, key=lambda each: each.scheme == result.scheme):
        highlighted = each.scheme in (result.scheme, config.positions)
        name = scheme_name(seen.words, each.scheme) if highlighted else _beside(seen, each.scheme)
        drawn.append(Waves(name, each.scheme, each.wavelengths, bold=each.scheme == result.scheme))
    if result.unscaled is not None:
        drawn.insert(0, Waves(words["unscaled"], "unscaled", result.unscaled, bold=False))
    which = result.scheme if result.scheme in FORMULAS else result.formulas[-1].scheme
    return {
        "figure": waves_figure(drawn, config.n_ctx, words),
        "title": words["title"],
        "note": words["note"] if result.unscaled is None else f"{words['note']} {_scaling(seen)}",
        "source": _source(seen, result.scheme if result.scheme in FORMULAS else "none"),
        "columns": [words["scheme"], words["pair_share"], words["wavelength"]],
        "python": _lines(
            seen,
            [f"wavelengths(frequencies(lm.config, {which!r}, {result.length}))  # positions per turn of each pair"],
            "frequencies, wavelengths",
        ),
    }


def _spectrum(seen: Seen, table: Table) -> Payload:
    """Draw the spectrum of a learned table over positions."""
    words, n = seen.here, seen.facts.config.n_ctx
    return {
        "figure": spectrum_figure(table.spectrum.wavelength, table.spectrum.share, words),
        "title": words["spectrum_title"].format(n=whole(n)),
        "note": words["spectrum_note"],
        "source": _source(seen, "learned"),
        "columns": [words["wavelength"], words["share"]],
        "python": _lines(seen, [f"spectrum(vectors(lm.model, 'learned', range({n})))"], "spectrum, vectors"),
    }


# --- facts ---


def facts(seen: Seen) -> Payload:
    """Summarize the selected scheme in a few numbers."""
    result = seen.result
    if result.scheme == "learned" and result.is_own:
        items = _learned_facts(seen, seen.results["table"])
    else:
        items = _formula_facts(seen) if result.scheme in FORMULAS else _none_facts(seen)
    return {"title": _title(seen), "about": _source(seen, result.scheme), "items": items}


def _learned_facts(seen: Seen, table: Table) -> list[list[str]]:
    words, n, D = seen.here, seen.facts.config.n_ctx, seen.facts.config.d_model
    first, middle, last = map(number, table.lengths)
    length = words["length_text"].format(first=first, middle=middle, last=last, token=number(table.token))
    one, few = percent(table.first), percent(table.four)
    items = [
        [words["parameters"], words["parameters_text"].format(n=whole(n), D=D, all=whole(n * D))],
        [words["length"], length],
        [words["components"], words["components_text"].format(one=one, few=few, half=table.half, D=D)],
    ]
    if table.spectrum:
        spectrum = table.spectrum
        each = [
            words["wave"].format(
                length=number(float(spectrum.wavelength[at])), share=percent(float(spectrum.share[at]))
            )
            for at in (-spectrum.share).argsort()[:2]
        ]
        text = words["waves_two"].format(first=each[0], second=each[1]) if each[1:] else each[0]
        items.append([words["waves"], text])
    return items


def _formula_facts(seen: Seen) -> list[list[str]]:
    """Describe the pairs' wavelengths, and the pairs that make less than one turn in the context."""
    words, config, scheme = seen.here, seen.facts.config, seen.result.scheme
    result = next(each.wavelengths for each in seen.result.formulas if each.scheme == scheme)
    n, slow = len(result), int((result > config.n_ctx).sum())
    span = words["span_text"].format(n=n, short=number(float(result.min())), long=number(float(result.max())))
    items = [
        [words["span"], span],
        [words["slow"], words["slow_text"].format(slow=slow, n=n, context=whole(config.n_ctx))],
    ]
    if scheme == "sinusoidal":
        length = number((config.d_model / 2) ** 0.5)
        return [*items, [words["length"], words["sine_length"].format(length=length, D=config.d_model)]]
    rope = as_rope(config)
    key = "theta_all" if rope.d_rotary == rope.d_head else "theta_text"
    theta = words[key].format(theta=whole(rope.rope_theta), turned=rope.d_rotary, E=rope.d_head)
    items.append([words["theta"], theta])
    return [*items, [words["scaled"], _scaling(seen)]] if rope.rope_scaling else items


def _none_facts(seen: Seen) -> list[list[str]]:
    """Describe the model's own scheme and, for `none`, the causal mask, which conveys order without a scheme."""
    words, facts = seen.here, seen.facts
    items = [[words["mask"], words["mask_text"]]] if seen.result.scheme == "none" else []
    scheme = scheme_name(seen.words, facts.config.positions)
    return [*items, [words["model"], words["model_text"].format(model=facts.label, own=scheme)]]


VIEW = View(
    "position_vectors",
    settings=(SCHEME, LENGTH),
    form_depends=("model",),
    measures=(
        Measure("main", measure, depends=("model",), settings=("scheme", "length"), locks=False),
        Measure("table", measure_table, depends=("model",), locks=False),
    ),
    layout=("form", ("matrix", "alike"), ("pairs", "waves"), "facts"),
    parts={
        "matrix": Figure(matrix),
        "alike": Figure(alike),
        "pairs": Figure(pairs),
        "waves": Figure(waves, of=("main", "table")),
        "facts": Custom("normfacts", facts, of=("main", "table")),
    },
    api=(Endpoint(position_vectors, reads="model", kind="computed"),),
)
