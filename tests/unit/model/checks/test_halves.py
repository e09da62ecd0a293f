"""The checks of a model with 16-bit products agree in every wiring, and see a product that rounds too coarsely."""

import pytest
import torch

from model.checks.registry import run_checks
from model.loading.halves import DTYPES, HalfLinear, halved, unit
from tests.support.models.checked import EDITS, OURS, made, not_agreed
from tests.support.models.helpers import VARIANTS


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_checks_agree(tokenizer, variant, dtype):
    subject = made(tokenizer, variant, edits=EDITS, change=lambda model: halved(model, DTYPES[dtype]))
    assert unit(subject.run.model) == torch.finfo(DTYPES[dtype]).eps / 2
    found = run_checks(subject, OURS)
    assert not not_agreed(found)
    assert found["head_outputs"].rule == found["unembedding"].rule == "product"
    for key in ("scores", "softmax", "mixed", "norm_formula"):  # float32 as ever
        assert found[key].bound <= 1e-3 * found[key].scale, key


def test_the_checks_see_a_product_that_rounds_more_coarsely(tokenizer, monkeypatch):
    def coarse(self, x, plain=HalfLinear.forward):
        step = 2.0 ** (x.abs().clamp(min=1e-9).log2().floor() - 3)  # 4 bits, as an 8-bit float has
        return plain(self, (x / step).round() * step)

    subject = made(tokenizer, "gpt2", change=lambda model: halved(model, torch.bfloat16))
    assert not not_agreed(run_checks(subject, ["float64", "head_outputs", "unembedding"]))
    monkeypatch.setattr(HalfLinear, "forward", coarse)
    subject = made(tokenizer, "gpt2", change=lambda model: halved(model, torch.bfloat16))
    assert set(not_agreed(run_checks(subject, ["float64", "head_outputs", "unembedding"]))) >= {"float64"}
