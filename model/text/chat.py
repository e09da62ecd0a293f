"""Conversations for chat models: conversion of messages to tokens with the model's own chat template."""

import json
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from model.arguments import shown
from model.errors import InputError, UnsupportedModel, say
from model.text.chat_places import TEMPLATE, places, turn_of_characters, turn_of_tokens
from model.text.library.engine import LibraryEngine
from model.text.surrogates import joined
from model.text.tokenizer import Tokenizer

ROLES = ("system", "user", "assistant", "tool")
MOST_TEXT = 500_000  # maximum number of characters of all messages
PATIENCE = 20.0  # seconds to wait for a process limited to one CPU second, on a busy machine
MOST_SAID = 160  # maximum length of a template's error message in characters
ENDINGS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|endoftext|>",
)  # tokens that end an answer or a text, if the vocabulary has them

_RENDER = Path(__file__).with_name("chat_render.py")
_UNUSED = range(0x100000, 0x10FFFE)  # private-use characters of the last plane, which have no meaning


def ending(tokenizer: Tokenizer) -> frozenset[int]:
    """Return the tokens that end a text: all end tokens in the model's files, and those of the common chat formats.

    The files are listed in model/text/vocabulary_settings.py, and for GGUF in model/text/gguf_vocabulary.py.
    """
    ids = {*tokenizer.vocabulary.end_ids, *(tokenizer.special[text] for text in ENDINGS if text in tokenizer.special)}
    return frozenset(ids if tokenizer.eos_id is None else {*ids, tokenizer.eos_id})


def typable(tokenizer: Tokenizer, ids: Sequence[int]) -> str | None:
    """Return the text of tokens as a user would type it, without a final end token; None if it contains special
    tokens.
    """
    own = ids[: len(ids) - bool(len(ids) and ids[-1] in ending(tokenizer))]
    return None if set(tokenizer.special.values()).intersection(own) else tokenizer.typed(own)


def chat_ids(
    tokenizer: Tokenizer, messages: Sequence[Mapping[str, str]], *, answer: bool = True, continue_final: bool = False
) -> list[int]:
    """Tokenize a conversation; if `answer`, up to the beginning of the assistant's next answer.

    If `continue_final`, the last message is left open, so that the model continues its text. The template's text after
    it is omitted, and so is the space at the end of a text that the template trims. `answer` then has no effect. The
    text equals that of apply_chat_template(continue_final_message=True) in transformers.

    Special tokens in the template's own text are recognized. Those in a user's message remain plain text: while the
    template is rendered, each is replaced by an unused character, which is replaced back after the special tokens have
    been split off. A BOS is included only if the template writes it. Raises InputError if there is no template, if
    messages are invalid or rejected by the template, or if a last message to be continued is omitted or changed by the
    template. Raises UnsupportedModel if a template is broken or takes too long.
    """
    return chat_turns(tokenizer, messages, answer=answer, continue_final=continue_final)[0]


def chat_turns(
    tokenizer: Tokenizer, messages: Sequence[Mapping[str, str]], *, answer: bool = True, continue_final: bool = False
) -> tuple[list[int], list[int]]:
    """Tokenize a conversation like `chat_ids`, and return for each token the index of its message, -1 for the
    template's own text.

    A token with bytes of both belongs to the message. If the template changes the messages beyond recognition, all
    tokens are assigned to the template. Raises the same errors as `chat_ids`.
    """
    template, messages = _template(tokenizer), _checked(messages)
    stands, (end, *marks) = _stand_ins(tokenizer, template, messages)
    contents = [_replace(each["content"], stands) for each in messages]
    # marks the end of the last text; its trailing space reveals whether the template trims texts
    open_end = f"{end} " if continue_final else ""
    ours, marked = (
        _values(
            tokenizer,
            [
                {"role": each["role"], "content": text if at < len(texts) - 1 else text + open_end}
                for at, (each, text) in enumerate(zip(messages, texts, strict=True))
            ],
            answer and not continue_final,
        )
        for texts in (contents, marks)
    )
    written, framed = _render_each(template, [ours, marked])
    text, frame = _text_of(written), framed.get("text", "")
    if continue_final:
        text, frame = _left_open(text, contents[-1], end), frame.partition(end)[0]
    turns = turn_of_characters(len(text), places(text, frame, contents, marks))
    back = {ord(character): special for special, character in stands.items()}
    if tokenizer.library is not None:
        return _in_one(tokenizer.library, tokenizer.special, text, turns, back)
    ids: list[int] = []
    owners: list[int] = []
    at = 0
    for part, special in _cut(text, tokenizer.special):
        own = [special] if special is not None else tokenizer.encode_ids(part.translate(back))
        ids += own
        owners += [TEMPLATE] if special is not None else _owners(tokenizer, part, own, turns[at : at + len(part)], back)
        at += len(part)
    return ids, owners


def _in_one(
    library: LibraryEngine, special: Mapping[str, int], text: str, turns: np.ndarray, back: Mapping[int, str]
) -> tuple[list[int], list[int]]:
    """Encode a rendered conversation as a whole, because a tokenizer may treat the beginning of a text in its own way.

    Returns the ids and the turn of each.
    """
    parts = [(part.translate(back), token is not None) for part, token in _cut(text, special) if part]
    ids, lengths = library.marked(parts)
    sizes = [len(back.get(ord(character), character).encode()) for character in text]
    return ids, turn_of_tokens(turns, sizes, lengths)


def _template(tokenizer: Tokenizer) -> str:
    """Return the default chat template; raise InputError if the model has none."""
    if tokenizer.chat_template:
        return tokenizer.chat_template
    if others := tokenizer.vocabulary.other_templates:
        what = "This model has no default chat template, only named ones."
        hint = "Save the template you want as chat_template.jinja in the model's folder."
        raise InputError(what, ", ".join(sorted(others))[:MOST_SAID], hint)
    raise InputError("This model has no chat template.", "", "Choose a chat model.")


def _left_open(text: str, content: str, end: str) -> str:
    """Return a rendered conversation up to the end of its last text, which is marked by `end` and a space."""
    before, separator, after = text.rpartition(end)
    if not separator or content.strip() not in before:
        what = "The chat template of this model changes the text of the last message, so it cannot be continued."
        raise InputError(what, content[:40], "Change the last message, or let the model start a new answer.")
    return before if after.startswith(" ") else before.rstrip()


def default_system(tokenizer: Tokenizer) -> str | None:
    """Determine the template's default system message; None if the template accepts no system message.

    "" if the template accepts one and has no default. A conversation is rendered with and without a system message.
    """
    if not tokenizer.chat_template:
        return None
    ours = chr(_UNUSED[0]), chr(_UNUSED[1])
    user = {"role": "user", "content": ours[1]}
    several = [[user], [{"role": "system", "content": ours[0]}, user]]
    without, with_one = (
        each.get("text", "")
        for each in _render_each(tokenizer.chat_template, [_values(tokenizer, each, False) for each in several])
    )
    before, separator, after = with_one.partition(ours[0])
    if not separator or ours[1] not in after:
        return None
    if without.startswith(before) and without.endswith(after) and len(without) >= len(before) + len(after):
        return without[len(before) : len(without) - len(after)]
    return ""


def render(template: str, values: Mapping[str, object]) -> str:
    """Render the template in a process with limited time and memory. Raises InputError or UnsupportedModel as
    `_text_of` does.
    """
    return _text_of(_render_each(template, [values])[0])


def _render_each(template: str, several: Sequence[Mapping[str, object]]) -> list[dict[str, str]]:
    """Render the template with each set of values, in one process: {"text"} or {"error", "got"} for each."""
    limit = [{"error": "limit", "got": ""}] * len(several)
    try:
        process = subprocess.run(
            [sys.executable, "-I", str(_RENDER)],
            input=json.dumps({"template": template, "several": list(several)}),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return json.loads(process.stdout) if process.returncode == 0 else limit
    except (subprocess.TimeoutExpired, json.JSONDecodeError):
        return limit


def _text_of(answer: Mapping[str, str]) -> str:
    """Return the text of one answer. Raises InputError if the template rejected the messages, UnsupportedModel if it
    failed.
    """
    match answer:
        case {"text": text}:
            return text
        case {"error": "syntax", "got": got}:
            raise UnsupportedModel("The chat template of this model cannot be read.", got[:MOST_SAID].rstrip("."))
        case {"error": "refused", "got": got}:
            what = "The chat template of this model does not accept these messages."
            raise InputError(what, got[:MOST_SAID].rstrip("."))
        case {"error": "failed", "got": got}:
            raise UnsupportedModel("The chat template of this model failed.", got[:MOST_SAID].rstrip("."))
    raise UnsupportedModel("The chat template of this model takes too much time or memory.")


def _values(tokenizer: Tokenizer, messages: list[dict[str, str]], answer: bool) -> dict[str, object]:
    """Build the variables of a template."""
    nothing = {"tools": None, "documents": None}
    return {**_named(tokenizer), "messages": messages, **nothing, "add_generation_prompt": answer}


def _owners(tokenizer: Tokenizer, part: str, ids: list[int], turns: np.ndarray, back: Mapping[int, str]) -> list[int]:
    """Assign each token of a stretch between special tokens to a turn."""
    lengths = [len(tokenizer.decode_bytes([number])) for number in ids]
    characters = [back.get(ord(character), character) for character in part]
    if tokenizer.vocabulary.nfc:
        characters = [unicodedata.normalize("NFC", each) for each in characters]
    sizes = [len(each.encode()) for each in characters]
    # Characters merged with their neighbors, so the tokens are assigned in proportion to their bytes.
    if sum(sizes) != sum(lengths):
        edges = np.round(np.linspace(0, sum(lengths), len(sizes) + 1)).astype(int)
        sizes = np.diff(edges).tolist()
    return turn_of_tokens(turns, sizes, lengths)


def _checked(messages: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Return the role and text of each message. Raises InputError for invalid messages."""
    if isinstance(messages, str | Mapping) and messages:
        hint = say("For example: {}.", '[{"role": "user", "content": "Hi"}]')
        raise InputError("A conversation is a list of messages.", shown(messages), hint)
    if not messages:
        raise InputError("The message is missing.", "", "Write something to answer.")
    checked = []
    for message in messages:
        role, content = (message.get(key) if isinstance(message, Mapping) else None for key in ("role", "content"))
        if role not in ROLES or not isinstance(content, str):
            raise InputError("This is not a message.", _wrong(message), "It needs a role and a text.")
        checked.append({"role": role, "content": joined(content)})
    size = sum(len(each["content"]) for each in checked)
    if size > MOST_TEXT:
        raise InputError("The messages are too long.", f"{size} characters", say("At most {} characters.", MOST_TEXT))
    return checked


def _wrong(message: object) -> str:
    """Return the part of an invalid message that is wrong, as text."""
    if not isinstance(message, Mapping):
        return shown(message)
    key = "content" if message.get("role") in ROLES else "role"
    return f"{key}: {shown(message[key])}" if key in message else f"no {key}"


def _stand_ins(
    tokenizer: Tokenizer, template: str, messages: Sequence[Mapping[str, str]]
) -> tuple[dict[str, str], list[str]]:
    """Choose a character for each special token in the messages, and one more than the number of messages.

    None of the characters occurs in the messages or in the template.
    """
    written = "".join(message["content"] for message in messages)
    used = {*written, *template}
    unused = (chr(code) for code in _UNUSED if chr(code) not in used)
    specials = [special for special in tokenizer.special if special in written]
    return dict(zip(specials, islice(unused, len(specials)), strict=True)), list(islice(unused, len(messages) + 1))


def _replace(text: str, stands: Mapping[str, str]) -> str:
    return "".join(stands.get(part, part) for part, _ in _cut(text, dict.fromkeys(stands, 0)))


def _cut(text: str, special: Mapping[str, int]) -> Iterator[tuple[str, int | None]]:
    """Split the text at special tokens, longest first: (a special token, its id) or (text between them, None)."""
    if not special:
        yield text, None
        return
    pattern = "|".join(map(re.escape, sorted(special, key=len, reverse=True)))
    for i, part in enumerate(re.split(f"({pattern})", text)):
        yield part, special[part] if i % 2 else None


def _named(tokenizer: Tokenizer) -> dict[str, str | list[str]]:
    """Return the special tokens that a template can use by name."""
    ids = {"bos_token": tokenizer.bos_id, "eos_token": tokenizer.eos_id}
    return {name: tokenizer.piece(id) for name, id in ids.items() if id is not None} | {**tokenizer.vocabulary.named}
