"""The strategy cards that a visitor compares, and their shared settings: a part shown in several views of the tab."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from model.api import LanguageModel
from model.errors import InputError, say
from model.forgetting.policies import CACHES, Policy
from model.generation.generate import MOST_STRATEGIES
from model.generation.strategies import METHODS, STRATEGIES, Method, Strategy
from model.sampling.pipeline import Parameter, Step
from viz.labels import shorten, visible
from viz.numbers import exact
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.seam.view import Asking, Measure, Payload, Seen
from viz.theme import HUES
from viz.views.sampling import pipelines
from viz.words import Words, section
from viz.work.limits import check_writing
from viz.work.prompt import Prompt, python_of, read

DEFAULT = ("greedy", "temperature", "top_k", "top_p")  # the initial cards, as keys of STRATEGIES
NEW_TOKENS = 60  # default number of generated tokens
MOST_NAME = 40  # maximum number of characters of a name
MOST_TOKENS = 512  # maximum number of tokens generated per strategy
MOST_SEED = 999_999
MOST_STOPS = 4
MOST_STOP = 40  # maximum number of characters of a stop string
MOST_MEMORY = 4096  # maximum number of keys in a bounded cache


@dataclass(frozen=True)
class Common:
    """The settings that all strategies share."""

    tokens: int = NEW_TOKENS  # maximum number of generated tokens
    seed: int = 0
    shared: bool = True  # whether all strategies use the same random number at each step
    stop: tuple[str, ...] = ()  # strings that end the generation
    chat: bool = False  # whether to put the prompt into the model's chat template
    eight: bool = False  # whether to generate with 8-bit weights


@dataclass(frozen=True)
class Cards:
    """The strategies on the page's cards, or the reason why they were rejected."""

    strategies: tuple[Strategy, ...] = ()
    common: Common = Common()
    refusal: tuple[str, str, str] | None = None  # message, rejected value, hint

    def check(self) -> None:
        """Raise InputError if the cards were rejected."""
        if self.refusal:
            raise InputError(*self.refusal)


@dataclass(frozen=True)
class Offer:
    """The limits of the cards, which depend on the model and the server."""

    chat: bool  # whether the model has a chat template
    talk: bool  # whether the prompt is already a conversation
    tokens: int  # maximum number of generated tokens
    strategies: int  # maximum number of strategies
    vocabulary: int  # number of tokens that the model can generate


def measure_offer(scene: Scene, settings: Settings) -> Offer:
    """Return the limits of the cards for this model and this server."""
    allowed = scene.playground.options.allowed
    tokens, strategies = min(MOST_TOKENS, allowed.new_tokens), min(MOST_STRATEGIES, allowed.texts)
    return Offer(has_chat(scene.model), bool(scene.prompt.turns), tokens, strategies, scene.model.tokenizer.vocab_size)


def read_cards(sent: object, scene: Scene) -> Cards:
    """Parse the cards that a page sent. An error is stored in `refusal`; `Cards.check` raises it later."""
    try:
        strategies, common = chosen(scene.model, sent), common_of(sent)
        check_writing(scene.playground.options.allowed, len(strategies), common.tokens)
    except InputError as error:
        return Cards(refusal=(error.what, error.got, error.hint))
    return Cards(tuple(strategies), common)


def draw_cards(seen: Seen) -> Payload:
    """Build the payload of the card editor."""
    return payload(seen.all_words, seen.result)


OFFER = Measure("offer", measure_offer, depends=("model", "chat"), locks=False)
PART = Asking("strategies", read_cards, draw_cards, of="offer", shared=True)


def has_chat(model: LanguageModel) -> bool:
    """Return whether the model has a chat template."""
    return bool(model.tokenizer.chat_template)


def payload(catalogue: Mapping[str, str], offer: Offer) -> Payload:
    """Build the payload for static/views/sampling/strategies.js: presets, methods, pipeline editor, bounds, words."""
    words = Words(catalogue, "strategies")
    return {
        "presets": {key: value_of((strategy,))[0] for key, strategy in STRATEGIES.items()},
        "default": list(DEFAULT),
        "methods": [_method(words, key, method) for key, method in METHODS.items()],
        "pipeline": pipelines.spec(catalogue),
        "settings": vars(Common()) | {"stop": []},
        "bounds": {
            "tokens": offer.tokens,
            "seed": MOST_SEED,
            "stops": MOST_STOPS,
            "name": MOST_NAME,
            "stop": MOST_STOP,
            "strategies": offer.strategies,
            "memory": MOST_MEMORY,
        },
        "memories": [[key, words[f"memories.{key}"]] for key in CACHES],
        "memory_short": {key: words[f"memory_short.{key}"] for key in CACHES},
        "chat": offer.chat,
        "talk": offer.talk,
        "hues": list(HUES),
        "names": section(catalogue, "strategies.names"),
        "words": {key: text for key, text in words.plain().items() if "." not in key},
    }


def _method(words: Mapping[str, str], key: str, method: Method) -> dict:
    return {
        "key": key,
        "label": words[f"methods.{key}"],
        "help": words[f"methods_help.{key}"],
        "source": method.source,
        "parameters": [_parameter(words, parameter) for parameter in method.parameters],
    }


def _parameter(words: Mapping[str, str], parameter: Parameter) -> dict:
    return {"label": words[f"options.{parameter.name}"]} | vars(parameter)


def value_of(strategies: Sequence[Strategy]) -> list[dict]:
    """Convert strategies to the page's form: [{"name", "method", "options": {name: number}, "steps": [...]}]."""
    return [
        {
            "name": each.name,
            "method": each.method,
            "options": dict(each.options),
            "steps": pipelines.value_of(each.steps),
        }
        | memory_value(each)
        for each in strategies
    ]


def memory_value(strategy: Strategy) -> dict:
    """Convert a strategy's eviction policy to the page's form; {} if its cache evicts nothing."""
    memory = strategy.memory
    return {} if memory is None else {"memory": {"kind": memory.kind, "budget": memory.budget}}


# --- what a page sends ------------------------------------------------------------------------------


def chosen(model: LanguageModel, sent: object) -> list[Strategy]:
    """Parse the strategies in the part's value {"strategies": [{"name", "method", "options", "steps"}]}.

    A missing list selects the strategies of DEFAULT. A name that is a key of STRATEGIES is displayed as its label.
    Raises InputError if the list is malformed, empty or too long, or if a number is out of bounds.
    """
    cards = sent.get("strategies") if isinstance(sent, Mapping) else None
    if cards is None:
        return [STRATEGIES[key] for key in DEFAULT]
    if not isinstance(cards, list) or not all(isinstance(each, Mapping) for each in cards):
        raise InputError("These strategies cannot be read.", "", "Choose one from the list.")
    if not cards:
        raise InputError("No strategy was given.", "", "Add a strategy.")
    if len(cards) > MOST_STRATEGIES:
        raise InputError("There are too many strategies.", str(len(cards)), say("From 1 to {}.", MOST_STRATEGIES))
    return [_strategy(model, each) for each in cards]


def _strategy(model: LanguageModel, sent: Mapping) -> Strategy:
    name, method, options = sent.get("name") or "", sent.get("method", "sample"), sent.get("options") or {}
    if not isinstance(method, str) or method not in METHODS:
        raise InputError("This method is unknown.", str(method)[:40], "Choose one from the list.")
    if not isinstance(name, str) or not isinstance(options, Mapping):
        raise InputError("These strategies cannot be read.", "", "Choose one from the list.")
    sent_steps = sent.get("steps")
    steps = pipelines.steps_of(model, [] if sent_steps is None else sent_steps)
    options = _options(METHODS[method], options)
    return Strategy(steps, method, options, name.strip()[:MOST_NAME], _memory(sent.get("memory")))


def _memory(sent: object) -> Policy | None:
    """Parse {"kind", "budget"} into an eviction policy; None stands for a full cache. Raises InputError if it is
    malformed.
    """
    if sent is None:
        return None
    if not isinstance(sent, Mapping) or sent.get("kind") not in CACHES:
        raise InputError("This KV-cache policy is unknown.", "", "Choose one from the list.")
    return Policy(sent["kind"], _whole_number("budget", sent.get("budget"), 1, MOST_MEMORY))


def _options(method: Method, sent: Mapping) -> tuple[tuple[str, float], ...]:
    """Parse the method's options. Raises InputError if one is unknown or out of bounds."""
    bounds = {parameter.name: parameter for parameter in method.parameters}
    options = []
    for name, value in sent.items():
        parameter = bounds.get(name)
        if parameter is None:
            raise InputError("A setting is unknown.", str(name)[:20], "Choose one from the list.")
        number = _number(name, value, parameter.low, parameter.high)
        if parameter.whole and number % 1:
            raise InputError("A setting is not a whole number.", f"{name}: {number:g}", "Choose a whole number.")
        options.append((parameter.name, float(number)))
    return tuple(options)


def _number(name: str, value: object, low: float, high: float) -> int | float:
    """Return a value unchanged if it is a number from `low` to `high`. Raises InputError otherwise."""
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        raise InputError("A setting is not a number.", name, _between(low, high))
    if not low <= value <= high:
        got = f"{name}: {value:g}" if abs(value) < 1e15 else name
        raise InputError("A setting is out of range.", got, _between(low, high))
    return value


def _between(low: float, high: float) -> str:
    return say("Choose a value from {} to {}.", exact(low), exact(high))


def common_of(sent: object, default: Common = Common()) -> Common:
    """Parse the shared settings in {"settings": {"tokens", "seed", "shared", "stop", "chat", "eight"}}.

    A missing setting keeps its value in `default`. Raises InputError if one is unknown, malformed or out of bounds.
    """
    common = sent.get("settings") if isinstance(sent, Mapping) else None
    if common is None:
        return default
    if not isinstance(common, Mapping) or not set(common) <= set(vars(default)):
        raise InputError("These settings cannot be read.", "", "Choose one from the list.")
    values = vars(default) | dict(common)
    tokens, seed = (
        _whole_number(name, values[name], low, high)
        for name, low, high in (("tokens", 1, MOST_TOKENS), ("seed", 0, MOST_SEED))
    )
    if not all(isinstance(values[name], bool) for name in ("shared", "chat", "eight")):
        raise InputError("These settings cannot be read.", "", "Choose one from the list.")
    return Common(tokens, seed, values["shared"], _stops(values["stop"]), values["chat"], values["eight"])


def _whole_number(name: str, value: object, low: int, high: int) -> int:
    number = _number(name, value, low, high)
    if number % 1:
        raise InputError("A setting is not a whole number.", f"{name}: {number:g}", "Choose a whole number.")
    return int(number)


def _stops(sent: object) -> tuple[str, ...]:
    r"""Parse stop strings from a list, or from a string with one per line; \n and \t stand for line break and tab."""
    lines = sent.splitlines() if isinstance(sent, str) else sent
    if not isinstance(lines, list | tuple) or not all(isinstance(line, str) for line in lines):
        raise InputError("These stop texts cannot be read.", "", "Write one text per line.")
    stops = tuple(line for line in lines if line)
    if len(stops) > MOST_STOPS:
        raise InputError(
            "There are too many stop texts.", str(len(stops)), say("At most {}, one per line.", MOST_STOPS)
        )
    if too_long := next((line for line in stops if len(line) > MOST_STOP), None):
        raise InputError(
            "A stop text is too long.", shorten(visible(too_long), 40), say("At most {} characters.", MOST_STOP)
        )
    return tuple(line.replace("\\n", "\n").replace("\\t", "\t") for line in stops)


# --- labels, prompts and Python code ----------------------------------------------------------------


def labels(catalogue: Mapping[str, str], strategies: Sequence[Strategy]) -> list[str]:
    """Return a unique label for each strategy: its own name, or the label of its preset or its method.

    Strategies with the same preset or method are labeled by their summaries, such as "T 0.8" and "T 1.5". A counter
    distinguishes those that are still equal.
    """
    words, names = Words(catalogue, "strategies"), []
    own = ["" if f"strategies.names.{each.name}" in catalogue else each.name.strip() for each in strategies]
    defaults = [
        name or words.get(f"names.{each.name}") or words[f"methods.{each.method}"]
        for name, each in zip(own, strategies, strict=True)
    ]
    summaries = [summary(catalogue, each) for each in strategies]
    for n, default in enumerate(defaults):
        others = [i for i in range(len(own)) if i != n and not own[i] and defaults[i] == default]
        distinct = not own[n] and others and all(summaries[i] != summaries[n] for i in others)
        name = summaries[n] if distinct else default
        number, label = 1, name
        while label in names:
            number += 1
            label = f"{name} {number}"
        names.append(label)
    return names


def summary(catalogue: Mapping[str, str], strategy: Strategy) -> str:
    """Format a strategy's parameter values in one line: "T 0.8 · top-k 40 · top-p 0.9"."""
    words = Words(catalogue, "strategies")
    parts = [_short(catalogue, step) for step in strategy.steps]
    if strategy.method != "sample":
        options = dict(strategy.options)
        numbers = [
            f"{words[f'options.{p.name}']} {exact(options.get(p.name, p.default))}"
            for p in METHODS[strategy.method].parameters
        ]
        parts = [words[f"methods.{strategy.method}"], *numbers, *parts]
    if strategy.memory is not None:
        parts.append(words[f"memory_short.{strategy.memory.kind}"].format(n=strategy.memory.budget))
    return " · ".join(parts) or words["plain"]


def _short(catalogue: Mapping[str, str], step: Step) -> str:
    name = catalogue.get(f"strategies.short_{step.warp}") or catalogue[f"warp.{step.warp}"]
    rule = [] if step.rule is None else [catalogue[f"rule.{step.rule.kind}"]]
    return " ".join([name, *map(exact, pipelines.named_values(step)), *rule])


def continued(prompt: Prompt, chat: bool) -> Prompt:
    """Return the prompt to continue: a conversation as it is, and with `chat` a bare prompt as a user's message."""
    return Prompt("", (("user", prompt.text), ("assistant", ""))) if chat and not prompt.turns else prompt


def prompt_ids(model: LanguageModel, prompt: Prompt, chat: bool) -> list[int]:
    """Return the token ids to continue; a model without a chat template gets the bare prompt.

    Raises InputError if the chat template rejects the prompt.
    """
    return read(model, continued(prompt, chat and has_chat(model))).tokens.ids.tolist()


def prompt_code(prompt: Prompt, chat: bool) -> str:
    """Format the prompt to continue as the first argument of `lm.generate`. `chat` requires that the model has a chat
    template.
    """
    return python_of(continued(prompt, chat))


def code(strategies: Sequence[Strategy], names: Sequence[str]) -> list[str]:
    """Build the Python lines that define the list `strategies`."""
    lines = ["strategies = ["]
    for each, name in zip(strategies, names, strict=True):
        arguments = f"{pipelines.steps_code(each.steps)}, {each.method!r}, {each.options!r}, {name!r}"
        if each.memory is not None:
            arguments += f", Policy({each.memory.kind!r}, {each.memory.budget})"
        lines.append(f"    Strategy({arguments}),")
    return [*lines, "]"]


def card_values(presets: Sequence[str], strategies: Sequence[dict], common: dict) -> dict:
    """Build the value of the page's cards from presets, further strategies and the shared settings.

    Raises InputError if there is no preset with a given name.
    """
    for name in presets:
        if name not in STRATEGIES:
            hint = say("Choose one of: {}.", ", ".join(STRATEGIES))
            raise InputError("No strategy has this name.", name[:40], hint)
    cards = value_of([STRATEGIES[name] for name in presets]) + list(strategies)
    return {"settings": common} | ({"strategies": cards} if cards else {})
