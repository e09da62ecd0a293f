"""A model of another library in memory as ours: its own parameters under our names, without a second copy.

The model is read through `config`, its parameters and the buffers that its files hold; nothing of transformers is
imported. A layer that stores its matrix as ours does, or transposed, shares its memory. Queries, keys
and values that lie in another order, such as interleaved by head in GPT-NeoX, and 16-bit biases and norms are copied.
"""

import json
from typing import Any

import torch
from torch import Tensor

from model.errors import UnsupportedModel, say
from model.gpt.transformer import Transformer
from model.loading import devices
from model.loading.checkpoint import build
from model.loading.convert import convert
from model.loading.families import family_of
from model.loading.halves import DTYPES
from model.loading.stored import are_of


def config_values(model: Any) -> dict:
    """Return the values that the model's config.json would hold."""
    text = getattr(model.config, "to_json_string", None)
    values = json.loads(text()) if callable(text) else dict(model.config.to_dict())
    return {name: value for name, value in values.items() if not name.startswith("_") or name in _READ}


_READ = ("_remove_final_layer_norm",)  # of OPT; other names with an underscore are notes


def shared(model: Any) -> tuple[Transformer, str]:
    """Build our model on the parameters of another library's model, and return it with its type of products.

    Products are computed in the parameters' own type. Raises UnsupportedModel or CheckpointError if its architecture is
    not one of the families, or its weights are of other types or not in the memory of the CPU.
    """
    values = config_values(model)
    family = family_of(values)
    config = family.to_config(values)
    state = weights_of(model)
    places = sorted({tensor.device.type for tensor in state.values()})
    if places != ["cpu"]:
        move = "Move it with model.cpu() to see the views that need its weights."
        raise UnsupportedModel("The model's weights are on another device.", ", ".join(places), move)
    ours = build(config, convert(state, state.__getitem__, family.layout_for(values), config, copied=False))
    dtype = next((name for name, each in DTYPES.items() if are_of(ours, each)), None)
    if dtype is None:
        kinds = ", ".join(sorted({str(tensor.dtype).removeprefix("torch.") for tensor in state.values()}))
        hint = say("Use one of: {}.", ", ".join(DTYPES))
        raise UnsupportedModel("The matrices of this model have a type that is not supported.", kinds, hint)
    if dtype != "float32":
        ours, _ = devices.streamed(ours, "cpu", DTYPES[dtype])
    return ours.requires_grad_(False), dtype


def weights_of(model: Any) -> dict[str, Tensor]:
    """Return the weights by name, as views that no gradient reaches; a tied head is listed once. Numbers of a file may
    be buffers, such as the offsets of a router and the scales of layers.
    """
    state = {name: each.detach() for name, each in model.named_parameters()}
    in_files = model.state_dict().keys()
    return state | {name: each.detach() for name, each in model.named_buffers() if name in in_files}


def stamp(model: Any) -> tuple:
    """Return a value that changes when a parameter is replaced or written to: its addresses and version counters.

    Writing through `parameter.data` is the one change that PyTorch does not count.
    """
    return tuple((each.data_ptr(), _version(each)) for each in model.parameters())


def _version(parameter: Tensor) -> int:
    return 0 if torch.is_inference(parameter) else parameter._version
