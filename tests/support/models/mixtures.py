"""Tiny models with experts, in every way that a config has."""

from tests.support.models.helpers import MORE_VARIANTS

MIXTURES: dict[str, dict] = {
    "mixtral": {"mlp": "swiglu", "n_expert": 5, "experts_per_token": 2, "d_expert": 30},
    "qwen-moe": {
        "norm": "rmsnorm",
        "positions": "rope",
        "mlp": "swiglu",
        "mlp_bias": False,
        "n_expert": 5,
        "experts_per_token": 2,
        "d_expert": 30,
        "divide_weights": False,
        "dense": (0,),
        "d_shared": 70,
        "shared_gate": True,
        "router_bias": True,
    },
    "phi-moe": {
        "positions": "rope",
        "mlp": "swiglu",
        "n_expert": 5,
        "experts_per_token": 2,
        "d_expert": 30,
        "divide_weights": False,
        "router_scores": "sparsemixer",
        "router_jitter": 0.2,
    },
    "lfm-moe": {
        "mlp": "swiglu",
        "n_expert": 5,
        "experts_per_token": 2,
        "d_expert": 30,
        "router_scores": "sigmoid",
        "router_offset": True,
        "divide_eps": 0.1,
        "expert_multiplier": 1.5,
    },
    "oss-moe": {
        **MORE_VARIANTS["oss"],
        "n_expert": 4,
        "experts_per_token": 2,
        "router_bias": True,
        "expert_bias": False,
        "d_shared": 20,
    },
}
