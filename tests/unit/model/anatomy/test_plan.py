"""What a model will take: its bytes are those it then has, its seconds follow from what was measured."""

import math
import shutil

import pytest
import torch

import app
from model.anatomy.plan import Rates, files_of, halved_bytes, measured, plan, report, run_operations, trace_bytes
from model.api import LanguageModel, load_resolved
from model.loading.checkpoint import save_folder
from model.loading.halves import halved
from model.loading.sources import Resolved, resolve
from model.loading.stored import SLICE
from model.tracing.trace import run
from tests.support.files.valid_files import write_gguf
from tests.support.models.helpers import VARIANTS, random_ids, tiny_model, tokens_of

RATES = Rates({"float32": 1e9, "bfloat16": 2e9, "float16": 5e8}, 1e8, 4e8)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("T", [1, 9, 70])
def test_a_trace_keeps_what_was_planned(variant, T):
    model = tiny_model({**VARIANTS[variant], "n_ctx": 80})
    assert run(model, tokens_of(random_ids(1, T)[0])).nbytes == trace_bytes(model.config, T)


@pytest.mark.parametrize("variant", [*VARIANTS, "experts"])
def test_weights_of_16_bits_take_what_was_planned(variant):
    more = {"n_expert": 3, "mlp": "swiglu"} if variant == "experts" else VARIANTS[variant]
    model = halved(tiny_model(more), torch.bfloat16)
    assert LanguageModel("t", "T", model, None).nbytes == halved_bytes(model.config)


@pytest.fixture
def folder(tmp_path):
    save_folder(tmp_path, tiny_model(VARIANTS["llama"]), torch.bfloat16)
    return Resolved("folder", tmp_path, "tiny", "Tiny")


def test_every_way_has_its_bytes_and_seconds(folder, monkeypatch):
    files = files_of(folder)
    assert files.nbytes == (folder.path / "model.safetensors").stat().st_size and files.kind == "folder"
    monkeypatch.setattr("model.loading.safetensors_files.TensorFolder.read", None)  # no weight is read
    table = plan(files, 9, RATES, 10**9)
    whole = sum(parameter.nbytes for parameter in tiny_model(VARIANTS["llama"]).parameters())
    reading, widening = files.nbytes / 1e8, whole / 2 / 4e8
    operations = run_operations(files.config, 9)
    own = "--weights stored --dtype bfloat16"  # the type of the files
    assert list(table.index) == ["--dtype float32", "--dtype bfloat16", "--dtype float16", "--weights stored", own]
    assert table["weights"].tolist()[0] == whole and table["weights"].tolist()[3] == 4 * SLICE
    assert set(table["prompt"]) == {trace_bytes(files.config, 9)} and table["fits"].all()
    assert table["loading"].tolist() == pytest.approx([reading + widening] * 3 + [0, 0])
    seconds = [operations / rate for rate in (1e9, 2e9, 5e8, 1e9, 2e9)]
    seconds[3] += widening
    assert table["run"].tolist() == pytest.approx(seconds)


def test_what_fits_is_told_to_the_byte(folder):
    files = files_of(folder)
    need = -(
        -(trace_bytes(files.config, 9) + sum(p.nbytes for p in tiny_model(VARIANTS["llama"]).parameters())) * 110 // 100
    )
    for free, fits in ((need, True), (need - 2, False)):
        assert plan(files, 9, RATES, free)["fits"]["--dtype float32"] == fits, free
    small = plan(files, 9, RATES, 1000)
    assert not small["fits"].any()
    # What is larger than memory is read again at each run.
    more = small["run"]["--weights stored"] - plan(files, 9, RATES, 10**9)["run"]["--weights stored"]
    assert more == pytest.approx(files.nbytes / 1e8)


def test_a_gguf_file_has_no_weights_to_leave_in_it(tmp_path):
    write_gguf(tmp_path)
    resolved = Resolved("gguf", tmp_path / "m.gguf", "m", "M")
    table = plan(files_of(resolved), 3, RATES, 10**9)
    assert "--weights stored" not in table.index and table["loading"].isna().all()
    assert table["weights"].tolist()[0] == load_resolved(resolved).nbytes


def test_several_other_mixers_are_counted_by_their_weights():
    model = tiny_model({"mixer": ("retention", "mamba", "softmax")})
    assert run_operations(model.config, 7) == 2 * 7 * sum(each.numel() for each in model.parameters())


def test_a_machine_is_measured(folder):
    rates = measured(files_of(folder), 5)
    assert set(rates.multiplied) == {"float32", "bfloat16", "float16"}
    assert all(0 < rate < math.inf for rate in (*rates.multiplied.values(), rates.read, rates.widened))


def test_it_is_told_on_the_command_line_without_loading(capsys, monkeypatch):
    monkeypatch.setattr("model.api.load_resolved", None)
    app.main(["--plan", "--offline", "--max-tokens", "100"])
    text = capsys.readouterr().out
    assert text.startswith("TinyGPT: 8,546,816 parameters, 17 MB on disk; ")
    header, *rows = text.splitlines()[2:]
    assert header.split() == ["weights", "100", "tokens", "fits", "loading", "a", "run"]
    ways = ["float32", "bfloat16", "float16", "--weights stored", "--weights stored --dtype float16"]
    assert [row.removeprefix("--dtype ").split("  ")[0] for row in rows] == ways
    assert rows[0].split()[2:4] == ["34", "MB"] and rows[1].split()[2:4] == ["17", "MB"]


def test_it_goes_by_the_threads_asked_for(monkeypatch, capsys):
    seen = []
    monkeypatch.setattr("torch.set_num_threads", seen.append)
    app.main(["--plan", "--offline", "--max-tokens", "5", "--threads", "1"])
    assert seen == [1] and "TinyGPT" in capsys.readouterr().out


def test_what_is_wrong_with_the_files_is_told(tmp_path, capsys):
    shutil.copy(resolve("tinygpt").path / "config.json", tmp_path)
    with pytest.raises(SystemExit, match=r"safetensors"):
        app.main(["--plan", "--offline", "--model", str(tmp_path)])


def test_a_number_that_is_not_known_is_a_question_mark(tmp_path):
    write_gguf(tmp_path)
    rows = report(Resolved("gguf", tmp_path / "m.gguf", "m", "M"), 50).splitlines()[3:]
    assert len(rows) == 3 and all(row.count("?") == 1 for row in rows)  # the seconds of loading
