"""What the files beside a vocabulary state, held against what transformers makes of the same folders."""

import json

import pytest
from transformers import PreTrainedTokenizerFast

from model.errors import CheckpointError, InputError
from model.text.chat import chat_ids, ending
from model.text.tokenizer import from_folder, from_gguf, from_tokenizer_json
from tests.support.models.small_vocabulary import BYTE_LEVEL, small_gguf, small_json, small_vocab, write

HI = [{"role": "user", "content": "Hi"}]


def folder_of(path, **files):
    """A folder with the small vocabulary and other files of JSON, by their names without the ending."""
    content = small_json()
    for at, text in enumerate(("<|stop|>", "<|turn|>", "<|pad|>"), start=len(small_vocab())):
        content["added_tokens"].append({"id": at, "content": text, "special": True, "normalized": False})
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
    content["added_tokens"] = [flags | each for each in content["added_tokens"]]
    write(path / "tokenizer.json", content | {"version": "1.0", "decoder": BYTE_LEVEL})
    for name, value in files.items():
        write(path / f"{name}.json", value)
    return path


STOP, TURN, PAD = (len(small_vocab()) + n for n in range(3))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, set()),
        ({"tokenizer_config": {"eos_token": "<|end|>"}}, {0}),
        ({"special_tokens_map": {"eos_token": {"content": "<|stop|>"}}}, {STOP}),
        ({"config": {"eos_token_id": STOP}}, {STOP}),
        ({"generation_config": {"eos_token_id": [STOP, TURN]}}, {STOP, TURN}),
        ({"generation_config": {"eos_token_id": TURN}, "config": {"eos_token_id": STOP}}, {TURN}),  # the former decides
        ({"generation_config": {"eos_token_id": None}, "config": {"eos_token_id": [STOP]}}, {STOP}),
        ({"generation_config": {"eos_token_id": [TURN, 10**6, -1]}}, {TURN}),  # what no text can hold ends none
        (
            {
                "tokenizer_config": {"eos_token": "<|end|>"},
                "special_tokens_map": {"eos_token": "<|stop|>"},
                "config": {"eos_token_id": TURN},
            },
            {0, STOP, TURN},
        ),
    ],
)
def test_a_text_ends_at_every_token_that_a_file_names(tmp_path, files, expected):
    tokenizer = from_folder(folder_of(tmp_path, **files))
    assert ending(tokenizer) == expected
    assert (tokenizer.eos_id in expected) if expected else tokenizer.eos_id is None


@pytest.mark.parametrize("value", ["<|end|>", [0, "1"], True, {"id": 0}, 1.0])
def test_an_end_that_is_no_token_is_refused(tmp_path, value):
    with pytest.raises(CheckpointError, match=r"eos_token_id in generation_config\.json.* Write one id"):
        from_folder(folder_of(tmp_path, generation_config={"eos_token_id": value}))


def test_the_ends_of_a_gguf_file():
    metadata = small_gguf()
    he, ll = small_vocab()["he"], small_vocab()["ll"]
    tokenizer = from_gguf(metadata | {"tokenizer.ggml.eot_token_id": he, "tokenizer.ggml.eom_token_id": ll})
    assert ending(tokenizer) == {0, he, ll} and tokenizer.eos_id == 0
    with pytest.raises(CheckpointError, match="9999"):
        from_gguf(metadata | {"tokenizer.ggml.eot_token_id": 9999})


def reference(path):
    return PreTrainedTokenizerFast.from_pretrained(path)


@pytest.mark.parametrize(
    ("config", "files"),
    [
        ({"chat_template": "old:{{ messages[0].content }}"}, {}),
        ({"chat_template": "old:{{ messages[0].content }}"}, {"chat_template.jinja": "new:{{ messages[0].content }}"}),
        ({"chat_template": None}, {"chat_template.jinja": "new:{{ messages[0].content }}"}),
        ({"chat_template": [{"name": "default", "template": "A"}, {"name": "tool_use", "template": "B"}]}, {}),
        ({"chat_template": {"tool_use": "B", "default": "A"}}, {}),
        ({"chat_template": "old"}, {"chat_template.jinja": "new", "additional_chat_templates/rag.jinja": "B"}),
    ],
)
def test_the_template_is_the_one_that_transformers_takes(tmp_path, config, files):
    path = folder_of(tmp_path, tokenizer_config=config)
    for name, text in files.items():
        (path / name).parent.mkdir(exist_ok=True)
        write(path / name, text)
    tokenizer = from_folder(path)
    expected = reference(path).apply_chat_template(HI, tokenize=False, add_generation_prompt=True)
    assert tokenizer.decode(chat_ids(tokenizer, HI)) == expected


@pytest.mark.parametrize(
    ("config", "files"),
    [
        ({"chat_template": [{"name": "rag", "template": "R"}, {"name": "tool_use", "template": "B"}]}, {}),
        ({"chat_template": "old"}, {"rag.jinja": "R", "tool_use.jinja": "B"}),
    ],
)
def test_templates_without_a_default_one_are_named(tmp_path, config, files):
    path = folder_of(tmp_path, tokenizer_config=config)
    (path / "additional_chat_templates").mkdir()
    for name, text in files.items():
        write(path / "additional_chat_templates" / name, text)
    with pytest.raises(ValueError, match=r"no default.*\['rag', 'tool_use'\]"):
        reference(path).apply_chat_template(HI, tokenize=False)
    with pytest.raises(InputError, match=r"no default chat template.*Got: rag, tool_use\."):
        chat_ids(from_folder(path), HI)


def test_templates_of_a_gguf_file():
    named = {"tokenizer.chat_template.rag": "R", "tokenizer.chat_template.default": "D"}
    assert from_gguf(small_gguf() | named).chat_template == "D"
    both = from_gguf(small_gguf() | named | {"tokenizer.chat_template": b"A"})
    assert both.chat_template == "A" and both.vocabulary.other_templates == {"rag": "R", "default": "D"}
    with pytest.raises(InputError, match="Got: rag"):
        chat_ids(from_gguf(small_gguf() | {"tokenizer.chat_template.rag": "R"}), HI)


@pytest.mark.parametrize("template", [7, ["A"], [{"name": "a"}], {"default": 5}, {"default": None}])
def test_a_template_that_is_none_is_refused(tmp_path, template):
    with pytest.raises(CheckpointError, match=r"chat template in tokenizer_config\.json"):
        from_tokenizer_json(folder_of(tmp_path) / "tokenizer.json", {"chat_template": template})


NAMES = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "image_token", "audio_token", "nothing")
SHOW_ALL = ";".join(f"{name}={{{{ {name} }}}}" for name in NAMES)


@pytest.mark.parametrize(
    ("config", "listed"),
    [
        ({"eos_token": "<|end|>", "pad_token": "<|pad|>", "unk_token": None}, {}),
        ({"bos_token": "<|stop|>", "image_token": "<|turn|>", "extra_special_tokens": {"audio_token": "<|pad|>"}}, {}),
        ({"eos_token": "<|end|>"}, {"eos_token": "<|stop|>", "pad_token": {"content": "<|pad|>"}}),
        (
            {"eos_token": "<|end|>", "added_tokens_decoder": {"0": {"content": "<|end|>", "special": True}}},
            {"eos_token": "<|stop|>"},
        ),
    ],
)
def test_special_tokens_stand_in_a_template_as_transformers_binds_them(tmp_path, config, listed):
    path = folder_of(tmp_path, tokenizer_config=config | {"chat_template": SHOW_ALL}, special_tokens_map=listed)
    tokenizer = from_folder(path)
    expected = reference(path).apply_chat_template(HI, tokenize=False)
    assert tokenizer.decode(chat_ids(tokenizer, HI)) == expected and "=<|" in expected


def test_special_tokens_of_a_gguf_file_stand_in_its_template():
    numbers = {"unknown": small_vocab()["he"], "padding": small_vocab()["ll"], "mask": 9999}
    metadata = small_gguf() | {f"tokenizer.ggml.{name}_token_id": number for name, number in numbers.items()}
    tokenizer = from_gguf(metadata | {"tokenizer.chat_template": "{{ eos_token }},{{ unk_token }},{{ pad_token }}"})
    assert tokenizer.decode(chat_ids(tokenizer, HI)) == "<|end|>,he,ll"


def test_additional_tokens_are_a_list(tmp_path):
    config = {"additional_special_tokens": ["<|stop|>", {"content": "<|turn|>"}, 7]}
    template = {"chat_template": "{{ additional_special_tokens | join(',') }}"}
    tokenizer = from_folder(folder_of(tmp_path, tokenizer_config=config | template))
    assert chat_ids(tokenizer, HI) == [STOP, *tokenizer.encode_ids(","), TURN]


def test_every_file_may_be_broken(tmp_path):
    for name in ("tokenizer_config", "special_tokens_map", "generation_config", "config"):
        path = folder_of(tmp_path, **{name: {}})
        (path / f"{name}.json").write_text("[]")
        with pytest.raises(CheckpointError, match=rf"{name}\.json.* Download {name}\.json again"):
            from_folder(path)
        (path / f"{name}.json").write_text(json.dumps({}))
