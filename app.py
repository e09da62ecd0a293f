"""Start the attention playground: `python app.py`, then open the address it prints."""

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parent


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--model", default="tinygpt", help="model id, hub:OWNER/NAME, a folder or a .gguf file")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=None, help="port; without one, the first free from 7860")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads for the model; 0: torch's own choice")
    parser.add_argument("--max-tokens", type=int, default=1024, help="longest prompt, in tokens")
    parser.add_argument("--memory", type=int, default=1024, metavar="MB", help="memory for traces")
    parser.add_argument(
        "--training-minutes", type=float, default=20.0, metavar="N", help="longest training run; 0 switches it off"
    )
    parser.add_argument("--mcp", action="store_true", help="also offer every view as a tool of language models (MCP)")
    parser.add_argument("--offline", action="store_true", help="never fetch anything")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    parser.add_argument(
        "--wait-policy",
        choices=("passive", "spin", "default"),
        default="passive",
        help="how idle CPU threads wait: passive suits a machine that also runs the browser",
    )
    return parser.parse_args(arguments)


def environment(options: argparse.Namespace) -> None:
    """Set what libraries read once, when they are imported."""
    policy = {"passive": {"OMP_WAIT_POLICY": "PASSIVE"}, "spin": {"GOMP_SPINCOUNT": "10000"}, "default": {}}
    for name, value in policy[options.wait_policy].items():
        os.environ.setdefault(name, value)
    os.environ.update(GRADIO_ANALYTICS_ENABLED="False", GRADIO_RUN_HISTORY="False", HF_HUB_DISABLE_TELEMETRY="1")
    os.environ.setdefault("GRADIO_ANALYTICS_MAX_EVENTS", "100")
    if options.offline:
        os.environ["HF_HUB_OFFLINE"] = "1"


def terminal_progress():
    """A progress function that keeps one line of the terminal up to date, rewriting it only when it changes."""
    last = ""

    def progress(done: int, total: int | None, what: str) -> None:
        nonlocal last
        line = f"{what}: {done / total:4.0%}" if total else f"{what}: {done / 1e6:.0f} MB"
        if line != last:
            last = line
            print(f"\r{line}   ", end="", file=sys.stderr, flush=True)

    return progress


def main(arguments: list[str] | None = None) -> None:
    """Load the model, build the page, serve it until interrupted."""
    options = parse(arguments)
    environment(options)
    import torch

    from viz.tabs.serve import launch, prepare

    if options.threads > 0:
        torch.set_num_threads(options.threads)
    playground = prepare(options, terminal_progress())
    print(file=sys.stderr)
    launch(playground, ROOT / "static", host=options.host, port=options.port, open_browser=options.open)


if __name__ == "__main__":
    main()
