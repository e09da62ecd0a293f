"""LoRA by hand, against a loop of single numbers, and that only the adapters learn."""

import pytest
import torch
from torch import nn

from model.alignment.lora import (
    MATRICES,
    Lora,
    adapt,
    adapted_parameters,
    adapter_state,
    adapters,
    learned,
    merged,
)
from model.errors import InputError
from model.gpt.transformer import Transformer
from model.training import loop
from model.training.loop import Recipe, TrainingRun
from tests.support.models.helpers import shake, tiny_config

LLAMA = {
    "norm": "rmsnorm",
    "positions": "rope",
    "mlp": "swiglu",
    "n_head": 4,
    "n_kv_head": 2,
    "d_model": 32,
    "d_mlp": 44,
    "tie_embeddings": True,
}


def model_of(changes=()) -> Transformer:
    model = Transformer(tiny_config({"vocab_size": 57, "n_ctx": 24} | dict(changes)))
    shake(model, torch.Generator().manual_seed(0))
    return model


def fill(model: Transformer) -> None:
    """Adapters as they may be after training."""
    for _, layer in adapters(model):
        nn.init.normal_(layer.b, generator=torch.Generator().manual_seed(1))


IDS = torch.randint(0, 57, (2, 11), generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("changes", [{}, LLAMA], ids=["gpt2", "llama"])
@pytest.mark.parametrize("matrices", MATRICES)
@torch.no_grad()
def test_it_begins_unchanged_and_merging_changes_rounding_only(changes, matrices):
    model = model_of(changes)
    before = model(IDS)
    adapt(model, Lora(3, 7.0, matrices))
    assert torch.equal(model(IDS), before)
    fill(model)
    after, whole = model(IDS), merged(model)
    assert (after - before).abs().max() > 0.1
    assert (whole(IDS) - after).abs().max() < 5e-5 * after.abs().max()  # float32
    exact = model.double()
    assert (merged(exact)(IDS) - exact(IDS)).abs().max() < 1e-11 * after.abs().max()
    assert whole.state_dict().keys() == model_of(changes).state_dict().keys()


def test_the_forward_is_that_of_the_paper():
    """h = W x + b + (alpha / r) B A x, one number at a time. Hu et al. 2021, section 4.1."""
    model = model_of()
    adapt(model, Lora(2, 6.0, "qv"))
    fill(model)
    layer = model.blocks[1].attn.v
    x = torch.randn(model.config.d_model, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        found = layer(x)
    W, b, A, B = (each.detach().double().tolist() for each in (layer.base.weight, layer.base.bias, layer.a, layer.b))
    inner = [sum(w * v for w, v in zip(row, x.tolist(), strict=True)) for row in A]
    for at, value in enumerate(found.tolist()):
        base = b[at] + sum(w * v for w, v in zip(W[at], x.tolist(), strict=True))
        assert value == pytest.approx(base + 6.0 / 2 * sum(u * v for u, v in zip(B[at], inner, strict=True)), rel=1e-4)


def test_parameters_are_counted():
    """By hand: q of [H E, D] and v of [G E, D] in every block, rank 4."""
    model = model_of()
    c = model.config
    D, L, Q, V = c.d_model, c.n_layer, c.n_head * c.d_head, c.n_kv_head * c.d_head
    count = adapt(model, Lora(4, 8.0, "qv"))
    assert count == L * 4 * (D + Q + D + V) == adapted_parameters([(Q, D), (V, D)] * L, 4)
    assert sum(tensor.numel() for tensor in adapter_state(model).values()) == count
    assert [name.rpartition(".")[2] for name, _ in adapters(model)] == ["q", "v"] * L


def test_only_the_adapters_learn():
    model = model_of()
    adapt(model, Lora(2, 4.0, "all"))
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    recipe = Recipe(steps=2, batch=2, length=10, learning_rate=0.01, warmup=0)
    run = TrainingRun(model, torch.optim.AdamW(learned(model), lr=0.01))
    batch = loop.Batch(IDS[:, :-1].numpy(), IDS[:, 1:].numpy())
    list(loop.steps(run, recipe, lambda *_: batch))
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, kept[name])}
    assert changed == {f"{name}.{which}" for name, _ in adapters(model) for which in "ab"}


def test_the_same_seed_gives_the_same_adapters():
    first, second, other = model_of(), model_of(), model_of()
    for model, seed in ((first, 0), (second, 0), (other, 1)):
        adapt(model, Lora(2), seed)
    one, two, three = (adapter_state(model)["blocks.0.attn.q.a"] for model in (first, second, other))
    assert torch.equal(one, two) and not torch.equal(one, three)


def test_what_cannot_be_adapted_is_refused():
    with pytest.raises(InputError, match="does not have the matrices"):
        adapt(model_of({"mixer": "mamba", "positions": "none"}), Lora(matrices="qv"))
    for wrong in ({"rank": 0}, {"rank": 65}, {"alpha": 0.0}, {"alpha": float("nan")}, {"matrices": "x"}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            Lora(**wrong)
