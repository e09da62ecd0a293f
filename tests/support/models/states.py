"""Tiny models with a state, in place of attention, among layers of attention, or beside it."""

_SSM = {"ssm_heads": 8, "ssm_groups": 2, "d_state": 5, "norm": "rmsnorm"}
_LLAMA = {"norm": "rmsnorm", "positions": "rope", "mlp": "swiglu", "mlp_bias": False}

STATES: dict[str, dict] = {
    "mamba": {"mixer": "mamba", "mlp": "none", "positions": "none", "norm": "rmsnorm"},
    "nemotron": {**_SSM, "mixer": ("mamba2", "softmax", "mamba2"), "without_mlp": (2,), "positions": "none"},
    "falcon": {**_SSM, **_LLAMA, "ssm_beside": True, "ssm_norm": "none", "residual_multiplier": 0.5},
    "qwen-next": {
        **_LLAMA,
        "mixer": ("gated_delta", "gated_delta", "softmax"),
        "qk_norm": True,
        "output_gate": True,
        "n_delta_key": 2,
        "d_delta_value": 10,
    },
    "lfm": {**_LLAMA, "mixer": ("short_conv", "softmax", "short_conv"), "qk_norm": True, "short_conv_bias": True},
    "retention": {"mixer": ("retention", "softmax", "retention"), "n_kv_head": 2, "positions": "rope"},
    "delta": {"mixer": "delta", "qk_norm": True},
}
