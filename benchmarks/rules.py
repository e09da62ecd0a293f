"""Time to start a rule, and to compute its mask at each token: `python benchmarks/rules.py`.

The vocabularies: TinyGPT's 8,192 tokens, as many as GPT-2 has, 50,257, made of TinyGPT's, and
150,000 made ones. With `--xgrammar FOLDER` also xgrammar from that folder: `pip install --target FOLDER --no-deps
xgrammar apache-tvm-ffi`.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

SCHEMA = """{"type": "object", "required": ["name", "age"],
  "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}"""
RULES = (
    ("regex", r"[0-9]{4}-[0-9]{2}-[0-9]{2}", "2026-11-30"),
    ("json", SCHEMA, '{"name": "Alice Liddell", "age": 7}'),
)


def made(raw: tuple[bytes, ...], size: int) -> tuple[bytes, ...]:
    """Return `size` distinct tokens: the given ones, then pairs and triples of them in a random order."""
    tokens, rng = dict.fromkeys(each for each in raw if each), np.random.default_rng(0)
    words = list(tokens)
    while len(tokens) < size:
        tokens.setdefault(b"".join(words[n] for n in rng.integers(0, len(words), rng.integers(2, 4))))
    return tuple(tokens)[:size]


def ours(raw: tuple[bytes, ...], kind: str, text: str, ids: list[int]) -> tuple[float, list[float]]:
    """Measure our reader of llguidance: seconds to start, without the tree of tokens, and for each mask."""
    from model.sampling.rules.bytes_of_tokens import ByteVocabulary
    from model.sampling.rules.matching import _reader, _tokenizer, state_of
    from model.sampling.rules.rule import Rule
    from model.sampling.rules.source import try_out

    vocabulary = ByteVocabulary((*raw, b"<end>"), frozenset({len(raw)}), frozenset({len(raw)}))
    rule = Rule(kind, text, vocabulary)
    _tokenizer(vocabulary)
    _reader.cache_clear()
    try_out.cache_clear()
    began = time.perf_counter()
    state_of(rule, ())
    started, steps = time.perf_counter() - began, []
    for end in range(1, len(ids) + 1):
        began = time.perf_counter()
        state_of(rule, ids[:end])
        steps.append(time.perf_counter() - began)
    return started, steps


def xgrammar(raw: tuple[bytes, ...], kind: str, text: str, ids: list[int]) -> tuple[float, list[float]]:
    """Measure xgrammar in the same way."""
    import xgrammar as xgr

    info = xgr.TokenizerInfo([*raw, b"<end>"], xgr.VocabType.RAW, stop_token_ids=[len(raw)])
    compiler = xgr.GrammarCompiler(info)
    began = time.perf_counter()
    compiled = (
        compiler.compile_regex(text) if kind == "regex" else compiler.compile_json_schema(text, any_whitespace=False)
    )
    matcher, mask = xgr.GrammarMatcher(compiled), xgr.allocate_token_bitmask(1, len(raw) + 1)
    matcher.fill_next_token_bitmask(mask)
    started, steps = time.perf_counter() - began, []
    for token in ids:
        began = time.perf_counter()
        matcher.accept_token(token)
        matcher.fill_next_token_bitmask(mask)
        steps.append(time.perf_counter() - began)
    return started, steps


def main() -> None:
    """Print a table: milliseconds to start, and of a mask, median and largest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--xgrammar", default="")
    options = parser.parse_args()
    from model.api import load_model

    small = load_model("tinygpt").tokenizer.raw[:-1]
    engines: dict[str, Callable] = {"llguidance": ours}
    if options.xgrammar:
        sys.path.append(options.xgrammar)
        engines["xgrammar"] = xgrammar
    print("| library | tokens | rule | start ms | mask ms (median) | mask ms (largest) |\n|---|---|---|---|---|---|")
    for size in (8192, 50_257, 150_000):
        raw = tuple(small) if size == 8192 else made(small, size)
        at = {token: n for n, token in enumerate(raw)}
        for kind, text, written in RULES:
            ids = [at[bytes([byte])] for byte in written.encode()]
            for name, engine in engines.items():
                start, steps = engine(raw, kind, text, ids)
                numbers = " | ".join(f"{n * 1e3:.2f}" for n in (start, statistics.median(steps), max(steps)))
                print(f"| {name} | {size} | {kind} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
