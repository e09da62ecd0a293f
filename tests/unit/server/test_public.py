"""A server that others use: fixed models, its page, and its memory."""

import pytest

import app
from model.errors import CheckpointError, InputError
from model.store import ByteLRU
from tests.support.public import PROMPT
from viz import serve
from viz.page.build import build
from viz.page.pipeline import PageRequest, payloads
from viz.work.limits import PRIVATE
from viz.work.playground import MOST_FAILURES, Options, Playground

TRICKS = (
    "..",
    "../tinygpt",
    "/etc",
    "/",
    "~",
    "~root",
    "file:///etc",
    "model/weights/tinygpt",
    "model\\weights\\tinygpt",
    "tinygpt/",
    "./tinygpt",
    "tinygpt\0",
    "tinygpt\n",
    " tinygpt",
    "%2e%2e%2ftinygpt",
    "..%2f",
    "hub:../../x",
    "hub:a/../b",
    "hub:/etc/passwd",
    "hub:a/b/c",
    "hub:a\\b",
    "hub:a/b\n",
    "hub:a/b\0",
    "hub:",
    "hub:a",
    "hub:~/x",
    "hub:%2e%2e/x",
    "hub:a/..",
    "hub:․․/x",
    "hub:ａ/b",
    "hub:a∕b",
    "tinygpｔ",
    "ｔinygpt",
    "trained:",
    "trained:../x",
    "trained:00000000000000000000000000000000",
    "C:\\",
    "\\\\server\\share",
    "",
    "x" * 5000,
    "local:",
    "TINYGPT",
)


# --- models ---


@pytest.mark.parametrize("name", TRICKS)
def test_a_name_is_never_a_path(playground, shared, name, monkeypatch):
    def nothing(*_, **__):
        pytest.fail("something was opened or fetched")

    monkeypatch.setattr("huggingface_hub.snapshot_download", nothing)
    for server in (playground, shared):
        monkeypatch.setattr("viz.work.playground.load_resolved", nothing)
        for load in (server.load, server.opened):
            with pytest.raises(InputError) as told:
                load(name)
            assert len(told.value.got) <= 80 and told.value.hint
        assert len(server.models) == 1
        assert all(len(key) <= 200 for key in server.failures)  # what is remembered is small


@pytest.mark.parametrize("name", ["tinygpt", "smollm2-135m", "hub:openai-community/gpt2"])
def test_a_shared_server_has_its_own_models_only(shared, name, monkeypatch):
    monkeypatch.setattr("viz.work.playground.resolve", lambda *_, **__: pytest.fail("looked for"))
    with pytest.raises(InputError, match="does not offer"):
        shared.load(name)
    assert shared.load("tiny") is shared.opened("tiny") and shared.choices() == [("tiny", "tiny")]


def test_the_picker_of_a_shared_server_takes_no_other_text(shared, playground):
    for server, free in ((shared, False), (playground, True)):
        picker = next(b for b in build(server).blocks.values() if getattr(b, "elem_id", "") == "model")
        assert picker.allow_custom_value is free
        assert ("tiny" in [value for _, value in picker.choices]) is not free


def test_a_model_of_the_command_line_does_not_tell_its_path(tmp_path):
    folder = tmp_path / "ours"
    folder.mkdir()
    given = app.parse(["--public", "--model", str(folder)], {})
    told = serve.options_of(given)
    assert told.local.path == folder and told.model == told.local.model_id == "ours"
    assert told.allowed.models == ("ours",)
    assert Playground(told).choices() == [("ours", "ours")]
    private = serve.options_of(app.parse(["--model", str(folder)], {}))
    assert private.model == str(folder) and private.allowed == PRIVATE
    clash = tmp_path / "tinygpt"
    clash.mkdir()
    assert serve.options_of(app.parse(["--public", "--model", str(clash)], {})).model == "local-tinygpt"


def test_further_models_may_be_folders(tmp_path):
    for name in ("ours", "a/ours"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "theirs.gguf").touch()
    paths = [str(tmp_path / name) for name in ("ours", "theirs.gguf", "a/ours")]
    private = serve.options_of(app.parse(["--models", ",".join(paths)], {}))
    assert private.allowed.models == ("tinygpt", *paths) and [*private.located] == paths
    told = serve.options_of(app.parse(["--public", "--model", paths[0], "--models", ",".join(["tinygpt", *paths])], {}))
    assert told.allowed.models == ("ours", "tinygpt", "theirs.gguf", "local-ours")
    ours = Playground(told)
    assert ours.choices()[2] == ("local-ours", "local-ours")
    assert ours.weights_of("theirs.gguf").path == tmp_path / "theirs.gguf"
    with pytest.raises(InputError, match=r"No model has this name\. Got: nowhere\..* a folder"):
        serve.options_of(app.parse(["--models", "nowhere"], {}))


def test_all_models_of_a_shared_server_are_loaded_before_anybody_comes(monkeypatch):
    loaded = []
    monkeypatch.setattr(Playground, "load", lambda self, name, progress: loaded.append(name))
    serve.prepare(app.parse(["--public", "--models", "smollm2-135m, hub:a/b,tinygpt"], {}), None)
    assert loaded == ["tinygpt", "smollm2-135m", "hub:a/b"]
    loaded.clear()
    serve.prepare(app.parse(["--models", "smollm2-135m"], {}), None)
    assert loaded == ["tinygpt"]


def test_failed_models_are_remembered_but_not_without_end(monkeypatch):
    server = Playground(Options())

    def fail(*_, **__):
        raise CheckpointError("The weights do not fit the config.")

    monkeypatch.setattr("viz.work.playground.resolve", fail)
    for n in range(3 * MOST_FAILURES):
        with pytest.raises(CheckpointError):
            server.load(f"hub:a/m{n}")
    assert len(server.failures) == MOST_FAILURES and f"hub:a/m{3 * MOST_FAILURES - 1}" in server.failures


def test_what_a_visitor_trained_goes_with_the_visitor(playground, lm):
    kept = ("tiny", "trained:1", ("trained:1", "int8"), ("tiny", "int8"))
    for name in kept:
        playground.models.get(name, lambda: lm)
    playground.leave("me")
    assert [playground.models.peek(name) is None for name in kept] == [False, True, True, False]


# --- memory ---


def test_the_memory_of_the_command_line_is_for_traces_and_results_together():
    ours = Playground(Options(memory_mb=160))
    assert (ours.traces.limit, ours.results.limit) == (150 << 20, 10 << 20)
    usual = Playground(Options())
    assert usual.results.limit == 64 << 20
    assert usual.traces.limit + usual.results.limit == 1024 << 20
    assert isinstance(usual.traces, ByteLRU)


def test_the_page_of_a_shared_server_is_drawn(shared):
    parts, _ = payloads(shared, PageRequest("tiny", PROMPT, None, {}, {}, "zh"))
    assert parts["tokens"]["tokens"] and not parts["notice"]
    told, _ = payloads(shared, PageRequest("tinygpt", PROMPT, None, {}, {}, "zh"))
    assert told["notice"]["text"].startswith("此服务器不提供该模型")
