"""Tokenizers given as objects: those that ours reads, and those that keep encoding themselves."""

import pytest

from model import FOLDER
from model.errors import InputError
from model.text.foreign import from_object
from model.text.tokenizer import from_folder
from tests.support.models import hooked

transformers = pytest.importorskip("transformers")
BEGIN = 286  # id of <s>
TEXT = "The cat sat,  on\nthe mät 猫."


def test_a_byte_level_bpe_becomes_ours(tmp_path):
    theirs = hooked.tokenizer()
    theirs.add_special_tokens({"eos_token": "<|endoftext|>", "bos_token": "<|endoftext|>"})
    theirs.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    ours = from_object(theirs, hooked.V, (5,))
    theirs.save_pretrained(tmp_path)
    saved = from_folder(tmp_path)
    assert (
        ours._foreign is None
        and ours.library is None
        and ours.encode_ids(TEXT) == saved.encode_ids(TEXT) == theirs.encode(TEXT)
    )
    assert ours.vocabulary.end_ids == (*saved.vocabulary.end_ids, 5)
    for name in ("bos_id", "eos_id", "add_bos", "chat_template", "special"):
        assert getattr(ours, name) == getattr(saved, name), name
    bundled = from_folder(FOLDER / "model" / "weights" / "tinygpt")
    assert ours.encode_ids(TEXT) == bundled.encode_ids(TEXT)


def unigram():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    letters = [chr(n) for n in range(97, 123)]
    pieces = ["<unk>", *(f"<0x{n:02X}>" for n in range(256)), "▁the", "▁cat", "▁", *letters]
    scores = [(piece, -1.0 if len(piece) > 3 else -3.0) for piece in pieces]
    backend = Tokenizer(models.Unigram(scores, unk_id=0, byte_fallback=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    backend.add_special_tokens(["<s>", "</s>"])
    begin = [("<s>", BEGIN)]
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=begin)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def test_another_kind_is_read_too_and_its_tokens_have_their_texts():
    theirs = unigram()
    ours = from_object(theirs, 1000)
    assert ours.library is not None and (ours.bos_id, ours.eos_id, ours.add_bos) == (BEGIN, BEGIN + 1, True)
    ids = ours.prompt_ids("the cat")
    assert ids == theirs.encode("the cat") and ids[0] == BEGIN
    tokens = ours.tokens(ids)
    assert tokens.pieces == ("<s>", " the", " cat")
    assert ours.decode(ids[1:]) == " the cat"
    assert ours.decode_bytes(theirs.encode("é", add_special_tokens=False)) == " é".encode()
    assert ours.special == {"<s>": BEGIN, "</s>": BEGIN + 1, "<unk>": 0} and ours.piece(0) == "<unk>"


def test_special_tokens_in_a_text_stay_text_unless_asked_for():
    ours = from_object(unigram(), 1000)
    assert BEGIN + 1 not in ours.encode_ids("</s>") and ours.encode_ids("</s>", special=True)[-1] == BEGIN + 1


def test_a_library_tokenizer_without_transformers_works_too():
    from tokenizers import Tokenizer

    path = FOLDER / "model" / "weights" / "tinygpt" / "tokenizer.json"
    ours = from_object(Tokenizer.from_file(str(path)), hooked.V)
    assert ours.decode(ours.encode_ids(TEXT)) == TEXT


@pytest.mark.parametrize("wrong", [None, "text", 3, object()])
def test_anything_else_is_refused(wrong):
    with pytest.raises(InputError, match="This is not a tokenizer"):
        from_object(wrong, 100)
