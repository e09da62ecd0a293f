"""Which architecture the views of anatomy are about: the loaded model, a well-known one, or a pasted config.json."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from model.anatomy.anatomy import ARCHITECTURES, MOST_TEXT, config_of
from model.gpt.config import ModelConfig
from viz.seam.programs.arguments import OneOf
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings, Text, form, read_all
from viz.seam.view import Asking, Payload, Seen
from viz.words import Words

FORM = "anatomy_form"  # the asking part and its setting
LOADED, PASTED = "loaded", "pasted"
Chosen = tuple[str, str]  # of `WHICH`, and the pasted text
Which = Annotated[str, OneOf((LOADED, *ARCHITECTURES))]  # of an endpoint


def _label(words: Words, option: str) -> str:
    return ARCHITECTURES[option].label if option in ARCHITECTURES else words[f"which_{option}"]


WHICH = Choice("which", (LOADED, *ARCHITECTURES, PASTED), label=_label)
# One character more than can be read, so that a longer text is refused and not cut.
CONFIG = Text("config", max_length=MOST_TEXT + 1, lines=6, when={"which": (PASTED,)})


@dataclass(frozen=True)
class Subject:
    """A config with its name and its source, both "" for a pasted one."""

    key: str  # of WHICH
    label: str
    config: ModelConfig
    source: str

    @property
    def live(self) -> bool:
        """Whether it is the loaded model, so that numbers of the prompt can be shown beside it."""
        return self.key == LOADED


def read(value: object, scene: Scene) -> Chosen:
    """Return the form's value; the loaded model where nothing is pasted."""
    which, text = read_all((WHICH, CONFIG), value, scene).values()
    if which != PASTED:
        return which, ""
    return (which, text) if text.strip() else (LOADED, "")


def draw(seen: Seen) -> Payload:
    """Return the form; the same in every scene."""
    return form((WHICH, CONFIG), Words(seen.all_words, "subject.settings"), None)


ASKING = Asking("controls", read, draw, shared=True, declares=(WHICH, CONFIG), declares_in="subject.settings")


def subject_of(scene: Scene, settings: Settings) -> Subject:
    """Return the architecture that was chosen; raises PlaygroundError for a pasted config that cannot be read."""
    which, text = settings[FORM]
    if which == PASTED:
        return Subject(which, "", config_of(text), "")
    if which == LOADED:
        return Subject(which, scene.model.label, scene.model.config, "")
    known = ARCHITECTURES[which]
    return Subject(which, known.label, known.config, known.source)


def is_live(settings: Settings) -> bool:
    """Whether the loaded model is chosen."""
    return settings[FORM][0] == LOADED


def published_of(config: ModelConfig) -> tuple[int, str] | None:
    """Return the published number of parameters of an architecture with exactly this config, and its source."""
    for architecture in ARCHITECTURES.values():
        if architecture.published is not None and architecture.config == config:
            return architecture.published, architecture.source
    return None


# --- what is drawn ---


def label_of(subject: Subject, seen: Seen) -> str:
    """Return the name of the architecture."""
    return subject.label or seen.all_words["subject.settings.which_pasted"]


def source_of(subject: Subject, seen: Seen) -> str:
    """Where the config is from."""
    return subject.source or seen.all_words["subject.weights" if subject.live else "subject.by_you"]


def derived(subject: Subject, seen: Seen) -> str:
    """Return the source line of what follows from a config."""
    text = seen.all_words["subject.derived"]
    return text.format(model=label_of(subject, seen), source=source_of(subject, seen))


def config_python(seen: Seen, subject: Subject, lines: Sequence[str], imports: Sequence[str] = ()) -> str:
    """`lines` after those that make the architecture's config as `config`; a pasted one is read from a file."""
    if subject.live:
        return script(seen.facts, ["config = lm.config", *lines], imports)
    config = f"config = ARCHITECTURES[{subject.key!r}].config"
    needed = "from model.anatomy.anatomy import ARCHITECTURES"
    if subject.key == PASTED:
        config = 'config = config_of(open("config.json").read())'
        needed = "from model.anatomy.anatomy import config_of"
    return "\n".join([*sorted({needed, *imports}), "", config, *lines])
