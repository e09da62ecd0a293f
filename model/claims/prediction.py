"""Claims about the loss: which tokens are hard, and what makes them easier."""

import numpy as np

from model.claims import kinds_of_tokens as kinds
from model.claims.reading import Reading


def gap(loss: np.ndarray, harder: np.ndarray, easier: np.ndarray) -> float:
    """Subtract the mean loss at the `easier` tokens from that at the `harder` ones. [T - 1] each; NaN without either"""
    return float(loss[harder].mean() - loss[easier].mean()) if harder.any() and easier.any() else np.nan


def rare(text: Reading) -> float:
    """Compare the loss of the rarer half of the tokens, by their counts in all passages, with the rest. Nats"""
    counts = np.array([text.bench.counts[token] for token in text.ids[1:].tolist()])
    seldom = counts < np.median(counts)
    return gap(text.loss, seldom, ~seldom)


def word_start(text: Reading) -> float:
    """Compare the loss of the first token of a word with that of its later tokens. Nats"""
    return gap(text.loss, kinds.word_starts(text.pieces)[1:], kinds.word_rests(text.pieces)[1:])


def context(text: Reading) -> float:
    """Subtract the mean loss of the last third of the text from that of the first third. Nats per token"""
    third = len(text.loss) // 3
    return float(text.loss[:third].mean() - text.loss[-third:].mean())


def repeat(text: Reading) -> float:
    """Subtract the mean loss of the second copy of the text from that of the first. Nats per token"""
    T = len(text.ids)
    twice = text.changed.repeated
    return float(twice[: T - 1].mean() - twice[T:].mean())


def punctuation_easier(text: Reading) -> float:
    """Compare the loss at the start of content words with that at punctuation marks. Nats"""
    return gap(text.loss, kinds.content_words(text.pieces)[1:], kinds.punctuation(text.pieces)[1:])


def shuffle(text: Reading) -> float:
    """Return the rise of the mean loss if the tokens are in random order. Nats per token"""
    return float(text.changed.shuffled.mean() - text.loss.mean())


def int8(text: Reading) -> float:
    """Return the fraction of positions where 8-bit weights leave the most likely token as it is."""
    return float((text.changed.int8.argmax(-1) == text.log_probs.argmax(-1)).mean())


def last_word(text: Reading) -> float:
    """Return the fraction of positions where the last token alone gives the same most likely next token."""
    return float((text.changed.alone == text.log_probs.argmax(-1))[1:].mean())


def sentence_start(text: Reading) -> float:
    """Compare the loss at the first word of a sentence with that at the start of other words. Nats"""
    first = kinds.sentence_starts(text.pieces)[1:]
    return gap(text.loss, first, kinds.word_starts(text.pieces)[1:] & ~first)


def after_the(text: Reading) -> float:
    """Compare the entropy of the prediction after the, a or an with that after other words. Nats"""
    article = kinds.one_of(text.pieces, frozenset({"the", "a", "an"}))
    return gap(text.entropy, article, kinds.whole_words(text.pieces) & ~article)


def knows(text: Reading) -> float:
    """Correlate the entropy of each prediction with the loss of the token that follows. -1 to 1"""
    return float(np.corrcoef(text.entropy[:-1], text.loss)[0, 1])


def perplexity(text: Reading) -> float:
    """Subtract the mean loss from the mean entropy of the predictions. Nats per token"""
    return float(text.entropy[:-1].mean() - text.loss.mean())


def hide_first(text: Reading) -> float:
    """Return the rise of the loss in the second half of the text if it cannot attend to the first token. Nats"""
    half = len(text.ids) // 2
    return float(text.changed.without_first()[half:].mean() - text.loss[half:].mean())


def last_ten(text: Reading) -> float:
    """Return the rise of the loss if each token sees only the last ten, itself included. Nats per token"""
    return float(text.changed.recent_only().mean() - text.loss.mean())
