"""How each scheme writes the position: the vectors, how alike they are by distance, and how slowly pairs turn."""

import dataclasses

import gradio as gr

from model.design.positions import (
    SCHEMES,
    THETA,
    Similarity,
    cosines,
    decay_bound,
    frequencies,
    kernel,
    similarity,
    spectrum,
    vectors,
    wavelengths,
)
from model.gpt.config import ModelConfig
from viz.page.old_view import View
from viz.page.parts import part, plot_words
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.views.activations.norm.figures import told
from viz.views.design.position_vectors.figures import (
    Line,
    Waves,
    alternates,
    colour_end,
    columns_of,
    distances_of,
    matrix_figure,
    pairs_figure,
    pairs_of,
    rows_of,
    similarity_figure,
    spectrum_figure,
    waves_figure,
)
from viz.views.design.position_vectors.schemes import (
    ALL,
    OWN,
    RANGES,
    Shown,
    facts_payload,
    lengths_of,
    scaling_of,
    scheme_name,
    shown_of,
    source,
    whole_table,
)

PARTS = ("posvec_form", "posvec_matrix", "posvec_alike", "posvec_pairs", "posvec_waves", "posvec_facts")
MOST_LEARNED = 2048  # rows of a table whose pairs are all compared
_FORMULAS = ("sinusoidal", "rope")


def build() -> dict[str, gr.HTML]:
    """The form; vectors and similarity side by side; all pairs and wavelengths; the numbers."""
    made = {"posvec_form": part("posvec_form", None, kind="controls", value={})}
    for row in (("posvec_matrix", "posvec_alike"), ("posvec_pairs", "posvec_waves")):
        with gr.Row(elem_classes="pg-columns"):
            for name in row:
                with gr.Column(min_width=320):
                    made[name] = part(name, None, kind="figure")
    made["posvec_facts"] = part("posvec_facts", None, kind="normfacts")
    return made


def form(scene: Scene) -> dict:
    """The scheme and the positions."""
    words, config = scene.words, scene.model.config
    own = words["posvec.own"].format(name=scheme_name(words, config.positions))
    others = [[scheme, scheme_name(words, scheme)] for scheme in SCHEMES if scheme != config.positions]
    offered = lengths_of(config)
    ranges = [[str(n), words["posvec.first"].format(n=f"{n:,}")] for n in RANGES if str(n) in offered]
    ranges.append([ALL, words["posvec.whole"].format(n=f"{config.n_ctx:,}")])
    return {
        "controls": [
            {
                "name": "scheme",
                "kind": "choice",
                "label": words["posvec.which"],
                "value": OWN,
                "options": [[OWN, own], *others],
            },
            {
                "name": "length",
                "kind": "choice",
                "label": words["posvec.range"],
                "value": offered[0],
                "options": ranges,
            },
        ]
    }


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """Nothing of it depends on the prompt."""
    shown = shown_of(scene, values)
    key = (shown.key, scene.language)

    def picture(name: str, payload, wanted: bool = True) -> Picture:
        return Picture((key, name), lambda: payload(shown) if wanted else {"empty": nothing(shown, name)})

    waved = shown.scheme == "learned" and shown.own and shown.config.n_ctx > 1
    there = shown.scheme != "none" and (shown.scheme != "learned" or shown.own)
    return {
        "posvec_form": Picture((scene.model.id, scene.language), lambda: form(scene)),
        "posvec_matrix": picture("matrix", matrix_payload, there),
        "posvec_alike": picture("alike", alike_payload),
        "posvec_pairs": picture("pairs", pairs_payload, there),
        "posvec_waves": picture("waves", spectrum_payload if waved else waves_payload),
        "posvec_facts": picture("facts", facts_payload),
    }


def nothing(shown: Shown, name: str) -> dict:
    """Why there are no vectors, and so nothing to compare."""
    said = shown.said
    if name == "pairs":
        return {"text": said["no_pairs"], "hint": ""}
    if shown.scheme == "none":
        return {"text": said["none_text"], "hint": said["none_hint"]}
    own = scheme_name(shown.scene.words, shown.config.positions)
    return {"text": said["absent_text"].format(model=shown.scene.model.label, own=own), "hint": said["absent_hint"]}


def _payload(shown: Shown, name: str, figure: str, more: dict) -> dict:
    """What all figures have in common."""
    length = f"{shown.length:,}"
    return {
        "figure": figure,
        "title": shown.said[f"{name}_title"].format(name=shown.name, n=length),
        "source": source(shown),
        "file": f"positions-{name}-{shown.scheme}",
        "run": f"{' '.join(map(str, shown.key))} {shown.scene.language} {name}",
        "words": plot_words(shown.scene.words),
    } | more


def _lines(shown: Shown, lines: list[str], names: str) -> str:
    return python_lines(shown.scene, lines, [f"from model.design.positions import {names}"])


# --- vectors ---------------------------------------------------------------------------------------


def matrix_payload(shown: Shown) -> dict:
    """Positions by dimensions."""
    said, model = shown.said, shown.scene.model.model
    width = frequencies(shown.config, "rope").size * 2 if shown.scheme == "rope" else shown.config.d_model
    columns = columns_of(width)
    rows = rows_of(shown.length, len(columns))
    table = vectors(model, shown.scheme, rows)
    end = colour_end(table)
    notes = [said[f"matrix_{shown.scheme}"].format(n=width // 2, last=width // 2 - 1)]
    if rows[-1] != len(rows) - 1:
        notes.append(said["every_row"].format(n=rows[1]))
    if len(columns) > 1 and columns[1] > 1:
        notes.append(said["every_column"].format(n=columns[1]))
    if float(abs(table).max()) > 1.2 * end:
        notes.append(said["beyond"].format(end=told(end), most=told(float(abs(table).max()))))
    lines = [f"vectors(lm.model, {shown.scheme!r}, range({shown.length}))  # [positions, dimensions]"]
    return _payload(
        shown,
        "matrix",
        matrix_figure(table[:, columns], rows, columns, said),
        {
            "note": " ".join(notes),
            "columns": [said["position"], said["dimension"], said["value"]],
            "python": _lines(shown, lines, "vectors"),
        },
    )


# --- similarity ------------------------------------------------------------------------------------


def learned_rows(shown: Shown) -> range:
    """The rows of the table that are compared."""
    return range(min(shown.length, MOST_LEARNED))


def alike_payload(shown: Shown) -> dict:
    """Cosine by distance: the chosen scheme, and the formulas beside it."""
    said, words, config = shown.said, shown.scene.words, shown.config
    distances, lines = distances_of(shown.length), []
    formulas = [scheme for scheme in _FORMULAS if scheme == shown.scheme or scheme != "rope" or _has_pairs(config)]
    for scheme in formulas:
        y, bold = kernel(frequencies(config, scheme), distances), scheme == shown.scheme
        name = scheme_name(words, scheme) if bold else _beside(shown, scheme)
        lines.append(Line(name, scheme, distances, y, bold=bold))
    lines.sort(key=lambda line: line.bold)
    note, python = said[f"alike_{shown.scheme}"], []
    if shown.scheme == "learned" and shown.own:
        at = learned_rows(shown)
        measured = learned_lines(shown, similarity(vectors(shown.scene.model.model, "learned", at)))
        lines += measured
        note = note if len(measured) == 1 else f"{note} {said['alike_apart']}"
        python = [f"similarity(vectors(lm.model, 'learned', range({len(at)})))  # distance, mean, 10 %, 90 %"]
    elif shown.scheme == "learned":
        note = said["alike_none"]
    bound = None
    if shown.scheme == "rope":
        bound = Line(said["bound"], "rope", distances, decay_bound(frequencies(config, "rope"), distances))
    names = "decay_bound, frequencies, kernel" if bound else "frequencies, kernel"
    if shown.scheme in _FORMULAS:
        python = [f"theta = frequencies(lm.config, {shown.scheme!r})", f"kernel(theta, range({shown.length}))"]
        python += [f"decay_bound(theta, range({shown.length}))"] if bound else []
    names = "similarity, vectors" if shown.scheme == "learned" and shown.own else names
    python = python or [f"kernel(frequencies(lm.config, 'sinusoidal'), range({shown.length}))"]
    return _payload(
        shown,
        "alike",
        similarity_figure(lines, bound, said),
        {
            "note": note,
            "columns": [said["scheme"], said["distance"], said["cosine"]],
            "python": _lines(shown, python, names),
        },
    )


def learned_lines(shown: Shown, found: Similarity) -> list[Line]:
    """The table's curve; two of them where even and odd distances differ."""
    most = max(1, 3 * len(found.distance) // 4)  # beyond, few positions are so far apart
    kinds = ((0, "even"), (1, "odd")) if alternates(found.mean[1:most]) else ()
    made = []
    for first, kind in kinds or ((0, ""),):
        at = slice(first, most, 2 if kinds else 1)
        name = shown.said[f"alike_{kind}"].format(name=shown.name) if kinds else shown.name
        band = (found.low[at], found.high[at])
        made.append(Line(name, "learned", found.distance[at], found.mean[at], band, pale=kind == "odd"))
    return made


def _has_pairs(config: ModelConfig) -> bool:
    return config.positions == "rope" or config.d_head > 1


def _beside(shown: Shown, scheme: str) -> str:
    """A formula that is there to compare with: whose it is."""
    name = scheme_name(shown.scene.words, scheme)
    if scheme == shown.config.positions:
        return name
    given = {"name": name, "D": shown.config.d_model, "E": shown.config.d_head, "theta": f"{THETA:,.0f}"}
    return shown.said[f"beside_{scheme}"].format(**given)


def pairs_payload(shown: Shown) -> dict:
    """The cosine of every two positions."""
    said = shown.said
    at = pairs_of(shown.length)
    found = cosines(vectors(shown.scene.model.model, shown.scheme, at))
    note = said["pairs_learned" if shown.scheme == "learned" else "pairs_formula"]
    step = at[1] if len(at) > 1 else 1
    given = f"cosines(vectors(lm.model, {shown.scheme!r}, range(0, {shown.length}, {step})))"
    return _payload(
        shown,
        "pairs",
        pairs_figure(found, at, said),
        {
            "note": f"{note} {said['every_row'].format(n=step)}" if step > 1 else note,
            "columns": [said["position"], said["other"], said["cosine"]],
            "python": _lines(shown, [given], "cosines, vectors"),
        },
    )


# --- waves -----------------------------------------------------------------------------------------


def waves_payload(shown: Shown) -> dict:
    """Wavelengths of RoPE and of the sines, and which turn less than once within the context."""
    said, config, waves = shown.said, shown.config, []
    formulas = [scheme for scheme in _FORMULAS if scheme != "rope" or _has_pairs(config)]
    for scheme in sorted(formulas, key=lambda each: each == shown.scheme):
        own = scheme in (shown.scheme, config.positions)
        name = scheme_name(shown.scene.words, scheme) if own else _beside(shown, scheme)
        waves.append(Waves(name, scheme, wavelengths(frequencies(config, scheme)), bold=scheme == shown.scheme))
    if config.positions == "rope" and config.rope_scaling:
        plain = frequencies(dataclasses.replace(config, rope_scaling=None), "rope")
        waves.insert(0, Waves(said["unscaled"], "unscaled", wavelengths(plain), bold=False))
    which = shown.scheme if shown.scheme in _FORMULAS else formulas[-1]
    lines = [f"wavelengths(frequencies(lm.config, {which!r}))  # positions a turn, one a pair"]
    notes = [said["waves_note"], scaling_of(shown) if config.positions == "rope" and config.rope_scaling else ""]
    compared = Shown(shown.scene, shown.scheme if shown.scheme in _FORMULAS else "none", shown.length)
    return _payload(
        shown,
        "waves",
        waves_figure(waves, config.n_ctx, said),
        {
            "note": " ".join(note for note in notes if note),
            "source": source(compared),
            "columns": [said["scheme"], said["pair_share"], said["wavelength"]],
            "python": _lines(shown, lines, "frequencies, wavelengths"),
        },
    )


def spectrum_payload(shown: Shown) -> dict:
    """Which waves a learned table is made of."""
    said, table = shown.said, whole_table(shown)
    found = spectrum(table)
    n = shown.config.n_ctx
    return _payload(
        shown,
        "spectrum",
        spectrum_figure(found.wavelength, found.share, said),
        {
            "title": said["spectrum_title"].format(n=f"{n:,}"),
            "note": said["spectrum_note"],
            "columns": [said["wavelength"], said["share"]],
            "python": _lines(shown, [f"spectrum(vectors(lm.model, 'learned', range({n})))"], "spectrum, vectors"),
        },
    )


VIEW = View("posvec", build, draw, parts=PARTS, fixed=lambda words: {}, asks=("posvec_form",))
