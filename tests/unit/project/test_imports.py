"""Which module may import which: read from the syntax trees, so that imports inside functions count, too.

A room is a folder of `model/` or `viz/` (a file there is a room of its own). Rooms stand on floors; a room imports only
from the floors below its own.
"""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# The rooms from the roof down, one line a floor.
FLOORS = {
    "viz": (
        ("show_attention",),
        ("inline",),
        ("serve",),
        ("server",),
        ("lessons",),
        ("page",),
        ("api", "cluster", "reach"),
        ("views",),
        ("seam",),
        ("work",),
        ("recorded",),
        ("characters", "charts"),
        ("labels",),
        ("numbers", "theme", "words"),
    ),
    "model": (
        ("source_code", "training_cli"),
        ("workshop",),
        ("corpus",),
        ("checks", "claims", "prompting", "sets"),
        ("alignment", "quantization"),
        ("design",),
        ("training",),
        ("token_tables",),
        ("activations",),
        ("predictions", "probes", "steering"),
        ("recorded",),
        ("attention",),
        ("anatomy", "in_memory"),
        ("api",),
        ("generation",),
        ("forgetting", "sampling"),
        ("hooked",),
        ("tracing",),
        ("loading",),
        ("by_hand", "gpt", "text"),
        ("kernels",),
        ("shares",),
        ("public",),
        ("arguments", "command_line", "downloads", "free_memory"),
        ("errors", "private_folder", "progress", "records", "store", "strict_json"),
    ),
}
# What a room may import beside the standard library and the project itself.
NUMBERS = {"numpy", "pandas", "scipy"}
MODEL = NUMBERS | {"torch", "tiktoken", "tokenizers", "tqdm", "safetensors", "threadpoolctl", "psutil", "gguf"}
MODEL |= {"huggingface_hub", "jinja2"}
DRAWING = NUMBERS | {"plotly"}
VIEWS = DRAWING | {"torch"}
WEB = VIEWS | {"anyio", "gradio", "starlette", "uvicorn"}
PACKAGES = {
    "model": MODEL,
    "model.records": {"numpy"},
    "model.errors": set(),
    "model.checks.parity": MODEL | {"transformers"},  # imported in functions, where it is installed
    "model.sampling.rules": MODEL | {"llguidance"},  # imported in functions, where it is installed
    "model.token_tables.vocabulary_map": MODEL | {"sklearn"},  # imported in a function, where it is installed
    "model.kernels": MODEL | {"numba", "filelock"},
    "viz.words": set(),
    "viz.numbers": NUMBERS,
    "viz.labels": NUMBERS,
    "viz.characters": NUMBERS,
    "viz.theme": DRAWING,
    "viz.charts": DRAWING,
    "viz.work": VIEWS,
    "viz.recorded": DRAWING,
    "viz.seam": VIEWS,
    "viz.views": VIEWS,
    "viz.api": WEB,
    "viz.cluster": VIEWS,
    "viz.work.addresses": {"psutil"},
    "viz.cluster.join": VIEWS | {"ray", "psutil"},
    "viz.cluster.cluster": VIEWS | {"ray"},
    "viz.cluster.care": VIEWS | {"ray"},
    "viz.page": WEB,
    "viz.lessons": VIEWS - {"torch"} | {"starlette"},
    "viz.server": WEB,
    "viz.inline": DRAWING,
    "viz.show_attention": DRAWING,
    "viz.reach": set(),
    "viz.serve": WEB | {"fastapi"},
    "app": {"torch"},
}
# Drawing reads arrays: these import nothing of `model/` but its records, and words the sentences that they translate.
DRAWN = ("viz.charts", "viz.labels", "viz.numbers", "viz.theme", "viz.words")


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def source_files() -> list[Path]:
    return sorted([*(ROOT / "model").rglob("*.py"), *(ROOT / "viz").rglob("*.py"), ROOT / "app.py"])


MODULES = {module_name(path) for path in source_files()}


def imported(source: str) -> set[str]:
    """Full names of all that a module imports; `from model import linear` counts as model.linear."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide from this test"
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in MODULES else node.module for name in whole}
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("__import__", "importlib.import_module"):
            raise AssertionError(f"imported out of sight: {ast.unparse(node)}")
    return names


def foreign(path: Path) -> set[str]:
    """Return the names that a file imports beyond the standard library."""
    return {name for name in imported(path.read_text()) if name.split(".")[0] not in sys.stdlib_module_names}


IMPORTS = {module_name(path): foreign(path) for path in source_files()}


def room(name: str) -> str:
    """Return the room of a module; "" for app.py, the packages themselves, and commands (`python -m`)."""
    parts = name.split(".")
    if len(parts) < 2 or parts[-1] == "__main__":
        return ""
    return parts[1]


def tab(name: str) -> str:
    """Return the tab that a module of viz.views belongs to, "" for one that belongs to none."""
    parts = name.split(".")
    return parts[2] if parts[:2] == ["viz", "views"] and len(parts) > 3 else ""


def floor(name: str) -> int:
    """Return the height of a module's floor: 0 is the lowest one."""
    floors = FLOORS[name.split(".")[0]]
    (height,) = (len(floors) - n for n, rooms in enumerate(floors) if room(name) in rooms)
    return height


def allowed(name: str, importer: str) -> bool:
    """Whether a module may import another module of the project, or a package."""
    own, top = importer.split(".")[0], name.split(".")[0]
    if top not in ("model", "viz"):
        longest = max((key for key in PACKAGES if f"{importer}.".startswith(f"{key}.")), key=len)
        return top in PACKAGES[longest]
    if own == "app":
        return top == "model" or name.startswith(("viz.serve", "viz.server", "viz.cluster.workers"))
    if importer.startswith(DRAWN) or importer.endswith(".figures"):
        if top == "model":
            return name == "model.records" or (importer == "viz.words" and name == "model.errors")
        if importer.endswith(".figures"):
            return name.startswith(DRAWN) or name.endswith(".figures")
    if top != own:
        return own == "viz"
    if tab(name) and tab(importer) and tab(name) != tab(importer):
        return False
    return not room(name) or not room(importer) or room(name) == room(importer) or floor(name) < floor(importer)


def test_a_module_imports_only_from_the_floors_below_and_the_packages_of_its_room():
    bad = [f"{own} imports {name}" for own, names in IMPORTS.items() for name in names if not allowed(name, own)]
    assert sorted(bad) == []


@pytest.mark.parametrize("top", ["model", "viz"])
def test_every_room_has_a_floor_and_every_floor_is_inhabited(top: str):
    rooms = {room(name) for name in MODULES if name.startswith(f"{top}.")} - {""}
    placed = [each for rooms_of_floor in FLOORS[top] for each in rooms_of_floor]
    assert sorted(placed) == sorted(rooms)


@pytest.mark.parametrize(
    ("name", "importer"),
    [
        ("torch", "model.records"),
        ("model.errors", "model.records"),
        ("gradio", "model.api"),
        ("plotly", "model.tracing.head_metrics"),
        ("viz.words", "model.tracing.trace"),
        ("model.api", "model.tracing.trace"),
        ("model.training.loop", "model.attention.measures"),
        ("model.design.past_length", "model.training.loop"),
        ("transformers", "model.loading.checkpoint"),
        ("torch", "viz.charts.heatmap"),
        ("gradio", "viz.labels"),
        ("model.tracing.trace", "viz.charts.heatmap"),
        ("viz.page.parts", "viz.charts.heatmap"),
        ("transformers", "viz.page.build"),
        ("viz.views.design.rope.view", "viz.views.sampling.draws.view"),
        ("viz.seam.scene", "viz.views.design.rope.figures"),
        ("gradio", "viz.views.design.rope.view"),
        ("viz.page.pipeline", "viz.views.design.rope.view"),
        ("gradio", "viz.seam.panels"),
        ("viz.page.parts", "viz.seam.panels"),
        ("viz.seam.scene", "viz.work.playground"),
        ("viz.cluster.replica", "viz.work.engine"),
        ("viz.server.middleware", "viz.work.limits"),
        ("viz.server.headers", "viz.lessons.routes"),
        ("viz.serve", "viz.server.middleware"),
        ("starlette", "viz.work.playground"),
        ("ray", "viz.seam.panels"),
        ("ray", "viz.cluster.replica"),
        ("gradio", "viz.cluster.replica"),
        ("viz.views.tabs", "viz.seam.tab"),
        ("gradio", "app"),
        ("pydantic", "viz.serve"),
        ("viz.words", "app"),
    ],
)
def test_the_rules_forbid(name: str, importer: str):
    assert not allowed(name, importer)


def test_imports_inside_functions_are_found():
    source = (
        "def f():\n    from model.gpt import linear\n    from model import api\n    import plotly.graph_objects as go\n"
    )
    assert imported(source) == {"model.gpt.linear", "model.api", "plotly.graph_objects"}


@pytest.mark.parametrize("top", ["model", "viz"])
def test_no_cycles(top: str):
    graph = {
        own: {name for name in names if name in MODULES and name.startswith(top)}
        for own, names in IMPORTS.items()
        if own.startswith(top)
    }
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, f"a cycle: {' -> '.join((*above[above.index(name) :], name))}"
        if name not in done:
            for other in sorted(graph[name]):
                visit(other, (*above, name))
            done.add(name)

    for name in graph:
        visit(name, ())
    assert done == set(graph)
