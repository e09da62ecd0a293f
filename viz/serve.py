"""Setup of the server from its options: the default model, the app with its routes, and Gradio behind them."""

import argparse
import dataclasses
import functools
import gc
import html
import json
import logging
import os
import re
import secrets
import signal
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Callable
from pathlib import Path

import gradio as gr
import plotly
from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from model.errors import PlaygroundError
from model.loading.sources import BUILT_IN, HUB_PREFIX, Resolved, resolve
from model.progress import Progress
from model.recorded.files import read_npz
from model.recorded.record import AttentionRecord
from viz.api import endpoints
from viz.api.programs import MOST_CALLS
from viz.cluster.workers.pool import KEY, PORT
from viz.lessons import routes as lesson_routes
from viz.lessons.library import Library, library
from viz.page.build import build
from viz.page.wire import attention as attention_wire
from viz.page.wire.routes import routes as wire_routes
from viz.server import here, search
from viz.server.assets import MAIN, ROUTE, STYLE, Assets, HeadMiddleware, answer, read, tags
from viz.server.calls import Functions
from viz.server.first_frame import first_frame
from viz.server.guard import login
from viz.server.guard.door import Door
from viz.server.guard.health import Health
from viz.server.guard.tokens import Tokens, key_of
from viz.server.headers import SERVER
from viz.server.joined import joined
from viz.server.listeners import Listeners
from viz.server.middleware import Guard, RefusedRequest, refusal
from viz.server.packed import Folder
from viz.server.protocol import crowd_of, files_allowed, tell_few
from viz.server.serving import RunningServer, taken
from viz.words import LANGUAGES, Catalogue, file_texts, section, words
from viz.work.engine import Engine
from viz.work.limits import PRIVATE, PUBLIC
from viz.work.local import Local
from viz.work.playground import Options, Playground
from viz.work.processes.archive import archive

log = logging.getLogger("playground")
PLOTLY = "plotly.min.js"
GRADIO = Path(gr.__file__).parent / "templates" / "frontend" / "assets"


def prepare(options: argparse.Namespace, progress: Progress) -> Playground:
    """Create the playground and load its first model; if that fails, log it and let the page offer to try again.

    On a shared server, every offered model is loaded now, so that no visitor starts a download.
    """
    server_options = options_of(options)
    recorded = attention_of(options.attention) if options.attention else {}
    playground = Playground(server_options, engine_of(options, server_options))
    playground.recorded.update(recorded)
    others = server_options.allowed.models if server_options.public else ()
    for model_id in dict.fromkeys((server_options.model, *others)):
        try:
            playground.load(model_id, progress)
        except PlaygroundError as error:
            print(f"\n{error}\nThe page opens without this model and offers to try again.", file=sys.stderr)
    return playground


def attention_of(path: Path) -> dict[str, tuple[str, AttentionRecord]]:
    """Read the file of --attention, by the name in its address. Raises InputError for a file that is not usable."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", path.stem).strip("-")[:64] or "file"
    return {name: (path.name, read_npz(path))}


def engine_of(arguments: argparse.Namespace, options: Options) -> Engine:
    """Create the engine: this process, or the cluster given on the command line. Raises InputError if there is no
    cluster.
    """
    if not arguments.engine:
        return Local()
    from viz.cluster.join import connect, joined, rejoin

    connect(arguments.engine)
    from viz.cluster.cluster import Cluster  # after `connect`, because importing ray fixes its address

    return Cluster(
        options,
        shared=bool(joined(arguments.engine)),
        cpus=arguments.replica_cpus,
        gpus=arguments.replica_gpus,
        most=arguments.replicas or 0,
        rejoin=lambda: rejoin(arguments.engine),
    )


def _located(name: str, names: set[str], public: bool) -> Resolved:
    """Return a folder or file of the command line; if `public`, its id is its name, made different from all `names`.

    Adds that id to them. Raises InputError if there is no such folder or .gguf file.
    """
    found = resolve(name, allow_paths=True)
    if not public:
        return found
    label = found.label
    while label in names:
        label = f"local-{label}"
    names.add(label)
    return dataclasses.replace(found, model_id=label, label=label)


def options_of(arguments: argparse.Namespace) -> Options:
    """Build the server's options from the command line.

    On a shared server, a model from a folder or file is listed by its name instead of its path. Raises InputError for a
    name in --models that is no model, folder or file.
    """
    public, local = arguments.public, None
    if arguments.login:
        login.lines(arguments.login)  # reports errors in the file before anything is loaded
    ids = {model.id for model in BUILT_IN}
    names = ids | set(arguments.models)
    if Path(arguments.model).expanduser().exists():
        local = _located(arguments.model, names, public)
    model = local.model_id if local else arguments.model
    others = {
        name: _located(name, names, public)
        for name in dict.fromkeys(arguments.models)
        if name not in (*ids, arguments.model) and not name.startswith(HUB_PREFIX)
    }
    chosen = (others[name].model_id if name in others else name for name in arguments.models if name != arguments.model)
    only = tuple(dict.fromkeys((model, *chosen))) if public or arguments.models else ()
    return Options(
        model=model,
        max_tokens=arguments.max_tokens,
        memory_mb=arguments.memory,
        training_minutes=arguments.training_minutes,
        offline=arguments.offline,
        stored=arguments.weights == "stored",
        dtype=arguments.dtype,
        device=arguments.device,
        local=local,
        others=tuple(others.values()),
        mcp=arguments.mcp,
        allowed=dataclasses.replace(PUBLIC if public else PRIVATE, models=only),
        public=public,
        host=arguments.host,
        hosts=tuple(arguments.allow_host),
        embed=tuple(arguments.embed),
        proxies=arguments.behind_proxy,
        login=arguments.login,
        lessons=arguments.lessons,
        workshop=arguments.workshop,
    )


def head(assets: Assets, workshop: str = "", attention: str = "") -> str:
    """Build the beginning of the page's head, which precedes Gradio's part."""
    plotly_js = f'<link rel="preload" as="script" href="playground/plotly/{PLOTLY}">'
    return identity(workshop, attention) + plotly_js + tags(assets)


def first_of(playground: Playground) -> str:
    """Return the name of the attention that was given on the command line, else ""."""
    return next(iter(playground.recorded), "")


def trained_archive(playground: Playground, adapter: bool = False) -> Callable[[Request], Response]:
    """Build the handler that sends a trained model's files, or its adapters; only its owner knows its id."""

    def answer(request: Request) -> Response:
        run = playground.workshop.finished(request.path_params["number"])
        folder = run and (run.adapter if adapter else run.folder)
        if not folder:
            return Response("This model is gone.", status_code=404, media_type="text/plain")
        name = "adapter" if adapter else "trained-gpt"
        headers = {"Content-Disposition": f'attachment; filename="{name}.zip"'}
        return Response(archive(folder), media_type="application/zip", headers=headers)

    return answer


def identity(workshop: str = "", attention: str = "") -> str:
    """Build the element with this server's id, the messages for a lost connection, the "lessons only" flag, and the
    name of the attention with which the page opens.
    """
    by_language = {
        name: section(Catalogue(file_texts("en", "server") | file_texts(name, "server")), "connection")
        for name in LANGUAGES
    }
    content: dict = {"server": SERVER, "words": by_language}
    if workshop:
        content["workshop"] = workshop
    if attention:
        content["attention"] = attention
    return f'<meta id="pg-connection-words" content="{html.escape(json.dumps(content, ensure_ascii=False))}">'


def alive(request: Request) -> Response:
    """Send an empty response as a sign of life; a header identifies this server."""
    return Response("alive", media_type="text/plain")


def app_of(
    playground: Playground, static: Path, page: gr.Blocks, key: bytes, draining: threading.Event | None = None
) -> FastAPI:
    """Build the app: the project's routes and middleware, with Gradio behind them. `key` signs logins."""
    assets, options = scripts(static), playground.options
    door = None
    if options.login:
        door = Door(options, Tokens(key), login.checker(login.read(options.login)))
    if options.lessons:
        lessons(options.lessons)  # reports errors in lessons to the operator
    app = FastAPI(
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        routes=[
            *(door.routes() if door else ()),
            here.route(playground.presence),
            Health(playground, draining or threading.Event()).route(),
            Route("/playground/alive", alive),
            Route("/playground/plotly/{name}", bundled().answer),
            Route(ROUTE, answer(assets)),
            search.route(),
            Route("/assets/{name}", Folder(GRADIO).answer),
            Route("/playground/trained/{number}.zip", trained_archive(playground)),
            Route("/playground/trained/{number}/adapter.zip", trained_archive(playground, adapter=True)),
            *wire_routes(playground),
            *attention_wire.routes(playground),
            *lesson_routes.routes(playground, functools.partial(lessons, options.lessons)),
        ],
        middleware=[
            Middleware(
                Guard, options=options, functions=Functions.of(page.get_config_file(), endpoints.needed()), door=door
            ),
            Middleware(Listeners, presence=playground.presence),
            Middleware(
                HeadMiddleware,
                tags=head(assets, options.workshop, first_of(playground)),
                first=first_frame,
                options=options,
            ),
        ],
    )
    page.max_threads = MOST_CALLS  # maximum number of concurrent calls in Gradio's queue
    page.state_session_capacity = 64  # no function uses session state
    page.queue(api_open=False)
    gr.mount_gradio_app(
        app,
        page,
        path="/",
        root_path=options.root or None,
        theme=gr.themes.Default(
            font=["ui-sans-serif", "system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]
        ),
        footer_links=["gradio"],
        max_file_size="64kb",
        mcp_server=options.mcp,
        ssr_mode=False,
        auth_dependency=(lambda request: request.scope["playground.name"]) if door else None,  # the user's name
        app_kwargs={
            "docs_url": None,
            "redoc_url": None,
            "openapi_url": None,
            "exception_handlers": {Exception: failed},
        },
    )
    endpoints.finish(page, app)
    return app


def failed(request: Request, error: Exception) -> Response:
    """Build the response to a request on which Gradio failed; the guard logs the error."""
    return refusal(RefusedRequest(500), request.scope)


def start(
    playground: Playground,
    static: Path,
    page: gr.Blocks,
    *,
    host: str,
    port: int | None,
    key: bytes | None = None,
    draining: threading.Event | None = None,
    listening: socket.socket | None = None,
) -> RunningServer:
    """Serve a page in the background. Raises InputError if the address is taken or does not belong to this machine.

    `key` is shared by several processes, so that each accepts the others' logins. `listening` is a socket that was
    opened at this address before.
    """
    options = playground.options
    crowd = crowd_of(public=options.public, proxies=options.proxies, files=files_allowed())
    if options.public:
        tell_few(crowd, log.warning)
    place = listening or taken(host, port)
    try:
        return RunningServer(
            app_of(playground, static, page, key or secrets.token_bytes(32), draining), place, host, crowd
        )
    except BaseException:
        place.close()
        raise


@functools.cache
def scripts(static: Path) -> Assets:
    """Load the page's own scripts and styles in the form in which they are sent; cached."""
    return joined(read(static))


@functools.cache
def bundled() -> Folder:
    """Return the folder of the files that come with Plotly."""
    return Folder(Path(plotly.__file__).parent / "package_data")


@functools.cache
def lessons(own: Path | None) -> Library:
    """Load the lessons of this server; cached."""
    return library(own)


def warm(playground: Playground, static: Path) -> None:
    """Prepare the resources that pages will request next: scripts, styles, Plotly, lessons, and each language's words
    and search index.
    """
    for name in (MAIN, STYLE):
        _ = scripts(static).files[name].packed  # compresses the script now and caches the result
    bundled().pack(PLOTLY)
    lessons(playground.options.lessons)
    for language in LANGUAGES:
        words(language)
        _ = search.packed(language).packed


def end_with(parent: int) -> None:
    """End this process as soon as its parent has ended, for whatever reason."""
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


def stop(number: int, frame: object) -> None:
    """End as on Ctrl-C, so that trained models are removed."""
    raise KeyboardInterrupt


def launch(playground: Playground, static: Path, *, host: str, port: int | None, open_browser: bool) -> None:
    """Serve until interrupted or terminated."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    draining, key, served = threading.Event(), None, None
    if worker := os.environ.get(PORT):  # one of several processes, reachable only through their proxy
        host, port, open_browser, key = "127.0.0.1", int(worker), False, key_of(os.environ[KEY])
        signal.signal(signal.SIGUSR1, lambda *_: draining.set())
        threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    try:
        served = start(playground, static, build(playground), host=host, port=port, key=key, draining=draining)
        gc.freeze()  # startup objects are permanent, so the garbage collector need not scan them
        gc.enable()
        opened = first_of(playground)
        url = f"{served.url}#attention={opened}" if opened else served.url
        print(f"Attention playground: {url}", flush=True)
        if served.network_urls:
            print(f"For other computers on this network: {' '.join(served.network_urls)}", flush=True)
        threading.Thread(target=warm, args=(playground, static), daemon=True).start()
        if open_browser:
            webbrowser.open(url)
        served.wait()
    except KeyboardInterrupt:
        pass
    finally:
        if served:
            served.close()
        playground.close()
