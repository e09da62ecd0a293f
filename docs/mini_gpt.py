"""A complete GPT to read from top to bottom: attention, blocks, training, sampling, in plain PyTorch.

    python docs/mini_gpt.py story.txt      trains on the characters of a text for a few minutes, then writes some more
    python docs/mini_gpt.py                lets TinyGPT, the model of this project, continue "Once upon a time"

It computes what the project's own model computes: with the weights of TinyGPT the logits are the same, as a test shows.
What the project adds is in model/gpt/: other ways to wire a block, a cache, and a view of every number.
Shapes: B texts, T tokens, D width, H heads of size E = D / H, V vocabulary.
"""

import math
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WEIGHTS = Path(__file__).parents[1] / "model" / "weights" / "tinygpt"


@dataclass(frozen=True)
class Shape:
    """How large a model is."""

    vocabulary: int  # V
    context: int = 128  # the most tokens that it reads
    layers: int = 4
    heads: int = 4  # H
    width: int = 128  # D


class Attention(nn.Module):
    """Each token asks all tokens before it, and itself, and takes a mixture of what they say. Vaswani et al. 2017."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.qkv = nn.Linear(shape.width, 3 * shape.width)  # queries, keys and values of all heads at once
        self.output = nn.Linear(shape.width, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, D]"""
        B, T, D = x.shape
        q, k, v = (part.view(B, T, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(D, dim=-1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # [B, H, T, T]: row t asks, column s answers
        future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        pattern = scores.masked_fill(future, -math.inf).softmax(dim=-1)  # rows sum to 1
        mixed = pattern @ v  # [B, H, T, E]
        return self.output(mixed.transpose(1, 2).reshape(B, T, D))


class Block(nn.Module):
    """Attention, then an MLP; each reads the stream through a norm and adds to it what it found."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.attention = Attention(shape)
        self.expand, self.contract = nn.Linear(shape.width, 4 * shape.width), nn.Linear(4 * shape.width, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, D]"""
        x = x + self.attention(self.norm1(x))
        return x + self.contract(F.gelu(self.expand(self.norm2(x)), approximate="tanh"))


class MiniGPT(nn.Module):
    """Token ids in, logits out: how likely every token of the vocabulary is as the next one. Radford et al. 2019."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.apply(self._begin)
        for block in self.blocks:  # 2 * layers sums: their parts begin smaller, so that the stream does not grow
            for last in (block.attention.output, block.contract):
                nn.init.normal_(last.weight, std=0.02 / math.sqrt(2 * shape.layers))

    @staticmethod
    def _begin(module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)

    def forward(self, ids: Tensor) -> Tensor:
        """[B, T] whole numbers -> [B, T, V]; row t is about token t + 1."""
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.T  # the head is the embedding again


def loss_of(model: MiniGPT, ids: Tensor) -> Tensor:
    """Mean surprise at the tokens that really came, in nats: -log p. ids [B, T + 1]"""
    logits = model(ids[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def train(model: MiniGPT, text: Tensor, steps: int, rows: int = 16, rate: float = 1e-3, seed: int = 0) -> list[float]:
    """Show the model random windows of a text, [N] ids, and move the weights against the gradient. Losses by step."""
    draw = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.1)
    T, losses = min(model.shape.context, len(text) - 1), []
    for step in range(steps):
        for group in optimizer.param_groups:  # warm up, then slow down along half a cosine
            group["lr"] = rate * min(1.0, (step + 1) / 50) * (0.55 + 0.45 * math.cos(math.pi * step / steps))
        starts = torch.randint(len(text) - T, (rows,), generator=draw)
        loss = loss_of(model, torch.stack([text[at : at + T + 1] for at in starts]))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def choose(logits: Tensor, temperature: float, top_k: int, top_p: float, draw: torch.Generator) -> int:
    """One token id from logits [V]: sharpen or flatten them, cut the tail off, throw the dice. At 0 the likeliest."""
    if temperature == 0:
        return int(logits.argmax())
    order = logits.argsort(descending=True)[: top_k or None]  # top-k: Fan et al. 2018
    p = (logits[order] / temperature).softmax(dim=-1)
    p = torch.where(p.cumsum(dim=-1) - p < top_p, p, 0)  # top-p: the fewest that reach it. Holtzman et al. 2020
    return int(order[torch.multinomial(p, 1, generator=draw)])  # weights need not sum to 1


@torch.inference_mode()
def write(
    model: MiniGPT,
    ids: list[int],
    count: int,
    temperature: float = 0.8,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int = 0,
) -> list[int]:
    """The ids and `count` more, each chosen from what the model expects after all before it. top_k 0 is no cut."""
    ids, draw = list(ids), torch.Generator().manual_seed(seed)
    for _ in range(count):
        seen = torch.tensor([ids[-model.shape.context :]])
        ids.append(choose(model(seen)[0, -1], temperature, top_k, top_p, draw))
    return ids


def tinygpt(folder: Path = WEIGHTS) -> MiniGPT:
    """The trained model of this project; its file has the names of GPT-2, whose matrices stand the other way round."""
    from safetensors.torch import load_file

    names = {"ln_1": "norm1", "ln_2": "norm2", "attn.c_attn": "attention.qkv", "attn.c_proj": "attention.output"}
    names |= {"mlp.c_fc": "expand", "mlp.c_proj": "contract", "wte": "tokens", "wpe": "positions", "ln_f": "norm"}
    state = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        turned = name.endswith(".weight") and (".c_" in name)
        name = name.removeprefix("transformer.").replace("h.", "blocks.", 1)
        for theirs, ours in names.items():
            name = name.replace(theirs, ours)
        state[name] = (tensor.T if turned else tensor).float()
    model = MiniGPT(Shape(vocabulary=8192, context=512, layers=8, heads=8, width=256))
    model.load_state_dict(state)
    return model.eval()


def main() -> None:
    """Train on a text, or let TinyGPT write."""
    if len(sys.argv) > 1:
        text = Path(sys.argv[1]).read_text(encoding="utf-8")
        letters = sorted(set(text))
        ids = torch.tensor([letters.index(letter) for letter in text])
        model = MiniGPT(Shape(vocabulary=len(letters)))
        losses = train(model, ids, steps=1000)
        print(f"loss {losses[0]:.2f} at first, {losses[-1]:.2f} at the end; chance is {math.log(len(letters)):.2f}")
        print("".join(letters[id] for id in write(model, ids[:20].tolist(), 300)))
    else:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
        ids = tokenizer.encode("Once upon a time").ids
        print(tokenizer.decode(write(tinygpt(), ids, 80, temperature=0.7, top_k=40)))


if __name__ == "__main__":
    main()
