"""Our tokenizer against the `tokenizers` library: throwaway vocabularies of each style, and SmolLM2's real one."""

import random
import string

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from model.errors import DownloadError, InputError
from model.text.tokenizer import from_gguf, from_tokenizer_json
from model.text.vocabulary import LLAMA3_PATTERN, QWEN_PATTERN

NASTY = [
    "",
    " ",
    "  ",
    "\n",
    "\r\n\r\n  \n",
    "\t\tx",
    "a",
    " a",
    "a ",
    "a  b",
    "a   1",
    "1  a",
    "  1",
    " 12 345",
    "x1y22z333",
    "The cat sat on the mat because it was tired.",
    "I'm, you're, WE'LL, he'd, it'S, 'tis, they'Ve, 'ſ ’s ''s",
    "½ ² ① 2024 ⅷ ٣٤٥ 一二三 ௧௨ 𝟘𝟙",
    "▁ ▂▃ … — “quotes” ‘single’",
    "naïve café e\u0301 a\u030a\u0323 \u1e9b\u0323 ﬁ Å Å 가 가",
    "👩‍👩‍👧‍👦 👨🏽‍💻 🏳️‍🌈 🇨🇭🇺🇳 ❤️ #️⃣",
    "日本語のテキスト、中文字符。한국어 ภาษาไทย",
    "שלום עולם مرحبا بالعالم \u202eevil\u202c \u200f",
    "Z̷̢̧͓̫̐a̸l̶g̵o̴ t̷e̸x̶t̵",
    "def f(x):\n    return {\n        'a': [1, 2],\n\t}  # done\n\n\n",
    "if (a&&b) {\r\n\tx+=1;\r\n}",
    "<|endoftext|> <|im_start|>user\nhi<|im_end|> <|endof <|endoftext|",
    "3.14159265358979323846264338327950288",
    "1" * 500,
    "ab" * 400,
    "a" * 997,
    " " * 333 + "x",
    "\n" * 100 + " " * 50 + "\n\tz",
    "!" * 257,
    "é" * 301,
    "😀" * 99,
    "\x00\x01\x02\x07\x08\x0b\x0c\x1b\x1c\x1e\x1f\x7f\x80\x85\x9f",
    "\ufeffbom \u00a0nbsp\u2003em\u3000wide\u200bzero\u2028ls\u2029ps",
    "\ufffd\uffff\U0010ffff \ue000 \U000f0000",
    "https://example.org/a?b=c&d=%20#frag user@host.tld",
    '\\n \\u0041 "q" `code` $x^2$',
    "CamelCaseWords SHOUTING mIxEd ÀÉÎ ĳ ß ẞ İı",
    " \n \n  \n   x \t \n",
    "a\u00a0 b",
    "x \u3000 y\u3000",
    "١٢٣ 4५6",
]
ALWAYS = [" " * n for n in (24, 8, 4, 2)]


def training_text() -> list[str]:
    """Made-up words with repeated stems, several scripts, numbers, indents, and every string of the nasty corpus."""
    rng = random.Random(0)
    stems = ["".join(rng.choices(string.ascii_lowercase, k=rng.randint(1, 5))) for _ in range(120)]
    lines = []
    for _ in range(500):
        words = ["".join(rng.choices(stems, k=rng.randint(1, 3))) for _ in range(8)]
        indent = " " * rng.choice([0, 0, 2, 4, 8])
        lines.append(f"{indent}{' '.join(words)} {rng.randint(0, 99999)}  {rng.choice(NASTY)}")
    return lines


def split_by(pattern: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(False, use_regex=False),
        ]
    )


def smollm_cut() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(False, use_regex=True),
        ]
    )


STYLES = {  # pre-tokenizer, normalizer, ignore_merges
    "gpt2": (lambda: pre_tokenizers.ByteLevel(False), None, False),
    "llama3": (lambda: split_by(LLAMA3_PATTERN), None, True),
    "qwen": (lambda: split_by(QWEN_PATTERN), normalizers.NFC, False),
    "neox": (lambda: pre_tokenizers.ByteLevel(False), normalizers.NFC, False),
    "smollm": (smollm_cut, None, False),
}


@pytest.fixture(scope="module", params=STYLES)
def pair(request, tmp_path_factory):
    """(reference, ours, style) of one freshly trained vocabulary."""
    style = request.param
    cut, normalizer, ignore_merges = STYLES[style]
    reference = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    reference.pre_tokenizer, reference.decoder = cut(), decoders.ByteLevel()
    if normalizer:
        reference.normalizer = normalizer()
    trainer = trainers.BpeTrainer(
        vocab_size=1500,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    )
    reference.train_from_iterator(training_text(), trainer)
    if style == "neox":
        reference.add_tokens([AddedToken(run, normalized=True) for run in ALWAYS])
    if style == "qwen":
        reference.add_tokens([AddedToken("<think>", normalized=False, special=False)])
    if style == "llama3":
        bos = "<|im_start|>"
        template = processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[(bos, reference.token_to_id(bos))])
        reference.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    path = tmp_path_factory.mktemp(style) / "tokenizer.json"
    reference.save(str(path))
    return reference, from_tokenizer_json(path), style


def reference_ids(reference: Tokenizer, text: str, special: bool) -> list[int]:
    reference.encode_special_tokens = not special
    return reference.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("special", [False, True])
def test_ids_equal_the_reference(pair, special):
    reference, ours, _ = pair
    long = [" " * 100_000, " " * 100_000 + "end", "\n" * 100_000]
    for text in [*NASTY, "".join(NASTY), " ".join(NASTY), *long, "<think> x</think>"]:
        tokens = ours.encode(text, special=special)
        assert tokens.ids.tolist() == reference_ids(reference, text, special), repr(text[:80])
        normal = reference.normalizer.normalize_str(text) if reference.normalizer else text
        assert b"".join(tokens.raw) == normal.encode()
        assert ours.decode(tokens.ids) == normal


def test_the_corpus_tells_the_styles_apart(pair):
    """A reference that is wrong on purpose must be told apart, or the equality above means little."""
    reference, ours, style = pair
    wrong = Tokenizer.from_str(reference.to_str())
    wrong.pre_tokenizer = smollm_cut() if style != "smollm" else pre_tokenizers.ByteLevel(False)
    text = " ".join(NASTY)
    assert ours.encode(text).ids.tolist() != reference_ids(wrong, text, False)


def test_the_ends_of_the_vocabulary(pair):
    reference, ours, style = pair
    assert ours.vocab_size == reference.get_vocab_size(with_added_tokens=True)
    assert set(ours.special) == {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}
    assert ours.add_bos == (style == "llama3")
    if style == "llama3":
        assert [ours.bos_id, *ours.encode("hi").ids] == reference.encode("hi").ids
    for number in range(ours.vocab_size):
        if ours.piece(number).startswith("<0x"):
            continue
        assert ours.piece(number) == reference.decode([number], skip_special_tokens=False)


def test_random_strings(pair):
    """2000 short strings over an alphabet chosen to sit on the seams of the patterns."""
    reference, ours, _ = pair
    rng = random.Random(1)
    alphabet = [*"aAsStlve'’ \t\n\r0129²½!.,-_é中😀\u0301\u200d\u00a0\u3000", "<|im_end|>", "    "]
    for _ in range(2000):
        text = "".join(rng.choices(alphabet, k=rng.randint(1, 12)))
        special = rng.random() < 0.5
        assert ours.encode(text, special=special).ids.tolist() == reference_ids(reference, text, special), repr(text)


@pytest.fixture(scope="module")
def smollm():
    """(reference, ours) with the real vocabulary of SmolLM2, 49,152 tokens."""
    from gguf import GGUFReader

    from model.loading.sources import smollm2_path

    try:
        path = smollm2_path()
    except DownloadError as error:
        pytest.skip(f"SmolLM2 cannot be fetched: {error}")
    fields = GGUFReader(path).fields
    metadata = {key: field.contents() for key, field in fields.items() if key.startswith("tokenizer.")}
    tokens = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    reference = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    reference.pre_tokenizer, reference.decoder = smollm_cut(), decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, metadata["tokenizer.ggml.token_type"], strict=True) if kind == 3]
    reference.add_special_tokens(special)
    return reference, from_gguf(metadata)


@pytest.mark.long
@pytest.mark.parametrize("special", [False, True])
def test_smollm2_equals_the_reference(smollm, special):
    """Everywhere but on the few bytes it has no token for: the library drops those silently, we refuse them."""
    reference, ours = smollm
    lacking = "\x04\x06\x13\x14\x16\x1d"
    for text in [*NASTY, " ".join(NASTY), *training_text(), " " * 100_000 + "end"]:
        try:
            tokens = ours.encode(text, special=special)
        except InputError:
            assert any(char in text for char in lacking) or any(ord(char) >= 0x40000 for char in text)
            continue
        assert tokens.ids.tolist() == reference_ids(reference, text, special), repr(text[:80])
        assert b"".join(tokens.raw) == text.encode()
    for char in lacking:
        with pytest.raises(InputError, match=f"{ord(char):04X}"):
            ours.encode("a" + char)


@pytest.mark.long
def test_smollm2_splits_digits_first(smollm):
    """What the conversion in transformers gets wrong, and llama.cpp right: each numeral is a piece of its own."""
    _, ours = smollm
    tokens = ours.encode("½ ² ① 2024")
    assert tokens.pieces == ("½", " ", "²", " ", "<0xE2>", "<0x91>", "<0xA0>", " ", "2", "0", "2", "4")
    assert ours.special["<|im_start|>"] == ours.bos_id == 1 and ours.eos_id == 2 and not ours.add_bos
    assert ours.vocab_size == 49_152 and ours.chat_template.startswith("{% for message in messages %}")


@pytest.mark.long
def test_smollm2_words_each_alone(smollm):
    """Every token's own text, encoded: the longest reach of the merges, token by token."""
    reference, ours = smollm
    texts = [ours.piece(number) for number in range(17, ours.vocab_size)]
    texts = [text for text in texts if not text.startswith("<0x")]
    expected = reference.encode_batch(texts, add_special_tokens=False)
    wrong = [t for t, e in zip(texts, expected, strict=True) if ours.encode(t).ids.tolist() != e.ids]
    assert len(texts) > 48_000 and wrong == []
