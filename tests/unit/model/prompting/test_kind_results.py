"""The stored results of the built-in models on the known kinds of prompts."""

import re
from pathlib import Path

import pytest

from model.api import load_model
from model.prompting import kind_results
from model.prompting.kind_results import (
    CONVERSATION,
    KindCase,
    KindResult,
    able_models,
    is_right,
    main,
    measure,
    prompts,
    results,
)
from model.prompting.kinds import KINDS, recognize


def test_every_prompt_is_recognized_with_its_answer():
    assert 140 <= len(prompts()) <= 180
    for case in prompts():
        found = recognize(case.text)
        assert found and found.kind == case.kind, case
        assert not found.answer or any(answer in found.answer for answer in case.answers), case


def test_the_file_counts_these_prompts():
    counts = {kind: sum(case.kind == kind for case in prompts()) for kind in KINDS}
    assert min(counts.values()) >= 14
    assert set(results()) == {"tinygpt", "smollm2-135m"}
    for found in results().values():
        assert {kind: found[kind].of for kind in KINDS} == counts
        assert CONVERSATION not in found or found[CONVERSATION].of == counts["question"]


def test_able_from_two_thirds_on():
    assert KindResult(16, 24).able and not KindResult(15, 24).able
    for model, found in results().items():
        for kind, result in found.items():
            assert (model in able_models(kind)) == (3 * result.right >= 2 * result.of)
    assert able_models("indirect_object") == ("smollm2-135m",)
    assert able_models("arithmetic") == able_models("chinese") == ()


@pytest.mark.parametrize(
    "kind, answers, text, right",
    [
        ("fact", ("Paris",), " Paris.", True),
        ("fact", ("Paris",), " the city Paris", False),
        ("arithmetic", ("42",), " 42", True),
        ("arithmetic", ("42",), " 421", False),
        ("code", ("b",), " b\n", True),
        ("code", ("b",), " base", False),
        ("code", (":", "as"), " as e:", True),
        ("question", ("seven", "7"), "\nThere are 7 days.", True),
        ("question", ("four",), "Fourteen", False),
        ("chinese", ("天",), "天。", True),
        ("chinese", ("北京",), "一位", False),
    ],
)
def test_what_counts_as_right(kind, answers, text, right):
    assert is_right(KindCase(kind, "", answers), text) is right


def remeasured(model: str, kinds: tuple[str, ...]) -> None:
    found = measure(load_model(model), [case for case in prompts() if case.kind in kinds])
    assert found == {kind: results()[model][kind] for kind in found}
    assert set(kinds) <= set(found)


def test_tinygpt_measured_again_on_one_kind():
    remeasured("tinygpt", ("indirect_object",))


@pytest.mark.long
def test_tinygpt_measured_again():
    remeasured("tinygpt", KINDS)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["indirect_object", "question"])
def test_smollm2_measured_again(kind):
    remeasured("smollm2-135m", (kind,))


def test_the_command_writes_the_file(tmp_path, monkeypatch):
    file = tmp_path / "results.json"
    monkeypatch.setattr(kind_results, "FILE", file)
    monkeypatch.setattr(kind_results, "load_model", lambda model: model)
    monkeypatch.setattr(kind_results, "measure", lambda lm, cases: {"fact": KindResult(1, 2)})
    main(["tinygpt"])
    results.cache_clear()
    try:
        assert results() == {"tinygpt": {"fact": KindResult(1, 2)}}
    finally:
        results.cache_clear()


def test_the_table_of_the_documentation():
    rows = (Path(__file__).parents[4] / "docs" / "models.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in row.split("|")[2:4]] for row in rows if re.search(r"\| \d+ / \d+ \|", row)]
    order = (
        "indirect_object",
        "repeated",
        "fact",
        "question",
        CONVERSATION,
        "arithmetic",
        "code",
        "few_shot",
        "chinese",
    )
    said = {model: [found.get(kind) for kind in order] for model, found in results().items()}
    for at, model in enumerate(("tinygpt", "smollm2-135m")):
        assert [row[at] for row in cells] == [f"{each.right} / {each.of}" if each else "–" for each in said[model]]
