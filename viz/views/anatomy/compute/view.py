"""FLOPs of a prompt and of one more token, by formulas that PyTorch's counter confirms, and measured times."""

from typing import Annotated

from model.anatomy.component_times import Clocked, Forward
from model.anatomy.flops import AGAINST, Operation, total
from model.api import LanguageModel
from viz.numbers import NONE, decimals, flops, number, percent, signed_percent, size, whole
from viz.seam.programs.arguments import OneOf, Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, unprompted
from viz.seam.scene import Scene
from viz.seam.view import Custom, Figure, Job, Measure, Payload, Seen, Table, View
from viz.views.anatomy.compute.figures import COLORS, FlopsBand, Mark, work_figure
from viz.views.anatomy.compute.measure import (
    COUNTED_LAYERS,
    ITEM,
    ITEMS,
    LOGITS,
    MOST,
    SHOWN,
    TOKENS,
    FlopsCurve,
    PassWork,
    cost_of_times,
    measure_counted,
    measure_curve,
    measure_times,
    measure_ways,
    measure_work,
)
from viz.views.anatomy.compute.times import clock, hint, times, ways
from viz.views.anatomy.subject import ASKING, FORM, LOADED, Which, config_python, derived
from viz.words import Words
from viz.work.playground import Playground

# FLOPs of matrix products, per layer (head: once). T query tokens, S key tokens, E head width, M MLP width.
FORMULAS = {
    "q": "2·T·D·H·E",
    "k": "2·T·D·G·E",
    "v": "2·T·D·G·E",
    "scores": "2·H·T·S·E",
    "mix": "2·H·T·S·E",
    "o": "2·T·H·E·D",
    "gate": "2·T·D·M",
    "up": "2·T·D·M",
    "down": "2·T·M·D",
    "head": "2·T·D·V",
}
Item = tuple[str, str]  # an entry of the facts: label and text


def curve(seen: Seen) -> Payload:
    """Draw FLOPs as a function of context length, and mark where attention overtakes the other groups."""
    words, result = seen.here, seen.result
    subject, shown, x = result.subject, result.shown, result.x
    bands = [FlopsBand(key, words[key], result.groups[key]) for key in COLORS]
    reading = "PassSize(1, T)" if shown == "step" else f"prompt(T, {'T' if result.every else 1})"
    lines = [
        f"[by_group(operations(config, {reading})) for T in {x[:3]} + {x[-1:]}]",
        "crossing(config, 'projections'), crossing(config, 'layer')",
    ]
    imports = ["from model.anatomy.flops import PassSize, by_group, crossing, operations, prompt"]
    named = words.plain() | {"axis": words[f"axis_{shown}"]}
    return {
        "figure": work_figure(x, bands, _marks(result, words, seen.settings.tokens), shown != "lines", named),
        "title": words[f"title_{shown}"],
        "note": words[f"note_{shown}"],
        "source": derived(subject, seen),
        "file": f"flops-{subject.key}-{shown}",
        "columns": [words["series"], words["flops"], words["context"], words[f"axis_{shown}"]],
        "python": config_python(seen, subject, lines, imports),
    }


def _marks(result: FlopsCurve, words: Words, tokens: int) -> list[Mark]:
    """List the marked context lengths in decreasing order.

    They are those at which attention overtakes the references, the model's own context length, and that of the tables.
    """
    lines, n_ctx = result.shown == "lines", result.subject.config.n_ctx
    marks = [
        Mark(
            at,
            words[f"mark_{against}"].format(n=whole(at)),
            result.meeting if lines and against == "projections" else None,
        )
        for against, at in result.crossings.items()
    ]
    if n_ctx <= result.x[-1]:
        marks.append(Mark(n_ctx, words["mark_context"].format(n=whole(n_ctx)), strong=False))
    marks.append(Mark(tokens, words["mark_here"].format(n=whole(tokens)), strong=False))
    return sorted(marks, key=lambda mark: -mark.at)


# --- totals ---


def facts(seen: Seen) -> Payload:
    """List the totals, the rules of thumb for comparison, the crossing in closed form, and the arithmetic intensity."""
    words, work = seen.here, seen.result
    items = [*_totals(words, work), *_rules(words, work), _crossing(words, work), *_intensities(words, work)]
    return {"title": words["title"].format(n=whole(work.tokens)), "items": [list(item) for item in items]}


def _totals(words: Words, work: PassWork) -> list[Item]:
    """Describe the FLOPs of the prompt and of one more token."""
    operations, T = work.operations["prompt"], work.tokens
    every, useful, one = total(operations), total(operations, useful=True), total(work.operations["step"])
    values = {
        "n": whole(every),
        "brief": flops(every),
        "each": flops(every / T),
        "useful": flops(useful),
        "less": percent(1 - useful / every),
    }
    step = words["step_text"].format(n=whole(one), brief=flops(one), T=whole(T))
    return [(words["prompt"], words["prompt_text"].format(**values)), (words["step"], step)]


def _rules(words: Words, work: PassWork) -> list[Item]:
    """Compare the rules of thumb 2 N and 6 N, and Kaplan's formula, with the exact counts."""
    N, exact = work.rules, total(work.operations["prompt"]) / work.tokens
    values = {
        "N": whole(N["blocks"]),
        "rule": flops(N["forward"]),
        "off": signed_percent(N["forward"] / exact - 1),
        "all": whole(N["all"]),
        "rule_all": flops(N["forward_all"]),
        "off_all": signed_percent(N["forward_all"] / exact - 1),
        "exact": flops(exact),
    }
    kaplan = {"kaplan": flops(work.kaplan), "off": signed_percent(work.kaplan / exact - 1)}
    training = {
        "rule": flops(N["training"]),
        "exact": flops(work.training),
        "off": signed_percent(N["training"] / work.training - 1),
    }
    return [
        (words["rule"], words["rule_text"].format(**values)),
        (words["kaplan"], words["kaplan_text"].format(**kaplan)),
        (words["training"], words["training_text"].format(**training)),
    ]


def _crossing(words: Words, work: PassWork) -> Item:
    """Describe the context lengths, in closed form, at which attention overtakes the other groups."""
    c, at = work.subject.config, work.crossings
    values = {"D": whole(c.d_model), "G": c.n_kv_head, "H": c.n_head}
    values |= {"first": _tokens(at["projections"]), "layer": _tokens(at["layer"]), "useful": _tokens(at["useful"])}
    return words["crossing"], words["crossing_text"].format(**values)


def _tokens(value: float) -> str:
    """Format a number of tokens, with one decimal unless it is an integer."""
    return whole(value) if abs(value - round(value)) < 1e-9 else decimals(value, 1)


def _intensities(words: Words, work: PassWork) -> list[Item]:
    """Describe the arithmetic intensity of the prompt and of one more token, in FLOPs per byte."""
    items = []
    for name, value in work.intensity.items():
        values = {"value": number(value), "size": size(work.moved[name]), "item": work.item}
        items.append((words[f"intensity_{name}"], words[f"intensity_{name}_text"].format(**values)))
    return items


# --- operations ---


def table(seen: Seen) -> Payload:
    """Build the table of all operations of the prompt or of one more token, with PyTorch's count for comparison."""
    work, which, words = seen.result, seen.part, seen.words.within("table")
    subject, reading, operations = work.subject, work.readings[which], work.operations[which]
    every = total(operations)
    layer = sum(op.products for op in operations if op.layers == subject.config.n_layer and op.key != "head")
    elementwise = sum(op.all_elementwise for op in operations)
    rows = [_row(words, op, every) for op in operations]
    rows.append([words["total"], "", whole(layer), whole(every), percent(1.0), whole(elementwise)])
    values = {"T": whole(work.tokens), "logits": whole(reading.logits)}
    call = f"prompt({work.tokens}, {reading.logits})" if which == "prompt" else f"next_token({work.tokens})"
    lines = [f"ops = operations(config, {call})", f"total(ops), sum(counted(config, {call}).values())"]
    imports = ["from model.anatomy.flops import counted, next_token, operations, prompt, total"]
    return {
        "title": words[f"title_{which}"].format(**values),
        "about": words[f"about_{which}"].format(**values),
        "columns": [words[key] for key in ("operation", "formula", "layer", "layers", "share", "elementwise")],
        "rows": rows,
        **_check(words, seen.results["counted"], which, every),
        "source": derived(subject, seen),
        "file": f"flops-{subject.key}-{which}-{work.tokens}",
        "python": config_python(seen, subject, lines, imports),
    }


def _row(words: Words, op: Operation, every: int) -> list:
    """Build the row of one operation.

    Columns: name, formula, FLOPs of one layer, FLOPs of all layers, fraction of the total, and elementwise operations.
    """
    share = op.all_products / every if every else 0.0
    return [
        words[op.key],
        FORMULAS.get(op.key, "0"),
        whole(op.products) if op.layers > 1 and op.products else NONE,
        whole(op.all_products),
        {"text": percent(share), "bar": share} if op.all_products else NONE,
        whole(op.all_elementwise) if op.all_elementwise else NONE,
    ]


def _check(words: Words, counted: dict[str, int] | None, which: str, every: int) -> dict:
    """Compare the total with PyTorch's count for the same forward pass."""
    if counted is None:
        return {"check": words["uncounted"].format(n=COUNTED_LAYERS), "same": False}
    same = counted[which] == every
    return {"check": words["same" if same else "apart"].format(n=whole(counted[which])), "same": same}


# --- for programs ---


def _answer(work: PassWork, which: str) -> dict:
    """Build the API answer for one forward pass: its operations, totals and intensity."""
    operations = work.operations[which]
    rows = [
        {
            "operation": op.key,
            "times": op.layers,
            "products": op.products,
            "all": op.all_products,
            "useful": op.all_useful,
            "elementwise": op.all_elementwise,
        }
        for op in operations
    ]
    useful = total(operations, useful=True)
    return {"operations": rows, "total": total(operations), "useful": useful, "intensity": work.intensity[which]}


def work(
    playground: Playground,
    model: LanguageModel,
    architecture: Which = LOADED,
    tokens: Annotated[int, Within(1, MOST)] = 1024,
    every_head: bool = True,
    item: Annotated[str, OneOf(tuple(ITEMS))] = "float32",
) -> dict:
    """Compute the FLOPs of every operation of a prompt and of one token after it, from the config alone.

    Args:
        architecture: loaded (the model), or a well-known architecture.
        tokens: Length of the prompt. The token after it attends to the whole prompt through the cache.
        every_head: Whether the output head runs for every token of the prompt or only for the last one.
        item: Number format of weights and cache, for the intensity.

    Returns:
        prompt and step (one more token): operations (products: FLOPs of the matrix products in one layer, times: number
        of layers, all: FLOPs in all layers, useful: without the masked pairs, elementwise: counted separately), total,
        useful, intensity (FLOPs per byte of weights and cache). crossing: context lengths at which scores and mix take
        as many FLOPs as the projections, and as the rest of the layer. rules: 2 N and 6 N per token, where N counts
        either the parameters of the blocks' matrices or all parameters.
    """
    settings = {FORM: (architecture, ""), "tokens": tokens, "logits": "every" if every_head else "last", "item": item}
    result = measured(VIEW, "main", unprompted(playground, model), **settings)
    crossings = {name: result.crossings[name] for name in AGAINST}
    return {name: _answer(result, name) for name in result.operations} | {"crossing": crossings, "rules": result.rules}


def _forward(result: Forward) -> dict:
    parts = [
        {"component": each.key, "seconds": each.times.median, "flops": each.flops, "rate": each.rate}
        for each in result.parts
    ]
    return {"parts": parts, "clocked": result.clocked.median, "plain": result.plain.median, "flops": result.flops}


def work_times(scene: Scene, every_head: bool = True) -> dict:
    """Measure the seconds that each component takes for the prompt and for one more token, on this server.

    Args:
        every_head: Whether the output head runs for every token of the prompt or only for the last one.

    Returns:
        prompt and step (one more token): parts (component, median seconds, flops, rate in FLOPs per second), clocked
        and plain (median seconds of the whole forward pass with and without the clock), flops. threads: number of CPU
        threads.
    """
    result: Clocked = measured(VIEW, "times", scene, logits="every" if every_head else "last")
    return {"prompt": _forward(result.prompt), "step": _forward(result.step), "threads": result.threads}


_MEASURED = {name: Figure(times, (), also=("times",)) for name in ("times_prompt", "times_step")}
_MEASURED |= {name: Table(clock, (), also=("times",)) for name in ("clock_prompt", "clock_step")}
VIEW = View(
    "compute",
    settings=(TOKENS, SHOWN, LOGITS, ITEM),
    measures=(
        Measure("main", measure_work, ("model",), (FORM, "tokens", "logits", "item"), locks=False),
        Measure("counted", measure_counted, ("model",), (FORM, "tokens", "logits"), locks=False),
        Measure("curve", measure_curve, ("model",), (FORM, "tokens", "shown", "logits"), locks=False),
        Measure("ways", measure_ways, ("model",), locks=False),
        Measure("times", measure_times, ("plain",), ("logits",), slow=True, cost=cost_of_times),
    ),
    layout=(
        FORM,
        "form",
        ("figure", "facts"),
        ("prompt", "step"),
        "ways",
        "job",
        (("times_prompt", "clock_prompt"), ("times_step", "clock_step")),
    ),
    parts={
        FORM: ASKING,
        "figure": Figure(curve, "curve", settings=()),
        "facts": Custom("normfacts", facts, settings=()),
        "prompt": Table(table, ("main", "counted"), settings=()),
        "step": Table(table, ("main", "counted"), settings=()),
        "ways": Table(ways, "ways", settings=()),
        "job": Job("times", hint, settings=(FORM,), again=True),
        **_MEASURED,
    },
    api=(
        Endpoint(work, reads="model", kind="computed"),
        Endpoint(work_times, reads="plain run", long=True),
    ),
)
