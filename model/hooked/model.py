"""A model of another library behind the few functions that a trace needs: one run, and the logits of a hidden state.

The library is transformers or one whose models are called alike; nothing of it is imported.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch
from torch import Tensor

from model.errors import UnsupportedModel, say
from model.gpt.passes import See
from model.hooked.config import HookedConfig, missing, no_lens

# The last norm of a decoder, by the last part of its name.
NORMS = ("ln_f", "norm", "final_layer_norm", "final_layernorm", "norm_f", "ln_out", "final_norm", "layer_norm")
ROWS = 0.02  # largest error of a row's sum: weights of 16 bits
AGREE = 1e-3  # largest difference of logits, relative to their size, for a norm and a head to count as found


class Hooked:
    """A model that is run as it is, always in evaluation mode and one run at a time.

    `forward` returns everything that it gives. What only our own Transformer has raises InputError.
    """

    def __init__(self, model: Any, config: HookedConfig) -> None:
        self.theirs, self.config, self.name = model, config, config.name
        self._running = threading.Lock()
        self.norm: torch.nn.Module | None = None  # the last norm, if norm and head give the logits
        self.scale: Callable[[Tensor], Tensor] = _as_is  # what follows the head
        self.why = ""  # why there is no lens
        self.device = str(next(model.parameters()).device)

    def __getattr__(self, name: str) -> NoReturn:
        if "config" not in vars(self):
            raise AttributeError(name)
        missing(self.config, name)

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """Return the model's own parameters."""
        return self.theirs.parameters()

    def modules(self) -> Iterator[torch.nn.Module]:
        """Return the model's own modules."""
        return self.theirs.modules()

    @torch.inference_mode()
    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Run ids [T]: attention [L, H, T, T], hidden states [L + 1, T, D] and logits [T, V], float32 on the CPU.

        The last hidden state is that before the last norm, where the norm was found. Raises UnsupportedModel if the
        model gives no attention weights for every layer.
        """
        with self._running, _as_evaluated(self.theirs), _eager(self.theirs), _inputs(self.norm) as before:
            out = self._called(ids[None].to(self.device))
        attention = self._attention(out, len(ids))
        hidden, logits = getattr(out, "hidden_states", None), getattr(out, "logits", None)
        whole = hidden is not None and len(hidden) == self.config.n_layer + 1
        if not whole or logits is None or hidden[-1].shape != hidden[0].shape:
            raise UnsupportedModel("The model gives no hidden states or no logits.", self.name, _CAUSAL)
        last = before[-1] if before else hidden[-1]
        states = torch.stack([_plain(each[0]) for each in (*hidden[:-1], last)])
        return attention, states, _plain(logits[0])

    def _called(self, ids: Tensor) -> Any:
        """Call the model. [1, T] -> its output. Raises UnsupportedModel if it does not take these arguments."""
        wanted = {"output_attentions": True, "output_hidden_states": True, "use_cache": False, "return_dict": True}
        try:
            return self.theirs(input_ids=ids, **wanted)
        except TypeError as error:
            what = "The model is not called as a decoder of transformers is."
            raise UnsupportedModel(what, str(error)[:120], _CAUSAL) from error

    def _attention(self, out: Any, T: int) -> Tensor:
        """Return the attention weights of all layers. [L, H, T, T]"""
        given = [each for each in getattr(out, "attentions", None) or () if each is not None]
        shape = (1, self.config.n_head, T, T)
        if len(given) != self.config.n_layer or any(tuple(each.shape) != shape for each in given):
            got = f"{len(given)} maps of {self.config.n_layer} layers"
            raise UnsupportedModel("The model gives no attention weights for every layer.", got, _EAGER)
        weights = torch.stack([_plain(each[0]) for each in given])
        if weights.triu(1).any():
            hint = say("For a model that reads both ways: {}.", "show_attention(model(**inputs).attentions, tokens)")
            raise UnsupportedModel("Its tokens attend to later ones, so it is not a decoder.", self.name, hint)
        sums = weights.sum(-1)
        if (sums - 1).abs().max() > ROWS:
            got = say("{}: a row sums to {}", self.name, f"{float(sums.min()):.3g}")
            raise UnsupportedModel("The attention weights that the model gives do not sum to 1.", got, _SINKS)
        return weights

    @torch.inference_mode()
    def trunk(self, ids: Tensor, *, see: See, attend: object = None) -> Tensor:
        """Run ids [B, T], call `see(layer, attention)`, and return the last hidden states [B, T, D], as Transformer."""
        runs = [self.forward(row) for row in ids]
        for layer in range(self.config.n_layer):
            see(layer, torch.stack([attention[layer] for attention, _, _ in runs]))
        return torch.stack([states[-1] for _, states, _ in runs])

    @torch.inference_mode()
    def logits(self, x: Tensor, *, tap: object = None) -> Tensor:
        """Compute the logits of hidden states as if they were the last: [..., D] -> [..., V]. Raises InputError if
        there is no lens.
        """
        if self.norm is None:
            raise no_lens(self.config, self.why)
        head = self.theirs.get_output_embeddings()
        kind = next(head.parameters())
        with self._running, _as_evaluated(self.theirs):
            return _plain(self.scale(head(self.norm(x.to(kind.device, kind.dtype)))))

    def look_for_lens(self, ids: Tensor) -> None:
        """Find the last norm, and check that with the head it gives the logits of a run of these ids. [T]"""
        self.forward(ids)  # reports what the model does not give
        head = getattr(self.theirs, "get_output_embeddings", lambda: None)()
        if head is None:
            self.why = "it has no head"
            return
        names = dict(self.theirs.named_modules())
        found = [path for path in names if path.rsplit(".", 1)[-1] in NORMS and not _in_layer(path)]
        for path in found:
            self.norm = names[path]
            _, states, logits = self.forward(ids)
            for scale in _scales(self.theirs.config):
                self.scale = scale
                if self._fits(states[-1], logits):
                    return
        self.norm = None
        self.why = "no norm before the head gives its logits"

    def _fits(self, last: Tensor, logits: Tensor) -> bool:
        """Return whether the norm and the head give these logits."""
        try:
            return bool((self.logits(last) - logits).abs().max() <= AGREE * logits.abs().max())
        except (RuntimeError, TypeError, ValueError):  # another module of this name, of another width
            return False


_CAUSAL = "Load it with AutoModelForCausalLM."
_SINKS = "A model with attention sinks leaves the sink's weight out; its maps would mislead."
_EAGER = 'Load it with attn_implementation="eager".'


def _plain(x: Tensor) -> Tensor:
    return x.detach().to("cpu", torch.float32)


def _as_is(logits: Tensor) -> Tensor:
    return logits


def _in_layer(path: str) -> bool:
    """Return whether a module is inside a layer: a number is part of its path."""
    return any(part.isdigit() for part in path.split("."))


def _scales(config: Any) -> list[Callable[[Tensor], Tensor]]:
    """Return what may follow the head, by the names of configs: nothing, a soft cap, a factor or a divisor."""
    cap, factor, divisor = (
        getattr(config, name, None) for name in ("final_logit_softcapping", "logit_scale", "logits_scaling")
    )
    found: list[Callable[[Tensor], Tensor]] = [_as_is]
    if cap:
        found.append(lambda logits: torch.tanh(logits / cap) * cap)
    if factor:
        found.append(lambda logits: logits * factor)
    if divisor:
        found.append(lambda logits: logits / divisor)
    return found


@contextlib.contextmanager
def _as_evaluated(model: Any) -> Iterator[None]:
    """Run without dropout, and return every module to its own mode afterwards."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


@contextlib.contextmanager
def _eager(model: Any) -> Iterator[None]:
    """Compute attention step by step, which gives the weights, and return to the model's own way afterwards."""
    own = getattr(model.config, "_attn_implementation", None)
    if own in (None, "eager"):
        yield
        return
    change = getattr(model, "set_attn_implementation", None)
    if callable(change):
        change("eager")
    if model.config._attn_implementation != "eager":
        raise UnsupportedModel("The model cannot give attention weights as it was loaded.", str(own), _EAGER)
    try:
        yield
    finally:
        model.set_attn_implementation(own)


@contextlib.contextmanager
def _inputs(module: torch.nn.Module | None) -> Iterator[list[Tensor]]:
    """Collect the first input of a module during a run. [1, T, D]"""
    seen: list[Tensor] = []
    if module is None:
        yield seen
        return

    def keep(_: object, inputs: tuple) -> None:
        seen.append(inputs[0])

    handle = module.register_forward_pre_hook(keep)
    try:
        yield seen
    finally:
        handle.remove()
