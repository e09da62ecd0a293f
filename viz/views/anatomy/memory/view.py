"""Memory of weights, cache, activations, gradients and optimizer state, and the context and batch size that fit."""

import dataclasses
from typing import Annotated

from model.anatomy.footprint import FORMATS, MODES, MOST
from model.anatomy.measured_memory import MOST_TOKENS
from model.api import LanguageModel
from viz.numbers import NONE, decimals, percent, signed_percent, size, whole
from viz.seam.programs.arguments import OneOf, Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, unprompted
from viz.seam.view import Custom, Figure, Job, Measure, Payload, Seen, Table, View
from viz.views.anatomy.memory.figures import COLORS, Band, memory_figure
from viz.views.anatomy.memory.measure import (
    ATTENTION,
    BATCH,
    BUDGETS,
    FORMAT,
    GB,
    ITEMS,
    MODE,
    NUMBER,
    TOKENS,
    Memory,
    cost_of_held,
    measure,
    measure_expected,
    measure_held,
)
from viz.views.anatomy.subject import ASKING, FORM, LOADED, Which, config_python, derived, is_live
from viz.words import Words, joined
from viz.work.playground import Playground

# --- derived ---


def _python(seen: Seen, lines: list[str], names: str) -> str:
    """Build Python code that defines the setting and then runs `lines`.

    `names` are the imports from model.anatomy.footprint.
    """
    memory: Memory = seen.result
    imports = [f"from model.anatomy.footprint import {names}"]
    imports += ["from dataclasses import replace"] if "replace(" in "".join(lines) else []
    return config_python(seen, memory.subject, [f"setting = {memory.setting!r}", *lines], imports)


def figure(seen: Seen) -> Payload:
    """Draw every kind of memory, stacked, as a function of context length."""
    words, names, memory = seen.here, seen.words.within("parts"), seen.result
    setting, x = memory.setting, memory.x
    bands = [Band(key, names[key], memory.curves[key]) for key in COLORS]
    budgets = {f"{gigabytes} GB": gigabytes * GB for gigabytes in BUDGETS}
    label = words["here"].format(n=whole(setting.tokens))
    lines = [f"[parts(config, replace(setting, tokens=T)) for T in {x[:3] + x[-1:]}]"]
    return {
        "figure": memory_figure(x, bands, budgets, setting.tokens, words.plain() | {"here": label}),
        "title": words[f"title_{setting.mode}"].format(batch=setting.batch),
        "note": joined([words[_note(memory)], *_left_out(seen)]),
        "source": derived(memory.subject, seen),
        "file": f"memory-{memory.subject.key}-{setting.mode}",
        "columns": [words["part"], words["size"], words["context"], words["size"]],
        "python": _python(seen, lines, "Setting, parts"),
    }


def _note(memory: Memory) -> str:
    """Return the key of the sentence that says what grows with the context."""
    if memory.setting.mode != "inference" or not memory.left_out:
        return f"note_{memory.setting.mode}"
    if memory.subject.config.two_way:
        return "note_no_cache"
    if not memory.parts["state"]:
        return "note_cache"
    return "note_states" if memory.parts["cache"] else "note_constant"


def _left_out(seen: Seen) -> list[str]:
    """Return the sentence that says that activations are not counted, if they are not."""
    return [seen.words["left_out"]] if seen.result.left_out else []


def _formula(words: Words, key: str, mode: str, alike: bool) -> str:
    """Describe how a kind of memory is computed in this mode; `alike`: whether all layers have the same sizes."""
    if key == "cache" and not alike:
        return words["of_cache_sized"]
    return words.get(f"of_{key}_{mode}") or words[f"of_{key}_{_group(mode)}"]


def _group(mode: str) -> str:
    return "inference" if mode == "inference" else "training"


def table(seen: Seen) -> Payload:
    """Build the table of each kind of memory: its bytes, its fraction of the total, and how it is computed."""
    words, names, memory = seen.here, seen.words.within("parts"), seen.result
    setting, total = memory.setting, sum(memory.parts.values())
    rows = [
        [
            names[key],
            whole(n),
            size(n),
            {"text": percent(n / total), "bar": n / total},
            _formula(words, key, setting.mode, memory.subject.config.alone),
        ]
        for key, n in memory.parts.items()
        if n
    ]
    return {
        "title": words["title"].format(batch=setting.batch, tokens=whole(setting.tokens)),
        "columns": [words[key] for key in ("part", "bytes", "size", "share", "how")],
        "rows": [*rows, [words["total"], whole(total), size(total), percent(1.0), ""]],
        "about": words["about_exact" if memory.left_out else f"about_{_group(setting.mode)}"],
        "source": derived(memory.subject, seen),
        "file": f"memory-{memory.subject.key}-{setting.mode}-parts",
        "python": _python(seen, ["parts(config, setting)"], "Setting, parts"),
    }


def fits(seen: Seen) -> Payload:
    """Build the table of the longest context and the largest batch size for several memory sizes."""
    words, memory = seen.here, seen.result
    setting, n_ctx, rows, beyond = memory.setting, memory.subject.config.n_ctx, [], False
    for gigabytes, (tokens, batch) in memory.fits.items():
        suffix = " *" if n_ctx < tokens < MOST else ""
        beyond = beyond or bool(suffix)
        shown = words["any"] if tokens >= MOST else f"{whole(tokens)}{suffix}" if tokens else words["none"]
        batches = words["any"] if batch >= MOST else whole(batch) if batch else words["none"]
        rows.append([f"{gigabytes} GB", shown, batches])
    values = {"batch": setting.batch, "tokens": whole(setting.tokens), "size": size(memory.smallest)}
    star = words["star"].format(n=whole(n_ctx))
    lines = [f"[largest(config, setting, size * 10**9) for size in {BUDGETS}]"]
    return {
        "title": words["title"],
        "columns": [words["memory"], words["context"].format(**values), words["batch"].format(**values)],
        "rows": rows,
        "about": joined([words["about"].format(**values), *_left_out(seen)]),
        "note": star,
        "check": star if beyond else "",
        "same": False,
        "source": derived(memory.subject, seen),
        "file": f"memory-{memory.subject.key}-{setting.mode}-fits",
        "python": _python(seen, lines, "Setting, largest"),
    }


def formats(seen: Seen) -> Payload:
    """Build the table of the weights' size in each number format."""
    words, memory = seen.here, seen.result
    full, subject = memory.formats["float32"], memory.subject
    rows = [
        [
            words[form],
            decimals(32 * n / full),
            whole(n),
            size(n),
            {"text": percent(n / full), "bar": n / full},
            words[f"of_{form}"],
        ]
        for form, n in memory.formats.items()
    ]
    lines = ["{form: weights_bytes(config, form) for form in FORMATS}"]
    imports = ["from model.anatomy.footprint import FORMATS, weights_bytes"]
    return {
        "title": words["title"],
        "columns": [words[key] for key in ("form", "bits", "bytes", "size", "share", "how")],
        "rows": rows,
        "about": words["about"],
        "source": derived(subject, seen),
        "file": f"memory-{subject.key}-formats",
        "python": config_python(seen, subject, lines, imports),
    }


def facts(seen: Seen) -> Payload:
    """List rules of thumb beside the exact numbers: bytes per parameter and cached token, and published formulas."""
    words, memory = seen.here, seen.result
    setting, rules, c = memory.setting, memory.rules, memory.subject.config
    values = {
        "token": {
            "size": size(rules.token),
            "item": setting.item,
            "G": c.n_kv_head,
            "H": c.n_head,
            "every": size(rules.every),
        },
        "adam": {"n": whole(rules.adam), "size": size(rules.adam), "count": whole(rules.tensors)},
        "mixed": {"size": size(16 * rules.params), "N": whole(rules.params)},
    }
    if rules.fused is not None:
        values["kept"] = {
            "batch": setting.batch,
            "tokens": whole(setting.tokens),
            "fused": size(rules.fused),
            "explicit": size(rules.explicit),
        }
    if not rules.token:
        del values["token"]
    if rules.state:
        values = {"state": {"size": size(rules.state), "item": setting.item}} | values
    items = [[words[key], words[f"{key}_text"].format(**each)] for key, each in values.items()]
    text = words["published_other"]
    if rules.published:
        full, part = map(size, rules.published)
        text = words["published_text"].format(full=full, part=part, ours=size(rules.explicit))
    return {"title": words["title"], "items": [*items, [words["published"], text]]}


# --- measured ---


def hint(seen: Seen) -> Payload:
    """Build the text beside the button that starts the measurement."""
    if not is_live(seen.settings):
        return {"unready": True, "text": seen.words["not_here"]}
    return {"text": seen.here["hint"].format(n=MOST_TOKENS)}


def held(seen: Seen) -> Payload:
    """Build the table of measured bytes beside computed bytes.

    The values of weights and cache are known at once, those of activations only after the measurement.
    """
    words, expected, result = seen.here, seen.result, seen.results["held"]
    if not is_live(seen.settings):
        return {"empty": {"text": seen.words.within("job")["start"], "hint": seen.words["not_here"]}}
    shown = {key: getattr(result, key) for key in expected.derived} if result else expected.readable
    rows = [
        [words[key], *(NONE if each is None else whole(each) for each in (n, shown[key])), _difference(n, shown[key])]
        for key, n in expected.derived.items()
    ]
    pairs = [(n, shown[key]) for key, n in expected.derived.items() if None not in (n, shown[key])]
    same = all(n == other for n, other in pairs)
    return {
        "title": words["title"].format(T=whole(expected.tokens)),
        "about": words["about" if result else "about_before"],
        "columns": [words[key] for key in ("what", "derived", "measured", "apart")],
        "rows": rows,
        "check": words["same" if same else "differ"].format(n=len(pairs)),
        "same": same,
        "file": "memory-measured",
    }


def _difference(derived_bytes: int | None, measured_bytes: int | None) -> str:
    """Format the measured minus the computed bytes, also relative to the computed ones."""
    if derived_bytes is None or measured_bytes is None:
        return NONE
    if derived_bytes == measured_bytes:
        return whole(0)
    difference = measured_bytes - derived_bytes
    return f"{'+' if difference > 0 else ''}{whole(difference)} ({signed_percent(difference / derived_bytes)})"


# --- for programs ---


def memory(
    playground: Playground,
    model: LanguageModel,
    architecture: Which = LOADED,
    mode: Annotated[str, OneOf(MODES)] = "inference",
    weights: Annotated[str, OneOf(tuple(FORMATS))] = "float32",
    tokens: Annotated[int, Within(1, TOKENS.high)] = 1024,
    batch: Annotated[int, Within(1, BATCH.high)] = 1,
    item: Annotated[str, OneOf(tuple(ITEMS))] = "float32",
    explicit_attention: bool = False,
) -> dict:
    """Compute the bytes of weights, cache, activations, gradients and optimizer state, and what fits into memory.

    Args:
        architecture: loaded (the model), or a well-known architecture.
        mode: inference, or training with AdamW: adamw (all float32) or mixed (16 bytes per parameter).
        weights: Number format of the weights, for inference.
        tokens: Context length.
        batch: Batch size.
        item: Number format of cache and activations, for inference.
        explicit_attention: Whether the attention matrices are computed explicitly, and saved in training.

    Returns:
        parts (bytes of each; activations are 0 for a model with windows, other rules for scores, mixers with a state,
        or experts, for which they are not counted) and their total. formats: bytes of the weights in each number
        format. fits: for 8, 16, 24 and 80 GB, the longest context at this batch size and the largest batch size at this
        context length; 0 if nothing fits, and 2^32 if what is counted does not grow with it. setting: the workload.
        parameters: number of parameters.
    """
    attention = ATTENTION.options[explicit_attention]
    settings = {"mode": mode, "form": weights, "tokens": tokens, "batch": batch, "item": item, "attention": attention}
    result: Memory = measured(VIEW, "main", unprompted(playground, model), **{FORM: (architecture, ""), **settings})
    rows = [
        {"gigabytes": each, "context": longest, "batch": largest} for each, (longest, largest) in result.fits.items()
    ]
    return {
        "setting": dataclasses.asdict(result.setting),
        "parts": result.parts,
        "total": sum(result.parts.values()),
        "formats": result.formats,
        "fits": rows,
        "parameters": result.rules.params,
    }


_SETTINGS = (MODE, FORMAT, NUMBER, BATCH, TOKENS, ATTENTION)
VIEW = View(
    "memory",
    settings=_SETTINGS,
    needs=("layers",),
    measures=(
        Measure("main", measure, ("model",), (FORM, *(each.name for each in _SETTINGS)), locks=False),
        Measure("expected", measure_expected, ("plain",), locks=False),
        Measure("held", measure_held, ("plain",), slow=True, cost=cost_of_held),
    ),
    layout=(FORM, "form", ("figure", ("table", "fits")), ("formats", "facts"), "job", "held"),
    parts={
        FORM: ASKING,
        "figure": Figure(figure),
        "table": Table(table),
        "fits": Table(fits),
        "formats": Table(formats),
        "facts": Custom("normfacts", facts),
        "job": Job("held", hint, settings=(FORM,)),
        "held": Table(held, "expected", also=("held",), settings=(FORM,)),
    },
    api=(Endpoint(memory, reads="model", kind="computed"),),
)
