"""The training tab without a browser: its words and settings, and what it tells of a run."""

import base64
import json
import math
import re

import numpy as np
import pytest

from model.gpt.config import CHOICES
from model.gpt.mixers.names import MIXERS
from model.records import Snapshot
from model.training.jobs.form import PRESETS, job_of
from model.training.jobs.job import Limits, check
from model.training.tasks import TASKS
from tests.support.scripts import script, words_read
from tests.support.training.rehearsal import TALE, finish, in_threads
from viz.charts.packed import unpacked_figure
from viz.labels import visible
from viz.page.parts import packed
from viz.page.pipeline import PageRequest, payloads, scene_of
from viz.seam import panels
from viz.views.training import tab
from viz.views.training.training import view
from viz.views.training.training.figures import snapshot_payload
from viz.views.training.training.view import VIEW, piece_payload
from viz.words import LANGUAGES, Words, words
from viz.work.playground import Options, Playground

HOSTILE = "<img src=x onerror=alert(1)> \u202e ${x}\n"
STATES = ("starting", "running", "paused", "done", "time", "stopped", "failed")


# --- words and settings ---


def first_form(language: str) -> dict:
    """The form as a page is sent it before anything is computed."""
    return tab.TAB.fixed(words(language))["training_lab"]


def asked_for() -> tuple[set[str], set[str]]:
    """The words that the scripts of the lab ask for: those of the tab, and those of a plot."""
    plot, text = words_read("parts/figure/*"), script("views/training/[!b]*", "parts/run")
    found = set(re.findall(r"\bwords\.(\w+)", text))
    found |= {f"field_{name}" for name in re.findall(r'\bfield\(words, "(\w+)"', text)}
    found |= {f"metric_{name}" for name in re.search(r"of (\[[^\]]*\])\) metric.append", text)[1].split('"')[1::2]}
    templates = set(re.findall(r"words\[`(\w+_)\$", text))
    assert templates == {"field_", "state_", "metric_"}, "another kind of word: add it here"
    return found | {f"state_{state}" for state in STATES}, plot


def texts(value: object) -> list[str]:
    """All texts of a payload."""
    if isinstance(value, dict):
        return [text for inner in value.values() for text in texts(inner)]
    if isinstance(value, list | tuple):
        return [text for inner in value for text in texts(inner)]
    return [value] if isinstance(value, str) else []


# Choices of models that are loaded; no run is trained with them.
LATER = {*("output", "sandwich", "alibi"), *CHOICES["mlp"][4:-1]}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_word_of_the_scripts_is_there(language):
    parts = tab.TAB.fixed(words(language))
    said = parts["training_lab"]["words"]
    page, plot = asked_for()
    assert len(page) > 60 and {"field_probe", "state_time", "metric_induction", "resume", "truth"} <= page
    assert page - set(said) == set()
    assert len(plot) >= 5 and plot - set(said["plot"]) == set()
    assert {"training_view", "training_lab", "training_howto", "experts_howto"} < set(parts) < set(tab.TAB.parts)
    json.dumps(parts, allow_nan=False)


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_that_is_said_is_markup(language):
    everything = texts(tab.TAB.fixed(words(language)))
    assert len(everything) > 100
    assert not [text for text in everything if re.search(r"<|&\w+;|javascript:", text)]
    assert ("学习内容" in everything) == (language == "zh")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_form_offers_what_there_is_within_the_bounds_of_the_server(language):
    form, said = first_form(language), words(language)
    assert [task["key"] for task in form["tasks"]] == [*TASKS, "shakespeare", "text"]
    for task in form["tasks"]:
        assert task["label"] == said[f"task.{task['key']}"] and task["about"] == said[f"task_about.{task['key']}"]
        assert task["example"] == (TASKS[task["key"]].example if task["key"] in TASKS else "")
    choices = {"placement": "norm_placement", "norm": "norm", "positions": "positions", "mlp": "mlp"}
    for name, field in choices.items():
        assert form["choices"][name] == {
            key: said[f"choice.{key}"] for key in CHOICES[field] if (field, key) != ("mlp", "none") and key not in LATER
        }
    assert form["choices"]["mixer"] == {key: said[f"mixer.{key}"] for key in (*MIXERS, "hybrid")}
    assert form["defaults"]["mixer"] == next(iter(form["choices"]["mixer"])) == "softmax"
    assert [*form["choices"]["schedule"]] == ["cosine", "inverse_sqrt", "trapezoid"]
    assert form["limits"] == {
        "layers": [1, 6],
        "heads": [1, 8],
        "width": [8, 384],
        "length": [4, 256],
        "batch": [1, 64],
        "steps": [1, 20_000],
        "vocabulary": [257, 4096],
        "window": [1, 256],
        "mlp_width": [1, 1536],
        "dropout": [0, 0.9],
        "beta": [0, 0.9999],
        "weight_decay": [0, 1.0],
        "bytes": [0, 5_000_000],
    }


@pytest.mark.parametrize("language", LANGUAGES)
def test_presets_are_named_and_within_the_bounds_of_the_server(language):
    here = Words(words(language), "training")
    form = view.form(here, Limits(minutes=7))
    assert [each["key"] for each in form["presets"]] == list(PRESETS)
    for each in form["presets"]:
        assert each["settings"] == PRESETS[each["key"]] and set(each["settings"]) <= {*form["defaults"], "mlp_width"}
        assert each["label"] and len(each["about"]) > 40 and "{" not in each["about"]
        check(job_of(form["defaults"] | each["settings"], Limits()), Limits())
    assert "7" in form["presets"][-1]["about"]
    assert [each["key"] for each in view.form(here, Limits(width=64))["presets"]] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_noise_has_a_floor_and_a_task_with_a_rule_has_none(language):
    said = words(language)
    found = view.floor(job_of({"task": "noise"}, Limits()), said)
    assert found["loss"] == pytest.approx(math.log(26)) and "26" in found["text"] and "3.26" in found["text"]
    assert view.floor(job_of({}, Limits()), said) is None
    assert view.floor(job_of({"task": "shakespeare"}, Limits()), said) is None


def test_the_settings_that_the_form_begins_with_can_be_trained():
    form = first_form("en")
    assert job_of(form["defaults"], Limits()) == job_of({}, Limits())
    for task in form["tasks"]:
        values = form["defaults"] | task["settings"] | {"task": task["key"], "text": TALE, "probe": ""}
        check(job_of(values, Limits()), Limits())
    settings = {task["key"]: task["settings"] for task in form["tasks"]}
    assert settings["modular_addition"] == {"length": 4, "batch": 64, "steps": 6000}
    assert settings["induction"] == {"length": 64, "batch": 32, "steps": 600}


def test_the_form_is_drawn_with_the_servers_bounds_once_in_a_language(playground):
    scene = scene_of(playground, PageRequest("tiny", "abc", None, {}, {}, "en"))
    picture = panels.pictures(VIEW, scene, {})["training_lab"]
    stored = {name: made for name, made in picture.make().items() if name == "stored"}
    assert picture.make() == first_form("en") | stored and stored  # this server has the usual bounds
    other = scene_of(
        playground, PageRequest("tiny", "abcab", {"edits": [{"kind": "zero", "layer": 1, "head": 2}]}, {}, {}, "en")
    )
    assert (
        panels.pictures(VIEW, other, {})["training_lab"].key == picture.key
    )  # a new prompt leaves the replay as it is
    parts, _ = payloads(playground, PageRequest("tiny", "", None, {}, {}, "en", "training"))
    assert parts["notice"] and parts["training_lab"] == first_form("en")  # there whatever stands at the top


# --- a saved step ---


def made(**changes) -> Snapshot:
    rng = np.random.default_rng(0)
    patterns = rng.dirichlet(np.ones(6), size=(2, 3, 6)).astype(np.float32)
    patterns[0, 0] = np.eye(6)
    scores = rng.random((2, 3))
    scores[1, 1] = np.nan
    top = rng.integers(0, 9, (6, 2)), rng.normal(size=(6, 2)), rng.random((6, 2))
    values = {
        "step": 7,
        "loss": 1.5,
        "accuracy": 0.25,
        "bits_per_byte": np.nan,
        "patterns": patterns,
        "top_ids": top[0],
        "top_logits": top[1],
        "top_share": top[2],
        "next_share": rng.random(5),
        "previous_token": scores,
        "induction": scores * 0.5,
        "induction_baseline": scores * 0.25,
        "sample": (1, 2, 3),
        "prompt": 2,
    }
    return Snapshot(**{**values, **changes})


def test_weights_come_back_within_a_hundred_thousandth():
    snapshot = made()
    payload = snapshot_payload(snapshot, str, str)
    codes = np.frombuffer(base64.b64decode(payload["patterns"]), "<u2").reshape(2, 3, 6, 6)
    assert np.abs(codes / 65535 - snapshot.patterns).max() < 1e-5
    assert (codes[0, 0] == 65535 * np.eye(6)).all()
    assert np.abs(codes / 65535 - snapshot.patterns)[1].mean() < 5e-6  # rounded, not cut


def test_numbers_of_a_step():
    snapshot = made()
    payload = snapshot_payload(snapshot, lambda i: f"t{i}", lambda ids: f"{ids}")
    json.dumps(payload, allow_nan=False)
    assert (payload["step"], payload["loss"], payload["accuracy"], payload["bits"]) == (7, 1.5, 0.25, None)
    assert payload["induction"][1][1] is payload["previous_token"][1][1] is payload["induction_baseline"][1][1] is None
    for name in ("previous_token", "induction", "induction_baseline"):
        assert payload[name][0] == pytest.approx(getattr(snapshot, name)[0].tolist(), abs=1e-5)
    assert [[cell[0] for cell in row] for row in payload["top"]] == [[f"t{i}" for i in row] for row in snapshot.top_ids]
    assert [cell[1] for cell in payload["top"][4]] == pytest.approx(snapshot.top_logits[4].tolist(), abs=1e-4)
    assert [cell[2] for cell in payload["top"][4]] == pytest.approx(snapshot.top_share[4].tolist(), abs=1e-6)
    assert payload["next"] == pytest.approx(snapshot.next_share.tolist(), abs=1e-6)
    assert payload["sample"] == {"given": "(1, 2)", "written": "(3,)"}
    assert snapshot_payload(made(bits_per_byte=2.25), str, str)["bits"] == 2.25


def test_token_text_is_made_visible():
    payload = snapshot_payload(made(), lambda i: HOSTILE, str)
    assert {cell[0] for row in payload["top"] for cell in row} == {visible(HOSTILE)}
    assert "\u202e" not in visible(HOSTILE) and "\n" not in visible(HOSTILE)


# --- a run ---


@pytest.fixture
def trainer():
    with in_threads():
        ours = Playground(Options())
        yield ours
        ours.workshop.close()


def test_a_page_is_sent_what_it_lacks(trainer):
    run = finish(trainer.workshop, steps=4)
    whole = piece_payload(run, "en", (0, 0))
    assert [report[0] for report in whole["reports"]] == [1, 2, 3, 4]
    assert [snapshot["step"] for snapshot in whole["snapshots"]] == [0, 1, 2, 3, 4]
    part = piece_payload(run, "en", (3, 4))
    assert (part["reports"], part["snapshots"]) == (whole["reports"][3:], whole["snapshots"][4:])
    assert (part["from_report"], part["from_snapshot"]) == (3, 4)
    nothing = piece_payload(run, "en", (9, 9))
    assert nothing["reports"] == nothing["snapshots"] == []
    r = run.reports[1]
    assert whole["reports"][1] == [2, r.loss, r.learning_rate, r.gradient_norm, r.tokens, r.seconds]


def test_what_a_piece_says_of_its_run(trainer):
    run = finish(trainer.workshop, heads=4, positions="rope", placement="post", norm="rmsnorm")
    piece = piece_payload(run, "en", (0, 0))
    assert piece["label"] == "Repeated random sequence · 1×4 · RoPE · post-norm · RMSNorm · 3"
    assert piece_payload(run, "zh", (0, 0))["label"].startswith(words("zh")["task.induction"])
    wanted = {
        "run": run.id,
        "state": "done",
        "over": True,
        "steps": 3,
        "layers": 1,
        "heads": 4,
        "model_id": f"trained:{run.id}",
        "download": f"playground/trained/{run.id}.zip",
    }
    assert wanted.items() <= piece.items() and "error" not in piece
    assert piece["pace"] == run.spent / 3 > 0
    assert piece["source"].startswith(f"{run.started.n_params:,} parameters")
    assert piece["probe"] == [run.tokenizer.decode([i]) for i in run.started.ids]
    figure = unpacked_figure(piece["figure"])
    assert len(figure["data"][0]["x"]) == 16 and figure["layout"]["meta"]["whole"] is True


@pytest.mark.parametrize(
    ("mixer", "named", "hidden"),
    [
        ("sliding_window", "sliding window", []),
        ("retention", "retention", [0, 1, 2]),
        ("hybrid", "Mamba and softmax, alternating", [0, 2]),
    ],
)
def test_a_piece_says_which_layers_have_no_softmax(trainer, mixer, named, hidden):
    piece = piece_payload(finish(trainer.workshop, mixer=mixer, layers=3, steps=1), "en", (0, 0))
    assert piece["label"] == f"Repeated random sequence · 3×2 · {named} · learned · pre-norm · LayerNorm · 1"
    assert piece["hidden"] == hidden


@pytest.mark.parametrize("changes", [{"task": "modular_addition", "length": 4}, {"task": "text", "text": TALE * 2}])
def test_a_piece_is_json(trainer, changes):
    run = finish(trainer.workshop, **changes)
    piece = json.loads(packed(piece_payload(run, "en", (0, 0))))
    text = "text" in changes
    assert [snapshot["bits"] is not None for snapshot in piece["snapshots"]] == [text] * 4
    assert [snapshot["induction"][0][0] is not None for snapshot in piece["snapshots"]] == [text] * 4


def test_a_hostile_text_is_told_as_visible_tokens(trainer):
    run = finish(trainer.workshop, task="text", text=HOSTILE * 100, probe=HOSTILE, vocabulary=300)
    piece = piece_payload(run, "en", (0, 0))
    shown = [*piece["probe"], *(cell[0] for s in piece["snapshots"] for row in s["top"] for cell in row)]
    assert not [text for text in shown if re.search("[\u202e\n\x00-\x1f]", text)]
    figure = unpacked_figure(piece["figure"])["data"][0]
    assert not [name for name in (*figure["x"], *figure["y"]) if "<" in name]


def test_a_failure_is_explained_in_the_readers_language(trainer):
    run = finish(trainer.workshop, task="text", text=TALE, probe="a", vocabulary=257)
    piece = piece_payload(run, "en", (0, 0))
    assert (piece["state"], piece["over"], piece["model_id"]) == ("failed", True, "")
    assert piece["error"] == {"text": "The text to replay is too short. (a)", "hint": "Enter at least two tokens."}
    chinese = {"text": "要回放的文本太短。 (a)", "hint": "请至少提供两个词元。"}
    assert piece_payload(run, "zh", (0, 0))["error"] == chinese
    run.failure = type(run.failure)("", "ValueError('secret')")
    assert piece_payload(run, "en", (0, 0))["error"]["text"] == "Training failed."
    assert piece_payload(run, "zh", (0, 0))["error"]["text"] == "训练失败。"
    assert "secret" not in packed(piece_payload(run, "en", (0, 0)))
