"""MLP neurons: activations, what they write towards, and the survey, against the run and against numbers by hand."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from model.activations.neurons import (
    ACTIVE,
    EDGES,
    activation,
    is_active,
    layer_activations,
    promoted,
    ranked,
    survey,
    token_scores,
    write_lengths,
)
from model.errors import InputError
from model.gpt.edits import Edit
from model.gpt.layers import MLPS
from model.tracing.trace import run
from tests.support.models.helpers import (
    FEW_VARIANTS,
    OWN_LAYERS,
    VARIANTS,
    D,
    L,
    M,
    V,
    assert_close,
    random_ids,
    steer,
    tiny_model,
    tokens_of,
)

T = 9


def traced(variant="gpt2", length=T, edits=(), tap=None):
    model = tiny_model(VARIANTS[variant])
    return run(model, tokens_of(random_ids(1, length)[0]), model_id="tiny", edits=edits, tap=tap)


# --- activations ---


@pytest.mark.parametrize("edits", [(), (Edit("zero", 1, 2), Edit("first_token", 2, 0))], ids=["plain", "edited"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_activations_are_those_of_the_run(variant, edits):
    trace = traced(variant, edits=edits)
    for layer in range(L):
        found = layer_activations(trace, layer)
        assert (found.post == trace.mlp_activations(layer)).all() and found.post.shape == (T, M)
        gated = trace.config.mlp == "swiglu"
        assert (found.up is not None) == gated
        product = activation(trace.model, layer, found.pre) * (found.up if gated else 1)
        assert_close(found.post, product, 1e-6, "f(pre), times up where there is one")


@pytest.mark.parametrize("variant", VARIANTS)
def test_activations_read_what_the_block_reads(variant):
    """From the stream by hand: the parallel MLP reads resid_pre, the post-norm one resid_mid without a norm."""
    trace = traced(variant)
    block = trace.model.blocks[1]
    read = trace.residuals[1] if trace.config.parallel_residual else torch.from_numpy(trace.middle(1))
    with torch.no_grad():
        read = read if block.post_norm else block.norm2(read)
        up, gate = block.mlp.up(read), block.mlp.gate
        post = MLPS[trace.config.mlp](up if gate is None else gate(read)) * (1 if gate is None else up)
    assert_close(layer_activations(trace, 1).post, post, 2e-5)


def test_a_tap_of_the_run_reaches_the_activations():
    assert not np.allclose(layer_activations(traced(tap=steer), 1).post, layer_activations(traced(), 1).post)


@pytest.mark.parametrize("layer", [-1, L])
def test_a_layer_that_does_not_exist(layer):
    trace = traced()
    calls = (
        lambda: layer_activations(trace, layer),
        lambda: write_lengths(trace.model, layer),
        lambda: token_scores(trace.model, layer, [0]),
    )
    for call in calls:
        with pytest.raises(InputError, match="layer does not exist"):
            call()


@pytest.mark.parametrize(
    "kind,values", [("relu", [0, 0, 2]), ("gelu", [-0.158655, 0, 1.954500]), ("swiglu", [-0.268941, 0, 1.761594])]
)
def test_the_curves_at_three_points(kind, values):
    found = activation(tiny_model({"mlp": kind}), 1, np.array([-1.0, 0, 2]))
    assert found.dtype == np.float32 and found.tolist() == pytest.approx(values, abs=1e-6)


# --- order ---


def test_orders_by_hand():
    post = np.array([[1.0, -3, 2, 0], [5, 0.5, -2, 0]])
    lengths = np.array([1.0, 1, 2, 9])
    assert ranked(post, lengths, "here", 0).tolist() == [1, 2, 0, 3]
    assert ranked(post, lengths, "here", -1).tolist() == [0, 2, 1, 3]
    assert ranked(post, lengths, "prompt", 0).tolist() == [0, 1, 2, 3]
    assert ranked(post, lengths, "writes", 0).tolist() == [2, 1, 0, 3]
    assert ranked(np.ones((1, 3)), np.ones(3), "here", 0).tolist() == [0, 1, 2]  # of equals the smaller number


@pytest.mark.parametrize("order,position", [("nope", 0), (None, 0), ("here", 2), ("here", -3)])
def test_an_order_or_position_that_does_not_exist(order, position):
    with pytest.raises(InputError):
        ranked(np.ones((2, 3)), np.ones(3), order, position)


# --- what a neuron writes ---


def test_a_neuron_writes_its_column():
    """Turning one neuron off takes activation * W_out[:, neuron] away from what the MLP writes."""
    trace = traced()
    found = layer_activations(trace, 1)
    weight = trace.model.blocks[1].mlp.down.weight.detach().numpy()
    out = trace.sites(1, ["mlp_out"])["mlp_out"][0].numpy()
    bias = trace.model.blocks[1].mlp.down.bias.detach().numpy()
    assert_close(out, found.post @ weight.T + bias, 1e-5)
    assert_close(write_lengths(trace.model, 1), np.sqrt((weight**2).sum(0)), 1e-6)


def by_hand(model, layer, neuron):
    """Scores of all tokens with plain loops over the norms on the way, in float64."""
    v = model.blocks[layer].mlp.down.weight[:, neuron].detach().double().numpy()
    norms = []
    if model.config.norm_placement == "post":
        norms.append(model.blocks[layer].norm2)
        for block in list(model.blocks)[layer + 1 :]:
            norms += [block.norm1, block.norm2]
    if model.final_norm is not None:
        norms.append(model.final_norm)
    for norm in norms:
        if model.config.norm == "layernorm":
            v = v - v.mean()
        v = v * norm.weight.detach().double().numpy()
    return model.unembed.weight.detach().double().numpy() @ v


@pytest.mark.parametrize("variant", FEW_VARIANTS)
@pytest.mark.parametrize("layer", range(L))
def test_top_tokens_are_those_of_brute_force(variant, layer):
    model = tiny_model(VARIANTS[variant])
    found = promoted(model, layer, [7, 0], most=5)
    for n, neuron in enumerate((7, 0)):
        scores = by_hand(model, layer, neuron)
        assert_close(token_scores(model, layer, [neuron])[0], scores, 1e-5)
        assert found.up[n].tolist() == np.argsort(-scores)[:5].tolist()
        assert found.down[n].tolist() == np.argsort(scores)[:5].tolist()
        assert_close(found.up_scores[n], scores[found.up[n]], 1e-5)
        assert_close(found.down_scores[n], scores[found.down[n]], 1e-5)


@pytest.mark.parametrize("layer", [0, 3])
def test_scores_where_layers_multiply_the_stream_and_differ_in_width(layer):
    """Gemma 4: the gain of the norm after the MLP, the numbers of this and of later layers, the final gain."""
    model = tiny_model(OWN_LAYERS["gemma4 E2B"])
    v = model.blocks[layer].mlp.down.weight[:, 7].detach().double() * model.blocks[layer].after2.weight.double()
    for block in model.blocks[layer:]:
        v = v * block.scale.double()
    scores = (v * model.final_norm.weight.double()) @ model.unembed.weight.double().T
    assert_close(token_scores(model, layer, [7])[0], scores.detach().numpy(), 1e-5)
    width = model.config.d_mlp_shared if layer == 3 else model.config.d_mlp
    assert layer_activations(run(model, tokens_of(random_ids(1, T)[0])), layer).post.shape == (T, width)
    assert promoted(model, layer, [width - 1]).up.shape == (1, 8)
    with pytest.raises(InputError, match="This neuron does not exist"):
        promoted(model, layer, [width])


@pytest.mark.parametrize("variant", ["gpt2", "llama", "mqa"])
def test_scores_are_what_a_little_more_of_the_neuron_does_to_the_logits(variant):
    """In the last layer, with the final norm's divisor held: the change of all logits is the score over the divisor."""
    trace = traced(variant)
    model, neuron, small = trace.model, 11, 1e-3
    before = trace.residuals[-1].double()
    after = before + small * model.blocks[-1].mlp.down.weight[:, neuron].detach().double()

    def logits(x):
        if model.final_norm is None:
            return x @ model.unembed.weight.double().T, 1.0
        norm, centered = model.final_norm, trace.config.norm == "layernorm"
        held = before - before.mean(-1, keepdim=True) if centered else before
        scale = (held.square().mean(-1, keepdim=True) + norm.eps).sqrt()
        x = x - x.mean(-1, keepdim=True) if centered else x
        return (x / scale * norm.weight.double()) @ model.unembed.weight.double().T, scale

    change = (logits(after)[0] - logits(before)[0]) / small * logits(before)[1]
    assert_close(change.detach(), np.tile(token_scores(model, L - 1, [neuron]), (T, 1)), 1e-5)


def test_ids_that_no_token_has_are_left_out_and_ties_go_to_the_smaller_id():
    model = tiny_model()
    found = promoted(model, 0, [3], most=60, vocab=20)
    assert sorted(found.up[0]) == list(range(20)) and found.up.shape == found.down.shape == (1, 20)
    with torch.no_grad():
        model.blocks[0].mlp.down.weight.zero_()
    assert promoted(model, 0, [3], most=4).up[0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("neuron", [-1, M])
def test_a_neuron_that_does_not_exist(neuron):
    with pytest.raises(InputError, match="neuron does not exist"):
        promoted(tiny_model(), 0, [0, neuron])


# --- survey ---


def test_active_by_hand():
    post = np.array([[3.0, 4, 0, 0.2], [0, 0, 0, 0], [-3, -0.1, 0, 4]], np.float32)
    assert is_active(post, "relu").tolist() == [[1, 1, 0, 1], [0, 0, 0, 0], [0, 0, 0, 1]]
    # Root mean squares are 2.502, 0 and 2.500; a tenth of them is the least.
    assert pytest.approx(0.1) == ACTIVE
    assert is_active(post, "gelu").tolist() == [[1, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 1]]


def test_neurons_that_are_never_active_by_hand():
    """ReLU with three of M = 100 neurons alive, by their biases alone: +1, +1 and +0.015."""
    model = tiny_model({"mlp": "relu"})
    with torch.no_grad():
        for block in model.blocks:
            block.mlp.up.weight.zero_()
            block.mlp.up.bias.fill_(-1.0)
            block.mlp.up.bias[:3] = torch.tensor([1.0, 1.0, 0.015])
    found = survey(run(model, tokens_of([1, 2, 3, 4])))
    assert found.never.tolist() == pytest.approx([0.97] * L) and found.active.tolist() == pytest.approx([0.03] * L)
    assert found.quiet.tolist() == pytest.approx([0.98] * L)  # 0.015 is below the root mean square
    assert found.largest.tolist() == [1.0] * L and found.place.tolist() == [[0, 0]] * L
    used = np.flatnonzero(found.counts[0])
    # 0 lies in the bin around 0, 0.015 in the next one, 1 in that from 1 to 2: half-open to the right.
    assert [(EDGES[n], found.counts[0, n]) for n in used] == [(-0.01, 4 * 97), (0.01, 4), (1.0, 8)]


def test_edges_rise_and_are_symmetric():
    assert (np.diff(EDGES) > 0).all() and (-EDGES[::-1] == EDGES).all() and len(EDGES) == 34
    assert EDGES[18:22].tolist() == pytest.approx([0.02, 0.05, 0.1, 0.2]) and EDGES[-2:].tolist() == [1000, np.inf]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("length", [1, T])
def test_the_survey_counts_what_the_layers_hold(variant, length):
    trace = traced(variant, length, edits=(Edit("zero", 0, 1),))
    found = survey(trace)
    assert found.counts.sum(1).tolist() == [length * M] * L
    for layer in range(L):
        post = trace.mlp_activations(layer)
        on = is_active(post, trace.config.mlp)
        assert found.never[layer] == pytest.approx((~on).all(0).mean())
        assert found.active[layer] == pytest.approx(on.mean())
        assert found.never[layer] <= found.quiet[layer] <= 1 or trace.config.mlp == "relu"
        assert abs(found.largest[layer]) == np.abs(post).max() == abs(post[tuple(found.place[layer])])
        above = [(post >= low).sum() - (post >= high).sum() for low, high in pairwise(EDGES)]
        assert found.counts[layer].tolist() == above


def test_activations_beyond_the_edges_are_counted():
    trace = traced()
    with torch.no_grad():
        trace.model.blocks[1].mlp.up.bias[:2] = torch.tensor([5000.0, 1000.0])
        trace.model.blocks[1].mlp.up.weight[:2] = 0
    counts = survey(trace).counts
    assert counts[1, -1] == 2 * T and counts.sum(1).tolist() == [T * M] * L


def test_the_survey_tells_how_far_it_is_and_can_be_stopped():
    told = []
    survey(traced(), lambda *step: told.append(step))
    assert told == [(layer, L, "Reading neurons") for layer in range(L)]

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        survey(traced(), stop)


def test_sizes_all_differ():
    assert len({T, L, D, M, V}) == 5
