"""The input of a model: a text, or a conversation that its chat template formats."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from model.api import LanguageModel
from model.errors import InputError, say
from model.records import Tokens
from model.text.chat import chat_turns
from model.text.surrogates import whole
from viz.work.limits import PRIVATE

ROLES = ("system", "user", "assistant")
MOST_TURNS = 64


@dataclass(frozen=True)
class Prompt:
    """A text, or a conversation. An empty last turn of the assistant is open, which means that the model answers
    there.

    If `open`, a nonempty last turn of the assistant is open too, and the model continues it.
    """

    text: str = ""  # the bare prompt
    turns: tuple[tuple[str, str], ...] = ()  # (role, text) of each turn; empty for a bare prompt
    special: bool = False  # whether special tokens spelled out in a bare text are parsed as such
    open: bool = False  # whether the last turn is an answer to continue

    @property
    def answer(self) -> bool:
        """True if the conversation ends at a point where the model should answer."""
        return bool(self.turns) and self.turns[-1] == ("assistant", "")

    @property
    def begun(self) -> str:
        """The beginning of an answer that the model should continue; "" without one."""
        return self.turns[-1][1] if self.open and self.turns and self.turns[-1][0] == "assistant" else ""

    @property
    def messages(self) -> list[dict[str, str]]:
        """The turns in the format of a chat template, without the open one."""
        written = self.turns[:-1] if self.answer else self.turns
        return [{"role": role, "content": text} for role, text in written]

    @property
    def ending(self) -> str:
        """The last argument of `lm.chat` and `lm.turns`, which specifies how the conversation ends."""
        return ", continue_final=True" if self.begun else "" if self.answer else ", answer=False"

    @property
    def before(self) -> list[list[str]] | None:
        """The role and text of each turn before the open one; None if no turn is open."""
        return [list(turn) for turn in self.turns[:-1]] if self.answer else None

    @property
    def own(self) -> str:
        """The text that a user would edit: the bare text, or the last turn of a user."""
        at = _last_user(self.turns)
        return self.text if at is None else self.turns[at][1]

    @property
    def plain(self) -> str:
        """The text itself, or the texts of all turns, each on its own lines."""
        return "\n".join(text for _, text in self.turns if text) if self.turns else self.text

    @property
    def characters(self) -> int:
        """The length in characters."""
        return len(self.text) + sum(len(text) for _, text in self.turns)


@dataclass(frozen=True, eq=False)
class EncodedPrompt:
    """A prompt's tokens and the turn of each."""

    tokens: Tokens
    turns: np.ndarray | None  # [T] turn of each token, -1 for the template's own; None for a bare text

    @property
    def nbytes(self) -> int:
        """The approximate size in bytes."""
        return 200 * len(self.tokens)


def prompt_of(text: object, sent: object) -> Prompt:
    """Parse a page's prompt: `text` is the content of its text box, `sent` is {"on", "turns": [[role, text]],
    "special", "open"}.

    Both are untrusted. A malformed conversation counts as absent.
    """
    value = sent if isinstance(sent, Mapping) else {}
    turns = _turns(value.get("turns")) if value.get("on") is True else ()
    if turns:
        return Prompt("", turns, open=value.get("open") is True and _can_be_begun(turns))
    return Prompt(text if isinstance(text, str) else "", special=value.get("special") is True)


def conversation(messages: object) -> Prompt:
    """Convert messages {"role", "content"} to a conversation in which the model should answer, or an empty list to a
    bare prompt.

    After a last message of the assistant, there is nothing to answer, unless it has "prefix": true: then the model
    continues it. Raises InputError for invalid messages.
    """
    each = messages if isinstance(messages, list | tuple) else [None]
    pairs = [[one.get("role"), one.get("content")] if isinstance(one, Mapping) else None for one in each]
    turns = _turns(pairs)
    if len(turns) != len(each):
        hint = say("At most {} messages, each with a role and content; roles: {}.", MOST_TURNS, ", ".join(ROLES))
        raise InputError("These are not messages.", "", hint)
    prefixes = [one.get("prefix", False) for one in each if isinstance(one, Mapping)]
    if any(prefixes):
        if prefixes != [*[False] * (len(turns) - 1), True] or not _can_be_begun(turns):
            raise InputError(
                "This message cannot be continued.",
                "",
                "Only the last message can have prefix: true, and only if it is the assistant's and not empty.",
            )
        return Prompt("", turns, open=True)
    return Prompt("", (*turns, ("assistant", "")) if turns and turns[-1][0] != "assistant" else turns)


def _can_be_begun(turns: tuple[tuple[str, str], ...]) -> bool:
    """Return whether the last turn is the assistant's and is not empty."""
    return bool(turns) and turns[-1][0] == "assistant" and turns[-1][1] != ""


def _turns(sent: object) -> tuple[tuple[str, str], ...]:
    """Return all turns, or none if any is malformed."""
    if not isinstance(sent, list) or len(sent) > MOST_TURNS:
        return ()
    turns = []
    for each in sent:
        if not isinstance(each, list | tuple) or len(each) != 2 or each[0] not in ROLES or not isinstance(each[1], str):
            return ()
        turns.append((each[0], whole(each[1])))
    return tuple(turns) if sum(len(text) for _, text in turns) <= PRIVATE.characters else ()


def _last_user(turns: tuple[tuple[str, str], ...]) -> int | None:
    """Return the index of the last turn of a user, else of any role; None if there are no turns."""
    users = [at for at, (role, _) in enumerate(turns) if role == "user"]
    return users[-1] if users else len(turns) - 1 if turns else None


def with_text(prompt: Prompt, text: str) -> Prompt:
    """Replace the text `prompt.own` in a prompt."""
    at = _last_user(prompt.turns)
    if at is None:
        return replace(prompt, text=text)
    return replace(prompt, turns=(*prompt.turns[:at], (prompt.turns[at][0], text), *prompt.turns[at + 1 :]))


def fitted(model: LanguageModel, prompt: Prompt) -> Prompt:
    """Convert a prompt to a form that this model accepts: if it has no chat template, only the last text of a user."""
    return prompt if model.tokenizer.chat_template or not prompt.turns else Prompt(prompt.own)


def read(model: LanguageModel, prompt: Prompt) -> EncodedPrompt:
    """Tokenize a prompt. Raises InputError if the model or its chat template rejects it."""
    if not prompt.turns:
        return EncodedPrompt(model.encode(prompt.text, special=prompt.special), None)
    begun = bool(prompt.begun)
    ids, turns = chat_turns(model.tokenizer, prompt.messages, answer=prompt.answer, continue_final=begun)
    return EncodedPrompt(model.tokenizer.tokens(ids), np.array(turns, np.int64))


def python_of(prompt: Prompt, lm: str = "lm") -> str:
    """Return the prompt as a Python expression for `trace` and `generate`; `lm` is the variable of the model."""
    if prompt.turns:
        lines = "".join(f"    {message!r},\n" for message in prompt.messages)
        return f"{lm}.chat([\n{lines}]{prompt.ending}).ids"
    return f"{lm}.encode({prompt.text!r}, special=True).ids" if prompt.special else repr(prompt.text)


def turn_names(roles: Sequence[str], words: Mapping[str, str]) -> list[str]:
    """Return a name for each turn: its role, numbered if the role occurs more than once. `words` is the whole
    catalogue.
    """
    often, seen, names = Counter(roles), Counter[str](), []
    for role in roles:
        seen[role] += 1
        name = words[f"chat.{role}"]
        names.append(words["chat.turn"].format(role=name, n=seen[role]) if often[role] > 1 else name)
    return names
