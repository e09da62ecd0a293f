"""The logit lens: its last row is the model's own prediction, and every number is what the formula says."""

import numpy as np
import pytest
import torch

from model.api import load_model
from model.checks.roundoff import watched
from model.errors import InputError
from model.gpt.edits import Edit
from model.gpt.tap import SITES, compose, record
from model.tracing.logit_lens import checkpoints, lens_gap, lens_logits, middle_at, read_layers, read_position
from model.tracing.ranking import ranks_of, top_ids
from model.tracing.trace import run
from tests.support.models.helpers import (
    VARIANTS,
    D,
    L,
    V,
    assert_close,
    byte_model,
    force,
    random_ids,
    steer,
    tiny_model,
    tokens_of,
)
from tests.support.models.rounding import shares_within, sums, within

T = 11
IDS = random_ids(1, T, seed=5)[0]
EDITS = (Edit("zero", 1, 2), Edit("scale", 0, 1, 3.0), Edit("first_token", 2, 0))


def traced(name="gpt2", **given):
    return run(tiny_model(VARIANTS[name]), tokens_of(IDS), **given)


def log_softmax(logits):
    """float64"""
    x = np.asarray(logits, np.float64)
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def by_hand(trace, x):
    """Final norm and output head by their formulas in float64, from the weights: log p [..., V], and the most that
    float32 may be off a logit there [..., 1]. x [K, P, D]"""
    model, x = trace.model, torch.as_tensor(x)
    bound = watched(lambda n, tap: model.logits(x.repeat(n, 1, 1), tap=tap), model.config, ["logits"], 2)
    x = np.asarray(x, np.float64)
    norm = model.final_norm
    if norm is not None:
        centered = x - x.mean(-1, keepdims=True) if trace.config.norm == "layernorm" else x
        x = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + trace.config.norm_eps)
        x = x * norm.weight.detach().double().numpy()
        x = x if norm.bias is None else x + norm.bias.detach().double().numpy()
    logs = log_softmax(x @ model.unembed.weight.detach().double().numpy().T)
    return logs, bound["logits", L].numpy()[..., None]


def streams(trace, edit=None):
    """The stream before the first block, inside and after each, of one explicit forward. [2 L + 1, T, D]"""
    store = {}
    tap = record(SITES, store)
    with torch.no_grad():
        trace.model(IDS[None], tap=tap if edit is None else compose(edit, tap))
    rows = [store["resid_pre", 0]]
    for layer in range(L):
        rows += [store["resid_mid", layer], store["resid_post", layer]]
    return torch.cat(rows)


class Shifted:
    """A tuned lens in a test: each layer its own affine map, the last one none."""

    def translate(self, layer, x):
        return x if layer == L else x * (1 + 0.1 * layer) + torch.linspace(-1, layer, D)


def assert_reading(reading, expected, candidates, what=""):
    """Every number of a reading against `by_hand` of its points and positions.

    Where logits are off by b, log p is by 2 b, p by 2 b p, so entropy, -sum of dp log p, by 2 b times itself and the KL
    by 2 b of each of the two and by dp of the last one times what they differ by.
    """
    logs, off = expected
    K, P, _ = logs.shape
    p, b = np.exp(logs), off[..., 0]
    entropy, kl, apart = -(p * logs).sum(-1), (p[-1] * (logs[-1] - logs)).sum(-1), np.abs(logs[-1] - logs)
    assert_close(reading.entropy, entropy, 2 * b * entropy + sums(V, entropy).numpy(), f"entropy {what}")
    rounding = 2 * (b + b[-1]) + 2 * b[-1] * (p[-1] * apart).sum(-1) + sums(V, (p[-1] * np.abs(logs)).sum(-1)).numpy()
    assert_close(reading.kl, kl, rounding, f"KL {what}")
    assert (reading.kl[-1] == 0).all() and (reading.kl >= 0).all()
    order = np.argsort(-logs, axis=-1, kind="stable")
    top = reading.ids.shape[-1]
    assert reading.ids.tolist() == order[..., :top].tolist(), what
    shares, rounding = np.take_along_axis(p, order[..., :top], -1), shares_within(torch.from_numpy(p), off).numpy()
    within_top = np.take_along_axis(rounding, order[..., :top], -1)
    assert_close(reading.probabilities, shares, within_top, f"probabilities {what}")
    places = np.argsort(order, axis=-1) + 1
    for k in range(K):
        for at in range(P):
            wanted = order[-1, at, :1] if candidates is None else candidates
            assert reading.candidates[at].tolist() == list(wanted)
            assert reading.ranks[k, at].tolist() == places[k, at, wanted].tolist(), (what, k, at)
            assert_close(reading.shares[k, at], p[k, at, wanted], rounding[k, at, wanted], f"shares {what}")


# --- identities -------------------------------------------------------------------------------------


@pytest.mark.parametrize("edits", [(), EDITS], ids=["plain", "edited"])
@pytest.mark.parametrize("name", VARIANTS)
def test_the_last_point_is_the_models_own_prediction(name, edits):
    trace = traced(name, edits=edits)
    own = torch.from_numpy(trace.logits).softmax(-1).numpy()
    reading = read_layers(trace, range(T), top=V)
    assert np.array_equal(np.take_along_axis(own, reading.ids[-1], -1), reading.probabilities[-1])
    assert (reading.kl[-1] == 0).all() and (reading.ranks[-1] == 1).all()
    assert reading.ids[-1, :, 0].tolist() == trace.logits.argmax(-1).tolist()
    for position in (0, 4, T - 1):
        assert lens_gap(trace, position) == 0
        one = read_position(trace, position, top=V)
        alone = torch.from_numpy(trace.logits_at(position)).softmax(-1).numpy()
        assert np.array_equal(one.probabilities[-1, 0], alone[one.ids[-1, 0]])
        assert one.kl[-1, 0] == 0


@pytest.mark.parametrize("name", VARIANTS)
def test_every_number_by_the_formula_in_float64(name):
    trace = traced(name)
    assert_reading(read_layers(trace, range(T), top=7), by_hand(trace, trace.residuals), None, name)
    found = read_layers(trace, [4, 0, -1], top=3, candidates=[9, 50, 0])
    assert found.positions.tolist() == [4, 0, T - 1] and found.places.tolist() == list(range(L + 1))
    assert_reading(found, by_hand(trace, trace.residuals[:, [4, 0, T - 1]]), [9, 50, 0], name)


@pytest.mark.parametrize("edit", [None, steer, force], ids=["plain", "steered", "forced"])
@pytest.mark.parametrize("name", VARIANTS)
def test_points_inside_the_blocks_are_those_of_the_forward(name, edit):
    trace = traced(name, tap=edit)
    expected, sites = streams(trace, edit), [f"resid_{where}" for where in ("pre", "mid", "post")]
    bound = within(trace.model, IDS[None], edit, sites)
    for position in (0, 6, T - 1):
        rows = [0, 1, 3, 4, 5, 6] if edit is steer else range(7)  # 2: what block 0 wrote; the edit comes after it
        x, wanted = checkpoints(trace, position), expected[:, position]
        for row in rows:
            key = (sites[row % 2], row // 2) if row < 2 * L else ("resid_post", L - 1)
            assert_close(x[row], wanted[row], bound[key][0, position], f"position {position}")
    if edit is None:
        reading = read_position(trace, 6, top=4, candidates=[3, 8])
        assert reading.places.tolist() == [0, 0.5, 1, 1.5, 2, 2.5, 3] and reading.positions.tolist() == [6]
        assert_reading(reading, by_hand(trace, checkpoints(trace, 6)[:, None]), [3, 8], name)


@pytest.mark.parametrize("name", VARIANTS)
def test_edits_reach_the_points_inside_their_blocks(name):
    plain, edited = traced(name), traced(name, edits=EDITS)
    for trace in (plain, edited):
        bound = within(trace.model, IDS[None], trace.tap, ["resid_mid"])
        for layer in range(L):
            for position in (0, 5, T - 1):
                off = bound["resid_mid", layer][0, position]
                assert_close(middle_at(trace, layer, position), trace.middle(layer)[position], off, f"layer {layer}")
    assert np.abs(edited.middle(1) - plain.middle(1)).max() > 1e-3
    moved = np.abs(read_position(edited, T - 1).entropy - read_position(plain, T - 1).entropy)[:, 0]
    assert moved[0] < 1e-5 and (moved[1:] > 1e-4).all()  # head 0.1 is scaled: only the embedding stays


@pytest.mark.parametrize("name", ["gpt2", "llama", "post"])
def test_a_translator_comes_before_the_norm_and_has_nothing_inside_blocks(name):
    trace, lens = traced(name), Shifted()
    moved = torch.stack([lens.translate(layer, trace.residuals[layer]) for layer in range(L + 1)])
    assert_reading(read_layers(trace, range(T), lens=lens), by_hand(trace, moved), None)
    one = read_position(trace, 3, candidates=[7], lens=lens)
    assert one.places.tolist() == list(range(L + 1))
    assert_reading(one, by_hand(trace, moved[:, 3, None]), [7])


def test_the_norm_is_computed_anew_on_the_stream():
    """A pre-norm model reads a stream and its double alike; without a final norm the logits double."""
    x = torch.randn(4, D, generator=torch.Generator().manual_seed(0)) * 50
    normed, bare = tiny_model(VARIANTS["llama"]), tiny_model(VARIANTS["mqa"])
    assert_close(lens_logits(normed, 2 * x), lens_logits(normed, x), 1e-5)
    assert_close(lens_logits(bare, 2 * x), 2 * lens_logits(bare, x), 1e-4)


def test_portions_change_nothing(monkeypatch):
    trace = traced("qwen3")
    whole = read_layers(trace, range(T), top=4, candidates=[1, 2])
    steps, (logs, bound) = [], by_hand(trace, trace.residuals)
    b, entropy = bound[..., 0], -(np.exp(logs) * logs).sum(-1)
    apart = 2 * b * (1 + entropy) + sums(V, np.abs(logs).max(-1)).numpy()
    share = shares_within(torch.from_numpy(np.exp(logs).max(-1, keepdims=True)), bound).numpy()
    off = {"entropy": apart, "kl": 2 * apart, "probabilities": share, "shares": share}
    for held in (1, 3 * V, 7 * V):
        monkeypatch.setattr("model.tracing.logit_lens._HELD", held)
        steps.clear()
        part = read_layers(trace, range(T), top=4, candidates=[1, 2], progress=lambda *step: steps.append(step[:2]))
        for name, value in vars(whole).items():
            assert_close(getattr(part, name), value, off.get(name, 0), name)
        assert [done for done, _ in steps] == sorted(done for done, _ in steps) and len(steps) > 4
        assert steps[-1] == ((L + 1) * T, (L + 1) * T)


def test_work_can_be_cancelled():
    def stop(done, total, what):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_layers(traced(), [0], progress=stop)


# --- ties -------------------------------------------------------------------------------------------


def test_of_equals_the_smaller_id_comes_first():
    logits = torch.tensor([[1.0, 3, 3, 3, 2], [0, 0, 0, 0, 0], [5, 1, 2, 5, 4]])
    for top, expected in (
        (1, [[1], [0], [0]]),
        (2, [[1, 2], [0, 1], [0, 3]]),
        (5, [[1, 2, 3, 4, 0], [0, 1, 2, 3, 4], [0, 3, 4, 2, 1]]),
    ):
        assert top_ids(logits, top).tolist() == expected
    assert ranks_of(logits, torch.tensor([[1, 3, 0], [0, 4, 2], [3, 0, 1]])).tolist() == [
        [1, 3, 5],
        [1, 5, 3],
        [2, 1, 5],
    ]


def test_ties_in_a_long_row():
    logits = torch.randint(0, 30, (6, 5000), generator=torch.Generator().manual_seed(1)).float()
    expected = np.argsort(-logits.numpy(), axis=-1, kind="stable")
    assert top_ids(logits, 40).tolist() == expected[:, :40].tolist()
    ids = torch.from_numpy(expected[:, [0, 17, 4999]].copy())
    assert ranks_of(logits, ids).tolist() == [[1, 18, 5000]] * 6


def test_numbers_by_hand():
    """A model whose output head says: 0 for three tokens of the embedding (1, 0, ..), ln 2 for the first of four."""
    model = tiny_model({"positions": "none", "n_layer": 1, "vocab_size": 4, "final_norm": False})
    with torch.no_grad():
        for parameter in model.blocks.parameters():
            parameter.zero_()  # blocks write nothing
        model.embed.weight.zero_()
        model.embed.weight[0, 0] = np.log(2) ** 0.5
    reading = read_position(run(model, tokens_of([0])), 0, top=4, candidates=[3])
    assert reading.places.tolist() == [0, 0.5, 1]
    for point in range(3):
        assert reading.ids[point, 0].tolist() == [0, 1, 2, 3] and reading.ranks[point, 0].tolist() == [4]
        assert_close(reading.probabilities[point, 0], [0.4, 0.2, 0.2, 0.2], 1e-6)
        assert_close(reading.entropy[point, 0], np.log(5) - 0.4 * np.log(2), 1e-6)
        assert_close(reading.shares[point, 0], [0.2], 1e-6)
    assert (reading.kl < 1e-6).all()


# --- Trace.logit_lens -------------------------------------------------------------------------------


def test_table_of_a_trace(tmp_path):
    lm = byte_model(tmp_path)
    trace = lm.trace("hello")
    table = trace.logit_lens(top=3)
    assert list(table.columns) == ["layer", "position", "rank", "token id", "piece", "probability"]
    assert len(table) == (L + 1) * 5 * 3
    reading = read_layers(trace, range(5), top=3)
    for (layer, position), rows in table.groupby(["layer", "position"]):
        assert rows["rank"].tolist() == [1, 2, 3]
        assert rows["token id"].tolist() == reading.ids[layer, position].tolist()
        assert rows["probability"].tolist() == reading.probabilities[layer, position].tolist()
        assert rows["piece"].tolist() == [lm.tokenizer.piece(i) for i in rows["token id"]]
    last = table.query("layer == 3 and position == 4")
    logits = trace.logits_at(4)
    assert last["token id"].tolist() == np.argsort(-logits, kind="stable")[:3].tolist()
    assert_close(last["probability"].to_numpy(), np.exp(log_softmax(logits))[last["token id"]], 1e-6)


def test_table_of_some_positions_and_of_an_edited_run(tmp_path):
    trace = byte_model(tmp_path).trace("hello").edit(Edit("zero", 0, 1))
    table = trace.logit_lens(top=2, positions=[3, -5])
    assert table["position"].tolist() == [3, 3, 0, 0] * (L + 1)
    assert table["probability"].tolist() == read_layers(trace, [3, 0], top=2).probabilities.ravel().tolist()
    assert all(table["piece"])  # the edited run knows the tokens' texts, too
    assert trace.unedited().logit_lens(top=1)["piece"].all()


def test_a_run_without_a_tokenizer_has_no_texts():
    assert set(traced().logit_lens(top=1)["piece"]) == {""}


@pytest.mark.parametrize("position", [T, -T - 1])
def test_no_such_position(position):
    with pytest.raises(InputError, match="position does not exist"):
        traced().logit_lens(positions=[position])
    with pytest.raises(InputError, match="position does not exist"):
        read_position(traced(), position)


def test_what_cannot_be_asked():
    for wrong, kind, said in (
        ({"positions": []}, ValueError, "at least one position"),
        ({"positions": [0], "top": 0}, InputError, r"Got: top: 0\."),
        ({"positions": [0], "candidates": [V]}, ValueError, rf"candidates must lie in 0 \.\. {V - 1}"),
    ):
        with pytest.raises(kind, match=said):
            read_layers(traced(), **wrong)
    assert traced().logit_lens(top=V + 9, positions=[0])["rank"].max() == V


def test_one_token():
    trace = run(tiny_model(), tokens_of(IDS[:1]))
    assert_reading(read_position(trace, 0), by_hand(trace, checkpoints(trace, 0)[:, None]), None)
    assert len(trace.logit_lens(top=1)) == L + 1


def test_the_bundled_model_settles_on_its_answer():
    trace = load_model("tinygpt", offline=True).trace("The cat sat on the mat because it was tired")
    reading = read_position(trace, -1)
    assert reading.kl[0, 0] > 1 and reading.kl[-3, 0] < reading.kl[0, 0]
    assert reading.ranks[0, 0, 0] > reading.ranks[-1, 0, 0] == 1
