"""A tab: a row of buttons, one per view, and the selected view, initially the first one."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from model.api import LanguageModel
from model.gpt.config import ModelConfig
from model.gpt.presets import PRESETS
from viz.seam import panels
from viz.seam.jobs.background import BackgroundJob
from viz.seam.layout import Box, Node, Slot, of_view, slots
from viz.seam.needs import lacking
from viz.seam.programs.endpoint import Endpoint
from viz.seam.scene import Scene
from viz.seam.settings import choice
from viz.seam.view import Payload, Picture, Values, View
from viz.words import Catalogue, Words, section

Plan = Callable[[Scene, Values], BackgroundJob]  # builds the job that a button starts


def _absent(views: Sequence[View], config: ModelConfig, model: LanguageModel | None = None) -> tuple[str, ...]:
    """Return the views that are not for a model with this config, and those that need what the model does not give."""

    def is_absent(view: View) -> bool:
        if view.offered is None:
            return False
        return (model is not None and lacking(model, view.needs) is not None) or not view.offered(config)

    return tuple(view.key for view in views if is_absent(view))


@dataclass(frozen=True, eq=False)
class Tab:
    """An entry of TABS. Its label is the word "tab.<key>"; names of parts are unique on the page.

    A view that fills the whole tab and shares its name needs no button, and no text beyond the tab's question. The
    view `beside` is placed in a column to the left of the selected view, and is drawn with each. The parts `left` of
    the views, by their names on the page, are placed in that column, too.
    """

    key: str
    views: tuple[View, ...]  # one is shown at a time
    beside: View | None = None
    left: tuple[str, ...] = ()

    @property
    def all_views(self) -> tuple[View, ...]:
        """All views: the one in `beside`, if any, then those that can be selected."""
        return (*((self.beside,) if self.beside else ()), *self.views)

    @property
    def is_single(self) -> bool:
        """True if the tab consists of a single view."""
        return [view.key for view in self.views] == [self.key]

    @property
    def chooser(self) -> str:
        """The name of the part that holds the row of views and their shared settings."""
        return f"{self.key}_view"

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """All parts by their names on the page. A part shared by several views is listed once."""
        always = panels.names_of(self.beside) if self.beside else ()
        shown = dict.fromkeys((*always, *(name for view in self.views for name in self._shown(view))))
        return (f"{self.key}_question", *(() if self.is_single else (self.chooser,)), *shown)

    @cached_property
    def asks(self) -> tuple[str, ...]:
        """The parts whose "select" event requests a redraw; `draw` receives their values."""
        asking = dict.fromkeys(name for view in self.all_views for name in panels.asks_of(view))
        return (*(() if self.is_single else (self.chooser,)), *asking)

    @cached_property
    def keeps(self) -> tuple[str, ...]:
        """The parts with a value that only the page reads; it is stored as part of the page's state in a link."""
        return tuple(view.part_name(name) for view in self.all_views for name, part in view.parts.items() if part.kept)

    @cached_property
    def jobs(self) -> Mapping[str, Plan]:
        """The functions that start jobs, by the part that contains the button."""
        return {
            view.part_name(name): self._plan(view, part.job)
            for view in self.all_views
            for name, part in view.parts.items()
            if part.job
        }

    @cached_property
    def api(self) -> tuple[Endpoint, ...]:
        """The functions that the views offer to programs, each with the view whose numbers it returns."""
        return tuple(
            dataclasses.replace(each, views=each.views or (self._place(view),))
            for view in self.all_views
            for each in view.api
        )

    @cached_property
    def layout(self) -> tuple[Node, ...]:
        """The layout of the parts. A part shared by several views is placed in the first of them."""
        line = (
            Slot(f"{self.key}_question", "question"),
            *(() if self.is_single else tuple(Slot(f"{view.key}_about", "about") for view in self.views)),
            *(Slot(f"{view.key}_howto", "howto") for view in self.views),
        )
        chooser = () if self.is_single else (Slot(self.chooser, "controls", {}),)
        top = (*chooser, Box("row", line, "pg-asked"))
        rows: list[Node] = []
        placed = set(self.left)
        for view in self.views:
            rows += of_view(view, placed)
            placed.update(panels.names_of(view))
        left = (*(of_view(self.beside) if self.beside else ()), *self._left())
        if not left:
            return (*top, *rows)
        columns = Box("column", left), Box("column", tuple(rows))
        return (*top, Box("row", columns, "pg-columns", f"{self.key}-row"))

    def _left(self) -> tuple[Slot, ...]:
        """Return the parts that are placed to the left of the views, in the order of `left`."""
        found = {slot.name: slot for view in self.views for slot in slots(of_view(view))}
        return tuple(found[name] for name in self.left)

    def fixed(self, words: Catalogue) -> dict[str, Payload]:
        """Build the payloads that depend only on the language."""
        payloads: dict[str, Payload] = {f"{self.key}_question": {"text": words[f"tab.{self.key}_question"]}}
        if not self.is_single:
            # Until a model is known, the views are those for a GPT-2.
            payloads[self.chooser] = self._choosing(words, _absent(self.views, PRESETS["gpt2"]))
        for view in self.all_views:
            payloads |= panels.fixed(view, words)
        for view in self.views:
            parts = section(words, f"{view.key}.howto")
            payloads[f"{view.key}_howto"] = section(words, "howto") | {"parts": parts}
            if not self.is_single:
                payloads[f"{view.key}_about"] = {"text": words[f"{view.key}.about"]}
        return payloads

    def draw(self, scene: Scene, values: Values) -> dict[str, Picture]:
        """Draw the parts that depend on the scene or on settings: those of the selected view, and of `beside`."""
        chosen = choice(values.get(self.chooser), "view", tuple(view.key for view in self.views))
        pictures: dict[str, Picture] = {}
        if any(view.offered for view in self.views):
            pictures[self.chooser] = self._chooser(scene)
        for view in self.all_views:
            if view is self.beside or view.key == chosen:
                pictures |= panels.pictures(view, scene, self._values_for(view, values))
        return pictures

    def _shown(self, view: View) -> tuple[str, ...]:
        """Return all parts that are visible with a view, including its explanations."""
        return (f"{view.key}_howto", *(() if self.is_single else (f"{view.key}_about",)), *panels.names_of(view))

    def _place(self, view: View) -> str:
        return self.key if view.key == self.key else f"{self.key}.{view.key}"

    def _plan(self, view: View, measure: str) -> Plan:
        def plan(scene: Scene, values: Values) -> BackgroundJob:
            settings = panels.settings_of(view, scene, self._values_for(view, values))
            return panels.job_of(view, measure, scene, settings)

        return plan

    def _values_for(self, view: View, values: Values) -> Values:
        """Return the page's values, with the shared settings merged into the view's own form."""
        shared, form = values.get(self.chooser), values.get(f"{view.key}_form")
        if not view.tab_settings or not isinstance(shared, Mapping):
            return values
        chosen = {each.name: shared[each.name] for each in view.tab_settings if each.name in shared}
        return {**values, f"{view.key}_form": {**(form if isinstance(form, Mapping) else {}), **chosen}}

    def _chooser(self, scene: Scene) -> Picture:
        """Draw the row of views without those that are not for this model."""
        absent = _absent(self.views, scene.model.config, scene.model)
        key = (self.chooser, absent, scene.language)
        return Picture(key, lambda: self._choosing(scene.words, absent))

    def _choosing(self, words: Catalogue, absent: tuple[str, ...]) -> Payload:
        """Build the row of views, with the shared settings beside it, each visible with the views that name it.

        The buttons of the views in `absent` are hidden unless they are selected.
        """
        row = {
            "name": "view",
            "kind": "views",
            "label": words["page.view"],
            "value": self.views[0].key,
            "absent": list(absent),
            "options": [
                [view.key, *(words.get(f"{view.key}.{name}", "") for name in ("view", "term", "stage"))]
                for view in self.views
            ],
        }
        shared = Words(words, f"{self.key}.settings")
        controls: dict[str, Payload] = {}
        for view in self.views:
            for each in view.tab_settings:
                control = controls.setdefault(each.name, each.control(shared, None) | {"when": {"view": []}})
                control["when"]["view"].append(view.key)
        return {
            "controls": [row, *controls.values()],
            "help": words["form.help"],
            "shows": {view.key: list(self._shown(view)) for view in self.views},
        }
