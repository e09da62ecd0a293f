"""Parsing of edits from untrusted values, and validation of edits for a model and a prompt."""

import dataclasses
from collections.abc import Mapping, Sequence

from model.arguments import check_token, shown
from model.errors import InputError, say
from model.gpt.config import ModelConfig
from model.gpt.edits import EDITS, FIELDS, MAX_FACTOR, MAX_VALUE, STREAM_SITES, Edit
from model.gpt.experts import require_dense
from model.gpt.mixers.needs import need_directions, need_nothing_beside, need_scores
from model.gpt.placed_vectors import ranges, vector_of

MOST_NAME = 60  # characters of the name of a vector


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
        if EDITS[edit.kind].takes == "vector":
            _check_vector(edit, config, T)
        _check_mixer(edit, config)
        _check_entries(edit, config)
        _check_two_way(edit, config)
    _check_rows(edits, config, T)


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
    if edit.query is not None and edit.key > edit.query and not config.two_way:
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
    if edit.positions is not None:
        _check_positions(edit.positions, T)
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


def _check_vector(edit: Edit, config: ModelConfig, T: int) -> None:
    """Raise InputError unless the vector has the width of the stream, and its site and name can be used."""
    if not isinstance(edit.site, str) or edit.site not in STREAM_SITES:
        hint = say("Choose one of: {}.", ", ".join(STREAM_SITES))
        raise InputError("The stream has no such site.", shown(edit.site), hint)
    if edit.site == "resid_pre" and edit.layer == 0:
        what = "Before the first layer, the stream is the embedding, which is not edited."
        raise InputError(what, edit.site, "Choose resid_mid or resid_post, or a later layer.")
    check_width(edit.vector, config.d_model)
    if edit.name is not None and not (isinstance(edit.name, str) and 0 < len(edit.name) <= MOST_NAME):
        got = shown(edit.name)
        raise InputError("The name of a vector cannot be used.", got, say("Give 1 to {} characters.", MOST_NAME))


def _check_positions(positions: str, T: int) -> None:
    """Raise InputError unless the positions can be read and exist among T tokens; from T on, they are generated."""
    for low, high in ranges(positions):
        last = low - 1 if high is None else high - 1
        if last >= T:
            raise InputError("This position does not exist.", shown(last), say("Positions run from 0 to {}.", T - 1))


def check_width(text: str, width: int) -> None:
    """Raise InputError unless a vector's text can be read and has the width of the stream."""
    if not isinstance(text, str):
        hint = "It is base64 of float32 numbers: write it with vector_text."
        raise InputError("The vector of an edit cannot be read.", shown(text), hint)
    if (n := len(vector_of(text))) != width:
        hint = say("This model's stream has {} numbers a token.", width)
        raise InputError("The vector has another length than the stream.", f"{n} numbers", hint)


def _check_mixer(edit: Edit, config: ModelConfig) -> None:
    """Raise InputError for an edit of scores or patterns in a layer without them."""
    if EDITS[edit.kind].site in ("scores", "pattern"):
        for layer in range(config.n_layer) if edit.layer is None else (edit.layer,):
            need_scores(config, layer)
    if edit.kind == "hide_token":
        need_nothing_beside(config)


def _check_entries(edit: Edit, config: ModelConfig) -> None:
    """Raise InputError for another embedding where every layer also reads which token it is."""
    if EDITS[edit.kind].site == "embed" and config.d_layer_input:
        what = "Every layer of this model also reads the token itself, so another embedding does not replace the token."
        raise InputError(what, edit.kind, "Hide the token, or choose another model.")


def fits(kind: str, config: ModelConfig) -> bool:
    """Return whether a kind of edit is defined for the model, whatever its layer."""
    if kind == "hide_token":
        return all(map(config.is_attention, range(config.n_layer))) and not config.ssm_beside
    if EDITS[kind].site == "embed":
        return not config.d_layer_input
    if EDITS[kind].takes == "direction":
        return not config.head_dense and not config.headless
    return not (config.two_way and kind == "uniform")


def _check_two_way(edit: Edit, config: ModelConfig) -> None:
    """Raise InputError for an edit that is defined only for models that predict the next token from the stream."""
    if config.two_way and edit.kind == "uniform":
        what = "Uniform weights cover the tokens up to the query, but this model also attends to later tokens."
        raise InputError(what, edit.kind, "Choose another edit.")
    if EDITS[edit.kind].takes == "direction":
        need_directions(config)


def _check_rows(edits: Sequence[Edit], config: ModelConfig, T: int) -> None:
    """Raise InputError for a row with all keys blocked, whose softmax would be undefined.

    Hidden tokens alone empty no row, since a token still sees itself.
    """
    blocked: dict[tuple[int, int, int], set[int]] = {}  # (layer, head, query): keys
    for edit in edits:
        if edit.kind != "block_edge":
            continue
        for layer in range(config.n_layer) if edit.layer is None else (edit.layer,):
            for head in range(config.n_head) if edit.head is None else (edit.head,):
                keys = blocked.setdefault((layer, head, edit.query), _hidden(edits, layer, head, edit.query, T))
                keys.add(edit.key)
                if keys.issuperset(_visible(edit.query, config, layer, T)):
                    what = "A token would have no key left to attend to."
                    raise InputError(what, f"query {edit.query}", "Leave it at least one key.")


def _hidden(edits: Sequence[Edit], layer: int, head: int, query: int, T: int) -> set[int]:
    """Return the tokens that are hidden from a query in one head."""
    hiding = [e for e in edits if e.kind == "hide_token" and e.layer in (None, layer) and e.head in (None, head)]
    spans = [range(T)[low:high] for edit in hiding for low, high in ranges(edit.positions)]
    return {at for span in spans for at in span} - {query}


def _visible(query: int, config: ModelConfig, layer: int, T: int) -> range:
    """Return the positions of the keys that a query sees."""
    last = T - 1 if config.two_way else query
    if config.mixer_of(layer) != "sliding_window":
        return range(last + 1)
    if config.two_way:
        return range(max(query - config.window // 2, 0), min(query + config.window // 2, last) + 1)
    return range(max(query - config.window + 1, 0), last + 1)


def _within(value: object, count: int) -> bool:
    """Return True for None and for an integer from 0 to count - 1; True and 1.0 do not count as integers."""
    return value is None or (type(value) is int and 0 <= value < count)


def _usable(value: object, limit: float) -> bool:
    """Return True for None and for a number with an absolute value of at most `limit`."""
    # The comparison is false for NaN, and also valid for integers too large for a float.
    return value is None or (type(value) in (int, float) and abs(value) <= limit)
