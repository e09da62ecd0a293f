"""ModelConfig: what is derived, what is refused and how it is worded, and the way to a dict and back."""

import json

import pytest

from model.errors import CheckpointError, InputError
from model.gpt.config import ModelConfig, from_dict, of_layers, to_dict
from model.gpt.presets import PRESETS, preset
from model.gpt.rope_scaling import RopeScaling
from tests.support.models.helpers import TINY, VARIANTS, tiny_config

SMALL = {"vocab_size": 7, "n_ctx": 5, "n_layer": 2, "d_model": 12, "n_head": 3}
SCALING = RopeScaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_n_ctx=32)


def test_derived_sizes():
    config = ModelConfig(**SMALL)
    assert (config.n_kv_head, config.d_head, config.d_mlp, config.group_size) == (3, 4, 48, 1)
    assert config.final_norm is True
    assert ModelConfig(**SMALL, norm_placement="post").final_norm is False


def test_given_sizes_are_kept():
    config = tiny_config({"d_head": 14, "final_norm": False})
    assert (config.n_kv_head, config.d_head, config.d_mlp, config.group_size) == (2, 14, 100, 2)
    assert config.final_norm is False
    assert ModelConfig(**{**SMALL, "d_model": 13, "d_head": 4}).d_head == 4


@pytest.mark.parametrize(("fraction", "rotated"), [(1.0, 12), (0.5, 6), (0.25, 3)])
def test_rotary_share(fraction: float, rotated: int):
    if rotated % 2:
        with pytest.raises(ValueError, match="must be even, got 3"):
            tiny_config({"positions": "rope", "rotary_fraction": fraction})
    else:
        assert tiny_config({"positions": "rope", "rotary_fraction": fraction}).d_rotary == rotated


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_layer": 0}, "n_layer must be a positive whole number, got 0"),
        ({"vocab_size": -1}, "vocab_size must be a positive whole number, got -1"),
        ({"n_ctx": 2.5}, "n_ctx must be a positive whole number, got 2.5"),
        ({"n_head": 0, "d_head": None}, "n_head must be a positive whole number, got 0"),
        ({"d_model": 50, "d_head": None}, "d_model 50 must be a multiple of n_head 4"),
        ({"n_kv_head": 3}, "n_head 4 must be a multiple of n_kv_head 3"),
        ({"norm": "batchnorm"}, "norm must be one of layernorm, rmsnorm, got 'batchnorm'"),
        ({"norm_placement": "middle"}, "norm_placement must be one of pre, post, output, sandwich"),
        ({"positions": "t5"}, "positions must be one of learned, sinusoidal, rope, alibi, none"),
        ({"mlp": "maxout"}, "mlp must be one of relu, gelu, gelu_tanh, swiglu"),
        ({"positions": "rope", "rotary_fraction": 0.0}, "must be even, got 0"),
        ({"parallel_residual": True, "norm_placement": "post"}, "pre-norm blocks only"),
        ({"norm_eps": 0.0}, "norm_eps must be positive, got 0.0"),
        ({"norm_eps": float("nan")}, "norm_eps must be positive, got nan"),
        (
            {"mixer": "hyena"},
            "mixer must be one of softmax, sliding_window, linear, retention, delta, .*, short_conv, got 'hyena'",
        ),
        ({"mixer": ("mamba", "softmax")}, "mixer must name one for each of the 3 layers, got 2"),
        ({"mixer": 7}, "mixer must be a name or a list of a name a layer, got 7"),
        ({"mixer": ("mamba", None, "mamba")}, "mixer must be a name or a list"),
        ({"mixer": "sliding_window"}, "window must be a positive whole number, got None"),
        ({"mixer": "sliding_window", "window": 0}, "window must be a positive whole number, got 0"),
        ({"mixer": ("delta", "mamba", "softmax"), "n_head": 5, "n_kv_head": 5}, "96 channels .* divide into 5 heads"),
        ({"d_state": 1 << 40}, "d_state must be at most"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(changes: dict, message: str):
    with pytest.raises(ValueError, match=message):
        ModelConfig(**{**TINY, **changes})


@pytest.mark.parametrize(
    "config",
    [
        *PRESETS.values(),
        *(tiny_config(changes) for changes in VARIANTS.values()),
        tiny_config({"positions": "rope", "rope_scaling": SCALING}),
        tiny_config({"mixer": ("mamba", "sliding_window", "delta"), "window": 7, "d_state": 4, "dt_rank": 2}),
    ],
)
def test_to_dict_and_back_through_json(config: ModelConfig):
    assert from_dict(json.loads(json.dumps(to_dict(config)))) == config


def test_mixers_by_layer():
    config = tiny_config({"mixer": ["mamba", "sliding_window", "delta"], "window": 7})
    assert config.mixer == config.mixers == ("mamba", "sliding_window", "delta")
    assert [config.mixer_of(layer) for layer in range(3)] == list(config.mixer)
    assert [config.is_attention(layer) for layer in range(3)] == [False, True, False] and config.stateful == (0, 1, 2)
    assert (config.d_inner, config.dt_rank) == (96, 3) and [config.z_width(n) for n in range(3)] == [24, 12, 12]
    assert tiny_config({"mixer": ("mamba",) * 3}).mixer == "mamba"  # one form for the same model
    assert tiny_config().mixers == ("softmax",) * 3 and tiny_config().stateful == ()


def test_unknown_and_missing_keys_are_named():
    with pytest.raises(CheckpointError, match=r"unknown keys.*n_sharks, windows"):
        from_dict({**TINY, "windows": 4, "n_sharks": 8})
    with pytest.raises(CheckpointError, match=r"lacks keys.*n_head, vocab_size"):
        from_dict({key: value for key, value in TINY.items() if key not in ("vocab_size", "n_head")})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_kv_head": 3}, "n_head 4 must be a multiple"),
        ({"positions": "rope", "rope_scaling": {"factor": 8.0, "beta": 1}}, "beta"),
    ],
)
def test_values_that_do_not_fit_are_a_checkpoint_error(changes: dict, message: str):
    with pytest.raises(CheckpointError, match=message):
        from_dict({**TINY, **changes})


def test_preset_by_name():
    assert preset("gpt2").d_model == 768
    with pytest.raises(InputError) as caught:
        preset("gpt5")
    assert caught.value.got == "gpt5"
    assert all(name in caught.value.hint for name in PRESETS)


def test_a_model_of_some_of_the_layers():
    config = tiny_config(
        {
            "mixer": ("sliding_window", "softmax", "linear"),
            "window": 4,
            "unrotated": (1,),
            "unnormed": (0,),
            "n_expert": 3,
            "dense": (1, 2),
        }
    )
    last = of_layers(config, [1, 2])
    assert last.n_layer == 2 and last.mixers == ("softmax", "linear")
    assert (last.unrotated, last.unnormed, last.dense) == ((0,), (), (0, 1))
    assert of_layers(config, range(3)) == config
    assert of_layers(config, [0]).mixer == "sliding_window" and of_layers(tiny_config(), [2]).mixer == "softmax"
    with pytest.raises(ValueError, match="n_layer"):
        of_layers(config, [])
