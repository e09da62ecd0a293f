"""FLOPs of a prompt and of one more token, by formulas that PyTorch's counter confirms, and measured times."""

import math
from collections.abc import Mapping
from typing import Annotated

from model.anatomy.component_times import Clocked, Forward
from model.anatomy.flops import AGAINST, Operation, total
from model.anatomy.mixers.kinds import attention_layers, kinds, state_mixer
from model.api import LanguageModel
from model.gpt.config import ModelConfig
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
from viz.words import Words, joined
from viz.work.playground import Playground

# FLOPs of matrix products, per layer (head: once). T query tokens, S key tokens, E head width, M MLP width.
FORMULAS = {
    "q": "2·T·D·H·E",
    "k": "2·T·D·G·E",
    "v": "2·T·D·G·E",
    "scores": "2·H·T·S·E",
    "mix": "2·H·T·S·E",
    "window_scores": "2·H·T·S·E",
    "window_mix": "2·H·T·S·E",
    "o": "2·T·H·E·D",
    "gate_o": "2·T·D·H·E",
    "head_dense": "2·T·D·D",
    "gate": "2·T·D·M",
    "up": "2·T·D·M",
    "down": "2·T·M·D",
    "head": "2·T·D·V",
}
# Those of mixers with a state, by mixer: R rank of the steps, J heads with a state [N or E, P], t tokens of a chunk,
# W width of the input projection.
_CHUNKS, _DELTA = "Σ 2·J·t²·(N + P) + 4·J·t·N·P", "Σ J·t²·(4·E + 2·P) + 6·J·t·E·P"
_PROJECTED = {"in_proj": "2·T·D·W", "out_proj": "2·T·I·D"}
STATE_FORMULAS: dict[str, dict[str, str]] = {
    "mamba": _PROJECTED | {"rates": "2·T·I·(2·R + 2·N)"},
    "mamba2": _PROJECTED | {"state": _CHUNKS},
    "gated_delta": _PROJECTED | {"rates": "4·T·D·J", "state": _DELTA, "state_gate": "2·T·D·I"},
    "short_conv": _PROJECTED,
    "linear": {"rates": "2·T·D·H", "state": _CHUNKS, "state_gate": "2·T·D·H·E"},
    "retention": {"state": _CHUNKS, "state_gate": "2·T·D·H·E"},
    "delta": {"rates": "2·T·D·H", "state": _DELTA},
}
Item = tuple[str, str]  # an entry of the facts: label and text


def curve(seen: Seen) -> Payload:
    """Draw FLOPs as a function of context length, and mark where attention overtakes the other groups."""
    words, result = seen.here, seen.result
    subject, shown, x = result.subject, result.shown, result.x
    bands = [FlopsBand(key, words[key], result.groups[key]) for key in COLORS]
    step = shown == "step" and not subject.config.two_way
    reading = "PassSize(1, T)" if step else f"prompt(T, {'T' if result.every else 1})"
    lines = [
        f"[by_group(operations(config, {reading})) for T in {x[:3]} + {x[-1:]}]",
        "crossing(config, 'projections'), crossing(config, 'layer')",
    ]
    imports = ["from model.anatomy.flops import PassSize, by_group, crossing, operations, prompt"]
    named = words.plain() | {"axis": words[f"axis_{shown}"]}
    return {
        "figure": work_figure(x, bands, _marks(result, words, seen.settings.tokens), shown != "lines", named),
        "title": words[f"title_{shown}" if step or shown != "step" else "title_whole"],
        "note": _note(words, subject.config, shown),
        "source": derived(subject, seen),
        "file": f"flops-{subject.key}-{shown}",
        "columns": [words["series"], words["flops"], words["context"], words[f"axis_{shown}"]],
        "python": config_python(seen, subject, lines, imports),
    }


def _note(words: Words, config: ModelConfig, shown: str) -> str:
    """Describe how the operations grow with the length."""
    if config.two_way and shown == "step":
        return words["note_no_step"]
    return words[f"note_{shown}" if attention_layers(config) else "note_state"]


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
    every, useful = total(operations), total(operations, useful=True)
    values = {
        "n": whole(every),
        "brief": flops(every),
        "each": flops(every / T),
        "useful": flops(useful),
        "less": percent(1 - useful / every),
    }
    text = words["prompt_text" if useful < every else "prompt_text_all"]
    items = [(words["prompt"], text.format(**values))]
    if "step" in work.operations:
        one = total(work.operations["step"])
        kind = "step_text" if attention_layers(work.subject.config) else "step_text_state"
        items.append((words["step"], words[kind].format(n=whole(one), brief=flops(one), T=whole(T))))
    return items


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
    config = work.subject.config
    causal = bool(attention_layers(config)) and not config.two_way
    return [
        (words["rule"], words["rule_text"].format(**values)),
        *([(words["kaplan"], words["kaplan_text"].format(**kaplan))] if causal else []),
        (words["training"], words["training_text"].format(**training)),
    ]


def _crossing(words: Words, work: PassWork) -> Item:
    """Describe the context lengths, in closed form, at which attention overtakes the other groups."""
    c, at = work.subject.config, work.crossings
    if not math.isfinite(at["layer"]):
        return words["crossing"], words["crossing_never"]
    if len(kinds(c)) > 1 or c.ssm_beside or c.output_gate or c.two_way or not c.alone:
        values = {"first": _tokens(at["projections"]), "layer": _tokens(at["layer"])}
        return words["crossing"], words["crossing_text_other"].format(**values)
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
    if which not in work.operations:
        return {"empty": {"text": words["no_step"], "hint": words["no_step_hint"]}}
    subject, reading, operations = work.subject, work.readings[which], work.operations[which]
    every = total(operations)
    outside, n = ("head", "head_dense"), subject.config.n_layer
    layer = sum(op.all_products for op in operations if op.key not in outside) // n
    alike = len(kinds(subject.config)) == 1
    elementwise = sum(op.all_elementwise for op in operations)
    rows = [_row(words, op, every, _formulas(subject.config)) for op in operations]
    rows.append([words["total"], "", whole(layer) if alike else NONE, whole(every), percent(1.0), whole(elementwise)])
    values = {"T": whole(work.tokens), "logits": whole(reading.logits)}
    call = f"prompt({work.tokens}, {reading.logits})" if which == "prompt" else f"next_token({work.tokens})"
    lines = [f"ops = operations(config, {call})", f"total(ops), sum(counted(config, {call}).values())"]
    imports = ["from model.anatomy.flops import counted, next_token, operations, prompt, total"]
    return {
        "title": words[f"title_{which}"].format(**values),
        "about": joined([words[_about(subject.config, which)].format(**values), *_sized(words, subject.config)]),
        "columns": [words[key] for key in ("operation", "formula", "layer", "layers", "share", "elementwise")],
        "rows": rows,
        **_check(words, seen.results["counted"], which, every, subject.config),
        "source": derived(subject, seen),
        "file": f"flops-{subject.key}-{which}-{work.tokens}",
        "python": config_python(seen, subject, lines, imports),
    }


def _sized(words: Words, config: ModelConfig) -> list[str]:
    """Return what the formulas mean where layers differ in size."""
    return [] if config.alone else [words["sized"]]


def _about(config: ModelConfig, which: str) -> str:
    """Return the key of the sentence above a table."""
    state = state_mixer(config) in STATE_FORMULAS and state_mixer(config) not in ("mamba", "short_conv")
    return f"about_{which}_chunks" if state and which == "prompt" else f"about_{which}"


def _formulas(config: ModelConfig) -> dict[str, str]:
    """Return the formulas of the products. With experts, K of N process a token; M is the width of each MLP."""
    own = FORMULAS | STATE_FORMULAS.get(state_mixer(config) or "", {})
    own |= {"entry_proj": "2·T·D·L·P", "entry": "4·T·D·P"} if config.d_layer_input else {}
    if config.n_expert == 1:
        return own
    matrices, gate = 3 if config.gated else 2, " + 2·T·D" if config.shared_gate else ""
    experts = {"gate": "2·T·K·D·M", "up": "2·T·K·D·M", "down": "2·T·K·M·D", "router": "2·T·D·N"}
    return own | experts | {"shared": f"{2 * matrices}·T·D·M{gate}", "dense": f"{2 * matrices}·T·D·M"}


def _row(words: Words, op: Operation, every: int, formulas: Mapping[str, str]) -> list:
    """Build the row of one operation.

    Columns: name, formula, FLOPs of one layer, FLOPs of all layers, fraction of the total, and elementwise operations.
    """
    share = op.all_products / every if every else 0.0
    return [
        words[op.key],
        formulas.get(op.key, "0"),
        whole(op.products) if op.layers > 1 and op.products else NONE,
        whole(op.all_products),
        {"text": percent(share), "bar": share} if op.all_products else NONE,
        whole(op.all_elementwise) if op.all_elementwise else NONE,
    ]


def _check(words: Words, counted: dict[str, int] | None, which: str, every: int, config: ModelConfig) -> dict:
    """Compare the total with PyTorch's count for the same forward pass."""
    if config.n_expert > 1:
        text = words["uncounted_experts"].format(k=config.experts_per_token, n=config.n_expert)
        return {"check": text, "same": False}
    if counted is None:
        key = "uncounted" if config.n_layer > COUNTED_LAYERS else "uncounted_steps"
        return {"check": words[key].format(n=COUNTED_LAYERS), "same": False}
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
        prompt and, unless the model reads in both directions, step (one more token): operations (products: FLOPs of the
        matrix products in one layer, times: number of layers, all: FLOPs in all layers, useful: without the masked
        pairs, elementwise: counted separately), total, useful, intensity (FLOPs per byte of weights and cache).
        crossing: context lengths at which scores and mix take as many FLOPs as the projections, and as the rest of the
        layer; null without attention. rules: 2 N and 6 N per token, where N counts either the parameters of the blocks'
        matrices or all parameters.
    """
    settings = {FORM: (architecture, ""), "tokens": tokens, "logits": "every" if every_head else "last", "item": item}
    result = measured(VIEW, "main", unprompted(playground, model), **settings)
    found = {name: result.crossings[name] for name in AGAINST}
    crossings = {name: at if math.isfinite(at) else None for name, at in found.items()}
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
        prompt and step (one more token; null for a model that reads in both directions): parts (component, median
        seconds, flops, rate in FLOPs per second), clocked and plain (median seconds of the whole forward pass with and
        without the clock), flops. threads: number of CPU threads.
    """
    result: Clocked = measured(VIEW, "times", scene, logits="every" if every_head else "last")
    step = None if result.step is None else _forward(result.step)
    return {"prompt": _forward(result.prompt), "step": step, "threads": result.threads}


_MEASURED = {name: Figure(times, (), also=("times",)) for name in ("times_prompt", "times_step")}
_MEASURED |= {name: Table(clock, (), also=("times",)) for name in ("clock_prompt", "clock_step")}
VIEW = View(
    "compute",
    settings=(TOKENS, SHOWN, LOGITS, ITEM),
    needs=("layers",),
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
