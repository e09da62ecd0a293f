"""Ollama's Modelfiles and requests, worked by hand from its reference."""

from model.sampling.settings.tools import read_settings, write_settings
from model.sampling.warps import values_of

MODELFILE = '''
# a comment
FROM llama3.2
PARAMETER temperature 1
PARAMETER num_ctx 4096
parameter min_p 0.1
PARAMETER repeat_penalty 1.2
PARAMETER stop "<|eot_id|>"
SYSTEM """You are Mario.
PARAMETER top_k 1
"""
'''


def test_a_modelfile_with_the_order_of_llama_cpp():
    found = read_settings(MODELFILE)
    assert found.tool == "ollama"
    assert [(step.warp, values_of(step)) for step in found.steps] == [
        ("repetition_penalty", {"penalty": 1.2, "window": 64}),
        ("top_k", {"k": 40}),  # its own: the line inside the system message is text
        ("top_p", {"p": 0.9}),
        ("min_p", {"min_p": 0.1}),
    ]
    assert "Not written, so Ollama uses its own: top_k 40, top_p 0.9." in found.notes
    assert found.unused == ("FROM", "num_ctx", "SYSTEM")


def test_the_temperature_comes_last_as_in_the_server_that_it_starts():
    found = read_settings("PARAMETER temperature 0.7")
    assert [step.warp for step in found.steps] == ["top_k", "top_p", "temperature"]
    assert "Ollama before 0.30, and for MLX, applies the temperature after top_k." in found.notes
    assert any("older versions" in note.lower() and "1.1" in note for note in found.notes)


def test_what_is_set_in_a_chat():
    found = read_settings("/set parameter temperature 0.3\n/set parameter top_k 0")
    assert found.tool == "ollama" and [step.warp for step in found.steps] == ["top_p", "temperature"]


def test_the_options_of_a_request():
    found = read_settings('{"model": "m", "options": {"temperature": 0, "top_k": -1, "top_p": 1, "seed": 3}}')
    assert found.tool == "ollama" and found.unused == ("model",)
    assert [(step.warp, values_of(step)) for step in found.steps] == [("temperature", {"temperature": 0})]
    assert "Set in Side by side, not as steps: seed." in found.notes


def test_the_way_back_turns_off_what_is_on():
    assert write_settings((), "ollama").text == "PARAMETER temperature 1\nPARAMETER top_k 0\nPARAMETER top_p 1"
