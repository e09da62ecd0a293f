"""Settings of other tools: read into the steps of the pipeline editor, and written from them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from model.api import LanguageModel
from model.errors import InputError, say
from model.sampling.phrases import banned
from model.sampling.pipeline import Step
from model.sampling.settings.records import Imported
from model.sampling.settings.tools import TOOLS, read_settings, write_settings
from viz.labels import visible
from viz.seam.programs.arguments import OneOf, Prompt
from viz.seam.programs.endpoint import Endpoint
from viz.seam.typed import ids_of
from viz.seam.view import Event, Payload, Stream, Visit
from viz.views.sampling.pipelines import MOST_TOKENS, steps_of, value_of
from viz.words import translate
from viz.work.playground import Playground

_TAG = 40  # maximum number of characters of a request's tag


def imported(model: LanguageModel, text: str, tool: str) -> Imported:
    """Read settings, with the logit bias as words that the editor shows; tokens that cannot be typed are left out."""
    found = read_settings(text, tool, model.tokenizer)
    steps, notes = [], list(found.notes)
    for step in found.steps:
        lines = step.text.split("\n")
        if step.warp == "banned_words" and len(lines) > MOST_TOKENS:
            text = "\n".join(lines[:MOST_TOKENS])
            step = replace(step, text=text, phrases=banned(model.tokenizer, text))
            notes.append(say("Of the banned words, {} are too many for the editor.", len(lines) - MOST_TOKENS))
        typed = _typed(model, step) if step.tokens else step
        if len(typed.tokens) < len(step.tokens):
            notes.append(
                say("Of the biased tokens, {} cannot be shown as lines here.", len(step.tokens) - len(typed.tokens))
            )
        if typed.tokens or not step.tokens:
            steps.append(typed)
    return replace(found, steps=tuple(steps), notes=tuple(notes))


def page_steps(steps: Sequence[Step]) -> list[dict]:
    """Convert steps to the page's form; a step without words stays without the usual ones."""
    values = value_of(tuple(steps))
    return [
        value | ({"text": ""} if "text" in value and not step.text else {})
        for step, value in zip(steps, values, strict=True)
    ]


def _typed(model: LanguageModel, step: Step) -> Step:
    """Write each biased token as a line `word: number` that is read as the same token."""
    pairs = [(token, bias, visible(model.tokenizer.piece(token))) for token, bias in step.tokens]
    kept = [(token, bias, word) for token, bias, word in pairs if ids_of(model, word) == [token]][:MOST_TOKENS]
    text = "\n".join(f"{word}: {bias:g}" for _, bias, word in kept)
    return replace(step, tokens=tuple((token, bias) for token, bias, _ in kept), text=text)


# --- events of the page ---


def _asked(sent: object) -> tuple[Mapping, str, str]:
    """Return what a page sent, its tag, and the tool; "" lets the text decide."""
    sent = sent if isinstance(sent, Mapping) else {}
    tag, tool = (sent[name][:_TAG] if isinstance(sent.get(name), str) else "" for name in ("tag", "tool"))
    return sent, tag, tool


def take(visit: Visit, sent: object) -> Iterator[Payload]:
    """Read a pasted text into steps. Yields {"tag", "label", "steps", "notes", "unused"}."""
    asked, tag, tool = _asked(sent)
    text = asked.get("text")
    if not isinstance(text, str):
        raise InputError("There are no settings in this text.", "", "Paste the settings of a tool.")
    found = imported(visit.playground.opened(visit.model_id), text, tool)
    yield {
        "tag": tag,
        "label": TOOLS[found.tool].label,
        "steps": page_steps(found.steps),
        "notes": _told(found.notes, visit.language),
        "unused": list(found.unused),
    }


def give(visit: Visit, sent: object) -> Iterator[Payload]:
    """Write the editor's steps in a tool's form. Yields {"tag", "text", "notes"}."""
    asked, tag, tool = _asked(sent)
    steps = steps_of(visit.playground.opened(visit.model_id), asked.get("steps"))
    written = write_settings(steps, tool)
    yield {"tag": tag, "text": written.text, "notes": _told(written.notes, visit.language)}


def _told(notes: Sequence[str], language: str) -> list[str]:
    return [translate(note, language) for note in notes]


FEED = Stream("tools", "feed", {"read": Event(take, trigger="multiple"), "write": Event(give, trigger="multiple")})


# --- for programs ---


def steps_of_settings(
    playground: Playground, model: LanguageModel, text: Prompt, tool: Annotated[str, OneOf(("", *TOOLS))] = ""
) -> dict:
    """Read another tool's sampling settings as the steps of `distribution`, in the order in which that tool runs them.

    Args:
        text: A command line of llama.cpp, an Ollama Modelfile, a preset of text-generation-webui or SillyTavern, a
            request to vLLM or OpenAI, a generation_config.json, or a call in Python (nothing of it is executed).
        tool: The tool; empty to recognize it.

    Returns:
        tool, steps, notes (what differs here) and unused (the names in the text that set no step).
    """
    return settings_record(imported(model, text, tool))


def settings_record(found: Imported) -> dict:
    """Convert what was read to a dict."""
    notes, unused = list(map(str, found.notes)), list(found.unused)
    return {"tool": found.tool, "steps": page_steps(found.steps), "notes": notes, "unused": unused}


def settings_of_steps(
    playground: Playground,
    model: LanguageModel,
    tool: Annotated[str, OneOf(tuple(TOOLS))],
    steps: list[dict] | None = None,
) -> dict:
    """Write a sampling pipeline in another tool's form, with notes about what cannot be said there.

    Args:
        tool: The tool.

    Returns:
        tool, text, and notes.
    """
    written = write_settings(steps_of(model, steps), tool)
    return {"tool": tool, "text": written.text, "notes": list(map(str, written.notes))}


API = (
    Endpoint(steps_of_settings, reads="model", kind="computed"),
    Endpoint(settings_of_steps, reads="model", kind="computed"),
)
