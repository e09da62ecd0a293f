"""The parts of a lesson that refer to the page: its initial state, the conditions that complete actions, and
highlights.
"""

import re
from collections.abc import Mapping
from typing import Any

from viz.lessons.faults import Table
from viz.page.pipeline import PARTS
from viz.views.tabs import TABS

_TAB = {tab.key: tab for tab in TABS}
PICKS = ("heads", "tokens", "edits")
# The conditions that complete an action, with the types of their values. A step has exactly one, which may have more
# keys.
DONE: Mapping[str, tuple[type, ...]] = {
    "typed": (bool, str),  # the prompt has changed, or equals this text
    "picks": (str,),  # the selected heads, tokens or edits have changed; with `count`, to this number
    "event": (str,),  # a click or an input on an element that `on` selects
    "appears": (str,),  # a new element is on the page
    "view": (str,),  # the view "tab.view" is open
    "changes": (str,),  # the settings of a part have changed; with `to`, to these
    "finished": (str,),  # a part's job has succeeded
    "trained": (str,),  # a run started by this form has succeeded
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
    """Parse a state in the form of a link, with its `view` among the values, as the page expects it."""
    state = {name: table.take(name, kind, kind()) for name, kind in _STATE.items() if name in table.raw}
    table.read |= set(_STATE)
    tab, view = state.get("tab"), state.pop("view", None)
    if tab is not None and tab not in _TAB:
        table.fault("tab", f"There is no tab “{tab}”. Choose one of: {', '.join(_TAB)}.")
        tab = None
    if view is not None:
        if tab is None:
            table.fault("view", "Say the tab that it is in, too.")
        elif view not in (known := [each.key for each in _TAB[tab].views]):
            table.fault("view", f"The tab {tab} has no view “{view}”. It has: {', '.join(known)}.")
        elif not _TAB[tab].is_single:
            state["values"] = {f"{tab}_view": {"view": view}, **state.get("values", {})}
    for part in state.get("values", {}):
        _known_part(table, "values", part)
    if presses:
        state["press"] = list(read_selectors(table, "press"))
    table.end()
    return state


def read_done(do: Table) -> dict[str, Any]:
    """Parse the condition that completes an action."""
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
    done = {kind: value}
    table.read |= {kind}
    _check_done(table, kind, value)
    more, of = _MORE.get(kind, ("", str))
    if more and (kind == "event" or more in table.raw):
        done[more] = table.take(more, of)
        if more == "on":
            _check_selector(table, "on", done["on"])
    table.end()
    return done


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
    """Parse the selectors of the elements that a step highlights or presses."""
    selectors = table.texts(name, default=[])
    for each in selectors:
        _check_selector(table, name, each)
    return selectors


def _check_selector(table: Table, name: str, selector: str) -> None:
    for part in re.findall(r"#pg-(\w+)", selector):
        _known_part(table, name, part)


def _known_part(table: Table, name: str, part: str) -> None:
    if part not in PARTS:
        table.fault(name, f"There is no part “{part}” on the page.")
