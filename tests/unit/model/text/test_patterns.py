"""Patterns of a stranger's tokenizer.json: the published ones pass, and none that holds the engine for minutes does."""

import pytest

from model.errors import UnsupportedModel
from model.text.patterns import KNOWN, MOST_CHARACTERS, SAFE, check_backtracking, check_pattern
from model.text.tokenizer import from_tokenizer_json
from model.text.vocabulary import GPT2_PATTERN, LLAMA3_PATTERN, QWEN_PATTERN, SMOLLM_PATTERN
from tests.support.models.small_vocabulary import BYTE_LEVEL, small_json, write

O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@pytest.mark.parametrize(
    "pattern", [GPT2_PATTERN, LLAMA3_PATTERN, QWEN_PATTERN, SMOLLM_PATTERN, O200K, "[a-z]+", r"\+|[+*]+"]
)
def test_published_patterns_pass(pattern):
    assert check_pattern(pattern) == pattern


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a|a)+\1c|[\s\S]",
        r"a*a*(?=c)|[\s\S]",
        r"(?:a|aa)+(?!x)c|[\s\S]",
        r"(?:\s+(?!\S))+x|[\s\S]",
        r"[(](?<=a)b|[\s\S]",
        r"(?>a+)b|[\s\S]",
        r"a{2}+b|[\s\S]",
        r"(?P<x>a+)(?P=x)|[\s\S]",
        r"(?(1)a|b)",
        r"\p{L}{1000}x|[\s\S]",
        r"(?:\p{L}{8}){8}x|[\s\S]",
        r"a{,99999999999}",
        r"\p{L(?=a)",
        r"[[a](?=b)]",
        r"[](?=b)]",
        r"[a(?=b)",
        "a|" * MOST_CHARACTERS,
    ],
)
def test_what_can_take_long_is_refused_before_the_engine_sees_it(pattern, tmp_path, monkeypatch):
    monkeypatch.setattr("tiktoken.Encoding", lambda *_, **__: pytest.fail("made"))
    content = small_json()
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, BYTE_LEVEL | {"use_regex": False}]}
    with pytest.raises(UnsupportedModel, match="could run for a very long time") as told:
        from_tokenizer_json(write(tmp_path / "tokenizer.json", content))
    assert len(told.value.got) <= 80


def test_the_safe_ends_are_safe_whole_only():
    for end in SAFE:
        check_pattern(f"a|{end}|b")
        for other in (f"{end}+", f"a{end}", f"({end})*", f"{end}{end}"):
            with pytest.raises(UnsupportedModel):
                check_pattern(other)


def test_added_tokens_are_texts_and_no_patterns(tmp_path):
    content = small_json()
    number = 1 + max(content["model"]["vocab"].values())
    content["added_tokens"] = [
        {"id": number + n, "content": text, "special": False, "normalized": False}
        for n, text in enumerate(("(a+)+$", "(?:a|aa)+x", "[a", "a\\"))
    ]
    tokenizer = from_tokenizer_json(write(tmp_path / "tokenizer.json", content))
    assert number + 2 in tokenizer.encode_ids("hello[a")
    assert tokenizer.encode("(a+)+$").ids.tolist() == [number]


DEEPSEEK = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT4 = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"


@pytest.mark.parametrize(
    "pattern",
    [
        *(GPT2_PATTERN, LLAMA3_PATTERN, QWEN_PATTERN, SMOLLM_PATTERN, O200K, DEEPSEEK, GPT4, *KNOWN),
        *(
            r"\p{N}{1,3}",
            "[一-龥぀-ゟ゠-ヿ]+",
            r"\s?\p{L}+",
            r"[\r\n]",
            " {2,}",
            r"\s+",
            "[0-9][0-9][0-9]",
            r"\s*+(?!\S)",
        ),
    ],
)
def test_published_patterns_pass_for_an_engine_that_backtracks(pattern):
    assert check_backtracking(pattern) == pattern


@pytest.mark.parametrize(
    "pattern",
    [
        *("(a+)+$", "a?" * 20 + "a" * 20, "a{0,16}" * 9 + "b", "a{2,}a{3,}b", "a+a+b", "(?:a?)(?:a?)b", "x*y*z"),
        *("a{2,}+b", "(a|aa)+$", "a+a*b", "(?=(a+))b", "(?<=a+)b", r"(a)\1+b", "[[a]b]+c", "a{99999}"),
    ],
)
def test_a_pattern_that_backtracks_for_long_is_refused_for_the_library_too(pattern, tmp_path):
    content = small_json()
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, {"type": "Metaspace"}]}
    with pytest.raises(UnsupportedModel, match="could run for a very long time"):
        from_tokenizer_json(write(tmp_path / "tokenizer.json", content))
