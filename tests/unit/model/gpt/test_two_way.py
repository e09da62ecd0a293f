"""What reads a model whose tokens also attend to later ones: right, or refused with the reason."""

import numpy as np
import pytest
import torch

from model.anatomy.anatomy import n_params, weights
from model.anatomy.blueprint import blueprint
from model.api import load_model
from model.attention.circuits import copying
from model.attention.effects import Target, metric, patch, sweep
from model.attention.measures import measure
from model.checks.registry import run_checks
from model.checks.result import subject_of
from model.errors import InputError
from model.gpt.edits import Edit
from model.gpt.transformer import Transformer
from model.predictions.attribution import components
from model.predictions.gradients import gradients
from model.source_code.parts import PARTS, code_of_part, wiring_of
from model.tracing.logit_lens import middle_at
from tests.support.models.encoders import TEXT, encoder_config, save_encoder

AT = Target("logit", 3, 70)


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    return load_model(save_encoder(tmp_path_factory.mktemp("encoder")))


@pytest.fixture(scope="module")
def run(lm):
    return lm.trace(TEXT)


def test_a_sweep_reads_all_tokens(run):
    heads = [(layer, head) for layer in range(3) for head in range(4)]
    wanted = [metric(run.edit(Edit("zero", *head)), AT, run) - metric(run, AT) for head in heads]
    assert np.abs(sweep(run, "zero", AT).ravel() - wanted).max() < 2e-5 < np.abs(wanted).max()


def test_a_patch_after_the_target_counts(lm, run):
    other = lm.trace(TEXT.replace("mat", "dog"))
    effects = patch(other, run, AT, "resid_pre")
    assert effects[0, 6] == pytest.approx(other.logits_at(3)[70] - run.logits_at(3)[70], abs=2e-5)
    assert abs(effects[0, 6]) > 1e-3


def test_the_stream_between_the_sublayers_reads_later_tokens(run):
    assert torch.equal(middle_at(run, 1, 3), torch.from_numpy(run.middle(1)[3]))


def test_an_edge_to_a_later_token_can_be_blocked(run):
    edited = run.edit(Edit("block_edge", 0, 1, query=2, key=7))
    assert edited.pattern(0, 1)[2, 7] == 0 < run.pattern(0, 1)[2, 7]
    run.edit(*(Edit("block_edge", 0, 1, query=2, key=key) for key in range(3)))  # later keys are left
    with pytest.raises(InputError, match="no key left"):
        run.edit(*(Edit("block_edge", 0, 1, query=2, key=key) for key in range(len(run.tokens))))


@pytest.mark.parametrize(
    ("look", "reason"),
    [
        (lambda run: run.edit(Edit("uniform", 0, 1)), "also attends to later tokens"),
        (lambda run: run.edit(Edit("project_out", 0, token=3)), "no direction in this model's stream"),
        (lambda run: metric(run, Target("loss")), "no next token"),
        (lambda run: components(run), "do not attend to later ones"),
        (lambda run: gradients(run, 3, 5), "do not attend to later ones"),
        (lambda run: copying(run.model), "no direction in this model's stream"),
        (lambda run: measure(run, "flow", 1, 1), "do not attend to later ones"),
    ],
)
def test_what_is_defined_from_left_to_right_only_is_refused(run, look, reason):
    with pytest.raises(InputError, match=reason):
        look(run)


@pytest.mark.parametrize("head", [True, False])
def test_no_check_differs(tmp_path, head):
    lm = load_model(save_encoder(tmp_path / "lm", head=head))
    skipped = {"float64", "batched", "stepwise", "fused", "explicit", "no_edit"}
    keys = [key for key in _checks() if key not in skipped and not key.startswith("parity")]
    text = "the cat [SEP] it [MASK]"
    found = run_checks(subject_of(lm, lm.trace(text), text), keys)
    states = {key: each.state for key, each in found.items()}
    assert not {key for key, state in states.items() if state in ("differs", "broken")}, found
    reasons = {key: each.reason for key, each in found.items() if each.state == "unable"}
    left = dict.fromkeys(("no_future", "parts", "sources", "later_tokens", "chunked", "cached", "gradient"), "two_way")
    none = ("numbers", "lens", "unembedding", "probabilities", "sampler", "draws")
    assert reasons == left | ({} if head else dict.fromkeys(none, "no_head"))
    assert states["tokens"] == states["embedding"] == states["rows"] == states["norm_formula"] == "agrees"


def _checks():
    from model.checks.registry import CHECKS

    return CHECKS


@pytest.mark.parametrize("shape", [{}, {"head": False}, {"norm_placement": "pre", "unnormed": (0,), "n_segment": None}])
def test_the_parameters_of_the_drawing_are_the_model_s(shape):
    config = encoder_config(**shape)
    model = Transformer(config)
    named = {name: tuple(each.shape) for name, each in model.named_parameters()}
    assert {each.name: each.shape for each in weights(config)} == named
    assert n_params(config) == sum(each.numel() for each in model.parameters())
    parts = blueprint(config, 5)
    assert ("unembed" in parts) == ("head_dense" in parts) == ("head_norm" in parts) == (not config.headless)
    assert ("segment_embed" in parts) == bool(config.n_segment) and "−∞" not in parts["scores"].formula
    assert set(parts) <= set(PARTS)
    for part in parts:
        assert code_of_part(wiring_of(model, 1), part, 5).own


def test_only_a_two_way_model_can_be_without_a_head():
    with pytest.raises(ValueError, match="can be without a head"):
        encoder_config(head=False, two_way=False)
    with pytest.raises(ValueError, match="can be without a head"):
        encoder_config(head=False, head_bias=True)
