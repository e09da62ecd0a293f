"""A model of single bytes that was taught to chat, for tests."""

import dataclasses

from model.api import LanguageModel
from model.text.tokenizer import from_tiktoken
from tests.support.models.helpers import byte_tokenizer, serving, tiny_model
from viz.work.playground import Options, Playground

START, END = 256, 257
OWN = "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nBe kind<|im_end|>\n{% endif %}"
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def talking_model(folder, n_ctx: int = 300) -> LanguageModel:
    """A shaken model of 3 layers x 4 heads over single bytes and two special tokens, with a chat template."""
    byte_tokenizer(folder)
    found = from_tiktoken(folder / "bytes256.tiktoken", special={"<|im_start|>": START, "<|im_end|>": END})
    tokenizer = dataclasses.replace(found, chat_template=OWN + CHATML, eos_id=END)
    return LanguageModel("tiny", "Tiny", tiny_model({"vocab_size": 258, "n_ctx": n_ctx}), tokenizer)


def after_turn(lm: LanguageModel, messages: list[dict[str, str]], own: str) -> list[int]:
    """The tokens of a conversation that this model has answered with a text."""
    return [*lm.chat(messages).ids.tolist(), *lm.encode(own).ids.tolist(), END, *lm.encode("\n").ids.tolist()]


def talking_server(lm: LanguageModel) -> Playground:
    """A server with that model only, which takes a conversation."""
    return serving(lm, Options(model="tiny", max_tokens=200))
