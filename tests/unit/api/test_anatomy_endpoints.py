"""What programs are told of a model's parts, its parameters, and a prompt's numbers in one part."""

from pathlib import Path

import pytest

from model.anatomy.anatomy import n_params
from model.anatomy.blueprint import blueprint
from model.api import LanguageModel
from model.errors import InputError, PlaygroundError
from tests.support.models.helpers import VARIANTS, byte_tokenizer, serving, tiny_model
from tests.support.views.endpoints import ask
from viz.work.prompt import Prompt

PUBLISHED = Path(__file__).parents[2] / "data" / "configs"
PROMPT = "abcabd ab"
T = len(PROMPT)


@pytest.fixture(scope="module", params=list(VARIANTS))
def wired(request, tmp_path_factory):
    return playground_of(request.param, tmp_path_factory)


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return playground_of("llama", tmp_path_factory)


def playground_of(variant, folder):
    model = tiny_model({**VARIANTS[variant], "vocab_size": 256, "n_ctx": 300})
    return serving(LanguageModel("tiny", "Tiny", model, byte_tokenizer(folder.mktemp("bytes"))))


def test_anatomy_for_programs(wired):
    config = wired.opened("tiny").config
    found = ask(wired, "anatomy", tokens=T)
    assert found["total"] == found["counted"] == n_params(config) == sum(found["components"].values())
    assert [part["part"] for part in found["parts"]] == list(blueprint(config, T))
    assert sum(part["whole"] for part in found["parts"]) == found["total"] and found["published"] is None
    q = next(part for part in found["parts"] if part["part"] == "q")
    assert q["gives"] == [{"tensor": "q", "axes": {"H": config.n_head, "T": T, "E": config.d_head}}]
    known = ask(wired, "anatomy", architecture="llama-3.1-8b")
    assert known["total"] == known["published"] == 8_030_261_248 and known["counted"] is None
    pasted = ask(wired, "anatomy", config=(PUBLISHED / "gpt2.json").read_text())
    assert pasted["total"] == 124_439_808


@pytest.mark.parametrize(
    "given",
    [
        {"architecture": "gpt5"},
        {"architecture": "gpt2", "config": "{}"},
        {"config": "{"},
        {"config": "x" * 60_000},
        {"tokens": 0},
    ],
)
def test_what_anatomy_refuses(llama, given):
    with pytest.raises(PlaygroundError):
        ask(llama, "anatomy", **given)


def test_a_part_for_programs(wired):
    config = wired.opened("tiny").config
    trace = wired.trace(wired.opened("tiny"), Prompt(PROMPT))
    for key in blueprint(config, T):
        found = ask(wired, "part_numbers", prompt=PROMPT, part=key, layer=1, head=3, position=4)
        for each in found["vectors"]:
            assert each["rms"] >= abs(each["mean"]) - 1e-6 and abs(each["largest"]) >= each["rms"] - 1e-6
        assert (found["attention"] is not None) == (key in ("scores", "softmax"))
        assert (found["active"] is not None) == (key == "act")
    row = trace.pattern(1, 3)[4]
    found = ask(wired, "part_numbers", prompt=PROMPT, part="softmax", layer=1, head=3, position=4)
    assert found["attention"]["top"] == pytest.approx(row.max(), abs=1e-6)


def test_what_part_numbers_refuses(llama):
    for given in ({"part": "pos_embed"}, {"layer": 3}, {"head": 9}, {"position": 20}, {"part": "nothing"}):
        with pytest.raises(InputError):
            ask(llama, "part_numbers", prompt=PROMPT, **given)
