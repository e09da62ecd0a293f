"""Texts after many prompts in one batch against one text at a time, without a cache."""

import numpy as np
import pytest
import torch

from model.errors import InputError
from model.prompting import choices
from model.prompting.writing import WritingSettings, write

PROMPTS = ["abcabd", "abc", "abcaaaaaaab", "abcabd", "abx"]


def ids_of(lm, texts=PROMPTS):
    return [lm.encode(text).ids.tolist() for text in texts]


@torch.no_grad()
def alone(lm, prompt, writing, at):
    """The same text, token by token: the whole prompt is read anew for each."""
    ids, numbers = list(prompt), np.random.default_rng([writing.seed, at]).random(writing.new_tokens)
    for n in range(writing.new_tokens):
        logits = lm.model(torch.tensor([ids]))[0, -1].double()
        if writing.temperature:
            running = (logits / writing.temperature).softmax(-1).cumsum(-1)
            ids.append(int(torch.searchsorted(running, torch.tensor(numbers[n]), right=True)))
        else:
            ids.append(int(logits.argmax()))
        text = lm.decode(ids[len(prompt) :])
        if found := [text.find(stop) for stop in writing.stop if stop in text]:
            return text[: min(found)]
    return text


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.5])
@pytest.mark.parametrize("rows", [2, 32])
def test_each_text_is_the_one_that_it_would_be_alone(lm, temperature, rows, monkeypatch):
    monkeypatch.setattr(choices, "MOST_ROWS", rows)
    writing = WritingSettings(8, temperature=temperature, seed=3)
    found = write(lm, ids_of(lm), writing)
    assert found == [alone(lm, prompt, writing, at) for at, prompt in enumerate(ids_of(lm))]
    assert (found[0] == found[3]) == (temperature == 0)  # the same prompt: the same text unless chance decides


def test_a_text_ends_before_the_first_stop(lm):
    whole = write(lm, ids_of(lm), WritingSettings(8))
    stop = whole[0][2:4]
    found = write(lm, ids_of(lm), WritingSettings(8, (stop, "never there")))
    assert found[0] == whole[0][: whole[0].index(stop)] and stop not in "".join(found)


def test_progress_counts_texts_and_may_stop_the_work(lm):
    reports = []
    write(lm, ids_of(lm), WritingSettings(4), lambda *report: reports.append(report))
    assert reports[-1][:2] == (5, 5) and [done for done, *_ in reports] == sorted(done for done, *_ in reports)

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(lm, ids_of(lm), WritingSettings(4), stop)


def test_what_cannot_be_written_is_refused(lm):
    with pytest.raises(InputError, match="empty"):
        write(lm, [[]], WritingSettings(4))
    with pytest.raises(InputError, match="no room"):
        write(lm, [[1] * lm.config.n_ctx], WritingSettings(4))
    for wrong in ({"new_tokens": 0}, {"temperature": -1}, {"seed": -1}):
        with pytest.raises(InputError):
            WritingSettings(**wrong)
