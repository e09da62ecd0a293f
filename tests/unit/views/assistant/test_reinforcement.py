"""The view Reinforce without a browser: its form as a run, the pictures of a run, and what a visitor may do with it."""

import dataclasses
import io
import math
import zipfile

import numpy as np
import pytest
import torch
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from model.alignment.lora import Lora
from model.alignment.reinforcement.course import DEFAULTS, METHODS
from model.alignment.reinforcement.job import reward_of
from model.alignment.reinforcement.texts import Answers
from model.alignment.reinforcement.updates import UPDATES
from model.alignment.reward_folder import fingerprint, save_reward
from model.alignment.reward_model import RewardModel
from model.errors import InputError
from model.training.jobs.job import Limits
from tests.support.models.helpers import serving
from tests.support.training.rehearsal import in_threads
from tests.support.views.endpoints import ask
from viz.charts.layer_head_map import HeadWords
from viz.seam.jobs import live_runs, stored_runs
from viz.seam.view import ModelsChanged, Open, Visit
from viz.serve import trained_archive
from viz.views.assistant.reinforcement.figures import Path, curves_figure, heads_figure, tokens_figure, tradeoff_figure
from viz.views.assistant.reinforcement.pieces import KEPT, Histories, piece
from viz.views.assistant.reinforcement.view import PRACTICE, job_of
from viz.work.playground import Options, Playground
from viz.work.prompt import Prompt

SMALL = {"steps": 2, "texts": 8, "group": 4, "new_tokens": 6, "more": True, "rules": "length: 4"}


@pytest.fixture
def playground(monkeypatch):
    """One whose runs are threads of this process, and whose messages come at once."""
    monkeypatch.setattr(live_runs, "EVERY", 0.0)
    with in_threads():
        ours = Playground(Options())
        yield ours
        ours.workshop.close()


def visit(playground, form=None, owner="me", state=None, language="en"):
    form = {"reinforcement_form": form or {}}
    return Visit(playground, owner, language, "tinygpt", Prompt("x"), form, state or Histories())


def test_the_form_as_it_is_is_a_run_of_the_methods_defaults(playground):
    for method in METHODS:
        job = job_of(visit(playground, {"method": method}))
        assert job.course == DEFAULTS[method] and job.base.model_id == "tinygpt" and len(job.prompts) == 4
    assert job.rules[0].name == "contains"


def test_what_is_set_is_done(playground):
    form = {"method": "dpo", "coefficient": 0, "learning_rate": 0.5, "seed": 7, "rules": "full_stop * 2"}
    form["pairs"] = '{"prompt": "a", "chosen": "b", "rejected": "c"}'
    job = job_of(visit(playground, form | {"prompts": "One\n\nTwo"}))
    assert (job.course.coefficient, job.course.learning_rate, job.course.seed) == (0, 0.5, 7)
    assert job.prompts == ("One", "Two") and job.rules[0].weight == 2 and job.pairs[0].rejected == "c"
    free = job_of(visit(playground, {"preset": "no_leash"}))
    assert free.course.coefficient == 0 and free.rules[0].name == "share"
    assert job_of(visit(playground, form | {"method": "ppo"})).pairs == ()


def test_the_pages_own_pairs_and_reward_model_are_used(playground):
    sent = {"pairs": [["Once", " b", " c", "person"], ["a", "b"]]}
    own = job_of(visit(playground, {"method": "dpo"}), sent)
    assert [pair.chosen for pair in own.pairs] == [" b"]
    assert job_of(visit(playground, {"method": "ppo"}), sent).pairs == ()
    with pytest.raises(InputError, match="no reward model"):
        job_of(visit(playground, {"preset": "trained"}))
    lm = playground.load("tinygpt")
    reward = RewardModel(lm.model, torch.full((256,), 0.01), torch.tensor(0.5))
    with playground.rewards.place() as folder:
        save_reward(folder, reward, name="mine", base="tinygpt", body=False, weights=fingerprint(lm.model))
        kept = playground.rewards.keep("me", folder, "mine", 1.0)
    job = job_of(visit(playground, {"preset": "trained"}))
    assert job.reward == kept.folder and job.rules == () and job.course == DEFAULTS["ppo"]
    paid = reward_of(job, lm)(Answers([[5, 6, 7], [8]], ["", ""]))
    assert paid == pytest.approx(reward.score_ids([[5, 6, 7], [8]]).numpy(), abs=1e-5)
    playground.rewards.close()


@pytest.mark.parametrize("form", [{"rules": "sings"}, {"texts": 10}, {"method": "dpo", "pairs": "no pair"}])
def test_what_cannot_be_run_is_refused(playground, form):
    with pytest.raises(InputError):
        job_of(visit(playground, form))


def test_a_run_is_followed_from_its_start_to_its_model(playground):
    state = Histories()
    told = [*PRACTICE.events["start"].handle(visit(playground, SMALL, state=state), {})]
    assert isinstance(told[-1], ModelsChanged)
    pieces = [each for each in told if isinstance(each, dict)]
    last = pieces[-1]
    assert last["state"] == "done" and last["done"] == last["steps"] == 3
    assert sum(len(each["reports"]) for each in pieces) == 3
    assert [step for each in pieces for step in each["snapshots"]] == [0, 1, 2]
    shown = {part["name"]: part for each in pieces for part in each.get("parts", ())}
    assert set(shown) == {"curves", "watched", "tradeoff", "heads", "tokens", "texts"}
    (run,) = playground.workshop.of("me")
    told_to_programs = ask(playground, "reinforcement_run", run=run.id)
    assert told_to_programs["state"] == "done" and [each["step"] for each in told_to_programs["reports"]] == [0, 1, 2]
    for each, report in zip(told_to_programs["reports"], run.reports, strict=True):
        found = report.measured
        wanted = (found.reward, found.kl, found.kl_text, found.perplexity, found.distinct_2, report.coefficient)
        names = ("reward", "kl", "kl_text", "perplexity", "distinct", "coefficient")
        assert [each[name] for name in names] == pytest.approx(wanted, rel=1e-5, abs=1e-9)
    with pytest.raises(InputError, match="run does not exist"):
        ask(playground, "training_run", run=run.id)
    assert last["before"] == {"model": "tinygpt", "prompt": run.tokenizer.decode(run.started.probe)}
    again = PRACTICE.events["again"].handle
    (lacking,) = again(visit(playground, state=state), {"run": run.id, "reports": 2, "snapshots": 1})
    assert (lacking["reports"], lacking["from_report"], lacking["snapshots"]) == ([2], 2, [1, 2])
    (entire,) = again(visit(playground, state=state), {"run": run.id, "reports": 0, "snapshots": 0})
    assert entire["reports"] == [0, 1, 2] and len(entire["parts"]) == 6
    assert list(again(visit(playground, owner="you"), {"run": run.id})) == []
    whole = {part["name"]: part["payload"] for part in piece(run, "en", (0, 0), state, "me")["parts"]}
    assert list(whole) == ["curves", "watched", "tradeoff", "heads", "tokens", "texts"]
    reward = whole["curves"]["figure"].data[-1]  # of the last panel
    assert len(reward.x) == 3
    path = whole["tradeoff"]["figure"].data[0]
    assert list(path.x) == pytest.approx([report.measured.kl_text for report in run.reports], rel=1e-4, abs=1e-6)
    assert list(path.y) == pytest.approx([report.measured.reward for report in run.reports], rel=1e-4)
    assert len(whole["watched"]["rows"]) == 4 and whole["texts"]["rows"][0][0] == "after 0 updates"
    heads = whole["heads"]["figure"].data[0].z
    assert np.array(heads).shape == (8, 8) and np.array(heads).max() > 0
    assert run.model_id in [model_id for _, model_id in playground.choices("me")]
    (opened,) = PRACTICE.events["open"].handle(visit(playground), {"run": run.id})
    assert isinstance(opened, Open) and opened.tab == "attention" and opened.prompt.startswith("Once upon a time")
    with pytest.raises(InputError):
        next(PRACTICE.events["open"].handle(visit(playground, owner="you"), {"run": run.id}))


def test_adapters_are_chosen_in_the_form_and_can_be_fetched(playground):
    """Their learning rate is ten times that of all weights; the name says that it is LoRA."""
    job = job_of(visit(playground, {"weights": "lora", "rank": "4", "matrices": "all"}))
    assert job.lora == Lora(4, 16.0, "all")
    assert job.course.learning_rate == pytest.approx(10 * DEFAULTS["ppo"].learning_rate)
    assert job_of(visit(playground, {"weights": "lora", "learning_rate": 0.5})).course.learning_rate == 0.5
    told = [*PRACTICE.events["start"].handle(visit(playground, SMALL | {"weights": "lora", "rank": "1"}), {})]
    last = told[-2]
    assert last["state"] == "done" and last["name"].endswith("rate 0.002, LoRA r = 1")
    assert "8,192 of 8,546,816 parameters are trained" in last["facts"]
    (run,) = playground.workshop.of("me")
    assert last["adapter"] == f"playground/trained/{run.id}/adapter.zip"
    client = TestClient(Starlette(routes=[Route("/{number}", trained_archive(playground, adapter=True))]))
    with zipfile.ZipFile(io.BytesIO(client.get(f"/{run.id}").content)) as file:
        assert sorted(file.namelist()) == ["adapter_config.json", "adapter_model.safetensors"]
    assert client.get("/none").status_code == 404


def test_best_of_n_leaves_nothing_in_the_picker(playground):
    form = SMALL | {"method": "best_of_n", "texts": 8, "group": 8}
    told = [*PRACTICE.events["start"].handle(visit(playground, form), {})]
    last = told[-2]
    assert last["state"] == "done" and last["model_id"] == ""
    assert [part["name"] for part in last.get("parts", [])] in ([], ["curves", "tradeoff", "texts"])
    (run,) = playground.workshop.of("me")
    assert run.model_id not in [model_id for _, model_id in playground.choices("me")]


def test_a_run_that_went_astray_says_so_and_keeps_its_model(playground, monkeypatch):
    """Its first update is of numbers that are not finite: how far a rate that is too high gets depends on rounding."""

    def update(learner, batch, course):
        raise FloatingPointError

    monkeypatch.setitem(UPDATES, "ppo", update)
    told = [*PRACTICE.events["start"].handle(visit(playground, SMALL), {})]
    last = told[-2]
    assert last["state"] == "diverged" and "diverged" in last["error"]["text"] and last["model_id"]
    (run,) = playground.workshop.of("me")
    assert "发散" in piece(run, "zh", (0, 0), Histories(), "me")["error"]["text"]


def test_a_server_that_trains_nothing_says_so(lm):
    playground = serving(lm, Options(training_minutes=0))
    playground.workshop.limits = Limits(minutes=0)
    with pytest.raises(InputError, match="disabled"):
        next(PRACTICE.events["start"].handle(visit(playground, SMALL), {}))


# --- the trade-off ---


def test_the_trade_off_keeps_a_visitors_runs_apart_and_forgets_who_leaves():
    histories = Histories()
    for n in range(KEPT + 3):
        mine = histories.keep("me", str(n), Path(str(n), (0.0,), (1.0,), "ppo"))
    assert len(mine) == KEPT and [path.name for path in mine if path.current] == [str(KEPT + 2)]
    assert len(histories.keep("you", "0", Path("a", (0.0,), (1.0,), "dpo"))) == 1
    PRACTICE.leave(histories, "me")
    assert list(histories.paths) == ["you"]


def test_a_point_of_the_trade_off_is_a_number_of_updates():
    figure = tradeoff_figure(
        [Path("PPO", (0.0, 2.0), (0.1, 0.5), "ppo", True), Path("best", (0.0, 0.2), (0.1, 0.2), "best_of_n")],
        {"kl": "KL", "reward": "reward", "step": "updates"},
    )
    ppo, best = figure.data
    assert (list(ppo.x), list(ppo.y), list(ppo.text)) == ([0, 2], [0.1, 0.5], ["0", "1"])
    assert ppo.marker.size[-1] > ppo.marker.size[0] and best.line.dash == "dot" and figure.layout.showlegend


def test_curves_without_a_number_have_no_panel():
    names = {"step": "updates", "reward": "r", "kl": "KL", "value_error": "v"}
    curves = {"reward": [0.0, 1.0], "kl": [0.0, 0.5], "value_error": [math.nan, math.nan]}
    figure = curves_figure([0, 1], curves, [0.5, 0.5], names)
    assert {trace.name for trace in figure.data if trace.name} == {"r", "KL"}
    assert "xaxis2" in figure.layout and "xaxis3" not in figure.layout


def test_likelier_tokens_are_warm_and_hostile_ones_are_escaped():
    before = np.log(np.array([[0.5, 0.25], [0.25, 0.25]]))
    after = np.log(np.array([[0.25, 0.5], [0.25, 0.75]]))
    named = {"token": "token", "next": "next", "before": "before", "after": "now", "ratio": "ln(p / q)"}
    figure = tokens_figure(["a", "b"], [["x", "<b>"], ["y", "z"]], before, after, named)
    (heat,) = figure.data
    assert np.array(heat.z) == pytest.approx(np.array([[-math.log(2), 0], [math.log(2), math.log(3)]]), abs=1e-6)
    assert heat.text[1][0] == "&lt;b&gt;"
    assert "&lt;b&gt;" in heat.customdata[1][0] and "25.0" in heat.customdata[1][0]
    assert figure.layout.coloraxis.cmax == -figure.layout.coloraxis.cmin == pytest.approx(math.log(3), abs=1e-6)


def test_before_the_first_update_nothing_is_drawn_as_moved():
    """The stored run cut to its start: rounding errors are not painted, and one update is singular."""
    run = stored_runs.as_live(stored_runs.read("reinforcement"))
    start = dataclasses.replace(run, reports=run.reports[:1], snapshots=run.snapshots[:1])
    assert [part["name"] for part in piece(start, "en", (0, 0), Histories(), "")["parts"]] == [
        "curves",
        "tradeoff",
        "texts",
    ]
    one = dataclasses.replace(run.snapshots[1], step=1)
    moved = piece(dataclasses.replace(run, snapshots=[run.snapshots[0], one]), "en", (0, 0), Histories(), "")
    parts = {part["name"]: part["payload"] for part in moved["parts"]}
    assert parts["watched"]["columns"][3] == "after 1 update" and parts["tokens"]["title"].endswith(": 1 update")
    rounding = heads_figure(np.full((2, 2), 6e-7), HeadWords("layer", "head", "moved"))
    assert rounding.layout.coloraxis.cmax == 0.01


def test_best_of_n_has_no_before_and_after():
    run = stored_runs.as_live(stored_runs.read("reinforcement"))
    assert len(piece(run, "en", (0, 0), Histories(), "")["glance"]["numbers"]) == 3
    untrained = dataclasses.replace(run.job, course=DEFAULTS["best_of_n"])
    assert piece(dataclasses.replace(run, job=untrained), "en", (0, 0), Histories(), "")["glance"] is None
