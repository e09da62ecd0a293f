"""The two forms in which `show` and `figure` take a model and a prompt."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from model.api import load_model
from model.errors import InputError, PlaygroundError
from viz import inline

PROMPT = "The cat sat on the mat"


def shape(*arguments, **named):
    return inline.figure("map_plot", *arguments, heads=[(0, 0)], **named).data[0].z.shape


def test_a_prompt_and_a_model_by_name():
    assert shape(PROMPT) == shape(PROMPT, model="tinygpt") == shape(prompt=PROMPT) == (6, 6)
    assert shape(PROMPT, model=load_model("tinygpt")) == (6, 6)


@pytest.mark.parametrize(
    ("arguments", "named", "said"),
    [
        ((), {}, "The prompt is missing."),
        ((None, None, None), {"model": "tinygpt"}, "The prompt is missing."),
        ((PROMPT, None, PROMPT), {}, "The prompt is missing."),
        ((PROMPT, PROMPT), {}, "These arguments have another order."),
        ((3,), {}, "This is not a transformers model."),
        ((3, object(), PROMPT), {"model": "tinygpt"}, "The model is given twice."),
        ((3, PROMPT), {}, "The tokenizer of the model is missing."),
    ],
)
def test_other_arguments_are_refused_with_both_forms(arguments, named, said):
    for call in (lambda: shape(*arguments, **named), lambda: inline.show(*arguments, **named)):
        with pytest.raises(PlaygroundError) as error:
            call()
        assert error.value.what == said and error.value.hint
    assert inline._served == []


def test_a_model_of_transformers():
    pytest.importorskip("transformers")
    from tests.support.models import hooked

    model, words = hooked.build("persimmon"), hooked.tokenizer()
    assert shape(model, words, PROMPT) == (6, 6)
    for arguments, said in [
        ((words, model, PROMPT), "The model and the tokenizer are swapped."),
        ((model, words), "The prompt is missing."),
        ((model, PROMPT), "The tokenizer of the model is missing."),
        ((model, words, ""), "The prompt is empty."),
    ]:
        with pytest.raises(InputError) as error:
            shape(*arguments)
        assert error.value.what == said
    with pytest.raises(InputError, match="The tokenizer of the model is missing"):
        shape(PROMPT, model=model)
    with pytest.raises(InputError, match="This needs a model's weights"):
        inline.figure("sizes_map", model, words, PROMPT)


def test_two_threads_that_show_at_once_start_one_server(monkeypatch):
    started = []

    class Slow:
        def __init__(self):
            started.append(self)
            time.sleep(0.1)

    monkeypatch.setattr(inline, "_Served", Slow)
    monkeypatch.setattr(inline, "_served", [])
    with ThreadPoolExecutor(3) as threads:
        served = {each.result() for each in [threads.submit(inline._server) for _ in range(3)]}
    assert len(started) == len(served) == 1
