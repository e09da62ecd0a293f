"""A corpus on the page: a head, a neuron, a direction, the search, and corpora that cannot be read."""

import numpy as np
import pytest

from model.corpus.deciles import deciles
from model.corpus.directions import read_direction, read_neuron
from model.corpus.head import read_head
from model.corpus.search import pair_weights, search
from model.corpus.texts import corpus_of
from model.errors import InputError
from model.steering.vectors import token_vector
from model.tracing.head_metrics import HEAD_METRICS
from tests.support.views.views import opened, perform, question
from viz.page.pipeline import payloads
from viz.seam import panels
from viz.views.heads.corpus.measure import sequences_of
from viz.views.heads.corpus.view import VIEW

TEXT = "the cat sat on a mat. Sara saw the cat, and Sara sat on the mat, too. " * 8
OF_HEADS = {"kinds", "distances", "tokens", "passages", "jobs", "clusters", "similar"}
OF_DIRECTIONS = {"contexts", "histogram", "moves"}


def form(**changes) -> dict:
    return {"over": "head", "corpus": "own", "own": TEXT, "length": 24} | changes


def shown(playground, language="en", **changes) -> dict:
    given = {"heads": [[1, 2]]}
    parts, _ = payloads(playground, question("heads", "corpus", form(**changes), language=language, **given))
    return {name.removeprefix("corpus_"): part for name, part in parts.items() if name.startswith("corpus_")}


def read(playground, language="en", **changes) -> dict:
    perform(playground, "heads", VIEW, "reading", form(**changes), heads=[[1, 2]])
    return shown(playground, language, **changes)


@pytest.fixture
def corpus(lm):
    return corpus_of(lm, [TEXT], 24, sequences_of(lm.n_params, 24))


def visible(parts: dict) -> set[str]:
    return {name for name in OF_HEADS | OF_DIRECTIONS | {"pairs"} if not parts[name].get("absent")}


def test_a_head_is_that_of_the_model(playground, lm, corpus):
    parts = read(playground, metric="distance")
    found = read_head(lm, corpus, 1, 2)
    assert visible(parts) == OF_HEADS
    bars = parts["distances"]["figure"].data[0].y
    assert np.allclose(bars, found.distances / found.distances.sum(), atol=1e-5)
    heat = parts["kinds"]["figure"].data[0].z
    assert float(np.asarray(heat).sum()) == pytest.approx(0, abs=1e-3)  # shares minus shares
    values = found.metrics[:, list(HEAD_METRICS).index("distance")]
    middles = [part.middle for part in deciles(values)]
    assert [row["codes"] for row in parts["passages"]["rows"]] == [found.codes[n].tolist() for n in middles]
    assert parts["passages"]["rows"][0]["label"].startswith("Top tenth")
    assert "head 1.2" in parts["tokens"]["title"] and len(parts["tokens"]["tables"]) == 4
    keys = [line for line in parts["tokens"]["lines"] if line[0] == "key"]
    assert float(keys[0][2]) == pytest.approx(found.tokens.key.max(), rel=1e-4)
    assert len(parts["clusters"]["rows"]) == 3
    first = parts["similar"]["tables"][0]["rows"][0]
    nearest = np.argsort(found.divergence.ravel())[1]
    assert first[0]["head"] == list(divmod(int(nearest), 4))
    assert (
        "corpus_of(lm, ['the cat" in parts["kinds"]["python"]
        and "read_head(lm, corpus, 1, 2)" in parts["kinds"]["python"]
    )


def test_a_neuron_and_a_direction_are_those_of_the_model(playground, lm, corpus):
    parts = read(playground, over="neuron", layer="1", neuron=5)
    found = read_neuron(lm, corpus, 1, 5)
    assert visible(parts) == OF_DIRECTIONS
    assert sum(each for each in parts["histogram"]["figure"].data[0].y if each) == found.counted.size
    assert float(parts["contexts"]["lines"][3][1]) == pytest.approx(found.peaks[3], rel=1e-4)
    assert parts["contexts"]["rows"][0]["at"] == found.at[int(found.peaks.argmax())]
    assert "neuron 5 of layer 1" in parts["contexts"]["title"]
    parts = read(playground, over="direction", layer="2", vector="e")
    found = read_direction(lm, corpus, token_vector(lm, ord("e")), 2)
    assert float(parts["contexts"]["lines"][0][1]) == pytest.approx(found.peaks[0], rel=1e-4)
    assert f"token_vector(lm, {ord('e')})" in parts["moves"]["python"]
    numbers = " ".join(["0"] * (lm.config.d_model - 1) + ["2"])
    typed = read(playground, over="direction", layer="2", vector=numbers)
    assert "typed direction" in typed["contexts"]["title"]


def test_the_search_ranks_all_heads_and_needs_no_second_pass(playground, lm, corpus):
    parts = read(playground, over="pairs", query="inside", key="inside")
    pairs = pair_weights(lm, corpus)
    assert visible(parts) == {"pairs"}
    found = search(pairs, "inside", "inside", "yes")
    assert [tuple(row[0]["head"]) for row in parts["pairs"]["rows"]] == found.order
    assert len(parts["pairs"]["lines"]) == 12 and "from inside a word to inside a word" in parts["pairs"]["title"]
    other = shown(playground, over="pairs", query="inside", key="space", same="any", apart="previous")
    order = search(pairs, "inside", "space", "any", "previous").order
    assert [tuple(row[0]["head"]) for row in other["pairs"]["rows"]] == order
    none = shown(playground, over="pairs", query="digit")
    assert none["pairs"]["rows"] == [] and "No query token" in none["pairs"]["about"]
    assert "名字" in shown(playground, "zh", over="pairs")["pairs"]["title"]


def test_what_is_read_does_not_depend_on_what_is_not_used(playground):
    scene = opened(playground, "heads", "corpus", heads=[[1, 2]])
    asked = VIEW.measure("reading").question

    def key(**changes):
        return asked(scene, panels.settings_of(VIEW, scene, {"corpus_form": form(**changes)}))

    assert key(neuron=3) == key(neuron=4) and key(over="neuron", neuron=3) != key(over="neuron", neuron=4)
    assert key(corpus="princess") == key(corpus="princess", own="x") and ("head", (1, 2)) in key().items_
    assert "head" not in dict(key(over="pairs").items_)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"own": "  "}, "corpus is empty"),
        ({"own": "abc"}, "too short"),
        ({"over": "direction", "vector": ""}, "direction is empty"),
        ({"over": "direction", "vector": "two tokens"}, "two tokens"),
        ({"over": "direction", "vector": "1 2 3"}, "stream"),
    ],
)
def test_what_cannot_be_read_is_said(playground, changes: dict, said: str):
    scene = opened(playground, "heads", "corpus", heads=[[1, 2]])
    job = panels.job_of(VIEW, "reading", scene, panels.settings_of(VIEW, scene, {"corpus_form": form(**changes)}))
    with pytest.raises(InputError, match=said):
        job.work(lambda *_: None)


def test_the_folder_of_the_command_line_is_offered(playground, lm, tmp_path, monkeypatch):
    scene = opened(playground, "heads", "corpus", heads=[[1, 2]])
    setting = next(each for each in VIEW.settings if each.name == "corpus")
    assert "folder" not in setting.options_in(scene)
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    monkeypatch.setenv("PLAYGROUND_CORPUS", str(tmp_path))
    assert setting.options_in(scene) == ("princess", "shakespeare", "folder", "own")
    parts = read(playground, corpus="folder")
    assert "folder" in parts["kinds"]["source"] and str(tmp_path) not in parts["kinds"]["python"]


def test_the_job_shows_the_numbers_so_far(playground):
    scene = opened(playground, "heads", "corpus", heads=[[1, 2]])
    for over, shape in (("head", (9, 9)), ("pairs", (3, 4)), ("neuron", (1, 40))):
        told = []
        settings = panels.settings_of(VIEW, scene, {"corpus_form": form(over=over, own=TEXT * 3)})
        panels.job_of(VIEW, "reading", scene, settings).work(lambda *given, told=told: told.append(given))
        assert told[0][2].grid is None and told[-1][0] == told[-1][1]
        assert np.array(told[-1][2].grid).shape == shape
