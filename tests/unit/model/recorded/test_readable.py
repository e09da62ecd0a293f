"""Marks of tokenizers become readable text; the whole list decides which tokenizer it was."""

import pytest

from model.recorded.readable import is_special, readable


@pytest.mark.parametrize(
    ("tokens", "texts"),
    [
        (["The", "Ġcat", "Ċ", "ĉ", "<|endoftext|>"], ["The", " cat", "\n", "\t", "<|endoftext|>"]),
        (["ä½ł", "å¥½"], ["你", "好"]),
        (["Ġä", "½ł", "!"], [" <0xE4>", "<0xBD><0xA0>", "!"]),
        (["½ł", "å¥½"], ["<0xBD><0xA0>", "好"]),  # begins within a character
        (["Ã¼ber", "Ġalles"], ["über", " alles"]),
        (["▁The", "▁cat", "s", "<0x0A>", "<0xE4>", "</s>"], [" The", " cat", "s", "\n", "<0xE4>", "</s>"]),
        (["[CLS]", "the", "cat", "##s", ".", "[SEP]"], ["[CLS]", " the", " cat", "s", " .", "[SEP]"]),
        (["the", "cat", "##s"], ["the", " cat", "s"]),
        (["<|startoftext|>", "a</w>", "c", "at</w>", "."], ["<|startoftext|>", "a", " c", "at", " ."]),
        (["un@@", "believ@@", "able", "cat"], ["un", "believ", "able", " cat"]),
        ([b"The", b" cat", b"\xe4\xbd", b"\xa0"], ["The", " cat", "<0xE4><0xBD>", "<0xA0>"]),
        # nothing marks these
        (["The", " cat", " sat"], ["The", " cat", " sat"]),
        (["mały", "kot"], ["mały", "kot"]),  # ł is also a letter of byte-level BPE, but not UTF-8 here
        (["çocuğun", "evi"], ["çocuğun", "evi"]),
        (["C#", "##"], ["C#", "##"]),
        (["你", "好"], ["你", "好"]),
        (["", "a"], ["", "a"]),
    ],
    ids=str,
)
def test_marks_become_text(tokens, texts):
    assert list(readable(tokens)) == texts
    assert list(readable(texts)) == texts  # a file holds what was read


def test_names_of_patches_stay_as_they_are():
    names = ["[CLS]", "0,0", "0,1"]
    assert list(readable(names, patches=True)) == names


def test_unpaired_surrogates_are_replaced():
    assert readable(["a\ud800b"]) == ("a?b",)


def test_special_tokens_are_known_by_their_form():
    special = ["[CLS]", "[SEP]", "</s>", "<s>", "<|endoftext|>", "<pad>"]
    assert all(map(is_special, special))
    assert not any(map(is_special, ["cat", "<0x0A>", "<", "[", "[sic]", "<div>", ""]))
