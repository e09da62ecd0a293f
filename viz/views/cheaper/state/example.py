"""The bundled model with Mamba layers, on which the view shows the prompt if the loaded model has none."""

import functools

from model.api import LanguageModel
from model.errors import PlaygroundError
from model.records import Tokens
from viz.seam.scene import Scene
from viz.work.prompt import Prompt

TINYMAMBA = "tinymamba"


def mamba_layers(model: LanguageModel) -> tuple[int, ...]:
    """Return the layers of a model with Mamba or Mamba 2."""
    return model.config.state_spaces


def example_of(scene: Scene) -> LanguageModel | None:
    """Return the bundled model if the scene's own has no Mamba layer; None if it has, or if the server does not offer
    the other.
    """
    if mamba_layers(scene.model):
        return None
    try:
        return scene.playground.opened(TINYMAMBA)
    except PlaygroundError:
        return None


def example_prompt(scene: Scene, model: LanguageModel) -> Prompt:
    """Return the scene's text, or that of a conversation's last user turn, shortened to the model's context."""
    return Prompt(_shortened(model, scene.prompt.own, min(model.config.n_ctx, scene.playground.options.max_tokens)))


@functools.lru_cache(maxsize=64)
def _shortened(model: LanguageModel, text: str, most: int) -> str:
    """Return the longest beginning of a text, of whole characters, with at most `most` tokens."""
    tokens, kept = model.encode(text), most
    while len(tokens) > most and kept:  # tokenized alone, a beginning may have more tokens
        text = text.encode()[: int(tokens.spans[kept - 1, 1])].decode("utf-8", "ignore")
        tokens, kept = model.encode(text), kept - 1
    return text


def same_place(scene: Scene, tokens: Tokens, position: int) -> int:
    """Return the token with the first byte of the scene's token at `position`; the first one in a conversation."""
    return 0 if scene.prompt.turns else _at(tokens, int(scene.tokens.spans[position, 0]))


def same_places(tokens: Tokens, scene: Scene) -> tuple[int, ...]:
    """Return the scene's token with the first byte of each of these tokens; all 0 in a conversation."""
    if scene.prompt.turns:
        return (0,) * len(tokens)
    return tuple(_at(scene.tokens, start) for start in tokens.spans[:, 0].tolist())


def _at(tokens: Tokens, byte: int) -> int:
    """Return the token that contains a byte, or the last one."""
    return min(int((tokens.spans[:, 1] <= byte).sum()), len(tokens) - 1)
