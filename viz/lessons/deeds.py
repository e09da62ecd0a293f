"""The parts of a lesson that refer to the page: its starting state, what completes an action, what is highlighted."""

import re
from collections.abc import Mapping
from typing import Any

from viz.lessons.faults import Table
from viz.page.pipeline import PARTS
from viz.views.tabs import TABS

_TAB = {tab.key: tab for tab in TABS}
PICKS = ("heads", "tokens", "edits")
# What ticks an action off, each with the kind of what it is given; a step has one of them, some of which take more.
DONE: Mapping[str, tuple[type, ...]] = {
    "typed": (bool, str),  # the prompt is another one; or is this text
    "picks": (str,),  # others of these are picked; with `count`, so many
    "event": (str,),  # a click or an input on what `on` selects
    "appears": (str,),  # something is on the page that was not
    "view": (str,),  # "tab.view" is open
    "changes": (str,),  # the settings of a part are others; with `to`, these
    "finished": (str,),  # a part's job has ended well
    "trained": (str,),  # a run that this form starts has ended well
}
_MORE: Mapping[str, tuple[str, type]] = {"event": ("on", str), "changes": ("to", dict), "picks": ("count", int)}
_STATE: Mapping[str, type] = {
    "prompt": str,
    "tab": str,
    "view": str,
    "heads": list,
    "tokens": list,
    "pair": list,
    "edits": list,
    "target": int,
    "distractor": int,
    "values": dict,
}


def read_state(table: Table, presses: bool = False) -> dict[str, Any]:
    """Return a state in the form of a link, with its `view` among the values, as the page expects it."""
    found = {name: table.take(name, kind, kind()) for name, kind in _STATE.items() if name in table.raw}
    table.read |= set(_STATE)
    tab, view = found.get("tab"), found.pop("view", None)
    if tab is not None and tab not in _TAB:
        table.fault("tab", f"There is no tab “{tab}”. Choose one of: {', '.join(_TAB)}.")
        tab = None
    if view is not None:
        if tab is None:
            table.fault("view", "Say the tab that it is in, too.")
        elif view not in (known := [each.key for each in _TAB[tab].views]):
            table.fault("view", f"The tab {tab} has no view “{view}”. It has: {', '.join(known)}.")
        elif not _TAB[tab].alone:
            found["values"] = {f"{tab}_view": {"view": view}, **found.get("values", {})}
    for part in found.get("values", {}):
        _known_part(table, "values", part)
    if presses:
        found["press"] = list(read_selectors(table, "press"))
    table.end()
    return found


def read_done(do: Table) -> dict[str, Any]:
    """Return the condition that completes an action."""
    table = do.table("done")
    if table is None:
        return {}
    kinds = [name for name in table.raw if name in DONE]
    if len(kinds) != 1:
        table.fault("", f"Say one of: {', '.join(DONE)}.")
        return {}
    (kind,) = kinds
    value = table.raw[kind]
    if not isinstance(value, DONE[kind]):
        table.fault(kind, "This must be a text." if bool not in DONE[kind] else "This must be true or a text.")
        return {}
    found = {kind: value}
    table.read |= {kind}
    _check_done(table, kind, value)
    more, of = _MORE.get(kind, ("", str))
    if more and (kind == "event" or more in table.raw):
        found[more] = table.take(more, of)
        if more == "on":
            _check_selector(table, "on", found["on"])
    table.end()
    return found


def _check_done(table: Table, kind: str, value: Any) -> None:
    if kind == "picks" and value not in PICKS:
        table.fault(kind, f"Choose one of: {', '.join(PICKS)}.")
    if kind == "event" and value not in ("click", "input"):
        table.fault(kind, "Choose one of: click, input.")
    if kind == "appears":
        _check_selector(table, kind, value)
    if kind in ("changes", "finished", "trained"):
        _known_part(table, kind, value)
    if kind == "view":
        tab = value.partition(".")[0]
        known = [f"{key}.{each.key}" for key, of in _TAB.items() for each in of.views]
        if value not in known:
            at = [each for each in known if each.startswith(f"{tab}.")] or [f"{key}.…" for key in _TAB]
            table.fault(kind, f"There is no view “{value}”. Write it as TAB.VIEW: {', '.join(at)}.")


def read_selectors(table: Table, name: str) -> tuple[str, ...]:
    """Return the selectors of the page's parts that a step highlights or presses."""
    found = table.texts(name, default=[])
    for each in found:
        _check_selector(table, name, each)
    return found


def _check_selector(table: Table, name: str, selector: str) -> None:
    for part in re.findall(r"#pg-(\w+)", selector):
        _known_part(table, name, part)


def _known_part(table: Table, name: str, part: str) -> None:
    if part not in PARTS:
        table.fault(name, f"There is no part “{part}” on the page.")
