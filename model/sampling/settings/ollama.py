"""Ollama: PARAMETER lines of a Modelfile, and the options of a request.

Source: docs/modelfile.mdx ("Valid Parameters and Values"), `DefaultOptions` in api/types.go and llm/llama_server.go of
ollama/ollama. On although not written: top_k 40, top_p 0.9 and a temperature of 0.8. Since 0.30 a server of llama.cpp
runs the model, and Ollama sends no order: llama.cpp's is used. Before, its own engine (sample/samplers.go) applied the
temperature after top_k, and so does its engine for MLX (x/mlxrunner/sample/sample.go).
"""

from collections.abc import Mapping, Sequence

from model.errors import say
from model.sampling.pipeline import Step
from model.sampling.settings import llama_cpp
from model.sampling.settings.parsing import Given, json_object, lines, merged, modelfile
from model.sampling.settings.reading import Key, Reader, Window
from model.sampling.settings.records import Exported, Imported
from model.sampling.settings.writing import Writer

LABEL = "Ollama"
KEYS = (
    Key(("temperature",), "temperature", "temperature", 0.8),
    Key(("top_k",), "top_k", "k", 40),
    Key(("top_p",), "top_p", "p", 0.9),
    Key(("min_p",), "min_p", "min_p", 0),
    Key(("typical_p",), "typical", "mass", 1),
    Key(("repeat_penalty",), "repetition_penalty", "penalty", 1),
    Key(("presence_penalty",), "presence_penalty", "presence", 0),
    Key(("frequency_penalty",), "frequency_penalty", "frequency", 0),
)
MIROSTAT = (Key(("mirostat_tau",), "mirostat", "tau", 5), Key(("mirostat_eta",), "mirostat", "rate", 0.1))
WINDOWS = (
    Window(("repeat_last_n",), ("repetition_penalty", "frequency_penalty", "presence_penalty"), 64, whole=-1, off=0),
)
ORDER = tuple(warp for warp in llama_cpp.ORDER if warp in {key.warp for key in KEYS})
ELSEWHERE = ("seed", "stop", "num_predict")
UNSUPPORTED: Mapping[str, tuple[object, ...]] = {"tfs_z": (1, 1.0), "penalize_newline": ("true",)}


def read(text: str) -> Imported:
    """Read a Modelfile, the JSON of a request, or its options."""
    given = json_object(text)
    reader = Reader("ollama", LABEL, _of_lines(text) if given is None else merged(given, "options"))
    numbers = reader.numbers(KEYS)
    reader.windows(numbers, WINDOWS)
    mirostat, order = reader.number(("mirostat",), 0), ORDER
    if mirostat:
        numbers |= reader.numbers(MIROSTAT)
        order = ("temperature", "mirostat")
        reader.note(say("Only older versions of {} have Mirostat; then only the temperature comes before it.", LABEL))
        if mirostat == 1:
            reader.note(say("Mirostat 1 is not here; version 2 with the same numbers is used."))
    for key in MIROSTAT:
        reader.take(*key.names)
    steps = reader.steps(order, numbers)
    if reader.take("repeat_penalty") is None:
        reader.note(say("Older versions of {} set a repeat_penalty of 1.1 where it is not written.", LABEL))
    if any(step.warp == "temperature" for step in steps) and len(steps) > 1 and not mirostat:
        reader.note(say("{} before 0.30, and for MLX, applies the temperature after top_k.", LABEL))
    reader.rules({"format": "json"})
    if reader.rule == ("json", "json"):  # any JSON object
        reader.rule = ("json", '{"type": "object"}')
    reader.unsupported(UNSUPPORTED)
    reader.elsewhere(*ELSEWHERE)
    return reader.result(steps)


def _of_lines(text: str) -> Given:
    """Return the parameters of a Modelfile by name, and its other instructions without a value."""
    found = modelfile(text)
    if not any(word == "PARAMETER" for word, _, _ in found):
        return lines(text)
    given: Given = {}
    for word, name, value in found:
        if word == "PARAMETER":
            given[name] = value
        elif word.isalpha():
            given[word] = None
    return given


def write(steps: Sequence[Step]) -> Exported:
    """Write PARAMETER lines of a Modelfile."""
    writer = Writer("ollama", LABEL)
    kept = writer.kept(steps, ORDER)
    writer.in_order(kept, ORDER)
    if any(step.warp == "typical" for step in kept):
        writer.note(say("Only models that {} runs through llama.cpp have typical_p.", LABEL))
    written = writer.numbers(kept, KEYS) | writer.windows(kept, WINDOWS)
    return writer.result("\n".join(f"PARAMETER {name} {value}" for name, value in written.items()))
