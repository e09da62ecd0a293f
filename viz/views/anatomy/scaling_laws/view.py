"""Scaling laws: the optimal use of a budget under each published law, known models, and the visitor's own runs."""

from collections.abc import Sequence
from typing import Annotated

from model.anatomy.known_models import KNOWN, TINYGPT, TINYGPT_LOSSES, KnownModel
from model.anatomy.scaling import KAPLAN, PARAMETRIC, Parametric, extra_compute
from model.anatomy.scaling_curves import MOST_EXTRA, PLANE
from viz.numbers import NONE, count, decimals, exact, nats, number, power
from viz.seam.programs.arguments import OneOf, Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.view import Asking, Figure, Measure, Payload, Seen, Table, View
from viz.views.anatomy.scaling_laws import own_runs
from viz.views.anatomy.scaling_laws.figures import (
    COLORS,
    DASHES,
    GRAY,
    MOST_LOSS,
    Dots,
    PlotLine,
    loss_figure,
    plane_figure,
    price_figure,
    size_color,
)
from viz.views.anatomy.scaling_laws.measure import (
    BUDGET,
    LAW,
    law_name,
    measure_lines,
    measure_losses,
    measure_models,
    measure_plans,
    plans_of,
)
from viz.words import Words
from viz.work.playground import Playground

_MODELS = "#5f7196"
LABELED = {
    "GPT-3 175B": "below",
    "Chinchilla 70B": "right",
    "Pythia 410M": "below",
    "Llama 3 8B": "right",
    "Llama 3.1 405B": "above",
    "Qwen2.5 0.5B": "above",
    "SmolLM2 135M": "left",
    "TinyGPT": "right",
}


def times(value: float | None) -> str:
    """Format a ratio of compute, such as 1.26 ×."""
    return NONE if value is None else f"{number(value)} ×"


def plan(seen: Seen) -> Payload:
    """Build the table of the optimal plan under each law."""
    words, result = seen.here, seen.result
    rows, lines = [], []
    for law, each in result.plans.items():
        name, half = law_name(words, law), result.half[law]
        rows.append(
            [
                name,
                count(each.params),
                count(each.tokens),
                power(each.compute),
                number(each.ratio),
                nats(each.loss),
                {"text": times(half), "help": words["half_help"]},
            ]
        )
        lines.append([name, each.params, each.tokens, each.compute, each.ratio, each.loss, half])
    title = words["title" if result.kind == "compute" else f"title_{result.kind}"]
    python = f"[planned(law, {result.kind!r}, {result.value!r}) for law in LAWS]"
    return {
        "title": title.format(flops=power(result.value), n=count(result.value)),
        "about": f"{words['note']} {words['kaplan_note']}",
        "columns": [words[key] for key in ("law", "params", "tokens", "compute", "ratio", "loss", "half")],
        "rows": rows,
        "lines": lines,
        "file": "scaling-plan",
        "python": f"from model.anatomy.scaling import LAWS, planned\n\n{python}",
    }


def _columns(words: Words) -> list[str]:
    return [words[key] for key in ("line", "point", "x", "y")]


def loss(seen: Seen) -> Payload:
    """Draw loss as a function of compute: one line per model size, each law's best over all sizes, and the plan."""
    words, result = seen.here, seen.result
    chosen, law, n = result.plan, result.law, len(result.sizes)
    sizes = [
        PlotLine(count(curve.of), curve.x, curve.y, size_color(at, n), "solid", 1.5)
        for at, curve in enumerate(result.sizes)
    ]
    best = []
    for curve in result.best:
        style = ("solid", 3.5) if curve.of == law else (DASHES.get(curve.of, "dash"), 1.5)
        best.append(PlotLine(law_name(words, curve.of), curve.x, curve.y, COLORS[curve.of], *style))
    text = words["here_text"].format(n=count(chosen.params), d=count(chosen.tokens), loss=nats(chosen.loss))
    star = Dots(words["here"], [chosen.compute], [chosen.loss], [text], COLORS[law], "star")
    return {
        "figure": loss_figure(sizes, best, star, words),
        "title": words["title"].format(law=law_name(words, law)),
        "note": words["note"],
        "file": "scaling-loss",
        "columns": _columns(words),
        "python": "from model.anatomy.scaling_curves import frontiers, size_curves\n\n"
        f"size_curves({law!r}, {chosen.compute!r}, {MOST_LOSS})\nfrontiers({chosen.compute!r})",
    }


def plane(seen: Seen) -> Payload:
    """Draw the plane of tokens and parameters, with every law's optimum, published models, and the loaded model."""
    words, result, models = seen.here, seen.result, seen.results["models"]
    law, chosen = result.law, seen.results["plan"].plans[result.law]
    equal = [
        PlotLine(words["contour"].format(loss=nats(curve.of)), curve.x, curve.y, GRAY, "solid", 1.0)
        for curve in result.contours
    ]
    lines = [
        PlotLine(law_name(words, curve.of), curve.x, curve.y, COLORS[curve.of], DASHES.get(curve.of, "solid"))
        for curve in result.optimal
    ]
    note, color = words["note"].format(law=law_name(words, law)), COLORS["hoffmann1"]
    dots = [_dots(words, "known", KNOWN, _MODELS), _dots(words, "tiny", (TINYGPT,), color)]
    if models.loaded is None:
        n = float(models.n_params)
        lines.append(PlotLine(words["loaded"], [n, n], list(PLANE[1]), GRAY, "dot", 1.5))
        note = f"{note} {words['loaded_line'].format(n=count(n))}"
    elif models.loaded is not TINYGPT:
        dots.append(_dots(words, "loaded", (models.loaded,), color, "diamond"))
    text = _model_text(words, words["here"], chosen.params, chosen.tokens)
    dots.append(Dots(words["here"], [chosen.params], [chosen.tokens], [text], COLORS[law], "star"))
    return {
        "figure": plane_figure(equal, lines, dots, PLANE, words),
        "title": words["title"],
        "note": note,
        "file": "scaling-plane",
        "columns": _columns(words),
        "python": "from model.anatomy.known_models import KNOWN\n"
        "from model.anatomy.scaling_curves import contours, optimal_lines\n\n"
        f"contours({law!r})\noptimal_lines()\n[(each.name, each.params, each.tokens) for each in KNOWN]",
    }


def _model_text(words: Words, name: str, params: float, tokens: float) -> str:
    return words["model_text"].format(name=name, n=count(params), d=count(tokens), ratio=number(tokens / params))


def _dots(words: Words, key: str, models: Sequence[KnownModel], color: str, symbol: str = "circle") -> Dots:
    places = tuple((at, LABELED[each.name]) for at, each in enumerate(models) if each.name in LABELED)
    return Dots(
        words[key],
        [each.params for each in models],
        [each.tokens for each in models],
        [_model_text(words, each.name, each.params, each.tokens) for each in models],
        color,
        symbol,
        places if symbol == "circle" else (),
    )


def price(seen: Seen) -> Payload:
    """Draw the extra compute of models that are smaller or larger than the optimum."""
    words, result = seen.here, seen.result
    law = result.law
    lines = [
        PlotLine(
            law_name(words, curve.of),
            curve.x,
            curve.y,
            COLORS[curve.of],
            DASHES.get(curve.of, "solid"),
            3.5 if curve.of == law else 1.8,
        )
        for curve in result.prices
    ]
    half = number(float(extra_compute(law, 0.5)))
    return {
        "figure": price_figure(lines, MOST_EXTRA, words),
        "title": words["title"],
        "note": words["note"].format(half=half, law=law_name(words, law)),
        "file": "scaling-price",
        "columns": _columns(words),
        "python": f"from model.anatomy.scaling import extra_compute\n\nextra_compute({law!r}, [0.25, 0.5, 1, 2, 4])",
    }


def models(seen: Seen) -> Payload:
    """Build the table of known models: N, D, C, and their relative size and loss under the selected law."""
    words, result, rows, lines = seen.here, seen.result, [], []
    if result.loaded is None:
        name = words["loaded"].format(name=seen.facts.label)
        rows.append([name, "", count(result.n_params), words["unknown"], *[NONE] * 4, ""])
        lines.append([name, "", result.n_params, *[""] * 6])
    for row in result.rows:
        each = row.model
        name = words["loaded"].format(name=each.name) if each == result.loaded else each.name
        ratio = each.tokens / each.params
        sizes = [count(each.params), count(each.tokens), power(each.compute), number(ratio), number(row.share)]
        rows.append([name, str(each.year), *sizes, nats(row.loss), each.source])
        unrounded = [each.params, each.tokens, each.compute, ratio, row.share, row.loss]
        lines.append([name, each.year, *unrounded, each.source])
    columns = ("model", "year", "params", "tokens", "compute", "ratio", "share", "loss", "source_of")
    return {
        "title": words["title"],
        "about": words["about"].format(law=law_name(words, seen.settings.law)),
        "columns": [words[key] for key in columns],
        "rows": rows,
        "lines": lines,
        "check": words["tiny"].format(**{key: nats(each) for key, each in TINYGPT_LOSSES.items()}),
        "same": False,
        "file": "scaling-models",
        "python": "from model.anatomy.known_models import KNOWN\n\n[(each.name, each.params, each.tokens, each.source) "
        "for each in KNOWN]",
    }


def fits(seen: Seen) -> Payload:
    """Build the table of all formulas, with their published coefficients and the loss at each law's own plan."""
    words, result = seen.here, seen.result
    (N_c, a_n), (D_c, a_d), (C_c, a_c), joint = KAPLAN.n, KAPLAN.d, KAPLAN.c_min, KAPLAN.joint
    both = f"N_c {power(joint[0], 2)}, α_N {number(joint[1])}, D_c {power(joint[2], 2)}, α_D {number(joint[3])}"
    formulas = {
        "n": ("(N_c/N)^α", f"N_c {power(N_c, 2)}, α {number(a_n)}"),
        "d": ("(D_c/D)^α", f"D_c {power(D_c, 2)}, α {number(a_d)}"),
        "c": ("(C_c/C_min)^α", f"C_c {power(C_c, 2)} PF-days, α {decimals(a_c, 3)}"),
        "nd": ("((N_c/N)^(α_N/α_D) + D_c/D)^α_D", both),
    }
    rows = [[words[f"kaplan_{key}"], *each, nats(result.kaplan[key])] for key, each in formulas.items()]
    rows += [
        [law_name(words, law), "E + A/N^α + B/D^β", _coefficients(each), nats(result.plans[law].loss)]
        for law, each in PARAMETRIC.items()
    ]
    powers = {"hoffmann1": "0.50", "hoffmann2": "0.49"}
    rows += [[law_name(words, law), f"N* ∝ C^{each}", words["approach"], NONE] for law, each in powers.items()]
    ratios = {
        "printed": "hoffmann3",
        "unrounded": "hoffmann3_source",
        "again": "besiroglu",
        "first": "hoffmann1",
        "second": "hoffmann2",
    }
    return {
        "title": words["title"],
        "about": f"{words['range']}.",
        "columns": [words[key] for key in ("law", "formula", "numbers", "value")],
        "rows": rows,
        "check": words["check"].format(**{key: number(result.plans[law].ratio) for key, law in ratios.items()}),
        "same": False,
        "file": "scaling-coefficients",
        "python": "from model.anatomy.scaling import KAPLAN, PARAMETRIC\n\nKAPLAN, PARAMETRIC",
    }


def _coefficients(result: Parametric) -> str:
    """Format the coefficients on one line, each with its standard error in parentheses if that is published."""
    names = {"E": "E", "A": "A", "B": "B", "α": "alpha", "β": "beta"}
    errors = [f" ({exact(error)})" for error in result.errors] if result.errors else [""] * 5
    return ", ".join(
        f"{name} {exact(getattr(result, key))}{error}" for (name, key), error in zip(names.items(), errors, strict=True)
    )


# --- for programs ---


def scaling_laws(
    playground: Playground,
    given: Annotated[str, OneOf(("compute", "params", "tokens"))] = "compute",
    value: Annotated[float, Within(1e-3, 1e15)] = 5.76,
    exponent: Annotated[int, Within(0, 30)] = 23,
) -> dict:
    """Compute the optimal model for a budget under every published scaling law, and list known models.

    Args:
        given: Quantity that the budget fixes: compute (FLOPs), params or tokens.
        value: Budget as a multiple of 10^exponent.
        exponent: Power of ten: value 5.76 and exponent 23 mean 5.76e23 FLOPs.

    Returns:
        given and value: the budget. plans: law, params, tokens, compute, ratio (tokens per parameter), loss (nats per
        token of that study's tokenizer; null if the law does not predict a loss) and half (compute that a model of half
        the size needs for the same loss, relative to the optimum). models: name, params, tokens, year and source, as
        published.
    """
    result = plans_of(given, float(f"{value}e{exponent}"))
    rows = [vars(each) | {"ratio": each.ratio, "half": result.half[law]} for law, each in result.plans.items()]
    return {"given": given, "value": result.value, "plans": rows, "models": [vars(each) for each in (*KNOWN, TINYGPT)]}


_BUDGET_NAMES = tuple(each.name for each in BUDGET)
VIEW = View(
    "scaling_laws",
    needs=(),
    settings=(*BUDGET, LAW),
    measures=(
        Measure("plan", measure_plans, (), _BUDGET_NAMES, locks=False),
        Measure("losses", measure_losses, (), (*_BUDGET_NAMES, "law"), locks=False),
        Measure("lines", measure_lines, (), ("law",), locks=False),
        Measure("models", measure_models, ("model",), ("law",), locks=False),
        Measure("mine", own_runs.measure, ("visitor",), locks=False),
    ),
    layout=("form", "plan", ("plane", "loss"), ("price", ("again", "mine")), "mine_table", "models", "fits"),
    parts={
        "plan": Table(plan, "plan", settings=()),
        "plane": Figure(plane, ("lines", "plan", "models"), settings=()),
        "loss": Figure(loss, "losses", settings=()),
        "price": Figure(price, "lines", settings=()),
        "again": Asking("controls", lambda value, scene: None, own_runs.refit_button),
        "mine": Figure(own_runs.figure, "mine", settings=()),
        "mine_table": Table(own_runs.table, "mine", settings=()),
        "models": Table(models, "models", settings=()),
        "fits": Table(fits, "plan", settings=()),
    },
    api=(Endpoint(scaling_laws, reads="server", kind="computed"),),
)
