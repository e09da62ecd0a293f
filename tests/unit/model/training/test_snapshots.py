"""What is seen of a model while it learns: the numbers of a snapshot, the sequence replayed, and what it writes."""

import itertools
import math
import types

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from model.attention.probes import probe_heads
from model.errors import InputError
from model.tracing import trace
from model.training import loop
from model.training.jobs import job as training
from model.training.jobs.form import job_of
from model.training.jobs.job import PROBE_TOKENS, Job, Limits, begin, snapshot
from model.training.tasks import TASKS
from tests.support.models.helpers import assert_close, shake, tokens_of

LIMITS = Limits()
SMALL = {"layers": 1, "heads": 2, "width": 16, "length": 16, "batch": 4, "steps": 2, "warmup": 1}
TALE = "The cat sat on the mat. The dog saw it & ran away, far away.\n" * 50


def job(**changes) -> Job:
    return job_of({**SMALL, **changes}, LIMITS)


def own(**changes) -> Job:
    return job(**{"task": "text", "text": TALE, "vocabulary": 270, **changes})


# --- a snapshot ---


def looked_at(asked: Job):
    """A snapshot of a shaken model, and all it was made of."""
    run, dataset, _, probe = begin(asked, LIMITS)
    shake(run.model, torch.Generator().manual_seed(3))
    run.step = 5
    return run, dataset, probe, snapshot(run, dataset, asked, probe)


@pytest.fixture(scope="module", params=["induction", "text"])
def looked(request):
    asked = (job if request.param == "induction" else own)(layers=2, heads=4, length=40)
    return asked, *looked_at(asked)


def test_patterns_are_those_of_a_trace(looked):
    _, run, _, probe, found = looked
    T = len(probe)
    assert found.patterns.shape == (2, 4, T, T) and found.patterns.dtype == np.float32 and T == PROBE_TOKENS
    assert_close(found.patterns.sum(-1), np.ones((2, 4, T)), 1e-5)
    traced = trace.run(run.model, tokens_of(probe))
    for layer, head in itertools.product(range(2), range(4)):
        assert_close(found.patterns[layer, head], traced.pattern(layer, head), 1e-6)


def test_predictions_are_the_softmax_of_the_logits(looked):
    _, run, _, probe, found = looked
    with torch.no_grad():
        logits = run.model(probe[None])[0]
    share = logits.softmax(-1)
    assert found.top_ids.shape == found.top_logits.shape == found.top_share.shape == (len(probe), 5)
    top = logits.sort(-1, descending=True)
    assert (found.top_ids == top.indices[:, :5].numpy()).all()
    assert_close(found.top_logits, top.values[:, :5], 1e-4)
    assert_close(found.top_share, share.sort(-1, descending=True).values[:, :5], 1e-5)
    assert_close(found.next_share, [share[i, probe[i + 1]] for i in range(len(probe) - 1)], 1e-5)


def test_heads_are_probed_with_what_the_model_knows(looked):
    asked, run, _, _, found = looked
    pool = run.model.config.vocab_size - 1 if asked.task == "text" else 62
    heads = probe_heads(run.model, pool=pool, length=40, sequences=4)
    for name in ("previous_token", "induction", "induction_baseline"):
        assert_close(getattr(found, name), heads[name].to_numpy().reshape(2, 4), 0)
    assert found.previous_token[1, 0] == heads.loc[(1, 0), "previous_token"]


def test_loss_and_accuracy_are_those_of_four_held_out_batches(looked):
    _, run, dataset, _, found = looked
    held = dataset.held_out[dataset.name](4, 40)
    batches = [*itertools.islice(held, 4)]
    ids, targets = (torch.from_numpy(np.concatenate([getattr(b, n) for b in batches])) for n in ("ids", "targets"))
    with torch.no_grad():
        logits = run.model(ids).flatten(0, 1)
    scored = targets.flatten() >= 0
    assert found.step == 5
    assert found.loss == pytest.approx(F.cross_entropy(logits[scored], targets.flatten()[scored]).item(), rel=1e-4)
    right = (logits.argmax(-1) == targets.flatten())[scored].float().mean().item()
    assert found.accuracy == pytest.approx(right, abs=1e-6)


def test_bits_are_said_of_a_text_and_of_no_task(looked):
    asked, run, dataset, _, found = looked
    if asked.task != "text":
        assert math.isnan(found.bits_per_byte)
        return
    length, rows = asked.recipe.length, asked.recipe.batch
    held = loop.evaluate(run.model, dataset.held_out["text"], dataset.token_bytes, length=length, rows=rows, limit=4)
    assert found.bits_per_byte == held.bits_per_byte > 0


def test_a_short_context_is_not_scored_and_a_long_one_up_to_64_tokens(monkeypatch):
    *_, found = looked_at(job(task="modular_addition", length=4))
    assert np.isnan([found.induction, found.previous_token, found.induction_baseline]).all()
    lengths = []
    monkeypatch.setattr(
        training, "probe_heads", lambda model, **asked: lengths.append(asked["length"]) or probe_heads(model, **asked)
    )
    looked_at(job(length=128))
    assert lengths == [64]


# --- what is replayed ---


def test_the_sequence_to_replay_is_an_example_or_the_beginning_of_the_held_out_text():
    _, dataset, _, probe = begin(job(task="copy", length=20), LIMITS)
    left, right = dataset.tokenizer.decode(probe.tolist()).rstrip(".").split(">")
    assert len(probe) == 20 and left == right
    other = begin(job(task="copy", length=20, seed=1), LIMITS)[3]
    assert not torch.equal(probe, other) and torch.equal(probe, begin(job(task="copy", length=20), LIMITS)[3])
    _, dataset, _, probe = begin(own(length=100), LIMITS)
    held = next(dataset.held_out["text"](1, 100)).ids[0]
    assert probe.tolist() == held[:PROBE_TOKENS].tolist() and probe.dtype == torch.int64


def test_a_sum_to_replay_is_one_that_is_held_out():
    held = {
        tuple(ids)
        for ids in next(begin(job(task="modular_addition", length=4), LIMITS)[1].held_out["modular_addition"](256, 4))
        .ids[:, [0, 2]]
        .tolist()
    }
    trained = TASKS["modular_addition"].make(np.random.default_rng(0), 100_000, 4, False)[0]
    trained = {tuple(ids) for ids in trained[:, [0, 2]].tolist()}
    assert not held & trained
    for seed in range(10):
        probe = begin(job(task="modular_addition", length=4, seed=seed), LIMITS)[3]
        assert len(probe) == 4 and (int(probe[0]), int(probe[2])) not in trained


@pytest.mark.parametrize(("length", "kept"), [(8, 8), (40, 32)])
def test_a_sequence_of_ones_own_is_cut_to_what_is_replayed(length, kept):
    _, dataset, _, probe = begin(job(length=length, probe="abcdef" * 10), LIMITS)
    assert dataset.tokenizer.decode(probe.tolist()) == ("abcdef" * 10)[:kept]


@pytest.mark.parametrize(("probe", "what"), [("a", "too short"), ("a b", "no token for"), ("a\ud800", "surrogate")])
def test_a_sequence_that_cannot_be_replayed_is_refused(probe, what):
    with pytest.raises(InputError, match=what):
        begin(job(probe=probe), LIMITS)


# --- what it writes ---


def written(asked: Job) -> tuple[str, str, list[int], int, object]:
    """(what was given, what was written, all ids, how many were given, the run) of a shaken model, as text."""
    run, dataset, _, found = looked_at(asked)
    ids, given = list(found.sample), found.prompt
    return dataset.tokenizer.decode(ids[:given]), dataset.tokenizer.decode(ids[given:]), ids, given, run


@pytest.mark.parametrize("name", ["copy", "reverse", "sort"])
def test_an_answer_comes_after_the_question(name):
    asked = job(task=name, length=24)
    question, _, ids, given, run = written(asked)
    probe = begin(asked, LIMITS)[3].tolist()
    assert question.endswith(">") and question.count(">") == 1 and question[:-1].isalpha()
    assert ids[:given] == probe[:given] and len(ids) == len(probe) == 24
    assert_greedy(run.model, ids, given)


def assert_greedy(model, ids, given):
    with torch.no_grad():
        likely = model(torch.tensor([ids[:-1]]))[0].argmax(-1)
    assert ids[given:] == likely[given - 1 :].tolist()


def test_a_sum_is_answered_with_one_token_after_the_equals_sign():
    question, answer, ids, given, run = written(job(task="modular_addition", length=4))
    assert question[2] == "+" and question[5:] == "=" and question.replace("+", "").replace("=", "").isdigit()
    assert (given, len(ids)) == (4, 5)
    assert_greedy(run.model, ids, given)
    assert answer == run_symbol(ids[4])


def run_symbol(i: int) -> str:
    """The text of a token of modular addition: its 102 symbols, then single digits."""
    symbols = TASKS["modular_addition"].symbols
    return symbols[i] if i < len(symbols) else "0123456789"[i - len(symbols)]


def test_a_repeated_sequence_goes_on_after_its_first_half():
    asked = job(length=40)
    _, _, ids, given, run = written(asked)
    assert ids[:given] == begin(asked, LIMITS)[3].tolist()[:given] and (given, len(ids)) == (17, 32)
    assert_greedy(run.model, ids, given)


@pytest.mark.parametrize(
    ("probe", "question", "more"), [("ba>", "ba>", 1), ("ba>ab..", "ba>", 4), ("abcdef", "abcd", 2)]
)
def test_a_question_of_ones_own_is_answered(probe, question, more):
    given, answer, ids, count, _ = written(job(task="sort", length=24, probe=probe))
    assert given == question and len(ids) - count == more == len(answer)


def test_a_text_is_continued_by_chance_that_the_step_decides():
    asked = own(length=40)
    run, dataset, _, probe = begin(asked, LIMITS)
    same = [training.sample(run.model, asked, dataset, probe, step) for step in (3, 3, 4)]
    assert same[0] == same[1] != same[2]


class Stub:
    """A model that always says the same, and how many tokens it had read each time."""

    def __init__(self, logits: list[float], n_ctx: int = 256):
        self.config = types.SimpleNamespace(
            n_ctx=n_ctx, n_layer=1, n_kv_head=1, d_head=1, kept=(0,), stateful=(), rewinds=True, two_way=False
        )
        self.always, self.lengths = torch.tensor(logits), []

    def trunk(self, ids, cache, attend=None):
        cache.reserve(*ids.shape)
        cache.advance(ids.shape[1])
        self.lengths.append(cache.length)
        return torch.zeros(*ids.shape, 1)

    def logits(self, stream, cached=False):
        return self.always.expand(*stream.shape[:2], -1)

    def normed(self, stream):
        return stream


def test_a_text_is_continued_up_to_the_context_or_its_end():
    asked = own(length=40)
    _, dataset, _, probe = begin(asked, LIMITS)
    last = dataset.tokenizer.vocab_size - 1

    def say(token, n_ctx, probe=probe):
        logits = torch.zeros(last + 1)
        logits[token] = 100
        model = Stub(logits.tolist(), n_ctx)
        given, ids = training.sample(model, asked, dataset, probe, 0)
        assert ids[:given] == tuple(probe[:given].tolist()) and set(ids[given:]) == {token}
        return given, len(ids) - given, max(model.lengths)

    assert say(7, 256) == (10, 48, 57)
    assert say(7, 40) == (10, 31, 40)  # what is read fits into the context
    assert say(last, 256) == (10, 1, 10)  # the end of the text
    assert say(7, 256, probe[:3]) == (2, 48, 49)


def test_a_model_gone_astray_writes_nothing():
    for asked in (own(length=40), job(length=40)):
        _, dataset, _, probe = begin(asked, LIMITS)
        given, ids = training.sample(Stub([math.nan] * dataset.tokenizer.vocab_size), asked, dataset, probe, 0)
        assert ids == tuple(probe[:given].tolist())


def test_chance_follows_the_softmax_at_temperature_0_8():
    asked = own(length=40)
    _, dataset, _, probe = begin(asked, LIMITS)
    model = Stub([0.8 * math.log(3.0), 0.0] + [-100.0] * (dataset.tokenizer.vocab_size - 2))  # 3 to 1
    drawn = [i for step in range(30) for i in training.sample(model, asked, dataset, probe, step)[1][10:]]
    assert len(drawn) == 30 * 48 and set(drawn) == {0, 1}
    assert drawn.count(0) / len(drawn) == pytest.approx(0.75, abs=4 * math.sqrt(0.75 * 0.25 / len(drawn)))


# --- every choice ---

CHOICES = [
    {"norm": "rmsnorm"},
    {"placement": "post"},
    {"positions": "sinusoidal"},
    {"positions": "rope"},
    {"positions": "none"},
    {"mlp": "relu"},
    {"mlp": "gelu"},
    {"mlp": "swiglu"},
    {"schedule": "trapezoid"},
    {"schedule": "inverse_sqrt"},
    {"placement": "post", "norm": "rmsnorm", "positions": "rope", "mlp": "swiglu"},
]


@pytest.mark.long
@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: "-".join(choice.values()))
def test_every_choice_can_be_trained_and_looked_at(choice):
    asked = job(layers=2, **choice)
    run, dataset, _, probe = begin(asked, LIMITS)
    names = {"placement": "norm_placement"}
    for name, value in choice.items():
        assert name == "schedule" or getattr(run.model.config, names.get(name, name)) == value
    messages = [*training.messages(run, dataset, asked, probe)]
    assert [m.step for m in messages] == [0, 1, 1, 2, 2]
    assert all(math.isfinite(m.loss) for m in messages)
    first, last = messages[0], messages[-1]
    assert not np.array_equal(first.patterns, last.patterns) and not np.array_equal(first.top_logits, last.top_logits)
    assert_close(last.patterns.sum(-1), np.ones((2, 2, 16)), 1e-5)
    assert np.isfinite([last.induction, last.previous_token, last.induction_baseline]).all()
