"""Continuation of one prompt by several strategies at once, with one batch, one forward pass per step, and one cache.

Each strategy is a decoder with its own rows of the batch. At every step all rows have the same number of tokens, so one
forward pass serves a greedy row, six beams and the candidates of a contrastive search.
"""

import functools
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from model.arguments import check_token, check_whole, shown
from model.errors import InputError, say
from model.forgetting.bounded import BoundedMemory
from model.forgetting.policies import Policy
from model.generation import edited
from model.generation.edited import Edited
from model.generation.forced import forced_runs
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
from model.gpt.mixers.needs import need_attention, need_next
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
    generation. Tokens that a rule forces for all texts at once share the forward pass of the token before them
    (`model.generation.forced`), so that several ticks may follow one pass.

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
    return ticks_of(model, course_of(model, ids, strategies, plan, size, text))


@dataclass(frozen=True, eq=False)
class ForwardNeed:
    """Request by a course for a forward pass over tokens that continue its cache."""

    ids: Tensor  # [n, T]: the prompt, [1, T], then one token per row, each followed by forced tokens
    cache: KVCache
    last: int = 1  # number of last positions whose logits are needed: more than one after forced tokens
    memory: BoundedMemory | None = None  # the attention function if a text evicts keys
    edited: Edited | None = None  # the edits of all rows


@dataclass(frozen=True, eq=False)
class ForwardResult:
    """The result of the forward pass for a ForwardNeed."""

    logits: Tensor  # logits of each row's last tokens. float32 [n, last, V], V the model's number of rows
    hidden: Callable[[], Tensor]  # final normalized states [n, T, D], computed on request
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Course:
    """A run of `generate` without the forward passes: it yields its needs, and a driver runs the model.

    After a need, its result must be sent to `steps`; then follow one tick or, after forced tokens, several.
    """

    steps: Generator[ForwardNeed | Tick, ForwardResult | None, None]
    rows: int  # maximum number of rows of the batch
    decoders: Sequence[Decoder] = ()


def course_of(
    model: Transformer,
    ids: Sequence[int],
    strategies: Sequence[Strategy],
    plan: DecodingPlan,
    size: int,
    text: Callable[[Sequence[int]], str] | None = None,
) -> Course:
    """Return a run of `generate` for a driver. Arguments and errors are those of `generate`."""
    need_next(model.config)
    check_length(len(ids), model.config.n_ctx)
    check_plan(plan)
    for strategy in strategies:
        check_strategy(strategy, size)

    def read(hidden: Tensor) -> Tensor:
        return usable(model.head(hidden).float(), size)

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
    return Course(steps, sum(widths), decoders)


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
    skips = plan.skip_forced and memory is None and edits is None  # eviction and edits read one token at a time
    runs = forced_runs(decoders, setup, shared=True) if skips else [()]
    need = ForwardNeed(torch.tensor([[*setup.ids, *runs[0]]]), cache, 1 + len(runs[0]), memory, edits)
    places = dict.fromkeys(range(len(decoders)), (0, 1))  # each decoder's row range, end exclusive
    step = 0
    while True:
        result = yield need
        origin = list(range(len(need.ids)))  # the row of this forward pass that each text continues
        for at in range(need.last):
            began = time.perf_counter()
            logits = result.logits[:, at]
            rows = rows_of(usable(logits[origin] if at else logits, setup.size))
            where = need.ids.shape[1] - need.last + at
            decisions = {
                number: decoders[number].decide(rows.between(*span), _states(result, origin[slice(*span)], where, step))
                for number, span in places.items()
            }
            changes = tuple(_counted(decisions, number, at) for number in range(len(decoders)))
            seconds = time.perf_counter() - began + (0.0 if at else result.seconds)
            yield Tick(plan.first_step + step, changes, seconds)
            alive = {number: decision for number, decision in decisions.items() if not decision.change.ended}
            if not alive:
                return
            source = [places[number][0] + row for number, decision in alive.items() for row in decision.source]
            origin = [origin[row] for row in source]
            places = _places(alive)
            step += 1
        cache = following(cache, origin, T)
        if memory is not None:
            memory.follow(origin, [memories[number] for number, decision in alive.items() for _ in decision.ids])
        new = [token for decision in alive.values() for token in decision.ids]
        runs = forced_runs([decoders[number] for number in alive], setup) if skips else [()] * len(new)
        ids = torch.tensor([[token, *run] for token, run in zip(new, runs, strict=True)])
        need = ForwardNeed(ids, cache, ids.shape[1], memory, edits)


def _counted(decisions: Mapping[int, Decision], number: int, at: int) -> Change | None:
    """Return a decoder's change with its forward passes: one for the first token of a pass, none for those after it."""
    if number not in decisions:
        return None
    change = decisions[number].change
    return replace(change, passes=0) if at else change


@torch.inference_mode()
def forward(model: Transformer, need: ForwardNeed) -> ForwardResult:
    """Run the model for the need of one course."""
    began = time.perf_counter()
    if need.edited is None:
        stream = model.trunk(need.ids, cache=need.cache, attend=need.memory)  # [n, T, D]
    else:
        stream = edited.trunk(model, need.ids, need.cache, need.edited, need.memory)
    logits = model.logits(stream[:, -need.last :], cached=need.edited is None).float()
    return ForwardResult(logits, normed(model, stream), time.perf_counter() - began)


def normed(model: Transformer, stream: Tensor) -> Callable[[], Tensor]:
    """Return a function that computes the final normalized states once, on first use."""
    return functools.cache(torch.inference_mode()(functools.partial(model.normed, stream)))


def _states(result: ForwardResult, rows: Sequence[int], where: int, step: int) -> Callable[[], Tensor]:
    """Return a function for the states of a decoder's rows at a position of the forward pass [n, D], or, at the first
    step, of all positions up to it [T, D].
    """
    return lambda: result.hidden()[list(rows), where] if step else result.hidden()[0, : where + 1]


@torch.inference_mode()
def ticks_of(model: Transformer, course: Course) -> Iterator[Tick]:
    """Yield the ticks of one course, with a separate forward pass for each need."""
    pack_where_needed(model, course.rows)
    coming = next(course.steps, None)
    while coming is not None:
        if isinstance(coming, Tick):
            yield coming
            coming = next(course.steps, None)
        else:
            coming = course.steps.send(forward(model, coming))


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
