"""Probes: what can be read and what cannot, texts held out whole, shuffled labels, examples that a person types."""

import numpy as np
import pytest

from model.errors import InputError
from model.probes.examples import MOST_EXAMPLES, Example, Labeled, inside_quotes, labeled, typed
from model.probes.probe import cells_of, folds_of, held_out, probe, read_vectors, shuffled_labels
from model.steering.vectors import pair_vectors
from tests.support.models.helpers import L, assert_close, byte_model

LINES = "\n".join(f"{name}: {word} {n}" for n in range(6) for name, word in (("up", "aaa"), ("down", "zzz")))


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    return byte_model(tmp_path_factory.mktemp("probes"))


def token_set(texts: int = 8) -> Labeled:
    examples = [Example(f"abcd{n}", at % 2, n, at) for n in range(texts) for at in range(4)]
    return Labeled(("even", "odd"), tuple(examples))


def test_a_label_along_one_direction_is_read_and_a_label_by_chance_is_not():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 60)
    x = rng.normal(size=(60, 10)) + 6 * labels[:, None] * np.eye(10)[3]
    fold = folds_of(np.arange(60), 5)
    assert (held_out(x, labels[None], fold, 2)[0] == labels).mean() > 0.95
    coins = rng.integers(0, 2, (400, 60))
    share = (held_out(x, coins, fold, 2) == coins).mean(1)
    assert abs(share.mean() - 0.5) < 4 * 0.5 / np.sqrt(coins.size)
    ranks = share.reshape(20, 20)
    p = (1 + (ranks[:, 1:] >= ranks[:, :1]).sum(1)) / 20  # among 19 others, p <= 0.25 in at most a quarter
    assert (p <= 0.25).mean() <= 0.25 + 4 * np.sqrt(0.25 * 0.75 / 20)


def test_three_classes_are_told_apart():
    rng = np.random.default_rng(1)
    labels = np.arange(60) % 3
    x = rng.normal(size=(60, 6)) + 5 * np.eye(6)[labels]
    assert (held_out(x, labels[None], folds_of(np.arange(60), 5), 3)[0] == labels).mean() > 0.9


def test_no_text_is_both_learned_and_tested():
    """The label is a coin for each text, which only a probe that has seen the text can know."""
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(30), 4)
    labels = rng.integers(0, 2, 30)[groups]
    x = rng.normal(size=(30, 40))[groups] + 0.01 * rng.normal(size=(120, 40))
    fold = folds_of(groups, 5)
    for group in range(30):
        assert len(set(fold[groups == group])) == 1
    assert np.bincount(fold).tolist() == [24] * 5
    assert abs((held_out(x, labels[None], fold, 2)[0] == labels).mean() - 0.5) < 0.3
    leaking = rng.permutation(120) % 5
    assert (held_out(x, labels[None], leaking, 2)[0] == labels).mean() > 0.95


def test_labels_are_shuffled_over_texts_or_within_each_text(lm):
    data = typed(lm, LINES)
    rows = shuffled_labels(data, 30)
    assert (np.sort(rows, 1) == np.sort(data.labels())).all() and (rows[:, 0] != data.labels()[0]).any()
    data = token_set()
    rows = shuffled_labels(data, 30)
    assert (rows.reshape(30, 8, 4).sum(2) == 2).all() and (rows != data.labels()).any()


def test_vectors_are_those_of_the_runs(lm):
    data, cells = token_set(2), cells_of(lm)
    assert len(cells) == 4 * L + 1 and cells[0] == ("resid_pre", 0)
    found = read_vectors(lm, data, cells)
    run = lm.trace("abcd1")
    assert_close(found[cells.index(("resid_mid", 1)), 6], run.middle(1)[2], 1e-5)
    assert_close(found[cells.index(("resid_post", 2)), 6], run.hidden(3)[2], 1e-5)
    summed = found[cells.index(("resid_mid", 0))] - found[0]
    assert_close(found[cells.index(("attn_out", 0))], summed, 1e-4)
    texts = typed(lm, LINES)
    assert_close(read_vectors(lm, texts, cells, "mean")[0, 1], lm.trace("zzz 0").hidden(0).mean(0), 1e-5)


def test_a_probe_reports_every_cell_beside_its_controls(lm):
    data = typed(lm, LINES)
    found = probe(lm, data, read="mean", draws=9)
    C = 4 * L + 1
    assert found.accuracy.shape == found.low.shape == (C,) and found.shuffled.shape == (9, C)
    assert found.majority == 0.5 and (found.accuracy == 1).all()
    assert ((found.low > 0.4) & (found.low <= found.accuracy) & (found.accuracy <= found.high)).all()
    assert (found.p >= 0.1).all() and (found.corrected >= found.p).all() and found.p[0] == 0.1
    assert (found.predicted == data.labels()).all()
    pairs = [(up.text, down.text) for up, down in zip(data.examples[::2], data.examples[1::2], strict=True)]
    at = found.at("resid_post", 1)
    gap, v = pair_vectors(lm, pairs, read="mean")[1].astype(np.float64), found.directions[at, 0].astype(np.float64)
    assert v @ gap == pytest.approx(v @ v, rel=1e-3)  # the part of the difference of means along the direction
    assert_close(found.directions[at, 1], -found.directions[at, 0], 1e-4)
    with pytest.raises(InputError, match="no such site"):
        probe(lm, data, sites=["z"])


def test_typed_lines_label_texts_or_tokens(lm):
    data = typed(lm, "glad\ta good day\nsad: a bad day: yes\nglad: fine\nsad: bad")
    assert data.classes == ("glad", "sad") and data.labels().tolist() == [0, 1, 0, 1]
    assert data.examples[1].text == "a bad day: yes" and not data.of_tokens
    marked = typed(lm, "a [é:dog] ran\n[cat]s [é:eat]\n[an] ant")
    assert marked.classes == ("é", "marked", "other") and marked.of_tokens
    first = [each for each in marked.examples if each.group == 0]
    assert [each.label for each in first] == [2, 2, 0, 0, 0, 2, 2, 2, 2] and first[0].text == "a dog ran"
    for text, message in (
        ("one: a\none: b", "needs several classes"),
        ("no label", "has no label"),
        ("[a] b\nc: d", "no word in brackets"),
        ("a: x\nb: y", "in only one text"),
        (" ", "no labeled examples"),
    ):
        with pytest.raises(InputError, match=message):
            labeled(lm, text)


def test_built_in_sets_are_balanced_and_their_rules_hold(lm):
    assert inside_quotes(['"', "Yes", ',"', " he", ' "', "no"]) == [None, True, None, False, None, True]
    for name in ("number", "feeling", "quoted", "said"):
        data = labeled(lm, name)
        counts = np.bincount(data.labels())
        assert counts[0] == counts[1] <= MOST_EXAMPLES // 2 and len(set(data.groups())) >= 20, name
    said = labeled(lm, "said").examples
    for each in said[:40]:
        ids = lm.encode(each.text).ids.tolist()
        assert (ids[each.position] in ids[: each.position]) == (each.label == 0)
    number = labeled(lm, "number").examples
    assert {each.text.split()[-1] for each in number if each.label == 0} == {
        each.text.split()[-1] for each in number if each.label == 1
    }
