"""`show_attention` in a notebook or a script: numbers, figures, files, and the page that it serves."""

import json
import urllib.request

import numpy as np
import pytest

import app
from model.errors import InputError
from model.recorded.files import read_npz, save_npz
from model.recorded.record import record_of
from viz import inline, serve
from viz.recorded.document import document, unpacked
from viz.show_attention import show_attention

A = np.random.default_rng(0).dirichlet(np.ones(4), (2, 3, 4))
CAUSAL = np.tril(A) / np.tril(A).sum(-1, keepdims=True)
WORDS = ["The", " un", "happy", " cat"]


@pytest.fixture
def shown():
    return show_attention(A, WORDS, title="Mine")


def test_numbers_and_units(shown):
    assert shown.numbers().index.names == ["layer", "head"] and "next_token" in shown.numbers()
    assert shown.numbers("words")["self"].mean() > shown.numbers()["self"].mean()


def test_any_title_is_written(tmp_path):
    for title, written in ((None, ""), ("<b> \ud800", "<b> ?")):
        named = show_attention(A, WORDS, title=title)
        assert named.title == written and named.save(tmp_path / "x.html").exists()


def test_figures(shown):
    drawn = shown.figure("map", heads=[(1, 2), (0, 0)], theme="dark")
    assert np.allclose(drawn.data[0].z, A[1, 2], atol=1e-6) and drawn.layout.paper_bgcolor == "#14171f"
    assert drawn.layout.title.text.startswith("Mine") and drawn.layout.coloraxis.colorscale
    assert shown.figure("map", unit="words").data[0].z.shape == (3, 3)
    assert np.array(shown.figure("number", number="self").data[0].z).shape == (2, 3)
    blank = np.array(show_attention(CAUSAL, WORDS).figure("map").data[0].z, float)
    assert np.isnan(blank[0, 1:]).all() and np.isnan(np.array(show_attention(CAUSAL, WORDS).figure().data[0].z)).any()


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"name": "lines"}, "No figure"),
        ({"theme": "blue"}, "no such theme"),
        ({"unit": "letters"}, "no such unit"),
        ({"name": "number", "number": "induction"}, "no such number"),
        ({"name": "map", "heads": [(2, 0)]}, "layer does not exist"),
        ({"name": "map", "heads": [(0, 3)]}, "head does not exist"),
        ({"name": "map", "heads": [3]}, "layer does not exist"),
        ({"name": "map", "heads": [(0, 0)] * 9}, "too many maps"),
    ],
    ids=str,
)
def test_what_does_not_exist_is_refused(shown, arguments, what):
    with pytest.raises(InputError, match=what):
        shown.figure(**arguments)


def test_an_unknown_language_and_a_wrong_name_of_a_file_are_refused(shown, tmp_path):
    with pytest.raises(InputError, match="no such language"):
        show_attention(A, WORDS, language="tlh")
    with pytest.raises(InputError, match=r"end in \.html or \.npz"):
        shown.save(tmp_path / "x.png")
    with pytest.raises(InputError, match="cannot be written"):
        shown.save(tmp_path / "none" / "x.npz")


def test_a_file_of_arrays(shown, tmp_path):
    assert np.allclose(read_npz(shown.save(tmp_path / "x.npz")).weights, A, atol=1e-7)


def test_the_file_of_twelve_layers_is_small_and_complete(tmp_path):
    scores = 1.5 * np.random.default_rng(0).normal(size=(12, 12, 64, 64))  # less peaked than a trained model's
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    path = show_attention(weights, ["token"] * 64, title="x").save(tmp_path / "x.html")
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_size < 6.5e6 and "Plotly" in text and 'id="viewer"' in text
    written = json.loads(text.split('id="attention">')[1].split("</script>")[0])
    assert len(written["weights"]) <= 2.7 * weights.size and written["words"]
    again = unpacked(written["weights"], weights.shape, causal=False)
    assert np.abs(again - weights).max() < 1e-5


def test_the_page_is_served_until_it_is_closed(shown, tmp_path):
    try:
        frame = shown._repr_html_()
        url, name = shown.url.split("#attention=")
        assert f'src="{url}#attention={name}"' in frame and "height: 760px" in frame
        assert shown.url == f"{url}#attention={name}"  # the same name again
        where = f"{url.rstrip('/')}/playground/attention/{name}"
        with urllib.request.urlopen(where) as answer:
            assert json.load(answer) == document(shown.record, "en", "Mine")
        shown.close()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(where)
    finally:
        inline.close()


# --- the command line ---


def test_a_file_of_the_command_line_is_served_by_its_name(tmp_path):
    path = tmp_path / "my maps (1).npz"
    save_npz(record_of(A, WORDS), path)
    ((name, (title, record)),) = serve.attention_of(path).items()
    assert (name, title) == ("my-maps-1", "my maps (1).npz") and record.queries == tuple(WORDS)
    playground = serve.prepare(app.parse(["--attention", str(path), "--offline"], {}), lambda *_: None)
    assert list(playground.recorded) == [name] and serve.first_of(playground) == name
    assert f"&quot;attention&quot;: &quot;{name}&quot;" in serve.identity("", name)
    playground.close()


@pytest.mark.parametrize("more", [[], ["--workers", "2"]])
def test_a_bad_file_ends_the_start_with_a_sentence(tmp_path, monkeypatch, more):
    monkeypatch.setattr(app, "serve_by_several", lambda *_: pytest.fail("it started"))
    monkeypatch.setattr(serve, "launch", lambda *_, **__: pytest.fail("it started"))
    (tmp_path / "x.npz").write_text("hello")
    with pytest.raises(SystemExit, match=r"not a \.npz file") as told:
        app.main(["--attention", str(tmp_path / "x.npz"), *more])
    assert "numpy.savez_compressed" in str(told.value)
