"""Conversion of another project's checkpoint to this project's weights, by a table of names."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

import torch
from torch import Tensor

from model.errors import CheckpointError
from model.free_memory import need_room
from model.gpt.config import ModelConfig
from model.gpt.transformer import Transformer
from model.progress import Progress, silent

MAX_LAYERS = 4096
Change = Callable[[Tensor, ModelConfig], tuple[Tensor, ...]]
Back = Callable[[Sequence[Tensor], ModelConfig], Tensor]


@dataclass(frozen=True)
class Into:
    """Conversion of one source tensor: the names of the results, and a function that returns them in the same order.

    `back` is its inverse, for the comparison with transformers.
    """

    names: tuple[str, ...]
    change: Change
    back: Back | None = None


# Source name -> our name, our names after a conversion, or None for a non-weight. {i} is a layer number, and {e} the
# number of an expert, whose tensor is one of those that our weight stacks, or of a head, whose gains our weight has in
# a row.
Names = dict[str, str | Into | None]


def both(theirs: str, ours: str) -> Names:
    """Return the names of a weight and its bias."""
    return {f"{theirs}.{kind}": f"{ours}.{kind}" for kind in ("weight", "bias")}


@dataclass(frozen=True)
class Step:
    """The target of one source tensor: our names, the conversion, and the expert in the name or None."""

    names: tuple[str, ...]
    change: Change | None
    expert: int | None


@dataclass(frozen=True)
class Layout:
    """Weight names of a checkpoint format. `prefix` is omitted in `names`, and may be absent or one of `others` in a
    file. Names that begin as in `beside` belong to parts of a model that are left out. `joint` has names of `names`
    that no file has: their tensor is computed from several others.
    """

    names: Names
    prefix: str = ""
    _: KW_ONLY
    others: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()  # the same, for names without the prefix
    joint: Mapping[str, tuple[tuple[str, ...], Callable[..., Tensor]]] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)  # the file's layer number -> ours, where they differ


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
    names, read = _joined(names, read, layout)
    steps = plan(names, layout, config, shapes)
    total, done = 4 * sum(torch.Size(shape).numel() for shape in shapes.values()), 0
    if copied:
        need_room(total)
    state: dict[str, Tensor] = {}
    for theirs, step in steps.items():
        for name, tensor in zip(step.names, _apply(theirs, read(theirs), step.change, config, copied), strict=True):
            whole = shapes.get(name, shapes["embed.weight"])
            expected = whole if step.expert is None else stack_of(whole, config)[1:]
            if tuple(tensor.shape) != expected:
                got = f"{theirs} gives {name} the shape {list(tensor.shape)}, the config {list(expected)}"
                raise CheckpointError("A weight has the wrong shape.", got, "Fetch the checkpoint again.")
            if step.expert is None:
                state[name] = tensor
            else:
                state.setdefault(name, tensor.new_empty(whole)).view(stack_of(whole, config))[step.expert] = tensor
            done += 4 * tensor.numel()
        (progress or silent)(min(done, total), total, "Reading weights")
    head = state.pop("unembed.weight") if config.tie_embeddings and "unembed.weight" in state else None
    if head is not None and not torch.equal(head, state["embed.weight"]):
        got = "the head's weights differ from the embedding's"
        raise CheckpointError("The config ties the unembedding to the embedding.", got, "Correct tie_word_embeddings.")
    return state


def _joined(
    names: Collection[str], read: Callable[[str], Tensor], layout: Layout
) -> tuple[Collection[str], Callable[[str], Tensor]]:
    """Return names and a reader with the tensors of `Layout.joint` in place of those from which they are computed."""
    starts = ("", layout.prefix, *layout.others)
    made, used = {}, set()
    for name, (parts, function) in layout.joint.items():
        found = [next((f"{start}{part}" for start in starts if f"{start}{part}" in names), None) for part in parts]
        if None not in found:
            made[name] = found, function
            used.update(found)
    if not made:
        return names, read

    def reading(name: str) -> Tensor:
        if name not in made:
            return read(name)
        found, function = made[name]
        return function(*(read(each) for each in found))

    return [*(name for name in names if name not in used), *made], reading


def stack_of(shape: tuple[int, ...], config: ModelConfig) -> tuple[int, ...]:
    """Return the shape whose first axis numbers the tensors that our weight stacks: experts, or heads with gains."""
    return shape if len(shape) > 1 else (shape[0] // config.d_head, config.d_head)


def plan(
    names: Collection[str], layout: Layout, config: ModelConfig, shapes: dict[str, tuple[int, ...]]
) -> dict[str, Step]:
    """Return {source name: step}, verified to cover each of our weights, or each expert of a stacked one, exactly
    once.
    """
    allowed = shapes.keys() | ({"unembed.weight"} if config.tie_embeddings else set())
    steps: dict[str, Step] = {}
    source: dict[tuple[str, int | None], str] = {}
    for theirs in names:
        rule, layer, expert = _rule(theirs, layout)
        if rule is None:
            continue
        into = (rule,) if isinstance(rule, str) else rule.names
        ours = tuple(name.replace("{i}", layer) for name in into)
        for name in ours:
            if name not in allowed or (expert is not None and expert >= stack_of(shapes[name], config)[0]):
                raise _unknown(theirs)
            if twin := source.get((name, expert)) or source.get((name, None)):
                got = f"{theirs} and {twin}"
                raise CheckpointError("Two weights map to the same parameter.", got, "Remove one of them.")
            source[name, expert] = theirs
        steps[theirs] = Step(ours, None if isinstance(rule, str) else rule.change, expert)
    single = {name for name, expert in source if expert is not None}
    each = {name: range(stack_of(shapes[name], config)[0]) for name in single}
    needed = [(name, e) for name in shapes for e in each.get(name, (None,))]
    if both := single & {name for name, expert in source if expert is None}:
        raise CheckpointError("Two weights map to the same parameter.", min(both), "Remove one of them.")
    if missing := sorted((name, -1 if e is None else e) for name, e in needed if (name, e) not in source):
        theirs = list(dict.fromkeys(_their_name(name, layout, e) for name, e in missing))
        got = ", ".join(theirs[:5]) + (f" and {len(theirs) - 5} more" if len(theirs) > 5 else "")
        raise CheckpointError("The checkpoint lacks weights.", got, "Fetch all files of the checkpoint.")
    return steps


def _rule(theirs: str, layout: Layout) -> tuple[str | Into | None, str, int | None]:
    """Return the table's entry for a source name, the layer number in the name or "", and its expert or None."""
    if theirs.startswith(layout.beside):
        return None, "", None
    prefix = next((prefix for prefix in (*layout.others, layout.prefix) if theirs.startswith(prefix)), "")
    pattern, numbers = theirs.removeprefix(prefix), []
    if pattern.startswith(layout.unread):
        return None, "", None
    # Of the numbers between dots, the first is the layer, and the second the expert. "007" would be another name for
    # layer 7, so it does not match.
    for sign in ("", "{i}", "{e}"):
        if sign:
            number = re.search(r"\.(0|[1-9][0-9]{0,5})\.", pattern)
            if number is None:
                break
            numbers.append(number[1])
            pattern = f"{pattern[: number.start(1)]}{sign}{pattern[number.end(1) :]}"
        if pattern in layout.names:
            layer, expert = (*numbers, "", "")[:2]
            return layout.names[pattern], layout.places.get(layer, layer), int(expert) if expert else None
    raise _unknown(theirs)


def _unknown(theirs: str) -> CheckpointError:
    hint = "It belongs to another architecture or config."
    return CheckpointError("The checkpoint has a weight that the model does not use.", theirs, hint)


def _their_name(ours: str, layout: Layout, expert: int = -1) -> str:
    """Return the source name of one of our weights, or of one expert of it if not -1, or our own name if it has no
    source name.
    """
    layer = re.search(r"\.([0-9]+)\.", ours)
    pattern = ours.replace(f".{layer[1]}.", ".{i}.", 1) if layer else ours
    for theirs, rule in layout.names.items():
        if rule is None or ("{e}" in theirs) != (expert >= 0):
            continue
        if pattern in ((rule,) if isinstance(rule, str) else rule.names):
            named = theirs.replace("{e}", str(expert))
            return named.replace("{i}", layer[1]) if layer else named
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
