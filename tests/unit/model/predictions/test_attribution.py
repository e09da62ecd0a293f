"""The parts of a logit add up to it, in every wiring, and each is what the logit loses without it."""

import numpy as np
import pytest
import torch

from model.errors import InputError
from model.gpt.edits import Edit
from model.gpt.placed_vectors import vector_of
from model.gpt.tap import compose, identity
from model.gpt.transformer import Transformer
from model.predictions.attribution import Components, attribute, by_source, components, promoted
from model.tracing.trace import Trace, run
from tests.support.models.edited import VECTOR
from tests.support.models.helpers import (
    ALL_VARIANTS,
    FEW_VARIANTS,
    VARIANTS,
    D,
    H,
    L,
    V,
    assert_close,
    force,
    random_ids,
    tiny_model,
    tokens_of,
)
from tests.support.models.mixtures import MIXTURES
from tests.support.models.rounding import logits_within, sums, within
from tests.support.models.two_runs import EDITS

T = 13
IDS = random_ids(1, T, seed=5)[0]
TOKEN, OTHER = 7, 31
STREAM = (
    Edit("zero", 0, 1),
    Edit("mlp_scale", 0, factor=2.0),
    Edit("mlp_mean", 1),
    Edit("add_direction", 1, token=5, factor=4.0),
    Edit("neuron_value", 2, neuron=17, value=3.0),
    Edit("project_out", 2, token=TOKEN),
)
VECTORS = (
    Edit("add_vector", 0, factor=2.0, site="resid_mid", vector=VECTOR),
    Edit("add_vector", 1, factor=0.5, site="resid_pre", vector=VECTOR),
    Edit("add_vector", 2, factor=-1.0, site="resid_mid", vector=VECTOR, positions="3-"),
)

MORE = MIXTURES | {"no mlp": {"norm": "rmsnorm", "positions": "rope", "mlp": "none", "mlp_bias": False}}


def traced(name: str, edits: tuple[Edit, ...] = (), length: int = T) -> Trace:
    return run(tiny_model((ALL_VARIANTS | MORE)[name]), tokens_of(IDS[:length]), edits=edits)


def off(trace: Trace, found) -> float:
    """How far the sum of the parts may be from the logit: both are float32 computations of it, and the parts a sum."""
    logits = logits_within(trace.model, torch.from_numpy(trace.tokens.ids)[None], trace.tap)[0, found.position]
    parts = found.parts()["value"].abs()
    return float(logits + sums(len(parts), parts.sum()))


def parts_of(trace: Trace, position: int, token: int = TOKEN, distractor: int | None = None):
    return attribute(components(trace, position), trace.model, token, distractor)


# --- adding up ---


@pytest.mark.parametrize("edits", [(), EDITS, STREAM, VECTORS], ids=["unedited", "edited", "stream", "vectors"])
@pytest.mark.parametrize("name", [*FEW_VARIANTS, "gemma", "olmo", "gptj", "bloom", "oss"])
def test_the_parts_add_up_to_the_logit(name: str, edits: tuple[Edit, ...]):
    trace = traced(name, edits)
    for position in (0, 6, 9, T - 1):
        found = parts_of(trace, position)
        rounding = off(trace, found)
        cap = trace.config.logit_cap
        shown = found.logit if cap is None else cap * np.tanh(found.logit / cap)
        assert shown == pytest.approx(float(trace.logits_at(position)[TOKEN]), abs=0 if cap is None else 1e-6)
        assert found.gap == found.total - found.logit
        assert abs(found.gap) <= rounding, position
        pair = parts_of(trace, position, TOKEN, OTHER)
        rounding += off(trace, parts_of(trace, position, OTHER))
        assert pair.logit == pytest.approx(found.logit - parts_of(trace, position, OTHER).logit)
        assert abs(pair.gap) <= rounding, position


@pytest.mark.parametrize("edits", [(), EDITS[:1]], ids=["unedited", "edited"])
@pytest.mark.parametrize("name", MORE)
def test_the_experts_of_a_layer_are_one_part(name: str, edits: tuple[Edit, ...]):
    found, outputs = parts_of(trace := traced(name, edits), 6), components(trace, 6)
    assert abs(found.gap) <= off(trace, found)
    assert outputs.whole == tuple(layer for layer in range(L) if layer not in trace.config.dense)
    for layer in outputs.whole:
        assert found.mlp_bias is None or found.mlp_bias[layer] == 0
        assert_close(outputs.mlp[layer], trace.sites(layer, ["mlp_out"])["mlp_out"][0, 6], 1e-4)


@pytest.mark.parametrize("name", VARIANTS)
def test_what_an_edit_adds_to_the_stream_is_a_part(name: str):
    trace = traced(name, STREAM)
    found, outputs = parts_of(trace, 6), components(trace, 6)
    row = trace.model.unembed.weight[5].detach()
    assert set(outputs.added) == {1, 2} and outputs.whole == (0, 1)
    assert_close(outputs.added[1], 4 * row / row.norm(), 1e-5)
    assert found.edits[0] == 0 and np.abs(found.edits[1:]).min() > 1e-3
    table = found.parts().set_index(["kind", "layer"])["value"]
    assert table["edit"].tolist() == found.edits.tolist()
    if found.mlp_bias is not None:
        assert found.mlp_bias[:2].tolist() == [0, 0] and found.mlp_bias[2] != 0
    assert "edit" not in set(parts_of(traced(name, EDITS), 6).parts()["kind"])


def test_a_vector_after_the_attention_is_a_part_of_the_stream_that_leaves_the_layer():
    found = components(traced("llama", VECTORS), 6)
    assert set(found.added) == {0, 2}
    assert_close(found.added[0], 2.5 * vector_of(VECTOR), 1e-5)
    assert_close(found.added[2], -vector_of(VECTOR), 1e-5)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_difference_is_the_difference_of_the_parts(name: str):
    found = components(traced(name), 8)
    model = traced(name).model
    one, other, pair = (attribute(found, model, *ids) for ids in ((TOKEN,), (OTHER,), (TOKEN, OTHER)))
    frames = [each.parts() for each in (one, other, pair)]
    assert frames[0][["kind", "layer", "head"]].equals(frames[2][["kind", "layer", "head"]])
    assert_close(frames[2]["value"], frames[0]["value"] - frames[1]["value"], 1e-12)


@pytest.mark.parametrize("name", VARIANTS)
def test_one_token_alone(name: str):
    trace = traced(name, length=1)
    found = parts_of(trace, 0)
    assert abs(found.gap) <= off(trace, found)
    for head in range(H):
        assert_close(by_source(trace, 1, head, 0, found.directions[1]), found.heads[1, head : head + 1], 2e-6)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_fast_way_is_the_whole_block(name: str):
    trace, sites = traced(name), ["z", "mlp_out", "norm1_scale", "norm2_scale"]
    bound = within(trace.model, IDS[None], sites=sites)
    for position in (0, 1, 6, T - 1):
        found = components(trace, position)
        for layer in range(L):
            at = trace.sites(layer, sites)
            assert_close(found.z[layer], at["z"][0, :, position], bound["z", layer][0, :, position], "z")
            bias = trace.model.blocks[layer].mlp.down.bias
            out = found.mlp[layer] if bias is None else found.mlp[layer] + bias
            assert_close(out, at["mlp_out"][0, position], bound["mlp_out", layer][0, position], "MLP")
            for norm in ("norm1", "norm2"):
                scale = at[f"{norm}_scale"][0, position, 0]
                apart = float(bound[f"{norm}_scale", layer][0, position])
                assert found.scales[norm, layer] == pytest.approx(float(scale), abs=apart)
        assert components(trace, position - T).position == position


@pytest.mark.parametrize("name", ALL_VARIANTS)
def test_a_model_has_the_parts_it_has_weights_for(name: str):
    trace = traced(name)
    c, kinds = trace.config, set(parts_of(trace, 4).parts()["kind"])
    wanted = {"embedding", "head", "mlp"}
    wanted |= {"position"} if c.positions in ("learned", "sinusoidal") else set()
    wanted |= {"o_bias"} if c.o_bias else set()
    wanted |= {"mlp_bias"} if c.mlp_bias else set()
    biased = c.norm == "layernorm" and c.norm_bias
    wanted |= {"norm1_bias", "norm2_bias"} if biased and c.norm_placement == "post" else set()
    wanted |= {"final_bias"} if biased and c.final_norm else set()
    wanted |= {"embed_norm_bias"} if biased and c.embed_norm else set()
    wanted |= {"head_bias"} if c.head_bias else set()
    assert kinds == wanted


def test_shapes_and_order_of_the_parts():
    found = parts_of(traced("gpt2"), 5)
    frame = found.parts()
    assert found.heads.shape == (L, H) and found.mlps.shape == (L,) and found.directions.shape == (L, D)
    assert found.heads.dtype == found.mlps.dtype == np.float64
    assert frame["kind"].tolist()[:3] == ["embedding", "position", "head"]
    assert frame["kind"].tolist()[-1] == "final_bias" and len(frame) == 2 + L * (H + 3) + 1
    assert frame["layer"].is_monotonic_increasing and frame["layer"].iloc[-1] == L
    assert frame[frame["kind"] == "head"]["value"].to_numpy().reshape(L, H).tolist() == found.heads.tolist()


# --- another way: take a part out and keep every norm's divisor ---


def frozen(scales: dict[tuple[str, int], torch.Tensor]):
    """A tap by which norms divide by what they divided by before."""

    def tap(site: str, layer: int, x: torch.Tensor) -> torch.Tensor:
        return scales.get((site, layer), x)

    return tap


@torch.no_grad()
def logit_without(trace: Trace, layer: int, head: int | None, position: int) -> float:
    """The logit where one part's output at one position is missing from the stream and nothing else moves.

    Sublayers are handed what they wrote before, so only the direct path is left; norms divide by what they did.
    """
    names = ("norm1_scale", "norm2_scale", "final_scale", "attn_out", "mlp_out")
    kept: dict = {}

    def keep(site: str, at: int, x: torch.Tensor) -> torch.Tensor:
        if site in names:
            kept[site, at] = x
        elif site == "z" and at == layer:
            kept["z"] = x
        elif site == "mlp_post" and at == layer:
            kept["mlp_post"] = x
        return x

    ids = torch.from_numpy(trace.tokens.ids)[None]
    trace.model(ids, tap=compose(trace.tap or identity, keep))
    block, changed = trace.model.blocks[layer], dict(kept)
    if head is None:
        out = kept["mlp_post"] @ block.mlp.down.weight.T
        changed["mlp_out", layer] = kept["mlp_out", layer].clone()
        changed["mlp_out", layer][0, position] -= out[0, position]
    else:
        E = trace.config.d_head
        out = kept["z"][:, head] @ block.attn.o.weight[:, head * E : (head + 1) * E].T
        changed["attn_out", layer] = kept["attn_out", layer].clone()
        changed["attn_out", layer][0, position] -= out[0, position]
    return float(trace.model(ids, tap=frozen(changed))[0, position, TOKEN])


@pytest.mark.parametrize("edits", [(), EDITS], ids=["unedited", "edited"])
@pytest.mark.parametrize("name", VARIANTS)
def test_without_a_part_the_logit_falls_by_that_part(name: str, edits: tuple[Edit, ...]):
    trace = traced(name, edits)
    for position in (9, T - 1):
        found = parts_of(trace, position)
        for layer in range(L):
            for head in (0, 2, 3):
                lost = found.logit - logit_without(trace, layer, head, position)
                assert found.heads[layer, head] == pytest.approx(lost, abs=3e-5), (layer, head)
            lost = found.logit - logit_without(trace, layer, None, position)
            assert found.mlps[layer] == pytest.approx(lost, abs=3e-5), layer
    assert np.abs(found.heads[0]).max() > 1e-3  # a hundred times what the two may differ by


# --- by source token ---


@pytest.mark.parametrize("name", ALL_VARIANTS)
def test_the_sources_add_up_to_the_head(name: str):
    trace = traced(name)
    for position in (0, 5, T - 1):
        found = parts_of(trace, position)
        for layer in range(L):
            for head in range(H):
                sources = by_source(trace, layer, head, position, found.directions[layer])
                assert sources.shape == (T,) and (sources[position + 1 :] == 0).all()
                assert sources.sum() == pytest.approx(found.heads[layer, head], abs=3e-6)


def test_a_head_with_one_source_takes_all_from_it():
    trace = traced("gpt2", (Edit("first_token", 1, 2),))
    found = parts_of(trace, T - 1)
    sources = by_source(trace, 1, 2, T - 1, found.directions[1])
    assert sources[0] == pytest.approx(found.heads[1, 2], abs=3e-6) and abs(sources[0]) > 1e-3
    assert (sources[1:] == 0).all()


@pytest.mark.parametrize("name", VARIANTS)
def test_a_source_is_weight_times_value(name: str):
    trace = traced(name)
    u = parts_of(trace, 7).directions[2]
    pattern, v = trace.pattern(2, 3)[7].astype(float), trace.qkv(2, 3).v.astype(float)
    E = trace.config.d_head
    written = v @ trace.model.blocks[2].attn.o.weight.detach().numpy()[:, 3 * E :].T.astype(float)  # [T, D]
    assert_close(by_source(trace, 2, 3, 7, u), pattern * (written @ u), 3e-6)


@pytest.mark.parametrize("kind", ["zero", "mean", "scale"])
def test_a_head_whose_output_is_edited_has_no_sources(kind: str):
    edit = Edit(kind, 1, 2, factor=2.0 if kind == "scale" else None)
    trace = traced("gpt2", (edit,))
    u = parts_of(trace, 4).directions[1]
    with pytest.raises(InputError, match=r"not a sum over tokens.*head 1\.2"):
        by_source(trace, 1, 2, 4, u)
    assert by_source(trace, 1, 1, 4, u).any() and by_source(trace, 2, 2, 4, u).any()


# --- promoted and suppressed ---


@pytest.mark.parametrize("name", [*FEW_VARIANTS, "gemma", "gptj", "oss"])
def test_what_a_part_promotes_is_its_part_of_every_logit(name: str):
    trace = traced(name)
    found = components(trace, 9)
    every = [attribute(found, trace.model, token) for token in range(V)]
    for layer in range(L):
        for head in (None, 0, 3):
            values = np.array([each.mlps[layer] if head is None else each.heads[layer, head] for each in every])
            result = promoted(found, trace.model, layer, head, top=5)
            order = np.argsort(-values)
            assert result.ids.tolist() == order[:5].tolist() and result.low_ids.tolist() == order[::-1][:5].tolist()
            assert_close(result.values, values[order[:5]], 5e-6)
            assert_close(result.low_values, values[order[::-1][:5]], 5e-6)
            assert result.mean == pytest.approx(values.mean(), abs=5e-6)


def test_ids_without_a_token_are_left_out():
    trace = traced("gpt2")
    found = components(trace, 9)
    everything = promoted(found, trace.model, 1, 0, top=99)
    assert len(everything.ids) == V and everything.ids.tolist() == everything.low_ids.tolist()[::-1]
    some = promoted(found, trace.model, 1, 0, top=99, vocab=20)
    assert sorted(some.ids.tolist()) == list(range(20))


# --- a model whose parts are known ---


def by_hand() -> Transformer:
    """One layer, one head, width 4, RMSNorm of gain 2 at the end; what each part writes is plain to see."""
    changes = {
        "vocab_size": 3,
        "n_ctx": 4,
        "n_layer": 1,
        "d_model": 4,
        "n_head": 1,
        "n_kv_head": 1,
        "d_head": 4,
        "d_mlp": 4,
        "norm": "rmsnorm",
        "norm_bias": False,
        "norm_eps": 1e-12,
        "positions": "none",
        "mlp": "relu",
        "q_bias": False,
        "k_bias": False,
        "v_bias": False,
        "mlp_bias": True,
        "o_bias": True,
        "tie_embeddings": False,
    }
    model = tiny_model(changes)
    block, eye = model.blocks[0], torch.eye(4)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.embed.weight[:] = torch.tensor([[2.0, 0, 0, 0], [0, 2, 0, 0], [0, 0, 0, 2]])
        block.norm1.weight.fill_(1)
        block.attn.v.weight[:] = eye  # queries and keys are 0, so a token reads all up to itself alike
        block.attn.o.weight[2, 0] = 3.0  # what token 0 holds is written to dimension 2
        block.attn.o.bias[3] = 1.0
        block.mlp.down.bias[3] = 2.0
        model.final_norm.weight.fill_(2)
        model.unembed.weight[0] = torch.tensor([1.0, 0, 1, 0])
        model.unembed.weight[1] = torch.tensor([0, 1.0, 0, 1])
    return model


def test_by_hand():
    trace = run(by_hand(), tokens_of([0, 1]))
    # Token 0 is (2, 0, 0, 0), normed (2, 0, 0, 0); token 1 is (0, 2, 0, 0), so the head's z at token 1 is (1, 1, 0, 0)
    # and it writes (0, 0, 3, 0). The stream ends as (0, 2, 3, 3): its root mean square is sqrt(22 / 4).
    rms = np.sqrt(22 / 4)
    found = components(trace)
    first, second = attribute(found, trace.model, 0), attribute(found, trace.model, 1)
    assert [z.tolist() for z in found.z] == [[[1, 1, 0, 0]]] and found.scales["final", 1] == pytest.approx(rms)
    assert first.heads == pytest.approx(np.array([[2 * 3 / rms]])) and first.embed == 0
    assert second.embed == pytest.approx(2 * 2 / rms) and second.heads.tolist() == [[0.0]]
    assert second.o_bias == pytest.approx(np.array([2 / rms])) and second.mlp_bias == pytest.approx(2 * 2 / rms)
    assert first.logit == pytest.approx(6 / rms) and second.logit == pytest.approx(10 / rms)
    pair = attribute(found, trace.model, 0, 1)
    assert pair.total == pytest.approx(-4 / rms) and pair.embed == pytest.approx(-4 / rms)
    assert by_source(trace, 0, 0, 1, first.directions[0]) == pytest.approx(np.array([6 / rms, 0]))
    best = promoted(found, trace.model, 0, 0, top=1)
    assert (best.ids.tolist(), best.low_ids.tolist()) == ([0], [1]) and best.values[0] == pytest.approx(6 / rms)
    assert best.mean == pytest.approx(2 / rms)  # (6 + 0 + 0) / 3


# --- what is refused ---


def test_what_does_not_exist_is_said():
    trace = traced("gpt2")
    found = components(trace, 3)
    u = attribute(found, trace.model, TOKEN).directions[0]
    for ids in ((V,), (-1,), (True,), (TOKEN, V)):
        with pytest.raises(InputError, match="no token with this id"):
            attribute(found, trace.model, *ids)
    for position in (T, -T - 1):
        with pytest.raises(InputError, match="position does not exist"):
            components(trace, position)
    for layer, head in ((L, 0), (-1, 0), (0, H), (0, -1)):
        with pytest.raises(InputError, match=r"(layer|head) does not exist"):
            by_source(trace, layer, head, 3, u)
        with pytest.raises(InputError, match=r"(layer|head) does not exist"):
            promoted(found, trace.model, layer, head)
    with pytest.raises(InputError, match="position does not exist"):
        by_source(trace, 0, 0, T, u)


def test_a_run_with_a_tap_of_its_own_is_refused():
    tapped = run(tiny_model(), tokens_of(IDS), tap=force)
    with pytest.raises(ValueError, match="tap"):
        components(tapped)
    with pytest.raises(ValueError, match="tap"):
        by_source(tapped, 0, 0, 3, np.zeros(D))


def test_components_say_their_size():
    found = components(traced("gpt2"), 3)
    assert isinstance(found, Components)
    assert found.nbytes == 4 * (2 * D + L * H * 12 + L * D + V)
