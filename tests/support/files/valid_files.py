"""Small whole files of every kind that is read, and how each kind is opened: what tests damage."""

import base64
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from model.api import LanguageModel, load_resolved
from model.gpt.config import ModelConfig
from model.gpt.rope_scaling import RopeScaling
from model.gpt.transformer import Transformer
from model.loading.architectures.common import NAMES as GGUF_NAMES
from model.loading.checkpoint import save_folder
from model.loading.convert import expected_shapes
from model.loading.export import save_gpt2
from model.loading.families.llama import NAMES
from model.loading.sources import Resolved
from model.text.bpe_ranks import ALPHABET
from model.training.loop import Recipe

MERGES = ["t h", "th e", "Ġ the", "Ġ Ġ", "i n", "in g", "Ã ©", "1 2"]
TOKENS = [*ALPHABET, *(merge.replace(" ", "") for merge in MERGES), "<|endoftext|>", "<|im_start|>"]
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
PROMPT = "the thing 12 é"
SHAPE = {"vocab_size": len(TOKENS), "n_ctx": 32, "n_layer": 2, "d_model": 8, "n_head": 2}
SMALL = ModelConfig(**SHAPE)
LLAMA = ModelConfig(
    **SHAPE,
    n_kv_head=1,
    d_mlp=32,
    norm="rmsnorm",
    norm_bias=False,
    positions="rope",
    mlp="swiglu",
    mlp_bias=False,
    q_bias=False,
    k_bias=False,
    v_bias=False,
    o_bias=False,
    tie_embeddings=False,
    rope_scaling=RopeScaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_n_ctx=16),
)
RECIPE = Recipe(steps=2, batch=1, length=8)
NUMBERS = {"u32": (4, "<I"), "i32": (5, "<i"), "f32": (6, "<f"), "bool": (7, "<?")}


@dataclass(frozen=True)
class Kind:
    """A kind of files: how a valid one is written into a folder, and what the program does with it."""

    write: Callable[[Path], None]
    open: Callable[[Path], object]


# --- vocabularies ----------------------------------------------------------------------------------


def tokenizer_json() -> dict:
    """A byte-level BPE vocabulary as the Hub has it."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": len(TOKENS) - 2 + i,
                "content": TOKENS[i - 2],
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for i in range(2)
        ],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {
                    "type": "Split",
                    "pattern": {"Regex": r" ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"},
                    "behavior": "Isolated",
                    "invert": False,
                },
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
            ],
        },
        "post_processor": {
            "type": "Sequence",
            "processors": [
                {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
                {
                    "type": "TemplateProcessing",
                    "single": [
                        {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}},
                        {"Sequence": {"id": "A", "type_id": 0}},
                    ],
                    "pair": [],
                    "special_tokens": {
                        "<|endoftext|>": {"id": "<|endoftext|>", "ids": [len(TOKENS) - 2], "tokens": ["<|endoftext|>"]}
                    },
                },
            ],
        },
        "decoder": {"type": "ByteLevel"},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": True,
            "vocab": {token: i for i, token in enumerate(TOKENS[:-2])},
            "merges": MERGES,
        },
    }


TOKENIZER_CONFIG = {
    "add_bos_token": True,
    "bos_token": {"content": "<|endoftext|>", "lstrip": False},
    "eos_token": "<|endoftext|>",
    "chat_template": [{"name": "default", "template": TEMPLATE}],
    "tokenizer_class": "GPT2Tokenizer",
}


def dump(path: Path, value: object) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def write_vocab_merges(folder: Path) -> None:
    dump(folder / "vocab.json", {token: i for i, token in enumerate(TOKENS)})
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(MERGES) + "\n", encoding="utf-8")


def write_tiktoken(folder: Path) -> None:
    rows = [bytes([i]) for i in range(256)] + [b"th", b"the", b" the"]
    lines = [f"{base64.b64encode(row).decode()} {i}" for i, row in enumerate(rows)]
    (folder / "v.tiktoken").write_text("\n".join(lines), encoding="utf-8")


# --- folders of weights ----------------------------------------------------------------------------


def model_of(config: ModelConfig) -> Transformer:
    """A model with the same numbers each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Transformer(config)


def renamed(config: ModelConfig, names: Mapping) -> dict[str, torch.Tensor]:
    """The weights of a model under somebody else's names."""
    theirs = {ours: name for name, ours in names.items() if isinstance(ours, str)}
    state = model_of(config).state_dict()
    found = {}
    for name in expected_shapes(config):
        layer = name.split(".")[1] if name.startswith("blocks.") else ""
        pattern = name.replace(f".{layer}.", ".{i}.", 1) if layer else name
        found[theirs[pattern].replace("{i}", layer)] = state[name].contiguous()
    return found


def write_llama(folder: Path) -> None:
    """Llama as it lies on the Hub: one file of weights, tokenizer.json, a chat template."""
    state = {f"model.{name}".replace("model.lm_head", "lm_head"): t for name, t in renamed(LLAMA, NAMES).items()}
    save_file({name: tensor.to(torch.bfloat16) for name, tensor in state.items()}, folder / "model.safetensors")
    dump(
        folder / "config.json",
        {
            "model_type": "llama",
            "architectures": ["LlamaForCausalLM"],
            "vocab_size": len(TOKENS),
            "hidden_size": 8,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "max_position_embeddings": 32,
            "head_dim": 4,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": False,
            "attention_bias": False,
            "mlp_bias": False,
            "pretraining_tp": 1,
            "rope_theta": 10000.0,
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 16,
            },
        },
    )
    dump(folder / "tokenizer.json", tokenizer_json())
    dump(folder / "tokenizer_config.json", TOKENIZER_CONFIG)


def write_shards(folder: Path) -> None:
    """GPT-2 in two files and an index, vocab.json and merges.txt."""
    save_gpt2(folder, model_of(SMALL), "{}", len(TOKENS) - 2, torch.float32)
    whole = folder / "model.safetensors"
    names, state = {}, load_file(whole)
    for i, shard in enumerate(("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")):
        part = dict(list(state.items())[i::2])
        names |= dict.fromkeys(part, shard)
        save_file(part, folder / shard)
    dump(folder / "model.safetensors.index.json", {"metadata": {"total_size": 1}, "weight_map": names})
    for name in ("model.safetensors", "tokenizer.json"):
        (folder / name).unlink(missing_ok=True)
    write_vocab_merges(folder)


def write_native(folder: Path) -> None:
    """This project's own folder, as a trained model is handed out."""
    save_folder(folder, model_of(replace(LLAMA, rotary_fraction=0.5)))
    dump(folder / "tokenizer.json", tokenizer_json())


def use(lm: LanguageModel) -> LanguageModel:
    """What the page does first with a model that was loaded."""
    trace = lm.trace(PROMPT)
    for layer in range(min(trace.config.n_layer, 2)):
        trace.pattern(layer, 0)
    trace.logit_lens(top=3)
    lm.decode(trace.logits.argmax(-1).clip(0, lm.tokenizer.vocab_size - 1).tolist())
    return lm


def open_model_folder(folder: Path) -> LanguageModel:
    return use(load_resolved(Resolved("folder", folder, str(folder), folder.name)))


# --- GGUF ------------------------------------------------------------------------------------------


def text(value: str | bytes) -> bytes:
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(raw)) + raw


def number(kind: str, value: float) -> tuple[int, bytes]:
    code, form = NUMBERS[kind]
    return code, struct.pack(form, value)


def strings(values: Sequence[str]) -> tuple[int, bytes]:
    return 9, struct.pack("<IQ", 8, len(values)) + b"".join(map(text, values))


@dataclass
class Gguf:
    """A GGUF file in pieces; `counts` are what the header claims where that is not the truth."""

    values: list[tuple[str, int, bytes]]  # key, value type, payload
    infos: list[tuple[str, tuple[int, ...], int, int]]  # name, dims, type, offset
    data: bytes
    version: int = 3
    counts: tuple[int | None, int | None] = (None, None)
    alignment: int = field(default=32)

    def write(self) -> bytes:
        """The bytes of the file."""
        tensors, values = self.counts
        head = b"GGUF" + struct.pack(
            "<IQQ",
            self.version,
            len(self.infos) if tensors is None else tensors,
            len(self.values) if values is None else values,
        )
        head += b"".join(text(key) + struct.pack("<I", kind) + payload for key, kind, payload in self.values)
        for name, dims, kind, offset in self.infos:
            head += text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims)
            head += struct.pack("<IQ", kind, offset)
        return head + b"\0" * (-len(head) % self.alignment) + self.data


def whole_gguf() -> Gguf:
    """A Llama of two layers in float32, and its vocabulary."""
    config = replace(LLAMA, rope_scaling=None)
    values = [
        ("general.architecture", 8, text("llama")),
        ("general.name", 8, text("tiny")),
        ("general.alignment", *number("u32", 32)),
        ("llama.block_count", *number("u32", 2)),
        ("llama.context_length", *number("u32", 32)),
        ("llama.embedding_length", *number("u32", 8)),
        ("llama.feed_forward_length", *number("u32", 32)),
        ("llama.attention.head_count", *number("u32", 2)),
        ("llama.attention.head_count_kv", *number("u32", 1)),
        ("llama.attention.layer_norm_rms_epsilon", *number("f32", 1e-5)),
        ("llama.rope.freq_base", *number("f32", 1e4)),
        ("llama.rope.dimension_count", *number("u32", 4)),
        ("llama.vocab_size", *number("u32", len(TOKENS))),
        ("llama.expert_count", *number("u32", 0)),
        ("tokenizer.ggml.model", 8, text("gpt2")),
        ("tokenizer.ggml.pre", 8, text("smollm")),
        ("tokenizer.ggml.tokens", *strings(TOKENS)),
        ("tokenizer.ggml.merges", *strings(MERGES)),
        (
            "tokenizer.ggml.token_type",
            9,
            struct.pack(f"<IQ{len(TOKENS)}i", 5, len(TOKENS), *[1] * (len(TOKENS) - 2), 3, 3),
        ),
        ("tokenizer.ggml.bos_token_id", *number("u32", len(TOKENS) - 2)),
        ("tokenizer.ggml.eos_token_id", *number("u32", len(TOKENS) - 1)),
        ("tokenizer.ggml.add_bos_token", *number("bool", True)),
        ("tokenizer.chat_template", 8, text(TEMPLATE)),
    ]
    infos, blob = [], b""
    for name, tensor in renamed(config, GGUF_NAMES).items():
        infos.append((name, tuple(reversed(tensor.shape)), 0, len(blob)))
        blob += tensor.numpy().astype("<f4").tobytes()
        blob += b"\0" * (-len(blob) % 32)
    return Gguf(values, infos, blob)


def write_gguf(folder: Path) -> None:
    (folder / "m.gguf").write_bytes(whole_gguf().write())


def open_gguf(folder: Path) -> LanguageModel:
    return use(load_resolved(Resolved("gguf", folder / "m.gguf", "m.gguf", "m.gguf")))
