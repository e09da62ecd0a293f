"""`python -m model.alignment reinforce`: a model folder in, a trained one with its log out."""

import csv
import json

import pytest
import torch

from model.alignment.__main__ import main
from model.api import load_model
from model.gpt.transformer import Transformer
from model.loading.checkpoint import save_folder
from model.training.data import train_vocabulary
from tests.support.models.helpers import tiny_config

SMALL = ["--steps", "2", "--texts", "8", "--group", "4", "--new-tokens", "6", "--rules", "length: 3"]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    vocabulary = train_vocabulary(["a happy dog and a sad cat sat here. " * 30], 300)
    torch.manual_seed(0)
    size = max(json.loads(vocabulary)["model"]["vocab"].values()) + 2
    save_folder(folder, Transformer(tiny_config({"vocab_size": size})))
    (folder / "tokenizer.json").write_text(vocabulary, encoding="utf-8")
    return folder


def test_a_run_leaves_a_model_and_its_log(base, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["reinforce", "--model", str(base), "--method", "grpo", "--out", str(out), *SMALL]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 3 and printed[0].strip().startswith("0  reward")
    rows = list(csv.DictReader((out / "reinforcement.csv").open(encoding="utf-8")))
    assert [row["step"] for row in rows] == ["0", "1", "2"] and float(rows[2]["kl"]) > 0
    trained, before = load_model(out), load_model(base)
    assert not torch.equal(trained.model.embed.weight, before.model.embed.weight)
    assert trained.encode("a happy dog").ids.tolist() == before.encode("a happy dog").ids.tolist()


def test_pairs_and_prompts_come_from_files(base, tmp_path, capsys):
    pairs, prompts = tmp_path / "pairs.jsonl", tmp_path / "prompts.txt"
    pairs.write_text('{"prompt": "a", "chosen": " dog", "rejected": " cat"}\n', encoding="utf-8")
    prompts.write_text("a happy\n\nthe dog\n", encoding="utf-8")
    files = ["--pair-file", str(pairs), "--prompts", str(prompts)]
    assert main(["reinforce", "--model", str(base), "--method", "dpo", *files, *SMALL]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_best_of_n_prints_its_doublings(base, capsys):
    assert main(["reinforce", "--model", str(base), "--method", "best_of_n", *SMALL]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3  # n = 1, 2, 4


@pytest.mark.parametrize("wrong", [["--rules", "sings"], ["--texts", "7"], ["--learning-rate", "nan"]])
def test_a_wrong_request_is_told(base, capsys, wrong):
    assert main(["reinforce", "--model", str(base), *SMALL, *wrong]) == 2
    assert capsys.readouterr().err


def test_a_folder_that_holds_something_is_left_alone(base, capsys):
    assert main(["reinforce", "--model", str(base), "--out", str(base), *SMALL]) == 2
    assert "not empty" in capsys.readouterr().err
