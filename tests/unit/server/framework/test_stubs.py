"""Gradio is imported without writing its stubs, and is otherwise the same."""

import subprocess
import sys

CODE = """
import sys
from viz.server.framework.stubs import MODULE, WRITES, leave_out

leave_out(), leave_out()
assert "gradio" not in sys.modules
import gradio

module = sys.modules[MODULE]
assert getattr(module, WRITES).__module__ == "viz.server.framework.stubs"
assert gradio.events.EventListener.set_doc.__module__ == "viz.server.framework.stubs"
assert callable(module.create_pyi) and gradio.HTML.EVENTS and gradio.Textbox("x").value == "x"
assert not [each for each in sys.meta_path if "stubs" in type(each).__module__]
leave_out()
assert not [each for each in sys.meta_path if "stubs" in type(each).__module__]
"""


def test_gradio_writes_no_stubs():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
