"""A checked request for texts, and a run that writes them and keeps the pieces that were sent to the page."""

import dataclasses
import math
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from model.api import LanguageModel
from model.errors import InputError, say
from model.generation.generate import MOST_STRATEGIES, Tick
from model.generation.next_token import placed
from model.generation.strategies import Change, GeneratedToken, Plan, Strategy
from model.generation.text_statistics import measure_text
from model.generation.together import SharedBatch
from model.quantization.int8 import Effect, effect
from model.records import RunKey
from model.sampling.pipeline import checked
from model.sampling.warps import WARPS
from model.text.chat import ending, typable
from model.tracing.trace import check_length
from viz.numbers import plain
from viz.seam.jobs import background
from viz.seam.scene import run_id
from viz.seam.settings import Number
from viz.seam.typed import MOST_TYPED, token_of
from viz.views.sampling import strategies
from viz.views.sampling.side_by_side.figures import ids_of, record, shown
from viz.views.sampling.strategies import MOST_TOKENS, Common
from viz.work.limits import check_time, check_writing
from viz.work.playground import Playground
from viz.work.prompt import Prompt, fitted, read

MOST_COMPARED = 64  # tokens of a prompt on which 8-bit weights are compared
LEAST = 8  # tokens that a branch writes, however late it starts


@dataclass(frozen=True, eq=False)
class Row:
    """One text: how it is written, and what was written of it before."""

    strategy: Strategy
    number: int  # of its random numbers, where every strategy has its own
    written: tuple[GeneratedToken, ...] = ()

    @property
    def ids(self) -> tuple[int, ...]:
        """The tokens written before."""
        return tuple(token.id for token in self.written)


@dataclass(frozen=True, eq=False)
class Request:
    """A checked request for texts, and the page's own name for it."""

    model: LanguageModel
    writer: LanguageModel  # the same with 8-bit weights, where these were requested
    kind: str  # "start", "branch" or "go"
    tag: str
    prompt: tuple[int, ...]
    asked: Prompt  # empty where the page sent its tokens
    key: str  # of the prompt, the one that the chips at the top have; "" where the page sent its tokens
    rows: tuple[Row, ...]
    settings: Common
    tokens: int  # new ones, at most
    token: int | None = None  # of a branch: what stands where the text was left


# --- what a page sends ------------------------------------------------------------------------------


def request_of(playground: Playground, model: LanguageModel, prompt: Prompt, cards: object, sent: object) -> Request:
    """Return the requested texts; raises InputError for anything that cannot be written.

    {"kind": "start"} writes what the strategies' cards say after the prompt. {"kind": "branch"} or "go" sends the
    tokens it goes on from: {"model", "prompt": [ids], "rows": [{"strategy", "number", "written": [records]}],
    "settings", and of a branch "token": id or "typed": text, and "limit": tokens of the whole text}. To go on writes as
    many tokens more as the cards say now.
    """
    sent = sent if isinstance(sent, Mapping) else {}
    tag = sent["tag"][:40] if isinstance(sent.get("tag"), str) else ""
    if sent.get("kind") not in ("branch", "go"):
        return _start(playground, model, prompt, cards, tag)
    if sent.get("model") != model.id:
        raise InputError("This text is of another model.", "", "Start anew, or choose that model again.")
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
    request = Request(model, writer, sent["kind"], tag, ids, Prompt(), "", rows, settings, tokens, token)
    for row in rows:
        check_length(len(before(request, row)), longest)
    return request


def _start(playground: Playground, model: LanguageModel, prompt: Prompt, cards: object, tag: str) -> Request:
    chosen, settings = strategies.chosen(model, cards), strategies.common_of(cards)
    check_writing(playground.options.allowed, len(chosen), settings.tokens)
    prompt = fitted(model, prompt)
    ids = tuple(playground.tokens(model, prompt).ids.tolist())
    key = run_id(RunKey(model.id, ids), "")
    if settings.chat and not prompt.turns:
        ids = tuple(read(model, strategies.continued(prompt, settings.chat)).tokens.ids.tolist())
    check_length(len(ids), model.config.n_ctx)
    rows = tuple(Row(strategy, at) for at, strategy in enumerate(chosen))
    writer = writer_of(playground, model, settings)
    return Request(model, writer, "start", tag, ids, prompt, key, rows, settings, settings.tokens)


def writer_of(playground: Playground, model: LanguageModel, settings: Common) -> LanguageModel:
    """Return the model that writes: the one that was asked for, or the same with 8-bit weights."""
    if not settings.eight:
        return model
    with playground.computing:
        return playground.eight_bit(model)


def _whole(value: object, end: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < end


def _ids(model: LanguageModel, sent: object) -> tuple[int, ...]:
    """Return the token ids that a page sent."""
    fits = isinstance(sent, list) and 0 < len(sent) < model.config.n_ctx
    if not fits or not all(_whole(each, model.tokenizer.vocab_size) for each in sent):
        raise InputError("This text cannot be read.", "", "Start anew.")
    return tuple(sent)


def _rows(model: LanguageModel, sent: object) -> tuple[Row, ...]:
    if not isinstance(sent, list) or not 0 < len(sent) <= MOST_STRATEGIES:
        raise InputError("These texts cannot be read.", "", say("From 1 to {}.", MOST_STRATEGIES))
    return tuple(_row(model, each) for each in sent)


def _row(model: LanguageModel, sent: object) -> Row:
    written = sent.get("written") if isinstance(sent, Mapping) else None
    if not isinstance(written, list) or len(written) >= model.config.n_ctx or not _whole(sent.get("number"), 1 << 20):
        raise InputError("This text cannot be read.", "", "Start anew.")
    strategy = strategy_of(model, sent.get("strategy"))
    return Row(strategy, sent["number"], tuple(_generated_token(model, each) for each in written))


def _generated_token(model: LanguageModel, sent: object) -> GeneratedToken:
    """Return a token that was written before, from [id, ln p, rank, entropy, p after the warps, tokens
    left, number].
    """
    size = model.tokenizer.vocab_size
    if not isinstance(sent, list) or len(sent) != 7 or not all(_whole(each, size + 1) for each in (sent[2], sent[5])):
        raise InputError("This text cannot be read.", "", "Start anew.")
    values = [math.nan if value is None else value for value in (sent[1], sent[3], sent[4], sent[6])]
    if not _whole(sent[0], size) or not all(isinstance(v, int | float) and not abs(v) > 1e6 for v in values):
        raise InputError("This text cannot be read.", "", "Start anew.")
    return GeneratedToken(sent[0], values[0], sent[2], values[1], values[2], sent[5], values[3], ())


def _token(model: LanguageModel, sent: Mapping) -> int:
    """Return the token that a branch starts with: one of those offered, or one that was typed."""
    typed = sent.get("typed")
    if not isinstance(typed, str) or not typed:
        return _ids(model, [sent.get("token")])[0]
    token, pieces = token_of(model, typed[:MOST_TYPED])
    if token is None:
        raise InputError("This is not one token.", " ".join(f"“{piece}”" for piece in pieces[:8]), "Type one token.")
    return token


def packed(strategy: Strategy) -> dict:
    """Return a strategy as a page keeps it and sends it back."""
    steps = [
        {"warp": s.warp, "values": dict(s.values), "tokens": [list(each) for each in s.tokens]} for s in strategy.steps
    ]
    whole = {"name": strategy.name, "method": strategy.method, "options": dict(strategy.options), "steps": steps}
    return whole | strategies.memory_value(strategy)


def strategy_of(model: LanguageModel, sent: object) -> Strategy:
    """Return the strategy that `packed` gave to a page, checked."""
    steps = sent.get("steps") if isinstance(sent, Mapping) else None
    if not isinstance(steps, list) or not all(isinstance(each, Mapping) for each in steps):
        raise InputError("These strategies cannot be read.", "", "Choose one of the list.")
    plain = [{"warp": each.get("warp"), "values": each.get("values")} for each in steps]
    (strategy,) = strategies.chosen(model, {"strategies": [{**sent, "steps": plain}]})
    whole = tuple(
        dataclasses.replace(step, tokens=_biases(each.get("tokens")))
        for step, each in zip(strategy.steps, steps, strict=True)
    )
    return dataclasses.replace(strategy, steps=checked(whole, WARPS, model.tokenizer.vocab_size))


def _biases(sent: object) -> tuple[tuple[int, float], ...]:
    pairs = sent if isinstance(sent, list) else []
    if len(pairs) > 64 or not all(isinstance(p, list) and len(p) == 2 and _whole(p[0], 1 << 31) for p in pairs):
        raise InputError("This step is not known.", "", "Choose one of the list.")
    if not all(isinstance(p[1], int | float) and not isinstance(p[1], bool) for p in pairs):
        raise InputError("A setting is not a number.", "", "Choose one of the list.")
    return tuple((p[0], float(p[1])) for p in pairs)


# --- writing ----------------------------------------------------------------------------------------


def before(request: Request, row: Row) -> tuple[int, ...]:
    """Return all that stands before what a row's strategy writes."""
    return (*request.prompt, *row.ids, *(() if request.token is None else (request.token,)))


def plan_of(request: Request, row: Row) -> Plan:
    """Return the settings besides the strategies: a branch has the random numbers that its parent had."""
    return Plan(
        request.tokens,
        request.settings.seed,
        request.settings.shared,
        first_step=len(before(request, row)) - len(request.prompt),
        prompt=len(request.prompt),
        numbers=() if request.kind == "start" else (row.number,),
        ending=ending(request.model.tokenizer),
        stop=request.settings.stop,
    )


def _ticks(request: Request) -> dict[tuple[int, ...], Iterator[Tick]]:
    """Return the iterators that write, by the rows each is for: all together, or each row from where it is.

    They share their forwards with the texts of other visitors.
    """
    model = request.model
    every = range(len(request.rows))
    groups = [tuple(every)] if request.kind == "start" else [(at,) for at in every]
    return {
        group: SharedBatch.of(request.writer.model).generate(
            before(request, request.rows[group[0]]),
            [request.rows[at].strategy for at in group],
            plan_of(request, request.rows[group[0]]),
            model.tokenizer.vocab_size,
            model.decode,
        )
        for group in groups
    }


def chosen_by_hand(request: Request) -> GeneratedToken:
    """Return the first token of a branch with its numbers; no random number chose it. One forward of all before it."""
    row, size = request.rows[0], request.model.tokenizer.vocab_size
    ids = (*request.prompt, *row.ids)
    return placed(request.writer.model, ids, len(request.prompt), row.strategy.steps, request.token, size)


def rounds(playground: Playground, request: Request, stop: threading.Event) -> Iterator[list[Change | None]]:
    """Yield a step of every row a time: what it changed, None for a row that had ended.

    The model is held for one forward at a time, so that a click elsewhere is answered. Closing the iterator, or setting
    `stop`, ends the work. Raises InputError after as many seconds of computing as this server allows.
    """
    if request.token is not None:
        with playground.computing:
            choices = chosen_by_hand(request)
        ended = "end" if request.token in plan_of(request, request.rows[0]).ending else ""
        yield [Change((choices,), ended=ended)]
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
                for at, change in zip(group, tick.changes if tick else (), strict=bool(tick)):
                    changes[at] = change
                if tick is None or all(change is None or change.ended for change in tick.changes):
                    live.pop(group).close()
            if any(changes):
                yield changes
    finally:
        for ticks in live.values():
            ticks.close()


def effect_of(playground: Playground, request: Request) -> Effect | None:
    """Return the effect of 8-bit weights on the prompt's first tokens, where they write; computed once."""
    if not request.settings.eight:
        return None
    ids = request.prompt[:MOST_COMPARED]

    def make() -> Effect:
        with playground.computing:
            return effect(request.model.model, request.writer.model, ids)

    return background.computed_once(playground, ("int8", request.model.id, ids), make)


@dataclass(eq=False)
class Race:
    """A run: what it wrote so far, as the page is sent it."""

    owner: str
    request: Request
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    state: str = "running"  # then "done" or "stopped"
    seconds: float = 0.0
    tokens: int = 0  # written, those that a search dropped again too
    ticks: list[list] = field(default_factory=list)  # a step: for each row None or [records, dropped, ended, others]
    texts: list[dict] = field(default_factory=list)  # with each step the texts of tokens that it is the first to name
    written: list[list[GeneratedToken]] = field(init=False)
    stop: threading.Event = field(default_factory=threading.Event)
    _named: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.written = [list(row.written) for row in self.request.rows]

    def add(self, changes: list[Change | None], seconds: float) -> None:
        """Keep a step, and how long the run took until after it."""
        for tokens, change in zip(self.written, changes, strict=True):
            if change is not None:
                del tokens[len(tokens) - change.drop :]
                tokens.extend(change.made)
                self.tokens += len(change.made)
        packed = [None if change is None else _packed_change(change) for change in changes]
        new_ids = {number for each in packed if each for number in _ids_named(each)} - self._named
        self._named |= new_ids
        self.texts.append(texts_of(self.request.model, new_ids))
        self.seconds = seconds
        self.ticks.append(packed)

    @property
    def measured(self) -> list[dict]:
        """The numbers of every row's whole text."""
        return [{name: plain(value) for name, value in vars(measure_text(tokens)).items()} for tokens in self.written]

    @property
    def whole(self) -> list[str | None]:
        """The prompt, and every row's prompt and text as one; None where tokens cannot be typed, like those of a chat.

        A token that a vocabulary asks for before a text, and one that ended it, are left out.
        """
        tokenizer, prompt = self.request.model.tokenizer, self.request.prompt
        prompt = prompt[bool(prompt and prompt[0] == tokenizer.begin_id) :]
        return [typable(tokenizer, [*prompt, *(token.id for token in tokens)]) for tokens in ([], *self.written)]

    @property
    def own(self) -> list[str | None]:
        """Every row's text alone, as the turn of an assistant; None likewise."""
        return [typable(self.request.model.tokenizer, [token.id for token in tokens]) for tokens in self.written]


def _packed_change(change: Change) -> list:
    entry = [[record(token) for token in change.made], change.drop, change.ended]
    return [*entry, [[list(ids), plain(score)] for ids, score in change.others]] if change.others else entry


def _ids_named(packed: list) -> list[int]:
    return [*ids_of(packed[0]), *(number for ids, _ in (packed[3] if len(packed) > 3 else ()) for number in ids)]


def texts_of(model: LanguageModel, ids) -> dict:
    """How the page draws tokens, by id."""
    return {str(number): shown(model.tokenizer.piece(number)) for number in sorted(ids)}


@dataclass(eq=False)
class Races:
    """The last runs by their ids, one a visitor; a page that missed a piece is sent it again from here."""

    capacity: int = 16
    _kept: dict[str, Race] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, race: Race) -> None:
        """Keep a run in place of the visitor's last one, which is stopped if it goes on."""
        with self._lock:
            for other in [each for each in self._kept.values() if each.owner == race.owner]:
                self._kept.pop(other.id).stop.set()
            over = [each.id for each in self._kept.values() if each.state != "running"]
            for gone in over[: max(0, len(self._kept) + 1 - self.capacity)]:
                del self._kept[gone]
            self._kept[race.id] = race

    def of(self, owner: str) -> Race | None:
        """Return the visitor's run, whether it goes on or not."""
        with self._lock:
            return next((race for race in self._kept.values() if race.owner == owner), None)

    def leave(self, owner: str) -> None:
        """The visitor's page was closed: stop what runs for it and forget the rest."""
        with self._lock:
            for race in [each for each in self._kept.values() if each.owner == owner]:
                self._kept.pop(race.id).stop.set()
