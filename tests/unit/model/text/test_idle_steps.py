"""Steps of a tokenizer.json that do nothing, held against `tokenizers`."""

import json

import pytest
from tokenizers import Tokenizer

from model.text.tokenizer import from_tokenizer_json
from tests.support.models.small_vocabulary import BYTE_LEVEL, small_json, write

TEXT = "hello wor\u0301ld cafe\u0301 he  llo 12"


def several(key, *steps):
    return {"type": "Sequence", key: list(steps)}


NFC = {"type": "NFC"}
STRIP = {"type": "Strip", "strip_left": False, "strip_right": False}
BOS = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<|end|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"<|end|>": {"id": "<|end|>", "ids": [0], "tokens": ["<|end|>"]}},
}
CASES = {
    "normalizer": [
        several("normalizers"),
        several("normalizers", NFC),
        several("normalizers", several("normalizers"), several("normalizers", NFC, NFC)),
        several("normalizers", several("normalizers", several("normalizers"))),
        several("normalizers", STRIP),
        STRIP,
    ],
    "pre_tokenizer": [
        several("pretokenizers", BYTE_LEVEL),
        several("pretokenizers", several("pretokenizers"), several("pretokenizers", BYTE_LEVEL)),
        several("pretokenizers", several("pretokenizers", {"type": "Digits", "individual_digits": True}), BYTE_LEVEL),
    ],
    "post_processor": [
        several("processors"),
        several("processors", BYTE_LEVEL),
        several("processors", several("processors"), BYTE_LEVEL, several("processors", BOS)),
        several("processors", BOS, BYTE_LEVEL),
    ],
}


@pytest.mark.parametrize(
    ("part", "value"), [(part, value) for part, values in CASES.items() for value in values], ids=str
)
def test_the_ids_are_those_of_tokenizers(part, value, tmp_path):
    content = small_json() | {"version": "1.0", part: value}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
    content["added_tokens"] = [flags | each for each in content["added_tokens"]]
    expected = Tokenizer.from_str(json.dumps(content)).encode(TEXT).ids
    assert from_tokenizer_json(write(tmp_path / "tokenizer.json", content)).prompt_ids(TEXT) == expected
