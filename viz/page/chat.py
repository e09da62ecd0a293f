"""The conversation on the page: what its part is told, and how the row of tokens shows who wrote what."""

from model.api import LanguageModel
from model.generation.strategies import STRATEGIES
from model.text.chat import default_system
from viz.labels import visible
from viz.seam.jobs.background import computed_once
from viz.seam.scene import Scene
from viz.words import Catalogue, Words, section
from viz.work.playground import Playground
from viz.work.prompt import MOST_TURNS, ROLES, Prompt, turn_names

MOST_FOUND = 4  # special tokens that are named


def found_in(model: LanguageModel, text: str) -> tuple[str, ...]:
    """Return the special tokens whose texts stand in a text, in the order in which they do."""
    special = [each for each in model.tokenizer.special if each and each in text]
    return tuple(sorted(special, key=text.index)[:MOST_FOUND])


def payload(playground: Playground, model: LanguageModel, words: Catalogue, text: str) -> dict:
    """Return the payload for static/page/chat/chat.js; `text` stands in the prompt's box."""
    offered, names = bool(model.tokenizer.chat_template), Words(words, "strategies.names")
    return {
        "offered": offered,
        "system": computed_once(playground, ("system message", model.id), lambda: default_system(model.tokenizer)),
        "special": bool(model.tokenizer.special),
        "found": [visible(each) for each in found_in(model, text)],
        "roles": [[role, words[f"chat.{role}"]] for role in ROLES],
        "most": MOST_TURNS,
        "strategies": [[key, names[key]] for key in STRATEGIES],
        "words": section(words, "chat"),
    }


def of_tokens(scene: Scene) -> list[dict]:
    """For each token its turn, -1 for the template's; nothing for a bare prompt."""
    turns = scene.turns
    return [{}] * len(scene.tokens) if turns is None else [{"turn": turn} for turn in turns.tolist()]


def token_words(scene: Scene) -> dict:
    """How the row of tokens calls the turns."""
    if not scene.prompt.turns:
        return {}
    names = turn_names([role for role, _ in scene.prompt.turns], scene.words)
    return {"turns": names, "written": scene.words["chat.written"]}


def left_out(scene: Scene, asked: Prompt) -> dict:
    """Return the notice that a model without a chat template reads one turn alone; empty for any other."""
    if scene.prompt.turns or not asked.turns:
        return {}
    texts = scene.words["chat.left_out"].format(model=scene.model.label), scene.words["chat.left_out_hint"]
    return {"kind": "info", "text": texts[0], "hint": texts[1], "actions": []}
