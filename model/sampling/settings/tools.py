"""The tools whose settings can be read and written, and which of them a text belongs to."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from model.errors import InputError, say
from model.public import public
from model.sampling.phrases import banned, breakers, ids_in
from model.sampling.pipeline import Step, checked
from model.sampling.rules.matching import compiled
from model.sampling.rules.rule import rule_of
from model.sampling.settings import generation_config, llama_cpp, ollama, openai, webui
from model.sampling.settings.parsing import command, json_object, limited, lines, merged, modelfile, python_call
from model.sampling.settings.reading import plain_name
from model.sampling.settings.records import Exported, Imported
from model.sampling.warps import WARPS
from model.text.tokenizer import Tokenizer

_READERS = {"banned": banned, "breakers": breakers}


@dataclass(frozen=True)
class Tool:
    """A tool, how its settings are read and written, and an example of them."""

    label: str
    read: Callable[[str], Imported]
    write: Callable[[Sequence[Step]], Exported]
    example: str
    marks: frozenset[str]  # names that only this tool, or hardly any other, has


def _words(names: str) -> frozenset[str]:
    """Split names separated by spaces."""
    return frozenset(names.split())


TOOLS: Mapping[str, Tool] = {
    "llama_cpp": Tool(
        "llama.cpp",
        llama_cpp.read,
        llama_cpp.write,
        "llama-cli -m model.gguf --temp 0.7 --min-p 0.1",
        _words(
            "samplers sampler_seq dynatemp_range dynatemp_exp repeat_last_n repeat_penalty n_predict typ_p"
            " xtc_probability dry_penalty_last_n mirostat_lr mirostat_ent cache_prompt n_probs dry_multiplier"
            " top_nsigma"
        ),
    ),
    "ollama": Tool(
        "Ollama",
        ollama.read,
        ollama.write,
        "PARAMETER temperature 0.7\nPARAMETER repeat_penalty 1.1",
        _words(
            "num_ctx num_predict num_gpu num_thread num_keep num_batch repeat_last_n repeat_penalty keep_alive tfs_z"
        ),
    ),
    "webui": Tool(
        "text-generation-webui",
        webui.read_webui,
        webui.write_webui,
        "temperature: 0.7\nrepetition_penalty_range: 1024",
        _words(
            "sampler_priority repetition_penalty_range dynamic_temperature dynatemp_low dynatemp_high"
            " temperature_last smoothing_factor smoothing_curve top_a tfs mirostat_mode"
            " encoder_repetition_penalty auto_max_new_tokens custom_token_bans dry_multiplier xtc_probability"
            " truncation_length"
        ),
    ),
    "sillytavern": Tool(
        "SillyTavern",
        webui.read_sillytavern,
        webui.write_sillytavern,
        '{"temp": 0.7, "rep_pen": 1.1, "rep_pen_range": 0}',
        _words(
            "temp rep_pen rep_pen_range rep_pen_slope rep_pen_decay freq_pen presence_pen encoder_rep_pen"
            " dynatemp min_temp max_temp nsigma sampler_order samplers_priorities banned_tokens genamt"
            " temperature_last sampler_priority smoothing_factor top_a tfs mirostat_mode"
        ),
    ),
    "vllm": Tool(
        "vLLM",
        openai.read_vllm,
        openai.write_vllm,
        "SamplingParams(temperature=0.7, top_p=0.9, min_p=0.05)",
        _words(
            "extra_body bad_words ignore_eos stop_token_ids include_stop_str_in_output guided_json"
            " guided_regex min_tokens skip_special_tokens prompt_logprobs structured_outputs allowed_token_ids"
        ),
    ),
    "openai": Tool(
        "OpenAI",
        openai.read_openai,
        openai.write_openai,
        '{"model": "…", "temperature": 0.7, "presence_penalty": 0.5}',
        _words(
            "max_completion_tokens response_format parallel_tool_calls tool_choice store service_tier"
            " top_logprobs messages reasoning_effort max_output_tokens"
        ),
    ),
    "transformers": Tool(
        "transformers",
        generation_config.read,
        generation_config.write,
        '{"do_sample": true, "temperature": 0.7, "top_p": 0.9}',
        _words(
            "transformers_version _from_model_config do_sample pad_token_id eos_token_id bos_token_id"
            " max_new_tokens bad_words_ids sequence_bias num_return_sequences"
        ),
    ),
}
# Functions and classes whose arguments belong to a tool.
_CALLED = {"SamplingParams": "vllm", "GenerationConfig": "transformers", "generate": "transformers", "create": "openai"}
# Names that a request to vLLM may have and one to OpenAI may not.
_NOT_OPENAI = frozenset({"top_k", "min_p", "repetition_penalty"})
_REQUEST = frozenset({"messages", "frequency_penalty", "presence_penalty", "logit_bias", "max_tokens"})


@public()
def recognize(text: str) -> str:
    """Return the key of the tool that a text of settings belongs to. Raises InputError if that is not clear."""
    text = limited(text)
    given = json_object(text)
    if given is None and (other := _by_form(text)):
        return other
    names = set(map(plain_name, lines(text) if given is None else merged(given, "options", "extra_body")))
    if given is not None and isinstance(given.get("options"), Mapping):
        return "ollama"
    if given is not None and "extra_body" in given:
        return "vllm"
    return _by_names(names)


def _by_form(text: str) -> str:
    """Return the tool whose notation a text has: a Modelfile, a call in Python, a command; "" for neither."""
    if any(word == "PARAMETER" for word, _, _ in modelfile(text)):
        return "ollama"
    if re.search(r"(?:^|\s)--[a-z]", text) or re.match(r"\S*llama[-\w.]*(?:\.exe)?\s+-", text):
        return "llama_cpp" if command(text) else ""
    call = python_call(text)
    if call is None:
        return ""
    return _CALLED.get(call[0]) or _by_names(set(map(plain_name, call[1])))


def _by_names(names: Collection[str]) -> str:
    counts = {key: len(tool.marks.intersection(names)) for key, tool in TOOLS.items()}
    most = max(counts.values())
    best = [key for key, count in counts.items() if count == most]
    if best == ["webui", "sillytavern"]:  # SillyTavern has all of these names from text-generation-webui
        best = ["webui"]
    if most and len(best) == 1:
        found = best[0]
        return "vllm" if found == "openai" and _NOT_OPENAI.intersection(names) else found
    if not most and _REQUEST.intersection(names):
        return "vllm" if _NOT_OPENAI.intersection(names) else "openai"
    labels = ", ".join(TOOLS[key].label for key in best) if most else ""
    raise InputError("The tool of these settings is not clear.", labels, "Choose it from the list.")


@public()
def read_settings(text: str, tool: str = "", tokenizer: Tokenizer | None = None) -> Imported:
    """Read another tool's settings as steps in that tool's order. Without `tool`, it is recognized.

    The steps of words (DRY's breakers, banned words) need the model's tokenizer to act; without one they only have
    their text. A grammar or a JSON schema becomes the step "fits" with a tokenizer, and stays a `rule` without. Raises
    InputError for a text that cannot be read, and for a value that is not a number.
    """
    text = limited(text)
    found = _known(tool or recognize(text)).read(text)
    if tokenizer is None:
        return found
    fitting, notes = [], list(found.notes)
    if found.rule is not None:
        try:
            fitting.append(Step("fits", rule=compiled(rule_of(tokenizer, *found.rule))))
        except InputError:
            notes.append(say("The rule for the text cannot be read here; it is left out."))
    for step in found.steps:
        takes, size, text = WARPS[step.warp].takes_phrases, tokenizer.vocab_size, step.text
        given = (*step.tokens, *_biases_of(tokenizer, text)) if WARPS[step.warp].takes_tokens else step.tokens
        inside = tuple((token, bias) for token, bias in given if token < size)
        if takes == "banned":
            text = "\n".join(line for line in text.split("\n") if max(ids_in(line), default=0) < size)
        if len(inside) < len(given) or text != step.text:
            notes.append(say("Token ids beyond this vocabulary are left out."))
        if (given and not inside) or (step.text and not text):
            continue
        phrases = _READERS[takes](tokenizer, text) if takes else ()
        fitting.append(replace(step, tokens=inside, phrases=phrases, text=text if takes else ""))
    return replace(found, steps=checked(tuple(fitting), WARPS, tokenizer.vocab_size), notes=tuple(notes))


def _biases_of(tokenizer: Tokenizer, text: str) -> list[tuple[int, float]]:
    """Read lines `word: number` of a logit bias; every token of a word gets the number."""
    pairs = (line.rpartition(":") for line in text.split("\n") if line)
    return [(token, float(bias)) for word, _, bias in pairs for token in tokenizer.encode_ids(word)]


@public()
def write_settings(steps: Sequence[Step], tool: str) -> Exported:
    """Write steps in a tool's form, with notes about what cannot be said there."""
    return _known(tool).write(steps)


def _known(tool: str) -> Tool:
    if tool not in TOOLS:
        raise InputError("This tool is unknown.", tool[:40], say("Choose one of: {}.", ", ".join(TOOLS)))
    return TOOLS[tool]
