"""Mixers side by side: models alike in size, scores by hand, costs by formula, and who won."""

import numpy as np
import pytest
import torch

from model.design import mixer_trial
from model.design.mixer_trial import DECODED, MIXERS, TASKS, Comparison, MixerTrial, compare, config_of, cost, verdict
from model.errors import InputError
from model.gpt.config import ModelConfig
from model.gpt.transformer import Transformer
from model.training import recall_tasks
from model.training.loop import Recipe, from_model
from model.training.tasks import TASKS as ALL_TASKS

SHORT = MixerTrial(("softmax", "delta"), steps=2, seeds=2)


@pytest.mark.parametrize("task", ["recall", "regression"])
def test_all_models_have_about_as_many_parameters(task: str):
    counts = [sum(p.numel() for p in mixer_trial.skeleton(config_of(mixer, task)).parameters()) for mixer in MIXERS]
    assert max(counts) - min(counts) < 0.01 * counts[0] and config_of("softmax", task).d_mlp == mixer_trial.MLP


@pytest.mark.parametrize("chosen", [("softmax",), ("softmax", "softmax"), (), ("softmax", "<b>")])
def test_two_known_mixers_are_needed(chosen: tuple[str, ...]):
    with pytest.raises(InputError, match="at least two mixers"):
        MixerTrial(chosen)


def test_an_unknown_task_is_refused():
    with pytest.raises(InputError, match="task: sudoku"):
        MixerTrial(task="sudoku")


@pytest.fixture(scope="module")
def compared() -> Comparison:
    return compare(SHORT)


def test_a_comparison_has_every_mixer_seed_and_size(compared):
    assert compared.sizes == (8, 10, 11, 13, 14, 16)
    assert compared.scores.shape == (2, 2, 6) and compared.losses.shape == (2, 2, 2)
    assert ((compared.scores >= 0) & (compared.scores <= 1)).all() and np.isfinite(compared.losses).all()
    assert compared.chance == 1 / 62 and compared.reference is None and not compared.is_error
    # Parts are in the order of mixers and seeds: each is what it is alone.
    alone = mixer_trial.learn(SHORT, "delta", 1)
    assert np.array_equal(compared.losses[1, 1], alone.losses) and np.array_equal(compared.scores[1, 1], alone.scores)
    assert not np.array_equal(compared.losses[1, 0], compared.losses[1, 1])


class Knower:
    """A model that says the next tokens it is told to [B, T], but for every `wrong`-th row."""

    def __init__(self, rows: dict[int, np.ndarray], wrong: int) -> None:
        self.rows, self.wrong, self.calls = rows, wrong, 0

    def eval(self) -> None:
        pass

    def __call__(self, ids: torch.Tensor) -> torch.Tensor:
        right = torch.from_numpy(self.rows[self.calls]).clone()
        self.calls += 1
        right[:: self.wrong] = (right[:: self.wrong] - 1).abs()
        return 50.0 * torch.nn.functional.one_hot(right, 102).float()


def test_the_score_is_the_share_of_scored_tokens_that_are_right():
    trial = MixerTrial()
    sizes = ALL_TASKS[trial.task].sizes
    rows = [sizes.at(np.random.default_rng([1, n]), np.full(128, n), trial.length) for n in mixer_trial.sizes_of(trial)]
    said = [np.where(scored, ids[:, 1:], 99) for ids, scored in rows]  # nonsense where nothing is asked
    found = mixer_trial.scores(Knower(dict(enumerate(said)), wrong=4), trial)
    assert np.allclose(found, 0.75)


def test_the_error_of_regression_is_that_of_the_mean_prediction():
    """Who names the right token errs by nothing; who is one number off in the first row errs by one step there."""
    trial = MixerTrial(task="regression")
    ids = mixer_trial.judged_rows(trial)
    assert np.allclose(
        mixer_trial.scores(Knower({0: ids[:, 1:]}, wrong=10**6), trial), (recall_tasks.STEP**2) / len(ids)
    )
    reference = recall_tasks.ridge_errors(ids).mean(0)
    assert len(reference) == len(mixer_trial.sizes_of(trial)) and reference[5] < 0.01 < reference[0]


def made(scores: np.ndarray, task: str = "induction") -> Comparison:
    """A comparison of the usual three mixers with these scores [3, R, S]."""
    trial = MixerTrial(MixerTrial().mixers[:3], task)
    R, S = scores.shape[1:]
    costs = np.ones((3, len(DECODED)))
    reference = np.full(S, 0.01) if task == "regression" else None
    sizes = tuple(range(1, S + 1))
    return Comparison(trial, sizes, scores, np.ones((3, R, 4)), (10, 10, 10), costs, costs, reference, 0.04)


def test_the_verdict_follows_from_means_and_ranges():
    scores = np.array([[[0.9, 0.8], [1.0, 0.9]], [[0.2, 0.2], [0.3, 0.3]], [[0.7, 0.6], [0.7, 0.7]]])
    told = verdict(made(scores))
    assert (told.best, told.second) == ("softmax", "linear")
    assert told.first_score == pytest.approx(0.9) and told.second_score == pytest.approx(0.675)
    assert told.spread == pytest.approx(0.1) and told.difference == pytest.approx(0.225) and told.clear
    scores[2] += 0.2
    close = verdict(made(scores))
    assert close.difference == pytest.approx(0.025) and not close.clear
    less = verdict(made(scores, "regression"))  # an error: the smallest wins
    assert (less.best, less.second) == ("sliding_window", "linear")


def test_attention_holds_two_vectors_a_token_and_a_state_stays():
    softmax, delta = cost("softmax", "recall"), cost("delta", "recall")
    assert softmax.nbytes.tolist() == [2 * 2 * 64 * 4 * tokens for tokens in DECODED]  # layers, k and v, width, float32
    assert delta.nbytes.tolist() == [2 * 4 * 16 * 16 * 4] * len(DECODED)  # layers, heads, a matrix of d_head squared
    assert (softmax.seconds > 0).all() and len(softmax.seconds) == len(DECODED)


@pytest.mark.parametrize("task", TASKS)
def test_every_task_is_judged_at_sizes_that_its_rows_hold(task: str):
    trial = MixerTrial(task=task)
    sizes, most = mixer_trial.sizes_of(trial), ALL_TASKS[task].sizes.most(trial.length)
    assert len(sizes) > 1 and (task == "regression" or sizes[-1] == most)
    assert ALL_TASKS[task].shortest <= trial.length <= ALL_TASKS[task].longest


def test_the_rates_of_a_state_space_do_not_decay():
    config = ModelConfig(vocab_size=8, n_ctx=16, n_layer=1, n_head=2, d_model=16, mixer="mamba")
    run = from_model(Transformer(config), Recipe(steps=1))
    decayed, others = ({id(each) for each in group["params"]} for group in run.optimizer.param_groups)
    named = {name: id(parameter) for name, parameter in run.model.named_parameters()}
    assert {named["blocks.0.attn.A_log"], named["blocks.0.attn.D"]} <= others
    assert {named["blocks.0.attn.in_proj.weight"], named["blocks.0.attn.o.weight"]} <= decayed
