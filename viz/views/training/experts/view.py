"""The experts view: a tiny mixture of experts, trained with and without the load-balancing loss."""

import math
from typing import Annotated

import numpy as np

from model.design.expert_trial import (
    BATCH,
    LAYERS,
    LENGTH,
    ROWS,
    WIDTH,
    ExpertTrial,
    Mixture,
    Mixtures,
    together,
    train_one,
)
from model.progress import Progress
from viz.numbers import bits, nats, number, percent, whole
from viz.seam.programs.arguments import Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, unprompted
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.seam.view import Custom, Figure, Job, Measure, Payload, Seen, Table, View
from viz.views.training.experts.figures import curves_figure, loads_figure, shares, tokens_figure
from viz.words import Words
from viz.work.playground import Playground
from viz.work.processes.trial_process import side_by_side

SECONDS = 0.07  # approximate seconds per step, for two simultaneous training runs on two cores


def as_it_is(words: Words, option: str) -> str:
    """Return a numeric option, which is its own label."""
    return option


TRIAL = (
    Choice("n_expert", ("4", "8"), label=as_it_is),
    Choice("k", ("1", "2"), label=as_it_is),
    Choice("balance", ("0.01", "0.1"), label=as_it_is),
    Choice("capacity", ("1", "1.25", "2"), default="1.25", label=as_it_is),
)
LAYER = Choice("layer", tuple(map(str, range(LAYERS))), default=str(LAYERS - 1), label=as_it_is)


# --- the measurement ---


def question(scene: Scene, settings: Settings) -> Settings:
    """Return the trial that the form's settings describe."""
    balances = (0.0, float(settings.balance))
    trial = ExpertTrial(int(settings.n_expert), int(settings.k), balances, float(settings.capacity))
    return Settings((("trial", trial),))


def measure_trial(scene: Scene, settings: Settings, progress: Progress) -> Mixtures:
    """Run both training runs, each in a separate process. The loaded model is not involved."""
    trial = settings.trial
    tasks = [(train_one, (trial, balance)) for balance in trial.balances]
    return together(trial, side_by_side(scene.playground.workshop, tasks, trial.steps, progress))


# --- parts ---


def start_job(seen: Seen) -> Payload:
    """Describe the number of steps and the approximate duration of the training."""
    trial = ExpertTrial()
    return {"text": seen.here["hint"].format(steps=whole(trial.steps), seconds=whole(trial.steps * SECONDS))}


def _names(seen: Seen) -> list[str]:
    """Return the names of the two training runs: without the load-balancing loss, and with it and its coefficient."""
    words = seen.words.within("loads")
    return [
        words["with"].format(balance=number(run.balance)) if run.balance else words["without"]
        for run in seen.result.runs
    ]


def _layer(seen: Seen) -> int:
    return int(seen.settings.layer)


def _source(seen: Seen) -> str:
    result = seen.result
    values = {"layers": LAYERS, "width": WIDTH, "rows": ROWS, "length": LENGTH, "batch": BATCH}
    values |= {"n": result.trial.n_expert, "k": result.trial.experts_per_token, "rate": number(result.trial.rate)}
    return seen.words["loads.source_text"].format(**values)


def _python(seen: Seen, line: str) -> str:
    imports = "from model.design.expert_trial import ExpertTrial, train_mixtures"
    return "\n".join([imports, "", f"found = train_mixtures({seen.result.trial!r})", line])


def loads(seen: Seen) -> Payload:
    """Draw every expert's fraction of the routing choices by step."""
    words, result, layer = seen.here, seen.result, _layer(seen)
    shown = dict(zip(_names(seen), (run.load[:, layer] for run in result.runs), strict=True))
    experts = [seen.words.within("tokens")["expert"].format(n=n) for n in range(result.trial.n_expert)]
    named = {key: words[key] for key in ("step", "load", "even")}
    return {
        "figure": loads_figure(result.runs[0].steps.tolist(), shown, experts, named),
        "title": words["title"].format(layer=layer),
        "note": words["note"],
        "source": _source(seen),
        "columns": [words["expert"], words["step"], words["load"]],
        "python": _python(seen, f"[run.load[:, {layer}] for run in found.runs]  # [look, expert]"),
    }


def _curve(seen: Seen, field: str, form: str, unit: float = 1.0, reference: float | None = None) -> Payload:
    """Draw one quantity by step, for the selected layer or for the whole model."""
    words, result, layer = seen.here, seen.result, _layer(seen)
    values = [getattr(run, field) / unit for run in result.runs]
    shown = dict(zip(_names(seen), (each[:, layer] if each.ndim == 2 else each for each in values), strict=True))
    named = {"step": seen.words["loads.step"], "value": words["value"], "reference": words.get("reference") or ""}
    at = f"[:, {layer}]" if values[0].ndim == 2 else ""
    return {
        "figure": curves_figure(result.runs[0].steps.tolist(), shown, named, reference, form),
        "title": words["title"].format(layer=layer),
        "note": words["note"].format(capacity=number(result.trial.capacity_factor)),
        "source": _source(seen),
        "columns": [seen.words["loads.training"], named["step"], words["value"]],
        "python": _python(seen, f"[run.{field}{at} for run in found.runs]"),
    }


def entropy(seen: Seen) -> Payload:
    """Draw the entropy of the router's distribution by step, in bits."""
    return _curve(seen, "entropy", ".4g", math.log(2), math.log2(seen.result.trial.n_expert))


def dropped(seen: Seen) -> Payload:
    """Draw the fraction of routing choices dropped because their expert is at capacity."""
    return _curve(seen, "dropped", ".2%")


def held_out(seen: Seen) -> Payload:
    """Draw the loss on held-out text by step."""
    return _curve(seen, "held_out", ".4g")


def tokens(seen: Seen) -> Payload:
    """Draw the expert of each token of a held-out text, by layer."""
    words, result = seen.here, seen.result
    rows = {
        words["row"].format(name=name, layer=layer): (
            run.experts[layer, :, 0],
            run.weights[layer, :, 0],
            run.lost[layer, :, 0],
        )
        for name, run in zip(_names(seen), result.runs, strict=True)
        for layer in range(LAYERS)
    }
    named = {key: words[key] for key in ("token", "expert", "weight", "dropped")}
    return {
        "figure": tokens_figure(result.pieces, rows, named),
        "title": words["title"],
        "note": words["note"],
        "source": _source(seen),
        "columns": [words["column"], words["token"], words["row_column"]],
        "python": _python(seen, "[run.experts[:, :, 0] for run in found.runs]  # [layer, token], of found.pieces"),
    }


def _busiest(run: Mixture) -> np.ndarray:
    """Return the load of the busiest expert in each layer after the last step. [L]"""
    return run.load[-1].max(-1)


def table(seen: Seen) -> Payload:
    """Build the table of expert loads, router entropy and dropped tokens after the last step."""
    words, result, rows = seen.here, seen.result, []
    for name, run in zip(_names(seen), result.runs, strict=True):
        for layer in range(LAYERS):
            cells = [shares(run.load[-1, layer]), bits(float(run.entropy[-1, layer]) / math.log(2))]
            rows.append([name, str(layer), *cells, percent(float(run.dropped[-1, layer]))])
    return {
        "title": words["title"],
        "columns": [words[key] for key in ("training", "layer", "loads", "entropy", "dropped")],
        "rows": rows,
        "source": _source(seen),
        "same": False,
    }


def facts(seen: Seen) -> Payload:
    """Describe the results: the balance of the load, its cost in loss, and the fraction of active parameters."""
    words, result = seen.here, seen.result
    without, with_loss = result.runs
    busy, even = (percent(float(_busiest(run).mean())) for run in (without, with_loss))
    values = {"without": busy, "with": even, "fair": percent(1 / result.trial.n_expert)}
    more_even = float(_busiest(with_loss).mean()) < float(_busiest(without).mean())
    items = [[words["load"], words["load_even" if more_even else "load_not"].format(**values)]]
    lost = [percent(float(run.dropped[-1].mean())) for run in result.runs]
    items.append([words["dropped"], words["dropped_text"].format(without=lost[0], **{"with": lost[1]})])
    ends = [float(run.held_out[-1]) for run in result.runs]
    gap = {"without": nats(ends[0]), "with": nats(ends[1]), "gap": nats(abs(ends[1] - ends[0]))}
    items.append([words["loss"], words["loss_lower" if ends[1] < ends[0] else "loss_higher"].format(**gap)])
    share = percent(result.n_active / result.n_params)
    counts = {"all": whole(result.n_params), "active": whole(result.n_active), "share": share}
    items.append([words["params"], words["params_text"].format(**counts)])
    items.append([words["caveat"], words["caveat_text"].format(steps=whole(result.trial.steps))])
    return {"title": words["title"], "items": items}


# --- for programs ---


def expert_balance(
    playground: Playground,
    n_expert: Annotated[int, Within(2, 8)] = 4,
    experts_per_token: Annotated[int, Within(1, 2)] = 1,
    balance: Annotated[float, Within(0.0001, 1)] = 0.01,
    capacity_factor: Annotated[float, Within(0.5, 8)] = 1.25,
) -> dict:
    """Train a tiny mixture of experts without and with the load-balancing loss; takes about half a minute.

    Args:
        n_expert: Number of experts in each layer.
        experts_per_token: Number of experts per token.
        balance: Coefficient of the load-balancing loss in the second training run.
        capacity_factor: Capacity of an expert, as a multiple of a uniform load; tokens beyond it are counted as
            dropped.

    Returns:
        pieces: the tokens of a held-out text; params and active: the numbers of all parameters and of those active per
        token; runs: for each training run balance (its coefficient); steps: the number of finished steps at each
        evaluation; load: the fraction of tokens routed to each expert, [evaluation][layer][expert]; entropy (nats) and
        dropped (fraction): [evaluation][layer]; held_out: loss at each evaluation (nats per token); experts: the
        experts of each token of the text, [layer][token][choice], and weights: their weights.
    """
    settings = {"n_expert": n_expert, "k": experts_per_token, "balance": balance, "capacity": capacity_factor}
    result: Mixtures = measured(VIEW, "trial", unprompted(playground), **settings)
    names = ("balance", "steps", "load", "entropy", "dropped", "held_out", "experts", "weights")
    runs = [{name: getattr(run, name) for name in names} for run in result.runs]
    return {"pieces": list(result.pieces), "params": result.n_params, "active": result.n_active, "runs": runs}


VIEW = View(
    "experts",
    needs=(),
    settings=(*TRIAL, LAYER),
    measures=(
        Measure(
            "trial",
            measure_trial,
            depends=(),
            settings=tuple(each.name for each in TRIAL),
            slow=True,
            locks=False,
            question=question,
        ),
    ),
    layout=("form", "start", "loads", (("entropy", "held_out"), ("dropped", "facts")), "tokens", "table"),
    parts={
        "start": Job("trial", start_job, settings=()),
        "loads": Figure(loads, of="trial", settings=("layer",)),
        "entropy": Figure(entropy, of="trial", settings=("layer",)),
        "dropped": Figure(dropped, of="trial", settings=("layer",)),
        "held_out": Figure(held_out, of="trial", settings=()),
        "tokens": Figure(tokens, of="trial", settings=()),
        "facts": Custom("normfacts", facts, of="trial", settings=()),
        "table": Table(table, of="trial", settings=()),
    },
    api=(Endpoint(expert_balance, reads="server", long=True),),
)
