"""Structures of other libraries, built by hand with their documented names."""

from collections import OrderedDict
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from model.errors import InputError
from model.recorded.record import record_of

WORDS = ["a", "b", "c"]


def layer(seed: int, T: int = 3, S: int = 3) -> torch.Tensor:
    return torch.softmax(torch.randn(1, 2, T, S, generator=torch.Generator().manual_seed(seed)), -1)


def output(**kinds) -> SimpleNamespace:
    return SimpleNamespace(logits=torch.zeros(1), **kinds)


def test_an_output_of_transformers():
    record = record_of(output(attentions=(layer(0), layer(1))), WORDS)
    assert np.array_equal(record.weights, torch.cat([layer(0), layer(1)]).numpy())


def test_an_output_of_an_encoder_decoder():
    kinds = {
        "encoder_attentions": (layer(0),),
        "decoder_attentions": (layer(1, 2, 2),),
        "cross_attentions": (layer(2, 2, 3),),
    }
    of = output(**kinds)
    assert np.array_equal(record_of(of, WORDS, which="encoder").weights[0], layer(0)[0].numpy())
    assert np.array_equal(record_of(of, ["x", "y"], which="decoder").weights[0], layer(1, 2, 2)[0].numpy())
    cross = record_of(of, ["x", "y"], WORDS, which="cross")
    assert np.array_equal(cross.weights[0], layer(2, 2, 3)[0].numpy()) and cross.mask == "cross"
    with pytest.raises(InputError, match="several kinds") as error:
        record_of(of, WORDS)
    assert 'which="encoder"' in error.value.hint and 'which="cross"' in error.value.hint


def test_a_decoder_with_cross_attention_calls_its_own_attention_attentions():
    of = output(attentions=(layer(1),), cross_attentions=(layer(2, 3, 2),))
    assert np.array_equal(record_of(of, WORDS, which="decoder").weights[0], layer(1)[0].numpy())
    assert record_of(of, WORDS, ["x", "y"], which="cross").keys == ("x", "y")


def test_an_output_without_attention_says_how_to_get_it():
    for of in (output(attentions=None), output(attentions=())):
        with pytest.raises(InputError) as error:
            record_of(of, WORDS)
        assert "eager" in error.value.hint and "output_attentions" in error.value.hint


def test_attention_of_generated_tokens_is_refused():
    steps = ((layer(0), layer(1)), (layer(0, 1, 4), layer(1, 1, 4)))
    for of in (steps, output(attentions=steps)):
        with pytest.raises(InputError, match="several generated tokens"):
            record_of(of, WORDS)


class ActivationCache:
    """As TransformerLens has it: a `cache_dict`, and items by name."""

    def __init__(self, names: dict[str, torch.Tensor]) -> None:
        self.cache_dict, self.model, self.has_batch_dim = names, None, True

    def __getitem__(self, name):
        return self.cache_dict[name]

    def keys(self):
        return self.cache_dict.keys()


def cache(layers=(0, 1, 2), name="blocks.{}.attn.hook_pattern") -> ActivationCache:
    names = {"hook_embed": torch.zeros(1, 3, 4)}
    for n in reversed(layers):
        names[f"blocks.{n}.attn.hook_attn_scores"] = layer(n).log() - 3
        names[name.format(n)] = layer(n)
    return ActivationCache(names)


def test_a_cache_of_transformerlens():
    for of in (cache(), cache().cache_dict, OrderedDict(cache().cache_dict)):
        record = record_of(of, WORDS)
        assert np.array_equal(record.weights, torch.cat([layer(n) for n in range(3)]).numpy())
        assert "folding" in record.notes[0]


def test_a_cache_of_some_layers_keeps_their_numbers():
    record = record_of(cache(layers=(9, 10, 11)), WORDS)
    assert record.first_layer == 9 and np.array_equal(record.weights[2], layer(11)[0].numpy())
    with pytest.raises(InputError, match="Layers are missing") as error:
        record_of(cache(layers=(0, 5)), WORDS)
    assert error.value.got == "0, 5"


def test_a_cache_without_a_batch_axis():
    names = {name: value[0] for name, value in cache().cache_dict.items()}
    assert record_of(ActivationCache(names), WORDS).weights.shape == (3, 2, 3, 3)


@pytest.mark.parametrize(
    ("names", "which"),
    [
        (
            {"encoder": "encoder.{}.attn", "decoder": "decoder.{}.attn", "cross": "decoder.{}.cross_attn"},
            "HookedEncoderDecoder",
        ),
        (
            {
                "encoder": "encoder_blocks.{}.attn",
                "decoder": "decoder_blocks.{}.self_attn",
                "cross": "decoder_blocks.{}.cross_attn",
            },
            "TransformerBridge",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_cache_of_an_encoder_decoder(names, which):
    held = {}
    for seed, name in enumerate(names.values()):
        held |= {f"{name.format(n)}.hook_pattern": layer(10 * seed + n) for n in range(2)}
    for seed, kind in enumerate(names):
        keys = WORDS if kind == "cross" else None
        assert np.array_equal(record_of(held, WORDS, keys, which=kind).weights[1], layer(10 * seed + 1)[0].numpy())
    with pytest.raises(InputError, match="several kinds"):
        record_of(held, WORDS)


def test_a_cache_without_patterns_is_refused():
    with pytest.raises(InputError) as error:
        record_of({"hook_embed": torch.zeros(1), "blocks.0.attn.hook_attn_scores": layer(0)}, WORDS)
    assert "hook_pattern" in error.value.hint and error.value.got == "2 entries"


class Saved:
    """A saved value of nnsight before 0.4: a proxy with a `value`."""

    def __init__(self, value: object) -> None:
        self.value = value


@pytest.mark.parametrize(
    "saved",
    [
        Saved((layer(0), layer(1))),
        [Saved(layer(0)), Saved(layer(1))],
        Saved([Saved(layer(0)), Saved(layer(1))]),
        {0: Saved(layer(0)), 1: layer(1)},
        Saved(output(attentions=(layer(0), layer(1)))),
    ],
    ids=str.split("tuple layers nested numbered output"),
)
def test_saved_values_of_nnsight_and_nnterp(saved):
    assert np.array_equal(record_of(saved, WORDS).weights, torch.cat([layer(0), layer(1)]).numpy())
