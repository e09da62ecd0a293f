"""The text that rules allow, token by token: what was forbidden, by which rule and why, and what could have come."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from model.api import LanguageModel
from model.generation.generate import generate
from model.generation.strategies import DecodingPlan, Strategy
from model.generation.text_statistics import Written, written
from model.sampling.fits import LIKELIEST, Fit, RuleFit, fit_of
from model.sampling.pipeline import Context, Step
from model.sampling.rules.matching import read_so_far, reason, state_of
from model.sampling.rules.rule import Rule
from model.text.chat import ending
from viz.labels import quoted, visible
from viz.numbers import percent, whole
from viz.seam.programs.reading import named
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.seam.view import Payload, Seen
from viz.words import Words

MOST = 32  # maximum number of tokens of the text
_TAIL = 28  # number of characters of the text so far in a row
_LEAST = 0.0005  # probability from which a forbidden token is named, unless it is the likeliest


@dataclass(frozen=True)
class Broken:
    """A rule that forbids a token, by itself."""

    step: int  # index of its step
    fits: str  # the beginning of the token that fits
    fails: str  # the first character that does not
    instead: str  # the characters that could come there


@dataclass(frozen=True)
class Forbidden:
    """A token that one or more rules forbade."""

    id: int
    p: float  # its probability in the model itself
    by: tuple[Broken, ...]


@dataclass(frozen=True)
class RuleRow:
    """A position of the text under the rules."""

    id: int  # the token that was written
    so_far: str  # the text before it
    fit: Fit
    likeliest: tuple[Forbidden, ...]


@dataclass(frozen=True)
class RuleWalk:
    """The text under the rules and the text without them, with the same random numbers; no rows without a rule."""

    rows: tuple[RuleRow, ...] = ()
    masked: tuple[int, ...] = ()
    free: tuple[int, ...] = ()
    ended: str = ""
    rules: tuple[int, ...] = ()  # indices of the steps with a rule
    passes: int = 0  # number of forward passes of the text under the rules
    saved: int = 0  # number of those that forced tokens saved
    edited: bool = False  # whether the model is edited, so that none can be saved
    wanted: tuple[RuleFit, ...] = ()  # at a dead end: what each rule wants there


def rule_in(steps: Sequence[Step]) -> Rule | None:
    """Return the first rule of the steps, or None."""
    return next((step.rule for step in steps if step.rule is not None), None)


def needs_rule(scene: Scene, settings: Settings) -> Settings:
    """Return the steps that the walk depends on; none without a rule."""
    return Settings((("pipeline", settings.pipeline if rule_in(settings.pipeline) else ()),))


def measure_rule(scene: Scene, settings: Settings) -> RuleWalk:
    """Continue the prompt after the selected position with all steps, and with all steps but the rules, and read what
    the rules forbade at each position. There is no walk without a rule, and none with a model that fills in masks.

    The two texts have a batch each, since only a text whose own next token is forced can skip a forward pass.
    """
    steps, model = settings.pipeline, scene.model
    if rule_in(steps) is None or scene.masks or not hasattr(model.model, "trunk"):
        return RuleWalk()
    ids = scene.tokens.ids[: scene.position + 1].tolist()
    size = min(MOST, scene.playground.options.allowed.new_tokens)
    plan = DecodingPlan(size, ending=ending(model.tokenizer), edits=scene.picked.edits)
    both = [Strategy(steps), Strategy(tuple(step for step in steps if step.rule is None))]
    vocab_size = model.tokenizer.vocab_size
    masked, free = (written(generate(model.model, ids, [each], plan, vocab_size, model.decode), 1)[0] for each in both)
    rules = tuple(at for at, step in enumerate(steps) if step.rule is not None)
    rows = _rows(steps, masked)
    stuck = masked.ended == "stuck"
    end = fit_of(steps, Context((*ids, *masked.ids), len(ids)), np.zeros(vocab_size)) if stuck else None
    return RuleWalk(
        rows,
        masked.ids,
        free.ids,
        masked.ended,
        rules,
        masked.passes,
        masked.saved,
        bool(plan.edits),
        end.rules if end else (),
    )


def _rows(steps: Sequence[Step], masked: Written) -> tuple[RuleRow, ...]:
    rule, rows = rule_in(steps), []
    for place, token in enumerate(masked.made):
        before = masked.ids[:place]
        if rule is None or token.fit is None:
            break
        so_far = read_so_far(rule, before).decode("utf-8", "replace")
        rows.append(RuleRow(token.id, so_far, token.fit, _likeliest(steps, before, token.fit)))
    return tuple(rows)


def _likeliest(steps: Sequence[Step], before: Sequence[int], fit: Fit) -> tuple[Forbidden, ...]:
    named_ones = [each for n, each in enumerate(fit.likeliest) if not n or each[1] >= _LEAST]
    return tuple(Forbidden(token, p, _broken(steps, before, fit, token)) for token, p in named_ones)


def _broken(steps: Sequence[Step], before: Sequence[int], fit: Fit, token: int) -> tuple[Broken, ...]:
    """Return the rules that forbid a token after a text, each by itself."""
    found = []
    for each in fit.rules:
        rule = steps[each.step].rule
        if rule is not None and not _allows(rule, before, token):
            why = reason(rule, before, token)
            found.append(Broken(each.step, why.fits, why.fails, why.instead))
    return tuple(found)


def _allows(rule: Rule, before: Sequence[int], token: int) -> bool:
    allowed = state_of(rule, before).allowed
    return token < len(allowed) and bool(allowed[token])


# --- the table ---


def rule_table(seen: Seen) -> Payload:
    """Build the table of the text under the rules: a row for each token. Absent without a rule."""
    words, walk = seen.here, seen.result
    if not walk.rules:
        return {"absent": True}
    each = [words["column_rule"].format(step=at + 1) for at in walk.rules] if len(walk.rules) > 1 else []
    first, last = ("so_far", "written", "may", "forbidden"), ("left", "why", "free")
    return {
        "title": words["title"],
        "note": words["note"].format(n=MOST),
        "file": "distribution-rule",
        "source": "",
        "verdict": _verdict(seen, walk),
        "good": walk.ended != "stuck",
        "columns": [*(words[f"column_{name}"] for name in first), *each, *(words[f"column_{name}"] for name in last)],
        "rows": [_row(seen, walk, place, row) for place, row in enumerate(walk.rows)],
    }


def _verdict(seen: Seen, walk: RuleWalk) -> list[str]:
    """Say both texts, how the text under the rules ended, what was forced and saved, and what each rule forbade."""
    words, piece = seen.here, seen.facts.piece
    texts = ("".join(map(piece, ids)) for ids in (_shown(seen, walk.masked), _shown(seen, walk.free)))
    masked, free = (visible(text) for text in texts)
    why = "complete" if walk.ended in ("end", "rule") else walk.ended
    why = "apart" if why == "stuck" and len(walk.rules) > 1 else why
    wanted = [words["wants"].format(step=each.step + 1, may=_may(seen, each)) for each in walk.wanted]
    ended = words[f"ended_{why}"]
    if wanted:
        ended = words["wanted"].format(ended=ended, wants="; ".join(wanted))
    lines = [words["with"].format(text=masked), words["without"].format(text=free), ended]
    if not walk.rows:
        return lines
    forced = sum(row.fit.allowed == 1 for row in walk.rows)
    counts = {"n": len(walk.rows), "forced": forced, "saved": walk.saved, "passes": walk.passes}
    lines.append(words["forced_edited" if walk.edited and forced else "forced_passes"].format(**counts))
    mean = percent(float(np.mean([row.fit.forbidden for row in walk.rows])))
    lines.append(words["sum"].format(mass=mean) if len(walk.rules) == 1 else _each_sum(seen, walk, mean))
    return lines


def _each_sum(seen: Seen, walk: RuleWalk, together: str) -> str:
    """Say how much probability each rule forbade by itself, on average, and all of them together."""
    words = seen.here
    masses = {at: [_forbidden(row.fit, at) for row in walk.rows] for at in walk.rules}
    alone = [words["alone"].format(step=at + 1, mass=percent(float(np.mean(each)))) for at, each in masses.items()]
    return words["sum_each"].format(alone="; ".join(alone), mass=together)


def _forbidden(fit: Fit, step: int) -> float:
    return next((rule.forbidden for rule in fit.rules if rule.step == step), 0.0)


def _shown(seen: Seen, ids: Sequence[int]) -> Sequence[int]:
    """Leave out the token that ends the text."""
    rule = rule_in(seen.settings.pipeline)
    return [each for each in ids if rule is None or each not in rule.vocabulary.ending]


def _row(seen: Seen, walk: RuleWalk, place: int, row: RuleRow) -> list:
    words, fit = seen.here, row.fit
    tail = row.so_far[-_TAIL:]
    state = f"{'…' if len(row.so_far) > _TAIL else ''}{visible(tail)}" if row.so_far else words["start"]
    left = words["forced"] if fit.allowed == 1 else whole(fit.allowed)
    free = walk.free[place] if place < len(walk.free) else None
    states = {rule.step: _state(seen, rule) for rule in fit.rules} if len(walk.rules) > 1 else {}
    return [
        state,
        {"text": quoted(seen.facts.piece(row.id)), "token": row.id},
        {"text": _may(seen, fit), "small": words["forced_text"] if fit.forced else ""},
        {"text": percent(fit.forbidden), "bars": [{"to": fit.forbidden, "look": "pg-shape-cut"}]},
        *(states.get(at, "") for at in walk.rules if states),
        left,
        "; ".join(_why(seen, walk, each) for each in row.likeliest[: 1 if states else 2]),
        {"text": "", "token": None} if free is None else {"text": quoted(seen.facts.piece(free)), "token": free},
    ]


def _may(seen: Seen, fit: Fit | RuleFit) -> str:
    """Say what may come: the forced text or the characters, and the end."""
    words = seen.here
    may = visible(fit.forced) if fit.forced else fit.instead
    if not fit.may_end:
        return may
    return words["or_end"].format(characters=may) if may else words["end_only"]


def _state(seen: Seen, rule: RuleFit) -> dict:
    """Build the cell of one rule by itself: what it lets come, and how much it forbids."""
    return {"text": _may(seen, rule), "small": seen.here["forbids"].format(mass=percent(rule.forbidden))}


def _why(seen: Seen, walk: RuleWalk, each: Forbidden) -> str:
    """Say why a token was forbidden: by which rule if there are several, where it breaks it, and what could have come
    there.
    """
    words = seen.here
    reasons = [_reason(words, one) for one in each.by]
    if len(walk.rules) > 1:
        found = zip(each.by, reasons, strict=True)
        reasons = [words["why_by"].format(step=one.step + 1, why=why) for one, why in found]
    return words["why"].format(token=quoted(seen.facts.piece(each.id)), p=percent(each.p), why="; ".join(reasons))


def _reason(words: Words, one: Broken) -> str:
    values = {"instead": one.instead, "fits": visible(one.fits), "fails": visible(one.fails)}
    if not one.fails:
        return words["why_end"]
    if not one.instead:
        return words["why_over"]
    return words["why_later" if one.fits else "why_first"].format(**values)


# --- for programs ---


def rule_report(
    model: LanguageModel, steps: Sequence[Step], context: Context, probabilities: np.ndarray
) -> dict | None:
    """Describe what the rules of the steps say at one position, given the model's probabilities [V]; None without a
    rule.
    """
    rule = rule_in(steps)
    if rule is None:
        return None
    ids = context.ids[context.prompt :]
    fit = fit_of(tuple(steps), context, probabilities)
    if fit is None:
        return {"status": state_of(rule, ids).status}
    likeliest = _likeliest(steps, ids, fit)[:LIKELIEST]
    return _numbers(fit) | {
        "likeliest": [
            named(model, each.id) | {"probability": each.p} | _broken_record(each.by[0]) | {"by": _by(each)}
            for each in likeliest
        ],
        "rules": [{"step": one.step + 1, "kind": one.kind, "status": one.status} | _numbers(one) for one in fit.rules],
    }


def _numbers(fit: Fit | RuleFit) -> dict:
    said = {name: getattr(fit, name) for name in ("forbidden", "allowed", "may_end", "forced")}
    return said | {"may_come": fit.instead}


def _by(each: Forbidden) -> list[dict]:
    return [{"step": one.step + 1} | _broken_record(one) for one in each.by]


def _broken_record(one: Broken) -> dict:
    return {"fits": one.fits, "fails": one.fails, "instead": one.instead}
