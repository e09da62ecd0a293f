"""From options to a running server: the default model, the routes for static files, and Gradio's settings."""

import argparse
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import gradio as gr
import plotly
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from model.errors import PlaygroundError
from model.progress import Progress
from model.sources import resolve
from viz.tabs import guard
from viz.tabs.context import Options, Playground
from viz.tabs.page import build
from viz.tabs.training import archive

SCRIPTS = (
    "core.js", "bars.js", "exports.js", "controls.js", "heads.js", "plot.js", "training.js", "training_charts.js",
    "links.js", "lines.js", "reading.js", "training_replay.js", "effects.js", "headtable.js", "why.js", "find.js",
    "compare.js", "surprise.js", "guess.js", "onenorm.js", "neurons.js", "sizes.js", "lens.js", "wrote.js",
    "pipeline.js", "shape.js",
    "draws.js", "cachelab.js",
    "strategies.js", "many.js",
    "race_token.js", "race_tree.js", "race.js",
    "drafting.js",
    "guide.js", "address.js", "report.js", "checks.js", "connection.js",
)  # fmt: skip
STYLES = (
    "app.css",
    "surprise.css",
    "guess.css",
    "onenorm.css",
    "neurons.css",
    "sizes.css",
    "lens.css",
    "wrote.css",
    "shape.css",
    "draws.css",
    "cachelab.css",
    "strategies.css",
    "many.css",
    "race.css",
    "drafting.css",
    "guide.css",
    "address.css",
    "report.css",
    "checks.css",
)


def prepare(options: argparse.Namespace, progress: Progress) -> Playground:
    """The playground with its first model loaded; where that fails, say so and let the page offer to try again."""
    local = None
    path = Path(options.model).expanduser()
    if path.exists():
        local = resolve(options.model, allow_paths=True)
    model_id = local.model_id if local else options.model
    playground = Playground(
        Options(
            model_id, options.max_tokens, options.memory, options.training_minutes, options.offline, local, options.mcp
        )
    )
    try:
        playground.load(model_id, progress)
    except PlaygroundError as error:
        print(f"\n{error}\nThe page opens without a model and offers to try again.", file=sys.stderr)
    return playground


def head(static: Path) -> str:
    """Our scripts, inline and in order: a script with an address may run after the parts that need it are mounted."""
    code = "\n".join((static / name).read_text(encoding="utf-8") for name in SCRIPTS)
    return f'<link rel="preload" as="script" href="playground/plotly/plotly.min.js"><script>{code}</script>'


def trained_archive(playground: Playground) -> Callable[[Request], Response]:
    """The files of a trained model; only who trained it knows its number."""

    def answer(request: Request) -> Response:
        run = playground.workshop.finished(request.path_params["number"])
        if run is None:
            return Response("This model is gone.", status_code=404, media_type="text/plain")
        headers = {"Content-Disposition": 'attachment; filename="trained-gpt.zip"'}
        return Response(archive(run), media_type="application/zip", headers=headers)

    return answer


def launch_options(static: Path, playground: Playground) -> dict:
    """What launch() needs whichever way the page is served."""
    bundled = Path(plotly.__file__).parent / "package_data"
    routes = [
        Mount("/playground/plotly", app=StaticFiles(directory=bundled)),
        Mount("/playground/vendor", app=StaticFiles(directory=static / "vendor")),
        Route("/playground/trained/{number}.zip", trained_archive(playground)),
    ]
    return {
        "head": head(static),
        "css_paths": [static / name for name in STYLES],
        "theme": gr.themes.Default(
            font=["ui-sans-serif", "system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]
        ),
        "run_history": False,
        "state_session_capacity": 32,
        "ssr_mode": False,
        "footer_links": [],
        "app_kwargs": {
            "routes": routes,
            "docs_url": None,
            "redoc_url": None,
            "openapi_url": None,
            "middleware": guard.middleware(playground.options),
        },
        "max_file_size": "64kb",
        "mcp_server": playground.options.mcp,
        "share": False,
        "quiet": True,
    }


def rest(page: gr.Blocks) -> None:
    """Have the queue look for work every 5 ms instead of every one: an idle page else costs 5 % of a core."""
    page._queue.sleep_when_free = page._queue.progress_update_sleep_when_free = 0.005


def launch(playground: Playground, static: Path, *, host: str, port: int | None, open_browser: bool) -> None:
    """Serve until interrupted or terminated."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was trained is removed then, too
    page = build(playground)
    page.queue(max_size=64, api_open=False)
    rest(page)
    options = launch_options(static, playground)
    page.launch(server_name=host, server_port=port, inbrowser=open_browser, prevent_thread_lock=True, **options)
    print(f"Attention playground: {page.local_url}", flush=True)
    try:
        page.block_thread()
    finally:
        playground.workshop.close()
