"""The example notebook, run in a kernel; and what is left of `show` once a kernel restarts."""

import json
import os
import socket
from pathlib import Path

import nbclient
import nbformat
import psutil
import pytest
from jupyter_client.manager import start_new_kernel

ROOT = Path(__file__).parents[3]
NOTEBOOK = ROOT / "docs/examples/attention.ipynb"
FIGURE = "application/vnd.plotly.v1+json"
SHOW = """
import attention_playground as ap
shown = ap.show("The cat sat on the mat")
print(shown.url.split("#")[0])
"""


@pytest.fixture
def environment(tmp_path):
    """The environment of a kernel that finds the clone as an editable install does, and writes nothing elsewhere."""
    folders = {name: str(tmp_path / name) for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR")}
    return os.environ | folders | {"PYTHONPATH": str(ROOT / "package/editable")}


def test_it_is_stored_without_outputs():
    written = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert [each for each in written["cells"] if each.get("outputs") or each.get("execution_count")] == []
    assert NOTEBOOK.stat().st_size < 20_000


def test_every_cell_runs_and_shows_what_it_says(environment, tmp_path):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}})
    client.execute(env=environment)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    errors = [output["text"] for output in outputs if output.get("name") == "stderr"]
    assert [text for text in errors if text.strip() and not text.startswith("\rLoading weights")] == []
    data = [output["data"] for output in outputs if "data" in output]
    figures = [each[FIGURE] for each in data if FIGURE in each]
    assert [figure["data"][0]["type"] for figure in figures] == ["heatmap", "heatmap", "heatmap"]
    assert [figures[n]["data"][0]["z"]["shape"] for n in (0, 2)] == ["18, 18", "18, 18"]
    texts = [each.get("text/plain", "") for each in data]
    assert "as trained" in texts[2] and " F " in texts[2].splitlines()[2]  # the name, before and after
    frames = [each["text/html"] for each in data if "<iframe" in each.get("text/html", "")]
    assert len(frames) == 2 and all("127.0.0.1" in frame for frame in frames)


@pytest.mark.long
def test_a_restarted_kernel_leaves_no_process_and_no_port(environment, tmp_path):
    manager, client = start_new_kernel(cwd=str(tmp_path), env=environment)
    said: list[str] = []
    try:
        client.execute_interactive(SHOW, timeout=240, output_hook=lambda message: said.append(str(message["content"])))
        port = int("".join(said).partition("http://127.0.0.1:")[2].partition("/")[0])
        assert answers(port)
        kernel = psutil.Process(manager.provisioner.pid)
        processes = [kernel, *kernel.children(recursive=True)]
        manager.restart_kernel(now=True)
        _, alive = psutil.wait_procs(processes, timeout=20)
        assert alive == [] and not answers(port)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def answers(port: int) -> bool:
    """Return whether something listens at a port of this machine."""
    with socket.socket() as place:
        return place.connect_ex(("127.0.0.1", port)) == 0
