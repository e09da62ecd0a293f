"""The document that the viewer draws: attention given as arrays, its tokens, numbers and words, as plain JSON values.

Weights are 16-bit numbers, at most half of 1 / 65535 from the float32 ones.
"""

import base64
import gzip
from collections.abc import Mapping

import numpy as np

from model.recorded.numbers import NUMBERS, numbers
from model.recorded.record import AttentionRecord
from model.recorded.units import UNITS, in_units, units_of
from viz.charts.ramp import ramps
from viz.theme import HUES
from viz.words import section, translate, words

MOST = 65535  # code of the weight 1
LEVEL = 6  # of gzip: higher ones take several times as long and save about 1%


def document(record: AttentionRecord, language: str = "en", title: str = "") -> dict:
    """Build the viewer's document of a record, in a language of the page.

    Weights are base64 of gzip: all high bytes, then all low bytes of round(weight * 65535), in the order [L, H, T, S];
    of causal attention only key <= query, row by row. A row of zeros is undefined. `units` are the spans of words and
    sentences, where they differ from tokens.
    """
    catalogue = words(language)
    L, H = record.weights.shape[:2]
    units = units_of(record)
    return {
        "title": title,
        "queries": list(record.queries),
        "keys": None if record.keys is None else list(record.keys),
        "mask": record.mask,
        "layers": L,
        "heads": H,
        "first_layer": record.first_layer,
        "weights": packed(record.weights, causal=record.mask == "causal"),
        "units": {
            name: {"queries": list(map(list, queries)), "keys": None if keys is None else list(map(list, keys))}
            for name, (queries, keys) in units.items()
        },
        "numbers": _numbers(record, catalogue),
        "image": _image(record),
        "notes": [translate(note, language) for note in record.notes],
        "words": section(catalogue, "viewer"),
        "language": language,
        "ramps": ramps(),
        "hues": list(HUES),
    }


def packed(weights: np.ndarray, *, causal: bool) -> str:
    """Encode weights as text. float32 [L, H, T, S], 0 to 1"""
    if causal:
        weights = weights[..., *np.tril_indices(weights.shape[-1])]
    codes = np.round(weights * np.float32(MOST)).astype("<u2").reshape(-1)
    halves = (codes >> 8).astype(np.uint8).tobytes() + (codes & 255).astype(np.uint8).tobytes()
    return base64.b64encode(gzip.compress(halves, LEVEL, mtime=0)).decode()


def unpacked(text: str, shape: tuple[int, int, int, int], *, causal: bool) -> np.ndarray:
    """Decode what `packed` encodes. float32 [L, H, T, S]"""
    halves = np.frombuffer(gzip.decompress(base64.b64decode(text)), np.uint8).reshape(2, -1).astype(np.uint16)
    values = ((halves[0] << 8) | halves[1]).astype(np.float32) / MOST
    if not causal:
        return values.reshape(shape)
    weights = np.zeros(shape, np.float32)
    weights[..., *np.tril_indices(shape[-1])] = values.reshape(*shape[:2], -1)
    return weights


def _numbers(record: AttentionRecord, catalogue: Mapping[str, str]) -> list[dict]:
    """Build the numbers of heads in each unit, with their labels."""
    tables = {unit: numbers(in_units(record, unit)) for unit in UNITS if unit == "tokens" or unit in units_of(record)}
    given = []
    for key, each in NUMBERS[record.mask].items():
        if not any(key in table for table in tables.values()):
            continue
        values = {
            unit: [None if v != v else round(float(v), 6) for v in table[key]] if key in table else [None] * len(table)
            for unit, table in tables.items()
        }
        given.append(
            {
                "key": key,
                "label": label(key, catalogue),
                "help": explanation(key, record.mask, catalogue),
                "unit": {"share": "%", "tokens": "tokens"}[each.unit],
                "values": values,
            }
        )
    return given


def label(key: str, catalogue: Mapping[str, str]) -> str:
    """Return the name of a number: the page's own where it is one of its metrics."""
    return catalogue.get(f"recorded.label.{key}") or catalogue[f"metric.{key}"]


def explanation(key: str, mask: str, catalogue: Mapping[str, str]) -> str:
    """Return what a number means, for a kind of mask."""
    own = catalogue.get(f"recorded.help.{mask.replace('-', '_')}.{key}") or catalogue.get(f"recorded.help.{key}")
    return own or catalogue[f"metric_help.{key}"]


def _image(record: AttentionRecord) -> dict | None:
    image = record.image
    if image is None:
        return None
    src = f"data:{image.kind};base64,{base64.b64encode(image.data).decode()}"
    return {"src": src, "rows": image.rows, "columns": image.columns, "first": image.first}
