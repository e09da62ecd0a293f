"""vLLM and OpenAI: the parameters of a request, or of vLLM's SamplingParams.

Source: the OpenAI API reference; vllm/sampling_params.py and vllm/v1/sample/sampler.py (docstring of `Sampler`) of
vllm-project/vllm. vLLM masks what does not fit (`apply_grammar_bitmask` in v1/worker/gpu_model_runner.py), forbids
words, adds the logit bias, then runs repetition, frequency and presence penalty; then the temperature, min_p, top_k and
top_p. Nothing is on that is not written, but a server of vLLM reads the model's generation_config.json first. OpenAI
does not publish its order: vLLM's is used.
"""

import json
from collections.abc import Mapping, Sequence

from model.errors import say
from model.sampling.pipeline import Step
from model.sampling.settings.parsing import json_object, lines, merged, python_call
from model.sampling.settings.reading import Key, Reader, bias_pairs, word_lines
from model.sampling.settings.records import Exported, Imported
from model.sampling.settings.writing import Writer, biases
from model.sampling.warps import values_of

COMMON = (
    Key(("temperature",), "temperature", "temperature", 1),
    Key(("top_p",), "top_p", "p", 1),
    Key(("frequency_penalty",), "frequency_penalty", "frequency", 0),
    Key(("presence_penalty",), "presence_penalty", "presence", 0),
)
VLLM = (
    *COMMON,
    Key(("repetition_penalty",), "repetition_penalty", "penalty", 1),
    Key(("min_p",), "min_p", "min_p", 0),
    Key(("top_k",), "top_k", "k", 0),
)
ORDER = (
    "fits",
    "banned_words",
    "logit_bias",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
    "temperature",
    "min_p",
    "top_k",
    "top_p",
)
_OF_OPENAI = ("fits", "banned_words", "logit_bias", *(key.warp for key in COMMON))
_KINDS = {"json": "json", "regex": "regex", "choice": "choice", "grammar": "gbnf"}  # of structured_outputs
ELSEWHERE = ("seed", "stop", "max_tokens", "max_completion_tokens", "max_output_tokens", "n")
UNSUPPORTED: Mapping[str, tuple[object, ...]] = {
    "min_tokens": (0,),
    "allowed_token_ids": (),
    "use_beam_search": ("false",),
    "reasoning_effort": (),
}


def read_vllm(text: str) -> Imported:
    """Read the JSON of a request to a server of vLLM, or the arguments of SamplingParams."""
    return _read(Reader("vllm", "vLLM", _names(text)), VLLM)


def read_openai(text: str) -> Imported:
    """Read the JSON of a request to OpenAI, or the arguments of a call of its library."""
    reader = Reader("openai", "OpenAI", _names(text))
    reader.note(say("{} does not publish its order of steps: vLLM's is used.", reader.label))
    return _read(reader, COMMON)


def _names(text: str) -> Mapping[str, object]:
    given = json_object(text)
    if given is None:
        call = python_call(text)
        given = call[1] if call else lines(text)
    return merged(given, "extra_body")


def _read(reader: Reader, keys: Sequence[Key]) -> Imported:
    numbers = reader.numbers(keys)
    steps: list[Step] = []
    if reader.tool == "vllm" and (words := reader.take("bad_words")):
        steps += reader.banned(word_lines(words).split("\n"))
    if bias := reader.take("logit_bias"):
        steps.append(Step("logit_bias", tokens=bias_pairs(bias)))
        reader.note(say("The logit bias names tokens by id: check that the ids are this model's."))
    steps += reader.steps(ORDER[2:], numbers)
    if reader.tool == "vllm" and not {"temperature", "top_p", "top_k"} <= set(map(str, reader.given)):
        reader.note(say("A server of vLLM takes what is not written from the model's generation_config.json."))
    _read_rule(reader)
    reader.unsupported(UNSUPPORTED)
    reader.elsewhere(*ELSEWHERE)
    return reader.result(steps)


def _read_rule(reader: Reader) -> None:
    """Read a rule for the text: a JSON schema in response_format, or vLLM's structured outputs."""
    asked, structured = reader.take("response_format"), reader.take("structured_outputs")
    schema = asked.get("json_schema") if isinstance(asked, Mapping) else None
    if isinstance(schema, Mapping):
        reader.rule = ("json", json.dumps(schema.get("schema", schema)))
    elif isinstance(asked, Mapping) and asked.get("type") == "json_object":
        reader.rule = ("json", '{"type": "object"}')
    if reader.tool != "vllm":
        return
    reader.rules({f"guided_{name}": kind for name, kind in _KINDS.items()})
    for name, kind in _KINDS.items():
        value = structured.get(name) if isinstance(structured, Mapping) else None
        if value and reader.rule is None:
            text = "\n".join(map(str, value)) if isinstance(value, list) else value
            reader.rule = (kind, text if isinstance(text, str) else json.dumps(text))


def write_vllm(steps: Sequence[Step]) -> Exported:
    """Write the JSON of a request to a server of vLLM."""
    return _write(Writer("vllm", "vLLM"), steps, VLLM, ORDER)


def write_openai(steps: Sequence[Step]) -> Exported:
    """Write the JSON of a request to OpenAI."""
    return _write(Writer("openai", "OpenAI"), steps, COMMON, [warp for warp in ORDER if warp in _OF_OPENAI])


def _write(writer: Writer, steps: Sequence[Step], keys: Sequence[Key], order: Sequence[str]) -> Exported:
    kept = writer.kept(steps, order)
    writer.in_order(kept, order)
    written: dict[str, object] = dict(writer.numbers(kept, keys))
    for key in (COMMON[0], COMMON[1]):
        written.setdefault(key.names[0], 1)  # a server of vLLM would take the model's own
    if writer.tool == "vllm":
        written.setdefault("top_k", 0)
    if any(values_of(each).get("window") for each in kept):
        writer.note(
            say("{} has no window: it counts in the whole text, presence and frequency after the prompt.", writer.label)
        )
    here = writer.tool == "vllm"
    words = [word for each in kept if here and each.warp == "banned_words" for word in writer.words(each)]
    if words:
        written["bad_words"] = words
    kind, rule = writer.rule(kept, ("json",) if writer.tool == "openai" else ("json", "regex", "choice", "gbnf"))
    if kind and writer.tool == "openai":
        schema = {"name": "rule", "schema": json.loads(rule)}
        written["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif kind:
        value = {"json": json.loads, "choice": str.splitlines}.get(kind, str)(rule)
        written["structured_outputs"] = {{"gbnf": "grammar"}.get(kind, kind): value}
    bans = writer.banned_ids(kept, words=not here)
    if bans:
        writer.note(say("{} has no bans of ids: they are written as a bias of −100.", writer.label))
    if bans or biases(kept):
        written["logit_bias"] = {str(token): bias for token, bias in biases(kept)} | {str(id): -100 for id in bans}
        writer.note(say("The logit bias names tokens by this model's ids."))
    return writer.result(json.dumps(written, indent=2, ensure_ascii=False))
