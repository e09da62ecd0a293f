"""A plan of phases: read, followed, interrupted and gone on with, and refused where it is wrong."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from model import training_cli
from model.api import load_model
from model.errors import InputError
from model.loading.devices import KINDS, available
from model.loading.sources import WEIGHTS
from model.training import data, folders, loop, phases
from model.training.folders import CHECKPOINT, LOG

PLAN = """
[model]
config = {n_layer = 1, d_model = 32, n_head = 2}

[recipe]
batch = 2
length = 16
warmup = 1
learning_rate = 0.01
optimizer = "muon"

[[phases]]
name = "first"
steps = 4
schedule = "trapezoid"
decay = 0.0
shares = {tales = 0.9, repeated = 0.1}

[[phases]]
name = "to the end"
steps = 3
length = 8
floor = 0.0
shares = {tales = 1.0}
"""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """Forty short tales, a fifth of them held out."""
    folder, rng = tmp_path_factory.mktemp("texts"), np.random.default_rng(0)
    tale = lambda: " ".join(rng.choice(["fox", "hen", "ran", "sat", "the", "by"], 24))  # noqa: E731
    (folder / "tales.txt").write_text(f"\n{data.END_OF_TEXT}\n".join(tale() for _ in range(40)), encoding="utf-8")
    folders.prepare([folder / "tales.txt"], folder / "data", vocab_size=262, held_out=0.2)
    return folder / "data"


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.toml").write_text(text, encoding="utf-8")
    return folder / "plan.toml"


def followed(
    plan: phases.TrainingPlan,
    prepared: Path,
    out: Path,
    stop_after: int | None = None,
    save_every: int = 2,
    device: str = "cpu",
) -> list:
    """All reports; with `stop_after` the process is taken to end after that many steps."""
    reports = []
    for phase, each in phases.follow(plan, prepared, out, device=device, save_every=save_every):
        for report in each:
            reports.append((phase.name, report))
            if len(reports) == stop_after:
                return reports
    return reports


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return torch.load(folder / CHECKPOINT, weights_only=True)["model"]


def test_phases_follow_one_another_each_with_its_recipe(tmp_path, prepared):
    plan = phases.read_plan(write(tmp_path, PLAN))
    reports = followed(plan, prepared, tmp_path / "out")
    assert [(name, report.step) for name, report in reports] == [
        *(("first", step) for step in (1, 2, 3, 4)),
        *(("to the end", step) for step in (1, 2, 3)),
    ]
    assert [report.tokens for _, report in reports] == [32, 64, 96, 128, 144, 160, 176]
    assert plan.tokens == 176
    rates = [report.learning_rate for _, report in reports]
    assert rates[:5] == pytest.approx([0.01] * 5) and rates[-1] == 0.0
    last = tmp_path / "out" / "2-to-the-end"
    with (last / LOG).open(newline="", encoding="utf-8") as file:
        assert [row["held_out"] for row in csv.DictReader(file)].count("tales") == 2
    assert load_model(str(last), offline=True).config.n_layer == 1


def test_no_two_phases_draw_the_same_rows(tmp_path):
    plan = phases.read_plan(write(tmp_path, PLAN))
    assert [phase.recipe.seed for phase in plan.phases] == [1, 2]


@pytest.mark.parametrize("stop_after", [2, 3, 4, 6])
def test_an_interrupted_plan_goes_on_bit_by_bit(tmp_path, prepared, stop_after):
    plan = phases.read_plan(write(tmp_path, PLAN))
    followed(plan, prepared, tmp_path / "whole")
    followed(plan, prepared, tmp_path / "parts", stop_after)
    followed(plan, prepared, tmp_path / "parts")
    for number in range(2):
        whole, parts = (weights(phases.folder_of(plan, number, tmp_path / name)) for name in ("whole", "parts"))
        assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert followed(plan, prepared, tmp_path / "parts") == []  # nothing is left to do


def test_a_plan_begins_with_the_weights_it_names(tmp_path, prepared):
    plan = phases.read_plan(write(tmp_path, PLAN))
    followed(plan, prepared, tmp_path / "out")
    config = "config = {n_layer = 1, d_model = 32, n_head = 2}"
    text = PLAN.replace(config, 'weights = "out/2-to-the-end"\nseen = 1_000')
    further = phases.read_plan(write(tmp_path, text))
    number, run = phases.begin(further, 0, tmp_path / "new")
    assert (number, run.step, run.tokens) == (0, 0, 1000)
    saved = weights(tmp_path / "out" / "2-to-the-end")
    assert all(torch.equal(saved[name], tensor) for name, tensor in run.model.state_dict().items())
    assert further.tokens == 1176


def test_the_next_phase_keeps_the_state_of_its_optimizer_only_if_it_is_the_same(tmp_path, prepared):
    for other, kept in (("muon", True), ("adamw", False)):
        text = PLAN.replace('name = "to the end"', f'name = "to the end"\noptimizer = "{other}"')
        plan, out = phases.read_plan(write(tmp_path / other, text)), tmp_path / other / "out"
        followed(plan, prepared, out, 4)
        number, run = phases.begin(plan, 0, out)
        states = run.optimizer.state_dict()
        state = states["several"][0]["state"] if other == "muon" else states["state"]
        assert (number, run.step, run.tokens, bool(state)) == (1, 0, 128, kept)


def test_the_command_says_what_it_does_and_does_it(tmp_path, prepared, capsys, monkeypatch):
    monkeypatch.setattr(training_cli, "keep_freed_memory", lambda: None)
    arguments = ["follow", write(tmp_path, PLAN), "--data", prepared, "--out", tmp_path / "out", "--save-every", 10]
    assert training_cli.main([str(each) for each in arguments]) == 0
    said = capsys.readouterr().out
    assert "first: 4 steps of 2 x 16, muon 0.01 trapezoid; % of the rows: tales 90, repeated 10" in said
    assert "176 tokens in all, 0 of them before" in said
    assert (tmp_path / "out" / "2-to-the-end" / "model.safetensors").exists()


def test_a_run_may_end_with_the_mean_of_the_weights_after_several_phases(tmp_path, prepared, capsys, monkeypatch):
    monkeypatch.setattr(training_cli, "keep_freed_memory", lambda: None)
    path, out = write(tmp_path, f'average = ["first", "to the end"]\n{PLAN}'), tmp_path / "out"
    assert training_cli.main(["follow", str(path), "--data", str(prepared), "--out", str(out)]) == 0
    assert "the mean of the weights after: first, to the end" in capsys.readouterr().out
    first, second = (weights(out / name) for name in ("1-first", "2-to-the-end"))
    mean = weights(out / phases.AVERAGE)
    assert all(torch.equal(mean[name], (first[name] + second[name]) / 2) for name in first)
    run, _ = loop.load_checkpoint(out / phases.AVERAGE / CHECKPOINT)
    assert (run.step, run.tokens) == (3, 176)
    with (out / phases.AVERAGE / LOG).open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    lm, held_out = load_model(str(out / phases.AVERAGE), offline=True), prepared / "tales.held_out.u16"
    tokens = data.consecutive(data.read_tokens(held_out, lm.tokenizer.vocab_size))
    known = loop.evaluate(lm.model, tokens, data.token_bytes(lm.tokenizer), length=8)
    assert (row["held_out"], row["tokens"]) == ("tales", "176")
    assert float(row["held_out_loss"]) == pytest.approx(known.loss, rel=1e-5)


@pytest.mark.parametrize("kind", available())
def test_a_plan_is_followed_on_every_device_of_this_machine(tmp_path, prepared, kind):
    """A run that is moved between two steps goes on with its optimizer's state, to the rounding of a few steps."""
    plan = phases.read_plan(write(tmp_path, PLAN))
    first, there = followed(plan, prepared, tmp_path / "begun", 3), tmp_path / "there"
    shutil.copytree(tmp_path / "begun", there)
    rest = followed(plan, prepared, there, device=kind)
    known = followed(plan, prepared, tmp_path / "whole")
    assert [each.tokens for _, each in first[:2] + rest] == [each.tokens for _, each in known]
    losses = [[each.loss for _, each in some] for some in (first[:2] + rest, known)]
    assert losses[0] == pytest.approx(losses[1], rel=0 if kind == "cpu" else 1e-2)
    assert load_model(str(there / "2-to-the-end"), offline=True).config.n_layer == 1


def test_a_plan_on_a_device_that_is_not_there_is_refused(tmp_path, prepared):
    missing = next(kind for kind in KINDS if kind not in available())
    with pytest.raises(InputError, match="not find this device"):
        followed(phases.read_plan(write(tmp_path, PLAN)), prepared, tmp_path / "out", device=missing)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("[model]", "[model", "plan.toml"),
        ("[model]", "extra = 1\n[model]", "unknown: extra"),
        ("[model]", 'average = "first"\n[model]', "average is a list of two phases"),
        ("[model]", 'average = ["first"]\n[model]', "average is a list of two phases"),
        ("[model]", 'average = ["first", "second"]\n[model]', "average is a list of two phases"),
        ("config =", 'weights = "x"\nconfig =', "either weights or config"),
        ("config = {", "seen = -1\nconfig = {", "seen is a number"),
        ("[model]\nconfig", "[model]\nfolder", "model: unknown: folder"),
        ('name = "to the end"', 'name = "first"', "two phases have one name"),
        ('name = "to the end"', 'name = "../out"', "phase 2: the name is made of"),
        ('name = "to the end"', "", "phase 2: name is missing"),
        ("steps = 3", "steps = 0", "phase 2: steps must be"),
        ("steps = 3", "", "phase 2"),
        ("steps = 3", "step = 3", "phase 2"),
        ('optimizer = "muon"', 'optimizer = "sgd"', "phase 1: optimizer must be one of adamw, muon"),
        ("{tales = 1.0}", "{tales = -1.0}", "phase 2: shares are 0 or more"),
        ("{tales = 1.0}", "{tales = nan}", "phase 2: shares are 0 or more"),
        ("{tales = 1.0}", "{}", "phase 2: shares is a table"),
        ("{tales = 1.0}", '{tales = "all"}', "phase 2"),
    ],
)
def test_a_wrong_plan_is_refused_with_its_place(tmp_path, old, new, what):
    assert old in PLAN
    with pytest.raises(InputError, match="The plan cannot be read") as raised:
        phases.read_plan(write(tmp_path, PLAN.replace(old, new)))
    assert what in str(raised.value)


def test_a_plan_without_phases_and_an_unknown_text_are_refused(tmp_path, prepared):
    with pytest.raises(InputError, match="The plan cannot be read"):
        phases.read_plan(write(tmp_path, "[model]\nconfig = {}\n"))
    plan = phases.read_plan(write(tmp_path, PLAN.replace("{tales = 1.0}", "{fables = 1.0}")))
    with pytest.raises(InputError, match="No prepared file has this name"):
        followed(plan, prepared, tmp_path / "out")  # at once, not when its phase comes
    assert not (tmp_path / "out").exists()


def test_the_plan_of_the_bundled_model_is_the_run_of_its_log():
    recipe = phases.read_plan(Path(__file__).parents[4] / "benchmarks" / "tinygpt" / "recipe.toml")
    rates = [loop.learning_rate(at, phase.recipe) for phase in recipe.phases for at in range(phase.recipe.steps)]
    falls = [1.5e-3 * min(1.0, 1 - 0.98 * (step - 2884) / 1066) for step in range(201, 3951)]
    assert rates[200:3950] == pytest.approx(falls, rel=0.02, abs=2e-6)
    assert rates[4050:7950] == pytest.approx([1e-3] * 3900) and rates[9399] < 2e-6
    assert max(rates[7950:9400]) == pytest.approx(1e-3, rel=0.05)
    assert rates[9500:10700] == pytest.approx([2.5e-3] * 1200) and rates[-1] < 5e-6
    logged = (WEIGHTS / "tinygpt" / "log.csv").read_text().splitlines()[-1].split(",")
    assert recipe.tokens == int(logged[1]) > 100e6 and len(rates) == int(logged[0])
    assert recipe.weights is None and recipe.average == ("down to zero", "down to zero again")
    tokens = [phase.tokens for phase in recipe.phases]
    assert (sum(tokens[:-4]), sum(tokens[:-2])) == (16_179_200, 38_502_400)  # before each warm restart
