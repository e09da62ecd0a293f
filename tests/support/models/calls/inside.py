"""Rows of what reads a run: its tensors, attention, activations and predictions."""

import numpy as np

from model.attention.approximations.ways import Way
from model.attention.effects import Target
from model.checks.result import subject_of
from model.gpt.edits import Edit
from model.predictions.attribution import components
from model.predictions.predictions import predict
from model.probes.examples import typed
from model.token_tables.head_tables import qk_table
from model.token_tables.singular import head_directions
from tests.support.models.calls.row import IDS, SEED, Row, rows

rows(
    "model.activations",
    neurons__layer_activations=Row(lambda c: {"run": c.run, "layer": 0}),
    neurons__promoted=Row(
        lambda c: {"model": c.model, "layer": 0, "neurons": [1], "most": 2, "vocab": 9},
        {"most": "huge", "vocab": "huge"},
        {"neurons": "neuron"},
    ),
    norm_swap__places_of=Row(lambda c: {"config": c.config, "where": "all"}, {}, {"where": "norm"}),
    norm_swap__swapped=Row(
        lambda c: {"run": c.run, "swap": "no_mean", "places": [(0, "norm1")]}, {}, {"swap": "change of a norm"}
    ),
    norm_walk__norm_input=Row(lambda c: {"run": c.run, "layer": 0, "site": "norm1"}, {}, {"site": "norm"}),
    norm_walk__walk=Row(lambda c: {"run": c.run, "layer": 0, "site": "norm1", "position": 1}, {}, {"site": "norm"}),
    principal_components__principal=Row(
        lambda c: {"run": c.run, "scaled": True, "first": True, "components": 2}, {"components": "huge"}
    ),
    principal_components__work=Row(lambda c: {"layers": 2, "T": 3, "D": 4}),
    residual_statistics__carriers=Row(
        lambda c: {"stream": c.stream, "rule": "x100", "sites": ["norm1"]}, {"sites": "empty"}
    ),
    residual_statistics__outliers=Row(
        lambda c: {"stream": c.stream, "rule": "x100", "sites": ["norm1"]}, {"sites": "empty"}
    ),
    residual_statistics__statistic=Row(lambda c: {"stream": c.stream, "name": "cosine"}),
    residual_statistics__survey=Row(lambda c: {"run": c.run}),
    site_statistics__block_numbers=Row(lambda c: {"trace": c.run, "layer": 0}),
    routing__routing=Row(lambda c: {"trace": c.run, "capacity_factor": 1.5}, {"capacity_factor": "half"}, slow=True),
)
rows(
    "model.attention",
    approximations__costs__operations=Row(lambda c: {"way": Way("linear"), "T": 3, "E": 4}),
    approximations__costs__softmax_operations=Row(lambda c: {"T": 3, "E": 4}),
    approximations__measure__approximate=Row(
        lambda c: {"qkv": c.run.qkv(0, 0), "way": Way("linear"), "layer": 0}, {"layer": "zero"}
    ),
    approximations__measure__sweep=Row(
        lambda c: {"qkv": c.run.qkv(0, 0), "layer": 0, "seeds": 1, "curves": ["linear"]},
        {"layer": "zero", "curves": "empty"},
        slow=True,
    ),
    approximations__ways__Way=Row(
        lambda c: {"method": "performer", "size": 4, "seed": 0, "orthogonal": False, "projection": "random"}, SEED
    ),
    cell__explain=Row(
        lambda c: {"trace": c.run, "layer": 0, "head": 0, "query": 2, "key": 1},
        {"key": "zero"},
        {"query": "position|query|later", "key": "position|key"},
    ),
    circuits__composition=Row(lambda c: {"model": c.model, "layer": 0, "head": 0}),
    circuits__copying=Row(lambda c: {"model": c.model}),
    circuits__matching=Row(lambda c: {"model": c.model}),
    circuits__random_scores=Row(lambda c: {"model": c.model, "circuit": "qk", "draws": 2, "seed": 0}, SEED),
    targets__metric=Row(lambda c: {"trace": c.run, "target": Target("logit", token=3), "reference": c.run}),
    effects__next_tokens=Row(
        lambda c: {"before": c.run, "after": c.run, "position": 2, "most": 3, "vocab": 9},
        {"position": "zero, negative", "most": "huge", "vocab": "huge"},
    ),
    effects__patch=Row(
        lambda c: {"clean": c.run, "corrupted": c.run, "target": Target("logit", token=3), "site": "resid_pre"},
        {},
        {"site": "patched"},
    ),
    effects__patch_heads=Row(
        lambda c: {"clean": c.run, "corrupted": c.run, "target": Target("logit", token=3), "position": 2},
        {"position": "zero, negative"},
    ),
    effects__sweep=Row(
        lambda c: {"trace": c.run, "how": "zero", "target": Target("logit", token=3)}, {}, {"how": "kind of edit"}
    ),
    find_heads__rank_heads=Row(
        lambda c: {"trace": c.run, "queries": [2], "keys": [1], "measure": "weights"},
        {},
        {"queries": "position|query token", "keys": "position|key token"},
    ),
    measures__measure=Row(
        lambda c: {"trace": c.run, "name": "weights", "layer": 0, "head": 0}, {}, {"name": "measure"}
    ),
    span_heads__span_heads=Row(lambda c: {"trace": c.run, "unit": "words"}, {}, {"unit": "unit"}),
    spans__spans_of=Row(lambda c: {"raw": [b"a", b" b"], "unit": "words"}, {"raw": "empty"}, {"unit": "unit"}),
    spans__spans_of_strings=Row(
        lambda c: {"tokens": ["a", " b"], "unit": "words"}, {"tokens": "empty"}, {"unit": "unit"}
    ),
    spans__summed=Row(
        lambda c: {"weights": np.eye(2), "query_spans": [(0, 2)], "key_spans": [(0, 1), (1, 2)]},
        {"weights": "deeper, nan"},
        {"weights": "spans", "query_spans": "spans", "key_spans": "spans"},
    ),
    state_space__state_space=Row(
        lambda c: {"trace": c.run, "layer": 0, "source": 0}, {"layer": "all", "source": "all"}, slow=True
    ),
    state_space__decay_tokens=Row(lambda c: {"found": None}),
    surveys__labels=Row(lambda c: {"random": None, "least": 0.25}, {"least": "zero"}, slow=True),
    surveys__random_survey=Row(
        lambda c: {"model": c.model, "pool": 9, "sequences": 2, "length": 16, "seed": 0},
        SEED | {"pool": "huge"},
        {"length": "sequences|length"},
    ),
    surveys__sentence_survey=Row(lambda c: {"model": c.model, "encode": c.lm.encode}, slow=True),
    find_heads__punctuation=Row(lambda c: {"pieces": ["a", "."]}, {"pieces": "list, empty"}),
    turns__sentences=Row(lambda c: {"tokens": c.lm.encode("a b. c"), "most": 3}),
    turns__by_turn=Row(
        lambda c: {"values": np.ones((2, 3)), "turns": np.array([0, 1, -1]), "count": 2},
        {"values": "longer, deeper", "count": "huge"},
        {"count": "turns"},
    ),
)
rows(
    "model.predictions",
    floors__parts_of=Row(lambda c: {"config": c.config}),
    floors__ladder_losses=Row(lambda c: {"model": c.model, "ids": IDS, "how": "zero"}),
    floors__ladder_texts=Row(
        lambda c: {"model": c.model, "text": IDS, "prompt": IDS, "how": "mean", "new": 2, "vocab": 9}
    ),
    attribution__attribute=Row(
        lambda c: {"outputs": components(c.run), "model": c.model, "token": 3, "distractor": 4},
        {"token": "zero", "distractor": "zero"},
        {"distractor": "token"},
    ),
    attribution__by_source=Row(
        lambda c: {"run": c.run, "layer": 0, "head": 0, "position": 2, "u": np.ones(c.config.d_model)},
        {"layer": "zero"},
    ),
    attribution__components=Row(lambda c: {"run": c.run, "position": 2}, {"position": "zero, negative"}),
    attribution__promoted=Row(
        lambda c: {"outputs": components(c.run), "model": c.model, "layer": 0, "head": 0, "top": 2, "vocab": 9},
        {"top": "huge", "vocab": "huge"},
    ),
    gradients__gradients=Row(
        lambda c: {"run": c.run, "position": 2, "token": 3, "distractor": 4, "most": 4},
        {"position": "zero, negative", "token": "zero", "distractor": "zero"},
        {"distractor": "token"},
        slow=False,
    ),
    next_token__next_token=Row(
        lambda c: {"logits": np.array([1.0, 2.0]), "temperatures": [0.0, 1.0], "u": 0.5, "top": 2},
        {"logits": "longer", "u": "zero", "top": "huge"},
        {"u": "random number"},
    ),
    masked__masked_logits=Row(
        lambda c: {"run": c.two_way_run, "position": 1, "mask_id": 4},
        {"mask_id": "zero", "position": "negative"},
        {"mask_id": "token|mask"},
    ),
    masked__predict_masked=Row(
        lambda c: {"run": c.two_way_run, "mask_id": 4, "positions": [1], "top": 2},
        {"mask_id": "zero", "positions": "empty", "top": "huge"},
        {"mask_id": "token|mask", "positions": "position"},
    ),
    predictions__follow=Row(lambda c: {"run": c.run, "token": 3}, {"token": "zero"}),
    predictions__follow_all=Row(
        lambda c: {"run": c.run, "tokens": [3], "positions": slice(None)}, {"tokens": "empty"}, {"tokens": "token"}
    ),
    predictions__predict=Row(lambda c: {"run": c.run, "top": 2}, {"top": "huge"}),
    predictions__summarize=Row(lambda c: {"predictions": predict(c.run), "tokens": c.run.tokens}),
    tuned_lens__load_lens=Row(lambda c: {"model_id": "tiny", "config": c.config}, {"model_id": "text, empty"}),
)
RUN = {"owner": lambda c: c.run}
BOTH = Row(lambda c: {"layer": 0, "head": 0}, {"layer": "zero", "head": "zero"}, **RUN)
LAYER = Row(lambda c: {"layer": 0}, {"layer": "zero"}, **RUN)
ONES = np.ones(48, np.float32)
PROMPTS, TEXTS = [("good", "bad")], {"path": "text, empty text"}
TABLE = {"layer": 0, "head": 0, "distance": 1, "vocab": 9}
rows(
    "model.token_tables",
    head_tables__ov_table=Row(lambda c: {"model": c.model, "layer": 0, "head": 0, "vocab": 9}, {"vocab": "huge"}),
    head_tables__qk_table=Row(lambda c: {"model": c.model, **TABLE}, {"distance": "zero", "vocab": "huge"}),
    token_table__table_row=Row(lambda c: {"table": qk_table(c.model, 0, 0), "token": 3}, {"token": "zero"}),
    token_table__ends_of=Row(lambda c: {"values": ONES, "most": 3}, {"values": "longer", "most": "huge"}),
    token_table__extremes=Row(lambda c: {"table": qk_table(c.model, 0, 0)}),
    random_heads__random_rows=Row(
        lambda c: {"model": c.model, "table": qk_table(c.model, 0, 0), "token": 3, "draws": 2, "seed": 0},
        SEED | {"token": "zero"},
    ),
    random_heads__head_scores=Row(
        lambda c: {"model": c.model, "circuit": "qk", "distance": 1, "vocab": 9, "sample": 4, "draws": 1, "seed": 0},
        SEED | {"distance": "zero", "vocab": "huge", "sample": "huge"},
    ),
    singular__head_directions=Row(
        lambda c: {"model": c.model, "layer": 0, "head": 0, "circuit": "qk", "distance": 1}, {"distance": "zero"}
    ),
    singular__random_singular_values=Row(
        lambda c: {"model": c.model, "layer": 0, "head": 0, "circuit": "ov", "draws": 2, "seed": 0}, SEED
    ),
    singular__direction_tokens=Row(
        lambda c: {
            "model": c.model,
            "layer": 0,
            "directions": head_directions(c.model, 0, 0, "qk"),
            "most": 2,
            "vocab": 9,
        },
        {"most": "huge", "vocab": "huge"},
    ),
    neighbors__token_vectors=Row(lambda c: {"model": c.model, "side": "embedding", "vocab": 9}, {"vocab": "huge"}),
    neighbors__nearest_tokens=Row(
        lambda c: {"model": c.model, "token": 3, "side": "embedding", "most": 2, "vocab": 9},
        {"token": "zero", "most": "huge", "vocab": "huge"},
    ),
    vocabulary_map__vocabulary_map=Row(
        lambda c: {"model": c.model, "ids": [1, 2, 3], "side": "embedding", "method": "pca", "also": [4], "seed": 0},
        SEED | {"also": "empty"},
        {"ids": "token", "also": "token"},
    ),
)
rows(
    "model.steering",
    vectors__steering_edit=Row(
        lambda c: {"vector": ONES, "layer": 0, "factor": 1.0, "site": "resid_mid"},
        {"vector": "longer", "layer": "zero", "factor": "negative, zero, half"},
    ),
    vectors__stream_at=Row(lambda c: {"run": c.run, "layer": 0, "site": "resid_mid"}),
    vectors__pair_vectors=Row(lambda c: {"lm": c.lm, "pairs": PROMPTS, "site": "resid_mid", "read": "mean"}),
    vectors__run_difference=Row(
        lambda c: {"run": c.run, "other": c.run, "layer": 0, "position": 1, "other_position": 2},
        {"position": "zero, negative", "other_position": "zero, negative"},
        {"other_position": "position"},
    ),
    vectors__token_vector=Row(lambda c: {"lm": c.lm, "token": 3, "table": "embedding"}, {"token": "zero"}),
    vectors__neuron_vector=Row(lambda c: {"lm": c.lm, "layer": 0, "neuron": 3}, {"neuron": "zero"}),
    vectors__typed_vector=Row(lambda c: {"text": "1 2", "width": 2}, {}, {"text": "number|vector"}),
    vectors__checked_vector=Row(lambda c: {"vector": ONES, "width": 48}),
    vectors__random_directions=Row(
        lambda c: {"width": 4, "length": 1.0, "draws": 2, "seed": 0}, SEED | {"length": "half, huge"}
    ),
    vectors__scaled_vectors=Row(
        lambda c: {"run": c.run, "vectors": np.ones((3, 48), np.float32), "share": 0.5, "site": "resid_mid"},
        {"share": "zero, half"},
        {"vectors": "vector"},
    ),
    vectors__unit_vector=Row(lambda c: {"vector": ONES}, {"vector": "longer"}),
    effects__tokens_moved=Row(lambda c: {"model": c.model, "vector": ONES, "top": 3, "vocab": 9}),
    effects__projections=Row(
        lambda c: {"run": c.run, "vectors": np.ones((3, 48), np.float32), "site": "resid_pre"},
        {},
        {"vectors": "vector"},
    ),
    placing__placing_edit=Row(
        lambda c: {"vector": ONES, "row": 1, "position": 0}, {"vector": "longer", "position": "zero"}
    ),
    placing__placing=Row(
        lambda c: {"run": c.run, "vector": ONES, "row": 1, "position": 0, "token": 3, "at": 2, "draws": 1, "seed": 0},
        SEED | {"position": "zero", "token": "zero", "at": "zero, negative"},
        {"at": "position"},
    ),
    placing__reachable=Row(lambda c: {"run": c.run, "row": 1, "position": 0}, {"row": "zero", "position": "zero"}),
    effects__steering_sweep=Row(
        lambda c: {
            "run": c.run,
            "vectors": np.ones((3, 48), np.float32),
            "layers": [1],
            "factors": [1.0],
            "tokens": [3],
            "position": 2,
            "draws": 1,
            "seed": 0,
        },
        SEED | {"position": "zero, negative"},
        {"vectors": "vector"},
    ),
    effects__frozen_patterns=Row(lambda c: {"run": c.run}),
    texts__steered_texts=Row(
        lambda c: {"lm": c.lm, "ids": IDS, "vector": ONES, "layer": 0, "factors": [0.5], "tokens": 2, "seed": 0},
        SEED | {"layer": "zero"},
        {"strategy": "strategy", "ids": "token|prompt"},
    ),
    files__save_vectors=Row(lambda c: {"path": "none/v.npz", "file": None}, TEXTS, slow=True),
    files__load_vectors=Row(lambda c: {"path": "none.npz"}, TEXTS, slow=True),
)
FEATURES, LABELS, FOLD = np.eye(6), np.array([[0, 1, 0, 1, 0, 1]]), np.arange(6) % 3
LINES = "a: abc\nb: bcd\na: ab\nb: bd"
rows(
    "model.probes",
    logistic__fit_logistic=Row(
        lambda c: {"features": FEATURES, "labels": LABELS, "penalty": 1.0}, {"penalty": "half", "labels": "longer"}
    ),
    examples__labeled=Row(lambda c: {"lm": c.lm, "source": LINES, "seed": 0}, SEED, {"source": "labeled|label"}),
    examples__typed=Row(lambda c: {"lm": c.lm, "text": LINES, "seed": 0}, SEED, {"text": "label"}),
    probe__probe=Row(
        lambda c: {
            "lm": c.lm,
            "data": typed(c.lm, LINES),
            "read": "mean",
            "sites": ["resid_post"],
            "folds": 2,
            "draws": 1,
            "penalty": 1.0,
            "seed": 0,
        },
        SEED | {"penalty": "half, huge"},
    ),
    probe__held_out=Row(
        lambda c: {"features": FEATURES, "labels": LABELS, "fold": FOLD, "classes": 2, "penalty": 1.0},
        {"penalty": "half, huge", "labels": "longer"},
    ),
)
rows(
    "model.tracing.trace",
    Trace__qkv=BOTH,
    Trace__scores=BOTH,
    Trace__pattern=BOTH,
    Trace__z=BOTH,
    Trace__mlp_activations=LAYER,
    Trace__hidden=LAYER,
    Trace__middle=LAYER,
    Trace__mixing=Row(lambda c: {"layer": 0, "index": 0}, {"index": "zero"}, {"index": "head"}, **RUN),
    Trace__sites=Row(lambda c: {"layer": 0, "names": ["z"]}, {"names": "empty"}, {"names": "name|site"}, **RUN),
    Trace__edit=Row(lambda c: {}, **RUN),
    Trace__logits_at=Row(lambda c: {"position": 2}, {"position": "zero, negative"}, **RUN),
    Trace__logit_lens=Row(lambda c: {"top": 2, "positions": [1]}, {"top": "huge"}, {"positions": "position"}, **RUN),
    run=Row(
        lambda c: {"model": c.model, "tokens": c.run.tokens, "model_id": "x", "edits": [Edit("zero", 0, 0)]},
        {"model_id": "text, empty", "edits": "empty"},
    ),
)
rows(
    "model.claims",
    study__study=Row(lambda c: {"lm": c.lm, "keys": ("first_token",), "texts": 5}, {"keys": "empty"}, slow=True),
)
rows(
    "model.checks",
    registry__run_checks=Row(
        lambda c: {"subject": subject_of(c.lm, c.run), "keys": ["softmax"]},
        {"keys": "empty"},
        {"keys": "checks"},
        slow=True,
    ),
    result__subject_of=Row(lambda c: {"lm": c.lm, "run": c.run, "prompt": "abc"}, {"prompt": "text, empty"}),
)
