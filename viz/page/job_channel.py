"""One channel for the slow measures of all tabs: their buttons, cancels and bars.

A visitor may have several under way. Each message therefore holds the newest bar of every one of them with a stamp: a
message that a browser skips loses nothing.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gradio as gr

from model.errors import PlaygroundError
from viz.page.parts import update
from viz.page.pipeline import QUIET, PageRequest, scene_of
from viz.seam.jobs.background import failed, perform_in_turn
from viz.seam.tab import Plan
from viz.views.tabs import TABS
from viz.work.playground import Playground

PLANS: dict[str, Plan] = {name: plan for tab in TABS for name, plan in tab.jobs.items()}
MOST_BARS = 64  # of a visitor; the oldest ones go


@dataclass
class Bars:
    """A visitor's jobs: the newest bar of each, and the stop events of those under way."""

    shown: dict[str, dict] = field(default_factory=dict)  # part -> {"stamp", "payload"}
    stops: dict[str, threading.Event] = field(default_factory=dict)
    stamp: int = 0

    def say(self, part: str, payload: dict) -> dict:
        """Note a bar; the message for the channel."""
        self.stamp += 1
        self.shown.pop(part, None)
        self.shown[part] = {"stamp": self.stamp, "payload": payload}
        for old in list(self.shown)[:-MOST_BARS]:
            del self.shown[old]
        return {"parts": dict(self.shown)}


def job_channel() -> gr.HTML:
    """The component that carries the bars; it shows nothing itself."""
    return gr.HTML(
        value={},
        html_template='<div data-channel="jobs"></div>',
        js_on_load="playground.jobChannel(element, props, trigger, watch); /* 'start' 'cancel' */",
        elem_id="pg-jobs",
        apply_default_css=False,
        payload=None,
    )


def part_of(value: object) -> str:
    """The part whose button was pressed; "" for none of ours."""
    name = value.get("part") if isinstance(value, dict) else None
    return name if isinstance(name, str) and name in PLANS else ""


def wire_jobs(
    playground: Playground, jobs: gr.HTML, asking: list, page_request: Callable[..., PageRequest], done: gr.State
) -> Callable[[str], None]:
    """Start and cancel; a finished job has the page drawn again. Returns what forgets a visitor whose page was closed.

    A cancel is a note to the work, which then says itself that it has stopped. Gradio's own way of cancelling forgets
    a click that comes while it is at it.
    """
    visitors: dict[str, Bars] = {}

    def start(request: gr.Request, value, *values):
        name, visitor = part_of(value), request.session_hash or ""
        if not name:
            return
        bars = visitors.setdefault(visitor, Bars())
        question = page_request(request, *values)
        try:
            job = PLANS[name](scene_of(playground, question), question.values)
        except PlaygroundError as error:
            yield update(bars.say(name, failed(error, question.language))), gr.skip()
            return
        stop = bars.stops[name] = threading.Event()
        try:
            for payload, ended in perform_in_turn(playground, visitor, job, question.language, stop):
                bar = gr.skip() if payload is None else update(bars.say(name, payload))
                yield bar, ended or gr.skip()
        finally:
            if bars.stops.get(name) is stop:
                del bars.stops[name]

    def cancel(request: gr.Request, value):
        bars = visitors.get(request.session_hash or "")
        if bars and (stop := bars.stops.get(part_of(value))):
            stop.set()

    def forget(visitor: str) -> None:
        visitors.pop(visitor, None)

    # How many run at once is for the job queue to say.
    event: dict[str, Any] = {"concurrency_limit": None, **QUIET}
    jobs.start(start, [jobs, *asking], [jobs, done], trigger_mode="multiple", **event)
    jobs.cancel(cancel, [jobs], None, **event)
    return forget
