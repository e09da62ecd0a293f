"""Endpoints as typed functions of a run, a model or the server.

A function's docstring is the documentation on the API page and for language models: a summary, then "Args:" with every
argument of its own, then "Returns:". Arguments shared by all endpoints are documented here once.
"""

import inspect
import textwrap
import time
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from model.api import LanguageModel
from model.errors import InputError, PlaygroundError, say
from model.gpt.edit_checks import edit_of
from model.gpt.edits import EDITS
from model.sampling.pipeline import Parameter
from model.sampling.warps import WARPS
from viz.api.json import count, plain
from viz.seam.programs.arguments import Prompt as Text
from viz.seam.programs.arguments import Within, checked, rule
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import model_of
from viz.seam.scene import Scene, run_id
from viz.seam.selection import MOST_EDITS, Selection
from viz.words import words
from viz.work.playground import Playground
from viz.work.prompt import Prompt, conversation

MOST_NUMBERS = 1_200_000  # maximum number of values per answer: a full attention map of 1,024 tokens
MOST_WAITING = 60.0  # seconds that long-running work waits in the queue
SHARED = {
    "prompt": "The text that the model reads.",
    "messages": "A conversation in place of the prompt, for a model with a chat template: each "
    '{"role": "system", "user" or "assistant", "content": text}. The model is to answer, unless the assistant has the '
    'last word; with "prefix": true in that last message it goes on with it. '
    "None by default: the prompt as it stands.",
    "model": "Id of the model as the endpoint models lists it. Empty: the model that the server started with.",
    "edits": 'Changes of the run, each {"kind", "layer", "head"} and, for "scale", "factor"; or {"kind": "block_edge", '
    '"query", "key"} for one cell of all heads. Kinds and what they need: '
    + "; ".join(f"{key} {', '.join(kind.needs)}" for key, kind in EDITS.items())
    + f". At most {MOST_EDITS}; none by default.",
}


def _range(parameter: Parameter) -> str:
    """Format a warp parameter's name with its bounds."""
    return f"{parameter.name} ({parameter.low:g} to {parameter.high:g})"


COMMON = {  # descriptions of arguments shared by several endpoints; a docstring may override them
    "layer": "Layer, counted from 0.",
    "head": "Head of the layer, counted from 0.",
    "position": "The token after which one looks, counted from 0; negative numbers count from the end.",
    "most": "At most so many rows.",
    "seed": "Of the random numbers: the same seed gives the same answer.",
    "token": "The token that is watched, as its text, with its space in front (' Paris'), or as 'id:1234'. Empty: the "
    "likeliest next one.",
    "steps": 'The pipeline that reshapes the distribution, in this order, each {"warp", "values": {number: value}}; '
    'for logit_bias {"warp", "text"} with a line "word: number" for each word; for banned_words a word or phrase per '
    "line, for dry a breaker per line (by default a line break, a colon, a quotation mark and an asterisk). Not given: "
    "temperature 0.8, top_k 40, top_p 0.9; []: none. Warps with their numbers: "
    + "; ".join(f"{key} {', '.join(map(_range, warp.parameters))}".strip() for key, warp in WARPS.items())
    + ". Off: top_k 0, top_p 1, min_p 0, top_a 0, epsilon 0, eta 0, no_repeat_ngram 0, a multiplier, factor or "
    "xtc_probability of 0. One token: temperature 0, top_p 0. A repetition_penalty below 1 and negative presence and "
    "frequency penalties reward repeats. A window of n: the last n tokens; 0: no limit.",
}
_OWN = {"run": ("prompt",), "plain run": ("prompt",), "model": (), "server": ()}
_SHARED = {"run": ("model", "edits", "messages"), "plain run": ("model", "messages"), "model": ("model",), "server": ()}
_HINTS = {"prompt": Text, "model": str, "edits": list[dict], "messages": list[dict]}


@dataclass(frozen=True)
class Argument:
    """An argument as a caller sees it."""

    name: str
    hint: object
    default: object  # inspect.Parameter.empty if the argument is required
    description: str


def arguments(endpoint: Endpoint) -> list[Argument]:
    """List all arguments in the order of a call: the prompt, the endpoint's own, and the shared ones."""
    hints = typing.get_type_hints(endpoint.function, include_extras=True)
    _, texts, _ = parse_docstring(endpoint.function)
    empty = inspect.Parameter.empty
    listed = [Argument(name, _HINTS[name], empty, SHARED[name]) for name in _OWN[endpoint.reads]]
    parameters = list(inspect.signature(endpoint.function).parameters.values())[2 if endpoint.reads == "model" else 1 :]
    for each in parameters:
        default = list(each.default) if isinstance(each.default, tuple) else each.default
        text = _ranged(texts.get(each.name) or COMMON[each.name], hints[each.name], default)
        listed.append(Argument(each.name, hints[each.name], default, text))
    shared = {"model": "", "edits": [], "messages": []}
    listed += [Argument(name, _HINTS[name], shared[name], SHARED[name]) for name in _SHARED[endpoint.reads]]
    return sorted(listed, key=lambda each: each.default is not empty)  # stable sort: required arguments come first


def _ranged(text: str, hint: object, default: object) -> str:
    """Format an argument's description with its range and its default."""
    within = rule(hint)
    notes = [f"{within.low:g} to {within.high:g}"] if isinstance(within, Within) else []
    if isinstance(default, int | float | str) and default != "":
        notes.append(f"default {str(default).lower() if isinstance(default, bool) else default}")
    return f"{text} ({'; '.join(notes)})" if notes else text


def parse_docstring(function: Callable) -> tuple[str, dict[str, str], str]:
    """Split a docstring into (summary, {argument: description}, return value), each on one line."""
    text, _, back = inspect.getdoc(function).partition("Returns:")
    about, _, listed = text.partition("Args:")
    texts: dict[str, str] = {}
    for line in textwrap.dedent(listed.strip("\n")).splitlines():
        if line.startswith(" ") and texts:
            texts[next(reversed(texts))] += f" {line.strip()}"
        elif line:
            name, _, text_after = line.partition(":")
            texts[name] = text_after.strip()
    return " ".join(about.split()), texts, " ".join(back.split())


def document(endpoint: Endpoint) -> str:
    """Build the docstring that Gradio reads: one line per argument."""
    about, _, back = parse_docstring(endpoint.function)
    lines = [f"    {each.name}: {each.description}" for each in arguments(endpoint)]
    return "\n".join([about, "", *(["Args:", *lines, ""] if lines else []), "Returns:", f"    {back}"])


# --- calling ---------------------------------------------------------------------------------------------


def call(playground: Playground, endpoint: Endpoint, sent: dict[str, object], owner: str = "") -> dict:
    """Validate arguments and return the endpoint's answer as JSON types; raises PlaygroundError.

    Long-running work waits in the same queue as the page's; `owner` is the visitor to which it is attributed.
    """
    values = checked_arguments(endpoint, sent)
    if not endpoint.long:
        return answer(playground, endpoint, values)
    ticket = playground.queue.join(owner)
    try:
        if ticket.wait(MOST_WAITING):
            raise PlaygroundError("The server is busy with others' work.", "", "Try again in a moment.")
        return answer(playground, endpoint, values)
    finally:
        ticket.leave()


def checked_arguments(endpoint: Endpoint, sent: dict[str, object]) -> dict[str, object]:
    """Return every declared argument with its value or default. Raises InputError for invalid arguments."""
    declared = arguments(endpoint)
    if unknown := [name for name in sent if name not in {each.name for each in declared}]:
        raise InputError("No argument has this name.", unknown[0][:40], "Leave it out.")
    values = {}
    for each in declared:
        if each.name not in sent and each.default is inspect.Parameter.empty:
            raise InputError("An argument is missing.", each.name, "Give this argument.")
        values[each.name] = checked(each.name, sent.get(each.name, each.default), each.hint)
    return values


def answer(playground: Playground, endpoint: Endpoint, values: dict[str, object]) -> dict:
    """Compute the answer to validated arguments as JSON types; raises PlaygroundError."""
    began = time.perf_counter()
    parameters = {name: value for name, value in values.items() if name not in _HINTS}
    about: dict[str, object] = {"model": None, "dtype": None, "tokens": None}
    if endpoint.reads == "server":
        result = endpoint.function(playground, **parameters)
    else:
        model = model_of(playground, values["model"])
        about |= {"model": model.id, "dtype": model.dtype}
        if endpoint.reads == "model":
            result = endpoint.function(playground, model, **parameters)
        else:
            scene = scene_of(playground, model, prompt_from(values), values.get("edits", []))
            about["tokens"] = len(scene.trace.tokens)
            result = endpoint.function(scene, **parameters)
    if (size := count(result)) > MOST_NUMBERS:
        hint = say("Request at most {} numbers: fewer rows, or a shorter prompt.", MOST_NUMBERS)
        raise InputError("The answer would be too large.", f"{size} numbers", hint)
    about |= {"seconds": time.perf_counter() - began, "kind": endpoint.kind}
    return plain({"about": about} | result)


def prompt_from(values: Mapping[str, Any]) -> Prompt:
    """Build the prompt or the conversation. Raises InputError for malformed messages."""
    return conversation(values["messages"]) if values.get("messages") else Prompt(values["prompt"])


def scene_of(playground: Playground, model: LanguageModel, prompt: Prompt, edits: list[dict]) -> Scene:
    """Run a prompt with edits and return the scene on which views operate; raises PlaygroundError."""
    tokens = playground.tokens(model, prompt)
    if len(edits) > MOST_EDITS:
        raise InputError("There are too many edits.", str(len(edits)), say("At most {}.", MOST_EDITS))
    checked_edits = tuple(dict.fromkeys(edit_of(each, model.config, len(tokens)) for each in edits))
    trace = playground.trace_tokens(model, tokens, checked_edits)
    picked = Selection(heads=((0, 0),), edits=checked_edits)
    return Scene(playground, model, prompt, trace, run_id(trace.key, "en"), words("en"), "en", picked)


# --- describing ---------------------------------------------------------------------------------------------


def table(endpoints: tuple[Endpoint, ...]) -> str:
    """Build a Markdown table of all endpoints: name with arguments, and summary."""
    rows = ["| Endpoint | Arguments | Gives |", "| --- | --- | --- |"]
    for each in endpoints:
        names = [f"`{a.name}`" if a.default is inspect.Parameter.empty else a.name for a in arguments(each)]
        rows.append(f"| `{each.name}` | {', '.join(names)} | {_first(each)} |")
    return "\n".join(rows)


def _first(endpoint: Endpoint) -> str:
    """Return the first sentence of an endpoint's summary."""
    return parse_docstring(endpoint.function)[0].split(". ")[0].rstrip(".") + "."
