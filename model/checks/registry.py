"""Registry of the checks of one run of one model. Each check compares two computations that must agree.

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
from model.checks import path_checks as paths
from model.checks import run_checks as check_runs
from model.checks.result import AtBlock, Finding, Look, Subject, Worst, unable, walk
from model.progress import Progress, silent
from model.public import public

log = logging.getLogger("playground")


@dataclass(frozen=True)
class Check:
    """One check. `at` checks one block after another and `look` the whole run; exactly one of the two is set.

    Its name, explanation and formula are the words "checks.name.<key>", "checks.says.<key>" and so on.
    """

    kind: str  # "measured": two runs compared; "derived": a run against arithmetic; "simulated": random draws
    passes: float  # approximate cost in forward passes
    look: Look | None = None
    at: AtBlock | None = None
    unit: str = ""  # unit of a block check, a key of model.checks.result.UNITS
    rule: str = "exact"  # a key of model.checks.result.RULES; with float32 products, "product" becomes "sum"
    terms: str = ""  # number of terms for the rule "sum": a field of the config, or "tokens"
    short: bool = False  # whether it checks only a few positions of any prompt
    random: bool = False  # whether it uses random numbers
    plain: bool = False  # whether it uses the unedited run, even if the visitor has made edits
    moves: str = ""  # source of its measured bound, shared with other checks: "run" or "blocks"

    @property
    def shares(self) -> set[str]:
        """Keys of SHARED: the computations that this check shares with others."""
        return {each for each in (self.moves, "walk" if self.at else "") if each}


# Cost in forward passes of the computations shared by checks: recomputed blocks, perturbations of blocks or of the run.
SHARED = {"walk": 2.2, "blocks": 3.0, "run": 3.0}

# In display order, by topic; a group's name is the word "checks.group.<group>".
CHECKS: dict[str, Check] = {
    "tokens": Check("derived", 0.01, check_runs.tokens, short=True),
    "embedding": Check("derived", 0.02, check_runs.embedding, short=True),
    "rows": Check("derived", 0, at=block_checks.rows, unit="weight", rule="sum", terms="tokens"),
    "no_future": Check("derived", 0, at=block_checks.no_future, unit="weight"),
    "scores": Check("derived", 0, at=block_checks.scores, unit="score", rule="sum", terms="d_head"),
    "softmax": Check("derived", 0, at=block_checks.softmax, unit="weight", rule="sum", terms="tokens"),
    "mixed": Check("derived", 0, at=block_checks.mixed, unit="stream", rule="sum", terms="tokens"),
    "head_outputs": Check("derived", 0, at=block_checks.head_outputs, unit="stream", rule="product", terms="d_model"),
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
    "fused": Check("measured", 1, paths.fused, moves="run"),
    "explicit": Check("measured", 1.5, paths.explicit, moves="run"),
    "one_head": Check("measured", 1, at=block_checks.one_head, unit="weight", rule="moved", moves="blocks"),
    "later_tokens": Check("measured", 1, paths.later_tokens, random=True, moves="run"),
    "chunked": Check("measured", 1.5, paths.chunked, moves="run"),
    "no_edit": Check("measured", 2, paths.no_edit, plain=True, moves="run"),
    "batched": Check("measured", 3, paths.batched, random=True, moves="run"),
    "stepwise": Check("measured", 3, paths.stepwise, moves="run"),
    "cached": Check("measured", 20, paths.cached, moves="run"),
    "float64": Check("measured", 6, paths.float64, moves="run"),
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

_BYTES_A_SECOND, _PRODUCTS_A_SECOND = (
    4e9,
    6e10,
)  # roughly a laptop's CPU; they only determine which checks start with a button
QUICK, QUICK_TOGETHER = 0.45, 0.8  # maximum seconds of one quick check, and of all together
_LIBRARY = 3.0  # seconds of the first import of transformers
_FEW = 16  # number of positions of a short check
WAITS = 3.0  # maximum cost in forward passes of a check that starts without a button


def pass_seconds(subject: Subject, most: int | None = None) -> float:
    """Estimate the seconds of a forward pass over the prompt, or over at most `most` tokens of it, from the sizes
    alone.
    """
    n = sum(parameter.numel() for parameter in subject.run.model.parameters())
    T = min(len(subject.run.tokens), most or len(subject.run.tokens))
    return 0.004 + 4 * n / _BYTES_A_SECOND + 2 * n * T / _PRODUCTS_A_SECOND


def quick(subject: Subject) -> tuple[str, ...]:
    """Return the checks that a page can run immediately: each takes at most about QUICK seconds, and all at most
    QUICK_TOGETHER.
    """
    budget, shared, keys = QUICK_TOGETHER, set(), []
    full, few = pass_seconds(subject), pass_seconds(subject, _FEW)
    for key, check in CHECKS.items():
        more = sum(SHARED[name] for name in check.shares - shared)
        seconds = (few if check.short else full) * check.passes + full * more
        if check.passes <= WAITS and seconds <= min(QUICK, budget) and not key.startswith("parity"):
            keys.append(key)
            budget -= seconds
            shared |= check.shares
    return tuple(keys)


def seconds_of(subject: Subject) -> float:
    """Estimate the total seconds of all checks."""
    full, few = pass_seconds(subject), pass_seconds(subject, _FEW)
    each = sum(check.passes * (few if check.short else full) for check in CHECKS.values())
    return sum(SHARED.values()) * full + each + _LIBRARY


@public()
def run_checks(
    subject: Subject, keys: Collection[str] | None = None, progress: Progress = silent
) -> dict[str, Finding]:
    """Run the given checks, or all, in the order of CHECKS. A check that raises an exception has the state "broken".

    `progress(done, total, "Checking")` counts thousandths of a forward pass; it may raise an exception to cancel.
    Raises ValueError for an unknown key.
    """
    keys = list(CHECKS) if keys is None else list(keys)
    if unknown := sorted(set(keys) - set(CHECKS)):
        raise ValueError(f"unknown checks {unknown}; known: {', '.join(CHECKS)}")
    report = _Progress(progress, keys)
    findings = _run_block_checks(subject, [key for key in CHECKS if key in keys and CHECKS[key].at], report)
    for key, check in CHECKS.items():
        if key in keys and check.look:
            began = time.perf_counter()
            unfit = _unfit(key, subject)
            finding = unfit or _guarded(key, lambda look=check.look: look(subject, report.within), report)
            findings[key] = dataclasses.replace(finding, seconds=time.perf_counter() - began)
            report.done(report.cost([key]))
    return {key: findings[key] for key in CHECKS if key in findings}


class _Progress:
    """Progress over all checks. An exception raised by the progress function ends the run and does not count as a
    broken check.
    """

    def __init__(self, progress: Progress, keys: Sequence[str]) -> None:
        self.progress, self.passes, self.raised, self.shared = progress, 0.0, None, set()
        self.total = self.cost(keys) + 0.01
        self.shared = set()

    def cost(self, keys: Sequence[str]) -> float:
        """Return the cost of these checks in forward passes, including shared computations needed for the first
        time.
        """
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


# What does not hold if tokens also attend to later ones, and what reads a token's direction in the stream.
_LEFT_TO_RIGHT = ("no_future", "parts", "sources", "later_tokens", "chunked", "cached", "gradient")
_BY_HEADS = ("parts", "sources")  # checks of the sum of the heads' outputs
_WITHOUT_HEAD = ("tokens", "embedding", "weights")  # checks of the whole run that read no logits


def _unfit(key: str, subject: Subject) -> Finding | None:
    """Return the finding of a check that is not defined for the model, or None."""
    config = subject.run.config
    if config.two_way and key in _LEFT_TO_RIGHT:
        return unable("two_way")
    if config.ssm_beside and key in _BY_HEADS:
        return unable("beside")
    if not config.alone and key == "gradient":
        return unable("own_layers")
    if config.headless and CHECKS[key].look and key not in _WITHOUT_HEAD and not key.startswith("parity"):
        return unable("no_head")
    return None


def _guarded(key: str, work, report: _Progress) -> Finding:
    """Run a check and return its finding, or a "broken" finding with the exception."""
    try:
        return work()
    except Exception as error:
        if report.raised is not None:
            raise
        log.exception("the check %s could not be run", key)
        return Finding("broken", reason=type(error).__name__, got=str(error)[:200])


def _run_block_checks(subject: Subject, keys: Sequence[str], report: _Progress) -> dict[str, Finding]:
    """Run all block checks in one pass over the blocks: each block is recomputed once for all checks, and its time is
    divided among them.
    """
    selected = {key: CHECKS[key] for key in keys}
    worst = {key: subject.worst(each.unit, each.rule, _terms(subject, each.terms)) for key, each in selected.items()}
    seconds, broken = dict.fromkeys(keys, 0.0), {key: unfit for key in keys if (unfit := _unfit(key, subject))}
    if not keys:
        return {}
    began, cost = time.perf_counter(), report.cost(keys)
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
                look = functools.partial(_check_block, key, subject, layer, at, worst[key])
                if done := _guarded(key, look, report):
                    broken[key] = done
            seconds[key] += shared + time.perf_counter() - started
        report.done(cost / (subject.run.config.n_layer + 1))
        began = time.perf_counter()
    config = subject.run.config
    nothing = "all_edited" if any(map(config.is_attention, range(config.n_layer))) else "no_attention"
    findings = {key: broken.get(key) or worst[key].finding(nothing) for key in keys}
    return {key: dataclasses.replace(findings[key], seconds=seconds[key]) for key in keys}


@torch.inference_mode()
def _check_block(key: str, subject: Subject, layer: int, at: dict, worst: Worst) -> None:
    CHECKS[key].at(subject, layer, at, worst)


def _terms(subject: Subject, name: str) -> int:
    """Return the number of terms in a check's bound, given its `terms`."""
    if name == "tokens":
        return len(subject.run.tokens)
    return int(name) if name.isdigit() else getattr(subject.run.config, name) if name else 0


def summary(findings: dict[str, Finding]) -> dict[str, int]:
    """Return the number of findings by state."""
    return {
        state: sum(each.state == state for each in findings.values())
        for state in ("agrees", "differs", "unable", "broken")
    }


def machine() -> dict[str, object]:
    """Return the properties of the machine that affect the last digits of results."""
    return {"torch": torch.__version__.split("+")[0], "threads": torch.get_num_threads()}
