"""A validated request for texts, and a run that generates them and keeps the pieces sent to the page."""

import dataclasses
import math
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from model.api import LanguageModel
from model.errors import InputError, say
from model.generation.generate import MOST_STRATEGIES, Tick
from model.generation.next_token import placed
from model.generation.strategies import Change, DecodingPlan, GeneratedToken, Setup, Strategy
from model.generation.text_statistics import measure_text
from model.generation.together import SharedBatch
from model.quantization.int8 import Effect, effect
from model.records import RunKey
from model.sampling.fits import ended_by_rule
from model.sampling.pipeline import Context
from model.text.chat import ending, typable
from model.tracing.trace import check_length
from viz.numbers import plain
from viz.seam.jobs import background
from viz.seam.scene import run_id
from viz.seam.settings import Number
from viz.seam.typed import MOST_TYPED, token_of
from viz.views.sampling import rules, strategies
from viz.views.sampling.side_by_side.figures import ids_of, record, shown
from viz.views.sampling.strategies import MOST_TOKENS, Common
from viz.work.limits import check_time, check_writing
from viz.work.playground import Playground
from viz.work.prompt import Prompt, fitted, read

MOST_COMPARED = 64  # maximum number of prompt tokens on which 8-bit and float32 weights are compared
LEAST = 8  # minimum token limit of a branch, however late it starts


@dataclass(frozen=True, eq=False)
class TextRow:
    """One text: its strategy, and the tokens generated so far."""

    strategy: Strategy
    number: int  # number of its random number stream, if every strategy has its own
    written: tuple[GeneratedToken, ...] = ()

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of the tokens generated so far."""
        return tuple(token.id for token in self.written)


@dataclass(frozen=True, eq=False)
class TextsRequest:
    """A validated request for texts, with the tag that the page gave it."""

    model: LanguageModel
    writer: LanguageModel  # generates the texts: the same model, or its copy with 8-bit weights
    kind: str  # "start", "branch" or "go"
    tag: str
    prompt: tuple[int, ...]
    page_prompt: Prompt  # empty if the page sent token ids
    key: str  # the prompt's key, equal to that of the token chips; "" if the page sent token ids
    rows: tuple[TextRow, ...]
    settings: Common
    tokens: int  # maximum number of generated tokens
    token: int | None = None  # first token of a branch, selected by hand


# --- what a page sends ------------------------------------------------------------------------------


def request_of(
    playground: Playground, model: LanguageModel, prompt: Prompt, cards: object, sent: object
) -> TextsRequest:
    """Parse and validate the texts that a page requests. Raises InputError if they cannot be generated.

    {"kind": "start"} continues the prompt with the strategies on the cards. {"kind": "branch"} or "go" sends the tokens
    to continue: {"model", "prompt": [ids], "rows": [{"strategy", "number", "written": [records]}], "settings"}. A
    branch adds "token": id or "typed": text, and "limit": the maximum number of tokens of the whole text. "go"
    generates as many more tokens as the cards currently set.
    """
    sent = sent if isinstance(sent, Mapping) else {}
    tag = sent["tag"][:40] if isinstance(sent.get("tag"), str) else ""
    if sent.get("kind") not in ("branch", "go"):
        return _start(playground, model, prompt, cards, tag)
    if sent.get("model") != model.id:
        raise InputError("This text belongs to another model.", "", "Start again, or choose that model again.")
    settings = strategies.common_of(sent)
    ids, rows = _ids(model, sent.get("prompt")), _rows(model, sent.get("rows"))
    tokens, token = strategies.common_of(cards).tokens, None
    if sent["kind"] == "branch":
        token, rows = _token(model, sent), rows[:1]
        limit = Number("limit", 1, MOST_TOKENS, settings.tokens).read(sent.get("limit"), None)
        tokens = max(limit - len(rows[0].written) - 1, LEAST)
    allowed = playground.options.allowed
    check_writing(allowed, len(rows), tokens)
    longest = min(model.config.n_ctx, playground.options.max_tokens + allowed.new_tokens)
    writer = writer_of(playground, model, settings)
    request = TextsRequest(model, writer, sent["kind"], tag, ids, Prompt(), "", rows, settings, tokens, token)
    for row in rows:
        check_length(len(before(request, row)), longest)
    return request


def _start(playground: Playground, model: LanguageModel, prompt: Prompt, cards: object, tag: str) -> TextsRequest:
    chosen, settings = strategies.chosen(model, cards), strategies.common_of(cards)
    check_writing(playground.options.allowed, len(chosen), settings.tokens)
    prompt = fitted(model, prompt)
    ids = tuple(playground.tokens(model, prompt).ids.tolist())
    key = run_id(RunKey(model.id, ids), "")
    if settings.chat and not prompt.turns:
        ids = tuple(read(model, strategies.continued(prompt, settings.chat)).tokens.ids.tolist())
    check_length(len(ids), model.config.n_ctx)
    rows = tuple(TextRow(strategy, index) for index, strategy in enumerate(chosen))
    writer = writer_of(playground, model, settings)
    return TextsRequest(model, writer, "start", tag, ids, prompt, key, rows, settings, settings.tokens)


def writer_of(playground: Playground, model: LanguageModel, settings: Common) -> LanguageModel:
    """Return the model that generates the texts: the requested one, or its copy with 8-bit weights."""
    if not settings.eight:
        return model
    with playground.computing:
        return playground.eight_bit(model)


def _is_id(value: object, end: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < end


def _ids(model: LanguageModel, sent: object) -> tuple[int, ...]:
    """Parse the token ids that a page sent. Raises InputError if they are malformed or leave no room in the context."""
    valid = isinstance(sent, list) and 0 < len(sent) < model.config.n_ctx
    if not valid or not all(_is_id(each, model.tokenizer.vocab_size) for each in sent):
        raise InputError("This text cannot be read.", "", "Start again.")
    return tuple(sent)


def _rows(model: LanguageModel, sent: object) -> tuple[TextRow, ...]:
    if not isinstance(sent, list) or not 0 < len(sent) <= MOST_STRATEGIES:
        raise InputError("These texts cannot be read.", "", say("From 1 to {}.", MOST_STRATEGIES))
    return tuple(_row(model, each) for each in sent)


def _row(model: LanguageModel, sent: object) -> TextRow:
    written = sent.get("written") if isinstance(sent, Mapping) else None
    if not isinstance(written, list) or len(written) >= model.config.n_ctx or not _is_id(sent.get("number"), 1 << 20):
        raise InputError("This text cannot be read.", "", "Start again.")
    strategy = strategy_of(model, sent.get("strategy"))
    return TextRow(strategy, sent["number"], tuple(_generated_token(model, each) for each in written))


def _generated_token(model: LanguageModel, sent: object) -> GeneratedToken:
    """Parse an earlier token: [id, ln p, rank, entropy, p after the warps, remaining tokens, random number]."""
    size = model.tokenizer.vocab_size
    if not isinstance(sent, list) or len(sent) != 7 or not all(_is_id(each, size + 1) for each in (sent[2], sent[5])):
        raise InputError("This text cannot be read.", "", "Start again.")
    values = [math.nan if value is None else value for value in (sent[1], sent[3], sent[4], sent[6])]
    if not _is_id(sent[0], size) or not all(isinstance(v, int | float) and not abs(v) > 1e6 for v in values):
        raise InputError("This text cannot be read.", "", "Start again.")
    return GeneratedToken(sent[0], values[0], sent[2], values[1], values[2], sent[5], values[3], ())


def _token(model: LanguageModel, sent: Mapping) -> int:
    """Parse the first token of a branch, an id or a typed string. Raises InputError if the string is not one token."""
    typed = sent.get("typed")
    if not isinstance(typed, str) or not typed:
        return _ids(model, [sent.get("token")])[0]
    token, pieces = token_of(model, typed[:MOST_TYPED])
    if token is None:
        raise InputError("This is not one token.", " ".join(f"“{piece}”" for piece in pieces[:8]), "Type one token.")
    return token


def packed(strategy: Strategy) -> dict:
    """Convert a strategy to the form that a page keeps and sends back."""
    steps = [
        {"warp": step.warp, "values": dict(step.values), "text": step.text} | rules.rule_value(step.rule)
        for step in strategy.steps
    ]
    value = {"name": strategy.name, "method": strategy.method, "options": dict(strategy.options), "steps": steps}
    return value | strategies.memory_value(strategy)


def strategy_of(model: LanguageModel, sent: object) -> Strategy:
    """Parse a strategy in the form of `packed`. Raises InputError if it is malformed."""
    steps = sent.get("steps") if isinstance(sent, Mapping) else None
    if not isinstance(steps, list) or not all(isinstance(each, Mapping) for each in steps):
        raise InputError("These strategies cannot be read.", "", "Choose one from the list.")
    (strategy,) = strategies.chosen(model, {"strategies": [sent]})
    return strategy


# --- generation ----------------------------------------------------------------------------------------


def before(request: TextsRequest, row: TextRow) -> tuple[int, ...]:
    """Return the ids of all tokens before the first one that a row's strategy generates."""
    return (*request.prompt, *row.ids, *(() if request.token is None else (request.token,)))


def plan_of(request: TextsRequest, rows: Sequence[TextRow]) -> DecodingPlan:
    """Build the decoding plan of rows after the same tokens: all settings except the strategies. A branch reuses its
    parent's random numbers.
    """
    return DecodingPlan(
        request.tokens,
        request.settings.seed,
        request.settings.shared,
        first_step=len(before(request, rows[0])) - len(request.prompt),
        prompt=len(request.prompt),
        numbers=tuple(each.number for each in rows),
        ending=ending(request.model.tokenizer),
        stop=request.settings.stop,
    )


def _ticks(request: TextsRequest) -> dict[tuple[int, ...], Iterator[Tick]]:
    """Build the generators, keyed by the indices of their rows: one for all rows without a rule at the start, otherwise
    one per row, so that a row can skip its forced tokens.

    They share forward passes with each other and with the texts of other visitors.
    """
    model, start = request.model, request.kind == "start"
    ruled = {index for index, row in enumerate(request.rows) if any(step.rule for step in row.strategy.steps)}
    alone = [index for index in range(len(request.rows)) if index in ruled or not start]
    together = tuple(index for index in range(len(request.rows)) if index not in alone)
    groups = [*([together] if together else []), *((index,) for index in alone)]
    return {
        group: SharedBatch.of(request.writer.model).generate(
            before(request, request.rows[group[0]]),
            [request.rows[index].strategy for index in group],
            plan_of(request, [request.rows[index] for index in group]),
            model.tokenizer.vocab_size,
            model.decode,
        )
        for group in groups
    }


def chosen_by_hand(request: TextsRequest) -> GeneratedToken:
    """Compute the numbers of a branch's first token, selected by hand, in a forward pass over the tokens before it."""
    row, size = request.rows[0], request.model.tokenizer.vocab_size
    ids, steps = (*request.prompt, *row.ids), row.strategy.steps
    plan = dataclasses.replace(plan_of(request, [row]), first_step=len(row.ids))
    context = Setup(ids, plan, size, None).context(steps, (), 0)
    return placed(request.writer.model, context, steps, request.token, size)


def _ended_by(request: TextsRequest, row: TextRow) -> str:
    """Return why the token selected by hand ends the text, or ""."""
    if request.token in plan_of(request, [row]).ending:
        return "end"
    return ended_by_rule(row.strategy.steps, Context(before(request, row), len(request.prompt)))


def rounds(playground: Playground, request: TextsRequest, stop: threading.Event) -> Iterator[list[Change | None]]:
    """Yield one step at a time: the change of each row, or None for a row that has ended.

    The model is locked for one forward pass at a time, so other requests are answered in between. Closing the iterator
    or setting `stop` ends the generation. Raises InputError if the server's limit on computing time is exceeded.
    """
    if request.token is not None:
        with playground.computing:
            first = chosen_by_hand(request)
        ended = _ended_by(request, request.rows[0])
        yield [Change((first,), ended=ended)]
        if ended:
            return
    live, spent = _ticks(request), 0.0
    try:
        while live and not stop.is_set():
            changes: list[Change | None] = [None] * len(request.rows)
            for group, ticks in list(live.items()):
                with playground.computing.later():
                    began = time.perf_counter()
                    tick = next(ticks, None)
                    spent += time.perf_counter() - began
                check_time(playground.options.allowed, spent)
                time.sleep(background.WAIT)
                for index, change in zip(group, tick.changes if tick else (), strict=bool(tick)):
                    changes[index] = change
                if tick is None or all(change is None or change.ended for change in tick.changes):
                    live.pop(group).close()
            if any(changes):
                yield changes
    finally:
        for ticks in live.values():
            ticks.close()


def effect_of(playground: Playground, request: TextsRequest) -> Effect | None:
    """Measure, only once, the effect of 8-bit weights on the start of the prompt; None for float32 weights."""
    if not request.settings.eight:
        return None
    ids = request.prompt[:MOST_COMPARED]

    def compute() -> Effect:
        with playground.computing:
            return effect(request.model.model, request.writer.model, ids)

    return background.computed_once(playground, ("int8", request.model.id, ids), compute)


@dataclass(eq=False)
class Race:
    """A run: its request, and everything generated so far in the form sent to the page."""

    owner: str
    request: TextsRequest
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    state: str = "running"  # or "done" or "stopped"
    seconds: float = 0.0
    tokens: int = 0  # number of generated tokens, including those that a search dropped
    ticks: list[list] = field(default_factory=list)  # for each step and row: None or [records, dropped, ended, others]
    texts: list[dict] = field(default_factory=list)  # for each step: the strings of newly occurring token ids
    written: list[list[GeneratedToken]] = field(init=False)
    passes: list[int] = field(init=False)  # forward passes of each row
    saved: list[int] = field(init=False)  # forward passes that forced tokens saved each row
    stop: threading.Event = field(default_factory=threading.Event)
    _named: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.written = [list(row.written) for row in self.request.rows]
        self.passes, self.saved = [0] * len(self.written), [0] * len(self.written)

    def add(self, changes: list[Change | None], seconds: float) -> None:
        """Append a step, and store the run's elapsed seconds at its end."""
        for at, (tokens, change) in enumerate(zip(self.written, changes, strict=True)):
            if change is not None:
                del tokens[len(tokens) - change.drop :]
                tokens.extend(change.made)
                self.tokens += len(change.made)
                self.passes[at] += change.passes
                self.saved[at] += not change.passes
        packed = [None if change is None else _packed_change(change) for change in changes]
        new_ids = {number for each in packed if each for number in _ids_named(each)} - self._named
        self._named |= new_ids
        self.texts.append(texts_of(self.request.model, new_ids))
        self.seconds = seconds
        self.ticks.append(packed)

    @property
    def measured(self) -> list[dict]:
        """The statistics of each row's complete text."""
        return [{name: plain(value) for name, value in vars(measure_text(tokens)).items()} for tokens in self.written]

    @property
    def full_texts(self) -> list[str | None]:
        """The prompt, alone and with each row's text, without begin and end tokens; None if it cannot be typed."""
        tokenizer, prompt = self.request.model.tokenizer, self.request.prompt
        prompt = prompt[bool(prompt and prompt[0] == tokenizer.begin_id) :]
        return [typable(tokenizer, [*prompt, *(token.id for token in tokens)]) for tokens in ([], *self.written)]

    @property
    def own_texts(self) -> list[str | None]:
        """Each row's text without the prompt, as an assistant's turn; None if it cannot be typed."""
        return [typable(self.request.model.tokenizer, [token.id for token in tokens]) for tokens in self.written]


def _packed_change(change: Change) -> list:
    entry = [[record(token) for token in change.made], change.drop, change.ended]
    return [*entry, [[list(ids), plain(score)] for ids, score in change.others]] if change.others else entry


def _ids_named(packed: list) -> list[int]:
    return [*ids_of(packed[0]), *(number for ids, _ in (packed[3] if len(packed) > 3 else ()) for number in ids)]


def texts_of(model: LanguageModel, ids) -> dict:
    """Map token ids to their strings, formatted for the page."""
    return {str(number): shown(model.tokenizer.piece(number)) for number in sorted(ids)}


@dataclass(eq=False)
class Races:
    """The latest run of each visitor, by run id, from which a page gets the pieces that it missed."""

    capacity: int = 16
    _kept: dict[str, Race] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, race: Race) -> None:
        """Store a run in place of the visitor's previous one, which is stopped if it is still running."""
        with self._lock:
            for other in [each for each in self._kept.values() if each.owner == race.owner]:
                self._kept.pop(other.id).stop.set()
            ended = [each.id for each in self._kept.values() if each.state != "running"]
            for run in ended[: max(0, len(self._kept) + 1 - self.capacity)]:
                del self._kept[run]
            self._kept[race.id] = race

    def of(self, owner: str) -> Race | None:
        """Return the visitor's run, whether running or ended; None without a run."""
        with self._lock:
            return next((race for race in self._kept.values() if race.owner == owner), None)

    def leave(self, owner: str) -> None:
        """Stop and delete the runs of a visitor whose page was closed."""
        with self._lock:
            for race in [each for each in self._kept.values() if each.owner == owner]:
                self._kept.pop(race.id).stop.set()
