"""Start the attention playground: `python app.py`, then open the address it prints."""

import argparse
import gc
import getpass
import importlib.util
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from model import FOLDER, PREFIX, version

SPACE_FRAMES = ("https://huggingface.co", "https://*.hf.space")  # websites that show a Space in a frame
INSTALL = "Install it with: pip install"
_RAY = '"ray[client]"' if PREFIX else "-r requirements-cluster.txt"
_ORIGIN = re.compile(r"https?://[A-Za-z0-9*][A-Za-z0-9.*-]*(:[0-9]{1,5})?")


def parse(arguments: list[str] | None = None, environ: Mapping[str, str] = os.environ) -> argparse.Namespace:
    """Parse the command line; a Hugging Face Space, which has none, gets suitable defaults."""
    parser = _parser(environ)
    options = parser.parse_args(arguments)
    if options.mcp and importlib.util.find_spec("mcp") is None:
        parser.error(f'--mcp needs the package mcp. {INSTALL} "gradio[mcp]"')
    if options.mcp and options.login:
        parser.error("--mcp does not work with --login: Gradio's MCP server cannot log in to make its calls")
    if options.engine and importlib.util.find_spec("ray") is None:
        parser.error(f"--engine needs the package ray. {INSTALL} {_RAY}")
    if options.workers > 1 and options.engine == "ray" and not environ.get("RAY_ADDRESS"):
        parser.error("--workers needs one cluster for all: name it by --engine ray://HOST:PORT or by RAY_ADDRESS")
    if options.plan and options.device != "cpu":
        parser.error("--plan speaks of this machine's CPU and memory: leave --device out")
    options.models = [name.strip() for name in options.models.split(",") if name.strip()]
    if options.max_tokens is None:
        options.max_tokens = 512 if options.public else 1024
    if options.training_minutes is None:
        options.training_minutes = 0.0 if options.public else 20.0
    return options


def _parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    space = bool(environ.get("SPACE_ID"))
    host = environ.get("GRADIO_SERVER_NAME") or ("0.0.0.0" if space else "127.0.0.1")
    asked = environ.get("GRADIO_SERVER_PORT", "")
    port = int(asked) if asked.isdigit() else 7860 if space else None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--model", default="tinygpt", help="model id, hub:OWNER/NAME, a folder or a .gguf file")
    parser.add_argument("--version", action="store_true", help="print the version, and end")
    parser.add_argument("--host", default=host, help="address to listen on")
    parser.add_argument("--port", type=int, default=port, help="port; without one, the first free from 7860")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads for the model; 0: torch's own choice")
    parser.add_argument(
        "--max-tokens", type=int, default=None, help="longest prompt, in tokens; 1024, with --public 512"
    )
    parser.add_argument(
        "--memory",
        type=_positive,
        default=1024,
        metavar="MB",
        help="memory for traces and results of jobs; models and the program itself come on top",
    )
    parser.add_argument(
        "--training-minutes",
        type=float,
        default=None,
        metavar="N",
        help="longest training run; 0 switches it off; 20, with --public 0",
    )
    parser.add_argument("--mcp", action="store_true", help="also offer every view as a tool of language models (MCP)")
    parser.add_argument(
        "--views", type=_folder, metavar="FOLDER", help="also show the views of this folder; their code runs here"
    )
    parser.add_argument(
        "--attention", type=Path, metavar="FILE.npz", help="open the page with the attention in this file"
    )
    parser.add_argument(
        "--corpus", type=_folder, metavar="FOLDER", help="also offer the .txt files of this folder in Heads › Corpus"
    )
    parser.add_argument("--lessons", type=_folder, metavar="FOLDER", help="also offer the lessons of this folder")
    parser.add_argument(
        "--workshop",
        nargs="?",
        const="all",
        default="",
        metavar="A,B",
        help="the lessons alone, or only these: model and prompts are theirs, the rest is not shown",
    )
    parser.add_argument(
        "--weights",
        choices=("float32", "stored"),
        default="float32",
        help="stored: leave those of safetensors in their files, in their own type: for models larger than memory",
    )
    parser.add_argument(
        "--dtype",
        choices=("float32", "bfloat16", "float16"),
        default="float32",
        help="type of the products with weights; those of 16 bits take half the memory",
    )
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda", "mps"),
        default="cpu",
        help="that computes the products with weights; several GPUs share the layers",
    )
    parser.add_argument(
        "--plan", action="store_true", help="say what the model will take in memory and time, each way, and end"
    )
    parser.add_argument("--offline", action="store_true", help="never fetch anything")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    parser.add_argument(
        "--wait-policy",
        choices=("passive", "spin", "default"),
        default="passive",
        help="how idle CPU threads wait: passive suits a machine that also runs the browser",
    )
    shared = parser.add_argument_group("for a server that others use")
    shared.add_argument(
        "--public",
        action=argparse.BooleanOptionalAction,
        default=space,
        help="fixed models, tighter limits, no training, and so many requests of one client",
    )
    shared.add_argument(
        "--models",
        default="",
        metavar="A,B",
        help="the only models that can be chosen, beside that of --model: names as there",
    )
    shared.add_argument("--login", type=Path, metavar="FILE", help="ask for a name and password: lines name:password")
    shared.add_argument("--hash-password", action="store_true", help="make a line for the --login file, and end")
    shared.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="another name this server is reached by"
    )
    shared.add_argument(
        "--embed",
        action="append",
        type=_origin,
        default=[*SPACE_FRAMES] if space else [],
        metavar="ORIGIN",
        help="a website whose pages may show this one in a frame",
    )
    shared.add_argument(
        "--behind-proxy",
        type=int,
        nargs="?",
        const=1,
        default=int(space),
        metavar="N",
        help="take a client's address from X-Forwarded-For, as N proxies in front wrote it (1 without a number)",
    )
    spread = parser.add_argument_group("for more than one process or machine")
    spread.add_argument(
        "--engine",
        type=_engine,
        default=None,
        metavar="ray|ray://HOST:PORT",
        help="compute on a Ray cluster: one that is started here, that of RAY_ADDRESS, or the one at this address",
    )
    spread.add_argument(
        "--replicas", type=_positive, default=None, metavar="N", help="of one model at most; without it, as many as fit"
    )
    spread.add_argument("--replica-cpus", type=_positive, default=1, metavar="N", help="processors of each replica")
    spread.add_argument(
        "--replica-gpus", type=_positive, default=1, metavar="N", help="GPUs of each replica, with --device cuda"
    )
    spread.add_argument(
        "--workers",
        type=_positive,
        default=1,
        metavar="N",
        help="page processes behind one address; more than one need HAProxy (apt-get install haproxy)",
    )
    return parser


def _engine(text: str) -> str:
    if text != "ray" and not text.startswith("ray://"):
        raise argparse.ArgumentTypeError("write it as ray, or as ray://HOST:PORT")
    return text


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _folder(text: str) -> Path:
    path = Path(text).expanduser().resolve()
    if not path.is_dir():
        raise argparse.ArgumentTypeError("there is no such folder")
    return path


def _origin(text: str) -> str:
    if not _ORIGIN.fullmatch(text):
        raise argparse.ArgumentTypeError("write it as https://example.org")
    return text


def environment(options: argparse.Namespace) -> None:
    """Set the environment variables that libraries read once, when they are imported."""
    policy = {"passive": {"OMP_WAIT_POLICY": "PASSIVE"}, "spin": {"GOMP_SPINCOUNT": "10000"}, "default": {}}
    for name, value in policy[options.wait_policy].items():
        os.environ.setdefault(name, value)
    os.environ.update(GRADIO_ANALYTICS_ENABLED="False", GRADIO_RUN_HISTORY="False", HF_HUB_DISABLE_TELEMETRY="1")
    os.environ.setdefault("GRADIO_ANALYTICS_MAX_EVENTS", "100")
    # otherwise unused statistics are computed at every event
    os.environ.setdefault("GRADIO_ANALYTICS_CACHE_FREQUENCY", "1000000")
    os.environ["FORWARDED_ALLOW_IPS"] = ""  # --behind-proxy decides whose X-Forwarded-For is trusted
    os.environ["PLAYGROUND_VIEWS"] = str(options.views or "")  # only the command line may set this
    os.environ["PLAYGROUND_CORPUS"] = str(options.corpus or "")  # nor this
    if options.offline:
        os.environ["HF_HUB_OFFLINE"] = "1"


def terminal_progress():
    """Return a progress callback that updates one line of the terminal, rewriting it only when it changes."""
    last = ""

    def progress(done: int, total: int | None, what: str) -> None:
        nonlocal last
        line = f"{what}: {done / total:4.0%}" if total else f"{what}: {done / 1e6:.0f} MB"
        if line != last:
            last = line
            print(f"\r{line}   ", end="", file=sys.stderr, flush=True)

    return progress


def hash_password() -> None:
    """Read a name and a password from the terminal, and print the line for the file of --login."""
    from viz.server.guard.login import hashed

    name = input("Name: ").strip()
    if not name or ":" in name:
        sys.exit("A name has at least one character and no colon.")
    print(f"{name}:{hashed(getpass.getpass())}")


def use_threads(count: int) -> None:
    """Set the number of threads with which torch computes; 0 leaves its default."""
    import torch

    if count > 0:
        torch.set_num_threads(count)


def check_device(kind: str) -> None:
    """Exit with a message if the machine lacks this kind of device; the CPU needs no check."""
    if kind == "cpu":
        return
    from model.errors import PlaygroundError
    from model.loading.devices import check

    try:
        check(kind)
    except PlaygroundError as error:
        sys.exit(str(error))


def check_attention(path: Path | None) -> None:
    """Exit with a message if the file of --attention is not usable, before any process is started."""
    from model.errors import PlaygroundError

    try:
        if path:
            from model.recorded.files import read_npz

            read_npz(path)
    except PlaygroundError as error:
        sys.exit(str(error))


def check_corpus(folder: Path | None) -> None:
    """Exit with a message if the texts in the folder of --corpus cannot be read."""
    from model.corpus.texts import folder_texts
    from model.errors import PlaygroundError

    try:
        if folder:
            folder_texts(str(folder))
    except PlaygroundError as error:
        sys.exit(str(error))


def tell_plan(options: argparse.Namespace) -> None:
    """Print the resources that the model would need, without loading it."""
    from model.anatomy.plan import report
    from model.errors import PlaygroundError
    from model.loading.sources import resolve

    use_threads(options.threads)
    try:
        print(report(resolve(options.model, offline=options.offline, allow_paths=True), options.max_tokens))
    except PlaygroundError as error:
        sys.exit(str(error))


def serve_by_several(options: argparse.Namespace, arguments: list[str]) -> None:
    """Start the processes and their proxy; this process only monitors them."""
    from model.errors import PlaygroundError
    from viz.cluster.workers.pool import serve

    try:
        serve(options, arguments)
    except PlaygroundError as error:
        sys.exit(str(error))


def main(arguments: list[str] | None = None) -> None:
    """Load the model, build the page, and serve it until interrupted. Exit with a message if a package is missing."""
    try:
        run(arguments)
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name in ("", "model", "viz", __name__.partition(".")[0]):
            raise
        sys.exit(f"The package {name} is missing. {INSTALL} {name if PREFIX else '-r requirements.txt'}")


def run(arguments: list[str] | None) -> None:
    """Do what the command line says."""
    options = parse(arguments)
    environment(options)
    if options.version:
        print(f"attention-playground {version()}")
        return
    if options.hash_password:
        hash_password()
        return
    if options.plan:
        tell_plan(options)
        return
    if not options.engine:  # with a cluster, the replicas' machines must have the device
        check_device(options.device)
    if options.corpus:
        check_corpus(options.corpus)
    if options.workers > 1:
        check_attention(options.attention)
        serve_by_several(options, sys.argv[1:] if arguments is None else arguments)
        return
    gc.disable()  # until the page is served, because imports create many permanent objects
    from model.errors import PlaygroundError

    use_threads(options.threads)
    try:
        from viz.cluster.workers.pool import is_worker
        from viz.serve import launch, prepare

        alone = not is_worker()  # only a single process draws on the terminal
        playground = prepare(options, terminal_progress() if alone else lambda *_: None)
        if alone:
            print(file=sys.stderr)
        launch(playground, FOLDER / "static", host=options.host, port=options.port, open_browser=options.open)
    except PlaygroundError as error:  # an error in the command line
        sys.exit(str(error))


if __name__ == "__main__":
    main()
