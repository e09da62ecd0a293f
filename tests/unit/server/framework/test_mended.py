"""A script of Gradio's page with a mistake of it taken out."""

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from viz.server.framework import mended


def test_the_clock_of_this_version_stops_with_its_sign_and_nothing_else_is_changed():
    ((name, file),) = mended.mended().items()
    theirs = (mended._ASSETS / name).read_text(encoding="utf-8")
    ours = file.body.decode()
    before, after = theirs.split("W&&ze()")
    assert ours == f"{before}W&&U?.isConnected&&ze(){after}"
    assert before.endswith("(performance.now()-w(de))/1e3),")  # what is asked for again counts the seconds
    found = TestClient(Starlette(routes=mended.routes())).get(f"/assets/{name}")
    assert found.text == ours and found.headers["content-type"] == "text/javascript; charset=utf-8"


@pytest.mark.parametrize("body", ["", "W&&other()", "W&&ze();W&&ze()"], ids=["empty", "without", "twice"])
def test_another_script_is_left_to_gradio(tmp_path, body):
    (tmp_path / "statustracker-abc.js").write_text(body)
    assert mended.mended(tmp_path) == {}
