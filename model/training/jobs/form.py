"""The job that the form of the Training tab describes: plain values, parsed and validated."""

import contextlib

from model.errors import InputError, say
from model.training.jobs.job import HYBRID, MOST_SEED, RATES, RUN_MIXERS, TEXT, WINDOW, Job, Limits, check, check_bounds
from model.training.loop import Recipe

MOST_DROPOUT = 0.9
MOST_BETA = 0.9999
MOST_DECAY = 1.0
# fields of a config that are switched on or off together
BIASES = ("norm_bias", "q_bias", "k_bias", "v_bias", "o_bias", "mlp_bias")

_CHARACTERS = {
    "task": "shakespeare",
    "characters": True,
    "norm": "layernorm",
    "placement": "pre",
    "positions": "learned",
    "mlp": "gelu",
    "mixer": "softmax",
    "untied": False,
    "scaled": False,
    "biases": False,
    "schedule": "cosine",
    "rate": 1e-3,
    "warmup": 100,
    "zero_positions": False,
    "beta1": 0.9,
    "beta2": 0.99,
    "weight_decay": 0.1,
}
PRESETS: dict[str, dict[str, object]] = {
    # The classic educational block trained on noise, as its code is often published; config from
    # `model.gpt.presets.PRESETS`.
    "minigpt": {
        "task": "noise",
        "characters": False,
        "layers": 2,
        "heads": 4,
        "width": 128,
        "mlp_width": 512,
        "norm": "layernorm",
        "placement": "post",
        "positions": "learned",
        "mlp": "relu",
        "mixer": "softmax",
        "untied": True,
        "scaled": True,
        "biases": True,
        "dropout": 0,
        "length": 20,
        "batch": 32,
        "steps": 300,
        "schedule": "cosine",
        "rate": 1e-3,
        "warmup": 20,
        # positions that begin at 0, and Adam as torch has it: no decay of the weights
        "zero_positions": True,
        "beta1": 0.9,
        "beta2": 0.999,
        "weight_decay": 0,
    },
    # Karpathy's nanoGPT (2022), README: its settings for a laptop CPU, with a quarter of the steps.
    "shakespeare_cpu": _CHARACTERS
    | {"layers": 4, "heads": 4, "width": 128, "mlp_width": 512, "length": 64, "batch": 12, "steps": 500, "dropout": 0},
    # The same, config/train_shakespeare_char.py, with half of its batch size of 64.
    "shakespeare": _CHARACTERS
    | {
        "layers": 6,
        "heads": 6,
        "width": 384,
        "mlp_width": 1536,
        "length": 256,
        "batch": 32,
        "steps": 5000,
        "dropout": 0.2,
    },
}


def presets_within(limits: Limits) -> dict[str, dict[str, object]]:
    """Return the presets within the limits of this server."""
    allowed = {}
    for name, values in PRESETS.items():
        with contextlib.suppress(InputError):
            check(job_of(values, limits), limits)
            allowed[name] = values
    return allowed


def job_of(value: object, limits: Limits) -> Job:
    """Parse the job described by plain values, as a page sends them; `check` enforces the limits.

    Raises InputError for an invalid setting.
    """
    if not isinstance(value, dict):
        raise InputError("These settings are not valid for a model.", "", "Change the settings.")
    default = Job().recipe

    def integer(name: str, otherwise: int) -> int:
        number = value.get(name, otherwise)
        if not _is_number(number) or number % 1:
            raise InputError("A setting is not a whole number.", f"{name}: {_brief(number)}", "Change the settings.")
        return int(number)

    def text(name: str, otherwise: str) -> str:
        string = value.get(name, otherwise)
        if not isinstance(string, str):
            raise InputError("These settings are not valid for a model.", name, "Change the settings.")
        return string

    def yes(name: str, otherwise: bool = False) -> bool:
        flag = value.get(name, otherwise)
        if not isinstance(flag, bool):
            raise InputError("These settings are not valid for a model.", name, "Change the settings.")
        return flag

    def real(name: str, otherwise: float) -> float:
        number = value.get(name, otherwise)
        if not _is_number(number):
            raise InputError("A setting is not a number.", f"{name}: {_brief(number)}", "Change the settings.")
        return float(number)

    rate, dropout = real("rate", default.learning_rate), real("dropout", default.dropout)
    betas = {name: real(name, getattr(default, name)) for name in ("beta1", "beta2")}
    weight_decay = real("weight_decay", default.weight_decay)
    check_bounds("dropout", dropout, 0, MOST_DROPOUT)
    for name, beta in betas.items():
        check_bounds(name, beta, 0, MOST_BETA)
    check_bounds("weight decay", weight_decay, 0, MOST_DECAY)
    biases = yes("biases", True)
    layers, mixer = integer("layers", 2), text("mixer", "softmax")
    config = {
        "n_layer": layers,
        "n_head": integer("heads", 4),
        "d_model": integer("width", 128),
        "norm": text("norm", "layernorm"),
        "norm_placement": text("placement", "pre"),
        "positions": text("positions", "learned"),
        "mlp": text("mlp", "gelu_tanh"),
        "d_mlp": integer("mlp_width", 0) or None,
        "tie_embeddings": not yes("untied"),
        "embed_scale": yes("scaled"),
        **dict.fromkeys(BIASES, biases),
        "mixer": _mixer(mixer, layers, limits),
        "window": integer("window", WINDOW) if mixer == "sliding_window" else None,
    }
    steps, seed = integer("steps", default.steps), integer("seed", 0)
    warmup = min(integer("warmup", default.warmup), steps)
    # Values that no recipe accepts are reported in the same way as the other bounds.
    for what, number, low, high in (
        ("warm-up steps", warmup, 0, limits.steps),
        ("seed", seed, 0, MOST_SEED),
        ("learning rate", rate, *RATES),
    ):
        if number < 0:
            check_bounds(what, number, low, high)
    try:
        recipe = Recipe(
            steps=steps,
            batch=integer("batch", default.batch),
            length=integer("length", default.length),
            learning_rate=rate,
            schedule=text("schedule", default.schedule),
            warmup=warmup,
            dropout=dropout,
            seed=seed,
            weight_decay=weight_decay,
            **betas,
        )
    except ValueError as error:
        raise InputError(
            "These settings are not valid for a model.", str(error)[:80], "Change the settings."
        ) from error
    name = text("task", "induction")
    return Job(
        task=name,
        text=text("text", "") if name == TEXT else "",
        vocab_size=integer("vocabulary", 512),
        characters=yes("characters"),
        zero_positions=yes("zero_positions"),
        probe=text("probe", ""),
        config=config,
        recipe=recipe,
        minutes=limits.minutes,
    )


def _mixer(name: str, layers: int, limits: Limits) -> str | tuple[str, ...]:
    """Return the `mixer` of a config with `layers` layers. Raises InputError if the name is not in RUN_MIXERS."""
    if name not in RUN_MIXERS:
        known = say("Choose one of: {}.", ", ".join(RUN_MIXERS))
        raise InputError("No mixer has this name.", name[:40], known)
    if name != HYBRID:
        return name
    check_bounds("layers", layers, 1, limits.layers)  # checked before a mixer is listed for each layer
    return tuple(("mamba", "softmax")[layer % 2] for layer in range(layers))


def _is_number(value: object) -> bool:
    """Return whether a value is a number of usable magnitude; an integer of 400 digits, for example, would overflow."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15


def _brief(value: object) -> str:
    """Shorten a value for an error message: to its beginning, or to its type if formatting it could fail."""
    return repr(value)[:40] if isinstance(value, str | float) else type(value).__name__
