"""The command line of a server that others use, and what it makes of it."""

import dataclasses
import importlib.util
import socket
import subprocess
import sys

import pytest

import app
from model.errors import InputError
from viz import serve
from viz.server.serving import taken
from viz.work.limits import PRIVATE, PUBLIC
from viz.work.local import Local


def test_the_command_line_of_a_shared_server():
    own, shared = app.parse([], {}), app.parse(["--public"], {})
    assert (own.max_tokens, own.training_minutes, own.host, own.port) == (1024, 20.0, "127.0.0.1", None)
    assert (shared.max_tokens, shared.training_minutes, shared.host) == (512, 0.0, "127.0.0.1")
    told = app.parse(["--public", "--max-tokens", "99", "--training-minutes", "3"], {})
    assert (told.max_tokens, told.training_minutes) == (99, 3.0)
    assert serve.options_of(shared).allowed == dataclasses.replace(PUBLIC, models=("tinygpt",))
    assert serve.options_of(own).allowed == PRIVATE and not serve.options_of(own).public
    fixed = serve.options_of(app.parse(["--models", "smollm2-135m"], {})).allowed
    assert fixed == dataclasses.replace(PRIVATE, models=("tinygpt", "smollm2-135m"))
    proxied = [app.parse(line, {}).behind_proxy for line in ([], ["--behind-proxy"], ["--behind-proxy", "2"])]
    assert proxied == [0, 1, 2]


@pytest.mark.long
def test_a_cluster_is_asked_for_and_without_one_ray_is_not_even_imported():
    own, shared = app.parse([], {}), app.parse(["--engine", "ray://first:10001", "--replicas", "4"], {})
    assert (own.engine, own.replicas, own.replica_cpus) == (None, None, 1)
    assert (shared.engine, shared.replicas, shared.replica_cpus) == ("ray://first:10001", 4, 1)
    assert isinstance(serve.engine_of(own, serve.options_of(own)), Local)
    assert not serve.options_of(own).stored
    assert serve.options_of(app.parse(["--weights", "stored"], {})).stored
    plain, given = [], ["--dtype", "bfloat16", "--device", "cuda"]
    found = [serve.options_of(app.parse(line, {})) for line in (plain, given)]
    assert [(each.dtype, each.device) for each in found] == [("float32", "cpu"), ("bfloat16", "cuda")]
    stored, cluster = ["--weights", "stored"], ["--engine", "ray"]
    for line in ([*given, *stored], [*given, *cluster], [*stored, *given, *cluster]):  # each goes with the others
        asked = serve.options_of(app.parse(line, {}))
        assert (asked.dtype, asked.device, asked.stored) == ("bfloat16", "cuda", "stored" in line)
    assert [app.parse(line, {}).replica_gpus for line in (cluster, [*cluster, "--replica-gpus", "2"])] == [1, 2]
    lines = "import sys, viz.serve, viz.views.tabs, viz.cluster.replica; sys.exit('ray' in sys.modules)"
    subprocess.run([sys.executable, "-c", lines], check=True, timeout=120)


def test_a_device_that_is_not_there_is_refused_before_anything_starts(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(app, "serve_by_several", lambda *_: pytest.fail("it started"))
    with pytest.raises(SystemExit, match="torch does not find this device") as told:
        app.main(["--device", "cuda", "--workers", "2"])
    assert "Choose one of: cpu" in str(told.value)
    with pytest.raises(SystemExit):
        app.parse(["--device", "cuda", "--plan"], {})


def test_a_cluster_without_ray_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert app.parse([], {}).engine is None
    with pytest.raises(SystemExit):
        app.parse(["--engine", "ray"], {})
    assert "pip install -r requirements-cluster.txt" in capsys.readouterr().err


def test_a_space_needs_no_command_line():
    told = app.parse([], {"SPACE_ID": "me/it"})
    assert told.public and (told.host, told.port, told.behind_proxy) == ("0.0.0.0", 7860, 1)
    assert told.embed == ["https://huggingface.co", "https://*.hf.space"]
    assert app.parse(["--no-public"], {"SPACE_ID": "me/it"}).public is False
    named = app.parse([], {"GRADIO_SERVER_NAME": "0.0.0.0", "GRADIO_SERVER_PORT": "9999"})
    assert (named.host, named.port, named.public) == ("0.0.0.0", 9999, False)
    assert app.parse(["--host", "::1", "--port", "1"], {"GRADIO_SERVER_NAME": "0.0.0.0"}).host == "::1"


@pytest.mark.parametrize(
    "line",
    [
        ["--embed", "huggingface.co"],
        ["--embed", "https://a; script-src *"],
        ["--embed", "https://a b"],
        ["--memory", "0"],
        ["--engine", "http://first:10001"],
        ["--engine", "ray", "--workers", "2"],  # each would start a cluster of its own
        ["--workers", "0"],
        ["--replicas", "0"],
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused(line, capsys):
    with pytest.raises(SystemExit):
        app.parse(line, {})
    assert capsys.readouterr().err


def test_tools_that_could_not_log_in_are_refused(capsys):
    with pytest.raises(SystemExit):
        app.parse(["--mcp", "--login", "people"], {})
    assert "--mcp does not work with --login" in capsys.readouterr().err
    assert app.parse(["--mcp"], {}).mcp


def test_a_workshop_is_said_to_the_page_and_nothing_else_is(tmp_path):
    assert serve.options_of(app.parse([], {})).workshop == "" and "workshop" not in serve.identity()
    told = serve.options_of(app.parse(["--workshop", "--lessons", str(tmp_path)], {}))
    assert (told.workshop, told.lessons) == ("all", tmp_path)
    assert "&quot;workshop&quot;: &quot;dice,cuts&quot;" in serve.identity(
        app.parse(["--workshop", "dice,cuts"], {}).workshop
    )


def test_an_address_that_is_taken_is_said_in_words():
    """As `python app.py --port N` meets it while another app has that port."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        place.listen()
        port = place.getsockname()[1]
        with pytest.raises(InputError, match=rf"cannot listen at this address. Got: 127.0.0.1:{port}. .*--port"):
            taken("127.0.0.1", port)
    for other in ("192.0.2.1", "no such host"):  # the first is of a net for examples
        with pytest.raises(InputError, match=rf"Got: {other}. "):
            taken(other, None)
