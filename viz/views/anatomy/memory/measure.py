"""Memory computed from a config, and memory measured on the loaded model."""

from dataclasses import dataclass, replace

import numpy as np

from model.anatomy import measured_memory
from model.anatomy.anatomy import n_params
from model.anatomy.footprint import (
    FORMATS,
    MODES,
    Setting,
    counts_activations,
    held_bytes,
    kept_bytes,
    largest,
    n_tensors,
    optimizer_bytes,
    parts,
    published_kept,
    total_bytes,
    weights_bytes,
    working_bytes,
)
from model.anatomy.measured_memory import MOST_TOKENS, MemoryUse
from model.generation.cache_costs import ITEM, tensor_bytes
from model.progress import Progress
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Number, Range, Settings
from viz.views.anatomy.subject import Subject, subject_of

BUDGETS = (8, 16, 24, 80)  # GB
GB = 10**9
POINTS = 65  # number of points in the figure
ITEMS = {"float32": 4, "bfloat16": 2}  # bytes per number
_INFERENCE = {"mode": ("inference",)}
MODE = Choice("mode", MODES)
FORMAT = Choice("form", tuple(FORMATS), when=_INFERENCE)
NUMBER = Choice("item", tuple(ITEMS), when=_INFERENCE)
BATCH = Number("batch", 1, 4096, 1)
TOKENS = Range("tokens", 1, 1 << 20, default=0, kind="number", blank=True)  # 0: the model's full context length
ATTENTION = Choice("attention", ("fused", "explicit"))


@dataclass(frozen=True)
class Rules:
    """Bytes by simple rules, displayed beside the exact numbers. Activations take 2 bytes per number."""

    params: int  # a count, not bytes
    tensors: int  # a count, not bytes
    token: int  # cache of one token
    every: int  # the same if every query head had its own keys and values
    state: int  # states of a text of any length
    adam: int  # optimizer state of Adam
    fused: int | None  # activations saved in a training step; None if they are not counted
    explicit: int | None  # the same including the attention matrices
    published: tuple[int, int] | None  # by Korthikanti's formula, with and without those matrices


@dataclass(frozen=True)
class Memory:
    """Memory of one architecture for one workload, in bytes."""

    subject: Subject
    setting: Setting
    x: list[int]  # context lengths in tokens
    curves: dict[str, list[int]]  # kind of memory -> bytes at each context length
    parts: dict[str, int]  # kind of memory -> bytes at the selected context length
    smallest: int  # total for batch size 1 and context length 1
    fits: dict[int, tuple[int, int]]  # GB -> longest context, largest batch size; 0 if nothing fits
    formats: dict[str, int]  # number format -> bytes of the weights
    rules: Rules

    @property
    def left_out(self) -> bool:
        """Whether activations are left out, since they are not counted for this architecture."""
        return not counts_activations(self.subject.config)


def measure(scene: Scene, settings: Settings) -> Memory:
    """Compute the memory of the selected architecture from its config alone."""
    subject = subject_of(scene, settings)
    config, setting = subject.config, setting_of(subject, settings)
    x = contexts(max(round(1.25 * setting.tokens), 16))
    parts_at = [parts(config, replace(setting, tokens=T)) for T in x]
    return Memory(
        subject,
        setting,
        x,
        {key: [each[key] for each in parts_at] for key in parts_at[0]},
        parts(config, setting),
        total_bytes(config, replace(setting, batch=1, tokens=1)),
        {size: largest(config, setting, size * GB) for size in BUDGETS},
        {form: weights_bytes(config, form) for form in FORMATS},
        _rules(subject, setting),
    )


def setting_of(subject: Subject, settings: Settings) -> Setting:
    """Convert the form to a `Setting`. The default context is the model's full context length."""
    return Setting(
        mode=settings.mode,
        form=settings.form,
        batch=settings.batch,
        tokens=settings.tokens or min(subject.config.n_ctx, TOKENS.high),
        item=ITEMS[settings.item],
        explicit=settings.attention == "explicit",
    )


def contexts(longest: int) -> list[int]:
    """List integer context lengths from 1 to `longest`, evenly spaced."""
    return np.unique(np.linspace(1, longest, POINTS).round().astype(int)).tolist()


def _rules(subject: Subject, setting: Setting) -> Rules:
    c, B, T = subject.config, setting.batch, setting.tokens
    plain = c.n_kv_head == c.n_head and c.n_head * c.d_head == c.d_model and not c.gated
    counted = counts_activations(c)
    applies = counted and plain and c.d_mlp == 4 * c.d_model  # the formula covers only this architecture
    every = replace(c, n_kv_head=c.n_head, n_kv_head_local=None)
    return Rules(
        n_params(c),
        n_tensors(c),
        held_bytes(c, 1, 1)[0] * setting.item // ITEM,
        held_bytes(every, 1, 1)[0] * setting.item // ITEM,
        held_bytes(c, 1, 1)[1] * setting.item // ITEM,
        optimizer_bytes(c),
        kept_bytes(c, B, T, item=2) if counted else None,
        kept_bytes(c, B, T, True, item=2) if counted else None,
        (published_kept(c, B, T), published_kept(c, B, T, explicit=False)) if applies else None,
    )


# --- the loaded model ---


@dataclass(frozen=True)
class Expected:
    """The loaded model's memory on the prompt: computed by formula, and read from its tensors without running it."""

    tokens: int
    derived: dict[str, int | None]  # by field of model.anatomy.measured_memory.MemoryUse; None if not counted
    readable: dict[str, int | None]  # the same, if known without a forward pass; otherwise None


def measure_expected(scene: Scene, settings: Settings) -> Expected:
    """Compute the memory for the tokens of the measurement, with batch size 1 and float32."""
    config, T = scene.model.config, min(len(scene.tokens), MOST_TOKENS)
    cache, state = held_bytes(config, 1, T)
    derived: dict[str, int | None] = {"weights": weights_bytes(config)}
    derived |= {name: n for name, n in (("cache", cache), ("state", state)) if n}
    if counts_activations(config):
        derived |= {
            "peak": working_bytes(config, Setting(tokens=T)),
            "peak_explicit": working_bytes(config, Setting(tokens=T, explicit=True)),
            "kept": kept_bytes(config, 1, T),
            "kept_explicit": kept_bytes(config, 1, T, True),
        }
    else:
        derived |= dict.fromkeys(("peak",) if config.headless else ("peak", "kept"))
    readable = dict.fromkeys(derived) | {"weights": scene.model.nbytes}
    if "cache" in derived and "sliding_window" not in config.mixers:
        tensors = tensor_bytes(config, 1, T)
        readable["cache"] = tensors and tensors[1]
    return Expected(T, derived, readable)


def cost_of_held(scene: Scene, settings: Settings) -> tuple[float, float]:
    """Estimate the number of runs and of processed tokens: four runs, and two backward passes of twice the work."""
    return 8, 8 * min(len(scene.tokens), measured_memory.MOST_TOKENS)


def measure_held(scene: Scene, settings: Settings, progress: Progress) -> MemoryUse:
    """Measure the memory of the loaded model while it processes the first tokens of the prompt, without edits."""
    return measured_memory.measure(scene.model.model, scene.tokens.ids.tolist(), progress)
