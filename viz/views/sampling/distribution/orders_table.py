"""What other orders of the same steps would leave: all of them, grouped by their results, and those of four tools."""

from dataclasses import dataclass

from model.sampling.orders import Orders, Result, compare_orders, result_of
from model.sampling.tool_orders import TOOLS, arranged
from viz.labels import quoted
from viz.numbers import BIT, bits, percent, whole
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.seam.view import Payload, Seen
from viz.views.sampling.distribution.effects_table import chosen_context, position_lines
from viz.views.sampling.pipelines import by_chance, logits_of, step_name
from viz.words import Words

_IMPORT = "from model.sampling.orders import compare_orders"
MOST_RESULTS = 12  # maximum number of results in the table; the export has all of them


@dataclass(frozen=True)
class ToolResult:
    """The steps in a tool's default order."""

    tool: str
    source: str
    order: tuple[int, ...]  # indices of the steps
    lacking: tuple[int, ...]  # indices of the steps that the tool lacks
    result: Result


@dataclass(frozen=True)
class Compared:
    """All orders of the steps, and those of the tools."""

    orders: Orders
    tools: tuple[ToolResult, ...]


def measure_orders(scene: Scene, settings: Settings) -> Compared | None:
    """Compare the orders of the steps at the selected position; None for fewer than two steps."""
    steps = settings.pipeline
    if len(steps) < 2:
        return None
    logits, context, tools = logits_of(scene), chosen_context(scene, settings.chance), []
    for tool in TOOLS:
        order, lacking = arranged(steps, tool)
        result = result_of(logits, tuple(steps[n] for n in order), steps, context)
        tools.append(ToolResult(tool.name, tool.source, order, lacking, result))
    return Compared(compare_orders(logits, steps, context), tuple(tools))


def counted(order: tuple[int, ...]) -> list[int]:
    """Convert indices of steps to the numbers that the page and the API give the steps, from 1."""
    return [n + 1 for n in order]


def orders_table(seen: Seen) -> Payload:
    """Build the table of the orders and that of the tools."""
    words, compared = seen.here, seen.result
    if compared is None:
        return {"absent": True}
    found = compared.orders
    names = _labels(seen)
    columns = {name: words[f"column_{name}"] for name in ("left", "order", "entropy", "top", "distance")}
    results = [
        {"set": group.tokens, "orders": group.orders, "cells": _cells(seen, group.result)} for group in found.groups
    ]
    tools = [
        {
            "name": each.tool,
            "source": each.source,
            "order": each.order,
            "off": each.lacking,
            "cells": _cells(seen, each.result),
        }
        for each in compared.tools
    ]
    return {
        "title": words["title"],
        "note": _verdict(words, found),
        "lines": _remarks(seen, found, names),
        "steps": names,
        "columns": columns,
        "results": results,
        "most": MOST_RESULTS,
        "tools": tools,
        "file": f"distribution-orders-{seen.facts.position}",
        "source": "",
        "python": position_lines(seen, "compare_orders(logits, steps, context)", imports=(_IMPORT,)),
        "words": words.within("labels").plain(),
    }


def _labels(seen: Seen) -> list[str]:
    """Name the steps: by the warp alone, or with its numbers if several steps have the same warp."""
    steps, words = seen.settings.pipeline, seen.all_words
    warps = [step.warp for step in steps]
    return [words[f"warp.{step.warp}"] if warps.count(step.warp) == 1 else step_name(words, step) for step in steps]


def _cells(seen: Seen, result: Result) -> dict[str, str]:
    if not result.kept:
        words = seen.here
        return {
            "left": "0",
            "entropy": "",
            "top": words["none_left"],
            "share": "",
            "distance": percent(result.distance),
        }
    return {
        "left": whole(result.kept),
        "entropy": bits(result.entropy / BIT),
        "top": quoted(seen.facts.piece(result.top)),
        "share": percent(result.largest),
        "distance": percent(result.distance),
    }


def _verdict(words: Words, found: Orders) -> str:
    """Format whether the order matters."""
    sets = len({group.tokens for group in found.groups})
    kind = "same" if len(found.groups) == 1 else "one_set" if sets == 1 else "sets"
    return words[kind].format(n=whole(found.count), results=whole(len(found.groups)), sets=whole(sets))


def _remarks(seen: Seen, found: Orders, names: list[str]) -> list[str]:
    """Format the pairs of steps that do not commute, and what limits the comparison."""
    words, lines = seen.here, []
    if found.pairs:
        pairs = [words["pair"].format(first=names[a], second=names[b]) for a, b in found.pairs]
        lines.append(words["pairs"].format(pairs=" · ".join(pairs)))
    if not found.every:
        lines.append(words["swaps"].format(n=len(found.steps)))
    if by_chance(found.steps):
        lines.append(words["by_chance"])
    return lines
