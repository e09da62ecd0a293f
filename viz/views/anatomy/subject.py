"""The architecture that the anatomy views describe: the loaded model, a well-known one, or a pasted config.json."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from model.anatomy.anatomy import MOST_TEXT, config_of
from model.anatomy.architectures import ARCHITECTURES
from model.gpt.config import ModelConfig
from viz.seam.programs.arguments import OneOf
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings, Text, form, read_all
from viz.seam.view import Asking, Payload, Seen
from viz.words import Words

FORM = "anatomy_form"  # name of the form's part and of its setting
LOADED, PASTED = "loaded", "pasted"
Chosen = tuple[str, str]  # an option of `WHICH`, and the pasted text
Which = Annotated[str, OneOf((LOADED, *ARCHITECTURES))]  # an endpoint parameter


def _label(words: Words, option: str) -> str:
    return ARCHITECTURES[option].label if option in ARCHITECTURES else words[f"which_{option}"]


# Who made them, by the beginnings of their keys; the others are for teaching.
MAKERS = {
    "OpenAI": ("gpt1", "gpt2", "gpt3", "gpt-oss"),
    "Meta": ("llama", "opt"),
    "Google": ("gemma",),
    "Mistral AI": ("mistral", "mixtral"),
    "Qwen": ("qwen",),
    "Microsoft": ("phi", "tinystories"),
    "Ai2": ("olmo",),
    "EleutherAI": ("gpt-j", "gpt-neo", "pythia"),
    "Hugging Face": ("smollm",),
    "IBM": ("granite",),
    "BigScience": ("bloom",),
    "NVIDIA": ("nemotron",),
    "TII": ("falcon",),
    "Liquid AI": ("lfm",),
    "Gu & Dao": ("mamba",),
}


def maker_of(key: str) -> str:
    """Return the maker of an architecture; "" for those that are for teaching."""
    return next((maker for maker, begins in MAKERS.items() if key.startswith(begins)), "")


def _group(words: Words, option: str) -> str:
    return (maker_of(option) or words["which_teaching"]) if option in ARCHITECTURES else ""


_GROUPED = sorted(ARCHITECTURES, key=lambda key: [*MAKERS, ""].index(maker_of(key)))
WHICH = Choice("which", (LOADED, *_GROUPED, PASTED), label=_label, group=_group)
# One character over the limit, so that a longer text is rejected instead of truncated.
CONFIG = Text("config", max_length=MOST_TEXT + 1, lines=6, when={"which": (PASTED,)})


@dataclass(frozen=True)
class Subject:
    """A config with its name and source; both are "" for a pasted config."""

    key: str  # an option of `WHICH`
    label: str
    config: ModelConfig
    source: str

    @property
    def live(self) -> bool:
        """True for the loaded model, the only one with live numbers."""
        return self.key == LOADED


def read(value: object, scene: Scene) -> Chosen:
    """Parse the form's value. An empty pasted config selects the loaded model."""
    which, text = read_all((WHICH, CONFIG), value, scene).values()
    if which != PASTED:
        return which, ""
    return (which, text) if text.strip() else (LOADED, "")


def draw(seen: Seen) -> Payload:
    """Build the form, which is the same for every scene."""
    return form((WHICH, CONFIG), Words(seen.all_words, "subject.settings"), None)


ASKING = Asking("controls", read, draw, shared=True, declares=(WHICH, CONFIG), declares_in="subject.settings")


def subject_of(scene: Scene, settings: Settings) -> Subject:
    """Return the selected architecture. Raises PlaygroundError if a pasted config cannot be parsed."""
    which, text = settings[FORM]
    if which == PASTED:
        return Subject(which, "", config_of(text), "")
    if which == LOADED:
        return Subject(which, scene.model.label, scene.model.config, "")
    known = ARCHITECTURES[which]
    return Subject(which, known.label, known.config, known.source)


def is_live(settings: Settings) -> bool:
    """Return whether the loaded model is selected."""
    return settings[FORM][0] == LOADED


def published_of(config: ModelConfig) -> tuple[int, str] | None:
    """Return the published parameter count of a config and its source.

    None if no known architecture with a published count has exactly this config.
    """
    for architecture in ARCHITECTURES.values():
        if architecture.published is not None and architecture.config == config:
            return architecture.published, architecture.source
    return None


# --- drawing ---


def label_of(subject: Subject, seen: Seen) -> str:
    """Return the display name of the architecture."""
    return subject.label or seen.all_words["subject.settings.which_pasted"]


def source_of(subject: Subject, seen: Seen) -> str:
    """Describe where the config comes from: a publication, the loaded weights, or the visitor."""
    return subject.source or seen.all_words["subject.weights" if subject.live else "subject.by_you"]


def derived(subject: Subject, seen: Seen) -> str:
    """Format the source line of numbers computed from the config."""
    text = seen.all_words["subject.derived"]
    return text.format(model=label_of(subject, seen), source=source_of(subject, seen))


def config_python(seen: Seen, subject: Subject, lines: Sequence[str], imports: Sequence[str] = ()) -> str:
    """Build Python code that binds the architecture's config to `config` and then runs `lines`.

    A pasted config is read from the file config.json.
    """
    if subject.live:
        return script(seen.facts, ["config = lm.config", *lines], imports)
    config = f"config = ARCHITECTURES[{subject.key!r}].config"
    import_line = "from model.anatomy.architectures import ARCHITECTURES"
    if subject.key == PASTED:
        config = 'config = config_of(open("config.json").read())'
        import_line = "from model.anatomy.anatomy import config_of"
    return "\n".join([*sorted({import_line, *imports}), "", config, *lines])
