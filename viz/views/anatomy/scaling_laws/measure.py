"""Published scaling laws, evaluated for a budget and for known models."""

from dataclasses import dataclass

from model.anatomy.known_models import KNOWN, TINYGPT, KnownModel, training_of
from model.anatomy.scaling import (
    LAWS,
    PF_DAY,
    ComputePlan,
    Given,
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


def _budget_number(name: str, low: float, high: float, default: float, option: str) -> Range:
    """Build the setting of a budget, which is displayed if the setting `given` equals `option`."""
    return Number(name, low, high, default, 0, {"given": (option,)})


def law_name(words: Words, law: str) -> str:
    """Return the display name of a law. `words` may belong to any part of the view."""
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
    """Return the kind of budget and its value. Accelerator hours are converted to compute."""
    if settings.given == "gpu":
        return "compute", compute_of(settings.hours, 1e12 * settings.rate, settings.used / 100)
    return settings.given, settings["flops" if settings.given == "compute" else settings.given]


# --- the plan ---


@dataclass(frozen=True)
class Plans:
    """The optimal use of a budget under every law."""

    kind: str  # "compute", "params" or "tokens"
    value: float
    plans: dict[str, ComputePlan]  # law -> plan
    half: dict[str, float | None]  # compute for half the size, relative to the optimum; None if no loss is defined
    kaplan: dict[str, float]  # loss under each of Kaplan's formulas ("n", "d", "c", "nd") at Kaplan's own plan


def plans_of(kind: Given, value: float) -> Plans:
    """Compute the optimal plan under every law. Raises InputError if the budget is out of range."""
    plans = {law: planned(law, kind, value) for law in LAWS}
    kaplan = plans["kaplan"]
    losses = {
        "n": kaplan_params(kaplan.params),
        "d": kaplan_tokens(kaplan.tokens),
        "c": kaplan_compute(kaplan.compute / 2 / PF_DAY),
        "nd": float(loss_of("kaplan", kaplan.params, kaplan.tokens)),
    }
    half = {law: float(extra_compute(law, 0.5)) if law in WITH_PRICE else None for law in LAWS}
    return Plans(kind, value, plans, half, losses)


def measure_plans(scene: Scene, settings: Settings) -> Plans:
    """Compute the optimal plan under every law for the budget of the form."""
    return plans_of(*budget(settings))


# --- curves ---


@dataclass(frozen=True)
class Losses:
    """Loss as a function of compute under one law, around a plan."""

    law: str
    plan: ComputePlan
    sizes: list[ScalingCurve]  # one curve per model size
    best: list[ScalingCurve]  # best over all sizes, one curve per law


@dataclass(frozen=True)
class Lines:
    """The curves independent of the budget: loss contours under one law, optima and extra compute under all laws."""

    law: str
    contours: list[ScalingCurve]
    optimal: list[ScalingCurve]
    prices: list[ScalingCurve]


def measure_losses(scene: Scene, settings: Settings) -> Losses:
    """Compute the loss curves around the plan for the budget."""
    law, plan = settings.law, planned(settings.law, *budget(settings))
    sizes = [curve for curve in size_curves(law, plan.compute, MOST_LOSS) if curve.x]
    return Losses(law, plan, sizes, frontiers(plan.compute))


def measure_lines(scene: Scene, settings: Settings) -> Lines:
    """Compute the lines in the plane of parameters and tokens, and the extra compute of other model sizes."""
    return Lines(settings.law, contours(settings.law), optimal_lines(), price_curves())


# --- known models ---


@dataclass(frozen=True)
class Placed:
    """A known model, evaluated under one law."""

    model: KnownModel
    share: float  # its parameter count relative to the optimum for its compute
    loss: float  # predicted loss for its numbers of parameters and tokens


@dataclass(frozen=True)
class KnownModels:
    """The known models under one law, and the loaded model."""

    rows: tuple[Placed, ...]
    loaded: KnownModel | None  # None if the number of training tokens is unknown
    n_params: int  # number of parameters of the loaded model


def measure_models(scene: Scene, settings: Settings) -> KnownModels:
    """Evaluate every known model under the selected law."""
    law = settings.law
    rows = tuple(
        Placed(each, each.params / optimum(law, each.compute).params, float(loss_of(law, each.params, each.tokens)))
        for each in (*KNOWN, TINYGPT)
    )
    return KnownModels(rows, training_of(scene.model.id), scene.model.n_params)
