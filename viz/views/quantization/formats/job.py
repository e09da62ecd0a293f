"""The settings of the view of formats, its measurement, and what its pictures share: names, errors and lines."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

from model.progress import Progress
from model.quantization.experiments import Outcome, kinds_of, layer_of, measure, usable
from model.quantization.formats import FORMATS, USUAL, Format, WeightError, stored, weight_error
from model.quantization.speed import RUNNERS, tokens_per_second
from model.quantization.texts import held_out_ids
from viz.page import background
from viz.page.parts import choice
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Values
from viz.views.activations.norm.figures import told
from viz.words import section

WHICH = {"usual": USUAL, "all": tuple(FORMATS)}
PROMPT_TOKENS = 256  # of a long prompt the first ones are measured


@dataclass(frozen=True)
class Asked:
    """What the form says."""

    which: str  # of WHICH
    head: bool  # whether embedding and output head are rounded, too
    one: str  # the format that is looked at
    matrix: str  # and the matrix of the picked head's layer


@dataclass(frozen=True, eq=False)
class Run:
    """What the button found."""

    outcomes: Mapping[str, Outcome]
    text: int  # tokens of the held-out text


def asked_of(scene: Scene, values: Values) -> Asked:
    """The form's settings, checked."""
    form, kinds = values.get("formats_form"), kinds_of(scene.model.model)
    which = choice(form, "which", tuple(WHICH))
    there = tuple(key for key in FORMATS if key != "float32")
    one = choice(form, "one", ("int4-32", *there))
    head = isinstance(form, dict) and form.get("head") is True
    return Asked(which, head, one, choice(form, "matrix", ("down", *kinds)))


def prompt_ids(scene: Scene) -> list[int]:
    """The first tokens of the prompt."""
    return scene.trace.tokens.ids.tolist()[:PROMPT_TOKENS]


def key_of(scene: Scene, asked: Asked) -> tuple:
    """What decides the measurement: the plain model, the prompt and which formats; edits are left out."""
    return ("formats", scene.model.id, tuple(prompt_ids(scene)), limit_of(scene), asked.which, asked.head)


def limit_of(scene: Scene) -> int:
    """Tokens of the held-out text."""
    return min(PROMPT_TOKENS, scene.playground.options.max_tokens)


def plan(scene: Scene, values: Values) -> background.Job:
    """What the button starts."""
    asked, model = asked_of(scene, values), scene.model
    key, ids = key_of(scene, asked), prompt_ids(scene)

    def work(progress: Progress) -> Run:
        text = held_out_ids(model, limit_of(scene))
        found, maps = measure(model.model, (ids, text), WHICH[asked.which], head=asked.head, progress=progress)
        made = {}
        for each in found:
            speed = None
            if each.key in RUNNERS:
                speed = tokens_per_second(model.model, each.key, ids, lambda: progress(1, 1, ""))
            made[each.key] = dataclasses.replace(each, speed=speed)
        background.kept(scene.playground, (*key, "maps"), lambda: maps)
        return Run(made, len(text))

    return background.Job(key, work)


def usable_of(scene: Scene, asked: Asked) -> list[Format]:
    """The asked formats that this model's matrices can be stored in."""
    return [FORMATS[key] for key in WHICH[asked.which] if usable(scene.model.model, FORMATS[key])]


def name_of(kind: Format, words: Mapping[str, str]) -> str:
    """What a format is called."""
    scheme = kind.scheme
    if scheme is None:
        return words["formats.name_gguf"].format(type=kind.gguf) if kind.gguf else words[f"formats.name_{kind.key}"]
    name = words[f"formats.name_{scheme.per}"].format(bits=scheme.bits, group=scheme.group)
    return name if scheme.symmetric else words["formats.name_affine"].format(name=name)


def short_of(kind: Format) -> str:
    """A code of the format for a label: int4 g32, Q4_1; "z" where it has zero points."""
    scheme = kind.scheme
    if scheme is None:
        return kind.gguf or kind.key
    shared = f"g{scheme.group}" if scheme.per == "group" else scheme.per
    return f"int{scheme.bits} {shared}{'' if scheme.symmetric else ' z'}"


def family_of(kind: Format) -> str:
    """Of viz.views.quantization.formats.figures.FAMILIES."""
    if kind.scheme is None:
        return "gguf" if kind.gguf else "float"
    return "int8" if kind.scheme.bits == 8 else "few"


# --- numbers -------------------------------------------------------------------------------------------


def matrix_errors(scene: Scene, asked: Asked) -> dict[str, WeightError]:
    """The error of the one matrix under every asked format, worked out once."""
    layer = scene.head[0]

    def make() -> dict[str, WeightError]:
        weight = layer_of(scene.model.model.blocks[layer], asked.matrix).weight
        fitting = (FORMATS[key] for key in WHICH[asked.which] if FORMATS[key].fits(weight.shape[1]))
        return {kind.key: weight_error(weight, *stored(weight, kind)) for kind in fitting}

    return background.kept(scene.playground, ("formats matrix", scene.model.id, layer, asked.matrix, asked.which), make)


def place_of(scene: Scene, asked: Asked) -> str:
    """The chosen matrix and its layer, in words."""
    return scene.words["formats.place"].format(layer=scene.head[0], matrix=asked.matrix)


def measured_line(scene: Scene, run: Run) -> str:
    """The line below what was measured: whose numbers, on how many tokens."""
    told_ = section(scene.words, "formatstable")["source"]
    model = scene.model
    line = told_.format(model=model.label, dtype=model.dtype, prompt=len(prompt_ids(scene)), text=run.text)
    return f"{line} · {scene.words['formats.plain']}" if scene.picked.edits else line


def measure_lines(scene: Scene, asked: Asked, last: str) -> str:
    """Python that measures the formats again, and then `last`."""
    keys = "USUAL" if asked.which == "usual" else "tuple(FORMATS)"
    lines = [
        f"text = held_out_ids(lm, {limit_of(scene)})",
        f"prompt = run.tokens.ids.tolist()[:{PROMPT_TOKENS}]",
        f"found, maps = measure(lm.model, (prompt, text), {keys}, head={asked.head})",
        last,
    ]
    imports = [
        "from model.quantization.formats import FORMATS, USUAL",
        "from model.quantization.experiments import measure",
        "from model.quantization.texts import held_out_ids",
    ]
    return python_lines(scene, lines, imports)


def matrix_lines(scene: Scene, asked: Asked, last: str) -> str:
    """Python that takes the chosen matrix, and then `last`."""
    owner = "attn" if asked.matrix in "qkvo" else "mlp"
    lines = [f"weight = lm.model.blocks[{scene.head[0]}].{owner}.{asked.matrix}.weight", last]
    return python_lines(scene, lines, ["from model.quantization.formats import FORMATS, stored, weight_error"])


def decibels(snr: float | None) -> str:
    """A signal-to-noise ratio; None is no noise at all."""
    return "∞" if snr is None else f"{snr:.1f}"


def perplexity(loss: float | None) -> str:
    """exp(loss) in four digits; "–" for a text of one token."""
    return "–" if loss is None else told(float(f"{math.exp(min(loss, 700)):.4g}"))
