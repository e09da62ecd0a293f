"""The functions for programs: the same numbers as the model's own functions, and a clear no to everything else."""

import inspect
import json
import math
import typing

import numpy as np
import pytest

from model.activations.neurons import layer_activations
from model.activations.norm_swap import places_of, swapped
from model.activations.norm_walk import walk
from model.activations.principal_components import principal
from model.activations.residual_statistics import statistic, survey
from model.api import LanguageModel
from model.attention.cell import explain
from model.attention.effects import Target, metric, sweep
from model.attention.find_heads import rank_heads
from model.attention.measures import MEASURES, measure
from model.attention.surveys import random_survey
from model.checks.registry import CHECKS
from model.errors import InputError, PlaygroundError
from model.generation.next_token import context_at, logits_after
from model.gpt.edits import Edit
from model.gpt.logit_lens import read_layers
from model.predictions.attribution import attribute, components
from model.predictions.predictions import follow, predict
from model.sampling.draw_statistics import bar_of, uniforms
from model.sampling.pipeline import softmax
from model.sampling.temperatures import heat
from model.sampling.warps import final, shape
from tests.support.helpers import VARIANTS, assert_close, byte_tokenizer, tiny_model
from viz.api.arguments import MOST_ITEMS, MOST_TEXT
from viz.api.endpoints import ENDPOINTS, WITHOUT
from viz.api.registry import MOST_NUMBERS, arguments, call, document, offered, told_of
from viz.page.playground import Options, Playground
from viz.views.sampling.pipelines import DEFAULT
from viz.views.tabs import TABS

NAMED = {each.name: each for each in ENDPOINTS}
TEXT = "abcabd abc"
ZERO = Edit("zero", 1, 2)


def ask(playground: Playground, name: str, **given) -> dict:
    """The answer as a program gets it: through JSON that knows no NaN."""
    found = call(playground, NAMED[name], given)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return found


def array(value) -> np.ndarray:
    """Nested lists as numbers, None as NaN."""
    return np.array(value, dtype=float)


@pytest.fixture(scope="module", params=list(VARIANTS))
def wired(request, tmp_path_factory):
    """A server with a shaken byte model of every wiring."""
    changes = VARIANTS[request.param] | {"vocab_size": 256}
    lm = LanguageModel("tiny", "Tiny", tiny_model(changes), byte_tokenizer(tmp_path_factory.mktemp("bytes")))
    ours = Playground(Options(model="tiny", max_tokens=40))
    ours.models.get("tiny", lambda: lm)
    return ours, lm


# --- what is offered -------------------------------------------------------------------------------------


def views() -> set[str]:
    """Every tab, and every view of the tabs that have views."""
    found = {f"{tab.key}.{view.key}" for tab in TABS for view in tab.views if view.key != tab.key}
    for tab in TABS:
        shown = [part.removesuffix("_about") for part in tab.parts if part.endswith("_about")]
        inner = {f"{tab.key}.{view}" for view in shown if f"{view}_howto" in tab.parts}
        found |= inner or {tab.key}
    return found


def test_every_view_has_a_function_or_a_reason():
    covered = {view for each in ENDPOINTS for view in each.views}
    assert len(views()) > 25
    assert views() - covered - set(WITHOUT) == set()
    assert covered <= views() and not covered & set(WITHOUT)
    assert all(len(reason) > 20 for reason in WITHOUT.values())


def test_names_are_unique():
    assert len(NAMED) == len(ENDPOINTS)


@pytest.mark.parametrize("name", NAMED)
def test_everything_is_described(name):
    endpoint = NAMED[name]
    about, told, back = told_of(endpoint.function)
    hints = typing.get_type_hints(endpoint.function)
    assert about.endswith(".") and back.endswith(".")
    assert set(told) <= set(hints)
    for each in arguments(endpoint):
        assert each.told.endswith((".", ")")) and each.hint is not inspect.Parameter.empty, each.name
        if each.default in ("", None) and each.default is not inspect.Parameter.empty:
            assert "mpty" in each.told or "ot given" in each.told or "empty" in each.told
    lines = document(endpoint).splitlines()
    assert [line.strip().partition(":")[0] for line in lines if line.startswith("    ")][:-1] == [
        each.name for each in arguments(endpoint)
    ]


def test_defaults_pass_their_own_rules(playground):
    for endpoint in ENDPOINTS:
        for each in arguments(endpoint):
            if each.default is not inspect.Parameter.empty:
                assert not callable(each.default)
                json.dumps(each.default)


# --- the same numbers ------------------------------------------------------------------------------------


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


def test_of_the_model(wired):
    playground, lm = wired
    info = ask(playground, "model_info")
    assert info["parameters"] == lm.n_params and info["config"]["n_head"] == 4
    assert info["about"] == {"model": "tiny", "dtype": "float32", "tokens": None, "kind": "listed"} | {
        "seconds": info["about"]["seconds"]
    }
    size = ask(playground, "cache_size", length=10, batch=2)
    assert size["bytes"] == 2 * 3 * 2 * lm.config.n_kv_head * 10 * lm.config.d_head * 4
    wired_to = ask(playground, "composition", layer=1, head=0, most=2)
    assert {row["layer"] for row in wired_to["reads"]["q"]} == {0}


def test_of_the_server(playground, lm):
    assert {row["id"] for row in ask(playground, "models")["models"]} >= {"tinygpt"}
    cut = ask(playground, "tokenize", prompt="aé")["tokens"]
    assert [(row["id"], row["start"], row["end"]) for row in cut] == [(97, 0, 1), (195, 1, 2), (169, 2, 3)]
    found = ask(playground, "head_survey")
    mean = random_survey(lm.model, pool=256).mean
    assert_close([row["first_token"] for row in found["random"]], mean["first_token"].to_numpy(), 1e-6)
    times = ask(playground, "cache_times", prompt="ab")
    assert all(row["agree"] in (True, None) for row in times["rows"])


def test_checks(playground):
    found = ask(playground, "checks", prompt=TEXT, names=["rows", "softmax", "embedding"])
    assert [row["state"] for row in found["checks"]] == ["agrees"] * 3
    assert found["summary"]["agrees"] == 3 and set(NAMED["checks"].function.__doc__.split(", ")) & set(CHECKS)


def test_header(playground):
    found = ask(playground, "attention", prompt="abc", layer=0, head=0)["about"]
    assert (found["model"], found["dtype"], found["tokens"], found["kind"]) == ("tiny", "float32", 3, "measured")
    assert found["seconds"] > 0


@pytest.mark.parametrize("name", [each.name for each in ENDPOINTS if "run" in each.reads])
def test_one_token_is_enough_or_refused_clearly(playground, name, monkeypatch):
    monkeypatch.setattr(
        "viz.views.design.attention_ways.measure.limit_of", lambda scene: 128
    )  # the times of long contexts take seconds
    own = {"layer": 1, "head": 1, "neuron": 0, "queries": [0], "keys": [0], "tokens": ["a"], "other_prompt": "b"}
    wanted = {each.name for each in arguments(NAMED[name]) if each.default is inspect.Parameter.empty}
    given = {key: value for key, value in own.items() if key in wanted}
    try:
        ask(playground, name, prompt="a", **given)
    except InputError as error:
        assert error.what and error.hint


# --- strangers -------------------------------------------------------------------------------------------

OFF = {"kind": "zero", "layer": 0, "head": 0}
HOSTILE = [
    ("attention", {}, "prompt"),
    ("attention", {"prompt": "abc", "head": 0}, "layer"),
    ("attention", {"prompt": "abc", "layer": 0, "head": 0, "bogus": 1}, "bogus"),
    ("attention", {"prompt": "", "layer": 0, "head": 0}, ""),
    ("attention", {"prompt": None, "layer": 0, "head": 0}, "prompt"),
    ("attention", {"prompt": ["abc"], "layer": 0, "head": 0}, "prompt"),
    ("attention", {"prompt": "a" * 41, "layer": 0, "head": 0}, "41 tokens"),
    ("attention", {"prompt": "a" * 300_000, "layer": 0, "head": 0}, "300000"),
    ("attention", {"prompt": "\ud800", "layer": 0, "head": 0}, ""),
    ("attention", {"prompt": "abc", "layer": 3, "head": 0}, "3"),
    ("attention", {"prompt": "abc", "layer": -1, "head": 0}, "-1"),
    ("attention", {"prompt": "abc", "layer": 0, "head": 4}, "4"),
    ("attention", {"prompt": "abc", "layer": 10**400, "head": 0}, "layer"),
    ("attention", {"prompt": "abc", "layer": True, "head": 0}, "layer"),
    ("attention", {"prompt": "abc", "layer": 0.5, "head": 0}, "layer"),
    ("attention", {"prompt": "abc", "layer": math.nan, "head": 0}, "layer"),
    ("attention", {"prompt": "abc", "layer": {"a": 1}, "head": 0}, "layer"),
    ("attention", {"prompt": "abc", "layer": 0, "head": 0, "measure": "nope"}, "nope"),
    ("attention", {"prompt": "abc", "layer": 0, "head": 0, "queries": [3]}, "3"),
    ("attention", {"prompt": "abc", "layer": 0, "head": 0, "queries": "012"}, "queries"),
    ("attention", {"prompt": "abc", "layer": 0, "head": 0, "queries": [0] * (MOST_ITEMS + 1)}, "queries"),
    ("attention", {"prompt": "abc", "layer": 0, "head": 0, "model": "/etc/passwd"}, "/etc/passwd"),
    ("attention", {"prompt": "abc", "layer": 0, "head": 0, "model": "x" * (MOST_TEXT + 1)}, str(MOST_TEXT + 1)),
    ("attention", {"prompt": "abc", "layer": 0, "head": 0, "edits": ["zero"]}, "edits"),
    ("attention", {"prompt": "abc", "layer": 0, "head": 0, "edits": [{"kind": "zero"}]}, "layer"),
    ("attention", {"prompt": "abc", "layer": 0, "head": 0, "edits": [OFF] * 65}, "65"),
    ("attention", {"prompt": "abc", "layer": 0, "head": 0, "edits": [OFF | {"factor": 1e9}]}, ""),
    ("attention_links", {"prompt": "abc", "layer": 0, "head": 0, "most": 0}, "most"),
    ("attention_links", {"prompt": "abc", "layer": 0, "head": 0, "most": 1001}, "most"),
    ("attention_cell", {"prompt": "abc", "layer": 0, "head": 0, "query": 1, "key": 2}, "query 1"),
    ("find_heads", {"prompt": "abc", "queries": [], "keys": [0]}, "queries"),
    ("find_heads", {"prompt": "abc", "queries": [0], "keys": [1]}, ""),
    ("distribution", {"prompt": "abc", "steps": [{"warp": "nope"}]}, "nope"),
    ("distribution", {"prompt": "abc", "steps": [{"warp": "top_p", "values": {"p": 5}}]}, ""),
    ("distribution", {"prompt": "abc", "steps": [{"warp": "top_p", "values": {"p": "x"}}]}, "p"),
    ("distribution", {"prompt": "abc", "steps": {"warp": "top_p"}}, "steps"),
    ("distribution", {"prompt": "abc", "steps": [{}] * 100}, ""),
    ("draws", {"prompt": "abc", "count": 10_001}, "count"),
    ("draws", {"prompt": "abc", "seed": -1}, "seed"),
    ("generate", {"prompt": "abc", "presets": ["nope"]}, "nope"),
    ("generate", {"prompt": "abc", "presets": ["greedy"] * 9}, "9"),
    ("generate", {"prompt": "abc", "new_tokens": 513}, "new_tokens"),
    ("generate", {"prompt": "abc", "stop": ["x" * 41]}, ""),
    ("generate", {"prompt": "abc", "strategies": [{"method": "nope"}]}, "nope"),
    ("generate", {"prompt": "abc", "strategies": [{"options": {"beams": 5}}]}, "beams"),
    ("many_samples", {"prompt": "abc", "count": 33}, "count"),
    ("speculative", {"prompt": "abc", "draft": "model", "draft_model": "tinygpt"}, "tinygpt"),
    ("speculative", {"prompt": "abc", "size": 4}, "size"),
    ("cache_size", {"length": 0}, "length"),
    ("follow_tokens", {"prompt": "abc", "tokens": []}, "0"),
    ("follow_tokens", {"prompt": "abc", "tokens": ["ab"]}, "a"),
    ("follow_tokens", {"prompt": "abc", "tokens": ["id:256"]}, "256"),
    ("follow_tokens", {"prompt": "abc", "tokens": ["\ud800"]}, ""),
    ("follow_tokens", {"prompt": "abc", "tokens": ["a"] * 17}, "17"),
    ("lens", {"prompt": "abc", "lens": "tuned"}, ""),
    ("lens_at", {"prompt": "abc", "position": 3}, "3"),
    ("logit_parts", {"prompt": "abc", "token": "a", "distractor": "a"}, ""),
    ("part_tokens", {"prompt": "abc", "layer": 3}, "3"),
    ("part_tokens", {"prompt": "abc", "layer": 0, "head": 4}, "4"),
    ("norm", {"prompt": "abc", "layer": 3}, ""),
    ("norm", {"prompt": "abc", "site": "norm3"}, "norm3"),
    ("norm_swap", {"prompt": "abc", "where": "one", "layer": 9}, ""),
    ("neuron", {"prompt": "abc", "layer": 0, "neuron": 100}, "100"),
    ("neurons", {"prompt": "abc", "layer": 5}, "5"),
    ("composition", {"layer": 3, "head": 0}, "3"),
    ("sweep", {"prompt": "abc", "watch": "difference", "token": "a", "distractor": "a"}, ""),
    ("sweep", {"prompt": "a", "watch": "loss"}, ""),
    ("compare_runs", {"prompt": "abc"}, ""),
    ("compare_runs", {"prompt": "abc", "other_prompt": "abd", "other_model": "tinygpt"}, ""),
    ("compare_runs", {"prompt": "abc", "other_model": "nope"}, "nope"),
    ("patch", {"prompt": "abc", "other_prompt": "ab"}, ""),
    ("patch", {"prompt": "abc", "other_prompt": ""}, "other_prompt"),
    ("checks", {"prompt": "abc", "names": ["nope"]}, "nope"),
]


@pytest.mark.parametrize(("name", "given", "told"), HOSTILE)
def test_what_cannot_be_is_refused_in_a_sentence(playground, name, given, told):
    with pytest.raises(PlaygroundError) as caught:
        call(playground, NAMED[name], given)
    assert caught.value.what.endswith(".") and (told in caught.value.got or told in str(caught.value))
    assert len(str(caught.value)) < 700


def test_whole_numbers_may_be_written_as_floats(playground):
    assert ask(playground, "attention", prompt="abc", layer=1.0, head=0.0)["layer"] == 1


def test_an_answer_has_a_bound(playground, monkeypatch):
    monkeypatch.setattr("viz.api.registry.MOST_NUMBERS", 50)
    assert MOST_NUMBERS > 1024**2
    ask(playground, "attention", prompt="abc", layer=0, head=0)
    with pytest.raises(InputError, match="too large"):
        ask(playground, "attention", prompt="abcdefgh", layer=0, head=0)


def test_long_work_waits_for_its_turn_and_gives_it_back(playground):
    ask(playground, "sweep", prompt="abc")
    assert playground.desk.working == [] == playground.desk.line
    with pytest.raises(InputError):
        ask(playground, "sweep", prompt="")
    assert playground.desk.working == [] and not playground.computing.locked()
    tickets = [playground.desk.join("someone") for _ in range(playground.desk.bounds.each)]
    with pytest.raises(PlaygroundError, match="still busy"):
        call(playground, NAMED["sweep"], {"prompt": "abd"}, "someone")
    ask(playground, "attention", prompt="abd", layer=0, head=0)  # short work does not wait
    for ticket in tickets:
        ticket.leave()


def test_work_that_takes_too_long_ends(playground, monkeypatch):
    monkeypatch.setattr("viz.api.reading.MOST_SECONDS", 0.0)
    with pytest.raises(InputError, match="longer than this server allows"):
        ask(playground, "sweep", prompt="abcdef")
    assert not playground.computing.locked() and playground.desk.working == []
    texts = ask(playground, "generate", prompt="abc", presets=["greedy"], new_tokens=30)["texts"]
    assert texts[0]["ended"] == "time" and 1 <= texts[0]["measured"]["length"] < 30


def test_results_are_shared_with_the_page(playground):
    found = ask(playground, "sweep", prompt="abc", watch="kl")
    keys = list(playground.results._values)
    assert any(key[:3] == ("measure", "sweep", "sweep") for key in keys)
    again = ask(playground, "sweep", prompt="abc", watch="kl", most=3)
    assert again["effects"] == found["effects"]


def test_a_failure_nobody_foresaw_is_told_without_a_traceback(playground, monkeypatch, caplog):
    import gradio as gr

    def broken(playground):
        raise KeyError("secret")

    function = offered(playground, NAMED["models"])
    monkeypatch.setattr(Playground, "choices", broken)
    request = gr.Request(session_hash="one")
    with pytest.raises(gr.Error) as caught:
        function(request)
    assert "secret" not in str(caught.value) and len(caught.value.message) > 10
    assert "secret" in caplog.text
