"""The conversation on the page: the payload of its part, and the turn of each token."""

from model.api import LanguageModel
from model.generation.strategies import STRATEGIES
from model.text.chat import default_system
from viz.labels import visible
from viz.seam.jobs.background import computed_once
from viz.seam.scene import Scene
from viz.words import Catalogue, Words, section
from viz.work.playground import Playground
from viz.work.prompt import MOST_TURNS, ROLES, Prompt, turn_names

MOST_FOUND = 4  # maximum number of special tokens to list


def found_in(model: LanguageModel, text: str) -> tuple[str, ...]:
    """Find the special tokens in a text that could be read as plain text, in order of appearance."""
    if model.config.two_way:  # it always reads them as such
        return ()
    special = [each for each in model.tokenizer.special if each and each in text]
    return tuple(sorted(special, key=text.index)[:MOST_FOUND])


def payload(playground: Playground, model: LanguageModel, words: Catalogue, text: str) -> dict:
    """Build the payload for static/page/chat/chat.js; `text` is the content of the prompt's text box."""
    offered, names = bool(model.tokenizer.chat_template), Words(words, "strategies.names")
    return {
        "offered": offered,
        "system": computed_once(playground, ("system message", model.id), lambda: default_system(model.tokenizer)),
        "special": bool(model.tokenizer.special) and not model.config.two_way,
        "found": [visible(each) for each in found_in(model, text)],
        "roles": [[role, words[f"chat.{role}"]] for role in ROLES],
        "most": MOST_TURNS,
        "strategies": [[key, names[key]] for key in STRATEGIES],
        "words": section(words, "chat"),
    }


def of_tokens(scene: Scene) -> list[dict]:
    """Return the turn of each token, -1 for the template's own; empty for a bare prompt."""
    turns = scene.turns
    return [{}] * len(scene.tokens) if turns is None else [{"turn": turn} for turn in turns.tolist()]


def token_words(scene: Scene) -> dict:
    """Build the labels of the turns in the row of tokens."""
    if not scene.prompt.turns:
        return {}
    names = turn_names([role for role, _ in scene.prompt.turns], scene.words)
    return {"turns": names, "written": scene.words["chat.written"]}


def left_out(scene: Scene, sent: Prompt) -> dict:
    """Build the notice that a model without a chat template processes only one turn; empty for any other model."""
    if scene.prompt.turns or not sent.turns:
        return {}
    texts = scene.words["chat.left_out"].format(model=scene.model.label), scene.words["chat.left_out_hint"]
    return {"kind": "info", "text": texts[0], "hint": texts[1], "actions": []}
