"""A tiny Llama of transformers with more rows than its vocabulary has tokens, which begins every text with BOS."""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

ROWS, END = 400, 1
PROMPT = "The cat sat"
_TEXTS = ["The cat sat on the mat because it was tired. 2024 don't I'll\n\n  def f(x):\n    return x\n café 你好"] * 8


def save_begun(folder: Path, *, ends: object = END, tokenizer_end: str | None = "<|end|>"):
    """Write the folder and return the model of transformers; `ends` is eos_token_id of config and generation_config."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(vocab_size=ROWS, num_key_value_heads=2, max_position_embeddings=64, **sizes)
    config.eos_token_id, config.bos_token_id = ends, 0
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        hf = LlamaForCausalLM(config).eval()
        with torch.no_grad():
            for parameter in hf.parameters():
                if parameter.ndim > 1:
                    parameter.normal_(std=0.9 / parameter.shape[-1] ** 0.5)
    hf.generation_config.eos_token_id, hf.generation_config.pad_token_id = ends, 0
    hf.save_pretrained(folder)
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet, special = pre_tokenizers.ByteLevel.alphabet(), ["<|begin|>", "<|end|>"]
    made.train_from_iterator(
        _TEXTS, trainers.BpeTrainer(vocab_size=332, special_tokens=special, initial_alphabet=alphabet)
    )
    made.post_processor = processors.TemplateProcessing("<|begin|> $A", special_tokens=[("<|begin|>", 0)])
    made.save(str(folder / "tokenizer.json"))
    named = {"bos_token": "<|begin|>"} | ({"eos_token": tokenizer_end} if tokenizer_end else {})
    (folder / "tokenizer_config.json").write_text(json.dumps(named), encoding="utf-8")
    return hf
