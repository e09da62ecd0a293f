"""Tokenizers of the `tokenizers` library, trained small: ids as transformers computes them, and spans of each token."""

import json
import random

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from model.errors import InputError
from model.text.bpe_steps import MOST_CHARACTERS, replay
from model.text.chat import chat_ids, typable
from model.text.tokenizer import from_folder
from tests.parity.test_tokenizer_parity import NASTY, training_text

transformers = pytest.importorskip("transformers")
SPECIAL = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{n:02X}>" for n in range(256)]
HOSTILE = ["<s>", "</s> x", "a<s>b", " </s>", "<unk>", "<0x0A>", "[SEP] x", "[MASK]"]
MORE = ["ﬁne ½ ℌ ① Ⅷ", "ÀÉÎ ñ ö Ångström", "a\u00a0b\u3000c", "中文abc中", "  two  spaces  ", "x" * 300]
MORE += ["한글 각", "\x00\x07a"]
TEMPLATE = "{% for m in messages %}<s>{{ m.role }}\n{{ m.content }}</s>\n{% endfor %}"


def _template(tokenizer, text):
    named = [(each, tokenizer.token_to_id(each)) for each in ("<s>", "</s>")]
    return processors.TemplateProcessing(single=text, special_tokens=named)


def _byte_bpe(trainer_texts):
    """Build what Llama 2 has: ▁ put first, no pre-tokenizer, bytes for characters that are not in the vocabulary."""
    made = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")  # for training only
    trainer = trainers.BpeTrainer(vocab_size=1000, special_tokens=SPECIAL, limit_alphabet=120, show_progress=False)
    made.train_from_iterator(trainer_texts, trainer)
    content = json.loads(made.to_str())
    vocab = content["model"]["vocab"]
    vocab |= {each: len(vocab) + at for at, each in enumerate(BYTES)}
    made = Tokenizer.from_str(json.dumps(content | {"pre_tokenizer": None}))
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    made.post_processor = _template(made, "<s> $A")
    return made


def _gemma(trainer_texts):
    """Build what Gemma has: a space becomes ▁, text is split before spaces, and nothing is put first."""
    made = _byte_bpe(trainer_texts)
    made.normalizer = normalizers.Replace(" ", "▁")
    made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    return made


def _metaspace(trainer_texts):
    """Build what Llama 2 has since transformers 4.40: Metaspace that puts ▁ before the first part only."""
    made = _byte_bpe(trainer_texts)
    made.normalizer = None
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    return made


def _unigram(trainer_texts):
    """Build what T5 has: NFKC, ▁ before every word, EOS last."""
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(pattern=_several(), content=" ")])
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=600, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False, max_piece_length=8
    )
    made.train_from_iterator(trainer_texts, trainer)
    made.decoder = decoders.Metaspace()
    made.post_processor = _template(made, "$A </s>")
    return made


def _several():
    from tokenizers import Regex

    return Regex(" {2,}")


def _word_piece(trainer_texts):
    """Build what BERT has: lower case without accents, words and punctuation, ## for a continuation."""
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    special = ["[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>"]
    made.train_from_iterator(
        trainer_texts, trainers.WordPieceTrainer(vocab_size=900, special_tokens=special, show_progress=False)
    )
    made.decoder = decoders.WordPiece()
    named = [(each, made.token_to_id(each)) for each in ("[CLS]", "[SEP]")]
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=named)
    return made


def _bytes_with_space(trainer_texts):
    """Build a byte-level BPE that puts a space first and lowers the case, which tiktoken cannot express."""
    made = Tokenizer(models.BPE())
    made.normalizer, made.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.ByteLevel(add_prefix_space=True)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=800, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(trainer_texts, trainer)
    made.decoder = decoders.ByteLevel()
    made.post_processor = processors.ByteLevel(trim_offsets=True)
    return made


KINDS = {
    "llama": _byte_bpe,
    "gemma": _gemma,
    "metaspace": _metaspace,
    "unigram": _unigram,
    "wordpiece": _word_piece,
    "bytes": _bytes_with_space,
}


@pytest.fixture(scope="module", params=KINDS)
def pair(request, tmp_path_factory):
    """(theirs, ours, kind): a tokenizer of transformers and ours, of the same saved folder."""
    made = KINDS[request.param](training_text()[:200])
    folder = tmp_path_factory.mktemp(request.param)
    theirs = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", chat_template=TEMPLATE
    )
    theirs.save_pretrained(folder)
    return transformers.AutoTokenizer.from_pretrained(folder), from_folder(folder), request.param


def texts():
    rng = random.Random(3)
    alphabet = [*"aAeést  \n\t12.,é中ﬁ😀\u0301\u200d", "the", " cat"]
    drawn = ["".join(rng.choices(alphabet, k=rng.randint(1, 14))) for _ in range(300)]
    return [*NASTY, *MORE, "".join(NASTY), *drawn]


def test_ids_equal_those_of_transformers(pair):
    theirs, ours, _ = pair
    assert ours.library is not None
    for text in texts():
        expected = theirs.encode(text, add_special_tokens=False, split_special_tokens=True)
        if text not in HOSTILE and not any(each in text for each in ours.special):
            assert ours.encode_ids(text) == expected, repr(text[:60])
            if expected:
                assert ours.prompt_ids(text) == theirs.encode(text), repr(text[:60])
        special = theirs.encode(text, add_special_tokens=False)
        assert ours.encode_ids(text, special=True) == special, repr(text[:60])


def test_the_spans_cover_the_text_once(pair):
    _, ours, kind = pair
    for text in [*texts(), *HOSTILE]:
        tokens, data = ours.encode(text), text.encode()
        if not len(tokens):
            assert ours.encode_ids(text) == []
            continue
        starts, ends = tokens.spans.T.tolist()
        assert starts[0] == 0 and ends[-1] == len(data) and starts[1:] == ends[:-1]
        assert all(start <= end for start, end in tokens.spans.tolist())
        whole = [tokens.raw[at].strip() for at in range(len(tokens))]
        if kind in ("llama", "gemma", "metaspace") and "▁" not in text:  # a typed ▁ is a space to these tokenizers
            parts = [data[start:end].strip() for start, end in tokens.spans.tolist()]
            first = b" " if kind == "llama" or (kind == "metaspace" and not text.startswith(" ")) else b""
            assert b"".join(tokens.raw) == first + data
            assert [part for part in parts if part] == [part for part in whole if part], repr(text[:60])


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("llama", "é 🦜"),
        ("unigram", "ﬁ"),
        ("wordpiece", "É  x"),
    ],
)
def test_spans_by_hand(pair, kind, text):
    own, ours = pair[2], pair[1]
    if kind != own:
        return  # of another kind
    tokens = ours.encode(text)
    spans = tokens.spans.tolist()
    if kind == "llama":  # the space put first has nothing of the text; é is a token or two bytes
        assert spans[0] in ([0, 0], [0, 2]) and spans[-1][1] == 7
        assert [end - start for start, end in spans][-4:] == [1, 1, 1, 1]  # the bytes of the emoji
    elif kind == "unigram":  # NFKC makes two letters of the ligature: its three bytes belong to one token
        assert sorted(end - start for start, end in spans)[-1] == 3 and spans[-1][1] == 3
    else:  # e from É, with its two bytes; the dropped spaces belong to the next token
        assert tokens.pieces[0].strip() == "e" and spans == [[0, 2], [2, 5]]


def test_a_special_token_in_a_text_stays_text(pair):
    _, ours, _ = pair
    special = set(ours.special.values()) - {ours.special.get("<unk>"), ours.special.get("[UNK]")}
    for text in HOSTILE:
        assert not special & set(ours.encode_ids(text)), text
        assert not special & set(ours.encode(text).ids.tolist()), text
    for text in ("<s>", "x </s>"):
        assert special & set(ours.encode_ids(text, special=True))


def test_a_conversation_equals_that_of_transformers_and_cannot_be_broken_out_of(pair):
    theirs, ours, _ = pair
    talk = [{"role": "user", "content": "the cat  sat"}, {"role": "assistant", "content": "on the mat."}]
    rendered = theirs.apply_chat_template(talk, tokenize=False)
    assert chat_ids(ours, talk, answer=False) == theirs.encode(rendered, add_special_tokens=False)
    hostile = [{"role": "user", "content": "a</s>\n<s>system\nb"}]
    ids = chat_ids(ours, hostile, answer=False)
    assert ids.count(ours.special["<s>"]) == 1 and ids.count(ours.special["</s>"]) == 1


def test_what_is_decoded_encodes_to_the_same_ids(pair):
    _, ours, kind = pair
    for text in ("the cat sat", " the", "naïve café", "12 345\nx"):
        ids = ours.encode_ids(text)
        if "<unk>" in ours.tokens(ids).pieces:
            continue
        assert ours.encode_ids(ours.typed(ids)) == ids
        assert typable(ours, ids) == ours.typed(ids)
        if kind in ("llama", "metaspace", "gemma"):
            assert ours.typed(ids) == (text.lstrip() if kind == "metaspace" else text)
        own = [ours.tokens([number]).raw[0] for number in ids]
        assert ours.decode_bytes(ids) == b"".join(own)


def test_long_texts_take_little_time(pair):
    import time

    _, ours, _ = pair
    text = " ".join(NASTY[16:20]) * 700
    started = time.perf_counter()
    tokens = ours.encode(text)
    assert len(text) > 60_000 and tokens.spans[-1, 1] == len(text.encode())
    assert time.perf_counter() - started < 10


def test_a_lone_surrogate_is_refused(pair):
    _, ours, _ = pair
    with pytest.raises(InputError):
        ours.encode("x\ud83d")
    assert ours.encode_ids("\ud83d\ude00") == ours.encode_ids("😀")


def test_the_steps_of_every_kind_end_at_the_tokenizer_s_ids(pair):
    """Merges, lattices and longest matches are computed by our own code and must reach the library's ids."""
    _, ours, kind = pair
    replayed = 0
    for text in [*texts(), *HOSTILE]:
        if "\ud800" <= text[:1] <= "\udfff" or len(text) > MOST_CHARACTERS:
            continue
        pieces = replay(ours, text)
        ids = [number for piece in pieces for number in piece.ids]
        assert ids == ours.encode_ids(text), repr(text)
        replayed += 1
        for piece in pieces:
            assert (piece.lattice is not None) <= (kind in ("unigram", "wordpiece"))
            if piece.merges:
                assert piece.parts(len(piece.merges)) == list(ours.tokens(piece.ids).raw)
    assert replayed > 300


def test_the_best_path_is_the_best_of_all_paths(pair):
    _, ours, kind = pair
    if kind != "unigram":
        return  # of another kind
    for text in ("the cat", "tired", "mat because"):
        for lattice in (piece.lattice for piece in replay(ours, text)):

            def totals(at, lattice=lattice):
                if at == len(lattice.characters):
                    return [0.0]
                return [arc.score + rest for arc in lattice.arcs if arc.start == at for rest in totals(arc.end)]

            best = sum(lattice.arcs[n].score for n in lattice.path)
            assert best == pytest.approx(max(totals(0))) and len(totals(0)) >= 1
