"""Effects over a prompt set: the mean effect of every head or place, with intervals, tests and a random control."""

import math
from collections.abc import Mapping
from typing import Annotated

import numpy as np

from model.api import LanguageModel
from model.sets.aligned import AlignedSet
from model.sets.effects import CALIBRATED, EFFECTS, METRICS, set_cost, usable
from model.sets.statistics import TESTABLE, bootstrap
from viz.labels import visible
from viz.numbers import decimals, percent, plain, signed, whole
from viz.seam.jobs.at_once import estimate
from viz.seam.programs.arguments import Long, OneOf, Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, unprompted
from viz.seam.python_lines import model_script
from viz.seam.scene import Scene
from viz.seam.view import Asking, Figure, Job, Payload, Seen, Table, View
from viz.views.effects.prompt_set.figures import Row, cell_figure, map_figure, profile_figure
from viz.views.effects.prompt_set.measure import (
    CALIBRATION,
    CHOICES,
    LEAST,
    LEVEL,
    MOST,
    MOST_SEED,
    OWN,
    PAIRS,
    SET,
    SETTINGS,
    USUAL,
    SetResult,
)
from viz.views.effects.prompt_set.texts import (
    columns_of,
    counts_said,
    marks_said,
    place_of,
    random_name,
    scored,
    source_of,
    statistics_said,
    unit_of,
    value_name,
)
from viz.words import joined
from viz.work.playground import Playground

LISTED = 8  # strongest cells, and pairs shown as examples
SHORT = 160  # characters of a prompt in the table; the export has all
STATISTICS = ("mean", "low", "high", "p", "corrected")  # fields that the export has for each cell


def read_cell(value: object, scene: Scene) -> tuple[str, int, int] | None:
    """Return the picked cell as (the map it is of, layer, column); None if the page's value is not one."""
    fields = value if isinstance(value, Mapping) else {}
    cell = fields.get("cell")
    if not isinstance(cell, list) or len(cell) != 2 or not all(type(each) is int and 0 <= each < 4096 for each in cell):
        return None
    return str(fields.get("of", ""))[:40], cell[0], cell[1]


def _picked(seen: Seen) -> int:
    """Return the picked cell as a column of `values`; the strongest one by default."""
    result: SetResult = seen.results["set"]
    picked = seen.settings.map
    if picked is not None and picked[0] == seen.settings.effect:
        _, layer, column = picked
        if layer * result.columns + column < result.statistics.mean.size and column < result.columns:
            return layer * result.columns + column
    return result.strongest


def job(seen: Seen) -> Payload:
    """Say how many pairs are scored, kept for calibration and left out, and how long the job is expected to take."""
    pairs: AlignedSet = seen.results["pairs"]
    words, effect, config = seen.here, seen.settings.effect, seen.facts.config
    if effect in CALIBRATED and not pairs.calibration:
        counts = counts_said(seen, pairs, range(len(pairs.pairs)))
        return {"unready": True, "text": joined([counts, words["none_kept"]])}
    numbers = usable(pairs.pairs, effect, pairs.calibration)
    text = counts_said(seen, pairs, numbers)
    if not numbers:
        return {"unready": True, "text": joined([text, words["none"]])}
    others = [len(each.clean) for each in pairs.calibration] if effect in CALIBRATED else []
    cost = set_cost(config, effect, [len(pairs.pairs[at].clean) for at in numbers], others)
    seconds = estimate(*cost, config.n_layer, seen.facts.n_params)
    few = marks_said(seen, len(numbers)) if len(numbers) < TESTABLE else ""
    return {"text": joined([text, few, words["estimate"].format(seconds=whole(math.ceil(seconds)))])}


def effect_map(seen: Seen) -> Payload:
    """Draw the mean effect of every cell, with a dot where the corrected p is below LEVEL."""
    result: SetResult = seen.results["set"]
    words, stats, effect = seen.here, result.statistics, result.effects.effect
    shape = result.effects.values.shape[1:]
    hovers = [f"{place_of(seen, cell)}<br>{statistics_said(seen, cell)}" for cell in range(stats.mean.size)]
    column, names = columns_of(seen)
    labels = {"layer": words["layer"], "column": column, "value": value_name(seen), "marked": words["marked"]}
    marked = stats.corrected < LEVEL
    if 1 in shape:  # a lens by depth, or tokens
        labels |= {"control": words["control"], "each": words["each"], "mean": words["mean"], "end": words["end"]}
        random = np.array([result.control(cell).mean() for cell in range(stats.mean.size)])
        depths = shape[1] == 1
        labels["column"] = words["depth"] if depths else column
        drawn = profile_figure(result.values, stats, random, marked, hovers, names, labels, by_row=depths)
    else:
        drawn = map_figure(stats.mean.reshape(shape), marked.reshape(shape), hovers, names, labels)
    notes = [words["able" if result.able else "unable"].format(**_ends(seen, result))]
    if result.able or stats.n < TESTABLE:
        notes.append(marks_said(seen, stats.n, filled=1 in shape))
    if result.effects.rough:
        notes.append(words["rough"].format(n=whole(result.effects.rough)))
    title = words["title" if stats.n > 1 else "title_one"].format(
        effect=seen.words[f"settings.effect_{effect}"], n=whole(stats.n), count=whole(int(marked.sum()))
    )
    return {
        "figure": drawn,
        "title": title,
        "note": joined(notes),
        "source": source_of(seen),
        "cells": effect,
        "file": f"set-{effect}",
        "columns": [words["layer"], column or words["column"], labels["value"]],
        "python": _lines(seen),
    }


def _ends(seen: Seen, result: SetResult) -> dict[str, str]:
    """Return the values for the sentence about the model's ability."""
    mean, low, high = (decimals(end) for end in result.gap)
    return {"right": percent(result.right), "gap": mean, "low": low, "high": high, "unit": unit_of(seen)}


def cell(seen: Seen) -> Payload:
    """Draw every example's effect in the picked cell, beside the random control."""
    result: SetResult = seen.results["set"]
    at, words, stats = _picked(seen), seen.here, result.statistics
    control = result.control(at)
    low, high = (float(end[0]) for end in bootstrap(control[:, None]))
    rows = [
        Row(place_of(seen, at), result.values[:, at], stats.mean[at], stats.low[at], stats.high[at]),
        Row(random_name(seen), control, float(control.mean()), low, high),
    ]
    hovers = [f"{visible(each.pair.clean)} → {each.pair.target.strip()}" for each in scored(seen)]
    values = {"mean": signed(float(control.mean())), "low": signed(low), "high": signed(high)}
    said = words["control_one" if stats.n == 1 else "control"].format(**values)
    return {
        "figure": cell_figure(rows, hovers, {"value": value_name(seen), "mean": words["mean"]}),
        "title": words["title" if stats.n > 1 else "title_one"].format(place=place_of(seen, at), n=whole(stats.n)),
        "note": joined([statistics_said(seen, at), said]),
        "source": source_of(seen),
        "file": f"set-{result.effects.effect}-cell",
        "columns": [words["series"], value_name(seen), words["spread"]],
        "python": _lines(seen, f"effects.values[:, {at // result.columns}, {at % result.columns}]  # one per pair"),
    }


def strongest(seen: Seen) -> Payload:
    """Build the table of the strongest cells; its export has each example's effect in every cell."""
    result: SetResult = seen.results["set"]
    words, stats = seen.here, result.statistics
    rows = []
    for at in np.argsort(-np.abs(stats.mean), kind="stable")[:LISTED].tolist():
        ends = f"[{signed(stats.low[at])}, {signed(stats.high[at])}]"
        tests = [decimals(stats.p[at], 4), decimals(stats.corrected[at], 4)]
        rows.append(
            [place_of(seen, at), signed(stats.mean[at]), ends, *tests, signed(float(result.control(at).mean()))]
        )
    cells = [f"{at // result.columns}.{at % result.columns}" for at in range(stats.mean.size)]
    ends = zip(result.effects.clean.tolist(), result.effects.corrupt.tolist(), strict=True)
    examples = [
        [*vars(pair.pair).values(), *map(plain, (*ends_, *row))]
        for pair, ends_, row in zip(scored(seen), ends, result.values.tolist(), strict=True)
    ]
    names = ("cell", "mean", "interval", "p", "corrected", "control")
    note = words["note"].format(n=whole(stats.mean.size), flips=whole(stats.flips))
    kept = len(seen.results["pairs"].calibration)
    if result.effects.effect in CALIBRATED:
        note = joined([note, words[f"kept_{result.effects.effect}"].format(n=whole(kept))])
    columns = [words[name] for name in ("clean", "corrupt", "target", "distractor", "clean_metric", "corrupt_metric")]
    facts = {"effect": result.effects.effect, "metric": result.effects.metric, "comparisons": stats.mean.size}
    per_cell = {name: [plain(float(each)) for each in getattr(stats, name)] for name in STATISTICS}
    return {
        "title": words["title"],
        "columns": [words[name] for name in names],
        "rows": rows,
        "note": note,
        "names": columns + cells,
        "lines": examples,
        "json": facts | {"cells": cells, **per_cell},
        "source": source_of(seen),
        "file": f"set-{result.effects.effect}-examples",
        "python": _lines(seen, "statistics(effects.values.reshape(len(effects.values), -1))"),
    }


def pairs_table(seen: Seen) -> Payload:
    """Build the table of the pairs: those left out with the reason, and the first scored ones."""
    words, pairs = seen.here, seen.results["pairs"]
    out = [[_row(each.pair), _reason(seen, each.reason, each.got)] for each in pairs.left_out]
    scored = [[_row(each.pair), words["scored"]] for each in pairs.pairs]
    kept = [[_row(each.pair), words["calibration"]] for each in pairs.calibration]
    shown = [
        [*map(_short, texts), state] for texts, state in (*out[:LISTED], *scored[: LISTED if not out else LISTED // 2])
    ]
    values = {"n": whole(len(scored)), "kept": whole(len(kept)), "left": whole(len(out))}
    return {
        "title": words["title"].format(**values),
        "columns": [words[name] for name in ("clean", "corrupt", "target", "distractor", "state")],
        "rows": shown,
        "note": words["note"],
        "lines": [[*texts, state] for texts, state in (*scored, *kept, *out)],
        "file": "prompt-set",
        "python": model_script(seen.facts, [_set_line(seen), "pairs.pairs"], [_SET_IMPORT]),
    }


def _row(pair) -> list[str]:
    return [visible(pair.clean), visible(pair.corrupt), visible(pair.target), visible(pair.distractor)]


def _short(text: str) -> str:
    return text if len(text) <= SHORT else f"{text[:SHORT]}…"


def _reason(seen: Seen, reason: str, got: str) -> str:
    return seen.words[f"reason.{reason}"].format(got=visible(got))


_SET_IMPORT = "from model.sets.aligned import prompt_set"


def _set_line(seen: Seen) -> str:
    """Write the line that builds the set."""
    s = seen.settings
    more = ", first_token=True" if s.set == OWN and s.first_token else ""
    source = s.own if s.set == OWN else s.set
    return f"pairs = prompt_set(lm, {source!r}, {s.n}, calibration={CALIBRATION}, seed={s.seed}{more})"


def _lines(seen: Seen, last: str = "effects.values.mean(0)  # [layer, column]") -> str:
    """Write the Python lines that measure the effects, followed by `last`."""
    s = seen.settings
    call = f"effects = set_effects(lm, pairs.pairs, {s.effect!r}, calibration=pairs.calibration"
    lines = [_set_line(seen), f"{call}, measured={s.measured!r}, seed={s.seed})", last]
    imports = [_SET_IMPORT, "from model.sets.effects import set_effects"]
    if last.startswith("statistics("):
        imports.append("from model.sets.statistics import statistics")
    return model_script(seen.facts, lines, imports)


# --- for programs ---


def prompt_set_effects(
    playground: Playground,
    model: LanguageModel,
    set: Annotated[str, OneOf(CHOICES)] = "again",
    effect: Annotated[str, OneOf(EFFECTS)] = "zero",
    measure: Annotated[str, OneOf(METRICS)] = "difference",
    pairs: Annotated[int, Within(LEAST, MOST)] = USUAL,
    own: Annotated[str, Long()] = "",
    first_token: bool = False,
    seed: Annotated[int, Within(0, MOST_SEED)] = 0,
) -> dict:
    """Measure the effect of every head, or of every layer and position, over a set of prompt pairs.

    Args:
        set: A built-in set, or own for the text of `own`.
        effect: Switching heads off in the clean prompts (zero, mean, resample), or patching from clean into corrupt:
            a head's output z or its q, k or v, or the vector resid_pre, attn_out or mlp_out of one layer and position;
            reading the clean prompts: lens by layer, or the parts of the logit difference by head (direct_heads), by
            attention and MLP (direct_layers) or by token (slots, integrated gradients); or steer: adding the mean
            difference of pairs that are not scored to the corrupt prompts, by layer and factor.
        measure: difference (logit of the target minus that of the distractor) or probability of the target, which
            attribution has not.
        pairs: Number of scored pairs; a large model takes seconds per pair.
        own: Templates with slots, or lines of CSV or JSON with clean, corrupt, target and distractor; empty for a
            built-in set.
        first_token: Take the first token of answers of several tokens instead of leaving the pair out.

    Returns:
        pairs: records of the scored pairs with clean, corrupt, target, distractor and the measure of both prompts;
        left_out: the other pairs with the reason; able: whether the model does the task; values: each pair's effect by
        layer and column (of ablations: original minus ablated); mean, low, high (95% bootstrap interval), p (sign
        flips) and corrected (p corrected for all columns, max-T), by layer and column; control: the mean effect of the
        random control; strongest: records of the cells with the largest absolute means, with layer, column and these.
    """
    settings = {"set": set, "effect": effect, "measured": measure, "n": pairs, "own": own, "first_token": first_token}
    scene = unprompted(playground, model)
    found: AlignedSet = measured(VIEW, "pairs", scene, **settings, seed=seed)
    result: SetResult = measured(VIEW, "set", scene, **settings, seed=seed)
    stats, shape = result.statistics, result.effects.values.shape[1:]
    control = np.array([result.control(at).mean() for at in range(stats.mean.size)])
    columns = {"mean": stats.mean, "low": stats.low, "high": stats.high, "p": stats.p, "corrected": stats.corrected}
    used = [found.pairs[at].pair for at in result.effects.numbers]
    ends = zip(used, result.effects.clean, result.effects.corrupt, strict=True)
    return {
        "pairs": [vars(pair) | {"measure_clean": float(a), "measure_corrupt": float(b)} for pair, a, b in ends],
        "left_out": [vars(each.pair) | {"reason": each.reason, "got": each.got} for each in found.left_out],
        "able": result.able,
        "values": result.values.reshape(-1, *shape),
        **{name: values.reshape(shape) for name, values in columns.items()},
        "control": control.reshape(shape),
        "strongest": [
            {"layer": at // shape[1], "column": at % shape[1], "control": control[at]}
            | {name: values[at] for name, values in columns.items()}
            for at in np.argsort(-np.abs(stats.mean), kind="stable")[:LISTED].tolist()
        ],
    }


VIEW = View(
    "prompt_set",
    settings=SETTINGS,
    form_depends=("model",),
    measures=(PAIRS, SET),
    layout=("form", "job", ("map", "cell"), "strongest", "pairs"),
    parts={
        "job": Job("set", job, also=("pairs",), settings=("effect",)),
        "map": Asking("figure", read_cell, effect_map, of=("set", "pairs"), settings=("effect", "measured")),
        "cell": Figure(cell, of=("set", "pairs"), settings=("map", "effect", "measured")),
        "strongest": Table(strongest, of=("set", "pairs"), settings=("effect", "measured")),
        "pairs": Table(pairs_table, of="pairs", settings=()),
    },
    api=(Endpoint(prompt_set_effects, reads="model", long=True),),
)
