"""Continuation of one prompt by several strategies at once, with one batch, one forward pass per step, and one cache.

Each strategy is a decoder with its own rows of the batch. At every step all rows have the same number of tokens, so one
forward pass serves a greedy row, six beams and the candidates of a contrastive search.
"""

import functools
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.arguments import check_token, check_whole, shown
from model.errors import InputError, say
from model.forgetting.bounded import BoundedMemory
from model.forgetting.policies import Policy
from model.generation import edited
from model.generation.edited import Edited
from model.generation.strategies import (
    METHODS,
    Change,
    Decision,
    Decoder,
    DecodingPlan,
    Setup,
    Strategy,
    check_strategy,
    rows_of,
)
from model.gpt.cache import KVCache
from model.gpt.config import ModelConfig
from model.gpt.decode_step import pack_where_needed
from model.gpt.mixers.needs import need_attention
from model.gpt.transformer import Transformer
from model.public import listed, public, unchecked, whole
from model.sampling.pipeline import usable
from model.tracing.trace import check_length

MOST_STRATEGIES = 8
MOST_ROWS = 64  # maximum number of rows of the batch, including beams and candidates
MOST_TOKENS = 4096  # maximum number of new tokens
MOST_SEED = 2**53  # largest integer that JavaScript represents exactly


@dataclass(frozen=True, eq=False)
class Tick:
    """One step: the change of each strategy's text, or None for a text that has already ended."""

    step: int
    changes: tuple[Change | None, ...]
    seconds: float  # seconds of the step's forward pass and decisions, without the time of the consumer


@public(model=unchecked, ids=listed, size=whole(1))
def generate(
    model: Transformer,
    ids: Sequence[int],
    strategies: Sequence[Strategy],
    plan: DecodingPlan,
    size: int,
    text: Callable[[Sequence[int]], str] | None = None,
) -> Iterator[Tick]:
    """Continue ids [T] with every strategy, one tick per step, until all have ended. Closing the iterator stops
    generation.

    `size` is the vocabulary size, at most the model's number of rows V; `text` decodes tokens to find stop texts. Up to
    float32 rounding, each text equals that of the strategy run alone. A text ends with a token of `plan.ending`
    ("end"), with a stop text ("stop"), after `plan.max_new_tokens` ("length"), or when the context is full ("context").
    Its last token may exceed the context by one, since it is never an input.

    Raises InputError immediately, before any forward pass, for an empty prompt or one beyond the context, ids outside
    the vocabulary, no strategy or too many, too many rows, edits that do not apply or cannot be applied while a text
    grows, and settings that are unknown or out of range. A step raises CheckpointError if the model's logits are not
    finite.
    """
    if not hasattr(model, "trunk"):
        raise InputError(
            "An argument has the wrong type.", f"model: {shown(model)}", say("Expected: {}.", "Transformer")
        )
    return _single_ticks(model, course_of(model, ids, strategies, plan, size, text))


@dataclass(frozen=True, eq=False)
class ForwardNeed:
    """Request by a course for a forward pass over tokens that continue its cache."""

    ids: Tensor  # [n, T]: the prompt, [1, T], then one token per row
    cache: KVCache
    memory: BoundedMemory | None = None  # the attention function if a text evicts keys
    edited: Edited | None = None  # the edits of all rows


@dataclass(frozen=True, eq=False)
class ForwardResult:
    """The result of the forward pass for a ForwardNeed."""

    logits: Tensor  # logits of each row's last token. float32 [n, V], V the model's number of rows
    hidden: Callable[[], Tensor]  # final normalized states [n, T, D], computed on request
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Course:
    """A run of `generate` without the forward passes: it yields its needs, and a driver runs the model.

    `steps` alternates between a need and, after the result has been sent, a tick.
    """

    steps: Generator[ForwardNeed | Tick, ForwardResult | None, None]
    rows: int  # maximum number of rows of the batch


def course_of(
    model: Transformer,
    ids: Sequence[int],
    strategies: Sequence[Strategy],
    plan: DecodingPlan,
    size: int,
    text: Callable[[Sequence[int]], str] | None = None,
) -> Course:
    """Return a run of `generate` for a driver. Arguments and errors are those of `generate`."""
    check_length(len(ids), model.config.n_ctx)
    check_plan(plan)
    for strategy in strategies:
        check_strategy(strategy, size)

    def read(hidden: Tensor) -> Tensor:
        return usable(model.unembed(hidden).float(), size)

    setup = Setup(tuple(ids), plan, size, text, model.config.n_ctx - len(ids), read)
    decoders = [METHODS[strategy.method].start(strategy, setup, row) for row, strategy in enumerate(strategies)]
    widths = [decoder.width for decoder in decoders]
    check_size(strategies, widths)
    for token in ids:
        check_token(token, size)
    memories = [strategy.memory for strategy in strategies]
    if any(memories):
        need_attention(model.config)
    edits = edited.of(model, plan.edits, len(ids), forgetful=any(memories))
    steps = _course(model.config, setup, decoders, memories, edits)
    return Course(steps, sum(widths))


def _course(
    config: ModelConfig,
    setup: Setup,
    decoders: Sequence[Decoder],
    memories: Sequence[Policy | None],
    edits: Edited | None,
) -> Generator[ForwardNeed | Tick, ForwardResult | None, None]:
    """Yield the steps of a run, given valid arguments."""
    memory = BoundedMemory(memories) if any(memories) else None
    T, plan = len(setup.ids), setup.plan
    cache = KVCache.empty(config, 1, T + min(plan.max_new_tokens, setup.room))
    result = yield ForwardNeed(torch.tensor([setup.ids]), cache, memory, edits)
    began = time.perf_counter()
    rows = rows_of(usable(result.logits, setup.size))  # a single row, from which all decoders start
    places = dict.fromkeys(range(len(decoders)), (0, 1))  # each decoder's row range, end exclusive
    step = 0
    while True:
        decisions = {
            number: decoders[number].decide(rows.between(*span), _states(result, span if step else None))
            for number, span in places.items()
        }
        changes = tuple(decisions[n].change if n in decisions else None for n in range(len(decoders)))
        yield Tick(plan.first_step + step, changes, result.seconds + time.perf_counter() - began)
        alive = {number: decision for number, decision in decisions.items() if not decision.change.ended}
        if not alive:
            return
        source = [places[number][0] + at for number, decision in alive.items() for at in decision.source]
        places = _places(alive)
        cache = following(cache, source, T)
        if memory is not None:
            memory.follow(source, [memories[number] for number, decision in alive.items() for _ in decision.ids])
        new = torch.tensor([token for decision in alive.values() for token in decision.ids])
        result = yield ForwardNeed(new[:, None], cache, memory, edits)
        began = time.perf_counter()
        rows = rows_of(usable(result.logits, setup.size))
        step += 1


@torch.inference_mode()
def forward(model: Transformer, need: ForwardNeed) -> ForwardResult:
    """Run the model for the need of one course."""
    began = time.perf_counter()
    if need.edited is None:
        stream = model.trunk(need.ids, cache=need.cache, attend=need.memory)  # [n, T, D]
    else:
        stream = edited.trunk(model, need.ids, need.cache, need.edited, need.memory)
    logits = model.logits(stream[:, -1:], cached=need.edited is None)[:, 0].float()
    return ForwardResult(logits, normed(model, stream), time.perf_counter() - began)


def normed(model: Transformer, stream: Tensor) -> Callable[[], Tensor]:
    """Return a function that computes the final normalized states once, on first use."""
    return functools.cache(torch.inference_mode()(functools.partial(model.normed, stream)))


def _states(result: ForwardResult, rows: tuple[int, int] | None) -> Callable[[], Tensor]:
    """Return a function for the states of a decoder's last tokens [n, D], or of the whole prompt [T, D] if `rows` is
    None.
    """
    return lambda: result.hidden()[0] if rows is None else result.hidden()[slice(*rows), -1]


@torch.inference_mode()
def _single_ticks(model: Transformer, course: Course) -> Iterator[Tick]:
    """Yield the ticks of one course, with a separate forward pass for each need."""
    pack_where_needed(model, course.rows)
    for wanted in course.steps:
        yield course.steps.send(forward(model, wanted))


def _places(decisions: dict[int, Decision]) -> dict[int, tuple[int, int]]:
    """Return the row ranges of the decoders in the next batch, in the same order."""
    places, start = {}, 0
    for number, decision in decisions.items():
        places[number] = (start, start + len(decision.ids))
        start += len(decision.ids)
    return places


def following(cache: KVCache, source: Sequence[int], shared: int) -> KVCache:
    """Return a cache in which row b continues the old row `source[b]`; all rows agree on the first `shared` positions.

    Rows are dropped and reordered in place, so that only positions after the prompt are copied; the old cache must not
    be used again. If the number of rows grows, a new cache is allocated. [L, B, G, S, E] -> [L, N, G, S, E]
    """
    n, have = len(source), cache.batch
    if list(source) == list(range(have)):
        return cache
    index, length = torch.tensor(source), cache.length
    if n > have:
        room = (part.new_empty(part.shape[0], n, *part.shape[2:]) for part in (cache.k, cache.v))
        grown = cache.like(*room, index)
        for new, old in ((grown.k, cache.k), (grown.v, cache.v)):
            new[:, :, :, :length] = old[:, index, :, :length]
        return grown
    moved = [row for row, old in enumerate(source) if row != old]
    for part in (cache.k, cache.v):
        part[:, moved, :, shared:length] = part[:, index[moved], :, shared:length]
    return cache.like(cache.k[:, :n], cache.v[:, :n], index)


def check_plan(plan: DecodingPlan) -> None:
    """Raise InputError if the number of new tokens or the seed is out of range, or a stop text is invalid."""
    check_whole("max_new_tokens", plan.max_new_tokens, 1, MOST_TOKENS)
    check_whole("seed", plan.seed, 0, MOST_SEED)
    for text in plan.stop:
        if not isinstance(text, str):
            raise InputError("A stop text is not a string.", shown(text), "Give a string.")


def check_size(strategies: Sequence[Strategy], widths: list[int]) -> None:
    """Raise InputError if there is no strategy, or if the strategies or their rows do not fit in one batch."""
    if not strategies:
        raise InputError("No strategy was given.", "", say("From 1 to {}.", MOST_STRATEGIES))
    if len(strategies) > MOST_STRATEGIES:
        raise InputError("There are too many strategies.", str(len(strategies)), say("From 1 to {}.", MOST_STRATEGIES))
    if sum(widths) > MOST_ROWS:
        raise InputError("The strategies need too many rows in total.", str(sum(widths)), say("At most {}.", MOST_ROWS))
