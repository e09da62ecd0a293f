"""How text is split for the vocabulary of a GGUF file: by the name that the file states, and by no guess."""

import json
from itertools import pairwise

import numpy as np
import pytest
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from model.errors import CheckpointError, UnsupportedModel
from model.text.gguf_vocabulary import SPLITS
from model.text.library.gguf import STEPS
from model.text.tokenizer import from_gguf
from tests.support.models.small_vocabulary import small_gguf

PRE = "tokenizer.ggml.pre"
TEXT = "In 2024 I'LL pay 1234567  don't\n\n  def f(x):\r\n\treturn x_1 你好 café  "

# src/llama-vocab.cpp of llama.cpp: the names of each LLAMA_VOCAB_PRE_TYPE with the same expressions, as they stand
# there, one after the other.
_LLAMA3 = (
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
LLAMA_CPP = {
    ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"): (_LLAMA3,),
    ("dbrx", "smaug-bpe", "glm4", "chatglm-bpe"): (_LLAMA3,),
    (
        *("gpt-2", "gpt2", "phi-2", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "gigachat", "a.x-4.0"),
        *("mellum", "exaone4", "mpt", "olmo", "jais", "trillion", "granite-docling"),
    ): (_GPT2,),
    ("starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"): (r"\p{N}", _GPT2),
    ("qwen2", "deepseek-r1-qwen", "kormo", "megrez", "stablelm2", "hunyuan", "grok-2"): (
        _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}"),
    ),
    ("tekken",): (
        r"[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))*((?=[\p{L}])([^A-Z]))+|"
        r"[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))+((?=[\p{L}])([^A-Z]))*|"
        r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    ("gpt-4o", "llama4", "kanana2", "minimax-m2"): (
        r"[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))*((?=[\p{L}])([^A-Z]))+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|"
        r"'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))+((?=[\p{L}])([^A-Z]))*(?:'[sS]|'[tT]|'[rR][eE]|"
        r"'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    ("qwen35",): (
        _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
        .replace(r"?\p{L}+", r"?[\p{L}\p{M}]+")
        .replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]"),
    ),
    ("bailingmoe", "bailingmoe2", "llada-moe"): (
        r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
        r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    ),
    ("seed-coder",): (
        r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}|"
        r" ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    ("jais-2",): (
        _LLAMA3.removesuffix(r"\s+(?!\S)|\s+")
        + r"\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|"
        r"\s{1,2}(?!\S)|\s{1}",
    ),
    ("roberta-bpe", "modern-bert"): (_GPT2,),
    ("bloom", "poro-chat", "gpt3-finnish"): (_BLOOM,),
    ("viking",): (_BLOOM, r"\p{N}"),
    ("falcon",): (r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]"),
    ("default",): (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
    ("deepseek-llm",): (
        r"[\r\n]",
        r"\s?[\p{Lu}\p{Ll}\p{Lt}]+",  # of these classes, the texts here have the letters that llama.cpp lists
        r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
        r"\s+$",
        "[一-龥ࠀ-一가-퟿]+",
        r"\p{N}+",
    ),
    ("deepseek-coder",): (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"),
    ("deepseek-v3", "hunyuan-dense", "joyai-llm"): (
        r"\p{N}{1,3}",
        "[一-龥぀-ゟ゠-ヿ]+",
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"""
        r""" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    ),
}
NAMES = [name for names in LLAMA_CPP for name in names]


@pytest.fixture(scope="module")
def merging():
    """(vocabulary, merges) of a text that was never split: its merges reach over every place where one may be cut."""
    made, alphabet = Tokenizer(models.BPE()), pre_tokenizers.ByteLevel.alphabet()
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    words = [TEXT[start : start + 5] for start in range(len(TEXT) - 4)]
    made.train_from_iterator(words * 3, trainers.BpeTrainer(vocab_size=900, initial_alphabet=alphabet))
    content = json.loads(made.to_str())["model"]
    return content["vocab"], [tuple(merge) for merge in content["merges"]]


def test_the_names_are_those_of_llama_cpp():
    assert sorted((*SPLITS, *STEPS)) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_gives_the_pieces_of_the_split_that_it_stands_for(name, merging):
    vocab, merges = merging
    (cuts,) = (cuts for names, cuts in LLAMA_CPP.items() if name in names)
    expected = Tokenizer(models.BPE(vocab, merges, ignore_merges=name in (*next(iter(LLAMA_CPP)), "tekken")))
    steps = [pre_tokenizers.Split(Regex(cut), "isolated") for cut in cuts]
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    expected.pre_tokenizer = pre_tokenizers.Sequence([*steps, last])
    told = {
        "tokenizer.ggml.model": "gpt2",
        PRE: name,
        "tokenizer.ggml.tokens": sorted(vocab, key=vocab.__getitem__),
        "tokenizer.ggml.merges": [" ".join(merge) for merge in merges],
    }
    assert from_gguf(told).encode_ids(TEXT) == expected.encode(TEXT).ids


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "gpt2", "gptneox"])
def test_a_file_that_names_no_split_is_refused_with_the_way_out(architecture):
    told = small_gguf() | {"general.architecture": architecture}
    del told[PRE]
    with pytest.raises(UnsupportedModel) as refused:
        from_gguf(told)
    assert refused.value.got == "no tokenizer.ggml.pre" and "gguf-new-metadata --pre-tokenizer" in refused.value.hint


# --- other kinds ---

WORDS = ["h", "e", "l", "o", "w", "r", "d", "▁", "he", "ll", "hell", "▁hell", "▁hello", "lo", "wor", "ld", "▁wor"]
PIECES = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *WORDS, "<|im_start|>", " x "]
KINDS = [2, 3, 3, *[6] * 256, *[1] * len(WORDS), 3, 4]


def pieces(**more: object) -> dict:
    """Metadata of sentencepiece's BPE, whose later pieces have higher scores where they are longer."""
    scores = [0.0] * 259 + [float(-100 + 10 * len(word) - n / 10) for n, word in enumerate(WORDS)] + [0.0, 0.0]
    told = {
        "tokenizer.ggml.model": "llama",
        PRE: "default",
        "tokenizer.ggml.tokens": PIECES,
        "tokenizer.ggml.scores": np.array(scores, np.float32),
        "tokenizer.ggml.token_type": np.array(KINDS, np.int32),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.chat_template": "{{ bos_token }}",
    }
    return told | {f"tokenizer.ggml.{key}": value for key, value in more.items()}


def merged(text: str, scores: list[float]) -> list[int]:
    """Merge by llama.cpp's rule: the neighbours whose union has the highest score, the first ones among equal ones."""
    symbols = list(text.replace(" ", "▁"))
    while True:
        pairs = [(scores[PIECES.index(a + b)], -n) for n, (a, b) in enumerate(pairwise(symbols)) if a + b in WORDS]
        if not pairs:
            break
        at = -max(pairs)[1]
        symbols[at : at + 2] = ["".join(symbols[at : at + 2])]
    ids = []
    for symbol in symbols:
        ids += [PIECES.index(symbol)] if symbol in WORDS else [3 + byte for byte in symbol.encode()]
    return ids


@pytest.mark.parametrize("text", ["hello world", "hello  hello", "héllo 你", "\n\thello "])
@pytest.mark.parametrize("space", [True, False])
def test_sentencepiece_merges_by_score_with_bytes(text, space):
    told = pieces(add_space_prefix=space)
    tokenizer = from_gguf(told)
    wanted = merged(f"{' ' * space}{text}", told["tokenizer.ggml.scores"].tolist())
    assert tokenizer.encode_ids(text) == wanted
    assert tokenizer.decode(wanted).removeprefix(" ") == text


def test_gemma4_states_the_merges_of_its_pieces():
    told = pieces(merges=["h e", "l l", "he ll", "▁ hell"]) | {"tokenizer.ggml.model": "gemma4"}
    tokenizer = from_gguf(told)
    assert [PIECES[number] for number in tokenizer.encode_ids("hello hello")] == ["hell", "o", "▁hell", "o"]
    assert tokenizer.vocabulary.begin == (1,)


def test_texts_of_encoders_with_byte_level_pieces_have_ends():
    vocabulary = from_gguf(small_gguf() | {PRE: "roberta-bpe", "tokenizer.ggml.bos_token_id": 0}).vocabulary
    assert (vocabulary.begin, vocabulary.finish) == ((0,), (0,))


def test_settings_of_sentencepiece():
    tokenizer = from_gguf(pieces())
    vocabulary = tokenizer.vocabulary
    assert (vocabulary.bos_id, vocabulary.eos_id, vocabulary.add_bos, vocabulary.end_ids) == (1, 2, True, (2,))
    assert vocabulary.chat_template == "{{ bos_token }}" and vocabulary.begin == (1,)
    assert from_gguf(pieces(add_bos_token=False)).vocabulary.begin == ()
    assert from_gguf(pieces(add_eos_token=True)).vocabulary.finish == (2,)
    assert {token.text for token in vocabulary.added if token.special} >= {"<s>", "</s>", "<|im_start|>"}


def test_unigram_takes_the_best_path():
    told = pieces(add_space_prefix=True) | {"tokenizer.ggml.model": "t5", "tokenizer.ggml.unknown_token_id": 0}
    told["tokenizer.ggml.scores"] = np.full(len(PIECES), -5.0, np.float32)
    ids = from_gguf(told).encode_ids("hello wor")
    assert [PIECES[number] for number in ids if number != 2] == ["▁hello", "▁wor"]


def test_word_piece_begins_words_with_a_mark():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁hel", "lo", "▁world", "▁", "s"]
    told = {
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.token_type": np.array([3, 2, 3, 3, 1, 1, 1, 1, 1], np.int32),
        "tokenizer.ggml.bos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 1,
        "tokenizer.ggml.seperator_token_id": 3,
    }
    tokenizer = from_gguf(told)
    assert tokenizer.encode_ids("Hello worlds x") == [4, 5, 6, 8, 1]
    assert (tokenizer.vocabulary.begin, tokenizer.vocabulary.finish) == ((2,), (3,))


@pytest.mark.parametrize("key", ["scores", "tokens"])
def test_lists_of_other_lengths_are_refused(key):
    told = pieces()
    told[f"tokenizer.ggml.{key}"] = told[f"tokenizer.ggml.{key}"][:-1]
    with pytest.raises(CheckpointError):
        from_gguf(told)


@pytest.mark.parametrize(("model", "pre"), [("rwkv", None), ("plamo2", None), ("gpt2", "kimi-k2"), ("gpt2", "afmoe")])
def test_what_is_not_read_is_named(model, pre):
    with pytest.raises(UnsupportedModel, match=pre or model):
        from_gguf(pieces() | {"tokenizer.ggml.model": model, PRE: pre})
