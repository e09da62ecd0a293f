"""Kinds of tokens: words, their beginnings and ends, punctuation, names and sentence starts, told from the texts."""

from model.claims import kinds_of_tokens as kinds

PIECES = ["She", " asked", " Ma", "ria", ",", ' "', "Where", " is", " the", " cat", "?", '"']
PIECES += [" Maria", " ran", ".", " I"]


def marked(mask):
    return [piece for piece, on in zip(PIECES, mask, strict=True) if on]


def test_word_starts_and_rests():
    assert marked(kinds.word_rests(PIECES)) == ["ria"]
    starts = ["She", " asked", " Ma", " is", " the", " cat", " Maria", " ran", " I"]
    assert marked(kinds.word_starts(PIECES)) == starts
    assert " Ma" not in marked(kinds.whole_words(PIECES)) and " Maria" in marked(kinds.whole_words(PIECES))


def test_punctuation_has_no_letters():
    assert marked(kinds.punctuation(PIECES)) == [",", ' "', "?", '"', "."]


def test_function_and_content_words_share_no_token():
    content, function = kinds.content_words(PIECES), kinds.one_of(PIECES, kinds.FUNCTION_WORDS)
    assert marked(function) == ["She", " is", " the", " I"]
    assert marked(content) == [" asked", " Ma", " cat", " Maria", " ran"] and not (content & function).any()


def test_a_sentence_starts_after_its_mark_and_quotation_marks():
    assert marked(kinds.sentence_starts(PIECES)) == [" Maria", " I"]


def test_names_are_capitalized_inside_a_sentence():
    assert marked(kinds.names(PIECES)) == [" Ma"]  # the second Maria begins a sentence
