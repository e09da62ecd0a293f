"""The command line of preferences and reward models: pairs from a rule, a folder from pairs, errors as sentences."""

import pytest

from model.alignment import __main__ as command_line
from model.alignment import reward_command
from model.alignment.preferences import read_pairs
from model.alignment.reward_folder import load_reward


@pytest.fixture
def loaded(lm, monkeypatch):
    monkeypatch.setattr(reward_command, "load_model", lambda name: lm)
    return lm


def test_pairs_are_made_and_learned_from(loaded, tmp_path, capsys):
    prompts, pairs, out = tmp_path / "prompts.txt", tmp_path / "pairs.jsonl", tmp_path / "reward"
    prompts.write_text("ab\ncd\n")
    arguments = ["preferences", "--rule", "length: 3", "--prompts", str(prompts), "--pairs", "6", "--new-tokens", "8"]
    assert command_line.main([*arguments, "--out", str(pairs)]) == 0
    made = read_pairs(pairs.read_text())
    assert {pair.prompt for pair in made} == {"ab", "cd"} and f"{len(made)} pairs" in capsys.readouterr().out
    assert command_line.main(["reward", "--pairs", str(pairs), "--head", "--steps", "3", "--out", str(out)]) == 0
    assert "held-out pairs" in capsys.readouterr().out
    assert load_reward(out, loaded.model).score_ids([[1, 2]]).shape == (1,)


@pytest.mark.parametrize("wrong", [["--rule", "nonsense"], ["--pairs", "0"], ["--seed", "-1"]])
def test_an_invalid_request_ends_with_a_sentence(loaded, tmp_path, capsys, wrong):
    assert command_line.main(["preferences", *wrong, "--out", str(tmp_path / "p")]) == 2
    assert capsys.readouterr().err.strip()
