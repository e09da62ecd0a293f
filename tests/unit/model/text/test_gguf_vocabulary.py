"""How text is split for the vocabulary of a GGUF file: by the name that the file states, and by no guess."""

import json

import pytest
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from model.errors import UnsupportedModel
from model.text.gguf_vocabulary import SPLITS
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
    assert sorted(SPLITS) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_gives_the_pieces_of_the_split_that_it_stands_for(name, merging):
    vocab, merges = merging
    (cuts,) = (cuts for names, cuts in LLAMA_CPP.items() if name in names)
    expected = Tokenizer(models.BPE(vocab, merges, ignore_merges=name in next(iter(LLAMA_CPP))))
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
