"""What the page does with names that Gradio keeps to itself."""

import pytest

from viz.server.framework import patches


def test_another_version_is_refused_with_a_sentence():
    with pytest.raises(RuntimeError, match=r"written for gradio .*, and 5\.0 is installed"):
        patches.check("5.0")
