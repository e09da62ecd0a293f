"""Claims in words: numbers with their unit, thresholds and verdicts."""

from collections.abc import Mapping

from model.claims.registry import CLAIMS, Claim
from model.claims.study import Study
from model.claims.verdict import UNABLE, Verdict, judge
from viz.numbers import number, percent, signed, whole
from viz.words import Words

TICKS: Mapping[str, str] = {
    "share": ".0%",
    "points": "+.0%",
}  # formats of the axis by unit; all others show plain numbers


def shown(words: Words, unit: str, value: float) -> str:
    """Format a number of a claim with its unit."""
    text = bare(unit, value)
    return text if unit == "share" else words[f"unit.{unit}"].format(value=text)


def bare(unit: str, value: float) -> str:
    """Format a number of a claim without its unit, except for the percent sign of a fraction."""
    if unit == "share":
        return percent(value)
    return signed(100 * value) if unit == "points" else number(value)


def threshold(words: Words, claim: Claim) -> str:
    """Say from which mean on a claim counts as true."""
    low, high = (None if each is None else _bound(words, claim.unit, each) for each in (claim.low, claim.high))
    key = "between" if low and high else "above" if low else "below"
    return words[f"threshold.{key}"].format(low=low, high=high)


def _bound(words: Words, unit: str, value: float) -> str:
    """Format a bound, which is a round number."""
    return f"{100 * value:g}%" if unit == "share" else shown(words, unit, value)


def judged(study: Study | None, key: str) -> Verdict | None:
    """Judge one claim of a study; None if it was not tested or cannot be measured on this model."""
    if study is None or key not in study.values:
        return None
    return judge(CLAIMS[key], study.values[key])


def effect(words: Words, key: str, verdict: Verdict) -> str:
    """Format the mean of a claim."""
    return shown(words, CLAIMS[key].unit, verdict.mean)


def span(words: Words, key: str, verdict: Verdict) -> str:
    """Format the 95% interval of the mean."""
    low, high = (bare(CLAIMS[key].unit, end) for end in (verdict.low, verdict.high))
    return words["interval"].format(low=low, high=high)


def sentence(words: Words, study: Study, key: str) -> str:
    """Say the verdict of one claim, with its mean and interval, or the reason why it has no verdict."""
    if key in study.reasons:
        return words["verdict.unable"].format(reason=words[f"reason.{study.reasons[key]}"])
    verdict = judged(study, key)
    if verdict is None or verdict.state == UNABLE:
        return words["verdict.unable"].format(reason=words["reason.few"])
    numbers = {"effect": effect(words, key, verdict), "interval": span(words, key, verdict)}
    numbers |= {"agree": percent(verdict.agree), "n": whole(verdict.texts)}
    return words[f"verdict.{verdict.state}"].format(**numbers)
