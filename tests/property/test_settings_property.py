"""Any text is read as settings or refused with a sentence, and what is read is a pipeline that can run."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from model.errors import InputError
from model.sampling.pipeline import checked
from model.sampling.settings import generation_config, llama_cpp, ollama, openai, webui
from model.sampling.settings.tools import TOOLS, read_settings, write_settings
from model.sampling.warps import WARPS

SETTINGS = settings(max_examples=200, deadline=None, derandomize=True, database=None)
KEYS = (*llama_cpp.KEYS, *ollama.KEYS, *webui.KEYS, *openai.VLLM, *generation_config.KEYS)
NUMERIC = sorted({name for key in KEYS for name in key.names})
NAMES = [*NUMERIC, "do_sample", "logit_bias", "samplers", "mirostat_mode", "sampler_priority", "dry_sequence_breakers"]
NUMBERS = st.floats(-5, 5).map(lambda value: round(value, 3)) | st.integers(-3, 2000)
VALUES = st.recursive(
    NUMBERS | st.booleans() | st.none() | st.text(max_size=4),
    lambda inside: st.lists(inside, max_size=2) | st.dictionaries(st.text(max_size=3), inside, max_size=2),
    max_leaves=4,
)


def read(text: str, tool: str):
    """What is read, None if it is refused with a sentence."""
    try:
        found = read_settings(text, tool)
    except InputError as error:
        assert error.what and error.hint
        return None
    checked(found.steps, WARPS, 1 << 40)
    return found


@SETTINGS
@given(st.text(max_size=80) | st.text("-= \"'\\{}[]():,#|.\n01abTEMP", max_size=60), st.sampled_from(["", *TOOLS]))
def test_any_text_is_read_or_refused(text, tool):
    read(text, tool)


@SETTINGS
@given(
    st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=4), VALUES, max_size=6), st.sampled_from(sorted(TOOLS))
)
def test_any_values_of_known_names_are_read_or_refused(values, tool):
    read(json.dumps(values), tool)


@SETTINGS
@given(st.dictionaries(st.sampled_from(NUMERIC), NUMBERS, max_size=8), st.sampled_from(sorted(TOOLS)))
def test_what_was_read_comes_back_from_the_same_tool(values, tool):
    found = read(json.dumps({"do_sample": True} | values), tool)
    if found:
        written = write_settings(found.steps, tool)
        again = read(written.text, tool)
        assert written.notes or again.steps == found.steps
