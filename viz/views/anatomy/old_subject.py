"""Which model the anatomy is of: the loaded one, a well-known architecture, or a config.json that somebody pastes."""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from model.anatomy.anatomy import ARCHITECTURES, config_of
from model.gpt.config import ModelConfig, to_dict
from viz.page.parts import choice
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Values

FORM = "anatomy_form"  # the part that asks, shown by every view that is of a `Subject`
LOADED, PASTED = "loaded", "pasted"
WHICH = (LOADED, *ARCHITECTURES, PASTED)


@dataclass(frozen=True)
class Subject:
    """What is looked at. `live`: it is the loaded model, so that numbers of the prompt can be shown beside it."""

    key: str  # of WHICH
    label: str
    config: ModelConfig
    source: str  # where the config is from
    live: bool

    @property
    def id(self) -> str:
        """A short name of the config, for keys of pictures."""
        return hashlib.sha256(repr(to_dict(self.config)).encode()).hexdigest()[:12]


def form(words: Mapping[str, str]) -> dict:
    """The payload of the part that asks."""
    named = [[key, architecture.label] for key, architecture in ARCHITECTURES.items()]
    options = [[LOADED, words["subject.loaded"]], *named, [PASTED, words["subject.pasted"]]]
    return {
        "controls": [
            {"name": "which", "kind": "choice", "label": words["subject.which"], "value": LOADED, "options": options},
            {
                "name": "config",
                "kind": "text",
                "lines": 6,
                "label": words["subject.config"],
                "value": "",
                "placeholder": words["subject.placeholder"],
                "when": {"which": [PASTED]},
            },
        ]
    }


def asked_of(values: Values) -> tuple[str, str]:
    """Which of WHICH is asked for, and the text where it is a pasted one; the loaded model where nothing is pasted."""
    value = values.get(FORM)
    which = choice(value, "which", WHICH)
    if which != PASTED:
        return which, ""
    text = value.get("config")
    return (which, text) if isinstance(text, str) and text.strip() else (LOADED, "")


def subject_key(scene: Scene, values: Values) -> tuple[str, ...]:
    """What decides the subject, for keys of pictures: it can be had of a text that is no config."""
    which, text = asked_of(values)
    return (scene.model.id, which, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12])


def subject_of(scene: Scene, values: Values) -> Subject:
    """What the visitor chose; raises PlaygroundError for a pasted config that cannot be read."""
    which, text = asked_of(values)
    if which == PASTED:
        return Subject(which, scene.words["subject.pasted"], config_of(text), scene.words["subject.by_you"], False)
    if which == LOADED:
        return Subject(which, scene.model.label, scene.model.config, scene.words["subject.weights"], True)
    named = ARCHITECTURES[which]
    return Subject(which, named.label, named.config, named.source, False)


def shape_of(config: ModelConfig, said: Mapping[str, str]) -> str:
    """The sizes in one line. `said`: the word "subject.shape"."""
    return said["subject.shape"].format(**dataclasses.asdict(config))


def config_python(scene: Scene, subject: Subject, lines: Sequence[str], imports: Sequence[str] = ()) -> str:
    """`lines` after those that make the subject's config as `config`; of a pasted one, from a file of it."""
    if subject.live:
        return python_lines(scene, ["config = lm.config", *lines], imports)
    made, needed = f"config = ARCHITECTURES[{subject.key!r}].config", "from model.anatomy.anatomy import ARCHITECTURES"
    if subject.key == PASTED:
        made, needed = 'config = config_of(open("config.json").read())', "from model.anatomy.anatomy import config_of"
    return "\n".join([*sorted({needed, *imports}), "", made, *lines])
