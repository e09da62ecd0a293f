"""Measurements of the Start view: the next token at a range of temperatures, and the numbers that lead to it."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from model.predictions.attribution import attribute, components
from model.predictions.next_token import NextToken, next_token
from model.records import Tokens
from model.sampling.pipeline import uniform
from model.text.chat import ending
from model.text.tokenizer import Tokenizer
from model.tracing.logit_lens import read_layers
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.work.prompt import read

TEMPERATURES = tuple(round(0.05 * n, 2) for n in range(41))  # 0, 0.05 .. 2
TOP = 10  # number of most likely tokens shown
POINTS = 240  # maximum number of points of the curve
MOST = 0.9  # fraction of the probability for which the tokens are counted


@dataclass(frozen=True, eq=False)
class Next:
    """The next-token prediction, and the prompt extended by each candidate, or "" if the candidate cannot be typed."""

    following: NextToken
    texts: tuple[tuple[int, str], ...]  # (token id, the prompt with it appended)
    before: str  # the prompt up to and including the position; "" in a conversation
    ends: frozenset[int]  # ids of the tokens that end the generation


@dataclass(frozen=True, eq=False)
class TokenPath:
    """The numbers on the path from one position's token to its prediction. Logits are those of the top prediction."""

    token: int  # id of the top prediction
    logit: float
    heads: np.ndarray  # contribution of each head to the logit [L, H]
    mlps: np.ndarray  # contribution of each MLP [L]
    embedding: float  # contribution of the token and position embeddings
    biases: float  # contribution of the biases
    lengths: np.ndarray  # norm of the residual stream after the embedding and each block [L + 1]
    guesses: np.ndarray  # top token after each [L + 1]
    shares: np.ndarray  # probability of that token [L + 1]


@dataclass(frozen=True, eq=False)
class Ranked:
    """The distribution over the whole vocabulary in decreasing order, at ranks evenly spaced on a logarithmic axis."""

    ranks: np.ndarray  # from 1 to the size of the vocabulary [P]
    ids: np.ndarray  # the token at each rank [P]
    shares: np.ndarray  # its probability, float64 [P]
    marked: tuple[tuple[int, int, float, bool], ...]  # (token id, rank, probability, whether it is watched)
    most: int  # number of tokens that together have at least the probability `MOST`
    count: int  # size of the vocabulary


def text_before(tokenizer: Tokenizer, tokens: Tokens, position: int, prompt: str) -> str:
    """Return the prompt up to and including a position, without an incomplete character at its end."""
    if position == len(tokens) - 1:
        return prompt
    start = len(tokenizer.begin_ids)
    if position < start:
        return ""
    if tokenizer.library:  # its tokens need not have the bytes of the text
        spans = tokenizer.encode(prompt).spans
        end = int(spans[min(position - start, len(spans) - 1), 1])
    else:
        end = int(tokens.spans[position, 1] - tokens.spans[start, 0])
    return prompt.encode()[:end].decode("utf-8", "ignore")


def measure_next(scene: Scene, settings: Settings) -> Next:
    """Compute the next-token prediction at the position, and extend the prompt by each candidate."""
    tokens, position = scene.trace.tokens, scene.position
    logits = scene.logits()[: scene.model.tokenizer.vocab_size]
    if scene.masks:
        return _masked(scene, next_token(logits, TEMPERATURES, uniform(0, position), TOP))
    following = next_token(logits, TEMPERATURES, uniform(0, position), TOP)
    text = "" if scene.prompt.turns else text_before(scene.model.tokenizer, tokens, position, scene.prompt.text)
    ids = tokens.ids[: position + 1].tolist()
    candidates = dict.fromkeys([*following.ids.tolist(), *following.drawn.tolist()])
    texts = tuple((token, "" if scene.prompt.turns else _prompt_with(scene, text, ids, token)) for token in candidates)
    return Next(following, texts, text, ending(scene.model.tokenizer))


def _masked(scene: Scene, predicted: NextToken) -> Next:
    """Return the prediction of a masked token, and the prompt with each candidate in its place."""
    candidates = dict.fromkeys([*predicted.ids.tolist(), *predicted.drawn.tolist()])
    texts = tuple((token, _prompt_in_place(scene, token)) for token in candidates)
    return Next(predicted, texts, scene.prompt.text, frozenset())


def _prompt_in_place(scene: Scene, token: int) -> str:
    """Put `token` in place of the one at the position; return "" if the result is not tokenized like that."""
    tokenizer, at = scene.model.tokenizer, scene.position - len(scene.model.tokenizer.begin_ids)
    spans, data = tokenizer.encode(scene.prompt.text, special=True).spans, scene.prompt.text.encode()
    if not 0 <= at < len(spans):
        return ""
    wanted = scene.tokens.ids.tolist()
    wanted[scene.position] = token
    before, after = (data[edge].decode("utf-8", "ignore") for edge in (slice(spans[at, 0]), slice(spans[at, 1], None)))
    piece = tokenizer.decode([token])
    for text in dict.fromkeys((piece, piece.strip(), f" {piece.strip()}")):
        prompt = replace(scene.prompt, text=before + text + after)
        if read(scene.model, prompt).tokens.ids.tolist() == wanted:
            return prompt.text
    return ""


def _prompt_with(scene: Scene, before: str, ids: list[int], token: int) -> str:
    """Append `token` to `before`; return "" if the result is not tokenized as `ids` followed by `token`."""
    prompt = replace(scene.prompt, text=before + scene.model.tokenizer.decode([token]))
    return prompt.text if read(scene.model, prompt).tokens.ids.tolist() == [*ids, token] else ""


def measure_way(scene: Scene, settings: Settings) -> TokenPath:
    """Compute each component's contribution to the prediction at the position, and the top token after each block."""
    run, position = scene.trace, scene.position
    breakdown = components(run, position)
    token = int(breakdown.logits[: scene.model.tokenizer.vocab_size].argmax())
    parts = attribute(breakdown, scene.model.model, token)
    lens = read_layers(run, [position], top=1)
    lengths = torch.stack([stream[position] for stream in run.residuals]).float().norm(dim=-1)
    embedding = parts.embed + (parts.pos_embed or 0.0)
    return TokenPath(
        token,
        parts.logit,
        parts.heads,
        parts.mlps,
        embedding,
        parts.total - embedding - float(parts.heads.sum()) - float(parts.mlps.sum()),
        lengths.numpy(),
        lens.ids[:, 0, 0],
        lens.probabilities[:, 0, 0],
    )


def measure_weights(scene: Scene, settings: Settings) -> np.ndarray:
    """Return the main head's attention weights from the position to itself and to earlier tokens. [position + 1]"""
    return scene.trace.pattern(*scene.picked.heads[-1])[scene.position, : scene.position + 1]


def measure_ranked(scene: Scene, settings: Settings) -> Ranked:
    """Rank the whole vocabulary by its probability at the position; mark the first tokens and the watched ones.

    Equal logits are ranked by the smaller id.
    """
    logits = scene.logits()[: scene.model.tokenizer.vocab_size].astype(np.float64)
    order = np.argsort(-logits, kind="stable")
    shares = np.exp(logits - logits.max())
    shares = (shares / shares.sum())[order]
    ranks = np.unique(np.geomspace(1, len(order), POINTS).round().astype(np.int64))
    watched = [token for token in (scene.picked.target, scene.picked.distractor) if token is not None]
    places = {int(token): n for n, token in enumerate(order[:TOP])}
    places |= {token: int(np.flatnonzero(order == token)[0]) for token in watched}
    marked = tuple((token, n + 1, float(shares[n]), token in watched) for token, n in places.items())
    most = 1 + int(np.searchsorted(shares.cumsum(), MOST))
    return Ranked(ranks, order[ranks - 1], shares[ranks - 1], marked, min(most, len(order)), len(order))
