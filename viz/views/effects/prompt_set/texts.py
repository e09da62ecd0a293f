"""Sentences of the prompt set's parts: names of cells and columns, statistics of a cell, pairs left out, the source."""

from collections import Counter
from collections.abc import Sequence
from functools import reduce

from model.sets.aligned import AlignedPair, AlignedSet
from model.sets.effects import BY_POSITION, CALIBRATED
from model.sets.readings import ATTRIBUTIONS, PARTS
from model.sets.statistics import TESTABLE, least_p
from model.sets.steered import FACTORS
from viz.labels import quoted
from viz.numbers import decimals, number, signed, whole
from viz.seam.view import Seen
from viz.views.effects.prompt_set.measure import SetResult
from viz.words import joined

_KV = ("k", "v")
_VALUES = {"lens": "value_lens"} | dict.fromkeys(ATTRIBUTIONS, "value_part")
_COLUMNS = {"direct_layers": "part", "steer": "factor", "k": "kv_head", "v": "kv_head"}
_RANDOM = {"lens": "random_answers", "direct_layers": "random_part", "slots": "random_token", "steer": "random_vector"}


def scored(seen: Seen) -> list[AlignedPair]:
    """Return the pairs on which the effect was measured."""
    pairs: AlignedSet = seen.results["pairs"]
    return [pairs.pairs[at] for at in seen.results["set"].effects.numbers]


def tokens_of(seen: Seen) -> list[str]:
    """Return the token at each position: that of the first pair, with an ellipsis where pairs differ."""
    rows = list(zip(*(pair.clean for pair in scored(seen)), strict=True))
    return [seen.facts.piece(row[0]) + ("…" if len(set(row)) > 1 else "") for row in rows]


def place_of(seen: Seen, cell: int) -> str:
    """Name a cell: a head, a KV head with the heads that read it, a layer and a token, a part, a factor, or a depth."""
    result: SetResult = seen.results["set"]
    effect, (layer, column) = result.effects.effect, divmod(cell, result.columns)
    if effect == "slots":
        return seen.words["place_slot"].format(position=column, token=quoted(tokens_of(seen)[column]))
    if effect in BY_POSITION:
        return seen.words["place_token"].format(layer=layer, position=column, token=quoted(tokens_of(seen)[column]))
    if effect == "lens":
        last = layer == seen.facts.config.n_layer
        return seen.words["place_end" if last else "place_depth"].format(layer=layer)
    if effect == "direct_layers":
        return seen.words[f"place_{PARTS[column]}"].format(layer=layer)
    if effect == "steer":
        return seen.words["place_factor"].format(layer=layer, factor=number(FACTORS[column]))
    group = _group(seen, effect)
    if group > 1:
        first, last = column * group, (column + 1) * group - 1
        return seen.words["place_kv"].format(layer=layer, head=column, first=first, last=last)
    return seen.words["place_head"].format(layer=layer, head=column)


def _group(seen: Seen, effect: str) -> int:
    """Return how many heads share a column."""
    return seen.facts.config.group_size if effect in _KV else 1


def columns_of(seen: Seen) -> tuple[str, list[str] | None]:
    """Return the title of the columns' axis and their names; None for heads, which are numbered."""
    words, effect = seen.words.within("map"), seen.results["set"].effects.effect
    group = _group(seen, effect)
    if effect in BY_POSITION:
        return words["position"], tokens_of(seen)
    if effect == "steer":
        return words["factor"], [f"× {number(factor)}" for factor in FACTORS]
    if effect == "direct_layers":
        return "", [words[part] for part in PARTS]
    if group > 1:
        count = seen.facts.config.n_head // group
        return words["kv_head"], [f"{at} ({at * group}–{(at + 1) * group - 1})" for at in range(count)]
    return words["head"], None


def random_name(seen: Seen) -> str:
    """Name the control of the effect."""
    effects = seen.results["set"].effects
    by_vector = effects.effect in BY_POSITION and effects.control is not None
    key = "random_vector" if by_vector else _RANDOM.get(effects.effect, "random_head")
    return seen.words.within("cell")[key]


def value_name(seen: Seen) -> str:
    """Name the measured value with its unit."""
    return seen.words[_VALUES.get(seen.results["set"].effects.effect, "value")].format(unit=unit_of(seen))


def unit_of(seen: Seen) -> str:
    """Return the unit of the effect's metric."""
    return seen.words[f"unit_{seen.results['set'].effects.metric}"]


def statistics_said(seen: Seen, cell: int) -> str:
    """Format the statistics of a cell on one line."""
    stats = seen.results["set"].statistics
    mean = signed(stats.mean[cell])
    if stats.n == 1:
        return seen.words["said_one"].format(mean=mean)
    values = {"low": signed(stats.low[cell]), "high": signed(stats.high[cell])}
    values |= {"p": decimals(stats.p[cell], 4), "corrected": decimals(stats.corrected[cell], 4)}
    return seen.words["said"].format(mean=mean, **values, n=whole(stats.mean.size))


def marks_said(seen: Seen, n: int, *, filled: bool = False) -> str:
    """Say how a significant cell is marked or, with too few pairs for any p below 5%, what to do."""
    key = "few" if n < TESTABLE else "filled" if filled else "dot"
    return seen.words[key].format(n=whole(n), least=number(least_p(n)), enough=TESTABLE)


def source_of(seen: Seen) -> str:
    """Write the source line: model, pairs used and left out, pairs for calibration."""
    pairs: AlignedSet = seen.results["pairs"]
    effects, facts = seen.results["set"].effects, seen.facts
    used = len(effects.numbers)
    values = {"n": whole(used), "other": whole(len(pairs.pairs) - used + len(pairs.left_out))}
    kept = seen.words["source_kept"].format(n=whole(len(pairs.calibration))) if effects.effect in CALIBRATED else ""
    return seen.words["source"].format(model=facts.label, dtype=facts.dtype, kept=kept, **values)


def counts_said(seen: Seen, pairs: AlignedSet, numbers: Sequence[int]) -> str:
    """Say how many pairs the effect uses, how many are left out for which reason, and how many are not scored."""
    words, effect = seen.words.within("job"), seen.settings.effect
    reasons = Counter(each.reason for each in pairs.left_out)
    if other := len(pairs.pairs) - len(numbers):
        reasons["uncalibrated" if effect == "resample" else "other_length"] = other
    told = [words["pairs"].format(n=whole(len(numbers)))]
    if reasons:
        each = [seen.words[f"left.{reason}"].format(n=whole(n)) for reason, n in reasons.items()]
        listed = reduce(lambda these, one: seen.words["left.and"].format(these=these, next=one), each)
        told.append(words["left"].format(n=whole(reasons.total()), reasons=listed))
    if effect in CALIBRATED:
        told.append(words["calibration"].format(n=whole(len(pairs.calibration))))
    if pairs.unused:
        told.append(words["unused"].format(n=whole(pairs.unused)))
    return joined(told)
