"""Parsing of edits from untrusted values, and validation of edits for a model and a prompt."""

import dataclasses
from collections.abc import Mapping, Sequence

from model.arguments import check_token, shown
from model.errors import InputError, say
from model.gpt.config import ModelConfig
from model.gpt.edits import EDITS, FIELDS, MAX_FACTOR, MAX_VALUE, Edit
from model.gpt.experts import require_dense
from model.gpt.mixers.needs import need_scores


def edit_of(value: object, config: ModelConfig, T: int) -> Edit:
    """Return a validated edit from plain values, for T tokens. Fields with the value None count as missing.

    `edit_of(dataclasses.asdict(edit), config, T) == edit`. Raises InputError for any invalid value.
    """
    if not isinstance(value, Mapping):
        raise InputError(
            "An edit must be an object with named fields.", type(value).__name__, "Give its kind, layer and head."
        )
    fields = {name: field for name, field in value.items() if field is not None}
    if unknown := [name for name in fields if name not in ("kind", *FIELDS)]:
        raise InputError("An edit has an unknown field.", shown(unknown[0]), "Remove it.")
    edit = Edit(fields.get("kind"), *(fields.get(name) for name in FIELDS))
    check_edits([edit], config, T)
    real = {name: float(getattr(edit, name)) for name in ("factor", "value") if getattr(edit, name) is not None}
    return dataclasses.replace(edit, **real)


def check_edits(edits: Sequence[Edit], config: ModelConfig, T: int) -> None:
    """Raise InputError unless all edits are valid for the model and T tokens, and leave at least one key to every
    query.
    """
    for edit in edits:
        _check_fields(edit)
        _check_values(edit, config, T)
        _check_mixer(edit, config)
    _check_rows(edits, config)


def _check_fields(edit: Edit) -> None:
    """Raise InputError unless the kind is known and the edit has its required fields and no unused ones."""
    if not isinstance(edit.kind, str) or edit.kind not in EDITS:
        raise InputError(
            "No kind of edit has this name.", shown(edit.kind), say("Choose one of: {}.", ", ".join(EDITS))
        )
    kind = EDITS[edit.kind]
    present = [name for name in FIELDS if getattr(edit, name) is not None]
    if missing := [name for name in kind.needs if name not in present]:
        raise InputError(
            "An edit lacks a field.", ", ".join(missing), say("This kind needs: {}.", ", ".join(kind.needs))
        )
    if extra := [name for name in present if name not in kind.needs + kind.optional]:
        raise InputError("An edit has a field that its kind does not use.", ", ".join(extra), "Remove it.")


def _check_values(edit: Edit, config: ModelConfig, T: int) -> None:
    """Raise InputError unless every field is within its range."""
    if not _within(edit.layer, config.n_layer):
        raise InputError(
            "This layer does not exist.", shown(edit.layer), say("Layers run from 0 to {}.", config.n_layer - 1)
        )
    if not _within(edit.head, config.n_head):
        raise InputError(
            "This head does not exist.", shown(edit.head), say("Heads run from 0 to {}.", config.n_head - 1)
        )
    for position in (edit.query, edit.key):
        if not _within(position, T):
            raise InputError(
                "This position does not exist.", shown(position), say("Positions run from 0 to {}.", T - 1)
            )
    if edit.query is not None and edit.key > edit.query:
        what = "A query token cannot attend to a later token."
        raise InputError(what, f"query {edit.query}, key {edit.key}", "Choose a key at or before the query.")
    if edit.neuron is not None:
        require_dense(config)
    if not _within(edit.neuron, config.d_mlp):
        raise InputError(
            "This neuron does not exist.", shown(edit.neuron), say("Neurons run from 0 to {}.", config.d_mlp - 1)
        )
    if edit.token is not None:
        check_token(edit.token, config.vocab_size)
    if not _usable(edit.factor, MAX_FACTOR):
        raise InputError(
            "The factor cannot be used.",
            shown(edit.factor),
            say("Choose a value from {} to {}.", f"{-MAX_FACTOR:g}", f"{MAX_FACTOR:g}"),
        )
    if not _usable(edit.value, MAX_VALUE):
        raise InputError(
            "The value cannot be used.",
            shown(edit.value),
            say("Choose a value from {} to {}.", f"{-MAX_VALUE:g}", f"{MAX_VALUE:g}"),
        )


def _check_mixer(edit: Edit, config: ModelConfig) -> None:
    """Raise InputError for an edit of scores or patterns in a layer without them."""
    if EDITS[edit.kind].site in ("scores", "pattern"):
        for layer in range(config.n_layer) if edit.layer is None else (edit.layer,):
            need_scores(config, layer)


def _check_rows(edits: Sequence[Edit], config: ModelConfig) -> None:
    """Raise InputError for a row with all keys blocked, whose softmax would be undefined."""
    blocked: dict[tuple[int, int, int], set[int]] = {}  # (layer, head, query): keys
    for edit in edits:
        if edit.kind != "block_edge":
            continue
        for layer in range(config.n_layer) if edit.layer is None else (edit.layer,):
            for head in range(config.n_head) if edit.head is None else (edit.head,):
                keys = blocked.setdefault((layer, head, edit.query), set())
                keys.add(edit.key)
                first = max(edit.query - config.window + 1, 0) if config.mixer_of(layer) == "sliding_window" else 0
                if keys.issuperset(range(first, edit.query + 1)):  # all keys visible to the query
                    what = "A token would have no key left to attend to."
                    raise InputError(what, f"query {edit.query}", "Leave it at least one key.")


def _within(value: object, count: int) -> bool:
    """Return True for None and for an integer from 0 to count - 1; True and 1.0 do not count as integers."""
    return value is None or (type(value) is int and 0 <= value < count)


def _usable(value: object, limit: float) -> bool:
    """Return True for None and for a number with an absolute value of at most `limit`."""
    # The comparison is false for NaN, and also valid for integers too large for a float.
    return value is None or (type(value) in (int, float) and abs(value) <= limit)
