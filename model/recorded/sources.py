"""Attention in the structures of other libraries, by their documented names; none of them is imported.

* transformers: an output with `attentions`, or `encoder_attentions`, `decoder_attentions` and `cross_attentions`.
* TransformerLens: an `ActivationCache` or its `cache_dict`: "blocks.0.attn.hook_pattern", the same names in a
  TransformerBridge, and "encoder.0...", "decoder.0.attn..." and "decoder.0.cross_attn..." of encoder-decoders. Folding
  norms into weights and centering them (`fold_ln`, `center_writing_weights`) changes the residual stream but not the
  attention patterns, so that a folded cache shows the model's own attention.
* nnsight and nnterp: saved values, as tensors or as proxies with a `value`; nnterp's `attention_probabilities[layer]`
  are [batch, heads, queries, keys].
* A mapping from layer numbers to arrays.
"""

import re
from collections.abc import Mapping, Sequence

from model.errors import InputError, Message, say
from model.recorded.taken import is_array

KINDS = ("encoder", "decoder", "cross")  # which= of encoder-decoder models
_PATTERN = re.compile(r"(?P<stack>[\w.]*?)\.?(?P<layer>\d+)\.(?P<part>[\w.]*?)\.?hook_pattern")
_FOLDED = "From a cache: folding norms into weights and centering weights leave attention patterns unchanged."
_MOST_DEPTH = 4  # nested values of proxies


def layers_of(source: object, which: str = "") -> tuple[object, int, tuple[Message, ...]]:
    """Return (arrays, number of the first layer, notes) of any supported structure; arrays come back unchanged.

    which: "encoder", "decoder" or "cross", if a structure has several kinds of attention.

    Raises InputError if no attention is found, or several kinds without a choice.
    """
    if which not in ("", *KINDS):
        raise InputError("There is no such kind of attention.", which[:40], say("Choose one of: {}.", ", ".join(KINDS)))
    source = _value(source)
    named = _of_output(source)
    if named is not None:
        return _tuple_of(_chosen(named, which)), 0, ()
    cache = getattr(source, "cache_dict", source)
    if isinstance(cache, Mapping):
        return _of_mapping(cache, which)
    if which:
        raise InputError("This attention is of one kind only.", which, "Leave out which=.")
    return _tuple_of(source), 0, ()


def _value(source: object) -> object:
    """Return the value of a proxy of nnsight, or the object itself."""
    for _ in range(_MOST_DEPTH):
        if is_array(source) or isinstance(source, Mapping | Sequence) or not hasattr(source, "value"):
            break
        source = source.value
    return source


def _tuple_of(source: object) -> object:
    if isinstance(source, tuple | list):
        layers = [_value(each) for each in source]
        if layers and all(isinstance(each, tuple | list) and each and is_array(each[0]) for each in layers):
            raise InputError(
                "This is the attention of several generated tokens.",
                say("{} steps", len(layers)),
                "Run the model once on the whole text and show the attention of that run.",
            )
        return layers
    return source


def _of_output(source: object) -> dict[str, object] | None:
    """Return the kinds of attention of an output of transformers, by kind; None for any other object."""
    names = {
        "": "attentions",
        "encoder": "encoder_attentions",
        "decoder": "decoder_attentions",
        "cross": "cross_attentions",
    }
    if is_array(source) or not any(hasattr(source, name) for name in names.values()):
        return None
    found = {kind: getattr(source, name, None) for kind, name in names.items()}
    found = {kind: value for kind, value in found.items() if value is not None and len(value)}
    if not found:
        raise InputError(
            "This output has no attention.",
            type(source).__name__,
            'Load the model with attn_implementation="eager" and run it with output_attentions=True.',
        )
    if "" in found and len(found) > 1:  # a decoder with cross-attention calls its own attention `attentions`
        found["decoder"] = found.pop("")
    return found


def _chosen(found: Mapping[str, object], which: str) -> object:
    """Choose a kind. Raises InputError if there is a choice but none was made, or a kind that is missing."""
    offered = ", ".join(f'which="{kind}"' for kind in found if kind)
    if which in found:
        return found[which]
    if not which and len(found) == 1:
        return next(iter(found.values()))
    if which:
        hint = say("Choose one of: {}.", offered) if offered else "Leave out which=."
        raise InputError("This output has no attention of this kind.", which, hint)
    raise InputError(
        "There are several kinds of attention.", ", ".join(filter(None, found)), say("Choose one of: {}.", offered)
    )


def _of_mapping(cache: Mapping, which: str) -> tuple[object, int, tuple[Message, ...]]:
    """Return the layers of a cache, by the names of TransformerLens, or of a mapping from numbers to layers."""
    found: dict[str, dict[int, object]] = {}
    for key in cache:
        if type(key) is int:
            found.setdefault("", {})[key] = _value(cache[key])
        elif isinstance(key, str) and (match := _PATTERN.fullmatch(key)):
            kind = "cross" if "cross" in match["part"] else match["stack"].partition("_")[0]
            found.setdefault(kind if kind in KINDS else "", {})[int(match["layer"])] = _value(cache[key])
    if not found:
        raise InputError(
            "This cache has no attention patterns.",
            say("{} entries", len(cache)),
            "Names like blocks.0.attn.hook_pattern are read; do not filter them out of the cache.",
        )
    layers: Mapping[int, object] = _chosen(found, which)  # type: ignore[assignment]
    numbers = sorted(layers)
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise InputError(
            "Layers are missing between others.",
            ", ".join(map(str, numbers[:20])),
            "Show layers that follow each other.",
        )
    named = any(isinstance(key, str) for key in cache)
    return [layers[n] for n in numbers], numbers[0], (say(_FOLDED),) if named else ()
