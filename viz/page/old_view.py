"""A tab of views which take turns: each has its question, its pictures, and how to read them."""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import gradio as gr

from viz.api.endpoint import Endpoint
from viz.page import panels
from viz.page import view as view_module
from viz.page.background import Job
from viz.page.parts import choice, part
from viz.page.scene import Scene
from viz.page.tab import Picture, Shared, Tab, Values
from viz.words import Words, section


@dataclass(frozen=True)
class View:
    """One view of a tab. Its words are the sections `<key>` and `howto_<key>`; part names are unique on the page."""

    key: str
    build: Callable[[], dict[str, gr.HTML]]  # its parts, laid out
    draw: Callable[[Scene, Values], dict[str, Picture]]
    parts: tuple[str, ...]
    fixed: Callable[[Mapping[str, str]], dict[str, dict]] = lambda words: {}  # payloads that depend on nothing else
    asks: tuple[str, ...] = ()  # parts whose "select" asks for a new drawing
    jobs: Mapping[str, Callable[[Scene, Values], Job]] = field(default_factory=dict)
    wire: Callable[[Mapping[str, gr.HTML], Shared], None] | None = None  # events beyond the page's one pipeline

    @property
    def shown(self) -> tuple[str, ...]:
        """All that is on the page while this view is: what it shows and how to read it come with its parts."""
        return (f"{self.key}_howto", f"{self.key}_about", *self.parts)


def compiled(view: "view_module.View", built: Collection[str] = (), chooser: str = "") -> View:
    """A view that declares itself, as the page's pipeline takes it.

    `built`: shared parts that are on the page; `chooser`: the part that holds the row of views and its settings.
    """

    def given(values: Values) -> Values:
        beside = values.get(chooser)
        if not view.tab_settings or not isinstance(beside, Mapping):
            return values
        return {**values, f"{view.key}_form": {**form_of(values), **chosen(beside)}}

    def form_of(values: Values) -> Mapping:
        own = values.get(f"{view.key}_form")
        return own if isinstance(own, Mapping) else {}

    def chosen(beside: Mapping) -> dict:
        return {each.name: beside[each.name] for each in view.tab_settings if each.name in beside}

    def build() -> dict[str, gr.HTML]:
        made: dict[str, gr.HTML] = {}

        def one(name: str) -> None:
            if view.part_name(name) in built:
                return
            each = panels.kind_of(view, name)
            value = {} if each.read or name == "form" else None
            made[view.part_name(name)] = part(
                view.part_name(name), None, kind=each.kind, value=value, events=each.events
            )

        def stack(layout: tuple | str) -> None:
            for each in (layout,) if isinstance(layout, str) else layout:
                if isinstance(each, str):
                    one(each)
                else:
                    with gr.Row(elem_classes="pg-columns"):
                        for column in each:
                            with gr.Column(min_width=320):
                                stack(column)

        stack(view.layout)
        return made

    jobs = {}
    for name, each in view.parts.items():
        if each.job:

            def plan(scene: Scene, values: Values, measure: str = each.job) -> Job:
                return panels.job_of(view, measure, scene, panels.settings_of(view, scene, given(values)))

            jobs[view.part_name(name)] = plan
    return View(
        view.key,
        build,
        lambda scene, values: panels.pictures(view, scene, given(values)),
        parts=panels.names_of(view),
        fixed=lambda words: panels.fixed(view, words),
        asks=panels.asks_of(view),
        jobs=jobs,
    )


def tab_of(key: str, listed: "tuple[View | view_module.View, ...]", beside: "view_module.View | None" = None) -> Tab:
    """The tab: a row of buttons, one a view, and the view that is chosen; the first one at the start.

    A view that is the whole tab and has its name needs no button, and no more said of it than the tab's question.
    `beside` stands in a column of its own, left of whichever view is chosen, and is drawn with each.
    """
    views: list[View] = []
    chooser = f"{key}_view"
    for each in listed:
        built = {name for view in views for name in view.parts}
        views.append(each if isinstance(each, View) else compiled(each, built, chooser))
    alone, always = [view.key for view in views] == [key], (compiled(beside),) if beside else ()
    declared = tuple(each for each in (*((beside,) if beside else ()), *listed) if isinstance(each, view_module.View))

    def build(first: Mapping[str, dict]) -> dict[str, gr.HTML]:
        made = {f"{key}_question": part(f"{key}_question", None, kind="question")}
        made |= {f"{view.key}_howto": part(f"{view.key}_howto", None, kind="howto") for view in views}
        if not always:
            return made | rows()
        with gr.Row(elem_id=f"{key}-row", elem_classes="pg-columns"):
            with gr.Column(min_width=320):
                for view in always:
                    made |= view.build()
            with gr.Column(min_width=320):
                return made | rows()

    def rows() -> dict[str, gr.HTML]:
        made = {} if alone else {chooser: part(chooser, None, kind="controls", value={})}
        for view in views:
            if not alone:
                made[f"{view.key}_about"] = part(f"{view.key}_about", None, kind="about")
            made |= view.build()
        return made

    def fixed(words: Mapping[str, str]) -> dict[str, dict]:
        options = [[view.key, words[f"{view.key}.view"]] for view in views]
        choosing = {
            "controls": [
                {
                    "name": "view",
                    "kind": "views",
                    "label": words["page.view"],
                    "value": views[0].key,
                    "options": options,
                },
                *beside_views(key, declared, words),
            ],
            "shows": {view.key: list(view.shown) for view in views},
        }
        payloads = {f"{key}_question": {"text": words[f"tab.{key}_question"]}}
        payloads |= {} if alone else {chooser: choosing}
        for view in views:
            howto = {
                "title": words["howto.title"],
                "parts": section(words, f"{view.key}.howto") or section(words, f"howto_{view.key}"),
            }
            about = {} if alone else {f"{view.key}_about": {"text": words[f"{view.key}.about"]}}
            payloads |= {**about, f"{view.key}_howto": howto, **view.fixed(words)}
        return payloads

    def draw(scene: Scene, values: Values) -> dict[str, Picture]:
        chosen = choice(values.get(chooser), "view", tuple(view.key for view in views))
        found: dict[str, Picture] = {}
        for view in (*always, *(view for view in views if view.key == chosen)):
            found |= view.draw(scene, values)
        return found

    def wire(parts: Mapping[str, gr.HTML], shared: Shared) -> None:
        for view in views:
            if view.wire:
                view.wire(parts, shared)

    # A part may be shown by several views: the first one builds it.
    own = (name for view in views for name in view.shown if not alone or name != f"{view.key}_about")
    shown = dict.fromkeys((*(name for view in always for name in view.parts), *own))
    choosers = () if alone else (chooser,)
    parts = (f"{key}_question", *choosers, *shown)
    asks = (*choosers, *dict.fromkeys(name for view in (*always, *views) for name in view.asks))
    jobs = {name: plan for view in (*always, *views) for name, plan in view.jobs.items()}
    api = offered(key, declared)
    return Tab(key, build, fixed, draw, parts=parts, asks=asks, jobs=jobs, wire=wire, views=declared, api=api)


def beside_views(tab: str, views: "tuple[view_module.View, ...]", words: Mapping[str, str]) -> list[dict]:
    """The controls beside the row of views, each shown with the views that name it."""
    own = Words(words, f"{tab}.settings")
    found: dict[str, dict] = {}
    for view in views:
        for each in view.tab_settings:
            control = found.setdefault(each.name, each.control(own, None) | {"when": {"view": []}})
            control["when"]["view"].append(view.key)
    return list(found.values())


def offered(tab: str, views: tuple) -> tuple[Endpoint, ...]:
    """The endpoints of views that declare themselves, with the views whose numbers they give."""
    return tuple(
        dataclasses.replace(each, views=each.views or (tab if view.key == tab else f"{tab}.{view.key}",))
        for view in views
        if isinstance(view, view_module.View)
        for each in view.api
    )
