"""What the first look measures: the next token at every temperature, and the numbers along the way to it."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from model.predictions.attribution import attribute, components
from model.predictions.next_token import NextToken, next_token
from model.records import Tokens
from model.sampling.pipeline import uniform
from model.text.chat import ending
from model.tracing.logit_lens import read_layers
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.work.prompt import read

TEMPERATURES = tuple(round(0.05 * n, 2) for n in range(41))  # 0, 0.05 .. 2
TOP = 10  # tokens shown


@dataclass(frozen=True, eq=False)
class Next:
    """The next token, and the text that each candidate would make the prompt; "" for one that nobody can type."""

    following: NextToken
    texts: tuple[tuple[int, str], ...]  # (token, the prompt that ends with it)
    before: str  # the prompt up to the position; "" in a conversation
    ends: frozenset[int]  # the tokens that end a text


@dataclass(frozen=True, eq=False)
class Way:
    """The numbers on the way from one position's token to its prediction. Logits are those of its first choice."""

    token: int  # the first choice
    logit: float
    heads: np.ndarray  # what each head adds to the logit [L, H]
    mlps: np.ndarray  # [L]
    embedding: float  # of the token and, where there are any, of its position
    rest: float  # biases
    lengths: np.ndarray  # of the stream's vector, after the embedding and after each block [L + 1]
    guesses: np.ndarray  # the first choice there [L + 1]
    shares: np.ndarray  # its probability there [L + 1]


def text_before(tokens: Tokens, position: int, prompt: str) -> str:
    """Return the prompt up to a position, that one included; halves of characters end it."""
    if position == len(tokens) - 1:
        return prompt
    end = int(tokens.spans[position, 1])
    return prompt.encode()[:end].decode("utf-8", "ignore")


def measure_next(scene: Scene, settings: Settings) -> Next:
    """Return the next token at the position, and what each candidate would make of the prompt."""
    tokens, position = scene.trace.tokens, scene.position
    logits = scene.trace.logits_at(position)[: scene.model.tokenizer.vocab_size]
    following = next_token(logits, TEMPERATURES, uniform(0, position), TOP)
    text = "" if scene.prompt.turns else text_before(tokens, position, scene.prompt.text)
    ids = tokens.ids[: position + 1].tolist()
    candidates = dict.fromkeys([*following.ids.tolist(), *following.drawn.tolist()])
    texts = tuple((token, "" if scene.prompt.turns else _typed(scene, text, ids, token)) for token in candidates)
    return Next(following, texts, text, ending(scene.model.tokenizer))


def _typed(scene: Scene, before: str, ids: list[int], token: int) -> str:
    """Return the text that is read as `ids` and then `token`; "" where there is none."""
    prompt = replace(scene.prompt, text=before + scene.model.tokenizer.decode([token]))
    return prompt.text if read(scene.model, prompt).tokens.ids.tolist() == [*ids, token] else ""


def measure_way(scene: Scene, settings: Settings) -> Way:
    """Return the way to the prediction at the position: what each part adds, and what the stream says after
    each block.
    """
    run, position = scene.trace, scene.position
    found = components(run, position)
    token = int(found.logits[: scene.model.tokenizer.vocab_size].argmax())
    parts = attribute(found, scene.model.model, token)
    reading = read_layers(run, [position], top=1)
    lengths = torch.stack([stream[position] for stream in run.residuals]).float().norm(dim=-1)
    embedding = parts.embed + (parts.pos_embed or 0.0)
    return Way(
        token,
        parts.logit,
        parts.heads,
        parts.mlps,
        embedding,
        parts.total - embedding - float(parts.heads.sum()) - float(parts.mlps.sum()),
        lengths.numpy(),
        reading.ids[:, 0, 0],
        reading.probabilities[:, 0, 0],
    )


def measure_weights(scene: Scene, settings: Settings) -> np.ndarray:
    """What the main head reads at the position: its weights on all tokens up to it. [position + 1]"""
    return scene.trace.pattern(*scene.picked.heads[-1])[scene.position, : scene.position + 1]
