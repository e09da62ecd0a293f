"""Scaling laws: the best use of a budget under each published law, beside known models and the visitor's own runs."""

from collections.abc import Mapping

import gradio as gr

from model.anatomy.anatomy import n_params
from model.anatomy.known_models import KNOWN, TINYGPT, TINYGPT_LOSSES, KnownModel, training_of
from model.anatomy.scaling import (
    KAPLAN,
    LAWS,
    PARAMETRIC,
    PF_DAY,
    Plan,
    compute_of,
    extra_compute,
    kaplan_compute,
    kaplan_params,
    kaplan_tokens,
    loss_of,
    optimum,
    planned,
)
from model.anatomy.scaling_curves import (
    MOST_EXTRA,
    PLANE,
    WITH_PRICE,
    contours,
    frontiers,
    optimal_lines,
    price_curves,
    size_curves,
)
from viz.page.old_view import View
from viz.page.parts import choice, number, part, plot_words
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.views.anatomy.scaling_laws import own_runs
from viz.views.anatomy.scaling_laws.figures import (
    COLOURS,
    DASHES,
    GREY,
    MOST_LOSS,
    Dots,
    Line,
    loss_figure,
    plane_figure,
    price_figure,
    size_colour,
    told_count,
    told_flops,
    told_ratio,
)
from viz.words import section

PICTURES = ("laws_plan", "laws_loss", "laws_plane", "laws_price", "laws_models", "laws_fits")
PARTS = ("laws_form", *PICTURES, *own_runs.PARTS)
GIVEN = ("compute", "gpu", "params", "tokens")
DRAWN = ("besiroglu", "hoffmann3_source", "hoffmann3")  # laws that the pictures can be of
FIELDS = {  # what is asked for: lowest, highest, default
    "flops": (1e12, 1e30, 5.76e23),
    "hours": (1e-2, 1e10, 1e6),
    "rate": (1e-3, 1e6, 312.0),
    "used": (1.0, 100.0, 40.0),
    "params": (1e5, 1e14, 8e9),
    "tokens": (1e6, 1e16, 1.4e12),
}
WHEN = {"flops": "compute", "hours": "gpu", "rate": "gpu", "used": "gpu", "params": "params", "tokens": "tokens"}
LABELLED = {
    "GPT-3 175B": "below",
    "Chinchilla 70B": "right",
    "Pythia 410M": "below",
    "Llama 3 8B": "right",
    "Llama 3.1 405B": "above",
    "Qwen2.5 0.5B": "above",
    "SmolLM2 135M": "left",
    "TinyGPT": "right",
}


def build() -> dict[str, gr.HTML]:
    """The budget, what each law makes of it, the two pictures side by side, and tables below."""
    made = {"laws_form": part("laws_form", None, kind="controls", value={})}
    made["laws_plan"] = part("laws_plan", None, kind="labtable")
    with gr.Row(elem_classes="pg-columns"):
        for name in ("laws_plane", "laws_loss"):
            with gr.Column(min_width=320):
                made[name] = part(name, None, kind="figure")
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["laws_price"] = part("laws_price", None, kind="figure")
        with gr.Column(min_width=320):
            made |= own_runs.build()
    made["laws_mine_table"] = part("laws_mine_table", None, kind="labtable")
    for name in ("laws_models", "laws_fits"):
        made[name] = part(name, None, kind="labtable")
    return made


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """What is given, and which law the pictures are of."""
    said = section(words, "laws")
    given = [[key, said[f"given_{key}"]] for key in GIVEN]
    numbers = [
        {
            "name": name,
            "kind": "number",
            "label": said[name],
            "min": low,
            "max": high,
            "step": "any",
            "value": start,
            "when": {"given": [WHEN[name]]},
        }
        for name, (low, high, start) in FIELDS.items()
    ]
    laws = [[key, said[key]] for key in DRAWN]
    return {
        "laws_form": {
            "controls": [
                {"name": "given", "kind": "choice", "label": said["given"], "value": GIVEN[0], "options": given},
                *numbers,
                {"name": "law", "kind": "choice", "label": said["law"], "value": DRAWN[0], "options": laws},
            ]
        }
    }


def asked(values: Values) -> tuple[str, float, str]:
    """What is given ("compute", "params" or "tokens"), how much of it, and the law of the pictures."""
    value = values.get("laws_form")
    given, law = choice(value, "given", GIVEN), choice(value, "law", DRAWN)
    read = {name: number(value, name, *bounds) for name, bounds in FIELDS.items()}
    if given == "gpu":
        return "compute", compute_of(read["hours"], 1e12 * read["rate"], read["used"] / 100), law
    return given, read["flops" if given == "compute" else given], law


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """Everything but the own runs, which depend on who asks: a drawing does not know that."""
    given, value, law = asked(values)
    key, model = (given, value, law), scene.model.id
    own = planned(law, given, value)

    return {
        "laws_plan": Picture((given, value), lambda: plan_payload(scene, given, value)),
        "laws_loss": Picture(key, lambda: loss_payload(scene, law, own)),
        "laws_plane": Picture((key, model), lambda: plane_payload(scene, law, own)),
        "laws_price": Picture(law, lambda: price_payload(scene, law)),
        "laws_models": Picture((law, model), lambda: models_payload(scene, law)),
        "laws_fits": Picture((given, value), lambda: fits_payload(scene, given, value)),
    } | own_runs.draw(scene)


def _told_loss(loss: float | None) -> str:
    return "–" if loss is None else f"{loss:.3f}"


def plan_payload(scene: Scene, given: str, value: float) -> dict:
    """What each law says."""
    said, names = section(scene.words, "lawsplan"), section(scene.words, "laws")
    rows, lines = [], []
    for law in LAWS:
        plan = planned(law, given, value)
        half = float(extra_compute(law, 0.5)) if law in WITH_PRICE else None
        rows.append(
            [
                names[law],
                told_count(plan.params),
                told_count(plan.tokens),
                told_flops(plan.compute),
                told_ratio(plan.ratio),
                _told_loss(plan.loss),
                {"text": "–" if half is None else f"{half:.2f} ×", "help": said["half_help"]},
            ]
        )
        lines.append([names[law], plan.params, plan.tokens, plan.compute, plan.ratio, plan.loss, half])
    told = {"flops": told_flops(value), "n": told_count(value)}
    return {
        "title": said["title" if given == "compute" else f"title_{given}"].format(**told),
        "about": f"{said['note']} {said['kaplan_note']}",
        "columns": [said[key] for key in ("law", "params", "tokens", "compute", "ratio", "loss", "half")],
        "rows": rows,
        "lines": lines,
        "source": said["source"],
        "file": "scaling-plan",
        "run": f"{given} {value} {scene.language}",
        "python": "from model.anatomy.scaling import LAWS, planned\n\n"
        f"[planned(law, {given!r}, {value!r}) for law in LAWS]",
    }


def _figure(scene: Scene, said: Mapping[str, str], figure: str, name: str, python: str) -> dict:
    return {
        "figure": figure,
        "title": said["title"],
        "note": said["note"],
        "source": said["source"],
        "file": f"scaling-{name}",
        "run": f"{name} {python} {scene.language}",
        "columns": [said["line"], said["point"], said["x"], said["y"]],
        "python": python,
        "words": plot_words(scene.words),
    }


def loss_payload(scene: Scene, law: str, plan: Plan) -> dict:
    """Models of one size each, the best of all sizes under each law, and the plan."""
    said, names = section(scene.words, "lawsloss"), section(scene.words, "laws")
    sizes = [curve for curve in size_curves(law, plan.compute, MOST_LOSS) if curve.x]
    lines = [
        Line(told_count(curve.of), curve.x, curve.y, size_colour(at, len(sizes)), "solid", 1.5)
        for at, curve in enumerate(sizes)
    ]
    best = []
    for curve in frontiers(plan.compute):
        style = ("solid", 3.5) if curve.of == law else (DASHES.get(curve.of, "dash"), 1.5)
        best.append(Line(names[curve.of], curve.x, curve.y, COLOURS[curve.of], *style))
    told = said["here_text"].format(n=told_count(plan.params), d=told_count(plan.tokens), loss=_told_loss(plan.loss))
    here = Dots(said["here"], [plan.compute], [plan.loss], [told], COLOURS[law], "star")
    python = (
        "from model.anatomy.scaling_curves import frontiers, size_curves\n\n"
        f"size_curves({law!r}, {plan.compute!r}, {MOST_LOSS})\nfrontiers({plan.compute!r})"
    )
    said = said | {"title": said["title"].format(law=names[law])}
    return _figure(scene, said, loss_figure(lines, best, here, said), "loss", python)


def plane_payload(scene: Scene, law: str, plan: Plan) -> dict:
    """Parameters against tokens with every law's optimum, published models, and the loaded one."""
    said, names = section(scene.words, "lawsplane"), section(scene.words, "laws")
    equal = [
        Line(said["contour"].format(loss=f"{curve.of:.2f}"), curve.x, curve.y, GREY, "solid", 1.0)
        for curve in contours(law)
    ]
    lines = [
        Line(names[curve.of], curve.x, curve.y, COLOURS[curve.of], DASHES.get(curve.of, "solid"))
        for curve in optimal_lines()
    ]
    note, loaded = said["note"].format(law=names[law]), training_of(scene.model.id)
    dots = [
        _dots(said, said["known"], KNOWN, "#5f7196"),
        _dots(said, said["tiny"], (TINYGPT,), COLOURS["hoffmann1"]),
    ]
    if loaded is None:
        n = float(n_params(scene.model.config))
        lines.append(Line(said["loaded"], [n, n], list(PLANE[1]), GREY, "dot", 1.5))
        note = f"{note} {said['loaded_line'].format(n=told_count(n))}"
    elif loaded is not TINYGPT:
        dots.append(_dots(said, said["loaded"], (loaded,), COLOURS["hoffmann1"], "diamond"))
    told = said["model_text"].format(
        name=said["here"], n=told_count(plan.params), d=told_count(plan.tokens), ratio=told_ratio(plan.ratio)
    )
    dots.append(Dots(said["here"], [plan.params], [plan.tokens], [told], COLOURS[law], "star"))
    python = (
        "from model.anatomy.known_models import KNOWN\n"
        "from model.anatomy.scaling_curves import contours, optimal_lines\n\n"
        f"contours({law!r})\noptimal_lines()\n[(each.name, each.params, each.tokens) for each in KNOWN]"
    )
    payload = _figure(scene, said | {"note": note}, plane_figure(equal, lines, dots, PLANE, said), "plane", python)
    return payload | {"run": f"{payload['run']} {plan.compute} {scene.model.id}"}


def _dots(
    said: Mapping[str, str], name: str, models: tuple[KnownModel, ...], colour: str, symbol: str = "circle"
) -> Dots:
    texts = [
        said["model_text"].format(
            name=each.name,
            n=told_count(each.params),
            d=told_count(each.tokens),
            ratio=told_ratio(each.tokens / each.params),
        )
        for each in models
    ]
    places = tuple((at, LABELLED[each.name]) for at, each in enumerate(models) if each.name in LABELLED)
    return Dots(
        name,
        [each.params for each in models],
        [each.tokens for each in models],
        texts,
        colour,
        symbol,
        places if symbol == "circle" else (),
    )


def price_payload(scene: Scene, law: str) -> dict:
    """What a smaller or a larger model than the optimal one costs."""
    said, names = section(scene.words, "lawsprice"), section(scene.words, "laws")
    lines = [
        Line(
            names[curve.of],
            curve.x,
            curve.y,
            COLOURS[curve.of],
            DASHES.get(curve.of, "solid"),
            3.5 if curve.of == law else 1.8,
        )
        for curve in price_curves()
    ]
    half = f"{float(extra_compute(law, 0.5)):.2f}"
    python = f"from model.anatomy.scaling import extra_compute\n\nextra_compute({law!r}, [0.25, 0.5, 1, 2, 4])"
    said = said | {"note": said["note"].format(half=half, law=names[law])}
    return _figure(scene, said, price_figure(lines, MOST_EXTRA, said), "price", python)


def models_payload(scene: Scene, law: str) -> dict:
    """N, D, C of known models, and where a law sees them."""
    said, names = section(scene.words, "lawsmodels"), section(scene.words, "laws")
    here = training_of(scene.model.id)
    rows, lines = [], []
    for each in (*KNOWN, TINYGPT):
        name = said["loaded"].format(name=each.name) if each is here else each.name
        share = each.params / optimum(law, each.compute).params
        loss = float(loss_of(law, each.params, each.tokens))
        rows.append(
            [
                name,
                str(each.year),
                told_count(each.params),
                told_count(each.tokens),
                told_flops(each.compute),
                told_ratio(each.tokens / each.params),
                told_ratio(share),
                f"{loss:.2f}",
                each.source,
            ]
        )
        lines.append(
            [
                name,
                each.year,
                each.params,
                each.tokens,
                each.compute,
                each.tokens / each.params,
                share,
                loss,
                each.source,
            ]
        )
    if here is None:
        n = n_params(scene.model.config)
        name = said["loaded"].format(name=scene.model.label)
        rows.insert(0, [name, "", told_count(n), said["unknown"], "–", "–", "–", "–", ""])
        lines.insert(0, [name, "", n, "", "", "", "", "", ""])
    columns = ("model", "year", "params", "tokens", "compute", "ratio", "share", "loss", "source_of")
    return {
        "title": said["title"],
        "about": said["about"].format(law=names[law]),
        "columns": [said[key] for key in columns],
        "rows": rows,
        "lines": lines,
        "check": said["tiny"].format(**{key: f"{loss:.2f}" for key, loss in TINYGPT_LOSSES.items()}),
        "same": False,
        "source": said["source"],
        "file": "scaling-models",
        "run": f"{law} {scene.model.id} {scene.language}",
        "python": "from model.anatomy.known_models import KNOWN\n\n[(each.name, each.params, each.tokens, each.source) "
        "for each in KNOWN]",
    }


def fits_payload(scene: Scene, given: str, value: float) -> dict:
    """Every formula with its published numbers, and its value at its own plan."""
    said, names = section(scene.words, "lawsfits"), section(scene.words, "laws")
    plans = {law: planned(law, given, value) for law in LAWS}
    kaplan, (n, d, c) = plans["kaplan"], (KAPLAN.n, KAPLAN.d, KAPLAN.c_min)
    joint = KAPLAN.joint
    c_min = kaplan.compute / 2 / PF_DAY
    rows = [
        [said["kaplan_n"], "(N_c/N)^α", f"N_c {n[0]:.1e}, α {n[1]}", _told_loss(kaplan_params(kaplan.params))],
        [said["kaplan_d"], "(D_c/D)^α", f"D_c {d[0]:.1e}, α {d[1]}", _told_loss(kaplan_tokens(kaplan.tokens))],
        [said["kaplan_c"], "(C_c/C_min)^α", f"C_c {c[0]:.1e} PF-days, α {c[1]:.3f}", _told_loss(kaplan_compute(c_min))],
        [
            said["kaplan_nd"],
            "((N_c/N)^(α_N/α_D) + D_c/D)^α_D",
            f"N_c {joint[0]:.1e}, α_N {joint[1]}, D_c {joint[2]:.1e}, α_D {joint[3]}",
            _told_loss(float(loss_of("kaplan", kaplan.params, kaplan.tokens))),
        ],
    ]
    for law, found in PARAMETRIC.items():
        rows.append([names[law], "E + A/N^α + B/D^β", _numbers(found), _told_loss(plans[law].loss)])
    rows += [
        [names[law], f"N* ∝ C^{power}", said["approach"], "–"]
        for law, power in (("hoffmann1", "0.50"), ("hoffmann2", "0.49"))
    ]
    ratios = {
        "printed": "hoffmann3",
        "unrounded": "hoffmann3_source",
        "again": "besiroglu",
        "first": "hoffmann1",
        "second": "hoffmann2",
    }
    return {
        "title": said["title"],
        "about": f"{said['range']}.",
        "columns": [said[key] for key in ("law", "formula", "numbers", "value")],
        "rows": rows,
        "check": said["check"].format(**{key: told_ratio(plans[law].ratio) for key, law in ratios.items()}),
        "same": False,
        "source": said["source"],
        "file": "scaling-coefficients",
        "run": f"{given} {value} {scene.language} fits",
        "python": "from model.anatomy.scaling import KAPLAN, PARAMETRIC\n\nKAPLAN, PARAMETRIC",
    }


def _numbers(found) -> str:
    """The coefficients in a line, standard errors in brackets where they are published."""
    errors = found.errors or (None,) * 5
    return ", ".join(
        f"{name} {getattr(found, key):g}" + (f" ({error:g})" if error is not None else "")
        for (name, key), error in zip(
            (("E", "E"), ("A", "A"), ("B", "B"), ("α", "alpha"), ("β", "beta")), errors, strict=True
        )
    )


VIEW = View("laws", build, draw, parts=PARTS, fixed=fixed, asks=("laws_form",), wire=None)
