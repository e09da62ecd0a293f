"""Conversations for models that were taught to answer: messages become tokens by the model's own chat template."""

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
PATIENCE = 20.0  # seconds for a process that may use one of the processor, on a busy machine
ENDINGS = ("<|im_end|>", "<|eot_id|>", "<|endoftext|>")  # end an answer or a text, where a vocabulary has them

_RENDER = Path(__file__).with_name("chat_render.py")
_UNUSED = range(0x100000, 0x10FFFE)  # characters of the last private plane: they mean nothing


def ending(tokenizer: Tokenizer) -> frozenset[int]:
    """The tokens that end a text: the vocabulary's own, and those that end an answer in the usual chat formats."""
    named = {tokenizer.special[text] for text in ENDINGS if text in tokenizer.special}
    return frozenset(named if tokenizer.eos_id is None else {*named, tokenizer.eos_id})


def chat_ids(tokenizer: Tokenizer, messages: Sequence[Mapping[str, str]]) -> list[int]:
    """The ids of a conversation, up to where the assistant's answer begins.

    Special tokens in the template's own text are read as such. Those that a person wrote into a message stay plain
    text: while the template is at work, an unused character stands for each, and it is turned back once the special
    tokens have been cut out. A BOS is only there where the template writes it.

    Raises InputError without a template, for messages that are none, or for messages that the template refuses;
    UnsupportedModel for a template that is broken or takes too long.
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
    """What the template writes, in a process with little time and memory. Raises InputError or UnsupportedModel."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", str(_RENDER)],
            input=json.dumps({"template": template, "values": values}),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        answer = json.loads(done.stdout) if done.returncode == 0 else {"error": "limit", "got": ""}
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
    """Raise InputError unless these are messages."""
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
    """A character for each special token that somebody wrote, one that neither they nor the template use."""
    written = "".join(message["content"] for message in messages)
    taken = {*written, *tokenizer.chat_template}
    free = (chr(code) for code in _UNUSED if chr(code) not in taken)
    found = [special for special in tokenizer.special if special in written]
    return dict(zip(found, islice(free, len(found)), strict=True))


def _replace(text: str, stands: Mapping[str, str]) -> str:
    return "".join(stands.get(part, part) for part, _ in _cut(text, dict.fromkeys(stands, 0)))


def _cut(text: str, special: Mapping[str, int]) -> Iterator[tuple[str, int | None]]:
    """Stretches of the text: (a special token, its id) or (text between them, None). The longest token wins."""
    if not special:
        yield text, None
        return
    pattern = "|".join(map(re.escape, sorted(special, key=len, reverse=True)))
    for i, part in enumerate(re.split(f"({pattern})", text)):
        yield part, special[part] if i % 2 else None


def _ends(tokenizer: Tokenizer) -> dict[str, str]:
    """The special tokens that a template may ask for by name."""
    named = {"bos_token": tokenizer.bos_id, "eos_token": tokenizer.eos_id}
    return {name: tokenizer.piece(id) for name, id in named.items() if id is not None}
