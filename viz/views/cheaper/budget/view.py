"""The budget view: the loss on a text under every eviction policy at several budgets."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from model.api import LanguageModel
from model.forgetting.eviction import may_forget
from model.forgetting.policies import CACHES, POLICIES, Policy
from model.forgetting.reading import read_all
from model.progress import Progress
from viz.numbers import difference, nats, percent, whole
from viz.seam.programs.arguments import OneOf
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, unprompted
from viz.seam.python_lines import model_script
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.seam.view import Figure, Job, Measure, Payload, Seen, Table, View
from viz.views.cheaper.budget.figures import BudgetCurve, budget_figure
from viz.views.cheaper.forget.measure import text_windows
from viz.words import joined
from viz.work.playground import Playground

BUDGETS = (4, 8, 16, 32, 64, 128)
SMALL = 5e7  # maximum number of parameters for MANY windows; a larger model processes FEW
MANY, FEW = 4, 2
NEAR = 0.1  # extra loss in nats up to which a policy counts as close to full attention
WHICH = {"caches": CACHES, "all": tuple(POLICIES)}


@dataclass(frozen=True, eq=False)
class Sweep:
    """The loss over the second half of every window, in nats per token, and the agreement with full attention."""

    kinds: tuple[str, ...]
    budgets: tuple[int, ...]
    windows: int
    length: int
    full: float
    loss: np.ndarray  # float64 [kinds, budgets]
    agree: np.ndarray  # float64 [kinds, budgets], fraction of positions with the same top token
    kl: np.ndarray  # float64 [kinds, budgets], mean KL(full || policy), nats


def budgets_of(length: int) -> tuple[int, ...]:
    """Return the budgets up to half of a window, whose second half is measured; (1,) for a very short window."""
    return tuple(n for n in BUDGETS if n <= length // 2) or (1,)


def measure(scene: Scene, settings: Settings, progress: Progress) -> Sweep:
    """Measure the unmodified model on the bundled text under every policy at every budget."""
    windows = text_windows(scene.model, scene.limit)
    windows = windows[: MANY if scene.model.n_params <= SMALL else FEW]
    length = windows.shape[1] - 1
    kinds, budgets, half = WHICH[settings.which], budgets_of(length), length // 2
    policies = [Policy(kind, n) for kind in kinds for n in budgets]

    def keep(read) -> tuple[float, float, float, float]:
        parts = read.loss, read.full_loss, read.agree, read.kl
        return tuple(float(each.mean(dtype=np.float64)) for each in parts)

    size = scene.model.tokenizer.vocab_size
    means = read_all(scene.model.model, windows, policies, progress, size=size, since=half, keep=keep)
    loss, full, agree, kl = (np.array(each).reshape(len(kinds), len(budgets)) for each in zip(*means, strict=True))
    return Sweep(kinds, budgets, len(windows), length, float(full[0, 0]), loss, agree, kl)


# --- parts ---


def kind_name(seen: Seen, kind: str) -> str:
    """Return the name of a kind of policy, without its numbers."""
    return seen.all_words[f"cheaper.kind.{kind}"]


def job(seen: Seen) -> Payload:
    """Describe the measurement: the number of policies and budgets."""
    return {"text": seen.here["hint"].format(n=len(WHICH[seen.settings.which]), budgets=len(BUDGETS))}


def _source(seen: Seen) -> str:
    result, facts = seen.result, seen.facts
    values = {"model": facts.label, "dtype": facts.dtype, "windows": whole(result.windows)}
    return seen.words["source"].format(**values, length=whole(result.length), half=whole(result.length // 2))


def _lines(seen: Seen, last: str) -> str:
    result = seen.result
    lines = [
        "first = lm.tokenizer.begin_id",
        f"windows = windows_of(lm.tokenizer.encode_ids(bundled_text()), {result.length}, 8, first)[:{result.windows}]",
        f"policies = [Policy(kind, n) for kind in {result.kinds!r} for n in {result.budgets!r}]",
        "readings = read_all(lm.model, windows, policies, size=lm.tokenizer.vocab_size)",
        last,
    ]
    imports = [
        "from model.design.past_length import windows_of",
        "from model.forgetting.policies import Policy",
        "from model.forgetting.reading import read_all",
        "from model.text.held_out import bundled_text",
    ]
    return model_script(seen.facts, lines, imports)


def figure(seen: Seen) -> Payload:
    """Draw the loss as a function of the number of kept keys, one line per policy."""
    words, result = seen.here, seen.result
    curves = [
        BudgetCurve(kind_name(seen, kind), loss, may_forget(Policy(kind)))
        for kind, loss in zip(result.kinds, result.loss, strict=True)
    ]
    names = words.plain() | {"full": words["full"].format(loss=nats(result.full))}
    return {
        "figure": budget_figure(curves, result.budgets, result.full, names),
        "title": words["title"],
        "note": joined([_enough(seen), words["note"]]),
        "source": _source(seen),
        "file": f"budget-{seen.settings.which}",
        "columns": [words["way"], words["kept"], words["loss"]],
        "python": _lines(seen, f"[each.loss[:, {result.length // 2}:].mean() for each in readings]"),
    }


def _enough(seen: Seen) -> str:
    """Describe the best policy at the smallest budget with a loss close to full attention, or else the best overall."""
    words, result = seen.here, seen.result
    close = result.loss - result.full <= NEAR
    if not close.any():
        best = np.unravel_index(int(result.loss.argmin()), result.loss.shape)
        values = {"kind": kind_name(seen, result.kinds[best[0]]), "n": whole(result.budgets[best[1]])}
        return words["none"].format(**values, more=difference(float(result.loss[best] - result.full)))
    column = int(close.any(0).argmax())
    row = int(np.where(close[:, column], result.loss[:, column], np.inf).argmin())
    values = {"kind": kind_name(seen, result.kinds[row]), "n": whole(result.budgets[column]), "near": NEAR}
    return words["enough"].format(**values, more=difference(float(result.loss[row, column] - result.full)))


def table(seen: Seen) -> Payload:
    """Build the table of the extra loss relative to full attention, by policy and budget."""
    words, result = seen.here, seen.result
    rows = [
        [kind_name(seen, kind), *(difference(float(each - result.full)) for each in result.loss[n])]
        for n, kind in enumerate(result.kinds)
    ]
    best = result.kinds[int(result.agree[:, 0].argmax())]
    about = words["about"].format(
        kind=kind_name(seen, best), n=whole(result.budgets[0]), agree=percent(float(result.agree[:, 0].max()))
    )
    return {
        "title": words["title"],
        "about": about,
        "columns": [words["way"], *(words["keys"].format(n=whole(n)) for n in result.budgets)],
        "rows": rows,
        "source": _source(seen),
        "python": _lines(seen, f"[each.agree[:, {result.length // 2}:].mean() for each in readings]"),
    }


# --- for programs ---


def forgetting_by_budget(
    playground: Playground, model: LanguageModel, which: Annotated[str, OneOf(tuple(WHICH))] = "caches"
) -> dict:
    """Measure the loss on a text as a function of the number of kept keys, for every eviction policy.

    Nothing is retrained.

    Args:
        which: caches: policies that a KV cache can implement. all: fixed patterns as well.

    Returns:
        windows and length: number and length of the text's windows; full: loss with full attention, in nats per token
        over the second half of every window; budgets: numbers of kept keys; ways: kind and, with one value per budget,
        loss, agree (fraction of positions with the same top token) and kl (nats).
    """
    sweep: Sweep = measured(VIEW, "main", unprompted(playground, model), which=which)
    ways = [
        {"kind": kind, "loss": sweep.loss[n], "agree": sweep.agree[n], "kl": sweep.kl[n]}
        for n, kind in enumerate(sweep.kinds)
    ]
    return {
        "windows": sweep.windows,
        "length": sweep.length,
        "full": sweep.full,
        "budgets": list(sweep.budgets),
        "ways": ways,
    }


VIEW = View(
    "budget",
    settings=(Choice("which", tuple(WHICH)),),
    measures=(Measure("main", measure, depends=("model", "limit"), settings=("which",), slow=True),),
    layout=("form", "job", "figure", "table"),
    parts={"job": Job("main", job), "figure": Figure(figure), "table": Table(table)},
    api=(Endpoint(forgetting_by_budget, reads="model", long=True),),
)
