"""Conversations for chat models: messages become tokens by the model's own chat template."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from model.errors import InputError, UnsupportedModel, say
from model.text.tokenizer import Tokenizer

ROLES = ("system", "user", "assistant", "tool")
MOST_TEXT = 500_000  # characters of all messages
PATIENCE = 20.0  # wall seconds for a process limited to one CPU second, on a busy machine
ENDINGS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|endoftext|>",
)  # end of an answer or a text, where a vocabulary has them

_RENDER = Path(__file__).with_name("chat_render.py")
_UNUSED = range(0x100000, 0x10FFFE)  # characters of the last private-use plane, without meaning


def ending(tokenizer: Tokenizer) -> frozenset[int]:
    """The tokens that end a text: the vocabulary's own, and those of the usual chat formats."""
    ids = {tokenizer.special[text] for text in ENDINGS if text in tokenizer.special}
    return frozenset(ids if tokenizer.eos_id is None else {*ids, tokenizer.eos_id})


def chat_ids(tokenizer: Tokenizer, messages: Sequence[Mapping[str, str]]) -> list[int]:
    """The ids of a conversation, up to where the assistant's answer begins.

    Special tokens in the template's own text are recognised. Those that a person wrote into a message stay plain text:
    while the template is rendered, each is replaced by an unused character, which is replaced back after the special
    tokens have been split off. A BOS is included only where the template writes it. Raises InputError without a
    template, for invalid messages, or for messages that the template refuses; UnsupportedModel for a template that is
    broken or takes too long.
    """
    if not tokenizer.chat_template:
        raise InputError("This model has no chat template.", "", "Choose a model that was taught to chat.")
    _check(messages)
    stands = _stand_ins(tokenizer, messages)
    hidden = [{"role": each["role"], "content": _replace(each["content"], stands)} for each in messages]
    text = render(
        tokenizer.chat_template,
        {
            "messages": hidden,
            "tools": None,
            "documents": None,
            "add_generation_prompt": True,
            **_ends(tokenizer),
        },
    )
    back = {ord(character): special for special, character in stands.items()}
    ids: list[int] = []
    for part, special in _cut(text, tokenizer.special):
        ids += [special] if special is not None else tokenizer.encode_ids(part.translate(back))
    return ids


def render(template: str, values: Mapping[str, object]) -> str:
    """The rendered template, from a process with limited time and memory. Raises InputError or UnsupportedModel."""
    try:
        process = subprocess.run(
            [sys.executable, "-I", str(_RENDER)],
            input=json.dumps({"template": template, "values": values}),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        answer = json.loads(process.stdout) if process.returncode == 0 else {"error": "limit", "got": ""}
    except (subprocess.TimeoutExpired, json.JSONDecodeError):
        answer = {"error": "limit", "got": ""}
    match answer:
        case {"text": text}:
            return text
        case {"error": "syntax", "got": got}:
            raise UnsupportedModel("The chat template of this model cannot be read.", got[:120].rstrip("."))
        case {"error": "refused", "got": got}:
            what = "The chat template of this model does not take these messages."
            raise InputError(what, got[:120].rstrip("."), "Let user and assistant take turns, the user first.")
    raise UnsupportedModel("The chat template of this model takes too much time or memory.")


def _check(messages: Sequence[Mapping[str, str]]) -> None:
    """Raise InputError for invalid messages."""
    if not messages:
        raise InputError("There is no message.", "", "Write something to answer.")
    size = 0
    for message in messages:
        role, content = (message.get(key) if isinstance(message, Mapping) else None for key in ("role", "content"))
        if role not in ROLES or not isinstance(content, str):
            raise InputError("This is not a message.", str(role)[:40], "It needs a role and a text.")
        size += len(content)
    if size > MOST_TEXT:
        raise InputError("The messages are too long.", f"{size} characters", say("At most {} characters.", MOST_TEXT))


def _stand_ins(tokenizer: Tokenizer, messages: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """An unused character for each special token in the messages, unused in both messages and template."""
    written = "".join(message["content"] for message in messages)
    used = {*written, *tokenizer.chat_template}
    unused = (chr(code) for code in _UNUSED if chr(code) not in used)
    specials = [special for special in tokenizer.special if special in written]
    return dict(zip(specials, islice(unused, len(specials)), strict=True))


def _replace(text: str, stands: Mapping[str, str]) -> str:
    return "".join(stands.get(part, part) for part, _ in _cut(text, dict.fromkeys(stands, 0)))


def _cut(text: str, special: Mapping[str, int]) -> Iterator[tuple[str, int | None]]:
    """Stretches of the text: (a special token, its id) or (text between them, None). Longest tokens first."""
    if not special:
        yield text, None
        return
    pattern = "|".join(map(re.escape, sorted(special, key=len, reverse=True)))
    for i, part in enumerate(re.split(f"({pattern})", text)):
        yield part, special[part] if i % 2 else None


def _ends(tokenizer: Tokenizer) -> dict[str, str]:
    """The special tokens that a template can use by name."""
    ids = {"bos_token": tokenizer.bos_id, "eos_token": tokenizer.eos_id}
    return {name: tokenizer.piece(id) for name, id in ids.items() if id is not None}
