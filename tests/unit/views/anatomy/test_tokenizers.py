"""The view of tokenizers without a browser: counts, chips, merges and languages."""

import json

import pytest

from model.api import LanguageModel
from model.loading.tokenizer_comparison import built_in
from model.text.bpe_steps import MOST_CHARACTERS
from model.text.tokenizer import from_folder
from tests.support.models.helpers import VARIANTS, byte_tokenizer, serving, tiny_model
from tests.unit.model.text.test_library_folders import folder
from viz.api.endpoints import ENDPOINTS
from viz.api.registry import call
from viz.page.parts import packed
from viz.page.pipeline import PageRequest, payloads, scene_of
from viz.seam import depends, panels
from viz.views.anatomy.tokenizers import measure
from viz.views.anatomy.tokenizers.figures import LANGUAGES, MOST_CHIPS, SAMPLES, chips, part_text
from viz.views.anatomy.tokenizers.view import VIEW
from viz.words import LANGUAGES as SPOKEN
from viz.work.playground import Options

NAMED = {each.name: each for each in ENDPOINTS}
HOSTILE = '<img src=x onerror="alert(1)"> {x} \u202e'


@pytest.fixture
def playground(tmp_path, monkeypatch):
    """A byte model beside TinyGPT's vocabulary; SmolLM2's is missing on any machine."""
    monkeypatch.setattr(measure, "local_vocabularies", lambda: ("tinygpt",))
    monkeypatch.setattr(depends, "available", lambda: ("tinygpt",))
    model = tiny_model({**VARIANTS["gpt2"], "vocab_size": 256, "n_ctx": 512})
    return serving(
        LanguageModel("tiny", "Tiny", model, byte_tokenizer(tmp_path)), Options(model="tiny", max_tokens=500)
    )


def drawn(playground, form=None, prompt="the cat", language="en"):
    form = {"also": "none"} | (form or {})
    values = {"anatomy_view": {"view": "tokenizers"}, "tokenizers_form": form}
    parts = payloads(playground, PageRequest("tiny", prompt, None, values, {}, language, "anatomy"))[0]
    packed(parts)
    return parts


@pytest.mark.parametrize("language", SPOKEN)
def test_everything_is_drawn_at_once(playground, language):
    parts = drawn(playground, language=language)
    shown = [part for name, part in parts.items() if name.startswith("tokenizers_") and "source" in part]
    assert len(shown) == 5
    assert not [each for each in shown if "empty" in each or "problem" in each]
    assert all("{" not in each.get("about", "") + each["source"] for each in shown)


def test_what_is_measured_is_every_vocabulary(playground):
    scene = scene_of(playground, PageRequest("tiny", "the cat", None, {}, {}, "en", "anatomy"))
    settings = panels.settings_of(VIEW, scene, {"tokenizers_form": {"text": "人", "merges": "tinygpt", "also": "none"}})
    compared, samples = measure.measure(scene, settings), measure.measure_samples(scene, settings)
    assert [(row.key, row.counted.tokens) for row in compared.rows][2:] == [("bytes", 3), ("characters", 1)]
    assert samples["bytes"]["zh"].tokens == len(LANGUAGES["zh"].encode())
    merged = measure.measure_merges(scene, settings.but(text="unbelievable"))
    for each in merged.pieces:  # the merged pair is listed first
        assert all(step.pairs[0] == (step.left, step.right, step.rank) for step in each.steps)
    assert merged.which == "tinygpt" and merged.complete and any(each.steps for each in merged.pieces)


def test_public_vocabularies_are_chosen_without_a_download(playground):
    rows = drawn(playground, {"also": "all", "text": "The cat sat"})["tokenizers_chips"]["rows"]
    ids = {row["name"]: [chip[1] for chip in row["chips"]] for row in rows}
    assert ids["GPT-2"] == [464, 3797, 3332]
    assert ids["cl100k_base (GPT-4)"] == [791, 8415, 7731] and ids["o200k_base (GPT-4o)"] == [976, 9059, 10139]
    usual = drawn(playground, {"also": "gpt2", "text": "Once upon a time"})
    assert [chip[1] for chip in usual["tokenizers_chips"]["rows"][2]["chips"]] == [7454, 2402, 257, 640]
    merged = drawn(playground, {"merges": "gpt2", "text": "The cat sat"})["tokenizers_merges"]
    assert "GPT-2" in merged["title"] and [piece["ids"] for piece in merged["pieces"]] == [[464], [3797], [3332]]
    hard = drawn(playground, {"also": "all", "text": HOSTILE + "👩\u200d👧\x00\x07"})["tokenizers_counts"]["rows"]
    assert all(row[2] != "–" for row in hard) and len(hard) == 7


def test_programs_get_the_ids_of_a_public_vocabulary(playground):
    told = call(playground, NAMED["merges"], {"text": "The cat sat", "vocabulary": "gpt2"})
    assert [each["ids"] for each in told["pieces"]] == [[464], [3797], [3332]]


def test_counts_of_the_prompt(playground):
    table = drawn(playground)["tokenizers_counts"]
    assert [row[0] for row in table["rows"]] == ["Tiny (loaded)", "TinyGPT", "UTF-8 bytes", "characters"]
    assert [row[2] for row in table["rows"]] == ["7", str(len(built_in("tinygpt").encode_ids("the cat"))), "7", "7"]
    assert table["lines"][2] == ["UTF-8 bytes", 256, 7, 1.0, 1.0, 0.0]
    assert "7 characters, 7 bytes" in table["about"] and "nothing is downloaded" in table["about"]


def test_another_text_takes_the_place_of_the_prompt(playground):
    parts = drawn(playground, {"text": "人"})
    assert [row[2] for row in parts["tokenizers_counts"]["rows"]] == ["3", "3", "3", "1"]
    chips_ = [[chip[0] for chip in row["chips"]] for row in parts["tokenizers_chips"]["rows"]]
    assert chips_[2] == ["E4", "BA", "BA"] and chips_[3] == ["人"]
    assert all(chip[3] for chip in parts["tokenizers_chips"]["rows"][2]["chips"])


def test_a_text_that_is_too_long_is_said_in_its_parts(playground):
    parts = drawn(playground, {"text": "a" * (measure.MOST_TEXT + 1)})
    for name in ("tokenizers_counts", "tokenizers_chips", "tokenizers_merges"):
        assert parts[name]["problem"]["text"].startswith("The text is too long to compare.")
    assert "figure" in parts["tokenizers_languages"]
    assert f"{measure.MOST_TEXT:,}" in parts["tokenizers_form"]["controls"][0]["placeholder"]


@pytest.mark.parametrize("form", [None, [], {"text": 3}, {"text": "", "merges": "../x"}, {"merges": None}])
def test_what_a_page_may_send(playground, form):
    parts = drawn(playground, form)
    assert parts["tokenizers_merges"]["title"] == "How Tiny builds its tokens"
    assert "7 characters" in parts["tokenizers_counts"]["about"]


def test_hostile_text_stays_text(playground):
    parts = drawn(playground, {"text": HOSTILE, "merges": "tinygpt"})
    texts = [piece["text"] for piece in parts["tokenizers_merges"]["pieces"]]
    assert "<U+202E>" in "".join(texts) and "\u202e" not in json.dumps(texts, ensure_ascii=False)
    assert "".join(row[0] for row in chips([b"<", b"i"], [1, 2], {})) == "<i"


def test_merges_lead_to_the_tokenizers_ids(playground):
    text = "Once upon a time, unbelievable 12 é"
    payload = drawn(playground, {"text": text, "merges": "tinygpt"})["tokenizers_merges"]
    tokenizer = built_in("tinygpt")
    assert [number for piece in payload["pieces"] for number in piece["ids"]] == tokenizer.encode_ids(text)
    for piece in payload["pieces"]:  # as the page applies them
        now = list(piece["bytes"])
        for at, rank, label, pairs, _ in piece["merges"]:
            assert pairs[0] == [now[at], now[at + 1], rank] and pairs == sorted(pairs, key=lambda pair: pair[2])
            now[at : at + 2] = [label]
        assert now == [part_text(tokenizer.raw[number]) for number in piece["ids"]]
    first = payload["pieces"][payload["first"]]
    assert len(first["merges"]) == max(len(piece["merges"]) for piece in payload["pieces"])


def test_a_long_prompt_is_cut_for_the_merges(playground):
    payload = drawn(playground, prompt="ab " * 150)["tokenizers_merges"]
    assert f"first {MOST_CHARACTERS} characters" in payload["about"]
    assert sum(len(piece["bytes"]) for piece in payload["pieces"]) == MOST_CHARACTERS
    rows = drawn(playground, prompt="ab " * 150)["tokenizers_chips"]["rows"]
    assert len(rows[0]["chips"]) == MOST_CHIPS and rows[0]["more"] == f"… {450 - MOST_CHIPS} more"


def test_a_vocabulary_that_lacks_a_byte_says_so(playground, monkeypatch):
    from model.errors import InputError

    real = measure.cut

    def cut(name, tokenizer, text, *, special):
        if name == "tinygpt":
            raise InputError("This vocabulary has no token for a character of the text.")
        return real(name, tokenizer, text)

    monkeypatch.setattr(measure, "cut", cut)
    parts = drawn(playground)
    assert parts["tokenizers_counts"]["rows"][1][1:] == ["–"] * 5
    assert parts["tokenizers_chips"]["rows"][1]["problem"] and parts["tokenizers_chips"]["rows"][1]["chips"] == []
    assert len(parts["tokenizers_languages"]["figure"].data) == 3
    assert parts["tokenizers_samples"]["rows"][0][2]["text"] == "–"


def test_languages_are_compared_with_english(playground):
    parts = drawn(playground)
    bars = {trace["name"]: trace for trace in parts["tokenizers_languages"]["figure"].data}
    lengths = [len(text.encode()) for text in LANGUAGES.values()]
    assert bars["UTF-8 bytes"]["y"] == pytest.approx([each / lengths[0] for each in lengths], rel=1e-5)
    assert all(trace["y"][0] == 1 for trace in bars.values())
    rows = parts["tokenizers_samples"]["rows"]
    assert len(rows) == len(SAMPLES) and rows[0][1]["text"] == "1.00"


def test_the_lines_below_run(playground):
    parts = drawn(playground)
    for name in ("tokenizers_counts", "tokenizers_chips", "tokenizers_merges", "tokenizers_languages"):
        lines = [line for line in parts[name]["python"].split("\n") if line]
        scope = {"load_model": lambda name: playground.opened("tiny")}
        for line in lines:
            if line.startswith("from model.api"):
                continue
            if line.startswith(("from ", "lm =", "run =", "text", "texts")):
                exec(line, scope)
            else:
                scope["answer"] = eval(line, scope)
        if name == "tokenizers_merges":
            ids = [number for piece in scope["answer"] for number in piece.ids]
            assert ids == [number for piece in parts[name]["pieces"] for number in piece["ids"]]
        if name == "tokenizers_languages":
            bars = parts[name]["figure"].data[0]
            assert list(bars["text"]) == [f"{n} tokens" for n in scope["answer"]]


# --- for programs ----------------------------------------------------------------------------------------------


def test_the_endpoints_give_the_same(playground):
    answer = call(playground, NAMED["tokenizers"], {"prompt": "the cat"})
    assert [each["name"] for each in answer["vocabularies"]] == ["loaded", "tinygpt", "gpt2", "bytes", "characters"]
    assert answer["vocabularies"][3]["tokens"] == 7
    assert answer["samples"][0]["tokens"]["characters"] == len(LANGUAGES["en"])
    (piece,) = call(playground, NAMED["merges"], {"text": "cat"})["pieces"]
    assert piece == {"text": "cat", "added": False, "whole": False, "merges": [], "ids": [99, 97, 116], "lattice": None}


@pytest.mark.parametrize(("kind", "slider"), [(1, "Characters read"), (2, "Merges done")])
def test_a_lattice_is_drawn_for_unigram_and_merges_from_characters_for_sentencepiece(tmp_path, kind, slider):
    tokenizer = from_folder(folder(tmp_path, kind))
    model = tiny_model({**VARIANTS["gpt2"], "vocab_size": tokenizer.vocab_size, "n_ctx": 64})
    playground = serving(LanguageModel("tiny", "Tiny", model, tokenizer), Options(model="tiny", max_tokens=60))
    sent = drawn(playground, prompt="the ca")["tokenizers_merges"]
    assert sent["words"]["slider"] == slider and "{" not in sent["about"]
    ids = [number for piece in sent["pieces"] for number in piece["ids"]]
    assert ids == tokenizer.encode_ids("the ca")
    lattice = sent["pieces"][sent["first"]]["lattice"]
    assert (lattice is None) == (kind == 2)
    if lattice is None:
        assert sent["pieces"][0]["bytes"] == ["·", "t", "h", "e"] and len(sent["pieces"][0]["merges"]) == 3
        return
    covered, path, considered, _ = lattice["steps"][-1]
    assert covered == len(lattice["characters"]) == 4 and [lattice["arcs"][at][3] for at in path] == ids[: len(path)]
    totals = [float(total.replace("−", "-")) for _, total in considered]
    assert totals == sorted(totals, reverse=True) and len(totals) > 1
    told = call(playground, NAMED["merges"], {"text": "the ca"})["pieces"][0]["lattice"]
    assert [told["arcs"][at]["id"] for at in told["path"]] == ids[: len(path)]
