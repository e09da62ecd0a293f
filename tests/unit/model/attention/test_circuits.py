"""Scores of the weights against whole [D, D] and [V, V] matrices, heads built by hand, and what they claim of a run."""

import itertools

import numpy as np
import pytest
import torch

from model.attention.cell import explain
from model.attention.circuits import KINDS, circuit_overlaps, composition, copying
from model.errors import InputError
from model.gpt.transformer import Transformer
from model.tracing.trace import run
from tests.support.models.helpers import VARIANTS, D, E, H, L, V, assert_close, tiny_config, tiny_model, tokens_of

# --- whole matrices, straight from the definitions ---


def array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().double().numpy()


def reading(norm) -> np.ndarray:
    """What a norm does before it divides, as a matrix: gain times centring, or gain alone. [D, D]"""
    gain = np.diag(array(norm.weight))
    return gain @ (np.eye(D) - np.ones((D, D)) / D) if norm.kind == "layernorm" else gain


def dense(model: Transformer, layer: int, head: int) -> tuple[np.ndarray, np.ndarray]:
    """W_QK and W_OV of one head. [D, D] each"""
    config, block = model.config, model.blocks[layer]
    width, kv = config.d_head, head // (config.n_head // config.n_kv_head)
    mine, shared = slice(head * width, (head + 1) * width), slice(kv * width, (kv + 1) * width)
    read = np.eye(D) if config.norm_placement == "post" else reading(block.norm1)
    attn = block.attn
    w_q, w_k, w_v = array(attn.q.weight)[mine], array(attn.k.weight)[shared], array(attn.v.weight)[shared]
    if config.qk_norm:
        w_q, w_k = np.diag(array(attn.q_norm.weight)) @ w_q, np.diag(array(attn.k_norm.weight)) @ w_k
    return read.T @ w_q.T @ w_k @ read, array(attn.o.weight)[:, mine] @ w_v @ read


def dense_scores(later: tuple, earlier: tuple) -> dict[str, float]:
    (qk, ov), (_, written) = later, earlier
    norm = np.linalg.norm
    return {kind: norm(m @ written) / norm(m) / norm(written) for kind, m in (("q", qk.T), ("k", qk), ("v", ov))}


@pytest.mark.parametrize("name", VARIANTS)
def test_composition_is_that_of_whole_matrices(name: str):
    model = tiny_model(VARIANTS[name])
    whole = {at: dense(model, *at) for at in itertools.product(range(L), range(H))}
    for layer, head in whole:
        found = composition(model, layer, head)
        assert (found.layer, found.head) == (layer, head)
        assert set(found.reads) == set(found.feeds) == set(KINDS) == {"q", "k", "v"}
        reads, feeds = ({kind: np.full((L, H), np.nan) for kind in KINDS} for _ in range(2))
        for at, matrices in whole.items():
            if at[0] < layer:
                for kind, score in dense_scores(whole[layer, head], matrices).items():
                    reads[kind][at] = score
            if at[0] > layer:
                for kind, score in dense_scores(matrices, whole[layer, head]).items():
                    feeds[kind][at] = score
        for kind in KINDS:
            assert found.reads[kind].dtype == found.feeds[kind].dtype == np.float32
            assert_close(found.reads[kind], reads[kind], 1e-7, f"{kind} reads of {layer}.{head}")
            assert_close(found.feeds[kind], feeds[kind], 1e-7, f"{kind} feeds of {layer}.{head}")


@pytest.mark.parametrize("name", VARIANTS)
def test_copying_is_that_of_the_whole_vocabulary(name: str):
    model = tiny_model(VARIANTS[name])
    found = copying(model)
    assert found.shape == (L, H) and found.dtype == np.float32
    unembed = array(model.unembed.weight) @ (np.eye(D) if model.final_norm is None else reading(model.final_norm))
    embed = array(model.embed.weight) * (np.sqrt(D) if model.config.embed_scale else 1)
    for layer, head in itertools.product(range(L), range(H)):
        values = np.linalg.eigvals(unembed @ dense(model, layer, head)[1] @ embed.T)
        assert len(values) == V
        assert found[layer, head] == pytest.approx(values.real.sum() / np.abs(values).sum(), abs=1e-6)


@pytest.mark.parametrize("name", [name for name in VARIANTS if not VARIANTS[name].get("qk_norm")])
def test_the_matrices_are_what_a_head_does(name: str):
    """One token and no biases: output and score are W_OV x and x^T W_QK x, but for the divisor of the norm."""
    model = tiny_model(VARIANTS[name])
    with torch.no_grad():
        for block in model.blocks:
            for part in (block.norm1, block.attn.q, block.attn.k, block.attn.v):
                if part.bias is not None:
                    part.bias.zero_()
    trace = run(model, tokens_of([5]))
    for layer, head in itertools.product(range(L), range(H)):
        qk, ov = dense(model, layer, head)
        x = trace.hidden(layer)[0].astype(float)
        post = model.config.norm_placement == "post"
        scale = 1 if post else trace.sites(layer, ["norm1_scale"])["norm1_scale"].item()
        found = explain(trace, layer, head, 0, 0)
        assert_close(found.output, ov @ x / scale, 1e-5, "what it writes")
        assert found.dot == pytest.approx(x @ qk @ x / scale**2, rel=1e-4, abs=1e-5)


# --- heads built by hand ---


def blank(n_layer: int = 2) -> Transformer:
    """RMSNorm with gains of 1, a vocabulary of D tokens that each have a dimension of their own, heads all 0."""
    changes = {"n_layer": n_layer, "vocab_size": D, "norm": "rmsnorm", "norm_bias": False, "positions": "none"}
    model = Transformer(tiny_config(changes | {"n_kv_head": H}))
    with torch.no_grad():
        model.embed.weight.copy_(torch.eye(D))
        for block in model.blocks:
            for linear in (block.attn.q, block.attn.k, block.attn.v, block.attn.o):
                linear.weight.zero_()
    return model


@torch.no_grad()
def wire(model: Transformer, at: tuple[int, int], name: str, rows: dict[int, int]) -> None:
    """Give the head a projection that links its dimension e to dimension d of the stream, for every e: d."""
    layer, head = at
    weight = getattr(model.blocks[layer].attn, name).weight
    for e, d in rows.items():
        spot = (d, head * E + e) if name == "o" else (head * E + e, d)
        weight[spot] = 1


def test_copying_suppressing_and_everything_between():
    model = blank()
    straight = dict(enumerate(range(E)))
    for head in range(H):
        wire(model, (0, head), "v", straight)
        wire(model, (0, head), "o", straight)
    o = model.blocks[0].attn.o.weight
    with torch.no_grad():
        o[:, E : 2 * E] *= -1
        o[:3, 2 * E : 3 * E] *= -1  # 3 of 12 dimensions
        o[:E, 3 * E :] = torch.eye(E).roll(1, 0)  # a cycle: eigenvalues are the 12th roots of 1
    assert copying(model)[0].tolist() == pytest.approx([1, -1, 0.5, 0], abs=1e-6)
    assert np.isnan(copying(model)[1]).all()  # these heads write nothing


def test_copying_with_complex_eigenvalues():
    """A turn by 60 degrees has eigenvalues exp(+-i pi / 3), whose real part is half their size."""
    model = blank()
    wire(model, (1, 2), "v", {0: 7, 1: 9})
    with torch.no_grad():
        half, high = 0.5, np.sqrt(0.75)
        o = model.blocks[1].attn.o.weight
        o[7, 2 * E], o[7, 2 * E + 1], o[9, 2 * E], o[9, 2 * E + 1] = half, -high, high, half
    assert copying(model)[1, 2] == pytest.approx(0.5)


@pytest.mark.parametrize(("kind", "name"), [("q", "q"), ("k", "k"), ("v", "v")])
@pytest.mark.parametrize("n", [1, 4, 9])
def test_a_pair_that_composes_and_one_that_does_not(kind: str, name: str, n: int):
    """Head 0.1 writes to dimensions 20 on; 1.2 reads them with one projection, 1.3 reads others with all."""
    model = blank(n_layer=3)
    written, other = ({e: start + e for e in range(n)} for start in (20, 33))
    wire(model, (0, 1), "v", {e: e for e in range(n)})
    wire(model, (0, 1), "o", written)
    for part in ("q", "k", "v", "o"):
        wire(model, (1, 2), part, written if part == name else other)
        wire(model, (1, 3), part, other)
    feeds, reads = composition(model, 0, 1).feeds, composition(model, 1, 2).reads
    for each in KINDS:
        # Of n equal directions, all pass: sqrt(n) / (sqrt(n) sqrt(n)).
        expected = 1 / np.sqrt(n) if each == kind else 0
        assert feeds[each][1, 2] == pytest.approx(expected, abs=1e-7)
        assert reads[each][0, 1] == pytest.approx(expected, abs=1e-7)
        assert feeds[each][1, 3] == 0
        assert np.isnan(feeds[each][1, 0]) and np.isnan(reads[each][0, 0])  # heads that are all 0


def test_the_part_that_is_read_counts():
    """Of four directions written alike, one is read: 1 / (1 x sqrt(4))."""
    model = blank()
    wire(model, (0, 0), "v", {e: e for e in range(4)})
    wire(model, (0, 0), "o", {e: 20 + e for e in range(4)})
    wire(model, (1, 0), "v", {0: 22})
    wire(model, (1, 0), "o", {0: 40})
    assert composition(model, 1, 0).reads["v"][0, 0] == pytest.approx(0.5)


# --- where scores stand, the baseline, what is left alone ---


def test_earlier_heads_are_read_and_later_ones_fed():
    model = tiny_model()
    for layer in range(L):
        found = composition(model, layer, 2)
        for kind in KINDS:
            assert np.isfinite(found.reads[kind]).all(1).tolist() == [other < layer for other in range(L)]
            assert np.isnan(found.reads[kind]).all(1).tolist() == [other >= layer for other in range(L)]
            assert np.isfinite(found.feeds[kind]).all(1).tolist() == [other > layer for other in range(L)]
            assert np.isnan(found.feeds[kind]).all(1).tolist() == [other <= layer for other in range(L)]


def test_what_one_reads_is_what_the_other_feeds():
    model = tiny_model(VARIANTS["qwen3"])
    early, late = composition(model, 0, 1), composition(model, 2, 3)
    for kind in KINDS:
        assert early.feeds[kind][2, 3] == late.reads[kind][0, 1]


@pytest.mark.parametrize("name", ["gpt2", "qwen3"])
def test_the_baseline_is_that_of_random_factors(name: str):
    model, rng = tiny_model(VARIANTS[name]), np.random.default_rng(5)
    found, width = composition(model, 1, 0), model.config.d_head
    norm, scores = np.linalg.norm, []
    for _ in range(400):
        a, b, c, d = rng.normal(size=(4, D, width))
        scores.append(norm(a @ b.T @ c @ d.T) / norm(a @ b.T) / norm(c @ d.T))
    mean, sd = np.mean(scores), np.std(scores, ddof=1)
    assert found.baseline_sd == pytest.approx(sd, rel=0.35)  # of 64 and 400 draws: four standard errors
    assert found.baseline == pytest.approx(mean, abs=4 * sd * np.sqrt(1 / 64 + 1 / 400))
    assert found.baseline == composition(model, 2, 3).baseline


def test_nothing_of_the_model_changes():
    model = tiny_model(VARIANTS["gqa"])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    copying(model)
    composition(model, 1, 1)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("at", "what"),
    [
        ((L, 0), f"layer does not exist. Got: {L}. Layers run from 0 to {L - 1}"),
        ((-1, 0), "layer does not exist"),
        ((0, H), f"head does not exist. Got: {H}. Heads run from 0 to {H - 1}"),
        ((0, -1), "head does not exist"),
    ],
)
def test_heads_that_are_not_there(at, what: str):
    with pytest.raises(InputError, match=what):
        composition(tiny_model(), *at)


@pytest.mark.parametrize("name", VARIANTS)
def test_overlaps_are_cosines_of_whole_matrices(name: str):
    model = tiny_model(VARIANTS[name])
    whole = {at: dense(model, *at) for at in itertools.product(range(L), range(H))}
    ov, qk = circuit_overlaps(model, 1, 2)
    for at, matrices in whole.items():
        for found, own, other in zip((qk, ov), whole[1, 2], matrices, strict=True):
            cosine = (own * other).sum() / np.linalg.norm(own) / np.linalg.norm(other)
            assert found[at] == pytest.approx(cosine, abs=1e-6)
    assert ov[1, 2] == pytest.approx(1) and qk[1, 2] == pytest.approx(1)
