"""Scaling laws: the loss of a language model as a function of parameters N, training tokens D, and training compute C =
6 N D.

All coefficients are published. Kaplan et al. 2020: equations 1.1 to 1.5, tables 2 (the joint law), 5 and 6, with N
without embeddings, compute in PF-days, and losses on WebText2. Hoffmann et al. 2022: table 2 (exponents), tables 3 and
A3 (projections), equation 10 (approach 3). Besiroglu et al. 2024: approach 3 refitted to Hoffmann's points, with
standard errors, and Hoffmann's coefficients before rounding. Losses are in nats per token, for the tokenizer and the
data of each study: they are not comparable between studies.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from model.arguments import is_number, shown
from model.errors import InputError, say
from model.public import above, one_of, public, unchecked

PF_DAY = 8.64e19  # floating-point operations of a petaFLOP/s-day
LEAST, MOST = 1e3, 1e40  # bounds on a budget
Given = Literal["compute", "params", "tokens"]
GIVEN: tuple[Given, ...] = get_args(Given)


@dataclass(frozen=True)
class Parametric:
    """The law L(N, D) = E + A / N^alpha + B / D^beta (Hoffmann et al. 2022, equation 2), with standard errors in
    `errors`.
    """

    E: float
    A: float
    B: float
    alpha: float
    beta: float
    errors: tuple[float, float, float, float, float] | None = None

    @property
    def a(self) -> float:
        """The exponent of the optimal N* as a function of compute: N* grows as C^a (equation 4)."""
        return self.beta / (self.alpha + self.beta)


@dataclass(frozen=True)
class Kaplan:
    """The constants of Kaplan et al. 2020: (scale, exponent) of each power law."""

    n: tuple[float, float] = (8.8e13, 0.076)  # equation 1.1; scale in parameters without embeddings
    d: tuple[float, float] = (5.4e13, 0.095)  # equation 1.2; scale in tokens
    c_min: tuple[float, float] = (3.1e8, 0.050)  # equation 1.3; scale in PF-days
    joint: tuple[float, float, float, float] = (6.4e13, 0.076, 1.8e13, 0.103)  # table 2: N_c, alpha_N, D_c, alpha_D
    n_opt: tuple[float, float] = (1.3e9, 0.73)  # table 6; optimal N as a function of PF-days
    steps: float = 0.76  # alpha_S, table 5


KAPLAN = Kaplan()
PARAMETRIC: dict[str, Parametric] = {
    "hoffmann3": Parametric(1.69, 406.4, 410.7, 0.34, 0.28),
    "hoffmann3_source": Parametric(1.6934, 406.4, 410.7, 0.3392, 0.2849),
    "besiroglu": Parametric(1.8172, 482.01, 2085.43, 0.3478, 0.3658, (0.03, 124.58, 1293.23, 0.02, 0.02)),
}
LAWS = ("kaplan", "hoffmann1", "hoffmann2", *PARAMETRIC)
# (parameters, FLOPs at which they are optimal): Hoffmann et al. 2022, tables 3 and A3.
_SIZES = (400e6, 1e9, 10e9, 67e9, 175e9, 280e9, 520e9, 1e12, 10e12)
TABLES: dict[str, tuple[tuple[float, float], ...]] = {
    "hoffmann1": tuple(
        zip(_SIZES, (1.92e19, 1.21e20, 1.23e22, 5.76e23, 3.85e24, 9.90e24, 3.43e25, 1.27e26, 1.30e28), strict=True)
    ),
    "hoffmann2": tuple(
        zip(_SIZES, (1.84e19, 1.20e20, 1.32e22, 6.88e23, 4.54e24, 1.18e25, 4.19e25, 1.59e26, 1.75e28), strict=True)
    ),
}
EXPONENTS = {"hoffmann1": 0.50, "hoffmann2": 0.49}  # table 2: N* grows as C^a


@dataclass(frozen=True)
class ComputePlan:
    """A compute-optimal training run: parameters, tokens, FLOPs, and the loss if the law predicts it."""

    law: str
    params: float
    tokens: float
    compute: float
    loss: float | None

    @property
    def ratio(self) -> float:
        """Tokens per parameter."""
        return self.tokens / self.params


# --- losses ------------------------------------------------------------------------------------------------


def _positive(name: str, value: float) -> float:
    if not is_number(value) or value <= 0:
        raise InputError("A setting is out of range.", f"{name}: {shown(value)}", "Give a number above 0.")
    return value


@public(params=unchecked)
def kaplan_params(params: float) -> float:
    """Compute L(N) = (N_c / N)^alpha_N, for training to convergence on enough data (Kaplan et al. 2020, equation 1.1).

    This function and the next two raise InputError unless the argument is a positive finite number.
    """
    scale, exponent = KAPLAN.n
    return float((scale / _positive("params", params)) ** exponent)


@public(tokens=unchecked)
def kaplan_tokens(tokens: float) -> float:
    """Compute L(D) = (D_c / D)^alpha_D, for a large model with early stopping (equation 1.2)."""
    scale, exponent = KAPLAN.d
    return float((scale / _positive("tokens", tokens)) ** exponent)


@public(pf_days=unchecked)
def kaplan_compute(pf_days: float) -> float:
    """Compute L(C_min) = (C_c / C_min)^alpha_C, for optimal use of a compute budget in PF-days at small batch sizes
    (equation 1.3).
    """
    scale, exponent = KAPLAN.c_min
    return float((scale / _positive("pf_days", pf_days)) ** exponent)


@public(law=one_of(LAWS), params=above(0, 1e300), tokens=above(0, 1e300))
def loss_of(
    law: str, params: Sequence[float] | np.ndarray | float, tokens: Sequence[float] | np.ndarray | float
) -> np.ndarray:
    """Compute L(N, D) in nats per token; Kaplan's is equation 1.5 with the constants of table 2.

    Raises InputError for a law that predicts no loss (Hoffmann's approaches 1 and 2).
    """
    params, tokens = np.asarray(params, float), np.asarray(tokens, float)
    if law == "kaplan":
        n, alpha_n, d, alpha_d = KAPLAN.joint
        return ((n / params) ** (alpha_n / alpha_d) + d / tokens) ** alpha_d
    fit = _parametric(law)
    return fit.E + fit.A / params**fit.alpha + fit.B / tokens**fit.beta


@public(law=one_of(LAWS), params=above(0, 1e300), loss=above(0, 1e300))
def tokens_for(law: str, params: Sequence[float] | np.ndarray | float, loss: float) -> np.ndarray:
    """Compute the training tokens at which N parameters reach a loss: `loss_of` solved for D; inf if no number of
    tokens suffices.
    """
    params = np.asarray(params, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        if law == "kaplan":
            n, alpha_n, d, alpha_d = KAPLAN.joint
            remainder = loss ** (1 / alpha_d) - (n / params) ** (alpha_n / alpha_d)
            return np.where(remainder > 0, d / remainder, np.inf)
        fit = _parametric(law)
        remainder = loss - fit.E - fit.A / params**fit.alpha
        return np.where(remainder > 0, (fit.B / np.where(remainder > 0, remainder, 1.0)) ** (1 / fit.beta), np.inf)


def _parametric(law: str) -> Parametric:
    if law not in PARAMETRIC:
        hint = say("Choose one of: {}.", ", ".join(PARAMETRIC))
        raise InputError("This law does not predict a loss.", law, hint)
    return PARAMETRIC[law]


# --- optimal use of a budget ------------------------------------------------------------------------------


@public(hours=above(0, 1e300), flops_per_second=above(0, 1e300), utilization=above(0, 1))
def compute_of(hours: float, flops_per_second: float, utilization: float) -> float:
    """Compute the FLOPs of accelerator-hours at a peak rate and a utilization (0 to 1)."""
    return _within(3600 * hours * flops_per_second * utilization)


@public(law=one_of(LAWS), compute=unchecked)
def optimum(law: str, compute: float) -> ComputePlan:
    """Return the N and D with the lowest loss under the constraint 6 N D = compute.

    Approach 3: N* = G (C/6)^a with G = (alpha A / (beta B))^(1/(alpha+beta)) (Hoffmann et al. 2022, equation 4).
    Approaches 1 and 2: interpolated between the rows of tables 3 and A3, and extrapolated with the exponents of table
    2. Kaplan: N* of table 6 at the critical batch size, where C_min = C / 2 (as interpreted by Hoffmann et al.,
    appendix D.4). Raises InputError for a law that is not in LAWS, or a budget that is not a number from 1e3 to 1e40.
    """
    compute = _within(compute)
    if law in PARAMETRIC:
        fit = PARAMETRIC[law]
        exponent = 1 / (fit.alpha + fit.beta)
        params = (fit.alpha * fit.A / (fit.beta * fit.B)) ** exponent * (compute / 6) ** fit.a
    elif law == "kaplan":
        scale, power = KAPLAN.n_opt
        params = scale * (compute / 2 / PF_DAY) ** power
    else:
        params = _between(TABLES[law], EXPONENTS[law], compute)
    tokens = compute / 6 / params
    return ComputePlan(law, float(params), float(tokens), compute, _best_loss(law, params, tokens, compute))


def _best_loss(law: str, params: float, tokens: float, compute: float) -> float | None:
    if law == "kaplan":
        return kaplan_compute(compute / 2 / PF_DAY)
    return float(loss_of(law, params, tokens)) if law in PARAMETRIC else None


def _between(rows: tuple[tuple[float, float], ...], exponent: float, compute: float) -> float:
    """Interpolate the parameters at a budget linearly between the rows on logarithmic axes, and extrapolate with the
    exponent.
    """
    sizes, budgets = np.log(np.array(rows)).T
    at = np.log(compute)
    beyond = at - np.clip(at, budgets[0], budgets[-1])
    return float(np.exp(np.interp(at, budgets, sizes) + exponent * beyond))


@public(law=one_of(LAWS), quantity=unchecked, value=unchecked)
def planned(law: str, quantity: Given, value: float) -> ComputePlan:
    """Return the optimum with the given compute, parameters or tokens; the latter two both grow with compute.

    Raises InputError for another quantity, and for a value out of range as `optimum` does.
    """
    if not isinstance(quantity, str) or quantity not in GIVEN:
        raise InputError("No quantity has this name.", shown(quantity), say("Choose one of: {}.", ", ".join(GIVEN)))
    if quantity == "compute":
        return optimum(law, value)
    _within(value)
    low, high = np.log(LEAST), np.log(MOST)
    for _ in range(100):  # bisection: 84.7 / 2^100 is below float64 precision
        middle = (low + high) / 2
        candidate = optimum(law, float(np.exp(middle)))
        below = (candidate.params if quantity == "params" else candidate.tokens) < value
        low, high = (middle, high) if below else (low, middle)
    return optimum(law, float(np.exp(high)))


def _within(value: float) -> float:
    if not (is_number(value) and LEAST <= value <= MOST):
        raise InputError(
            "The budget is out of range.",
            shown(value),
            say("Choose a number from {} to {}.", f"{LEAST:g}", f"{MOST:g}"),
        )
    return float(value)


@public(law=one_of(LAWS), share=above(0, 1e300))
def extra_compute(law: str, share: Sequence[float] | np.ndarray | float) -> np.ndarray:
    """Compute the compute relative to the minimum for the same loss if N is `share` times N*; inf if no amount of data
    suffices.

    At the optimum, alpha A / N*^alpha = beta B / D*^beta, so that with s = N / N* the factor is s (1 + (beta / alpha)
    (1 - s^-alpha))^(-1/beta), for any budget. Kaplan et al. 2020, equation B.16, is the same with alpha_S instead of
    beta and alpha_N instead of alpha.
    """
    s = np.asarray(share, float)
    if law == "kaplan":
        alpha, beta = KAPLAN.n[1], KAPLAN.steps
    else:
        fit = _parametric(law)
        alpha, beta = fit.alpha, fit.beta
    base = 1 + beta / alpha * (1 - s**-alpha)
    return np.where(base > 0, s * np.where(base > 0, base, 1.0) ** (-1 / beta), np.inf)
