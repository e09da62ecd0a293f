"""Who may import whom: walked in the syntax trees, so that imports inside functions count too."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MODEL = {
    "torch",
    "numpy",
    "pandas",
    "tiktoken",
    "tokenizers",
    "tqdm",
    "safetensors",
    "scipy",
    "threadpoolctl",
    "psutil",
    "gguf",
    "huggingface_hub",
    "jinja2",
    "model",
}
VIZ = {"numpy", "pandas", "plotly", "scipy", "viz"}
SEAM = {"plotly", "viz", "model", "numpy", "pandas", "torch"}
FRAME = SEAM | {"gradio", "starlette", "uvicorn"}
MADE_OF = {"fastapi", "pydantic"}  # what Gradio is made of


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def source_files() -> list[Path]:
    return sorted([*(ROOT / "model").rglob("*.py"), *(ROOT / "viz").rglob("*.py"), ROOT / "app.py"])


MODULES = {module_name(path) for path in source_files()}


def imported(source: str) -> set[str]:
    """Full names of all that a module imports; `from model import linear` counts as model.linear."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide from this test"
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in whole}
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("__import__", "importlib.import_module"):
            raise AssertionError(f"imported out of sight: {ast.unparse(node)}")
    return found


def foreign(path: Path) -> set[str]:
    """What a file imports beyond the standard library."""
    return {name for name in imported(path.read_text()) if name.split(".")[0] not in sys.stdlib_module_names}


# Folders that know Gradio. A view does not, nor what it declares itself with.
PAGE = ("viz.page", "viz.server", "viz.api")
SERVER = tuple(f"viz.server.{name}" for name in ("serve", "framework", "middleware", "clients", "headers"))
WEB = ("viz.page", "viz.api", *SERVER)
OFFERED = ("viz.api.endpoint", "viz.api.reading", "viz.api.arguments", "viz.api.answers", "viz.api.json")
SAYING = {"viz.words": ("model.errors",)}  # the sentences that it translates
ON_RAY = ("viz.engine.cluster", "viz.engine.care")
DRAWING = ("viz.charts", "viz.labels", "viz.numbers", "viz.theme", "viz.words")


def room(name: str) -> str:
    """The tab that a module of viz.views belongs to, "" for what belongs to none."""
    parts = name.split(".")
    return parts[2] if parts[:2] == ["viz", "views"] and len(parts) > 3 else ""


def allowed(name: str, importer: str) -> bool:
    """The rules, from the innermost layer out."""
    top = name.split(".")[0]
    if importer in ("model.records", "model.errors"):
        return top == "numpy"
    if importer == "model.checks.parity":
        return top in MODEL | {"transformers"}  # what it compares with; imported in functions, where it is installed
    if importer in ("model.kernels.compiled", "model.kernels.ready", "model.kernels.strips"):
        return top in MODEL | {"numba", "filelock"}
    if importer.startswith("model"):
        return top in MODEL
    if importer.startswith(DRAWING) or importer.endswith(".figures"):
        return (
            top in VIZ - {"viz"}
            or name.startswith(DRAWING)
            or name in ("model.records", *SAYING.get(importer, ()))
            or name.endswith(".figures")
        )
    if importer.startswith("viz.views"):
        other = room(name) and room(importer) and room(name) != room(importer)
        return top in SEAM and not other and (not name.startswith(WEB) or name in OFFERED)
    if importer.startswith("viz.seam"):
        return top in SEAM and (name in OFFERED or not name.startswith(("viz.views", *WEB)))
    if importer.startswith("viz.engine"):  # measures without a page; only where asked for, on Ray
        return top in SEAM | ({"ray"} if importer in ON_RAY else set()) and not name.startswith(WEB)
    if importer.startswith("viz.lessons"):
        return top in SEAM - {"torch"}  # what the page offers, and its endpoints; the server has their addresses
    if importer.startswith("viz.server.framework"):
        return top in FRAME | MADE_OF
    if importer.startswith(PAGE):
        return top in FRAME
    return top in {"torch", "model"} or name.startswith("viz.server")  # app.py


def test_a_file_imports_only_what_its_layer_may():
    names = {path: module_name(path) for path in source_files()}
    bad = [f"{own} imports {name}" for path, own in names.items() for name in foreign(path) if not allowed(name, own)]
    assert sorted(bad) == []


def test_every_layer_is_there_to_be_walked():
    expected = {
        "model.records",
        "model.errors",
        "model.tracing.trace",
        "model.loading.families",
        "viz.words",
        "viz.page.build",
    }
    assert expected | {"app"} <= MODULES


@pytest.mark.parametrize(
    ("name", "importer"),
    [
        ("torch", "model.records"),
        ("model.errors", "model.records"),
        ("gradio", "model.api"),
        ("plotly", "model.tracing.head_metrics"),
        ("viz.words", "model.tracing.trace"),
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
        ("ray", "viz.seam.panels"),
        ("ray", "viz.engine.replica"),
        ("gradio", "viz.engine.replica"),
        ("viz.views.tabs", "viz.seam.tab"),
        ("gradio", "app"),
        ("pydantic", "viz.server.serve"),
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
        module_name(path): {name for name in foreign(path) if name in MODULES and name.startswith(top)}
        for path in source_files()
        if module_name(path).startswith(top)
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
