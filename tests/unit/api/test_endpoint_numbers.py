"""The functions for programs give the same numbers as the model's own functions."""

import math

import numpy as np
import pytest

from model.activations.neurons import layer_activations
from model.activations.norm_swap import places_of, swapped
from model.activations.norm_walk import walk
from model.activations.principal_components import principal
from model.activations.residual_statistics import statistic, survey
from model.attention.cell import explain
from model.attention.effects import Target, metric, patch_heads, sweep
from model.attention.find_heads import rank_heads
from model.attention.measures import MEASURES, measure
from model.attention.spans import spans_of, summed
from model.errors import InputError
from model.generation.next_token import context_at, logits_after
from model.generation.search.beam_tree import beam_tree
from model.generation.search.exhaustive import most_probable
from model.generation.strategies import DecodingPlan, Strategy
from model.gpt.edits import Edit
from model.predictions.attribution import attribute, components
from model.predictions.predictions import follow, predict
from model.sampling.draw_statistics import bar_of, uniforms
from model.sampling.orders import compare_orders
from model.sampling.pipeline import softmax
from model.sampling.temperatures import heat
from model.sampling.warps import final, shape
from model.sets.aligned import prompt_set
from model.sets.effects import set_effects
from model.tracing.logit_lens import read_layers
from tests.support.models.helpers import assert_close
from tests.support.views.endpoints import TEXT, array, ask
from viz.views.sampling.pipelines import DEFAULT

ZERO = Edit("zero", 1, 2)


def test_attention(wired):
    playground, lm = wired
    run = lm.trace(TEXT)
    for name in MEASURES:
        found = ask(playground, "attention", prompt=TEXT, layer=1, head=2, measure=name)
        assert_close(array(found["rows"]), measure(run, name, 1, 2), 1e-6, name)
    rows = ask(playground, "attention", prompt=TEXT, layer=1, head=2, queries=[-1, 0])
    assert rows["queries"] == [9, 0] and rows["tokens"] == list(TEXT)
    assert_close(array(rows["rows"]), measure(run, "weights", 1, 2)[[9, 0]], 1e-7)
    links = ask(playground, "attention_links", prompt=TEXT, layer=1, head=2, most=5)["links"]
    values = -np.sort(-np.nan_to_num(measure(run, "weights", 1, 2), nan=0).ravel())
    assert_close([link["value"] for link in links], values[:5], 1e-7)
    assert all(TEXT[link["key"]] == link["key_text"] for link in links)


def test_attention_by_words(wired):
    playground, lm = wired
    text = "ab cd. ef"
    spans = spans_of(lm.encode(text).raw, "words")
    found = ask(playground, "attention", prompt=text, layer=1, head=2, queries=[3, 4, -1], unit="words")
    z = summed(measure(lm.trace(text), "weights", 1, 2), spans, spans)
    assert found["tokens"] == ["ab", " cd", ".", " ef"] and found["queries"] == [1, 3]
    assert [tuple(span) for span in found["spans"]] == list(spans) and found["unit"] == "words"
    assert_close(array(found["rows"]), z[[1, 3]], 1e-6)
    with pytest.raises(InputError, match="no sum"):
        ask(playground, "attention", prompt=text, layer=1, head=2, measure="scores", unit="words")


def test_heads_of_a_run(wired):
    playground, lm = wired
    run = lm.trace(TEXT).edit(ZERO)
    edits = [{"kind": "zero", "layer": 1, "head": 2}]
    found = ask(playground, "head_metrics", prompt=TEXT, edits=edits)["heads"]
    frame = run.head_metrics()
    assert [(row["layer"], row["head"]) for row in found] == list(frame.index)
    assert_close(
        [[row[name] if row[name] is not None else math.nan for name in frame] for row in found], frame.to_numpy(), 1e-6
    )
    ranked = ask(playground, "find_heads", prompt=TEXT, queries=[-1, 5], keys=[0, 2], edits=edits, most=3)["heads"]
    values = rank_heads(run, [5, 9], [0, 2])
    assert_close([row["value"] for row in ranked], -np.sort(-values.ravel())[:3], 1e-6)
    assert values[ranked[0]["layer"], ranked[0]["head"]] == values.max()


def test_one_cell_and_its_vectors(wired):
    playground, lm = wired
    run = lm.trace(TEXT)
    found = ask(playground, "attention_cell", prompt=TEXT, layer=2, head=1, query=7, key=4)
    own = explain(run, 2, 1, 7, 4)
    assert found["check"]["state"] == "same" and found["query_text"] == "a" and found["key_text"] == "b"
    for name in ("q", "k", "products", "exponentials", "output"):
        assert_close(array(found[name]), getattr(own, name), 1e-6, name)
    assert found["weight"] == pytest.approx(own.weight, rel=1e-6)
    vectors = ask(playground, "head_vectors", prompt=TEXT, layer=2, head=1, positions=[7, 4])
    assert_close(array(vectors["q"][0]), own.q, 1e-6)
    assert_close(array(vectors["k"][1]), own.k, 1e-6)
    assert_close(array(vectors["z"]), run.z(2, 1)[[7, 4]], 1e-6)


def test_distribution(wired):
    playground, lm = wired
    run = lm.trace(TEXT)
    logits, context = logits_after(run, 6, 256), context_at(run, 6)
    shaped = shape(logits, DEFAULT, context)
    found = ask(playground, "distribution", prompt=TEXT, position=6, most=10)
    for token in found["tokens"]:
        assert_close(array(token["probabilities"]), [shaped.probabilities(n)[token["id"]] for n in range(4)], 1e-7)
    assert [stage["kept"] for stage in found["stages"]] == [report.kept for report in shaped.report()]
    assert found["really_next"]["text"] == TEXT[7]
    warm = ask(playground, "temperatures", prompt=TEXT, position=6, steps=[], most=4)
    own = heat(logits, (), context)
    assert_close(array(warm["entropy"]), own.entropy, 1e-6)
    assert_close(array(warm["tokens"][0]["probabilities"]), own.probabilities[0], 1e-7)
    compared, orders = compare_orders(logits, DEFAULT, context), ask(playground, "step_orders", prompt=TEXT, position=6)
    assert [each["orders"] for each in orders["results"]] == [
        [[n + 1 for n in order] for order in group.orders] for group in compared.groups
    ]
    assert [each["kept"] for each in orders["results"]] == [group.result.kept for group in compared.groups]
    assert orders["pairs"] == [[a + 1, b + 1] for a, b in compared.pairs]
    assert orders["tools"][0]["order"] == [2, 3, 1] and orders["tools"][0]["lacking"] == []
    assert ask(playground, "step_orders", prompt=TEXT, steps=[])["results"] == []
    drawn = ask(playground, "draws", prompt=TEXT, position=6, seed=3, count=500, most=6)
    bar = bar_of(softmax(final(logits, DEFAULT, context).numpy()))
    assert [token["drawn"] for token in drawn["tokens"]] == bar.counts(uniforms(3, 500))[:6].tolist()
    assert_close([token["probability"] for token in drawn["tokens"]], bar.shares[:6], 1e-7)


def test_predictions(wired):
    playground, lm = wired
    run = lm.trace(TEXT)
    found, own = ask(playground, "predictions", prompt=TEXT, most=2), predict(run)
    assert found["rows"][0]["rank"] is None
    assert [row["rank"] for row in found["rows"][1:]] == own.rank.tolist()
    assert_close([row["surprisal"] for row in found["rows"][1:]], own.surprisal, 1e-5)
    assert_close([row["expected"][1]["probability"] for row in found["rows"]], own.probabilities[:, 1], 1e-7)
    followed = ask(playground, "follow_tokens", prompt=TEXT, tokens=["b", "id:100"])["followed"]
    assert [token["id"] for token in followed] == [ord("b"), 100]
    assert_close(array(followed[0]["probability"]), follow(run, ord("b")).probability, 1e-7)
    read, layers = ask(playground, "lens", prompt=TEXT, positions=[3, -1]), read_layers(run, [3, 9])
    assert_close(array(read["entropy"]), layers.entropy, 1e-5)
    assert read["likeliest"][1][0][0]["id"] == layers.ids[1, 0, 0]
    assert read["likeliest"][-1][1][0]["id"] == int(run.logits_at(9).argmax())
    points = ask(playground, "lens_at", prompt=TEXT, tokens=["c"])["points"]
    assert_close(
        [point["probability"][0] for point in points[::2]],
        read_layers(run, [9], candidates=[ord("c")]).shares[:, 0, 0],
        1e-6,
    )


def test_who_wrote_it(wired):
    playground, lm = wired
    run = lm.trace(TEXT)
    own = attribute(components(run, 9), lm.model, ord("b"), ord("c"))
    found = ask(playground, "logit_parts", prompt=TEXT, token="b", distractor="c", most=4)
    assert_close(array(found["heads"]), own.heads, 1e-6)
    assert found["logit"] == pytest.approx(own.logit, rel=1e-6)
    assert abs(found["strongest"][0]["value"]) == pytest.approx(own.parts()["value"].abs().max(), rel=1e-6)
    part = ask(playground, "part_tokens", prompt=TEXT, layer=1, head=2, token="b", distractor="c")
    assert part["value"] == pytest.approx(own.heads[1, 2], rel=1e-5)
    assert sum(part["sources"]) == pytest.approx(own.heads[1, 2], rel=1e-4, abs=1e-6)
    mlp = ask(playground, "part_tokens", prompt=TEXT, layer=1, token="b", distractor="c")
    assert mlp["sources"] is None and mlp["value"] == pytest.approx(own.mlps[1], rel=1e-5)
    slopes = ask(playground, "gradients", prompt=TEXT[:5], token="b")
    change = slopes["value"] - slopes["baseline"]
    assert sum(slopes["integrated"]) - change == pytest.approx(slopes["gap"], abs=1e-6)


def test_norms_and_activations(wired):
    playground, lm = wired
    run = lm.trace(TEXT)
    for name in ("rms", "update", "cosine"):
        rows, values = statistic(survey(run), name)
        found = ask(playground, "stream_sizes", prompt=TEXT, number=name)["rows"]
        assert [(row["where"], row["layer"]) for row in found] == rows
        assert_close(array([row["values"] for row in found]), values, 1e-6)
    ask(playground, "outliers", prompt=TEXT, rule="x20")
    normed = ask(playground, "norm", prompt=TEXT, layer=1, site="norm2", position=4)["walk"]
    own = walk(run, 1, "norm2", 4)
    assert_close(array(normed["out"]), own.out, 1e-6)
    assert (normed["mean"] is None) == (own.mean is None)
    assert len(ask(playground, "norm_gains")["norms"]) == 2 * 3 + lm.config.final_norm
    change = swapped(run, "frozen", places_of(lm.config, "norm1"))
    moved = ask(playground, "norm_swap", prompt=TEXT, change="frozen", where="norm1")
    assert moved["kl"] == pytest.approx(change.kl, rel=1e-6)
    space = ask(playground, "residual_space", prompt=TEXT)
    assert_close(array(space["coordinates"]), principal(run).coordinates, 1e-6)


def test_neurons(wired):
    playground, lm = wired
    post = layer_activations(lm.trace(TEXT), 1).post
    found = ask(playground, "neurons", prompt=TEXT, layer=1, most=3)["neurons"]
    assert_close([abs(row["activation"]) for row in found], -np.sort(-abs(post[-1]))[:3], 1e-6)
    one = ask(playground, "neuron", prompt=TEXT, layer=1, neuron=found[0]["neuron"])
    assert_close(array(one["post"]), post[:, found[0]["neuron"]], 1e-6)
    assert one["post"][found[0]["peak"]] == found[0]["largest"]
    layers = ask(playground, "neuron_survey", prompt=TEXT)["layers"]
    assert sum(layers[1]["counts"]) == post.size


def test_effects(wired):
    playground, lm = wired
    run, edits = lm.trace(TEXT), [{"kind": "zero", "layer": 1, "head": 2}]
    told = ask(playground, "next_token", prompt=TEXT, edits=edits)
    assert told["kl"] == pytest.approx(metric(run.edit(ZERO), Target("kl", 9), run), rel=1e-5)
    target = Target("probability", 9, ord("b"))
    found = ask(playground, "sweep", prompt=TEXT, watch="probability", token="b", how="mean")
    assert_close(array(found["effects"]), sweep(run, "mean", target), 1e-7)
    first = found["strongest"][0]
    assert first["value"] == found["effects"][first["layer"]][first["head"]]
    assert ask(playground, "sweep", prompt=TEXT, watch="loss")["position"] is None


def test_a_prompt_set(wired):
    playground, lm = wired
    own = "clean: {a1}x{a1}\ncorrupt: {a2}x{a2}\ntarget: 1\ndistractor: 2\na: k, l, m, n"
    found = ask(playground, "prompt_set_effects", set="own", own=own, pairs=4, effect="v")
    pairs = prompt_set(lm, own, 4)
    values = set_effects(lm, pairs.pairs, "v").values
    assert_close(array(found["values"]), values, 1e-6)
    assert_close(array(found["mean"]), values.mean(0), 1e-6)
    assert [each["clean"] for each in found["pairs"]] == [each.pair.clean for each in pairs.pairs]
    assert array(found["corrected"]).min() >= 2 / 16  # all signs equal: two of the 16 flips


def test_compare_and_patch(wired):
    playground, lm = wired
    a, b = lm.trace(TEXT), lm.trace("abcabd xbc")
    found = ask(playground, "compare_runs", prompt=TEXT, other_prompt="abcabd xbc", patterns=True)
    assert [step["kind"] for step in found["alignment"]].count("replaced") == 1
    assert_close([row["entropy_b"] for row in found["heads"]], b.head_metrics()["entropy"].to_numpy(), 1e-6)
    gap = np.abs(a.pattern(0, 1) - b.pattern(0, 1)).sum() / 55
    assert found["heads"][1]["pattern"] == pytest.approx(gap, rel=1e-4)
    one = ask(playground, "compare_head", prompt=TEXT, other_prompt="abcabd xbc", layer=0, head=1)
    assert_close(array(one["difference"]), measure(a, "weights", 0, 1) - measure(b, "weights", 0, 1), 1e-6)
    patched = ask(playground, "patch", prompt=TEXT, other_prompt="abcabd xbc", token="b", distractor="c")
    assert np.array(patched["effects"]).shape == (3, 10)
    assert not np.array(patched["effects"])[:, :7].any()
    gap = patched["clean"] - patched["corrupted"]
    assert_close(array(patched["recovered"]), array(patched["effects"]) / gap, 1e-4)
    asked = {"prompt": TEXT, "other_prompt": "abcabd xbc", "token": "b", "distractor": "c", "by": "head"}
    target = Target("difference", -1, ord("b"), ord("c"))
    for where, position in ({}, None), ({"where": "picked", "position": -2}, 8):
        heads = ask(playground, "patch", **asked, **where, most=2)
        assert_close(array(heads["effects"]), patch_heads(a, b, target, position), 1e-5)
        assert heads["site"] is None and heads["position"] == position and len(heads["strongest"]) == 2
        assert abs(heads["strongest"][0]["value"]) == pytest.approx(np.abs(array(heads["recovered"])).max())
    edited = ask(playground, "compare_runs", prompt=TEXT, edits=[{"kind": "zero", "layer": 0, "head": 0}])
    assert edited["other"]["how"] == "unedited"


def test_generate_is_what_the_model_writes(wired):
    playground, lm = wired
    found = ask(playground, "generate", prompt=TEXT, presets=["greedy", "top_p"], new_tokens=6, seed=5, details=True)
    for row, name in zip(found["texts"], ("greedy", "top_p"), strict=True):
        changes = [tick.changes[0] for tick in lm.generate(TEXT, name, 6, 5)]
        ids = [made.id for change in changes if change for made in change.made]
        assert [token["id"] for token in row["tokens"]] == ids and row["ended"] == "length"
    many = ask(playground, "many_samples", prompt=TEXT, presets=["greedy", "temperature"], count=3, new_tokens=4)
    assert [row["texts"] for row in many["strategies"]] == [1, 3] and len(many["texts"]) == 4
    steps = [{"warp": "temperature", "values": {"temperature": 0}}]
    drafted = ask(playground, "speculative", prompt=TEXT, new_tokens=8, steps=steps)
    assert drafted["same_as_without"] and drafted["summary"]["written"] == 8


def test_beam_search_is_that_of_the_model(wired):
    playground, lm = wired
    found = ask(playground, "beam_search", prompt=TEXT, beams=3, new_tokens=4, runs="256")
    ids, size = lm.encode(TEXT).ids.tolist(), lm.tokenizer.vocab_size
    strategy = Strategy((), "beam", (("beams", 3), ("length_penalty", 1.0)))
    tree = beam_tree(lm.model, ids, strategy, DecodingPlan(4), size)
    assert [(each["token"]["id"], each["state"], each["reason"]) for each in found["candidates"]] == [
        (each.id, each.state, each.reason) for each in tree.candidates
    ]
    assert [each["text"] for each in found["texts"]] == [lm.decode(tree.ids(each)) for each in tree.results]
    best = most_probable(lm.model, ids, 4, size, most_runs=256)
    assert (found["most_probable"]["text"], found["most_probable"]["exact"]) == (lm.decode(best.ids), best.exact)
    assert found["greedy"]["total"] <= best.total + 1e-4
