"""Effects over a prompt set: the mean effect of every head or place, with intervals, tests and a random control."""

from collections.abc import Mapping
from typing import Annotated

import numpy as np

from model.api import LanguageModel
from model.sets.aligned import AlignedPair, AlignedSet
from model.sets.effects import CALIBRATED, EFFECTS, METRICS
from model.sets.statistics import bootstrap
from viz.labels import quoted, visible
from viz.numbers import decimals, number, percent, signed, whole
from viz.seam.programs.arguments import Long, OneOf, Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, unprompted
from viz.seam.python_lines import model_script
from viz.seam.scene import Scene
from viz.seam.view import Asking, Figure, Job, Payload, Seen, Table, View
from viz.views.effects.prompt_set.figures import Row, cell_figure, map_figure
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
from viz.words import joined
from viz.work.playground import Playground

LISTED = 8  # strongest cells, and pairs shown as examples
_KV = ("k", "v")


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
        if layer < seen.facts.config.n_layer and column < result.columns:
            return layer * result.columns + column
    return result.strongest


def _place(seen: Seen, cell: int) -> str:
    """Name a cell: a head, a KV head with the heads that read it, or a layer and a token."""
    result: SetResult = seen.results["set"]
    layer, column = divmod(cell, result.columns)
    if result.effects.by_position:
        return seen.words["place_token"].format(layer=layer, position=column, token=quoted(_tokens(seen)[column]))
    if seen.settings.effect in _KV:
        heads = seen.facts.config.n_head // result.columns
        first, last = column * heads, (column + 1) * heads - 1
        key = "place_kv" if heads > 1 else "place_head"
        return seen.words[key].format(layer=layer, head=column, first=first, last=last)
    return seen.words["place_head"].format(layer=layer, head=column)


def _scored(seen: Seen) -> list[AlignedPair]:
    """Return the pairs on which the effect was measured."""
    pairs: AlignedSet = seen.results["pairs"]
    return [pairs.pairs[at] for at in seen.results["set"].effects.numbers]


def _tokens(seen: Seen) -> list[str]:
    """Return the token at each position: that of the first pair, with an ellipsis where pairs differ."""
    rows = list(zip(*(pair.clean for pair in _scored(seen)), strict=True))
    return [seen.facts.piece(row[0]) + ("…" if len(set(row)) > 1 else "") for row in rows]


def _unit(seen: Seen) -> str:
    return seen.words[f"unit_{seen.settings.measured}"]


def job(seen: Seen) -> Payload:
    """Say how many pairs are scored, kept for calibration and left out."""
    pairs: AlignedSet = seen.results["pairs"]
    words, n = seen.here, len(pairs.pairs)
    text = words["pairs"].format(n=whole(n), left=whole(len(pairs.left_out)))
    if n < LEAST:
        return {"unready": True, "text": joined([text, words["few"].format(n=LEAST)])}
    if seen.settings.effect in CALIBRATED:
        text = joined([text, words["calibration"].format(n=whole(len(pairs.calibration)))])
    return {"text": text}


def effect_map(seen: Seen) -> Payload:
    """Draw the mean effect of every cell, with a dot where the corrected p is below LEVEL."""
    result: SetResult = seen.results["set"]
    words, stats, effect = seen.here, result.statistics, seen.settings.effect
    shape = seen.facts.config.n_layer, result.columns
    hovers = [f"{_place(seen, cell)}<br>{_said(seen, cell)}" for cell in range(stats.mean.size)]
    column = "position" if result.effects.by_position else "kv_head" if effect in _KV else "head"
    labels = {"layer": words["layer"], "column": words[column], "value": words["value"].format(unit=_unit(seen))}
    marked = stats.corrected < LEVEL
    names = _tokens(seen) if result.effects.by_position else None
    grid = map_figure(
        stats.mean.reshape(shape),
        marked.reshape(shape),
        np.array(hovers).reshape(shape),
        names,
        labels | {"marked": words["marked"]},
    )
    notes = [words["able" if result.able else "unable"].format(**_ends(seen, result))]
    if effect in _KV and seen.facts.config.n_head > result.columns:
        notes.append(words["shared"])
    return {
        "figure": grid,
        "title": words["title"].format(
            effect=seen.words[f"settings.effect_{effect}"], n=whole(stats.n), count=whole(int(marked.sum()))
        ),
        "note": joined(notes),
        "source": _source(seen),
        "cells": effect,
        "file": f"set-{effect}",
        "columns": [words["layer"], words[column], labels["value"]],
        "python": _lines(seen),
    }


def _ends(seen: Seen, result: SetResult) -> dict[str, str]:
    """Return the values for the sentence about the model's ability."""
    mean, low, high = (decimals(end) for end in result.gap)
    return {"right": percent(result.right), "gap": mean, "low": low, "high": high, "unit": _unit(seen)}


def _said(seen: Seen, cell: int) -> str:
    """Format the statistics of a cell on one line."""
    stats = seen.results["set"].statistics
    values = {"mean": signed(stats.mean[cell]), "low": signed(stats.low[cell]), "high": signed(stats.high[cell])}
    values |= {"p": decimals(stats.p[cell], 4), "corrected": decimals(stats.corrected[cell], 4)}
    return seen.words["said"].format(**values, n=whole(stats.mean.size))


def _source(seen: Seen) -> str:
    pairs: AlignedSet = seen.results["pairs"]
    facts, used = seen.facts, len(seen.results["set"].effects.numbers)
    return seen.words["source"].format(
        model=facts.label, dtype=facts.dtype, n=whole(used), other=whole(len(pairs.pairs) - used + len(pairs.left_out))
    )


def cell(seen: Seen) -> Payload:
    """Draw every example's effect in the picked cell, beside the random control."""
    result: SetResult = seen.results["set"]
    at, words = _picked(seen), seen.here
    control = result.control(at)
    low, high = (float(end[0]) for end in bootstrap(control[:, None]))
    stats = result.statistics
    by_position = result.effects.by_position
    rows = [
        Row(_place(seen, at), result.values[:, at], stats.mean[at], stats.low[at], stats.high[at]),
        Row(words["random_vector" if by_position else "random_head"], control, float(control.mean()), low, high),
    ]
    hovers = [f"{visible(each.pair.clean)} → {each.pair.target.strip()}" for each in _scored(seen)]
    values = {"mean": signed(float(control.mean())), "low": signed(low), "high": signed(high)}
    return {
        "figure": cell_figure(rows, hovers, {"value": words["value"].format(unit=_unit(seen)), "mean": words["mean"]}),
        "title": words["title"].format(place=_place(seen, at), n=whole(stats.n)),
        "note": joined([_said(seen, at), words["control"].format(**values)]),
        "source": _source(seen),
        "file": f"set-{seen.settings.effect}-cell",
        "columns": [words["series"], words["value"].format(unit=_unit(seen)), words["spread"]],
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
        rows.append([_place(seen, at), signed(stats.mean[at]), ends, *tests, signed(float(result.control(at).mean()))])
    cells = [f"{at // result.columns}.{at % result.columns}" for at in range(stats.mean.size)]
    examples = [
        [pair.pair.clean, pair.pair.target, *(number(end, 5) for end in ends), *(f"{value:.5g}" for value in row)]
        for pair, row, *ends in zip(
            _scored(seen), result.values.tolist(), result.effects.clean, result.effects.corrupt, strict=True
        )
    ]
    names = ("cell", "mean", "interval", "p", "corrected", "control")
    return {
        "title": words["title"],
        "columns": [words[name] for name in names],
        "rows": rows,
        "note": words["note"].format(n=whole(stats.mean.size), flips=whole(stats.flips)),
        "names": [words[name] for name in ("clean", "target", "clean_metric", "corrupt_metric")] + cells,
        "lines": examples,
        "source": _source(seen),
        "file": f"set-{seen.settings.effect}-examples",
        "python": _lines(seen, "statistics(effects.values.reshape(len(effects.values), -1))"),
    }


def pairs_table(seen: Seen) -> Payload:
    """Build the table of the pairs: those left out with the reason, and the first scored ones."""
    words, pairs = seen.here, seen.results["pairs"]
    out = [[_row(each.pair), _reason(seen, each.reason, each.got)] for each in pairs.left_out]
    scored = [[_row(each.pair), words["scored"]] for each in pairs.pairs]
    kept = [[_row(each.pair), words["calibration"]] for each in pairs.calibration]
    shown = [[*texts, state] for texts, state in (*out[:LISTED], *scored[: LISTED if not out else LISTED // 2])]
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
            a head's output z or its q, k or v, or the vector resid_pre, attn_out or mlp_out of one layer and position.
        measure: difference (logit of the target minus that of the distractor) or probability of the target.
        pairs: Number of scored pairs; a large model takes seconds per pair.
        own: Templates with slots, or lines of CSV or JSON with clean, corrupt, target and distractor; empty for a
            built-in set.
        first_token: Take the first token of answers of several tokens instead of leaving the pair out.

    Returns:
        pairs: records of the scored pairs with clean, corrupt, target, distractor and the measure of both prompts;
        left_out: the other pairs with the reason; able: whether the model does the task; values: each pair's effect by
        layer and column (of ablations: original minus ablated); mean, low, high (95% bootstrap interval), p (sign
        flips) and corrected (p corrected for all columns, max-T), by layer and column; control: the mean effect of the
        random control.
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
