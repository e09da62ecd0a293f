"""Greedy decoding, beam search and chat templates write what those of transformers write."""

import pytest
import torch

from model.errors import DownloadError
from model.generation.generate import generate
from model.generation.strategies import STRATEGIES, DecodingPlan, Strategy
from model.loading.checkpoint import build, load_folder, load_gguf
from model.loading.sources import smollm2_path
from model.text.chat import chat_ids, chat_turns, ending, render
from model.text.tokenizer import from_gguf
from tests.parity.common import V, hf_greedy, ids, save
from tests.parity.families import build_hf
from tests.support.models.helpers import written
from tests.support.models.rounding import logits_within

FAMILIES = ("gpt2", "llama GQA")
PROMPT = ids(seed=3, length=8)[:1]


@pytest.fixture(scope="module", params=FAMILIES)
def pair(request, tmp_path_factory):
    hf = build_hf(request.param, True)
    config, state = load_folder(save(hf, tmp_path_factory.mktemp("model")))
    return build(config, state), hf


def test_greedy_is_transformers_greedy(pair):
    ours, hf = pair
    wanted = hf_greedy(hf, PROMPT, 30)[0, PROMPT.shape[1] :].tolist()
    assert written(generate(ours, PROMPT[0].tolist(), [STRATEGIES["greedy"]], DecodingPlan(30), V)) == (
        wanted,
        "length",
    )


def hf_beams(hf, beams: int, penalty: float, steps: int, ending: list[int] | None) -> list[tuple[list[int], float]]:
    """The best texts and their scores."""
    with torch.inference_mode():
        found = hf.generate(
            PROMPT,
            attention_mask=torch.ones_like(PROMPT),
            do_sample=False,
            num_beams=beams,
            length_penalty=penalty,
            max_new_tokens=steps,
            eos_token_id=ending,
            pad_token_id=V - 1,
            num_return_sequences=min(beams, 3),
            early_stopping=False,
            return_dict_in_generate=True,
            output_scores=True,
        )
    texts = [row[PROMPT.shape[1] :].tolist() for row in found.sequences]
    return list(zip(texts, found.sequences_scores.tolist(), strict=True))


@torch.inference_mode()
def likely_second(hf) -> list[int]:
    """Tokens that come second somewhere on the greedy path: as ends of a text they end some beams and not others."""
    path = hf_greedy(hf, PROMPT, 8)
    return list(dict.fromkeys(hf(path).logits[0, PROMPT.shape[1] :].topk(2).indices[:, 1].tolist()))


@pytest.mark.long
@pytest.mark.parametrize("beams", [2, 4, 7])
@pytest.mark.parametrize("penalty", [1.0, 0.0, -0.5])
@pytest.mark.parametrize("endings", [0, 1, 4])
def test_beam_search_is_transformers_beam_search(pair, beams, penalty, endings):
    ours, hf = pair
    ending = likely_second(hf)[:endings] or None
    strategy = Strategy((), "beam", (("beams", beams), ("length_penalty", penalty), ("texts", 3)))
    ticks = list(generate(ours, PROMPT[0].tolist(), [strategy], DecodingPlan(10, ending=frozenset(ending or ())), V))
    others = ticks[-1].changes[0].others
    wanted = hf_beams(hf, beams, penalty, 10, ending)
    assert len(others) == len(wanted)
    for (text, score), (expected, expected_score) in zip(others, wanted, strict=True):
        assert list(text) == expected[: len(text)] and set(expected[len(text) :]) <= {V - 1}  # padded to the longest
        ids = torch.tensor([[*PROMPT[0].tolist(), *text]])
        off = 2 * float(logits_within(ours, ids)[0, PROMPT.shape[1] - 1 :].max())  # of a log-probability
        assert abs(score - expected_score) <= off * len(text) / len(text) ** penalty
    assert written(ticks)[0] == list(others[0][0])


LLAMA3 = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + "
    "message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
    "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
BLOCKS = """{%- set ns = namespace(found=false) -%}
{% for message in messages %}
    {%- if message.role == 'user' %}
        {%- set ns.found = true %}
[INST] {{ message.content.strip() | tojson }} [/INST]
    {%- elif loop.last %}
        {%- break %}
    {% else %}
{% generation %}{{ message['content'] + eos_token }}{% endgeneration %}

    {% endif %}
{% endfor %}
{{ ns.found }} {{ messages | length }} {{ tools }} {{ dict(a=1) }}"""
TALK = [
    {"role": "system", "content": "Be <b>brief</b>. "},
    {"role": "user", "content": 'Hé "there"\n'},
    {"role": "assistant", "content": "Yes?"},
    {"role": "user", "content": " {{ 7 * 7 }} 好"},
]


def rendered(talk: list[dict], template: str, **values: object) -> str:
    """What transformers writes of a talk; the import takes seconds, so only where it is used."""
    from transformers.utils.chat_template_utils import render_jinja_template

    (text,), _ = render_jinja_template([talk], chat_template=template, **values)
    return text


@pytest.mark.parametrize("talk", [TALK, TALK[1:2], TALK[:3]], ids=["four", "one", "three"])
@pytest.mark.parametrize("template", [LLAMA3, BLOCKS], ids=["llama3", "blocks"])
def test_templates_write_what_transformers_writes(template, talk):
    values = {"add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"}
    wanted = rendered(talk, template, **values)
    assert render(template, {"messages": talk, "tools": None, "documents": None, **values}) == wanted


@pytest.mark.long
def test_smollm2_is_asked_as_transformers_asks_it():
    try:
        path = smollm2_path()
    except DownloadError as error:
        pytest.skip(f"the weights cannot be fetched: {error}")
    tokenizer = from_gguf(load_gguf(path)[2])
    for talk in (TALK, TALK[1:2], TALK[:3]):
        wanted = rendered(talk, tokenizer.chat_template, add_generation_prompt=True)
        ids, turns = chat_turns(tokenizer, talk)
        assert ids == chat_ids(tokenizer, talk) == tokenizer.encode_ids(wanted, special=True)
        for turn, message in enumerate(talk):
            own = [number for number, each in zip(ids, turns, strict=True) if each == turn]
            assert tokenizer.decode(own) == message["content"]
        closed = rendered(talk, tokenizer.chat_template, add_generation_prompt=False)
        assert chat_ids(tokenizer, talk, answer=False) == tokenizer.encode_ids(closed, special=True)
    assert ending(tokenizer) == {tokenizer.special["<|im_end|>"], tokenizer.special["<|endoftext|>"]}
