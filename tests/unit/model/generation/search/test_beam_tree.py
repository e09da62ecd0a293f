"""The record of a beam search is that of the search that `generate` runs, with every candidate and its fate."""

import itertools
import math

import pytest
import torch

from model.errors import InputError
from model.generation.generate import generate
from model.generation.search.beam_tree import beam_tree
from model.generation.strategies import DecodingPlan, Strategy
from model.public import without_checks
from tests.support.models.helpers import VARIANTS, V, random_ids, tiny_model, written
from tests.support.models.rounding import logits_within
from tests.unit.model.generation.test_beams import COLD, PROMPT, SMALL, Table, small

grown = without_checks(beam_tree)  # of a table in place of a model

SEARCHES = {
    "plain": Strategy((), "beam", (("beams", 4),)),
    "long": Strategy((), "beam", (("beams", 3), ("length_penalty", 2))),
    "short": Strategy((), "beam", (("beams", 5), ("length_penalty", -1))),
    "warped": Strategy(COLD, "beam", (("beams", 4),)),
    "diverse": Strategy((), "diverse_beam", (("beams", 6), ("groups", 3), ("diversity", 0.7), ("texts", 6))),
}


def diverse(beams, groups, diversity, penalty=1.0):
    options = (
        ("beams", beams),
        ("length_penalty", penalty),
        ("texts", 16),
        ("groups", groups),
        ("diversity", diversity),
    )
    return Strategy((), "diverse_beam", options)


def texts_of(tree):
    return [(tree.ids(each), tree.candidates[each].score) for each in tree.results]


@pytest.mark.parametrize("ending", [frozenset(), frozenset((3, 5))])
@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("variant", ["gpt2", "llama"])
def test_the_texts_are_those_of_generate(variant, name, ending):
    model, ids = tiny_model(VARIANTS[variant], 3), random_ids(1, 6)[0].tolist()
    strategy, plan = SEARCHES[name], DecodingPlan(7, ending=ending)
    ticks = list(generate(model, ids, [strategy], plan, V))
    (shown, _), others = written(ticks), ticks[-1].changes[0].others
    tree = beam_tree(model, ids, strategy, plan, V)
    assert tree.ids(tree.results[0]) == tuple(shown)
    assert texts_of(tree)[: len(others)] == list(others)


@pytest.mark.parametrize("ending", [frozenset(), frozenset((1,))])
@pytest.mark.parametrize("name", SEARCHES)
def test_every_candidate_follows_from_its_parent(name, ending):
    model, strategy = small(2), SEARCHES[name]
    tree = beam_tree(model, PROMPT, strategy, DecodingPlan(6, ending=ending), SMALL)
    options = {"length_penalty": 1.0, "groups": 1, "diversity": 0.0} | dict(strategy.options)
    kept = {(each.parent) for each in tree.candidates}
    for index, each in enumerate(tree.candidates):
        before = tree.candidates[each.parent] if each.parent >= 0 else None
        assert each.step == (before.step if before else 0) + 1 == len(tree.ids(index)) and each.parent < index
        assert each.total == pytest.approx((before.total if before else 0) + each.log_probability)
        assert each.score == pytest.approx((each.total - each.penalty) / each.step ** options["length_penalty"])
        assert before is None or (before.group == each.group and not before.ended)
        # What goes on has the state of what becomes of it.
        if each.state == "final":
            assert index in tree.results and not each.reason and each.pruned == 0
        elif each.state == "kept":
            assert index in kept and any(index in tree.path(result) for result in tree.results)
        else:
            assert each.reason and each.pruned >= each.step
            assert all(index not in tree.path(result) for result in tree.results)
    for (_, group), found in itertools.groupby(tree.candidates, lambda each: (each.step, each.group)):
        found = list(found)
        assert [each.place for each in found] == list(range(len(found)))
        assert [each.total - each.penalty for each in found] == sorted(
            (each.total - each.penalty for each in found), reverse=True
        )
        share = options["beams"] // options["groups"]
        assert sum(each.reason not in ("below", "late") and not each.ended for each in found) <= share, group


def test_a_log_probability_is_that_of_the_model():
    model = small(5)
    tree = beam_tree(model, PROMPT, SEARCHES["plain"], DecodingPlan(4), SMALL)
    for index in (0, 9, len(tree.candidates) - 1):
        ids = torch.tensor([[*PROMPT, *tree.ids(index)]])
        with torch.inference_mode():
            logs = model(ids)[0, :-1].double().log_softmax(-1)
        bound = 2 * float(logits_within(model, ids).max())
        assert tree.candidates[index].log_probability == pytest.approx(float(logs[-1, ids[0, -1]]), abs=bound)


def test_the_length_penalty_by_hand():
    """Token 3 ends. 3 alone has probability 0.4; 1 3 has 0.5 x 0.7 = 0.35."""
    table = [[0.05, 0.5, 0.05, 0.4], [0.1, 0.1, 0.1, 0.7], [0.25] * 4, [0.25] * 4]
    scores = {}
    for penalty in (0.0, 1.0, -1.0):
        strategy = Strategy((), "beam", (("beams", 2), ("length_penalty", penalty)))
        tree = grown(Table(table), [0], strategy, DecodingPlan(2, ending=frozenset((3,))), SMALL)
        scores[penalty] = texts_of(tree)
    assert [ids for ids, _ in scores[0.0]] == [(3,), (1, 3)]
    assert [score for _, score in scores[0.0]] == pytest.approx([math.log(0.4), math.log(0.35)])
    # Divided by the length: ln 0.35 / 2 = -0.525 beats ln 0.4 = -0.916.
    assert [ids for ids, _ in scores[1.0]] == [(1, 3), (3,)]
    assert [score for _, score in scores[1.0]] == pytest.approx([math.log(0.35) / 2, math.log(0.4)])
    assert [score for _, score in scores[-1.0]] == pytest.approx([math.log(0.4), 2 * math.log(0.35)])


def fates(tree):
    return {tree.ids(n): (each.state, each.reason, each.pruned) for n, each in enumerate(tree.candidates)}


def test_what_was_dropped_when_and_why_by_hand():
    """Two beams. After 0: 1 (0.5) and 2 (0.3) go on. Both continuations kept at step 2 extend 1, so 2 is outrun."""
    table = [[0.08, 0.5, 0.3, 0.12], [0.05, 0.5, 0.4, 0.05], [0.25] * 4, [0.25] * 4]
    strategy = Strategy((), "beam", (("beams", 2), ("length_penalty", 0)))
    found = fates(grown(Table(table), [0], strategy, DecodingPlan(2), SMALL))
    assert found[1,] == ("kept", "", 0) and found[2,] == ("pruned", "outrun", 2)
    assert found[3,] == ("pruned", "below", 1) and found[0,] == ("pruned", "below", 1)
    assert found[1, 1] == ("final", "", 0) == found[1, 2]
    assert found[2, 0] == ("pruned", "late", 2)  # a text ends at the maximum length, but it is third


def test_ended_texts_are_displaced_and_a_search_stops():
    """Token 3 ends, and one beam: 3 (0.4) is second and late; what 1 (0.45) leads to ends at once and stops it."""
    late = [[0.1, 0.45, 0.05, 0.4], [0.1, 0.1, 0.1, 0.7], [0.25] * 4, [0.25] * 4]
    one = Strategy((), "beam", (("beams", 1), ("length_penalty", 1)))
    found = fates(grown(Table(late), [0], one, DecodingPlan(5, ending=frozenset((3,))), SMALL))
    assert found[3,] == ("pruned", "late", 1) and found[1, 3] == ("final", "", 0)
    assert found[1, 0] == ("pruned", "stopped", 2)
    # Two beams: 3 (0.3) ends first, then 1 3. The penalty favors length, so the texts of three tokens displace both.
    first = [[0.1, 0.5, 0.1, 0.3], [0.01, 0.49, 0.01, 0.49], [0.25] * 4, [0.25] * 4]
    two = Strategy((), "beam", (("beams", 2), ("length_penalty", 2)))
    found = fates(grown(Table(first), [0], two, DecodingPlan(3, ending=frozenset((3,))), SMALL))
    assert found[3,] == ("pruned", "displaced", 3) == found[1, 3]
    assert found[1, 1, 1] == ("final", "", 0) == found[1, 1, 3] and found[0, 3] == ("pruned", "late", 2)


# --- groups ---


@torch.inference_mode()
def literal(model, most, beams, groups, diversity, penalty, ending):
    """Group beam search as in transformers 4 (removed in 5), written out text by text, with the stopping rule of 5."""
    share = beams // groups
    running, done = [[((), 0.0)] for _ in range(groups)], [[] for _ in range(groups)]
    for step in range(1, most + 1):
        taken: list[int] = []
        for group in range(groups):
            scored = []
            for ids, total in running[group]:
                logs = model(torch.tensor([[*PROMPT, *ids]]))[0, -1].double().log_softmax(-1)
                scored += [
                    ((*ids, token), total + log - diversity * taken.count(token))
                    for token, log in enumerate(logs.tolist())
                ]
            scored.sort(key=lambda each: -each[1])
            onward = []
            for rank, (ids, total) in enumerate(scored[: max(2, 1 + len(ending)) * share]):
                if ids[-1] in ending or step == most:
                    done[group] += [(ids, total / step**penalty)] if rank < share else []
                elif len(onward) < share:
                    onward.append((ids, total))
            done[group] = sorted(done[group], key=lambda each: -each[1])[:share]
            full = len(done[group]) == share
            if onward and full and onward[0][1] / step**penalty <= done[group][-1][1]:
                onward = []
            running[group] = onward
            taken += [ids[-1] for ids, _ in onward]
    return sorted((each for group in done for each in group), key=lambda each: -each[1])


@pytest.mark.parametrize("ending", [frozenset(), frozenset((2,))])
@pytest.mark.parametrize(("beams", "groups", "diversity"), [(4, 2, 0.5), (6, 3, 1.5), (3, 3, 0.2), (4, 1, 1.0)])
@pytest.mark.parametrize("seed", range(3))
def test_diverse_beams_are_those_of_the_literal_search(seed, beams, groups, diversity, ending):
    model = small(seed)
    tree = beam_tree(model, PROMPT, diverse(beams, groups, diversity), DecodingPlan(5, ending=ending), SMALL)
    wanted = literal(model, 5, beams, groups, diversity, 1.0, ending)
    assert [ids for ids, _ in texts_of(tree)] == [ids for ids, _ in wanted]
    bound = 10 * float(logits_within(model, torch.tensor([[*PROMPT, *wanted[0][0]]])).max())
    assert [score for _, score in texts_of(tree)] == pytest.approx([score for _, score in wanted], abs=bound)


def test_one_group_is_beam_search_and_groups_without_a_penalty_are_equal():
    model = small(1)
    plan = DecodingPlan(5)
    one = beam_tree(model, PROMPT, diverse(4, 1, 3.0), plan, SMALL)
    assert one == beam_tree(model, PROMPT, Strategy((), "beam", (("beams", 4),)), plan, SMALL)
    same = beam_tree(model, PROMPT, diverse(4, 2, 0.0), plan, SMALL)
    groups = [[same.ids(each) for each in same.results if same.candidates[each].group == n] for n in (0, 1)]
    assert groups[0] == groups[1] and len(groups[0]) == 2
    apart = beam_tree(model, PROMPT, diverse(4, 2, 5.0), plan, SMALL)
    first = {each.id for each in apart.candidates if each.step == 1 and each.group == 0 and each.place < 2}
    assert not first & {each.id for each in apart.candidates if each.step == 1 and each.group == 1 and each.place < 2}
    assert any(each.penalty for each in apart.candidates if each.group == 1)
    assert not any(each.penalty for each in apart.candidates if each.group == 0)


def test_groups_run_beside_other_strategies_as_they_do_alone():
    model = small(4)
    strategies = [diverse(6, 2, 0.8), Strategy((), "beam", (("beams", 3),)), diverse(4, 4, 1.0)]
    together = list(generate(model, PROMPT, strategies, DecodingPlan(6, ending=frozenset((1,))), SMALL))
    for row, strategy in enumerate(strategies):
        alone = list(generate(model, PROMPT, [strategy], DecodingPlan(6, ending=frozenset((1,))), SMALL))
        assert written(together, row) == written(alone)


def test_groups_divide_the_beams():
    with pytest.raises(InputError, match="divided evenly") as error:
        beam_tree(small(), PROMPT, diverse(6, 4, 1.0), DecodingPlan(3), SMALL)
    assert error.value.hint.endswith("1, 2, 3, 6.")


def test_another_method_is_refused():
    with pytest.raises(InputError, match="not a beam search"):
        beam_tree(small(), PROMPT, Strategy(), DecodingPlan(3), SMALL)
