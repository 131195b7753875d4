"""The parts of recurrent models that become ONNX graphs. A decoder is a graph of one step: its state comes in and goes
out."""

from dataclasses import fields
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.errors import InputError
from regard.hub.exports.graph import (
    BATCH,
    LONGEST,
    ROWS,
    SOURCE,
    Graph,
    Inputs,
    example_ids,
    example_mask,
    example_numbers,
)
from regard.models.bahdanau import BahdanauDecoder
from regard.models.bottleneck import BottleneckDecoder
from regard.models.han import FlatAttention
from regard.models.luong import LuongDecoder, UnfedLuongDecoder
from regard.models.one_pass import OnePassDecoder
from regard.models.recurrent_language_model import (
    RecurrentLanguageModel,
    RecurrentState,
)
from regard.models.recurrent_tagger import RecurrentTagger
from regard.nn.decoders.protocol import Decoder, State
from regard.nn.embeddings import TokenEmbedding
from regard.nn.encoder_decoder import EncoderDecoder
from regard.nn.encoders.recurrent import RecurrentEncoder

STEPWISE = (
    BahdanauDecoder,
    LuongDecoder,
    UnfedLuongDecoder,
    OnePassDecoder,
    BottleneckDecoder,
)


class ExportedTokens(nn.Module):
    """A recurrent model of whole texts: ids and a mask of the real ones -> logits."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.model(input_ids, attention_mask.sum(1))


class ExportedLanguageModel(nn.Module):
    """Ids and the state `(batch, layer, width)` before them -> the logits of each next token, and the state behind
    them."""

    def __init__(self, model: RecurrentLanguageModel):
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, cells: Tensor) -> tuple[Tensor, Tensor]:
        logits, state = self.model(input_ids, RecurrentState(cells))
        return logits, state.cells


class ExportedStart(nn.Module):
    """Source ids with the end, and a mask of the real ones -> the encoder's states, and the tensors of the decoder's
    first state."""

    def __init__(self, model: EncoderDecoder):
        super().__init__()
        self.encoder, self.decoder = model.encoder, model.decoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        memory = self.encoder(input_ids, attention_mask.sum(1))
        return memory.value, *tensors_of(self.decoder.start(memory)).values()


class ExportedStep(nn.Module):
    """The last tokens `(batch,)`, the encoder's states with a mask of the real ones, and the tensors of the state ->
    the logits of the next token, and the tensors of the state behind it."""

    def __init__(self, decoder: Decoder[Any], kind: type[Any], names: tuple[str, ...]):
        super().__init__()
        self.decoder, self.kind, self.names = decoder, kind, names

    def forward(
        self,
        input_ids: Tensor,
        encoder_hidden_states: Tensor,
        encoder_attention_mask: Tensor,
        *state: Tensor,
    ) -> tuple[Tensor, ...]:
        parts: dict[str, Any] = dict(zip(self.names, state, strict=True))
        if self.decoder.source_attention is not None:
            memory = Memory.of(encoder_hidden_states, encoder_attention_mask.sum(1))
            parts["memory"] = cast(Any, self.decoder).attend.prepare(memory)
        logits, after = self.decoder.step(input_ids, self.kind(**parts))
        return logits, *tensors_of(after).values()


def recurrent_graphs(model: nn.Module) -> list[Graph]:
    """Return the graphs of a recurrent model. Raises InputError for a model without one."""
    match model:
        case RecurrentLanguageModel():
            return [_of_language(model)]
        case RecurrentTagger():
            return [_of_tokens(model, model.embedding)]
        case FlatAttention() if isinstance(model.embedding, TokenEmbedding):
            return [_of_tokens(model, model.embedding)]
        case EncoderDecoder() if isinstance(model.decoder, STEPWISE):
            return _in_two(model)
    raise InputError(
        f"a model of class {type(model).__name__} has no graph; onnx takes bert, gpt2, transformer, vit, bahdanau, "
        "luong, one-pass, bottleneck, recurrent, recurrent-tagger and flat-attention"
    )


def tensors_of(state: State) -> dict[str, Tensor]:
    """Return the tensors of a decoder's state by name, without its memory."""
    found = {field.name: getattr(state, field.name) for field in fields(state)}
    return {name: part for name, part in found.items() if isinstance(part, Tensor)}


def _of_tokens(model: nn.Module, embedding: TokenEmbedding) -> Graph:
    size = embedding.vocabulary

    def example(texts: int, positions: int) -> Inputs:
        return example_ids(texts, positions, size), example_mask(texts, positions)

    axes = {"input_ids": ROWS, "attention_mask": ROWS}
    return Graph("model", ExportedTokens(model), axes, ("logits",), example, LONGEST)


def _of_language(model: RecurrentLanguageModel) -> Graph:
    size = model.embedding.vocabulary

    def example(texts: int, positions: int) -> Inputs:
        return example_ids(texts, positions, size), example_numbers(
            texts, *model.network.state_shape
        )

    axes = {"input_ids": ROWS, "cells": BATCH}
    return Graph(
        "model",
        ExportedLanguageModel(model),
        axes,
        ("logits", "present.cells"),
        example,
        LONGEST,
    )


@torch.no_grad()
def _in_two(model: EncoderDecoder) -> list[Graph]:
    """Return the graphs of the start and of a step. Raises InputError for an alignment or a history that carries more
    than the decoder's own state."""
    encoder, decoder = cast(RecurrentEncoder, model.encoder), cast(Any, model.decoder)
    sizes = (
        cast(TokenEmbedding, encoder.embedding).vocabulary,
        decoder.embedding.vocabulary,
    )
    memory = encoder(example_ids(2, 3, sizes[0]), example_mask(2, 3).sum(1))
    first = decoder.start(memory)
    state = {name: part.shape[1:] for name, part in tensors_of(first).items()}
    _, after = decoder.step(torch.zeros(2, dtype=torch.int64), first)
    if getattr(after, "alignment", None) is not None:
        raise InputError(
            "the attention of this run's decoder carries weights from step to step, which a graph of one step does "
            "not; onnx takes alignments without a state and no history"
        )
    most, width = model.max_source or LONGEST, memory.value.shape[-1]

    def read(texts: int, positions: int) -> Inputs:
        return example_ids(texts, positions, sizes[0]), example_mask(texts, positions)

    def written(texts: int, positions: int) -> Inputs:
        last = example_ids(texts, 1, sizes[1])[:, 0]
        parts = [example_numbers(texts, *shape) for shape in state.values()]
        return (
            last,
            example_numbers(texts, positions, width),
            example_mask(texts, positions),
            *parts,
        )

    sources = {"input_ids": SOURCE, "attention_mask": SOURCE}
    axes = {
        "input_ids": BATCH,
        "encoder_hidden_states": SOURCE,
        "encoder_attention_mask": SOURCE,
    }
    step = ExportedStep(decoder, type(first), tuple(state))
    return [
        Graph(
            "encoder_model",
            ExportedStart(model),
            sources,
            ("last_hidden_state", *state),
            read,
            most,
        ),
        Graph(
            "decoder_model",
            step,
            axes | dict.fromkeys(state, BATCH),
            ("logits", *(f"present.{name}" for name in state)),
            written,
            most,
            fixed=3,
        ),
    ]
