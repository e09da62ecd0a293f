"""Each component's measured time beside its fraction of the FLOPs, for the prompt and for one more token."""

from model.anatomy.component_times import BUDGET, Clocked, ComponentTime, Forward
from model.anatomy.mixers.kinds import attention_layers
from model.generation.cache_costs import Times
from model.gpt.config import ModelConfig
from viz.numbers import NONE, flops, milliseconds, number, percent, signed_percent, whole
from viz.seam.python_lines import script
from viz.seam.view import Payload, Seen
from viz.views.anatomy.compute.figures import ComponentBar, times_figure
from viz.views.anatomy.subject import is_live
from viz.words import Words

KINDS = ("prompt", "step")  # each has a figure "times_<kind>" and a table "clock_<kind>"


def kind_of(seen: Seen) -> str:
    """Return the entry of KINDS that a part belongs to."""
    return seen.part.rpartition("_")[2]


def clocked_of(seen: Seen) -> Clocked | None:
    """Return the measured times; None before the measurement or if the architecture is not loaded."""
    return seen.results["times"] if is_live(seen.settings) else None


def hint(seen: Seen) -> Payload:
    """Build the text beside the button that starts the measurement."""
    if not is_live(seen.settings):
        return {"unready": True, "text": seen.words["not_here"]}
    text = seen.here["hint"].format(seconds=whole(BUDGET))
    return {"text": f"{text} {seen.here['no_edits']}" if seen.facts.edits else text}


def empty(seen: Seen) -> Payload:
    """Build the placeholder of a part that needs the measurement."""
    if seen.facts.config.two_way and kind_of(seen) == "step" and is_live(seen.settings):
        words = seen.words.within("table")
        return {"empty": {"text": words["no_step"], "hint": words["no_step_hint"]}}
    explanation = seen.words["empty_hint" if is_live(seen.settings) else "not_here"]
    return {"empty": {"text": seen.words[f"empty_{kind_of(seen)}"], "hint": explanation}}


def times(seen: Seen) -> Payload:
    """Draw each component's fraction of the FLOPs beside its fraction of the time."""
    clocked, kind, words = clocked_of(seen), kind_of(seen), seen.words.within("times")
    if clocked is None:
        return empty(seen)
    forward = forward_of(clocked, kind)
    if forward is None:
        return empty(seen)
    every_head = clocked.prompt.reading.logits == clocked.prompt.reading.T
    lines = [
        f"clocked = measure(lm.model, run.tokens.ids.tolist(), {every_head})",
        f"[(part.key, part.times.median, part.flops) for part in clocked.{kind}.parts]",
    ]
    return {
        "figure": times_figure([_bar(words, each, forward) for each in forward.parts], words),
        "title": words[f"title_{kind}"].format(T=whole(forward.reading.T), S=whole(forward.reading.S - 1)),
        "note": words[_note(seen.facts.config)].format(n=len(forward.plain.seconds)),
        "source": _source(seen, clocked),
        "file": f"time-by-component-{kind}",
        "columns": [words["component"], words["share"]],
        "python": script(seen.facts, lines, ["from model.anatomy.component_times import measure"]),
    }


def _note(config: ModelConfig) -> str:
    """Return the key of the note: whether rotation and cache could be timed apart from the attention."""
    attention = attention_layers(config)
    ruled = config.positions == "alibi" or config.score_cap is not None or config.sinks or config.two_way
    ruled = ruled or "sliding_window" in config.mixers
    return "note_rules" if attention and ruled else "note"


def forward_of(clocked: Clocked, kind: str) -> Forward | None:
    """Return the forward pass of the prompt or of one more token; None if there is no next token."""
    return clocked.prompt if kind == "prompt" else clocked.step


def _source(seen: Seen, clocked: Clocked) -> str:
    """Describe the setup of the measurement: model, data type, number of threads, and their wait policy."""
    words, facts = seen.words.within("times"), seen.facts
    values = {"model": facts.label, "dtype": facts.dtype, "threads": clocked.threads}
    text = words["measured"].format(**values, policy=clocked.waiting or words["policy_none"])
    return f"{text} · {words['plain']}" if facts.edits else text


def _rate(rate: float | None) -> str:
    """Format a rate, given in FLOPs per second, in GFLOPs per second."""
    return number(None if rate is None else rate / 1e9)


def _spread(spread: tuple[float, float]) -> str:
    """Format the interquartile range of the repeated times, in milliseconds."""
    return "–".join(map(milliseconds, spread))


def _bar(words: Words, part: ComponentTime, forward: Forward) -> ComponentBar:
    total, spread = forward.seconds, part.times.spread
    values = {"ms": milliseconds(part.times.median), "spread": _spread(spread), "rate": _rate(part.rate)}
    return ComponentBar(
        words[part.key],
        part.flops / forward.flops,
        part.times.median / total,
        (spread[0] / total, spread[1] / total),
        (flops(part.flops), words["bar"].format(**values)),
    )


def clock(seen: Seen) -> Payload:
    """Build the table of times by component, and compare their sum with the time of the whole forward pass."""
    clocked, kind, words, names = (
        clocked_of(seen),
        kind_of(seen),
        seen.words.within("clock"),
        seen.words.within("times"),
    )
    if clocked is None:
        return empty(seen)
    forward = forward_of(clocked, kind)
    if forward is None:
        return empty(seen)
    rows = []
    for each in forward.parts:
        share = each.times.median / forward.seconds
        rows.append(
            [
                names[each.key],
                milliseconds(each.times.median),
                _spread(each.times.spread),
                {"text": percent(share), "bar": share},
                percent(each.flops / forward.flops) if each.flops else NONE,
                _rate(each.rate),
            ]
        )
    plain = forward.plain
    rate = _rate(forward.flops / plain.median)
    rows.append([words["plain"], milliseconds(plain.median), _spread(plain.spread), "", "", rate])
    values = {
        "sum": milliseconds(forward.seconds),
        "clocked": milliseconds(forward.clocked.median),
        "plain": milliseconds(plain.median),
        "off": signed_percent(forward.clocked.median / plain.median - 1),
    }
    return {
        "title": words["title"],
        "columns": [words[key] for key in ("component", "median", "spread", "share", "work", "rate")],
        "rows": rows,
        "about": words["check"].format(**values),
        "source": _source(seen, clocked),
        "file": f"time-by-component-{kind}-table",
    }


def _micro(times: Times) -> str:
    """Format the interquartile range of the repeated times, in microseconds."""
    return "–".join(number(1e6 * each) for each in times.spread)


def ways(seen: Seen) -> Payload:
    """Build the table of two operations in two ways each, for one token."""
    words, facts = seen.here, seen.facts
    rows, lines = [], []
    for pair in seen.result:
        both = [number(1e6 * each) for each in pair.best]
        spread = words["spread"].format(first=_micro(pair.first), second=_micro(pair.second))
        rows.append([words[pair.key], *both, {"text": signed_percent(-pair.saved), "help": spread}])
        lines.append([words[pair.key], *pair.best, -pair.saved])
    return {
        "title": words["title"],
        "about": words["about"],
        "columns": [words[key] for key in ("what", "first", "second", "change")],
        "rows": rows,
        "lines": lines,
        "source": words["source"].format(model=facts.label),
        "file": "two-ways",
        "python": script(facts, ["two_ways(lm.config)"], ["from model.anatomy.two_ways import two_ways"]),
    }
