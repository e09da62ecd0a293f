"""Published laws on a budget, and the place of known models: all of it by formula."""

from dataclasses import dataclass

from model.anatomy.anatomy import n_params
from model.anatomy.known_models import KNOWN, TINYGPT, KnownModel, training_of
from model.anatomy.scaling import (
    LAWS,
    PF_DAY,
    Given,
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
    WITH_PRICE,
    ScalingCurve,
    contours,
    frontiers,
    optimal_lines,
    price_curves,
    size_curves,
)
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Number, Range, Settings
from viz.views.anatomy.scaling_laws.figures import MOST_LOSS
from viz.words import Words


def _budget_number(name: str, low: float, high: float, usual: float, chosen: str) -> Range:
    """Return a number of any size, shown where `given` is set to `chosen`."""
    return Number(name, low, high, usual, 0, {"given": (chosen,)})


def law_name(words: Words, law: str) -> str:
    """Return the name of a law, from any words of the view."""
    return words.catalogue[f"scaling_laws.laws.{law}"]


BUDGET = (
    Choice("given", ("compute", "gpu", "params", "tokens")),
    _budget_number("flops", 1e12, 1e30, 5.76e23, "compute"),
    _budget_number("hours", 1e-2, 1e10, 1e6, "gpu"),
    _budget_number("rate", 1e-3, 1e6, 312.0, "gpu"),
    _budget_number("used", 1.0, 100.0, 40.0, "gpu"),
    _budget_number("params", 1e5, 1e14, 8e9, "params"),
    _budget_number("tokens", 1e6, 1e16, 1.4e12, "tokens"),
)
LAW = Choice("law", ("besiroglu", "hoffmann3_source", "hoffmann3"), label=law_name)


def budget(settings: Settings) -> tuple[Given, float]:
    """Return the kind of budget and its value; accelerator hours are converted to compute."""
    if settings.given == "gpu":
        return "compute", compute_of(settings.hours, 1e12 * settings.rate, settings.used / 100)
    return settings.given, settings["flops" if settings.given == "compute" else settings.given]


# --- the plan ---


@dataclass(frozen=True)
class Plans:
    """The best use of a budget under every law."""

    given: str  # "compute", "params" or "tokens"
    value: float
    plans: dict[str, Plan]  # by law
    half: dict[str, float | None]  # compute of a model of half the size over the least one; None without a loss
    kaplan: dict[str, float]  # loss by each of Kaplan's formulas at that law's own plan: "n", "d", "c" and "nd"


def plans_of(given: Given, value: float) -> Plans:
    """Return the plan of every law; raises InputError for a budget out of range."""
    plans = {law: planned(law, given, value) for law in LAWS}
    kaplan = plans["kaplan"]
    losses = {
        "n": kaplan_params(kaplan.params),
        "d": kaplan_tokens(kaplan.tokens),
        "c": kaplan_compute(kaplan.compute / 2 / PF_DAY),
        "nd": float(loss_of("kaplan", kaplan.params, kaplan.tokens)),
    }
    half = {law: float(extra_compute(law, 0.5)) if law in WITH_PRICE else None for law in LAWS}
    return Plans(given, value, plans, half, losses)


def measure_plans(scene: Scene, settings: Settings) -> Plans:
    """Return the plan of every law for the budget of the form."""
    return plans_of(*budget(settings))


# --- curves ---


@dataclass(frozen=True)
class Losses:
    """Loss against compute under one law, around a plan."""

    law: str
    plan: Plan
    sizes: list[ScalingCurve]  # of models of one size each
    best: list[ScalingCurve]  # of all sizes, by law


@dataclass(frozen=True)
class Lines:
    """The curves without a budget: lines of equal loss under one law, and the optima and prices of all."""

    law: str
    contours: list[ScalingCurve]
    optimal: list[ScalingCurve]
    prices: list[ScalingCurve]


def measure_losses(scene: Scene, settings: Settings) -> Losses:
    """Curves around the plan of the budget."""
    law, plan = settings.law, planned(settings.law, *budget(settings))
    sizes = [curve for curve in size_curves(law, plan.compute, MOST_LOSS) if curve.x]
    return Losses(law, plan, sizes, frontiers(plan.compute))


def measure_lines(scene: Scene, settings: Settings) -> Lines:
    """Return the lines of the plane of parameters and tokens, and the price of another size."""
    return Lines(settings.law, contours(settings.law), optimal_lines(), price_curves())


# --- known models ---


@dataclass(frozen=True)
class Placed:
    """A known model as a law sees it."""

    model: KnownModel
    share: float  # its parameters over the optimal ones for its own compute
    loss: float  # of the law, for its parameters and tokens


@dataclass(frozen=True)
class Models:
    """Known models, and the loaded one."""

    rows: tuple[Placed, ...]
    loaded: KnownModel | None  # None where its training is not known
    n_params: int  # of the loaded model


def measure_models(scene: Scene, settings: Settings) -> Models:
    """Return every known model under the chosen law."""
    law = settings.law
    rows = tuple(
        Placed(each, each.params / optimum(law, each.compute).params, float(loss_of(law, each.params, each.tokens)))
        for each in (*KNOWN, TINYGPT)
    )
    return Models(rows, training_of(scene.model.id), n_params(scene.model.config))
