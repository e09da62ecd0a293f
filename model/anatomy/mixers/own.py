"""Operations of models whose layers differ in size, share keys and values, or read a token's vector, as in Gemma 4."""

import dataclasses
from collections.abc import Callable, Sequence

from model.anatomy.mixers.kinds import Kind, kinds
from model.anatomy.mixers.operation import Operation, joined, linear, norm_flops, pointwise
from model.gpt.config import ModelConfig, of_layers


def of_kind(config: ModelConfig, kind: Kind) -> ModelConfig:
    """Return the config of a model of the layers of one kind alone, which all have the same sizes."""
    others = ("d_head_local", "n_kv_head_local", "d_mlp_shared", "n_shared_kv")
    return of_layers(dataclasses.replace(config.at(kind.layers[0]), **dict.fromkeys(others)), kind.layers)


def by_kinds(config: ModelConfig, layers: Callable[[ModelConfig, bool], Sequence[Operation]]) -> list[Operation]:
    """Return the operations of all layers, kind by kind, with those of the same name as one: of its number of layers if
    they are equal, else once, for all layers together. `layers(config, shares)` are the operations of one kind.
    """
    found: dict[str, list[Operation]] = {}
    order: list[str] = []
    for kind in kinds(config):
        place = 0
        for each in layers(of_kind(config, kind), kind.shares):
            if each.key not in found:
                order.insert(place, each.key)
            place = order.index(each.key) + 1
            found.setdefault(each.key, []).append(each)
    return [_together(found[key]) for key in order]


def _together(ops: Sequence[Operation]) -> Operation:
    """Return operations of the same name as one."""
    first, layers = ops[0], sum(op.layers for op in ops)
    if all(dataclasses.replace(op, layers=first.layers) == first for op in ops):
        return dataclasses.replace(first, layers=layers)
    sums = (sum(getattr(op, name) for op in ops) for name in ("all_products", "all_elementwise", "all_useful"))
    return Operation(first.key, 1, *sums)


def entry_operations(config: ModelConfig, T: int, layers: int, act: int) -> list[Operation]:
    """Return the operations by which a token's own vector enters layers, and those of the scale of their stream; `act`:
    operations of the activation function per number.
    """
    c, D, ops = config, config.d_model, []
    if P := c.d_layer_input:
        both = [linear("entry", layers, T, (D, P), act + 1), linear("entry", layers, T, (P, D))]
        ops.append(joined(both, T * (norm_flops(c, D, c.norm) + D)))
    return [*ops, pointwise("scale", T * D, layers)] if c.layer_scale else ops


def input_operations(config: ModelConfig, T: int) -> list[Operation]:
    """Return the operations that compute the tokens' vectors for all layers (`Transformer.layer_input`): a projection,
    its scale, its norm, and the scaled sum with the scaled rows of the table.
    """
    c, P = config, config.d_layer_input
    if not P:
        return []
    product = linear("entry_proj", 1, T, (c.d_model, c.n_layer * P), 4)
    return [joined([product], T * c.n_layer * norm_flops(c, P, c.norm))]
