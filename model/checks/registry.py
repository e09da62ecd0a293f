"""Is this right? Checks of one run of one model, each of two computations that must agree, by name.

>>> from model.checks.registry import run_checks                                          # doctest: +SKIP
>>> from model.checks.result import subject_of                                        # doctest: +SKIP
>>> run_checks(subject_of(lm, lm.trace("Hello"), "Hello"), ["rows", "fused"])    # doctest: +SKIP
"""

import dataclasses
import functools
import logging
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch

from model.checks import block_checks, parity
from model.checks import run_checks as check_runs
from model.checks.result import AtBlock, Finding, Look, Subject, Worst, walk
from model.progress import Progress, silent

log = logging.getLogger("playground")


@dataclass(frozen=True)
class Check:
    """One check: `at` looks at a block after another, `look` at the whole run; one of the two is given.

    Its name, what it compares and its formula are the words "checks.name.<key>", "checks.says.<key>" and so on.
    """

    kind: str  # "measured": two runs; "derived": a run against arithmetic; "simulated": random numbers decide
    passes: float  # about how many forwards of the model it takes
    look: Look | None = None
    at: AtBlock | None = None
    unit: str = ""  # of a check of blocks; see model.checks.result.UNITS
    rule: str = "exact"  # see model.checks.result.RULES
    terms: str = ""  # what a "sum" adds up: a field of the config, or "tokens"
    short: bool = False  # whether it looks at no more than some positions, however long the prompt is
    random: bool = False  # whether it draws anything from the seed
    plain: bool = False  # of the run without edits, whatever the visitor has edited
    moves: str = ""  # of which numbers it takes the bound from: "run" or "blocks", measured once for all checks

    @property
    def shares(self) -> set[str]:
        """What it needs that is made once for all checks; keys of SHARED."""
        return {each for each in (self.moves, "walk" if self.at else "") if each}


# Passes of the model that checks share: all blocks looked at in turn, and their numbers moved, or those of the run.
SHARED = {"walk": 2.2, "blocks": 3.0, "run": 3.0}

# In the order in which they are shown, by what they are about; a group's name is the word "checks.group.<group>".
CHECKS: dict[str, Check] = {
    "tokens": Check("derived", 0.01, check_runs.tokens, short=True),
    "embedding": Check("derived", 0.02, check_runs.embedding, short=True),
    "rows": Check("derived", 0, at=block_checks.rows, unit="weight", rule="sum", terms="tokens"),
    "no_future": Check("derived", 0, at=block_checks.no_future, unit="weight"),
    "scores": Check("derived", 0, at=block_checks.scores, unit="score", rule="sum", terms="d_head"),
    "softmax": Check("derived", 0, at=block_checks.softmax, unit="weight", rule="sum", terms="tokens"),
    "mixed": Check("derived", 0, at=block_checks.mixed, unit="stream", rule="sum", terms="tokens"),
    "head_outputs": Check("derived", 0, at=block_checks.head_outputs, unit="stream", rule="sum", terms="d_model"),
    "sublayers": Check("derived", 0, at=block_checks.sublayers, unit="stream", rule="moved", moves="blocks"),
    "norm_unit": Check("derived", 0, at=block_checks.norm_unit, unit="normalised", rule="sum", terms="d_model"),
    "norm_formula": Check("derived", 0, at=block_checks.norm_formula, unit="normalised", rule="sum", terms="d_model"),
    "finite": Check("derived", 0, at=block_checks.finite, unit="numbers"),
    "numbers": Check("derived", 0.1, check_runs.numbers, short=True),
    "weights": Check("derived", 1, check_runs.weights, short=True),
    "recomputed": Check("measured", 0, at=block_checks.recomputed, unit="stream", rule="moved", moves="blocks"),
    "lens": Check("measured", 0.8, check_runs.lens, short=True),
    "unembedding": Check("derived", 0.9, check_runs.unembedding, short=True),
    "probabilities": Check("derived", 0.1, check_runs.probabilities, short=True),
    "parts": Check("derived", 0.7, check_runs.parts, moves="run"),
    "sources": Check("derived", 0.5, check_runs.sources, moves="blocks"),
    "sampler": Check("simulated", 0.1, check_runs.sampler, short=True, random=True),
    "draws": Check("simulated", 0.4, check_runs.draws, short=True, random=True),
    "fused": Check("measured", 1, check_runs.fused, moves="run"),
    "explicit": Check("measured", 1.5, check_runs.explicit, moves="run"),
    "one_head": Check("measured", 1, at=block_checks.one_head, unit="weight", rule="moved", moves="blocks"),
    "later_tokens": Check("measured", 1, check_runs.later_tokens, random=True, moves="run"),
    "chunked": Check("measured", 1.5, check_runs.chunked, moves="run"),
    "no_edit": Check("measured", 2, check_runs.no_edit, plain=True, moves="run"),
    "batched": Check("measured", 3, check_runs.batched, random=True, moves="run"),
    "stepwise": Check("measured", 3, check_runs.stepwise, moves="run"),
    "cached": Check("measured", 9, check_runs.cached, moves="run"),
    "float64": Check("measured", 6, check_runs.float64, moves="run"),
    "gradient": Check("measured", 12, check_runs.gradient),
    "parity_logits": Check("measured", 6, parity.part("logits"), plain=True),
    "parity_patterns": Check("measured", 0.1, parity.part("patterns"), plain=True),
    "parity_hidden": Check("measured", 0.1, parity.part("hidden"), plain=True),
    "parity_random": Check("measured", 0.1, parity.part("random"), random=True, plain=True),
    "parity_tokens": Check("measured", 1, parity.tokenizer, plain=True),
}

GROUPS: dict[str, tuple[str, ...]] = {
    "text": ("tokens", "embedding"),
    "attention": ("rows", "no_future", "scores", "softmax", "mixed", "head_outputs"),
    "stream": ("sublayers", "norm_unit", "norm_formula", "finite", "numbers", "weights", "recomputed"),
    "prediction": ("lens", "unembedding", "probabilities", "parts", "sources", "sampler", "draws"),
    "paths": (
        "fused",
        "explicit",
        "one_head",
        "later_tokens",
        "chunked",
        "no_edit",
        "batched",
        "stepwise",
        "cached",
        "float64",
        "gradient",
    ),
    "library": ("parity_logits", "parity_patterns", "parity_hidden", "parity_random", "parity_tokens"),
}

_BYTES_A_SECOND, _PRODUCTS_A_SECOND = 4e9, 6e10  # of a laptop's CPU, roughly; they decide only what waits for a button
QUICK, QUICK_TOGETHER = 0.45, 0.8  # seconds
_LIBRARY = 3.0  # seconds in which transformers is imported, the first time
_FEW = 16  # positions that a short check looks at
WAITS = 3.0  # passes beyond which a check always waits


def pass_seconds(subject: Subject, most: int | None = None) -> float:
    """About how long a forward of the prompt, or of `most` of its tokens, takes, from the sizes alone."""
    n = sum(parameter.numel() for parameter in subject.run.model.parameters())
    T = min(len(subject.run.tokens), most or len(subject.run.tokens))
    return 0.004 + 4 * n / _BYTES_A_SECOND + 2 * n * T / _PRODUCTS_A_SECOND


def quick(subject: Subject) -> tuple[str, ...]:
    """The checks that a page can make at once, each within QUICK and all within QUICK_TOGETHER seconds or so."""
    left, shared, found = QUICK_TOGETHER, set(), []
    whole, few = pass_seconds(subject), pass_seconds(subject, _FEW)
    for key, check in CHECKS.items():
        more = sum(SHARED[name] for name in check.shares - shared)
        seconds = (few if check.short else whole) * check.passes + whole * more
        if check.passes <= WAITS and seconds <= min(QUICK, left) and not key.startswith("parity"):
            found.append(key)
            left -= seconds
            shared |= check.shares
    return tuple(found)


def seconds_of(subject: Subject) -> float:
    """About how long all checks take."""
    whole, few = pass_seconds(subject), pass_seconds(subject, _FEW)
    each = sum(check.passes * (few if check.short else whole) for check in CHECKS.values())
    return sum(SHARED.values()) * whole + each + _LIBRARY


def run_checks(
    subject: Subject, keys: Collection[str] | None = None, progress: Progress = silent
) -> dict[str, Finding]:
    """Make some checks, or all, in the order of CHECKS. A check that fails to run says so and agrees with nothing.

    `progress(done, total, "Checking")` counts thousandths of a pass of the model and may raise to cancel. Raises
    ValueError for an unknown key.
    """
    keys = list(CHECKS) if keys is None else list(keys)
    if unknown := sorted(set(keys) - set(CHECKS)):
        raise ValueError(f"unknown checks {unknown}; known: {', '.join(CHECKS)}")
    told = _Told(progress, keys)
    found = _walked(subject, [key for key in CHECKS if key in keys and CHECKS[key].at], told)
    for key, check in CHECKS.items():
        if key in keys and check.look:
            began = time.perf_counter()
            finding = _tried(key, lambda look=check.look: look(subject, told.within), told)
            found[key] = dataclasses.replace(finding, seconds=time.perf_counter() - began)
            told.done(told.cost([key]))
    return {key: found[key] for key in CHECKS if key in found}


class _Told:
    """Progress over all checks; what it raises ends the work, and is no fault of the check that was at it."""

    def __init__(self, progress: Progress, keys: Sequence[str]) -> None:
        self.progress, self.passes, self.raised, self.shared = progress, 0.0, None, set()
        self.total = self.cost(keys) + 0.01
        self.shared = set()

    def cost(self, keys: Sequence[str]) -> float:
        """Passes of these checks, with what they are the first to need."""
        more = set().union(*(CHECKS[key].shares for key in keys)) - self.shared
        self.shared |= more
        return sum(CHECKS[key].passes for key in keys) + sum(SHARED[name] for name in more)

    def done(self, passes: float) -> None:
        self.passes += passes
        self.within(0, None, "")

    def within(self, done: int, total: int | None, what: str) -> None:
        try:
            self.progress(int(1000 * self.passes), int(1000 * self.total), "Checking")
        except BaseException as error:
            self.raised = error
            raise


def _tried(key: str, work, told: _Told) -> Finding:
    """What a check finds, or that it could not be run and why."""
    try:
        return work()
    except Exception as error:
        if told.raised is not None:
            raise
        log.exception("the check %s could not be run", key)
        return Finding("broken", reason=type(error).__name__, got=str(error)[:200])


def _walked(subject: Subject, keys: Sequence[str], told: _Told) -> dict[str, Finding]:
    """All checks of blocks in one walk: each block is recomputed once for all of them, and its time is shared."""
    worst = {key: Worst(CHECKS[key].unit, CHECKS[key].rule, _terms(subject, CHECKS[key].terms)) for key in keys}
    seconds, broken = dict.fromkeys(keys, 0.0), {}
    if not keys:
        return {}
    began, cost = time.perf_counter(), told.cost(keys)
    blocks = walk(subject)
    while True:
        try:
            layer, at = next(blocks)
        except StopIteration:
            break
        except Exception as error:
            log.exception("the blocks could not be walked")
            return dict.fromkeys(keys, Finding("broken", reason=type(error).__name__, got=str(error)[:200]))
        shared = (time.perf_counter() - began) / len(keys)
        for key in keys:
            started = time.perf_counter()
            if key not in broken:
                look = functools.partial(_looked, key, subject, layer, at, worst[key])
                if done := _tried(key, look, told):
                    broken[key] = done
            seconds[key] += shared + time.perf_counter() - started
        told.done(cost / (subject.run.config.n_layer + 1))
        began = time.perf_counter()
    return {key: dataclasses.replace(broken.get(key) or worst[key].finding(), seconds=seconds[key]) for key in keys}


@torch.inference_mode()
def _looked(key: str, subject: Subject, layer: int, at: dict, worst: Worst) -> None:
    CHECKS[key].at(subject, layer, at, worst)


def _terms(subject: Subject, name: str) -> int:
    """The number that a check's bound counts."""
    if name == "tokens":
        return len(subject.run.tokens)
    return int(name) if name.isdigit() else getattr(subject.run.config, name) if name else 0


def summary(found: dict[str, Finding]) -> dict[str, int]:
    """How many are of each state."""
    return {
        state: sum(each.state == state for each in found.values())
        for state in ("agrees", "differs", "unable", "broken")
    }


def machine() -> dict[str, object]:
    """What decides the last digits besides the model."""
    return {"torch": torch.__version__.split("+")[0], "threads": torch.get_num_threads()}
