"""What the selected step did to each token, and the outcomes of steps that act by chance."""

import math

from model.sampling.effects import TokenEffect, effects
from model.sampling.outcomes import at_chance
from model.sampling.pipeline import Context, second
from model.sampling.scales import dynamic_value
from model.sampling.warps import final, probabilities_of, values_of
from viz.labels import quoted
from viz.numbers import NONE, decimals, logit, number, percent
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.seam.view import Payload, Seen
from viz.views.sampling.pipelines import by_chance, context_of, logits_of, numbered, pipeline_lines

CHANCE = Choice("chance", ("seed", "acts", "rests"))  # for a step that acts by chance
_NUMBERS = {"seed": None, "acts": 0.0, "rests": 1.0}
_COLUMNS = ("token", "logit", "logit_after", "before", "after", "why")
EFFECTS = 12  # number of tokens in the table of a step's effects


def chosen_context(scene: Scene, chance: str) -> Context:
    """Return the context with the second random number of seed 0, or with one at which every step acts, or none."""
    context, own = context_of(scene), _NUMBERS[chance]
    return context if own is None else at_chance(context, own)


def stage_number(settings: Settings) -> int:
    """Return the number of the selected step, from 1: the last one if none or a missing one is selected; 0 without."""
    steps, stage = settings.pipeline, settings.stage
    return len(steps) if stage == "last" else min(int(stage), len(steps))


def measure_effects(scene: Scene, settings: Settings) -> tuple[int, tuple[TokenEffect, ...], float | None]:
    """Compute what the selected step did: its number, the tokens it changed the most, and a dynamic temperature."""
    steps = settings.pipeline
    number = stage_number(settings)
    if not number:
        return 0, (), None
    context, step = chosen_context(scene, settings.chance), steps[number - 1]
    before = final(logits_of(scene), steps[: number - 1], context)
    dynamic = step.warp == "dynamic_temperature" and int(before.isfinite().sum()) > 1
    t = dynamic_value(before, values_of(step)) if dynamic else None
    return number, effects(before, step, context, EFFECTS), t


def chances(seen: Seen) -> list[list[str]]:
    """Tell of each step that acts by chance how probable this is and what the number of seed 0 gives."""
    words, u, facts = seen.here, second(0, 0), []
    for step, name in zip(seen.settings.pipeline, numbered(seen.all_words, seen.settings.pipeline), strict=True):
        for share in probabilities_of((step,)):
            text = words["acts" if u < share else "rests"].format(u=decimals(u, 3))
            facts.append([words["chance"].format(step=name, share=percent(share)), text, text, words["chance_help"]])
    return facts


def each_token(seen: Seen) -> Payload:
    """Build the table of the tokens that the selected step changed the most, with its reasons."""
    words, (number, found, t) = seen.here, seen.results["effects"]
    name = numbered(seen.all_words, seen.settings.pipeline)[number - 1] if number else ""
    note = words["note"] if t is None else words["dynamic"].format(t=decimals(t, 3))
    rows = [
        [
            quoted(seen.facts.piece(each.id)),
            *map(logit, each.logits),
            *(percent(p) if p else NONE for p in each.probabilities),
            _reason(seen, each),
        ]
        for each in found
    ]
    return {
        "title": words["title"].format(step=name) if number else words["no_step"],
        "note": note if rows else words["nothing"],
        "file": "distribution-effects",
        "source": "",
        "columns": [words[f"column_{key}"] for key in _COLUMNS] if rows else [],
        "rows": rows,
        "python": _python(seen, number) if number else "",
    }


def _python(seen: Seen, number: int) -> str:
    last = f"effects(shaped.stages[{number - 1}], steps[{number - 1}], context, {EFFECTS})"
    return shaped_lines(seen, last, imports=("from model.sampling.effects import effects",))


def shaped_lines(seen: Seen, *last: str, imports: tuple[str, ...] = ()) -> str:
    """Build the Python lines that compute `shaped`, with the outcome that is shown, and end with the lines `last`."""
    lines = ["shaped = shape(logits, steps, context)", *last]
    return position_lines(seen, *lines, imports=("from model.sampling.warps import shape", *imports))


def position_lines(seen: Seen, *last: str, imports: tuple[str, ...] = ()) -> str:
    """Build the Python lines that compute `logits`, `context` and `steps`, with the outcome that is shown."""
    code = pipeline_lines(seen, last, imports)
    chance = _NUMBERS[seen.settings.chance] if by_chance(seen.settings.pipeline) else None
    context = "context_at(masked, -1" if seen.facts.config.two_way else "context_at(run, at"
    return code if chance is None else code.replace(f"{context})", f"{context}, {chance})")


def _reason(seen: Seen, effect: TokenEffect) -> str:
    """Format why a step changed a token."""
    words, reason = seen.here, effect.reason
    if reason is None:
        return words["removed"] if effect.logits[1] == -math.inf else ""
    text = quoted("".join(map(seen.facts.piece, reason.ids)))
    return words[f"why_{reason.kind}"].format(n=number(reason.number), text=text)
