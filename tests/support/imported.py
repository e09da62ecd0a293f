"""What every page imports of others, as the app does it: in the process whose copies serve pages in the tests."""

import app

app.environment(app.parse(["--offline"]))

import gradio  # noqa: E402, F401
import pandas  # noqa: E402, F401
import plotly.graph_objects  # noqa: E402, F401
