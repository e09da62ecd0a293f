"""Tests that the README's commands are the ones CI runs, and that everything it names exists."""

import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from packaging.requirements import Requirement

from model.api import LanguageModel, load_model
from model.gpt.edits import Edit
from model.loading.families import FAMILIES
from tests.support.screenshots import PICTURES

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FRONT, BODY = README.split("---\n", 2)[1:]
COMMANDS = re.findall(r"```bash\n(.*?)\n```", README, re.DOTALL)


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return load_model("tinygpt", offline=True)


def test_it_has_at_most_two_hundred_lines():
    assert len(BODY.splitlines()) <= 200


def test_there_are_two_commands_and_the_note_on_torch_precedes_them():
    assert COMMANDS == [
        "pip install -r requirements.txt && python app.py",
        "pip install -r requirements-dev.txt && python -m pytest",
    ]
    assert BODY.index("CPU build") < BODY.index(COMMANDS[0]) < BODY.index(COMMANDS[1]) < 2500


def test_torch_is_installed_in_the_version_of_the_requirements():
    wanted = re.search(r"^torch==\S+", (ROOT / "requirements.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert wanted and f"pip install {wanted[0]} --index-url" in BODY


def test_ci_runs_exactly_the_test_command():
    script = (ROOT / ".ci/run").read_text(encoding="utf-8").replace("pip install -q", "pip install")
    assert COMMANDS[1] in script


def test_a_space_would_start_this_version_of_the_app():
    front = yaml.safe_load(FRONT)
    requirements = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    (gradio,) = [each for each in map(Requirement, requirements.split()) if each.name == "gradio"]
    assert front["sdk_version"] in gradio.specifier
    assert (front["sdk"], front["license"]) == ("gradio", "apache-2.0")
    assert (ROOT / front["app_file"]).exists() and len(front["short_description"]) <= 60
    colors = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
    assert {front["colorFrom"], front["colorTo"]} <= colors


def test_the_pictures_are_made_by_the_script_and_small():
    pictures = list((ROOT / "docs").glob("*.png"))
    shown = {Path(name).stem for name in re.findall(r"\]\((docs/\w+\.png)\)", README)}
    assert shown == set(PICTURES) == {path.stem for path in pictures}
    assert all(path.stat().st_size > 10_000 for path in pictures)
    assert sum(path.stat().st_size for path in pictures) < 300_000


def test_every_page_of_the_documentation_is_in_the_index():
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} | {"mini_gpt.py"}
    assert pages == set(re.findall(r"\[(\w+\.\w+)\]\(docs/", README))


def test_the_number_of_families_is_right():
    assert set(re.findall(r"(\d+) families", BODY)) == {str(len(FAMILIES))}


# --- five things to try first: tests/js/test_readme_links.py opens the links ---


def probability(run, lm: LanguageModel, token: str) -> float:
    """Return the probability of a token after the last position."""
    (number,) = lm.tokenizer.encode(token).ids.tolist()
    logits = run.logits_at(-1).astype(np.float64)
    return float(np.exp(logits[number] - np.logaddexp.reduce(logits)))


def test_the_head_is_the_strongest_induction_head(lm):
    text = "Mrs Pemberton keeps seven grey geese behind the mill, and Mrs Pemberton keeps seven grey geese"
    assert "Head 7.7 attends" in BODY and lm.trace(text).head_metrics()["induction"].idxmax() == (7, 7)


def test_the_name_is_lost_without_four_heads(lm):
    assert "with 81% for its first token" in BODY and "less than 1%" in BODY
    run = lm.trace("Lily had a fox named Fizz. Tom had a ball. Lily had a fox named")
    assert round(100 * probability(run, lm, " F")) == 81
    assert probability(run.edit(*(Edit("zero", 7, head) for head in (0, 1, 3, 5))), lm, " F") < 0.01


def test_the_answer_appears_after_the_last_layer(lm):
    assert '"dog" is the top token only after the last one' in BODY
    run = lm.trace("Lily had a red dog. Lily took it to the park. Everybody liked the red")
    table = run.logit_lens(top=1, positions=[len(run.tokens) - 1])
    pieces = table.sort_values("layer")["piece"].tolist()
    assert pieces[-1] == " dog" and " dog" not in pieces[:-1]
