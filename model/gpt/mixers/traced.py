"""The matrices of a traced layer with any mixer: the map that is drawn, and the matrix that produces the output."""

import dataclasses
from typing import Protocol

import torch
from torch import Tensor

from model.gpt.config import ModelConfig
from model.gpt.mixers.hidden import row_weights
from model.gpt.mixers.selective import StateSelection
from model.gpt.passes import Pass
from model.gpt.transformer import Transformer


class Traced(Protocol):
    """The subset of model.tracing.trace.Trace that this module uses."""

    model: Transformer
    residuals: Tensor  # [L + 1, T, D]

    @property
    def config(self) -> ModelConfig: ...

    def prepare(self, layer: int, T: int) -> Pass: ...


def mixer_input(trace: Traced, layer: int) -> tuple[Tensor, Pass]:
    """Return the input of the layer's mixer [1, T, D] with the run's edits, and the Pass with which to run it."""
    run, block = trace.prepare(layer, trace.residuals.shape[1]), trace.model.blocks[layer]
    x = run.at("resid_pre", layer, trace.residuals[layer][None])
    return block.read(x, layer, run), run


def mixing_matrix(trace: Traced, layer: int, index: int) -> Tensor:
    """Return the signed matrix of a channel (mixers.names.CHANNELS), of a Mamba 2 head of the state, or of a head of
    another mixer without a softmax. [T, T]
    """
    x, run = mixer_input(trace, layer)
    mixer = trace.model.blocks[layer].attn
    if trace.config.mixer_of(layer) == "mamba2" or trace.config.channels(layer) is None:
        return mixer.mixing(x, layer, run)[0, index]
    return mixer.mixing(x, layer, run, index)[0]


def hidden_weights(trace: Traced, layer: int, head: int) -> Tensor:
    """Return the hidden-attention map of a head without a softmax (model.gpt.mixers.hidden). [T, T]"""
    if trace.config.channels(layer) is None:
        return row_weights(mixing_matrix(trace, layer, head))
    x, run = mixer_input(trace, layer)
    mixer = trace.model.blocks[layer].attn
    if trace.config.mixer_of(layer) == "mamba2":
        return mixer.weights(mixer.mixing(x, layer, run))[0, head]
    return mixer.weights(mixer.inputs(x, layer, run)[0], range(head, head + 1))[0, 0]


@torch.inference_mode()
def selection(trace: Traced, layer: int) -> StateSelection:
    """Return the selection parameters of the run's tokens in a Mamba or Mamba 2 layer; the batch axis has size 1."""
    x, run = mixer_input(trace, layer)
    mixer = trace.model.blocks[layer].attn
    if trace.config.mixer_of(layer) == "mamba":
        return mixer.inputs(x, layer, run)[0]
    if trace.config.ssm_beside:
        return mixer.beside.selection(x, layer, dataclasses.replace(run, tap=None))
    return mixer.selection(x, layer, run)
