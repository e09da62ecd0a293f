"""Command-line options of low-rank adapters."""

import argparse

from model.alignment import lora


def add_lora(parser: argparse.ArgumentParser) -> None:
    """Add the options of low-rank adapters to a parser."""
    usual = lora.Lora()
    add = parser.add_argument
    add("--lora", type=int, default=0, metavar="RANK", help="train adapters of this rank, merged at the end")
    add("--lora-alpha", type=float, default=usual.alpha, help="their product is multiplied by alpha / rank")
    add("--lora-matrices", choices=tuple(lora.MATRICES), default=usual.matrices, help="which matrices get them")
