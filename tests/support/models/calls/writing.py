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
from tests.support.models.calls.row import IDS, POLICY, SEED, STEPS, TEXT, Row, blank, rows

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
