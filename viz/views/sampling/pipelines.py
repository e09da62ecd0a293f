"""Pipelines of warps: the editor that several views share, and the parsing of the steps that a page sends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from model.api import LanguageModel
from model.errors import InputError, say
from model.generation.next_token import context_at, logits_after
from model.records import Tokens
from model.sampling.phrases import banned, breakers, lines_of
from model.sampling.pipeline import MOST_STEPS, Context, Parameter, Step, checked, second, usable
from model.sampling.settings.parsing import MOST_TEXT
from model.sampling.settings.tools import TOOLS
from model.sampling.warps import WARPS, probabilities_of, values_of
from viz.labels import quoted
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.typed import ids_of
from viz.seam.view import Asking, Facts, Payload, Seen
from viz.views.sampling import rules
from viz.words import section

DEFAULT: tuple[Step, ...] = (
    Step("temperature", (("temperature", 0.8),)),
    Step("top_k", (("k", 40.0),)),
    Step("top_p", (("p", 0.9),)),
)
MOST_TOKENS = 32  # maximum number of lines of tokens or words per step
_MOST_TEXT = 4000  # maximum number of characters of them
_READERS = {"banned": banned, "breakers": breakers}
_SIGNS = {"temperature": "T"}
# Groups of warps in the editor's list, labeled by the words "pipeline.group_<key>".
GROUPS: dict[str, tuple[str, ...]] = {
    "scale": ("temperature", "dynamic_temperature", "smoothing"),
    "tail": ("top_k", "top_p", "min_p", "top_a", "top_n_sigma", "epsilon", "eta"),
    "other": ("typical", "xtc", "mirostat"),
    "repeats": ("dry", "repetition_penalty", "presence_penalty", "frequency_penalty", "no_repeat_ngram"),
    "words": ("logit_bias", "banned_words", "fits"),
}
# The text of a new step, in the symbols of the page: DRY's breakers in llama.cpp and text-generation-webui.
TEXTS = {"dry": '↵\n:\n"\n*'}
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
    "dynamic": (Step("dynamic_temperature"), Step("min_p")),
    "story": (Step("dry"), Step("min_p", (("min_p", 0.02),)), Step("xtc")),
    "llama": (
        Step("top_k", (("k", 40.0),)),
        Step("top_p", (("p", 0.95),)),
        Step("min_p", (("min_p", 0.05),)),
        Step("temperature", (("temperature", 0.8),)),
    ),
    "ollama": (
        Step("top_k", (("k", 40.0),)),
        Step("top_p", (("p", 0.9),)),
        Step("temperature", (("temperature", 0.8),)),
    ),
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
                "text": _text_field(words, key),
                "rule": warp.takes_rule,
                "parameters": [parameter_spec(words, parameter) for parameter in warp.parameters],
            }
            for key, warp in WARPS.items()
        ],
        "groups": [[words[f"pipeline.group_{key}"], list(warps)] for key, warps in GROUPS.items()],
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
        "rules": rules.rules_spec(words),
        "most": MOST_STEPS,
        "words": section(words, "pipeline"),
    }


def _text_field(words: Mapping[str, str], key: str) -> dict | None:
    """Describe the text field of a warp that takes tokens or phrases; None for other warps."""
    warp = WARPS[key]
    name = "tokens" if warp.takes_tokens else warp.takes_phrases
    if not name:
        return None
    labels = {"label": words[f"pipeline.{name}"], "example": words[f"pipeline.{name}_example"]}
    return labels | {"default": TEXTS.get(key, "")}


def parameter_spec(words: Mapping[str, str], parameter: Parameter) -> dict:
    """Describe a parameter for a slider: the fields of `Parameter` and a label."""
    return {"label": words[f"parameter.{parameter.name}"]} | vars(parameter)


def value_of(steps: tuple[Step, ...]) -> list[dict]:
    """Convert steps to the page's form, with every parameter filled in: [{"warp", "values": {name: number}, "text",
    "rule"}].

    Only a warp that takes tokens or phrases has a text, and only a step with a rule has one.
    """
    return [
        {"warp": step.warp, "values": values_of(step)} | _text_of(step) | rules.rule_value(step.rule) for step in steps
    ]


def _text_of(step: Step) -> dict:
    warp = WARPS[step.warp]
    text = step.text.replace("\\n", "↵").replace("\\t", "⇥")
    return {"text": text or TEXTS.get(step.warp, "")} if warp.takes_tokens or warp.takes_phrases else {}


def step_name(words: Mapping[str, str], step: Step) -> str:
    """Format a step with its parameter values, as in "Top-k 40"."""
    numbers = [f"{value:g}" for value in named_values(step)]
    if WARPS[step.warp].takes_tokens:
        numbers.append(words["pipeline.tokens_n"].format(n=len(step.tokens)))
    elif WARPS[step.warp].takes_phrases == "banned":
        numbers.append(words["pipeline.tokens_n"].format(n=len(lines_of(step.text)) or len(step.phrases)))
    elif step.rule is not None:
        numbers.append(f"({words[f'rule.{step.rule.kind}']})")
    return " ".join((words[f"warp.{step.warp}"], ", ".join(numbers))).strip()


def named_values(step: Step) -> list[float]:
    """Return the numbers that name a step: all but those that are quiet and have their defaults."""
    parameters = WARPS[step.warp].parameters
    return [step.get(each) for each in parameters if not (each.quiet and step.get(each) == each.default)]


def steps_of(model: LanguageModel, sent: object) -> tuple[Step, ...]:
    """Parse the steps that a page sent, [{"warp", "values", "text", "rule", "off"}], and leave out those switched off.

    For a warp that takes tokens, `text` holds one line `word: number` per word; for one that takes phrases, one per
    line. For one that takes a rule, `rule` is {"kind", "text"}. None stands for DEFAULT. Raises InputError if the list
    is malformed or a value is out of bounds.
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
    if WARPS[warp].takes_rule:
        return Step(warp, tuple(numbers), rule=rules.read_rule(model, sent.get("rule")))
    text = text if isinstance(text, str) else TEXTS.get(warp, "")
    if WARPS[warp].takes_tokens:
        return Step(warp, tuple(numbers), _tokens(model, text), text=text[:_MOST_TEXT])
    if not WARPS[warp].takes_phrases:
        return Step(warp, tuple(numbers))
    text = _plain(text)
    return Step(warp, tuple(numbers), phrases=_READERS[WARPS[warp].takes_phrases](model.tokenizer, text), text=text)


def _plain(text: str) -> str:
    """Replace the page's symbols for white space by a space, and by \\n and \\t, one line for each."""
    lines = [line for line in text[:_MOST_TEXT].splitlines() if line]
    if len(lines) > MOST_TOKENS:
        raise InputError("There are too many tokens.", str(len(lines)), say("At most {} tokens.", MOST_TOKENS))
    return "\n".join(lines).replace("·", " ").replace("↵", "\\n").replace("⇥", "\\t")


def _tokens(model: LanguageModel, text: str) -> tuple[tuple[int, float], ...]:
    """Parse lines `word: number` into pairs (token id, number), one for each token of the word.

    Raises InputError if a line is malformed or there are too many.
    """
    lines = [line for line in text[:_MOST_TEXT].splitlines() if line.strip()]
    if len(lines) > MOST_TOKENS:
        raise InputError("There are too many tokens.", str(len(lines)), say("At most {} tokens.", MOST_TOKENS))
    pairs = []
    for line in lines:
        name, _, number = line.rpartition(":")
        try:
            value = float(number)
        except ValueError:
            value = float("nan")
        ids = ids_of(model, name) if name else []
        if not ids or value != value:
            raise InputError("This line is not a word and a number.", line[:40], "Write a word, a colon, a number.")
        pairs += [(token, value) for token in ids]
    return tuple(pairs)


def steps_code(steps: tuple[Step, ...]) -> str:
    """Format the steps as one line of Python, with every number at full precision."""
    parts = []
    for step in steps:
        values = ", ".join(f'("{name}", {_number(value)})' for name, value in step.values)
        tokens = f", {_pairs(step.tokens)}" if step.tokens else ""
        phrases = f", phrases={_phrases_code(step)}" if step.phrases else ""
        rule = "" if step.rule is None else f", rule=lm.rule({step.rule.kind!r}, {step.rule.text!r})"
        parts.append(f'Step("{step.warp}", ({values}{"," if step.values else ""}){tokens}{phrases}{rule})')
    return f"({', '.join(parts)}{',' if parts else ''})"


def _pairs(tokens: tuple[tuple[int, float], ...]) -> str:
    return f"({', '.join(f'({token}, {_number(number)})' for token, number in tokens)},)"


def _phrases_code(step: Step) -> str:
    return f"{WARPS[step.warp].takes_phrases}(lm.tokenizer, {step.text!r})" if step.text else repr(step.phrases)


def step_imports(steps: Sequence[Step]) -> tuple[str, ...]:
    """Return the imports that the code of the steps needs besides `Step`."""
    names = sorted({WARPS[step.warp].takes_phrases for step in steps if step.phrases and step.text})
    return (f"from model.sampling.phrases import {', '.join(names)}",) if names else ()


def _number(value: float) -> str:
    return repr(float(value)).removesuffix(".0")


# --- the editor, which several views share ---

IMPORTS = (
    "from model.generation.next_token import context_at, logits_after",
    "from model.sampling.pipeline import Step",
)


@dataclass(frozen=True)
class Pipeline:
    """The steps of the editor, or the reason why they were rejected."""

    steps: tuple[Step, ...] = ()
    refusal: tuple[str, str, str] | None = None  # message, rejected value, hint

    def check(self) -> None:
        """Raise InputError if the steps were rejected."""
        if self.refusal:
            raise InputError(*self.refusal)


def read(sent: object, scene: Scene) -> tuple[Step, ...]:
    """Parse the steps in the part's value. Raises InputError if they are malformed or out of bounds."""
    return steps_of(scene.model, sent.get("steps") if isinstance(sent, Mapping) else None)


def read_pipeline(sent: object, scene: Scene) -> Pipeline:
    """Parse the steps that a page sent. An error is stored in `refusal`; `Pipeline.check` raises it later."""
    try:
        return Pipeline(steps_of(scene.model, sent.get("steps") if isinstance(sent, Mapping) else None))
    except InputError as error:
        return Pipeline(refusal=(error.what, error.got, error.hint))


def editor(seen: Seen) -> Payload:
    """Build the payload of the editor, with the tools of static/views/sampling/tool_settings.js."""
    tools = [{"key": key, "label": tool.label, "example": tool.example} for key, tool in TOOLS.items()]
    other = {"tools": tools, "most": MOST_TEXT, "words": section(seen.all_words, "tool_settings")}
    return spec(seen.all_words) | {"other": other}


PIPELINE = Asking("pipeline", read, editor, shared=True)
PIPELINE_OR_REFUSAL = replace(PIPELINE, read=read_pipeline)  # for views that use the steps in a job


def logits_of(scene: Scene) -> Tensor:
    """Return the run's logits at the selected position, over the tokenizer's vocabulary. float32 [V]"""
    if scene.masks:
        return usable(torch.from_numpy(scene.logits()), scene.model.tokenizer.vocab_size)
    return logits_after(scene.trace, scene.position, scene.model.tokenizer.vocab_size)


def context_of(scene: Scene) -> Context:
    """Return the context that the warps read: the prompt up to the selected position, or all of it with its mask."""
    if scene.masks:
        ids = scene.tokens.ids.copy()
        ids[scene.position] = scene.model.tokenizer.mask_id
        return Context(tuple(ids.tolist()), len(ids), chance=second(0, 0))
    return context_at(scene.trace, scene.position)


def by_chance(steps: Sequence[Step]) -> bool:
    """Return whether a step acts by chance: neither always nor never."""
    return any(0 < each < 1 for each in probabilities_of(tuple(steps)))


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
        *_logits_lines(facts),
        f"steps = {steps_code(seen.settings.pipeline)}",
        *last,
    ]
    return script(facts, lines, (*IMPORTS, *step_imports(seen.settings.pipeline), *imports))


def _logits_lines(facts: Facts) -> tuple[str, ...]:
    """Return the lines that compute `logits` and `context` at the position `at`."""
    if not facts.config.two_way:
        return ("logits, context = logits_after(run, at, lm.tokenizer.vocab_size), context_at(run, at)",)
    return (
        "ids = run.tokens.ids.copy()",
        "ids[at] = lm.tokenizer.mask_id",
        f"masked = lm.trace(ids){'.edit(*run.key.edits)' if facts.edits else ''}",
        "logits, context = logits_after(masked, at, lm.tokenizer.vocab_size), context_at(masked, -1)",
    )
