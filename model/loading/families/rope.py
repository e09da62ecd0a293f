"""Rotary positions in a config.json: base, rotated fraction and scaling, in transformers' older and newer spelling.

older:  "rope_theta": 1e6, "rope_scaling": {"type": "yarn", "factor": 4.0, ...}
newer:  "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, ...}
by kind of layer:  "rope_parameters": {"full_attention": {...}, "sliding_attention": {...}}
"""

import math
from collections.abc import Mapping

from model.errors import CheckpointError, UnsupportedModel, say
from model.gpt.config import ModelConfig
from model.gpt.rope_scaling import RopeScaling, check_scaling
from model.loading.families.common import check_keys, choice, flag, integer, real

ROPE_KEYS = frozenset(
    {
        "rope_parameters",
        "rope_scaling",
        "rope_theta",
        "rotary_emb_base",
        "rotary_pct",
        "partial_rotary_factor",
        "original_max_position_embeddings",
    }
)
_ALIASES = {"rotary_emb_base": "rope_theta", "rotary_pct": "partial_rotary_factor"}
# transformers' names of the scalings; "su" is the name of LongRoPE in early files of Phi-3.
_KINDS = {
    "default": None,
    "linear": "linear",
    "dynamic": "dynamic",
    "llama3": "llama3",
    "yarn": "yarn",
    "longrope": "longrope",
    "su": "longrope",
    "proportional": "proportional",
}
_ORIGINAL = "original_max_position_embeddings"
_KEYS: dict[str | None, tuple[str, ...]] = {
    None: (),
    "linear": ("factor",),
    "dynamic": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", _ORIGINAL),
    "yarn": (
        *("factor", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"),
        _ORIGINAL,
    ),
    "longrope": ("factor", "attention_factor", "short_factor", "long_factor", _ORIGINAL),
    "proportional": ("factor",),
}


def rope(hf: Mapping, default_fraction: float = 1.0, default_theta: float = 10_000.0) -> dict:
    """Return rope_theta, rotary_fraction and rope_scaling for a ModelConfig.

    Older files have rope_theta beside rope_scaling, and newer ones have everything in rope_parameters; the values of
    files with both must agree. Raises UnsupportedModel for an unknown scaling, and CheckpointError for unknown or
    missing keys.
    """
    values: dict = {}
    for key in ("rope_scaling", "rope_parameters"):
        for name, value in _object(hf, key).items():
            if value is not None:
                _put(values, {"type": "rope_type"}.get(name, name), value)
    for name in ("rope_theta", "rotary_emb_base", "rotary_pct", "partial_rotary_factor"):
        if hf.get(name) is not None:
            _put(values, _ALIASES.get(name, name), hf[name])
    if hf.get(_ORIGINAL) is not None and _KINDS.get(values.get("rope_type", "default")) in (
        "llama3",
        "yarn",
        "longrope",
    ):
        values[_ORIGINAL] = hf[_ORIGINAL]  # transformers prefers it
    return _rotary(values, hf, default_fraction, default_theta)


def rope_by_kind(hf: Mapping, default_theta: float, default_local: float, local_key: str = "") -> dict:
    """Return the same, and rope_theta_local, for a family whose layers with a sliding window have a base of their own.

    In older files it is the value of `local_key`, and rope_scaling is about layers with full attention.
    """
    nested = _object(hf, "rope_parameters")
    check_keys(nested, {"full_attention", "sliding_attention"}, {})
    whole = ROPE_KEYS - {"rope_parameters", "rope_scaling", "rope_theta"}
    check_keys({key: value for key, value in hf.items() if key in whole}, (), {"partial_rotary_factor": (1.0,)})
    full = {key: hf[key] for key in ("rope_scaling", "rope_theta", "max_position_embeddings") if key in hf}
    full = rope(full | {"rope_parameters": nested.get("full_attention")}, 1.0, default_theta)
    theta = hf.get(local_key)
    sliding = {"max_position_embeddings": hf.get("max_position_embeddings"), "rope_theta": theta}
    sliding = rope(sliding | {"rope_parameters": nested.get("sliding_attention")}, 1.0, default_local)
    if sliding == full:
        return full | {"rope_theta_local": None}
    if sliding["rope_scaling"] is not None or sliding["rotary_fraction"] != full["rotary_fraction"]:
        got, hint = (
            f"rope_parameters: sliding_attention = {nested.get('sliding_attention')}"[:120],
            "Supported: default.",
        )
        raise UnsupportedModel("The model uses a feature that is not supported.", got, hint)
    return full | {"rope_theta_local": sliding["rope_theta"]}


def _object(hf: Mapping, key: str) -> Mapping:
    inner = hf.get(key)
    if inner is not None and not isinstance(inner, Mapping):
        raise CheckpointError(say("{} must be an object.", key), repr(inner)[:80], "Correct the config.")
    return inner or {}


def _put(values: dict, name: str, value: object) -> None:
    if values.setdefault(name, value) != value:
        got = f"{name}: {values[name]!r} and {value!r}"
        raise CheckpointError("The config gives two values for the same thing.", got, "Correct the config.")


def _rotary(values: dict, hf: Mapping, default_fraction: float, default_theta: float) -> dict:
    kind = choice(values, "rope_type", _KINDS, "default")
    if kind == "linear" and values.get("factor") == 1:  # no effect
        kind = values.pop("factor") and None
    check_keys(values, {"rope_type", "rope_theta", "partial_rotary_factor", *_KEYS[kind]}, {})
    if kind == "proportional":  # the fraction is that of the pairs that are rotated at all
        rotated, factor = real(values, "partial_rotary_factor", 1.0), real(values, "factor", 1.0)
        values = {**values, "factor": factor, "rotated": rotated, "partial_rotary_factor": 1.0}
    return {
        "rope_theta": real(values, "rope_theta", default_theta),
        "rotary_fraction": real(values, "partial_rotary_factor", default_fraction),
        "rope_scaling": None if kind is None else _scaling(kind, values, hf),
    }


def _scaling(kind: str, values: Mapping, hf: Mapping) -> RopeScaling:
    fields: dict = {"kind": kind}
    if kind == "proportional":
        fields["rotated"] = real(values, "rotated")
    elif kind != "linear":
        fields["original_n_ctx"] = integer(
            {**hf, **values}, _ORIGINAL if _ORIGINAL in values else "max_position_embeddings"
        )
    if kind in ("yarn", "longrope"):
        ratio = real(hf, "max_position_embeddings") / max(real(fields, "original_n_ctx"), 1)
        fields["factor"] = real(values, "factor", ratio)
    else:
        fields["factor"] = real(values, "factor")
    if kind == "llama3":
        fields |= {name: real(values, name) for name in ("low_freq_factor", "high_freq_factor")}
    if kind == "yarn":
        fields |= {
            "beta_fast": real(values, "beta_fast", 32.0) or 32.0,
            "beta_slow": real(values, "beta_slow", 1.0) or 1.0,
        }
        fields["whole_pairs"] = flag(values, "truncate", True)
    if kind == "longrope":
        fields |= {f"{name}s": _numbers(values, name) for name in ("short_factor", "long_factor")}
    try:
        if kind in ("yarn", "longrope"):
            fields["amplitude"] = real(values, "attention_factor", _amplitude(values, fields))
        scaling = RopeScaling(**fields)
        check_scaling(scaling)
    except ValueError as error:
        raise CheckpointError("The RoPE scaling is invalid.", str(error), "Correct the config.") from error
    return scaling


def _amplitude(values: Mapping, fields: Mapping) -> float:
    """Return the factor on cosines and sines that a file without attention_factor means.

    YaRN: Peng et al. 2023, eq. 22, and with mscale and mscale_all_dim the ratio of two of them, as in DeepSeek-V2.
    LongRoPE: Ding et al. 2024, 4.
    """
    factor = fields["factor"]
    if factor <= 1:
        return 1.0
    if fields["kind"] == "longrope":
        return math.sqrt(1 + math.log(factor) / math.log(fields["original_n_ctx"]))
    each = [real(values, name, 0.0) for name in ("mscale", "mscale_all_dim")]
    over, under = each if all(each) else (1.0, 0.0)
    return (0.1 * over * math.log(factor) + 1) / (0.1 * under * math.log(factor) + 1)


def _numbers(values: Mapping, key: str) -> tuple[float, ...]:
    given = values.get(key)
    if not isinstance(given, list) or any(type(each) not in (int, float) for each in given):
        raise CheckpointError(say("{} must be a list of numbers.", key), repr(given)[:80], "Correct the config.")
    return tuple(float(each) for each in given)


# --- and back ---


def rope_told(c: ModelConfig) -> dict:
    """Return rope_parameters, the inverse of `rope`."""
    told: dict = {"rope_type": "default", "rope_theta": c.rope_theta}
    if c.rotary_fraction != 1:
        told["partial_rotary_factor"] = c.rotary_fraction
    s = c.rope_scaling
    if s is None:
        return told
    told |= {"rope_type": s.kind, "factor": s.factor}
    if s.kind == "proportional":
        told |= {"partial_rotary_factor": s.rotated}
        return {key: value for key, value in told.items() if (key, value) != ("factor", 1.0)}
    if s.kind in ("llama3", "yarn", "longrope"):
        told[_ORIGINAL] = s.original_n_ctx
    if s.kind == "llama3":
        return told | {"low_freq_factor": s.low_freq_factor, "high_freq_factor": s.high_freq_factor}
    if s.kind == "yarn":
        told |= {"attention_factor": s.amplitude, "beta_fast": s.beta_fast, "beta_slow": s.beta_slow}
        return told | ({} if s.whole_pairs else {"truncate": False})
    if s.kind == "longrope":
        lists = {"short_factor": list(s.short_factors), "long_factor": list(s.long_factors)}
        return told | {"attention_factor": s.amplitude} | lists
    return told


def rope_told_by_kind(c: ModelConfig) -> dict:
    """Return rope_parameters by kind of layer, the inverse of `rope_by_kind`."""
    full = rope_told(c)
    local = {"rope_type": "default", "rope_theta": c.rope_theta_local}
    return {"full_attention": full, "sliding_attention": full if c.rope_theta_local is None else local}
