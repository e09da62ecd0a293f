"""What the search finds, by its own scripts from the page's own words: fifty queries, and what comes first."""

import json

import pytest

from viz.lessons import payloads
from viz.lessons.library import library
from viz.page import frame, search
from viz.page.guide import terms
from viz.words import LANGUAGES, section, words

pytestmark = pytest.mark.browser
RANKING, ENTRIES = "page/search/ranking.js", "page/search/entries.js"
MOST = 40


def actions(language: str) -> list[dict]:
    """Return the actions as the page has them."""
    catalogue = words(language)
    return [
        {"target": f"action.{key}", "name": catalogue[word], "about": "", "way": [key]}
        for key, word in search.ACTIONS.items()
    ]


@pytest.fixture(scope="module")
def found(call):
    """Search for a text in a language: found("zh", "成本") -> ([target, ...], whether these are only alike)."""
    for language in LANGUAGES:
        catalogue = words(language)
        given = {
            "groups": frame.groups(catalogue),
            "listed": search.payload(language),
            "terms": [{"id": key, **term} for key, term in terms(catalogue).items()],
            "actions": actions(language),
            "words": section(catalogue, "search"),
        }
        keep = """(language, given, lessons) => {
          const all = [...module.entriesOf(given), ...module.lessonEntries(lessons, given.listed)];
          (window.entries ??= {})[language] = all;
        }"""
        call(ENTRIES, keep, language, json.loads(json.dumps(given)), payloads.listed(library(), language))

    def search_for(language: str, query: str) -> tuple[list[str], bool]:
        code = """(language, query, most) => {
          const { found, near } = module.search(entries[language], query, most);
          return [found.map(({ entry }) => entry.target), near];
        }"""
        return tuple(call(RANKING, code, language, query, MOST))

    return search_for


ENGLISH = {  # a query, and what comes first on the page in English
    # views by their names, by the textbook's words and by what else they are called
    "logit lens": "view.lens",
    "logitlens": "view.lens",
    "kv-cache": "view.kv_cache",
    "kvcache": "view.kv_cache",
    "KV_Cache": "view.kv_cache",
    "ablate": "view.edits",
    "IOI": "view.sweep",
    "name mover": "view.find",
    "variance": "view.sizes",
    "RLHF": "view.reinforcement",
    "GPTQ": "view.rounding",
    "GQA": "view.kv_heads",
    "patching": "view.patching",
    "dropout": "view.training",
    "MiniGPT": "view.training",
    "GPT-4": "view.prices",
    "flash attention": "view.attention_ways",
    "chain of thought": "view.prompts",
    "prompt-engineering": "view.prompts",
    "Turing": "view.guess",
    "VRAM": "view.memory",
    "sparse autoencoder": "view.neurons",
    "sampling temperature": "view.temperature",
    "self-attention": "tab.attention",
    # strategies, which open Side by side
    "beam search": "view.beam_tree",
    "beam width": "strategy.beam",
    "min-p": "strategy.min_p",
    "minp": "strategy.min_p",
    "nucleus": "strategy.top_p",
    # settings and their options
    "Longformer": "setting.forget.kind.longformer",
    "bigbird": "setting.forget.kind.bigbird",
    "qwen3 8b": "setting.subject.which.qwen3-8b",
    "digits": "setting.by_hand.digits",
    "KL coefficient": "setting.reinforcement.coefficient",
    # terms
    "weight tying": "term.tied_embeddings",
    "BERT": "term.causal_mask",
    "context window": "term.context",
    "skip connection": "view.norms_residuals",
    # actions and lessons
    "Qwen": "action.models",
    "hugging face": "action.models",
    "upload": "action.models",
    "dark": "action.theme",
    "pandas": "action.export",
    "share": "action.share",
    "Looking is not using": "lesson.sinks",
}
CHINESE = {
    "缩放定律": "view.scaling_laws",
    "自注意力": "tab.attention",
    "权重绑定": "term.tied_embeddings",
    "提示工程": "view.prompts",
    "提示词工程": "view.prompts",
    "词嵌入": "term.embedding",
    "上下文窗口": "term.context",
    "成本": "view.prices",
    "多头注意力": "view.heads",
    "束搜索": "view.beam_tree",
    "束宽": "strategy.beam",
    "深色": "action.theme",
    "上传": "action.models",
    "温度": "view.temperature",
    "消融": "view.edits",
    "方差": "view.sizes",
    "显存": "view.memory",
    "归纳头": "term.induction_head",
    "因果掩码": "term.causal_mask",
    "随机种子": "term.seed",
}


@pytest.mark.parametrize(("query", "first"), ENGLISH.items())
def test_what_comes_first_in_english(found, query, first):
    assert found("en", query)[0][0] == first


@pytest.mark.parametrize(("query", "first"), [*CHINESE.items(), *list(ENGLISH.items())[:-1]])
def test_what_comes_first_in_chinese_where_english_words_are_known_too(found, query, first):
    targets, near = found("zh", query)
    assert first in targets[:1] and not near


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("IOj", "view.sweep"),
        ("tempratur", "view.temperature"),
        ("logitlnes", "view.lens"),
        ("speculatve decoding", "view.speculative"),
    ],
)
def test_nothing_found_offers_the_nearest(found, query, expected):
    targets, near = found("en", query)
    assert near and targets[0] == expected and len(targets) <= 6


def test_the_nearest_in_chinese_has_most_characters_in_common(found):
    targets, near = found("zh", "缩放定理")
    assert near and targets[0] == "view.scaling_laws"


@pytest.mark.parametrize("query", ["zzzz", "§§", "的的的的"])
def test_what_is_like_nothing_offers_nothing(found, query):
    assert found("en", query) == ([], True)


def entry(name: str, kind: str = "view", **more) -> dict:
    return {"target": name, "kind": kind, "name": name} | more


def test_names_and_synonyms_come_before_beginnings_words_and_descriptions(call):
    entries = [
        entry("About", about="The norm of a vector."),
        entry("Enormous"),
        entry("Change the norm"),
        entry("Normalization"),
        entry("Sizes", kind="option", also=["norm"]),
        entry("Norm", kind="setting"),
        entry("Layer", term="scale · NORM"),
    ]
    code = "(entries, query) => module.search(entries, query, 9).found.map(({ entry, via }) => [entry.name, via])"
    assert call(RANKING, code, entries, "norm") == [
        ["Layer", ""],
        ["Norm", ""],
        ["Sizes", "norm"],  # by what it is shown for
        ["Normalization", ""],
        ["Change the norm", ""],
        ["Enormous", ""],
        ["About", ""],
    ]


@pytest.mark.parametrize(
    "query", ["KV cache", "kv-cache", "kvcache", "KV_CACHE", "ＫＶ　ｃａｃｈｅ", " kv\u2011cache "]
)
def test_case_width_hyphens_spaces_and_underscores_do_not_count(call, query):
    code = "(entries, query) => module.search(entries, query, 9)"
    answer = call(RANKING, code, [entry("KV cache")], query)
    assert len(answer["found"]) == 1 and not answer["near"]


def test_the_page_has_a_way_for_every_action(call):
    assert sorted(call("page/search/ways.js", "() => module.ACTIONS")) == sorted(search.ACTIONS)
