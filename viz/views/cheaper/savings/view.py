"""The savings view: operations and bytes of attention by formula, and times of kernels that skip hidden keys."""

import math
from dataclasses import dataclass
from typing import Annotated

from model.api import LanguageModel
from model.forgetting.costs import LENGTHS, ReadingCost, cost_of, other_operations
from model.forgetting.policies import POLICIES, Policy
from model.forgetting.sparse import SPARSE, Timed, computed, timed
from model.progress import Progress
from viz.numbers import duration, factor, flops, percent, size, whole
from viz.seam.programs.arguments import OneOf, Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, unprompted
from viz.seam.python_lines import model_script
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Range, Settings
from viz.seam.view import Figure, Job, Measure, Payload, Seen, Table, View
from viz.views.cheaper.naming import lines_of, name_of
from viz.views.cheaper.savings.figures import SavingsCurve, by_length
from viz.words import joined
from viz.work.playground import Playground

BUDGETS = (16, 4096)
TIMED = (512, 1024, 2048, 4096, 8192, 16_384)
MOST_WORK = 4e11  # maximum number of operations of full attention at a timed length


@dataclass(frozen=True)
class SavingsRow:
    """The costs of one policy at every length."""

    policy: Policy | None  # None: full attention
    costs: tuple[ReadingCost, ...]  # one per length of LENGTHS


@dataclass(frozen=True)
class Counted:
    """The costs of full attention and of all policies, and those of the other matrices in the blocks."""

    rows: tuple[SavingsRow, ...]
    other: tuple[float, ...]  # operations of the blocks' other matrices, one per length of LENGTHS


def measure(scene: Scene, settings: Settings) -> Counted:
    """Compute the costs of every policy by formula, without running the model."""
    model, policies = scene.model, [None, *(Policy(kind, settings.budget) for kind in POLICIES)]
    rows = tuple(SavingsRow(each, tuple(cost_of(model.config, each, T) for T in LENGTHS)) for each in policies)
    weights = sum(parameter.numel() for parameter in model.model.blocks.parameters())
    return Counted(rows, tuple(other_operations(weights, T) for T in LENGTHS))


def timed_lengths(scene: Scene) -> tuple[int, ...]:
    """Return the lengths to time: those within MOST_WORK operations for full attention in one layer, at least one."""
    config = scene.model.config
    return tuple(T for T in TIMED if 4.0 * config.d_head * config.n_head * T * T <= MOST_WORK) or TIMED[:1]


def measure_times(scene: Scene, settings: Settings, progress: Progress) -> tuple[Timed, ...]:
    """Time one layer's attention on this machine: full, masked, and by blocks."""
    return timed(scene.model.config, Policy(settings.kind, settings.budget), timed_lengths(scene), progress)


# --- parts ---


def _name(seen: Seen, policy: Policy | None) -> str:
    return seen.words["full"] if policy is None else name_of(seen.all_words, policy)


def table(seen: Seen) -> Payload:
    """Build the table of operations and bytes at the shortest and the longest length."""
    words, result = seen.here, seen.result
    full, shown = result.rows[0], (0, len(LENGTHS) - 1)
    rows = []
    for row in result.rows:
        cells = []
        for index in shown:
            cost, reference = row.costs[index], full.costs[index]
            share = percent(cost.operations / reference.operations)
            cells += [{"text": flops(cost.operations), "help": share}, share, size(cost.cache)]
        runs = words["measured"] if row.policy is None or row.policy.kind in SPARSE else words["simulated"]
        rows.append([_name(seen, row.policy), *cells, runs])
    lengths = [whole(LENGTHS[index]) for index in shown]
    columns = [words["way"]]
    for length in lengths:
        columns += [words[key].format(T=length) for key in ("operations", "share", "cache")]
    return {
        "title": words["title"],
        "about": words["about"],
        "columns": [*columns, words["here"]],
        "rows": rows,
        "source": words["source"].format(model=seen.facts.label),
        "python": _count_lines(seen, "[cost_of(lm.config, each, T) for each in policies for T in LENGTHS]"),
    }


def _count_lines(seen: Seen, last: str) -> str:
    lines = [f"policies = [None, *(Policy(kind, {seen.settings.budget}) for kind in POLICIES)]", last]
    imports = [
        "from model.forgetting.costs import LENGTHS, cost_of",
        "from model.forgetting.policies import POLICIES, Policy",
    ]
    return model_script(seen.facts, lines, imports)


def figure(seen: Seen) -> Payload:
    """Draw the operations of attention by length, and those of the other matrices for comparison."""
    words, result = seen.here, seen.result
    shown = [row for row in result.rows if row.policy is None or row.policy.kind in ("window", "strided", "snapkv")]
    curves = [
        SavingsCurve(_name(seen, row.policy), [each.operations for each in row.costs], thick=row.policy is None)
        for row in shown
    ]
    full, window = shown[0].costs[-1].operations, shown[1].costs[-1].operations
    values = {"T": whole(LENGTHS[-1]), "times": factor(full / window)}
    values["share"] = percent(full / (full + result.other[-1]))
    return {
        "figure": by_length(curves, LENGTHS, words.plain(), SavingsCurve(words["other"], result.other)),
        "title": words["title"],
        "note": words["note"].format(**values),
        "source": words["source"].format(model=seen.facts.label),
        "columns": [words["way"], words["length"], words["value"]],
        "python": _count_lines(
            seen, "[[cost_of(lm.config, each, T).operations for T in LENGTHS] for each in policies]"
        ),
    }


def job(seen: Seen) -> Payload:
    """Describe the measurement by the policy to time."""
    words, policy = seen.here, Policy(seen.settings.kind, seen.settings.budget)
    return {"text": words["hint"].format(policy=name_of(seen.all_words, policy))}


def times(seen: Seen) -> Payload:
    """Draw the measured milliseconds of one layer's attention by length."""
    words, result, settings = seen.here, seen.result, seen.settings
    policy, lengths = Policy(settings.kind, settings.budget), [each.T for each in result]
    curves = [SavingsCurve(words["full"], [1e3 * each.full for each in result], thick=True)]
    curves.append(SavingsCurve(words["sparse"], [1e3 * each.sparse for each in result]))
    masked = [each for each in result if each.masked is not None]
    if masked:
        missing = [math.nan] * (len(result) - len(masked))  # a mask of all pairs would take too much memory
        curves.append(SavingsCurve(words["masked"], [*(1e3 * each.masked for each in masked), *missing]))
    last = result[-1]
    values = {"T": whole(last.T), "full": duration(last.full), "sparse": duration(last.sparse)}
    values |= {"ratio": factor(last.full / last.sparse), "pairs": whole(computed(policy, last.T))}
    values["all"] = whole(last.T * (last.T + 1) // 2)
    masked_note = (
        words["note_masked"].format(T=whole(masked[-1].T), masked=duration(masked[-1].masked)) if masked else ""
    )
    line = f"timed(lm.config, {lines_of(policy)}, {lengths})"
    imports = ["from model.forgetting.policies import Policy", "from model.forgetting.sparse import timed"]
    return {
        "figure": by_length(curves, lengths, words.plain()),
        "title": words["title"].format(policy=name_of(seen.all_words, policy)),
        "note": joined((words["note"].format(**values), masked_note)),
        "source": words["source"].format(model=seen.facts.label),
        "columns": [words["way"], words["length"], words["value"]],
        "python": model_script(seen.facts, [line], imports),
    }


# --- for programs ---


def attention_savings(
    playground: Playground, model: LanguageModel, budget: Annotated[int, Within(*BUDGETS)] = 128
) -> dict:
    """Compute the operations and bytes of attention by text length, by formula, for at most `budget` keys per query.

    Args:
        budget: Maximum number of keys that a query can attend to, including its own.

    Returns:
        lengths; other: operations of the blocks' other matrices, by length; ways: kind ("full" first) and, by length,
        pairs (query-key pairs of one head), operations (of all heads and layers) and cache (bytes of keys and values).
    """
    counted: Counted = measured(VIEW, "main", unprompted(playground, model), budget=budget)
    ways = [
        {"kind": row.policy.kind if row.policy else "full"}
        | {name: [getattr(each, name) for each in row.costs] for name in ("pairs", "operations", "cache")}
        for row in counted.rows
    ]
    return {"lengths": list(LENGTHS), "other": list(counted.other), "ways": ways}


def attention_times(
    playground: Playground,
    model: LanguageModel,
    kind: Annotated[str, OneOf(SPARSE)] = "window",
    budget: Annotated[int, Within(*BUDGETS)] = 128,
) -> dict:
    """Time one layer's attention on this machine: full, with a mask, and with a kernel that skips blocks.

    Args:
        kind: A pattern with a kernel; all other patterns are only simulated with a mask.
        budget: Maximum number of keys that a query can attend to, including its own.

    Returns:
        times: T (text length); full, masked (null if the text is too long for a full mask) and sparse, in seconds;
        pairs: number of query-key pairs that the blocks multiply.
    """
    timings = measured(VIEW, "times", unprompted(playground, model), kind=kind, budget=budget)
    policy = Policy(kind, budget)
    return {"times": [vars(each) | {"pairs": computed(policy, each.T)} for each in timings]}


VIEW = View(
    "savings",
    settings=(
        Range("budget", *BUDGETS, step=16, default=128),
        Choice("kind", SPARSE, label=lambda words, option: words.catalogue[f"cheaper.kind.{option}"]),
    ),
    measures=(
        Measure("main", measure, depends=("model",), settings=("budget",), locks=False),
        Measure("times", measure_times, depends=("model",), settings=("kind", "budget"), slow=True, locks=False),
    ),
    layout=("form", "figure", "table", "job", "times"),
    parts={
        "figure": Figure(figure, settings=("budget",)),
        "table": Table(table, settings=("budget",)),
        "job": Job("times", job, again=True),
        "times": Figure(times, of="times"),
    },
    api=(Endpoint(attention_savings, reads="model"), Endpoint(attention_times, reads="model", long=True)),
)
