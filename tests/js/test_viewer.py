"""The computations of the viewer of attention arrays: weights, units and texts."""

import numpy as np
import pytest

from viz.labels import visible
from viz.recorded.document import packed

pytestmark = pytest.mark.browser
RNG = np.random.default_rng(0)
READ = """async (doc, unit, head) => {
  const data = await module.dataOf(doc);
  const { rows, columns, values } = data.matrix(unit, head),
    { width, height, places } = module.thumbnail(data, head, 3);
  return { rows, columns, values: [...values], labels: data.labels(unit), small: [width, height, [...places]] };
}"""


def document(weights: np.ndarray, mask: str, units: dict | None = None) -> dict:
    L, H, T, S = weights.shape
    texts = [f"·{n}" for n in range(max(T, S))]
    return {
        "queries": texts[:T],
        "keys": texts[:S] if mask == "cross" else None,
        "mask": mask,
        "layers": L,
        "heads": H,
        "weights": packed(weights, causal=mask == "causal"),
        "units": units or {},
    }


def rows(*shape: int, causal: bool = False) -> np.ndarray:
    found = RNG.random(shape) * (np.tri(shape[-1]) if causal else 1)
    return (found / found.sum(-1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize(
    ("mask", "shape"), [("causal", (2, 2, 5, 5)), ("two-way", (1, 2, 4, 4)), ("cross", (2, 1, 3, 6))]
)
def test_the_weights_are_read_back(call, mask, shape):
    weights = rows(*shape, causal=mask == "causal")
    at = [shape[0] - 1, shape[1] - 1]
    found = call("viewer/data.js", READ, document(weights, mask), "tokens", at)
    values = np.array([np.nan if v is None else v for v in found["values"]], float).reshape(shape[2:])
    blank = ~np.tri(*shape[2:], dtype=bool) if mask == "causal" else np.zeros(shape[2:], bool)
    assert np.isnan(values[blank]).all() and np.abs(values - weights[tuple(at)])[~blank].max() <= 0.5 / 65535 + 1e-7
    width, height, places = found["small"]
    step = -(-max(shape[2:]) // 3)
    assert (width, height) == (-(-shape[3] // step), -(-shape[2] // step))
    assert places[0] == round(254 * np.sqrt(weights[tuple(at)][:step, :step].max()))
    assert (mask == "causal") == (255 in places)


def test_rows_of_units_sum_to_one_and_gaps_are_units(call):
    weights = rows(1, 1, 6, 6)
    doc = document(weights, "two-way", {"words": {"queries": [[1, 3], [4, 6]], "keys": None}})
    found = call("viewer/data.js", READ, doc, "words", [0, 0])
    spans = [(0, 1), (1, 3), (3, 4), (4, 6)]
    want = [[weights[0, 0, q:r, k:j].sum(1).mean() for k, j in spans] for q, r in spans]
    assert found["labels"]["queries"] == ["·0", "·1 2", "·3", "·4 5"]
    assert np.allclose(np.reshape(found["values"], (4, 4)), want, atol=1e-4)
    assert np.allclose(np.reshape(found["values"], (4, 4)).sum(1), 1, atol=1e-4)


def test_an_undefined_row_is_blank(call):
    weights = rows(1, 1, 3, 3)
    weights[0, 0, 1] = 0
    found = call("viewer/data.js", READ, document(weights, "two-way"), "tokens", [0, 0])
    blank = [v is None or v != v for v in found["values"]]
    assert blank == [False] * 3 + [True] * 3 + [False] * 3


@pytest.mark.parametrize("text", ["", " cat", "cat", "\n", "\t", "\u202eabc", "\x00", "a\u200bb", "·cat", "<b>"])
def test_tokens_are_made_visible_as_elsewhere(call, text):
    assert call("viewer/data.js", "(text) => module.visible(text)", text) == visible(text)
    assert call("viewer/data.js", "(text) => module.visible(text)", visible(text)) == visible(text)


def test_weights_that_do_not_fit_are_refused(call):
    doc = document(rows(1, 1, 3, 3), "two-way") | {"layers": 2}
    code = "(doc) => module.dataOf(doc).then(() => '', (error) => error.message)"
    assert "do not fit" in call("viewer/data.js", code, doc)
