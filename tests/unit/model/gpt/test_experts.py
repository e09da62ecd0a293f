"""A mixture of experts: by hand, against each expert as an MLP of its own, and what refuses to read one."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from model.activations.routing import routing
from model.anatomy import anatomy, flops
from model.anatomy.flops import PassSize
from model.anatomy.footprint import kept_bytes, weights_bytes
from model.errors import InputError
from model.gpt.cache import KVCache
from model.gpt.edit_checks import check_edits
from model.gpt.edits import Edit
from model.gpt.experts import Experts, balance_loss, capacity, entropy, load, route
from model.gpt.passes import Pass, attend_fused
from model.gpt.tap import record
from model.gpt.transformer import MLP, Transformer
from model.loading.checkpoint import build, load_folder, save_folder
from model.tracing.trace import run
from tests.support.models.helpers import D, L, assert_close, random_ids, tiny_config, tiny_model, tokens_of
from tests.support.models.rounding import logits_within

N, K = 5, 2
KINDS = {
    "swiglu": {"mlp": "swiglu", "mlp_bias": False, "norm": "rmsnorm", "positions": "rope"},
    "biases": {"mlp": "gelu_tanh"},
    "post": {"mlp": "relu", "norm_placement": "post"},
    "one": {"mlp": "gelu", "experts_per_token": 1},
    "all": {"mlp": "gelu", "experts_per_token": N},
}


def mixture(kind: str = "biases", **changes) -> Transformer:
    return tiny_model({"n_expert": N, "experts_per_token": K, **KINDS[kind], **changes})


def logits_of(rows: list[list[float]]) -> Tensor:
    return torch.tensor(rows).log()


# --- routing ---


def test_the_two_likeliest_share_the_weight_in_proportion():
    chosen = route(logits_of([[0.1, 0.6, 0.3], [0.5, 0.1, 0.4]]), 2)
    assert chosen.experts.tolist() == [[1, 2], [0, 2]]
    assert_close(chosen.weights, [[2 / 3, 1 / 3], [5 / 9, 4 / 9]], 1e-6)
    assert_close(chosen.probabilities, [[0.1, 0.6, 0.3], [0.5, 0.1, 0.4]], 1e-6)
    assert chosen.kept.all()


def test_a_single_expert_has_its_probability_as_weight():
    """Divided by their sum it would be 1 whatever the router says, and nothing would teach it."""
    logits = logits_of([[0.1, 0.6, 0.3]]).requires_grad_()
    chosen = route(logits, 1)
    assert_close(chosen.weights, [[0.6]], 1e-6)
    assert torch.autograd.grad(chosen.weights.sum(), logits)[0].abs().max() > 0.1


def test_sparsemixer_weighs_an_expert_against_those_near_it():
    """Of 2, 1.97 and 1, the second is 1.5% below the first, the third 50% below the first and 49% below the second."""
    logits = torch.tensor([[2.0, 1.97, 1.0], [-1.0, -3.0, -1.01]])
    chosen = route(logits, 2, divide=False, jitter=0.01)
    assert chosen.experts.tolist() == [[0, 1], [0, 2]]
    near, below = 1 / (1 + math.exp(-0.03)), 1 / (1 + math.exp(-0.01))
    assert_close(chosen.weights, [[near, 1.0], [below, 1.0]], 1e-6)
    wide = route(logits[:1], 2, divide=False, jitter=0.26).weights  # all are near the first, two the second
    assert_close(wide, [[math.exp(2) / (math.exp(2) + math.exp(1.97) + math.e), 1 / (1 + math.exp(-0.97))]], 1e-6)


def test_weights_are_divided_by_a_sum_with_an_addend_and_scaled_by_expert():
    chosen = route(logits_of([[0.1, 0.6, 0.3]]), 2, eps=0.3, scales=torch.tensor([7.0, 2.0, 0.5]))
    assert_close(chosen.weights, [[2 * 0.6 / 1.2, 0.5 * 0.3 / 1.2]], 1e-6)
    assert_close(chosen.probabilities, [[0.1, 0.6, 0.3]], 1e-6)


OWN = {"expert_norms": True, "expert_scales": True, "d_shared": 11, "norm_placement": "sandwich"}


def test_gains_of_router_experts_and_the_mlp_beside_them():
    """The norm before them has no gain. A gain of 0 for the experts leaves the MLP beside them, and the reverse."""
    model = mixture("swiglu", **OWN)
    layer, x = model.blocks[1].mlp, torch.randn(1, 7, D, generator=torch.Generator().manual_seed(0))
    assert "weight" not in dict(model.blocks[1].norm2.named_parameters())
    plain = Pass(None, attend_fused)
    with torch.inference_mode():
        logits = layer.router(x[0] * layer.router_gain / D**0.5)
        chosen = layer.route(logits)
        wanted = torch.zeros(7, D)
        for row in range(7):
            for expert, weight in zip(chosen.experts[row].tolist(), chosen.weights[row].tolist(), strict=True):
                wanted[row] += weight * layer.experts.one(expert, x[0, row] * layer.experts_gain)
        beside = layer.shared(x[0] * layer.shared_gain, 1, plain)
        expected = layer.experts_after(wanted) + layer.shared_after(beside)
        assert_close(layer(x, 1, plain)[0], expected, 1e-5)


@pytest.mark.parametrize(
    "changes", [OWN, {"mlp": "xielu", "n_expert": 1, "experts_per_token": 1}], ids=["own", "xielu"]
)
def test_weights_of_their_own_are_saved(changes, tmp_path):
    model = mixture("swiglu", **changes)
    save_folder(tmp_path, model)
    config, state = load_folder(tmp_path)
    assert config == model.config and state.keys() >= {name for name, _ in model.named_parameters() if "mlp" in name}
    assert all(torch.equal(state[name], tensor) for name, tensor in model.named_parameters())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (OWN | {"d_shared": None}, "beside a shared MLP"),
        (OWN | {"norm_placement": "output"}, "a norm before the MLP"),
        (OWN | {"dense": (1,)}, "in every layer"),
        ({"mlp": "xielu"}, "a single MLP"),
        ({"router_scores": "sparsemixer"}, "not divided by their sum"),
        ({"router_jitter": -0.1}, "router_jitter must be at least 0"),
        ({"divide_eps": -1e-6}, "divide_eps must be at least 0"),
    ],
)
def test_fields_of_experts_that_do_not_go_together(changes, message):
    with pytest.raises(ValueError, match=message):
        tiny_config({"n_expert": N, "experts_per_token": K, **KINDS["swiglu"], **changes})


def test_a_full_expert_drops_later_rows_and_second_choices_first():
    """4 tokens, 2 choices each, 3 experts: an even share is 8/3, with a factor of 0.7 an expert takes 2."""
    assert capacity(4, 3, 2, 0.7) == 2
    first = [[0.5, 0.4, 0.1], [0.1, 0.5, 0.4], [0.4, 0.5, 0.1], [0.4, 0.5, 0.1]]
    chosen = route(logits_of(first), 2, 0.7)
    # Expert 1 is the first choice of rows 1, 2 and 3, and the second of row 0, which comes after all first ones.
    assert chosen.experts.tolist() == [[0, 1], [1, 2], [1, 0], [1, 0]]
    assert chosen.kept.tolist() == [[True, False], [True, True], [True, True], [False, False]]
    assert_close(chosen.weights.sum(-1), torch.ones(4), 1e-6)  # what is left is not scaled up


def test_load_balance_and_entropy_by_hand():
    even = torch.zeros(4, 4)
    each = 5 * torch.eye(4)
    assert_close(balance_loss(each, 1), 1.0, 1e-6)
    assert_close(balance_loss(torch.tensor([[30.0, 0, 0, 0]] * 7), 1), 4.0, 1e-6)
    assert_close(entropy(even.softmax(-1)), [math.log(4)] * 4, 1e-6)
    assert entropy(torch.tensor([1.0, 0.0])) == 0
    assert_close(load(torch.tensor([[0, 2], [2, 1]]), 4), [0.25, 0.25, 0.5, 0.0], 1e-7)
    # f = (3/4, 1/4), P = (0.6, 0.4): 2 (0.45 + 0.1)
    rows = logits_of([[0.7, 0.3], [0.7, 0.3], [0.6, 0.4], [0.4, 0.6]])
    assert_close(balance_loss(rows, 1), 2 * (0.75 * 0.6 + 0.25 * 0.4), 1e-6)


def test_the_balance_loss_pushes_the_busiest_expert_down():
    logits = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 0.5]], requires_grad=True)
    (gradient,) = torch.autograd.grad(balance_loss(logits, 1), logits)
    assert (gradient[:, 0] > 0).all() and (gradient[:, 1] < 0).all()


# --- the layer ---


def by_hand(layer: Experts, model: Transformer, x: Tensor) -> Tensor:
    """Every expert as a dense MLP of its own, a token at a time, in double precision. [T, D] -> [T, D]"""
    config = dataclasses.replace(model.config, n_expert=1, experts_per_token=1)
    dense = []
    for expert in range(model.config.n_expert):
        mlp = MLP(config).double()
        for name, parameter in mlp.named_parameters():
            parameter.data = layer.experts.get_parameter(name)[expert].double()
        dense.append(mlp)
    out = []
    for row in x.double():
        share = (layer.router.weight.double() @ row).softmax(-1)
        chosen = sorted(range(len(share)), key=lambda i: -share[i])[: layer.k]
        total = sum(share[i] for i in chosen) if layer.k > 1 else 1.0
        run = model.prepare(0, 1)
        out.append(sum(share[i] / total * dense[i](row[None, None], 0, run)[0, 0] for i in chosen))
    return torch.stack(out)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_the_output_is_the_weighted_sum_of_the_chosen_mlps(kind: str):
    model = mixture(kind)
    layer, x = model.blocks[1].mlp, 3 * torch.randn(1, 23, D, generator=torch.Generator().manual_seed(2))
    expected = by_hand(layer, model, x[0])
    assert_close(layer(x, 1, model.prepare(0, 23))[0], expected, 1e-5 * float(expected.abs().max()))
    assert len(route(layer.router(x[0]), layer.k).experts.unique()) == N


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_cached_tapped_and_joined_forwards_agree_with_the_plain_one(kind: str):
    model, ids = mixture(kind, capacity_factor=0.5), random_ids(2, 17)
    bound, plain = logits_within(model, ids), model(ids)
    cache, parts = KVCache.empty(model.config, 2, 17), []
    for part in ids.split([5, 1, 1, 10], 1):
        parts.append(model(part, cache=cache))
    assert_close(torch.cat(parts, 1), plain, bound, "with a cache")
    assert_close(model(ids, tap=lambda site, layer, x: x), plain, bound, "with a tap")
    model.join()
    assert_close(model(ids), plain, bound, "joined")


def test_only_training_drops_tokens():
    model, ids = mixture(capacity_factor=0.3), random_ids(1, 17)
    whole = model(ids)
    dropped = model.train()(ids)
    assert (whole - dropped).abs().max() > 0.1
    endless = tiny_model({"n_expert": N, "experts_per_token": K, **KINDS["biases"]})
    assert torch.equal(endless.train()(ids), whole)


def test_one_expert_is_the_dense_mlp_and_nothing_else():
    names = {name for name, _ in Transformer(tiny_config({"n_expert": 1})).named_parameters()}
    assert names == {name for name, _ in Transformer(tiny_config()).named_parameters()}
    assert all(type(block.mlp) is MLP for block in Transformer(tiny_config()).blocks)


@pytest.mark.parametrize(
    "changes",
    [
        {"n_expert": 0},
        {"n_expert": 2, "experts_per_token": 3},
        {"experts_per_token": 2},
        {"capacity_factor": 0.0},
        {"capacity_factor": float("nan")},
        {"capacity_factor": "1"},
        {"n_expert": True},
        {"n_expert": 1 << 40},
    ],
)
def test_impossible_mixtures_are_refused(changes: dict):
    with pytest.raises(ValueError, match=r"expert|capacity"):
        tiny_config(changes)


def test_a_saved_mixture_is_read_back(tmp_path):
    model = mixture("swiglu", capacity_factor=1.25)
    save_folder(tmp_path, model)
    again = build(*load_folder(tmp_path))
    assert again.config == model.config
    assert torch.equal(again(random_ids(1, 9)), model(random_ids(1, 9)))


def test_a_new_mixture_starts_as_the_dense_model_does():
    model = Transformer(tiny_config({"n_expert": N, "experts_per_token": K}))
    mlp = model.blocks[0].mlp
    small = 0.02 / math.sqrt(2 * L)
    for parameter, wanted in (
        (mlp.router.weight, 0.02),
        (mlp.experts.up.weight, 0.02),
        (mlp.experts.down.weight, small),
    ):
        assert abs(parameter.std().item() / wanted - 1) < 0.2
    assert not mlp.experts.up.bias.any() and not mlp.experts.down.bias.any()


# --- a run ---


def test_the_routing_of_a_run_is_what_its_routers_said():
    model, ids = mixture(), random_ids(1, 19)
    found = routing(run(model, tokens_of(ids[0].tolist())), capacity_factor=0.6)
    store: dict = {}
    with torch.inference_mode():
        model(ids, tap=record({"router"}, store))
    assert found.experts.shape == found.weights.shape == found.dropped.shape == (L, 19, K)
    for layer in range(L):
        share = store["router", layer][0].softmax(-1)
        top = share.sort(-1, descending=True)
        assert found.experts[layer].tolist() == top.indices[:, :K].tolist()
        two = top.values[:, :K]
        assert_close(found.weights[layer], two / two.sum(-1, keepdim=True), 1e-4)
        assert_close(found.entropy[layer], -(share * share.log()).sum(-1), 1e-3)
        counts = torch.tensor([(found.experts[layer] == expert).sum() for expert in range(N)])
        assert_close(found.load[layer], counts / (19 * K), 1e-6)
        most = math.ceil(0.6 * 19 * K / N)
        kept = [((found.experts[layer] == expert) & ~found.dropped[layer]).sum() for expert in range(N)]
        assert kept == [min(count, most) for count in counts.tolist()]
    assert found.dropped.any() and not routing(run(model, tokens_of(ids[0].tolist()))).dropped.any()


def test_routing_skips_layers_without_experts_and_keeps_weights_that_are_not_divided():
    changes = {"n_expert": N, "experts_per_token": K, "dense": (1,), "divide_weights": False, "d_expert": 20}
    found = routing(run(tiny_model(changes), tokens_of([1, 2, 3, 4])))
    assert found.layers == (0, 2) and found.experts.shape == (2, 4, K)
    chosen = np.take_along_axis(found.probabilities, found.experts, -1)
    assert_close(found.weights, chosen, 1e-6)
    assert found.weights.sum(-1).max() < 0.999


def test_a_dense_model_has_no_routing():
    with pytest.raises(InputError, match="no experts"):
        routing(run(tiny_model(), tokens_of([1, 2, 3])))


# --- counted ---


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_and_products_are_counted(kind: str):
    model = mixture(kind)
    config = model.config
    listed = {weight.name: weight.shape for weight in anatomy.weights(config)}
    assert listed == {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    assert weights_bytes(config) == 4 * anatomy.n_params(config)
    with torch.no_grad(), flops.Counter() as counter:
        prepared = model.prepare(0, 13, tap=lambda site, layer, x: x)
        x = model.embed_tokens(random_ids(1, 13), 0, prepared)
        for layer, block in enumerate(model.blocks):
            x = block(x, layer, prepared)
        model.logits(x)
    assert sum(counter.flops.values()) == flops.total(flops.operations(config, PassSize(13, 13, 13)))
    one = {w.name: w.size for w in anatomy.weights(config) if w.layer is not None and w.name.endswith(".weight")}
    share = {name: size * config.experts_per_token // N if ".experts." in name else size for name, size in one.items()}
    assert flops.matrix_params(config) == sum(size for name, size in share.items() if "norm" not in name)


# --- what reads one MLP ---


@pytest.mark.parametrize(
    "read",
    [
        lambda model: model.blocks[0].mlp.down.weight,
        lambda model: model.blocks[0].mlp.gate,
        lambda model: kept_bytes(model.config, 1, 5),
        lambda model: flops.counted(model.config, PassSize(1, 1)),
        lambda model: check_edits([Edit("neuron_zero", layer=0, neuron=1)], model.config, 5),
        lambda model: run(model, tokens_of([1, 2, 3])).mlp_activations(0),
    ],
)
def test_what_reads_one_mlp_refuses_in_plain_words(read):
    with pytest.raises(InputError, match=r"several experts|no such site"):
        read(mixture())


def test_an_edit_of_the_whole_mlp_still_works():
    model, tokens = mixture(), tokens_of([1, 2, 3, 4])
    plain = run(model, tokens)
    edited = plain.edit(Edit("mlp_scale", layer=1, factor=0.0))
    assert (edited.hidden(2) == edited.middle(1)).all() and (plain.hidden(2) != plain.middle(1)).any()
