"""The command line from a text to a model folder that opens, interruptions, refusals, fine-tuning and tasks."""

import csv
import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from model import training_cli
from model.alignment import instructions
from model.api import load_model
from model.gpt.config import ModelConfig
from model.text.tokenizer import from_folder
from model.training import data, folders, loop
from model.training.loop import Recipe

TINY = json.dumps({"n_layer": 1, "d_model": 32, "n_head": 2})
NUMBERS = ["--batch", "4", "--length", "16", "--warmup", "2", "--learning-rate", "0.01"]
COLUMNS = "step,tokens,seconds,loss,learning_rate,gradient_norm,held_out,held_out_loss,bits_per_byte,accuracy"


@pytest.fixture(autouse=True)
def _allocator_untouched(monkeypatch):
    """What it sets would hold for every test that follows in this process."""
    monkeypatch.setattr(training_cli, "keep_freed_memory", lambda: None)


def stories(seed: int, count: int) -> str:
    rng = np.random.default_rng(seed)
    names, verbs, places = ["fox", "hen", "cat", "dog"], ["ran", "sat", "slept"], ["hill", "barn", "tree"]
    one = lambda: f"The {rng.choice(names)} {rng.choice(verbs)} by the {rng.choice(places)}. "  # noqa: E731
    return f"\n{data.END_OF_TEXT}\n".join("".join(one() for _ in range(4)).strip() for _ in range(count))


def call(*arguments: object) -> int:
    return training_cli.main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> Path:
    """Two texts, prepared in "data" with a fifth held out and a vocabulary made from the first alone."""
    folder = tmp_path_factory.mktemp("texts")
    (folder / "tales.txt").write_text(stories(0, 40), encoding="utf-8")
    (folder / "rhymes.txt").write_text(stories(1, 10).replace("The", "Zwölf"), encoding="utf-8")
    assert (
        call(
            "prepare",
            folder / "tales.txt",
            folder / "rhymes.txt",
            "--out",
            folder / "data",
            "--vocab-size",
            280,
            "--held-out",
            0.2,
            "--vocabulary-from",
            folder / "tales.txt",
        )
        == 0
    )
    return folder


def train_arguments(texts: Path, out: Path, *more: object) -> list:
    mix = ["--mix", "tales=0.7,rhymes=0.2,repeated=0.1", "--final-mix", "tales=1", "--final-from", 0.5]
    return [
        "train",
        "--data",
        texts / "data",
        "--config",
        TINY,
        "--out",
        out,
        "--steps",
        6,
        "--save-every",
        3,
        "--held-out-batches",
        1,
        *mix,
        *NUMBERS,
        *more,
    ]


@pytest.fixture(scope="module")
def trained(texts: Path) -> Path:
    assert call(*train_arguments(texts, texts / "run")) == 0
    return texts / "run"


def log_of(folder: Path) -> list[dict[str, str]]:
    """The rows of the log without the seconds, which alone may differ."""
    rows = csv.DictReader((folder / "log.csv").read_text(encoding="utf-8").splitlines())
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return torch.load(folder / "checkpoint.pt", weights_only=True)["model"]


def same(a: dict, b: dict) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


# --- from text to a model ---


def test_prepare_splits_every_text_and_makes_one_vocabulary(texts):
    """Of 40 and 10 documents 8 and 2 are held out; the vocabulary is made from the training part of the first."""
    vocabulary = (texts / "data" / "tokenizer.json").read_text(encoding="utf-8")
    tokenizer, end = data.read_vocabulary(vocabulary), 279
    train, held = data.split_documents(data.documents((texts / "tales.txt").read_text(encoding="utf-8")), 0.2)
    assert json.loads(vocabulary) == json.loads(data.train_vocabulary(train, 280))
    assert np.array_equal(data.read_tokens(texts / "data" / "tales.train.u16"), data.pack(train, tokenizer))
    assert np.array_equal(data.read_tokens(texts / "data" / "tales.held_out.u16"), data.pack(held, tokenizer))
    counts = {path.name: int((data.read_tokens(path) == end).sum()) for path in (texts / "data").glob("*.u16")}
    assert counts == {"tales.train.u16": 32, "tales.held_out.u16": 8, "rhymes.train.u16": 8, "rhymes.held_out.u16": 2}


def test_prepare_says_how_far_it_is(texts, tmp_path):
    said = []
    folders.prepare(
        [texts / "tales.txt", texts / "rhymes.txt"], tmp_path, vocab_size=260, progress=lambda *what: said.append(what)
    )
    assert said == [(0, 2, "Tokenizing"), (1, 2, "Tokenizing")]


def test_a_run_logs_every_step_and_every_evaluation(trained):
    rows = log_of(trained)
    assert (trained / "log.csv").read_text().splitlines()[0] == COLUMNS
    both = ["", "tales", "rhymes"]
    assert [row["step"] for row in rows] == ["1", "2", "3", "3", "3", "4", "5", "6", "6", "6"]
    assert [row["held_out"] for row in rows] == ["", "", *both, "", "", *both]
    steps, judged = [r for r in rows if not r["held_out"]], [r for r in rows if r["held_out"]]
    assert [int(r["tokens"]) for r in steps] == [64, 128, 192, 256, 320, 384]
    assert [float(r["learning_rate"]) for r in steps[:3]] == [0.005, 0.01, 0.01]
    assert all(0 < float(r[name]) < 20 for r in steps for name in ("loss", "gradient_norm"))
    assert all(0 < float(r[name]) < 20 for r in judged for name in ("held_out_loss", "bits_per_byte"))
    assert all(0 <= float(r["accuracy"]) <= 1 and not r["loss"] for r in judged)
    assert not any(r["accuracy"] or r["held_out_loss"] for r in steps)


def test_the_last_evaluation_reads_all_that_is_held_out(texts, trained):
    """16 rows of 16 tokens, one batch, are less than the 8 documents: only at the end everything is read."""
    model, sizes = load_model(str(trained)).model, data.token_bytes(from_folder(trained))
    tokens = data.read_tokens(texts / "data" / "tales.held_out.u16")
    assert len(tokens) > 16 * 16 + 1
    found = loop.evaluate(model, data.consecutive(tokens), sizes, length=16)
    assert found.tokens == len(tokens) - 1
    last = log_of(trained)[-2]
    assert (last["held_out"], float(last["held_out_loss"])) == ("tales", pytest.approx(found.loss, rel=1e-5))
    assert float(last["bits_per_byte"]) == pytest.approx(found.bits_per_byte, rel=1e-5)
    assert float(last["accuracy"]) == pytest.approx(found.accuracy)


def test_evaluations_on_the_way_read_less(texts, tmp_path, monkeypatch):
    limits, found = [], loop.Evaluation(1.0, 0.5, 2.0, 1)
    monkeypatch.setattr(loop, "evaluate", lambda *_, limit, **more: limits.append(limit) or found)
    assert call(*train_arguments(texts, tmp_path)) == 0
    assert limits == [1, 1, None, None]


def test_the_folder_opens_and_traces(trained):
    model = load_model(str(trained))
    assert (model.config.n_layer, model.config.d_model, model.config.n_head, model.config.n_ctx) == (1, 32, 2, 16)
    assert model.config.vocab_size == model.tokenizer.vocab_size == 280
    assert same(model.model.state_dict(), weights(trained))
    pattern = model.trace("The fox sat by").pattern(layer=0, head=1)
    assert np.allclose(pattern.sum(axis=1), 1, atol=1e-5) and pattern[0, 0] == 1


def test_evaluate_prints_each_text(texts, trained, capsys):
    assert call("evaluate", "--model", trained, "--data", texts / "data", "--length", 512) == 0  # cut to the context
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["rhymes", "tales"]
    tokens = len(data.read_tokens(texts / "data" / "tales.held_out.u16")) - 1
    row = log_of(trained)[-2]
    loss, bits = float(row["held_out_loss"]), float(row["bits_per_byte"])
    expected = f"loss {loss:.4f} nats a token, perplexity {math.exp(loss):.2f}, {bits:.4f} bits a byte"
    assert lines[1] == f"tales: {expected}, {tokens:,} tokens"


def test_export_writes_a_folder_that_opens(trained, tmp_path):
    assert call("export", "--run", trained, "--out", tmp_path / "whole") == 0
    assert call("export", "--run", trained, "--out", tmp_path / "half", "--half") == 0
    whole, half = (load_model(str(tmp_path / name)) for name in ("whole", "half"))
    expected = weights(trained)
    assert same(whole.model.state_dict(), expected)
    assert same(half.model.state_dict(), {name: w.half().float() for name, w in expected.items()})
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("half", "whole")]
    assert 0.4 < sizes[0] / sizes[1] < 0.6
    assert whole.encode("The hen").ids.tolist() == load_model(str(trained)).encode("The hen").ids.tolist()


def test_shares_choose_the_texts(texts):
    dataset = folders.prepared(texts / "data", {"tales": 1, "repeated": 1}, {"repeated": 1}, 0.5)
    assert [*dataset.held_out] == ["tales"]
    assert (dataset.name, dataset.tokenizer.vocab_size) == ("data", 280)
    early, late = (dataset.train(np.random.default_rng(0), 200, 16, done) for done in (0.0, 0.5))
    told = [(batch.targets[:, 0] >= 0).mean() for batch in (early, late)]  # a repeated row scores nothing at first
    assert 0.4 < told[0] < 0.6 and told[1] == 0
    assert late.ids.max() < 279  # the end of text is no token to repeat


def test_a_preset_gives_the_shape(texts, tmp_path):
    more = ["--steps", 1, "--length", 16, "--batch", 1, "--preset", "minigpt", "--config", '{"n_layer": 1}']
    assert call("train", "--data", texts / "data", "--out", tmp_path, *more) == 0
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["norm_placement"], config["mlp"]) == ("post", "relu")
    assert (config["n_layer"], config["vocab_size"], config["n_ctx"]) == (1, 280, 16)


# --- interrupted ---


@pytest.mark.parametrize("cut", [False, True])
def test_an_interrupted_run_goes_on_as_if_it_had_not_been(texts, trained, tmp_path, cut: bool):
    """It stops after step 5, the checkpoint is of step 3: rows 4 and 5 are dropped and come again.

    A process that is killed can leave a last row cut short, here after the first digit of step "12".
    """
    options = training_cli.parser().parse_args([str(a) for a in train_arguments(texts, tmp_path)])
    recipe = training_cli._recipe(options)
    dataset = folders.prepared(options.data, options.mix, options.final_mix, options.final_from)
    run = loop.start(training_cli._config(options, dataset, recipe), recipe)
    reports = folders.train(run, recipe, dataset, tmp_path, evaluate_every=3, save_every=3, held_out_batches=1)
    assert [report.step for report in itertools.islice(reports, 3)] == [1, 2, 3]
    assert [row["step"] for row in log_of(tmp_path)] == ["1", "2", "3", "3", "3"]  # on the disk, as the checkpoint is
    assert [report.step for report in itertools.islice(reports, 2)] == [4, 5]
    reports.close()
    assert log_of(tmp_path) == log_of(trained)[:7]
    assert not (tmp_path / "config.json").exists()
    if cut:
        with (tmp_path / "log.csv").open("a") as log:
            log.write("1")
    assert call(*train_arguments(texts, tmp_path, "--resume")) == 0
    assert log_of(tmp_path) == log_of(trained)
    assert same(weights(tmp_path), weights(trained))
    assert same(load_model(str(tmp_path)).model.state_dict(), load_model(str(trained)).model.state_dict())


def test_a_finished_run_that_is_resumed_stays_as_it_is(texts, trained):
    log, before = (trained / "log.csv").read_bytes(), weights(trained)
    assert call(*train_arguments(texts, trained, "--resume")) == 0
    assert (trained / "log.csv").read_bytes() == log and same(weights(trained), before)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_run_moves_with_its_optimizer(optimizer):
    config = ModelConfig(vocab_size=40, n_ctx=16, n_layer=1, d_model=16, n_head=2)
    recipe, source = Recipe(steps=4, length=16, optimizer=optimizer), data.repeated(40)
    whole, begun = loop.start(config, recipe), loop.start(config, recipe)
    expected = [report.loss for report in loop.steps(whole, recipe, source)]
    first = [report.loss for report in itertools.islice(loop.steps(begun, recipe, source), 2)]
    assert loop.moved(begun, recipe, "cpu") is begun  # it is there already
    moved = loop._rebuilt(begun, recipe, "cpu")
    assert moved is not begun and (moved.step, moved.tokens) == (2, begun.tokens)
    assert first + [report.loss for report in loop.steps(moved, recipe, source)] == expected


# --- refused ---


def test_an_existing_run_is_not_overwritten(texts, trained, capsys):
    before = {path.name: path.read_bytes() for path in trained.iterdir()}
    assert call(*train_arguments(texts, trained)) == 2
    assert "already holds a run. Got: run. Add --resume" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in trained.iterdir()} == before


REFUSED = {
    "missing text": ("prepare {texts}/none.txt --out {out}", "none.txt"),
    "not UTF-8": ("prepare {out}/latin.txt --out {out}/data", "latin.txt"),
    "one name twice": ("prepare {texts}/tales.txt {out}/tales.txt --out {out}/data", "file with this name exists"),
    "other vocabulary": ("prepare {texts}/tales.txt --vocabulary-from {texts}/rhymes.txt --out {out}/data", "rhymes"),
    "too small a vocabulary": ("prepare {texts}/tales.txt --out {out}/data --vocab-size 256", "at least 257"),
    "no data": ("train --data {out}/none --out {out}/run --steps 1", "tokenizer.json"),
    "unknown text": ("train --data {texts}/data --mix novels=1 --out {out}/run --steps 1", "novels.train.u16"),
    "nothing to resume": ("train --data {texts}/data --out {out}/run --steps 1 --resume", "no checkpoint"),
    "unknown preset": ("train --data {texts}/data --out {out}/run --steps 1 --preset gpt9", "No preset"),
    "unknown field": ('train --data {texts}/data --out {out}/run --steps 1 --config {{"layers":2}}', "layers"),
    "field of a preset": (
        'train --data {texts}/data --out {out}/run --steps 1 --preset gpt2 --config {{"layers":2}}',
        "layers",
    ),
    "odd sizes": ('train --data {texts}/data --out {out}/run --steps 1 --config {{"n_head":3}}', "multiple of n_head"),
    "too long a row": ('train --data {texts}/data --out {out}/run --steps 1 --config {{"n_ctx":8}}', "learned up to 8"),
    "no steps": ("train --task sort --out {out}/run --steps 0", "steps must be a whole number of at least 1, got 0"),
    "no run": ("export --run {out}/none --out {out}/model", "no checkpoint"),
    "no model": ("evaluate --model {out}/none --data {texts}/data", "no config.json"),
    "no examples": ("tune --model {texts}/run --examples {out}/none.jsonl --out {out}/run --steps 1", "cannot be read"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_said_in_one_line(texts, trained, tmp_path, capsys, name: str):
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n" * 50)
    (tmp_path / "tales.txt").write_text(stories(2, 5))
    command, what = REFUSED[name]
    assert training_cli.main(command.format(texts=texts, out=tmp_path).split()) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert what in error


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ("--mix tales", "expected NAME=SHARE"),
        ("--mix tales=x", "expected NAME=SHARE"),
        ("--mix a=1,b", "NAME=SHARE"),
        ("--mix tales=0", "not all 0"),
        ("--mix tales=2,rhymes=-1", "0 or more"),
        ("--config {n_layer:1}", "--config"),
        ("--config [1]", "--config"),
        ("--schedule linear", "inverse_sqrt"),
        ("--precision half", "bfloat16"),
        ("--task sort", "not allowed with"),
    ],
)
def test_an_option_that_cannot_be_read_is_named(texts, tmp_path, capsys, arguments: str, what: str):
    with pytest.raises(SystemExit) as stop:
        call("train", "--data", texts / "data", "--out", tmp_path / "run", "--steps", 1, *arguments.split())
    assert stop.value.code == 2
    assert what in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


# --- fine-tuning ---


def test_tune_teaches_a_trained_model_its_examples(texts, tmp_path):
    examples = [{"instruction": f"Say {word}.", "output": word} for word in ("fox", "hen", "barn", "tree")]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, examples)))
    base, out, end = tmp_path / "base", tmp_path / "tuned", 279
    more = ["--length", 64, "--learning-rate", 0.01, "--warmup", 0]
    base_arguments = ["--mix", "tales=1", "--out", base, "--steps", 3, "--batch", 4, "--config", TINY, *more]
    assert call("train", "--data", texts / "data", *base_arguments) == 0
    tuned = ["tune", "--model", base, "--examples", tmp_path / "a.jsonl", "--out", out, "--batch", 8, *more]
    assert call(*tuned, "--steps", 30) == 0
    rows, tokenizer = log_of(out), from_folder(base)
    assert float(rows[29]["loss"]) < 0.5 * float(rows[0]["loss"])
    fit = instructions.fitting(instructions.read_examples(tmp_path / "a.jsonl"), tokenizer, end, 64)
    drawn = instructions.demonstrations(fit, end)(np.random.default_rng([0, 0]), 8, 64, 0.0)
    # It begins as the model that was given, and is judged by all the examples.
    for folder, held, found in (
        (base, lambda *_: iter([drawn]), rows[0]["loss"]),
        (out, instructions.every_demonstration(fit, end), rows[30]["held_out_loss"]),
    ):
        loss = loop.evaluate(load_model(str(folder)).model, held, data.token_bytes(tokenizer), length=64).loss
        assert float(found) == pytest.approx(loss, rel=1e-4)
    assert [(row["step"], row["held_out"]) for row in rows if row["held_out"]] == [("30", "examples")]
    assert call(*tuned, "--steps", 30) == 2
    assert call(*tuned, "--steps", 31, "--weight-decay", 0.7, "--resume") == 0
    state = torch.load(out / "checkpoint.pt", weights_only=True)
    assert (state["step"], state["optimizer"]["param_groups"][0]["weight_decay"]) == (31, 0.7)


# --- tasks ---


def test_a_task_is_trained_from_the_command_line(tmp_path, capsys):
    """Its rows are never longer than it allows, and its folder opens like any other."""
    more = ["--out", tmp_path, "--steps", 2, "--batch", 8, "--config", TINY]
    assert call("train", "--task", "modular_addition", *more) == 0
    model = load_model(str(tmp_path))
    assert model.config.n_ctx == 4 and model.encode("17+95=").pieces == ("17", "+", "95", "=")
    assert [row["held_out"] for row in log_of(tmp_path)] == ["", "", "modular_addition"]
    (tmp_path / "a.jsonl").write_text('{"instruction": "x", "output": "y"}')
    tuned = ["tune", "--model", tmp_path, "--examples", tmp_path / "a.jsonl", "--out", tmp_path / "tuned", "--steps", 1]
    assert call(*tuned) == 2  # there is no end of text to answer with
    assert "end-of-text" in capsys.readouterr().err
