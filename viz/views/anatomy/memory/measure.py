"""Memory as derived from a config, and as the loaded model really uses it."""

from dataclasses import dataclass, replace

import numpy as np

from model.anatomy import measured_memory
from model.anatomy.anatomy import n_params
from model.anatomy.footprint import (
    FORMATS,
    MODES,
    Setting,
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
from model.generation.cache_costs import ITEM, cache_bytes, tensor_bytes
from model.progress import Progress
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Number, Range, Settings
from viz.views.anatomy.subject import Subject, subject_of

BUDGETS = (8, 16, 24, 80)  # GB
GB = 10**9
POINTS = 65  # of the figure
ITEMS = {"float32": 4, "bfloat16": 2}  # bytes of a number
_READING = {"mode": ("inference",)}
MODE = Choice("mode", MODES)
FORMAT = Choice("form", tuple(FORMATS), when=_READING)
NUMBER = Choice("item", tuple(ITEMS), when=_READING)
BATCH = Number("batch", 1, 4096, 1)
TOKENS = Range("tokens", 1, 1 << 20, default=0, kind="number", blank=True)  # 0: the model's whole context
ATTENTION = Choice("attention", ("fused", "explicit"))


@dataclass(frozen=True)
class Rules:
    """Bytes by rules that are stated beside the exact numbers; activations at 2 bytes a number."""

    params: int  # how many, not bytes
    tensors: int  # how many, not bytes
    token: int  # of cache, for one token
    every: int  # the same if every query head had keys and values
    adam: int  # the optimizer's state
    fused: int  # activations of a training step
    explicit: int  # with the attention matrices
    published: tuple[int, int] | None  # Korthikanti's formula with those matrices, and without


@dataclass(frozen=True)
class Memory:
    """Bytes of one architecture in one setting."""

    subject: Subject
    setting: Setting
    x: list[int]  # contexts in tokens
    layers: dict[str, list[int]]  # kind of memory -> bytes at each context
    parts: dict[str, int]  # kind of memory -> bytes at the chosen context
    smallest: int  # with one token of one text
    fits: dict[int, tuple[int, int]]  # GB -> longest context, largest batch; 0 where nothing fits
    formats: dict[str, int]  # of the weights
    rules: Rules


def measure(scene: Scene, settings: Settings) -> Memory:
    """Return all of it from the config alone."""
    subject = subject_of(scene, settings)
    config, setting = subject.config, setting_of(subject, settings)
    x = contexts(max(round(1.25 * setting.tokens), 16))
    each = [parts(config, replace(setting, tokens=T)) for T in x]
    return Memory(
        subject,
        setting,
        x,
        {key: [one[key] for one in each] for key in each[0]},
        parts(config, setting),
        total_bytes(config, replace(setting, batch=1, tokens=1)),
        {size: largest(config, setting, size * GB) for size in BUDGETS},
        {form: weights_bytes(config, form) for form in FORMATS},
        _rules(subject, setting),
    )


def setting_of(subject: Subject, settings: Settings) -> Setting:
    """Return the memory by the form; the default is the whole context."""
    return Setting(
        mode=settings.mode,
        form=settings.form,
        batch=settings.batch,
        tokens=settings.tokens or min(subject.config.n_ctx, TOKENS.high),
        item=ITEMS[settings.item],
        explicit=settings.attention == "explicit",
    )


def contexts(longest: int) -> list[int]:
    """Whole numbers of tokens from 1 to the longest."""
    return np.unique(np.linspace(1, longest, POINTS).round().astype(int)).tolist()


def _rules(subject: Subject, setting: Setting) -> Rules:
    c, B, T = subject.config, setting.batch, setting.tokens
    plain = c.n_kv_head == c.n_head and c.n_head * c.d_head == c.d_model and c.mlp != "swiglu"
    counted = plain and c.d_mlp == 4 * c.d_model  # the one architecture that the formula is of
    return Rules(
        n_params(c),
        n_tensors(c),
        cache_bytes(c, 1, 1) * setting.item // ITEM,
        cache_bytes(c, 1, 1, c.n_head) * setting.item // ITEM,
        optimizer_bytes(c),
        kept_bytes(c, B, T, item=2),
        kept_bytes(c, B, T, True, item=2),
        (published_kept(c, B, T), published_kept(c, B, T, explicit=False)) if counted else None,
    )


# --- the loaded model ---


@dataclass(frozen=True)
class Expected:
    """The formulas' memory of the loaded model on the prompt, and that of its tensors without running it."""

    tokens: int
    derived: dict[str, int]  # by field of model.anatomy.measured_memory.MemoryUse
    there: dict[str, int | None]  # the same for what can be read off


def measure_expected(scene: Scene, settings: Settings) -> Expected:
    """For the tokens that the measurement runs; B = 1, float32."""
    config, T = scene.model.config, min(len(scene.tokens), MOST_TOKENS)
    cache = tensor_bytes(config, 1, T)
    derived = {
        "weights": weights_bytes(config),
        "cache": cache_bytes(config, 1, T),
        "peak": working_bytes(config, Setting(tokens=T)),
        "peak_explicit": working_bytes(config, Setting(tokens=T, explicit=True)),
        "kept": kept_bytes(config, 1, T),
        "kept_explicit": kept_bytes(config, 1, T, True),
    }
    there = dict.fromkeys(derived) | {"weights": scene.model.nbytes, "cache": cache and cache[1]}
    return Expected(T, derived, there)


def measure_held(scene: Scene, settings: Settings, progress: Progress) -> MemoryUse:
    """Return the bytes of the tensors that exist while the loaded model runs the prompt's first tokens,
    without edits.
    """
    return measured_memory.measure(scene.model.model, scene.tokens.ids.tolist(), progress)
