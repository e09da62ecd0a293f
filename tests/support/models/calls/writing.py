"""Rows of loading, text, generation, sampling and prompts."""

import numpy as np
import torch

from model.generation.decoder import DecodingPlan, GeneratedToken, Strategy
from model.generation.generate import Tick
from model.generation.requests import Draft, Request
from model.gpt.edits import Edit
from model.loading.tokenizer_comparison import cut
from model.predictions.samples import Many
from model.prompting.choices import Asked
from model.prompting.trial import Variant
from model.sets.aligned import AlignedPair, prompt_set
from tests.support.models.calls.row import IDS, POLICY, SEED, STEPS, TEXT, Given, Row, Values, blank, rows

rows(
    "model",
    shares__wilson=Row(lambda c: {"share": 0.5, "n": 3}, {"share": "zero", "n": "zero"}),
    shares__paired=Row(
        lambda c: {"first": [True, False], "second": [True, True]}, {}, {"first": "answers", "second": "answers"}
    ),
    text__bpe_steps__replay=Row(lambda c: {"tokenizer": c.lm.tokenizer, "text": "abc"}, TEXT),
    api__load_model=Row(
        lambda c: {"model_id": "tinygpt", "offline": True, "stored": False, "dtype": "float32", "device": "cpu"},
        {},
        {"model_id": "model|folder"},
    ),
    api__LanguageModel__encode=Row(lambda c: {"text": "abc", "special": False}, TEXT, owner=lambda c: c.lm),
    api__LanguageModel__decode=Row(lambda c: {"ids": IDS}, {"ids": "empty"}, {"ids": "id|ids"}, owner=lambda c: c.lm),
    api__LanguageModel__rule=Row(
        lambda c: {"kind": "choice", "text": "a"}, {"text": "text"}, {"text": "rule"}, owner=lambda c: c.lm
    ),
    api__LanguageModel__trace=Row(
        lambda c: {"prompt": IDS}, {"prompt": "text"}, {"prompt": "prompt|id"}, owner=lambda c: c.lm
    ),
    api__LanguageModel__generate=Row(
        lambda c: {
            "prompt": IDS,
            "strategies": "greedy",
            "max_new_tokens": 2,
            "seed": 0,
            "shared": True,
            "stop": ("x",),
            "edits": (Edit("zero", 0, 0),),
            "together": False,
        },
        SEED | {"prompt": "text", "stop": "text, empty, empty text", "edits": "empty"},
        {"prompt": "prompt|id", "strategies": "strateg"},
        owner=lambda c: c.lm,
    ),
    loading__tokenizer_comparison__built_in=Row(lambda c: {"name": "tinygpt"}),
    loading__tokenizer_comparison__counted=Row(lambda c: {"tokens": cut("bytes", None, "abc")}),
    loading__tokenizer_comparison__cut=Row(
        lambda c: {"name": "bytes", "tokenizer": c.lm.tokenizer, "text": "abc"},
        {"name": "text, empty", "text": "text, empty"},
    ),
)
REQUEST = Request(256, STEPS, 2, 2)
rows(
    "model.generation",
    cache_costs__cache_bytes=Row(
        lambda c: {"config": c.config, "batch": 1, "length": 5, "heads": 2}, {"length": "zero"}
    ),
    cache_costs__measure=Row(
        lambda c: {"model": c.model, "ids": IDS, "limit": 8, "budget": 1.0},
        {"budget": "half, zero", "limit": "huge"},
        slow=True,
    ),
    decoder__Strategy=Row(
        lambda c: {"steps": STEPS, "method": "sample", "options": (), "name": "", "memory": POLICY},
        {"name": "text, empty", "steps": "all", "method": "all", "options": "empty"},
    ),
    draft_costs__compare=Row(
        lambda c: {"model": c.model, "ids": IDS, "draft": Draft(), "request": REQUEST},
        {},
        {"ids": "prompt|id"},
        slow=False,
    ),
    generate__generate=Row(
        lambda c: {
            "model": c.model,
            "ids": IDS,
            "strategies": [Strategy()],
            "plan": DecodingPlan(2),
            "size": 256,
            "text": c.lm.decode,
        },
        {},
        {"ids": "prompt|id", "strategies": "strateg|rows", "size": "id|size"},
        slow=False,
    ),
    next_token__context_at=Row(lambda c: {"run": c.run, "position": 2}, {"position": "zero, negative"}),
    next_token__logits_after=Row(
        lambda c: {"run": c.run, "position": 2, "vocab_size": 9}, {"position": "zero, negative", "vocab_size": "huge"}
    ),
    parting__parting=Row(lambda c: {"first": [], "second": []}, {"first": "empty", "second": "empty"}),
    search__beam_tree__beam_tree=Row(
        lambda c: {
            "model": c.model,
            "ids": IDS,
            "strategy": Strategy(method="beam"),
            "plan": DecodingPlan(2),
            "size": 256,
            "text": c.lm.decode,
        },
        {},
        {"ids": "prompt|id", "size": "id|size"},
        slow=False,
    ),
    search__exhaustive__most_probable=Row(
        lambda c: {"model": c.model, "ids": IDS, "n": 2, "size": 256, "most_runs": 4, "steps": STEPS},
        {"n": "zero, huge", "most_runs": "zero", "steps": "empty"},
        {"ids": "prompt|id", "size": "id|size"},
        slow=False,
    ),
    speculative__speculate=Row(
        lambda c: {"model": c.model, "ids": IDS, "draft": Draft(), "request": REQUEST},
        {},
        {"ids": "prompt|id"},
        slow=False,
    ),
    text_statistics__measure_text=Row(lambda c: {"tokens": [blank(GeneratedToken)]}, {"tokens": "empty"}, slow=True),
    text_statistics__written=Row(
        lambda c: {"ticks": [blank(Tick)], "count": 1}, {"ticks": "empty", "count": "zero"}, slow=True
    ),
)
rows(
    "model.sampling",
    draw_statistics__band=Row(
        lambda c: {"n": 3, "shares": np.array([0.5, 0.5]), "level": 0.9},
        {"n": "zero", "level": "half", "shares": "longer"},
    ),
    draw_statistics__bar_of=Row(lambda c: {"probabilities": np.array([0.5, 0.5])}, {"probabilities": "longer"}),
    draw_statistics__fit=Row(lambda c: {"counts": np.array([5.0, 5.0]), "shares": np.array([0.5, 0.5])}),
    draw_statistics__uniforms=Row(
        lambda c: {"seed": 0, "n": 3, "first": 0, "row": 0}, SEED | {"n": "zero", "first": "zero", "row": "zero"}
    ),
    effects__effects=Row(
        lambda c: {"logits": torch.tensor([1.0, 2.0]), "step": STEPS[0], "most": 2},
        {"logits": "longer", "most": "huge"},
        {"step": "step"},
    ),
    outcomes__counts=Row(
        lambda c: {"logits": torch.tensor([1.0, 2.0]), "steps": STEPS, "seed": 0, "n": 3},
        SEED | {"logits": "longer", "steps": "empty", "n": "zero"},
        {"steps": "step"},
    ),
    outcomes__expected=Row(
        lambda c: {"logits": torch.tensor([1.0, 2.0]), "steps": STEPS},
        {"logits": "longer", "steps": "empty"},
        {"steps": "step"},
    ),
    outcomes__outcomes=Row(lambda c: {"steps": STEPS}, {"steps": "empty"}, {"steps": "step"}),
    phrases__banned=Row(lambda c: {"tokenizer": c.lm.tokenizer, "words": "abc"}, {"words": "text, empty"}),
    phrases__breakers=Row(lambda c: {"tokenizer": c.lm.tokenizer, "words": "abc"}, {"words": "text, empty"}),
    pipeline__second=Row(lambda c: {"seed": 0, "step": 0, "row": 0}, SEED | {"step": "zero", "row": "zero"}),
    pipeline__draw=Row(
        lambda c: {"probabilities": np.array([0.5, 0.5]), "u": 0.5},
        {"probabilities": "longer", "u": "zero"},
        {"u": "random number"},
    ),
    pipeline__softmax=Row(lambda c: {"logits": np.array([0.5, 0.5])}, {"logits": "longer, deeper"}),
    pipeline__uniform=Row(lambda c: {"seed": 0, "step": 0, "row": 0}, SEED | {"step": "zero", "row": "zero"}),
    temperatures__heat=Row(
        lambda c: {"logits": torch.tensor([1.0, 2.0]), "steps": STEPS, "values": [1.0], "top": 2},
        {"logits": "longer", "values": "zero", "top": "huge", "steps": "empty"},
        {"steps": "step"},
    ),
    temperatures__temperatures=Row(lambda c: {"logarithmic": True}),
    orders__compare_orders=Row(
        lambda c: {"logits": torch.tensor([1.0, 2.0]), "steps": STEPS},
        {"logits": "longer", "steps": "empty"},
        {"steps": "step"},
    ),
    orders__result_of=Row(
        lambda c: {"logits": torch.tensor([1.0, 2.0]), "steps": STEPS, "present": STEPS},
        {"logits": "longer", "steps": "empty", "present": "empty"},
        {"steps": "step", "present": "step"},
    ),
    settings__tools__recognize=Row(lambda c: {"text": "--temp 0.5"}, {}, {"text": "settings|tool"}),
    settings__tools__read_settings=Row(
        lambda c: {"text": "--temp 0.5", "tool": "llama_cpp"},
        {"tool": "empty", "text": "text"},
        {"text": "settings|tool"},
    ),
    settings__tools__write_settings=Row(lambda c: {"steps": STEPS, "tool": "llama_cpp"}, {"steps": "empty"}),
    warps__final=Row(
        lambda c: {"logits": torch.tensor([1.0, 2.0]), "steps": STEPS},
        {"logits": "longer", "steps": "empty"},
        {"steps": "step"},
    ),
    warps__shape=Row(
        lambda c: {"logits": torch.tensor([1.0, 2.0]), "steps": STEPS},
        {"logits": "longer", "steps": "empty"},
        {"steps": "step"},
    ),
)
rows(
    "model.prompting",
    choices__choice_log_probs=Row(
        lambda c: {"model": c.model, "asked": [Asked((97, 98), ((99,),))], "size": 256}, {}, {"size": "id|size"}
    ),
    prompts__Shots=Row(lambda c: {"count": 2, "order": 0, "shuffled": False}, {"count": "zero", "order": "zero"}),
    question_sets__question_set=Row(lambda c: {"key": None}, {}, {"key": "question set|key"}),
    trial__Variant=Row(
        lambda c: {"strategy": "zero", "score": "sum", "samples": 2, "temperature": 0.7, "system": "", "seed": 0},
        SEED | {"system": "text, empty", "temperature": "half"},
    ),
    trial__trial=Row(lambda c: {"lm": c.lm, "asked": None, "variants": [Variant("zero")], "most": 2}, slow=True),
    trial__curve=Row(
        lambda c: {"lm": c.lm, "asked": None, "counts": [1], "orders": 1, "score": "sum", "most": 2}, slow=True
    ),
)
rows(
    "model.predictions",
    samples__Many=Row(lambda c: {"count": 2, "max_new_tokens": 2, "seed": 0, "stop": ("x",)}, SEED | {"stop": "empty"}),
    samples__take_samples=Row(
        lambda c: {"lm": c.lm, "prompt": IDS, "strategies": [Strategy()], "many": Many(1, 2)},
        {"prompt": "text"},
        {"prompt": "prompt|id"},
        slow=False,
    ),
)
EXAMPLES: Values = {"values": np.array([[0.5, 1.0], [0.25, -1.0], [2.0, 0.5]]), "seed": 0, "draws": 200}
OF_EXAMPLES = SEED | {"values": "longer"}
SET_OF = "clean: {at1} x\ncorrupt: {at2} x\ntarget: 1\ndistractor: 2\nat: a, b, c"


def _aligned(c: Given) -> tuple[AlignedPair, ...]:
    return prompt_set(c.lm, SET_OF, 2, calibration=0).pairs


rows(
    "model.sets",
    aligned__prompt_set=Row(
        lambda c: {"lm": c.lm, "source": SET_OF, "n": 3, "calibration": 1, "seed": 0, "first_token": True},
        SEED | {"calibration": "zero"},
        {"source": "set|slot|template|pair|column"},
    ),
    effects__set_effects=Row(
        lambda c: {
            "lm": c.lm,
            "pairs": _aligned(c),
            "effect": "mean",
            "calibration": _aligned(c),
            "measured": "difference",
            "seed": 0,
        },
        SEED,
    ),
    statistics__bootstrap=Row(lambda c: EXAMPLES | {"level": 0.9}, OF_EXAMPLES),
    statistics__random_column=Row(
        lambda c: {"values": EXAMPLES["values"], "column": 1, "seed": 0}, OF_EXAMPLES | {"column": "zero"}
    ),
    statistics__sign_flips=Row(lambda c: dict(EXAMPLES), OF_EXAMPLES),
    statistics__statistics=Row(lambda c: EXAMPLES | {"level": 0.9}, OF_EXAMPLES),
)
