"""Conversion of another project's checkpoint to this project's weights, by a table of names."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from model.errors import CheckpointError
from model.free_memory import need_room
from model.gpt.config import ModelConfig
from model.gpt.transformer import Transformer
from model.progress import Progress, silent

MAX_LAYERS = 4096
Change = Callable[[Tensor, ModelConfig], tuple[Tensor, ...]]


@dataclass(frozen=True)
class Into:
    """Conversion of one source tensor: the names of the results, and a function that returns them in the same order."""

    names: tuple[str, ...]
    change: Change


# Source name -> our name, our names after a conversion, or None for a non-weight. {i} is a layer number.
Names = dict[str, str | Into | None]


@dataclass(frozen=True)
class Layout:
    """Weight names of a checkpoint format. `prefix` is omitted in `names`, and may be absent in a file."""

    names: Names
    prefix: str = ""


def make_config(fields: dict) -> ModelConfig:
    """Return a ModelConfig from fields read from a file. Raises CheckpointError for inconsistent sizes."""
    try:
        return ModelConfig(**fields)
    except ValueError as error:
        raise CheckpointError("The config is invalid.", str(error), "Correct the config.") from error


def skeleton(config: ModelConfig) -> Transformer:
    """Build the model without memory for its parameters. Raises CheckpointError for implausible sizes."""
    try:
        if config.n_layer > MAX_LAYERS:
            raise OverflowError("each layer is an object of its own")
        with torch.device("meta"):
            return Transformer(config)
    except (RuntimeError, OverflowError, TypeError) as error:  # the type depends on the sizes
        sizes = ("vocab_size", "n_ctx", "n_layer", "d_model", "n_head", "d_head", "d_mlp")
        got = ", ".join(f"{name} {getattr(config, name)}" for name in sizes)
        raise CheckpointError("The config's sizes are implausible.", got, "Correct the config.") from error


def expected_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Return {our name: shape} of every weight in a checkpoint; a tied output head has no entry."""
    shapes = {name: tuple(tensor.shape) for name, tensor in skeleton(config).state_dict().items()}
    if config.tie_embeddings:
        del shapes["unembed.weight"]
    return shapes


def convert(
    names: Collection[str],
    read: Callable[[str], Tensor],
    layout: Layout,
    config: ModelConfig,
    progress: Progress | None = None,
    *,
    copied: bool = True,
) -> dict[str, Tensor]:
    """Build our state dict from source tensors, which are read one at a time. Results are contiguous and do not share
    memory.

    With `copied`, weights that do not fit in memory are rejected before any is read; without it, the tensors are views
    of what `read` returns. Raises CheckpointError, with the name, for any weight that is unknown, missing, duplicate or
    of another shape, and for an output head that is tied in the config but differs from the embedding.
    """
    if config.n_layer > len(names):
        got = f"{config.n_layer} layers, {len(names)} tensors"
        raise CheckpointError("The config has more layers than the file has tensors.", got, "Correct the config.")
    shapes = expected_shapes(config)
    steps = plan(names, layout, config, shapes)
    total, done = 4 * sum(torch.Size(shape).numel() for shape in shapes.values()), 0
    if copied:
        need_room(total)
    state: dict[str, Tensor] = {}
    for theirs, (ours, change) in steps.items():
        for name, tensor in zip(ours, _apply(theirs, read(theirs), change, config, copied), strict=True):
            expected = shapes.get(name, shapes["embed.weight"])
            if tuple(tensor.shape) != expected:
                got = f"{theirs} gives {name} the shape {list(tensor.shape)}, the config {list(expected)}"
                raise CheckpointError("A weight has the wrong shape.", got, "Fetch the checkpoint again.")
            state[name] = tensor
            done += 4 * tensor.numel()
        (progress or silent)(min(done, total), total, "Reading weights")
    head = state.pop("unembed.weight") if config.tie_embeddings and "unembed.weight" in state else None
    if head is not None and not torch.equal(head, state["embed.weight"]):
        got = "the head's weights differ from the embedding's"
        raise CheckpointError("The config ties the unembedding to the embedding.", got, "Correct tie_word_embeddings.")
    return state


def plan(
    names: Collection[str], layout: Layout, config: ModelConfig, shapes: dict[str, tuple[int, ...]]
) -> dict[str, tuple[tuple[str, ...], Change | None]]:
    """Return {source name: (our names, change)}, verified to cover each of our names exactly once."""
    allowed = shapes.keys() | ({"unembed.weight"} if config.tie_embeddings else set())
    steps, source = {}, {}
    for theirs in names:
        rule, layer = _rule(theirs, layout)
        if rule is None:
            continue
        into = (rule,) if isinstance(rule, str) else rule.names
        ours = tuple(name.replace("{i}", layer) for name in into)
        for name in ours:
            if name not in allowed:
                raise _unknown(theirs)
            if name in source:
                got = f"{theirs} and {source[name]}"
                raise CheckpointError("Two weights map to the same parameter.", got, "Remove one of them.")
            source[name] = theirs
        steps[theirs] = (ours, None if isinstance(rule, str) else rule.change)
    if missing := sorted(shapes.keys() - source.keys()):
        theirs = list(dict.fromkeys(_their_name(name, layout) for name in missing))
        got = ", ".join(theirs[:5]) + (f" and {len(theirs) - 5} more" if len(theirs) > 5 else "")
        raise CheckpointError("The checkpoint lacks weights.", got, "Fetch all files of the checkpoint.")
    return steps


def _rule(theirs: str, layout: Layout) -> tuple[str | Into | None, str]:
    """Return the table's entry for a source name, and the layer number in the name or ""."""
    short = theirs.removeprefix(layout.prefix)
    if short in layout.names:
        return layout.names[short], ""
    # The first number between dots is the layer. "007" would be another name for layer 7, so it does not match.
    number = re.search(r"\.(0|[1-9][0-9]{0,5})\.", short)
    pattern = number and f"{short[: number.start(1)]}{{i}}{short[number.end(1) :]}"
    if pattern not in layout.names:
        raise _unknown(theirs)
    return layout.names[pattern], number[1]


def _unknown(theirs: str) -> CheckpointError:
    hint = "It belongs to another architecture or config."
    return CheckpointError("The checkpoint has a weight that the model does not use.", theirs, hint)


def _their_name(ours: str, layout: Layout) -> str:
    """Return the source name of one of our weights, or our own name if it has no source name."""
    layer = re.search(r"\.([0-9]+)\.", ours)
    pattern = ours.replace(f".{layer[1]}.", ".{i}.", 1) if layer else ours
    for theirs, rule in layout.names.items():
        if rule is not None and pattern in ((rule,) if isinstance(rule, str) else rule.names):
            return theirs.replace("{i}", layer[1]) if layer else theirs
    return ours


def _apply(theirs: str, tensor: Tensor, change: Change | None, config: ModelConfig, copied: bool) -> tuple[Tensor, ...]:
    """Convert one source tensor to ours. Raises CheckpointError for a shape to which the change does not apply."""
    if change is None:
        return (tensor.contiguous(),)
    try:
        parts = change(tensor, config)
        return tuple(part.clone(memory_format=torch.contiguous_format) for part in parts) if copied else parts
    except (RuntimeError, ValueError, IndexError) as error:
        got = f"{theirs}, {list(tensor.shape)}"
        raise CheckpointError("A weight has the wrong shape.", got, "Fetch the checkpoint again.") from error
