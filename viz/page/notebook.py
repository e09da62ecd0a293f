"""The page without a browser: every figure of every view as a plain Plotly figure, for notebooks and scripts.

>>> from model.api import load_model
>>> from viz.page.notebook import page_of
>>> page = page_of(load_model("tinygpt"), "The cat sat on the mat", heads=[(5, 0)])
>>> page.figure("map_plot").data[0].z.shape
(6, 6)
"""

import dataclasses
import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from model.api import LanguageModel
from model.arguments import check_head, check_layer, check_positions
from model.errors import InputError, say
from model.gpt.edits import Edit
from model.progress import Progress, silent
from viz.charts.packed import unpacked_figure
from viz.labels import plotly_text
from viz.page.pipeline import PageRequest, edit_payload, payloads, scene_of
from viz.seam.jobs.background import BackgroundJob, Result
from viz.seam.layout import slots
from viz.seam.tab import Tab
from viz.theme import scale_of
from viz.views.tabs import TABS
from viz.words import words
from viz.work.playground import Options, Playground
from viz.work.prompt import Prompt, conversation

# colors of text, background, and grid
_LOOKS = {"light": ("#1f2430", "#ffffff", "#d9dde5"), "dark": ("#e4e7ee", "#14171f", "#3a4150")}
_HEIGHT = 460  # height in pixels of figures that do not set their own


@dataclass(frozen=True, eq=False)
class NotebookPage:
    """A prompt on a model with a selection, as on a visitor's page. Created by `page_of`."""

    playground: Playground
    request: PageRequest

    def figures(self) -> dict[str, str]:
        """Return the names of all figures, each with its location on the page: "Tab / View"."""
        catalogue = words(self.request.language)
        names = {}
        for tab, view, name in _places():
            shown = catalogue.get(f"{view}.view")
            names[name] = " / ".join(text for text in (catalogue[f"tab.{tab.key}"], shown) if text)
        return names

    def figure(self, name: str, *, theme: str = "light", **settings: Mapping[str, object]) -> go.Figure:
        """Draw a figure by its name in `figures()`, in the colors of the light or the dark page.

        `settings` are the values of the controls beside it, by the name of their part: figure("sizes_profile",
        sizes_form={"number": "rms"}). Omitted settings take their defaults. Raises InputError if the name is unknown
        or, with the page's own message, if there is nothing to show: a figure of a slow measure requires `run(its
        job)` first.
        """
        if theme not in _LOOKS:
            raise ValueError(f"theme is {theme!r}, not one of {', '.join(_LOOKS)}")
        place = next(((tab, view) for tab, view, part in _places() if part == name), None)
        if place is None:
            raise InputError("No figure has this name.", name[:40], "Choose one of figures().")
        payload = self.payload(*place, name, settings)
        if problem := payload.get("problem"):
            raise InputError(problem["text"], name, problem["hint"])
        job = _job_of(place[0], name)
        first = say('Measure it with run("{}") first.', job) if job else ""
        empty = payload.get("empty")
        if payload.get("stored_example") or (empty and empty.get("starts")):  # an example is of another prompt
            raise InputError("This has not been measured yet.", name, first)
        if empty:
            hints = (empty["hint"], "" if empty.get("lacks") else first)
            raise InputError(empty["text"], name, " ".join(text for text in hints if text))
        payload = payload if "figure" in payload else payload.get("map", {})
        if "figure" not in payload:
            raise InputError("This figure is not drawn with these settings.", name, "Change the settings of its view.")
        return _dressed(payload, theme)

    def run(self, job: str, progress: Progress = silent, **settings: Mapping[str, object]) -> object:
        """Run a slow measure, named by the part that contains its button, and return the result."""
        return self.result(job, progress, **settings).value

    def result(self, job: str, progress: Progress = silent, **settings: Mapping[str, object]) -> Result:
        """Run a slow measure and return the result with the seconds that it took."""
        planned = self.planned(job, **settings)
        started = time.perf_counter()
        value = planned.work(progress)
        result = Result(value, time.perf_counter() - started)
        return self.playground.results.get(planned.key, lambda: result)

    def planned(self, job: str, **settings: Mapping[str, object]) -> BackgroundJob:
        """Return a slow measure as a job that has not started. Raises InputError for an unknown name."""
        tab = _tab_of(job)
        request = self._request(tab, _view_of(tab, job), settings)
        return tab.jobs[job](scene_of(self.playground, request), request.values)

    def waits(self, job: str) -> bool:
        """Return whether a slow measure has neither a result nor a stored one."""
        tab = _tab_of(job)
        payload = self.payload(tab, _view_of(tab, job), job, {})
        return payload.get("state") != "done"

    def payload(self, tab: Tab, view: str, part: str, settings: Mapping[str, Mapping[str, object]]) -> dict[str, Any]:
        """Return the content of one part, as the page's scripts receive it; a notice of the page replaces it."""
        parts, _ = payloads(self.playground, self._request(tab, view, settings))
        return {"problem": parts["notice"]} if parts["notice"] else parts[part]

    def jobs(self) -> tuple[str, ...]:
        """Return the names of the slow measures."""
        return tuple(name for tab in TABS for name in tab.jobs)

    def _request(self, tab: Tab, view: str, settings: Mapping[str, Mapping[str, object]]) -> PageRequest:
        unknown = sorted(set(settings) - set(tab.asks))
        if unknown:
            raise InputError("It does not have these settings.", ", ".join(unknown), "Use: " + ", ".join(tab.asks))
        chooser, control, _ = _chooser(tab)
        chosen = {chooser: {control: view}} if view else {}
        return dataclasses.replace(self.request, tab=tab.key, values=chosen | dict(settings))


def page_of(
    lm: LanguageModel,
    prompt: str | Sequence[Mapping[str, str]],
    *,
    heads: Sequence[tuple[int, int]] = (),
    tokens: Sequence[int] = (),
    edits: Sequence[Edit] = (),
    target: int | None = None,
    distractor: int | None = None,
    language: str = "en",
) -> NotebookPage:
    """Build a page for this model and a prompt, or the messages of a conversation, with a selection: heads (layer,
    head), token positions, edits, and the ids of target and distractor tokens.

    Raises InputError if the prompt is empty or exceeds the model's context, or if a head or a token does not exist.
    """
    playground = Playground(Options(model=lm.id, max_tokens=lm.config.n_ctx))
    playground.give(lm)
    picked = {
        "heads": [list(head) for head in heads],
        "tokens": list(tokens),
        "pair": None,
        "edits": [edit_payload(edit) for edit in edits],
        "target": target,
        "distractor": distractor,
    }
    talk = Prompt() if isinstance(prompt, str) else conversation(prompt)
    chat = {"on": bool(talk.turns), "turns": [list(turn) for turn in talk.turns], "open": talk.open}
    text = prompt if isinstance(prompt, str) else ""
    page = NotebookPage(playground, PageRequest(lm.id, text, picked, {}, {}, language, chat=chat))
    T = len(scene_of(playground, page.request).tokens.pieces)
    for layer, head in heads:
        check_layer(layer, lm.config.n_layer)
        check_head(head, lm.config.n_head)
    check_positions(tokens, T)
    return page


# Kinds of parts whose payload contains a complete Plotly figure.
FIGURES = frozenset({"figure", "effectmap", "gridmap", "neurontop", "wrotemap"})


def _tab_of(job: str) -> Tab:
    """Return the tab with the button of a slow measure; raises InputError for an unknown name."""
    tab = next((tab for tab in TABS if job in tab.jobs), None)
    if tab is None:
        raise InputError("No measurement has this name.", job[:40], "Choose one of jobs().")
    return tab


@functools.cache
def _kinds() -> dict[str, str]:
    """Collect the kind of every part of every tab from the layouts."""
    return {slot.name: slot.kind for tab in TABS for slot in slots(tab.layout)}


def _places() -> Iterator[tuple[Tab, str, str]]:
    """Yield every figure with its tab and its view; the view is "" if the tab has none or shows the figure in all of
    them.
    """
    for tab in TABS:
        for name in tab.parts:
            if _kinds().get(name) in FIGURES:
                yield tab, _view_of(tab, name), name


@functools.cache
def _choosers() -> dict[str, tuple[str, str, Mapping[str, list[str]]]]:
    """Return for each tab the part that selects its views, the name of that control, and the parts of each view."""
    choosers = {}
    for tab in TABS:
        for name, payload in tab.fixed(words("en")).items():
            if "shows" in payload:
                choosers[tab.key] = name, payload["controls"][0]["name"], payload["shows"]
    return choosers


def _chooser(tab: Tab) -> tuple[str, str, Mapping[str, list[str]]]:
    """Return the selector of one tab; empty if the tab has no views."""
    return _choosers().get(tab.key, ("", "", {}))


def _view_of(tab: Tab, part: str) -> str:
    """Return the view that contains a part."""
    return next((view for view, parts in _chooser(tab)[2].items() if part in parts), "")


def _job_of(tab: Tab, part: str) -> str:
    """Return the slow measure that computes a part: the last one in its view whose button precedes it, else ""."""
    view = _view_of(tab, part)
    jobs = [job for job in tab.jobs if _view_of(tab, job) == view]
    before = [job for job in jobs if tab.parts.index(job) < tab.parts.index(part)]
    return (before[-1:] or jobs[:1] or [""])[0]


def _dressed(payload: Mapping[str, Any], theme: str) -> go.Figure:
    """Apply the page's style to a figure of a payload."""
    figure = go.Figure(unpacked_figure(payload["figure"]), skip_invalid=True)
    return dressed(figure, payload["title"], payload["source"], theme)


def dressed(figure: go.Figure, title: str, source: str, theme: str) -> go.Figure:
    """Apply the page's style to a figure: the colors of the light or dark page, height, title, and the source line."""
    text, ground, grid = _LOOKS[theme]
    meta = figure.layout.meta or {}
    axis = {"color": text, "gridcolor": grid}
    figure.update_xaxes(axis).update_yaxes(axis)
    if "scales" in meta and "coloraxis" in figure.layout:
        bar = {"tickcolor": text, "tickfont": {"color": text}}
        figure.layout.coloraxis.update(colorscale=scale_of(meta["scales"][theme]), colorbar=bar)
    title = f"{plotly_text(title)}<br><sup>{plotly_text(source)}</sup>"
    return figure.update_layout(
        template="none",
        font={"color": text},
        paper_bgcolor=ground,
        plot_bgcolor=ground,
        height=(meta.get("height") or _HEIGHT) + 60,
        margin={"l": 24, "r": 24, "t": 84 if figure.layout.annotations else 64, "b": 24},  # room for names of panels
        title={"text": title, "x": 0.02, "xanchor": "left", "y": 1, "yanchor": "top", "pad": {"t": 16}}
        | {"yref": "container", "font": {"size": 14}},
    )
