"""Pipelines of warps: the editor that several views share, and the parsing of the steps that a page sends."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from model.api import LanguageModel
from model.errors import InputError, say
from model.generation.next_token import context_at, logits_after
from model.records import Tokens
from model.sampling.pipeline import MOST_STEPS, Context, Parameter, Step, checked
from model.sampling.warps import WARPS, values_of
from viz.labels import quoted
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.typed import token_of
from viz.seam.view import Asking, Payload, Seen
from viz.words import section

DEFAULT: tuple[Step, ...] = (
    Step("temperature", (("temperature", 0.8),)),
    Step("top_k", (("k", 40.0),)),
    Step("top_p", (("p", 0.9),)),
)
MOST_TOKENS = 32  # maximum number of tokens per logit bias
_SIGNS = {"temperature": "T"}
KINDS = ("penalty", "scale", "cut")  # groups of warps in the editor's list
# Presets, labeled by the words "pipeline.preset_<key>". A preset is offered only if all of its warps exist.
PRESETS: dict[str, tuple[Step, ...]] = {
    "standard": DEFAULT,
    "plain": (),
    "greedy": (Step("temperature", (("temperature", 0.0),)),),
    "sharp": (Step("temperature", (("temperature", 0.5),)),),
    "flat": (Step("temperature", (("temperature", 1.5),)),),
    "top_k": (Step("top_k", (("k", 50.0),)),),
    "top_p": (Step("top_p", (("p", 0.95),)),),
    "heat_first": (Step("temperature", (("temperature", 1.5),)), Step("top_p", (("p", 0.9),))),
    "cut_first": (Step("top_p", (("p", 0.9),)), Step("temperature", (("temperature", 1.5),))),
    "min_p": (Step("min_p"), Step("temperature", (("temperature", 1.5),))),
    "typical": (Step("typical"),),
    "eta": (Step("eta"),),
}


def _temperature_and_top_k(temperature: float, k: float) -> tuple[Step, ...]:
    return Step("temperature", (("temperature", temperature),)), Step("top_k", (("k", k),))


# Rules of thumb from tutorials, labeled by the words "pipeline.use_<key>" and "pipeline.why_<key>".
USES: dict[str, tuple[Step, ...]] = {
    "answer": PRESETS["greedy"],
    "summary": _temperature_and_top_k(0.4, 10.0),
    "code": _temperature_and_top_k(0.6, 20.0),
    "story": _temperature_and_top_k(0.9, 40.0),
}


def spec(words: Mapping[str, str]) -> dict:
    """Build the options of the editor in static/views/sampling/pipeline.js.

    They contain every warp with its label, help, source and parameters, the presets, the recommended uses, and the
    default.
    """
    return {
        "warps": [
            {
                "key": key,
                "label": words[f"warp.{key}"],
                "help": words[f"warp_help.{key}"],
                "kind": warp.kind,
                "source": warp.source,
                "tokens": warp.takes_tokens,
                "parameters": [parameter_spec(words, parameter) for parameter in warp.parameters],
            }
            for key, warp in WARPS.items()
        ],
        "groups": [[kind, words[f"pipeline.group_{kind}"]] for kind in KINDS],
        "presets": [
            {"key": key, "label": words[f"pipeline.preset_{key}"], "steps": value_of(steps)}
            for key, steps in PRESETS.items()
            if all(step.warp in WARPS for step in steps)
        ],
        "uses": [
            {
                "label": words[f"pipeline.use_{key}"],
                "why": words[f"pipeline.why_{key}"],
                "settings": ", ".join(
                    f"{_SIGNS.get(name, name)} {value:g}" for step in steps for name, value in step.values
                ),
                "steps": value_of(steps),
            }
            for key, steps in USES.items()
        ],
        "default": value_of(DEFAULT),
        "most": MOST_STEPS,
        "words": section(words, "pipeline"),
    }


def parameter_spec(words: Mapping[str, str], parameter: Parameter) -> dict:
    """Describe a parameter for a slider: the fields of `Parameter` and a label."""
    return {"label": words[f"parameter.{parameter.name}"]} | vars(parameter)


def value_of(steps: tuple[Step, ...]) -> list[dict]:
    """Convert steps to the page's form, with every parameter filled in: [{"warp", "values": {name: number}}]."""
    return [{"warp": step.warp, "values": values_of(step)} for step in steps]


def step_name(words: Mapping[str, str], step: Step) -> str:
    """Format a step with its parameter values, as in "Top-k 40"."""
    numbers = [f"{value:g}" for value in values_of(step).values()]
    if WARPS[step.warp].takes_tokens:
        numbers.append(words["pipeline.tokens_n"].format(n=len(step.tokens)))
    return " ".join((words[f"warp.{step.warp}"], ", ".join(numbers))).strip()


def steps_of(model: LanguageModel, sent: object) -> tuple[Step, ...]:
    """Parse the steps that a page sent, [{"warp", "values", "text", "off"}], and leave out those switched off.

    For a warp that takes tokens, `text` holds one line `token: number` per token. None stands for DEFAULT. Raises
    InputError if the list is malformed or a value is out of bounds.
    """
    if sent is None:
        return DEFAULT
    if not isinstance(sent, list) or len(sent) > MOST_STEPS or not all(isinstance(each, Mapping) for each in sent):
        raise InputError("These steps cannot be read.", "", say("At most {} steps.", MOST_STEPS))
    steps = tuple(_step(model, each) for each in sent if not each.get("off"))
    return checked(steps, WARPS, model.tokenizer.vocab_size)


def _step(model: LanguageModel, sent: Mapping) -> Step:
    warp, values, text = sent.get("warp"), sent.get("values") or {}, sent.get("text")
    if not isinstance(warp, str) or warp not in WARPS or not isinstance(values, Mapping):
        raise InputError("This step is unknown.", str(warp)[:40], "Choose one from the list.")
    numbers = []
    for name, value in values.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < 1e15:
            raise InputError("A setting is not a number.", str(name)[:20], "Choose one from the list.")
        numbers.append((str(name), float(value)))
    tokens = _tokens(model, text) if WARPS[warp].takes_tokens and isinstance(text, str) else ()
    return Step(warp, tuple(numbers), tokens)


def _tokens(model: LanguageModel, text: str) -> tuple[tuple[int, float], ...]:
    """Parse lines `token: number` into pairs (token id, number).

    Raises InputError if a line is malformed or there are too many.
    """
    lines = [line for line in text[:4000].splitlines() if line.strip()]
    if len(lines) > MOST_TOKENS:
        raise InputError("There are too many tokens.", str(len(lines)), say("At most {} tokens.", MOST_TOKENS))
    pairs = []
    for line in lines:
        name, _, number = line.rpartition(":")
        try:
            value = float(number)
        except ValueError:
            value = float("nan")
        token = token_of(model, name)[0] if name else None
        if token is None or value != value:
            raise InputError("This line is not a token and a number.", line[:40], "Write a token, a colon, a number.")
        pairs.append((token, value))
    return tuple(pairs)


def steps_code(steps: tuple[Step, ...]) -> str:
    """Format the steps as one line of Python, with every number at full precision."""
    parts = []
    for step in steps:
        values = ", ".join(f'("{name}", {_number(value)})' for name, value in step.values)
        tokens = f", {_pairs(step.tokens)}" if step.tokens else ""
        parts.append(f'Step("{step.warp}", ({values}{"," if step.values else ""}){tokens})')
    return f"({', '.join(parts)}{',' if parts else ''})"


def _pairs(tokens: tuple[tuple[int, float], ...]) -> str:
    return f"({', '.join(f'({token}, {_number(number)})' for token, number in tokens)},)"


def _number(value: float) -> str:
    return repr(float(value)).removesuffix(".0")


# --- the editor, which several views share ---

IMPORTS = (
    "from model.generation.next_token import context_at, logits_after",
    "from model.sampling.pipeline import Step",
)


def read(sent: object, scene: Scene) -> tuple[Step, ...]:
    """Parse the steps in the part's value. Raises InputError if they are malformed or out of bounds."""
    return steps_of(scene.model, sent.get("steps") if isinstance(sent, Mapping) else None)


def editor(seen: Seen) -> Payload:
    """Build the payload of the editor."""
    return spec(seen.all_words)


PIPELINE = Asking("pipeline", read, editor, shared=True)


def logits_of(scene: Scene) -> Tensor:
    """Return the run's logits at the selected position, over the tokenizer's vocabulary. float32 [V]"""
    return logits_after(scene.trace, scene.position, scene.model.tokenizer.vocab_size)


def context_of(scene: Scene) -> Context:
    """Return the context that the warps read: the prompt up to the selected position."""
    return context_at(scene.trace, scene.position)


def following(tokens: Tokens, position: int) -> int | None:
    """Return the id of the actual next token, or None if `position` is the prompt's last one."""
    return int(tokens.ids[position + 1]) if position + 1 < len(tokens) else None


def numbered(words: Mapping[str, str], steps: tuple[Step, ...]) -> list[str]:
    """Format each step with its number, as in "2 · Top-k 40". `words`: the full catalog."""
    return [f"{n} · {step_name(words, step)}" for n, step in enumerate(steps, 1)]


def after(seen: Seen) -> str:
    """Format the selected position and its token for a title."""
    facts = seen.facts
    return seen.all_words["pipeline.after"].format(token=quoted(facts.pieces[facts.position]), position=facts.position)


def pipeline_lines(seen: Seen, last: Sequence[str], imports: Sequence[str] = ()) -> str:
    """Build the Python script that computes `logits`, `context` and `steps` at the selected position and ends with the
    lines `last`.
    """
    facts = seen.facts
    lines = [
        f"at = {facts.position}  # {quoted(facts.pieces[facts.position])!r}",
        "logits, context = logits_after(run, at, lm.tokenizer.vocab_size), context_at(run, at)",
        f"steps = {steps_code(seen.settings.pipeline)}",
        *last,
    ]
    return script(facts, lines, (*IMPORTS, *imports))
