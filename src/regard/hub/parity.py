"""Check that a published model computes the same as one of regard's own."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.masks import padding
from regard.errors import RunError
from regard.models.bert import Bert, BertClassifier, BertSpans
from regard.models.language_model import LanguageModel
from regard.models.vit import Vit
from regard.nn.decoders import EncoderDecoder
from regard.text.kinds import SPECIAL, SpecialTokens

Tensors = dict[str, Tensor]
SHAPES = (1, 1), (2, 7), (3, 64)
"""Numbers of texts and of tokens per text in each check."""
CLOSE = 1e-4
"""Largest difference as a share of the median magnitude."""
LONGEST = 4096
"""The maximum of positions of a model without a limit."""


@torch.no_grad()
def check_parity(
    model: nn.Module, network: Any, special: SpecialTokens = SPECIAL
) -> None:
    """Compare the outputs of one of regard's models with those of transformers.

    Raises:
        RunError: The two differ; the message has the largest difference.
    """
    model.eval()
    network.eval()
    for texts, tokens in SHAPES:
        inputs = make_inputs(model, texts, tokens, special)
        published = {
            name.removeprefix("prediction_"): tensor
            for name, tensor in network(**inputs).items()
        }
        compare_outputs(run_model(model, inputs), published, inputs)


def compare_outputs(
    expected: Tensors, published: Tensors, inputs: Tensors, place: Path | None = None
) -> None:
    """Compare outputs by name, of texts at their tokens; raise RunError as `compare`."""
    real = inputs.get("attention_mask", torch.empty(0)).bool()
    for name in expected.keys() & published.keys():
        pair = expected[name], published[name]
        if pair[0].shape[:2] == real.shape:
            pair = pair[0][real], pair[1][real]  # what stands at padding means nothing
        compare(*pair, place)


def find_limit(model: nn.Module) -> int:
    """Return the most positions of a model."""
    if isinstance(model, EncoderDecoder):
        return model.max_source or LONGEST
    limits = (getattr(module, "context", None) for module in model.modules())
    return next(filter(None, limits), LONGEST)


def make_inputs(
    model: nn.Module, texts: int, tokens: int, special: SpecialTokens = SPECIAL
) -> Tensors:
    """Return inputs of a model by transformers' names.

    They are images, or texts of distinct tokens as far as the vocabulary reaches, each
    shorter than the one before it.
    """
    if isinstance(model, Vit):
        config = model.config
        shape = texts, config.channels, config.image, config.image
        numbers = torch.linspace(-2, 2, torch.Size(shape).numel())
        return {"pixel_values": numbers.sin().view(shape)}
    tokens = min(tokens, find_limit(model))
    tables = [
        module.num_embeddings
        for module in model.modules()
        if isinstance(module, nn.Embedding)
    ]
    size = min(tables) if isinstance(model, EncoderDecoder) else tables[0]
    ids = torch.tensor([index for index in range(size) if index != special.pad])
    rows = ids[torch.arange(texts * tokens).view(texts, -1) % len(ids)]
    if isinstance(model, LanguageModel):
        return {"input_ids": rows}
    lengths = 1 + (tokens - 1) * (texts - torch.arange(texts)) // texts
    real = padding(lengths, tokens).readable()
    rows = rows.masked_fill(~real, special.pad)
    inputs = {"input_ids": rows, "attention_mask": real.long()}
    if isinstance(model, Bert | BertClassifier | BertSpans):
        segments = model.encoder.segments
        if segments is not None and segments.num_embeddings > 1:
            numbers = torch.arange(tokens) * segments.num_embeddings // tokens
            inputs["token_type_ids"] = numbers.repeat(texts, 1)
    if isinstance(model, EncoderDecoder):
        start = torch.full_like(rows[:, :1], special.start)
        inputs["decoder_input_ids"] = torch.cat([start, rows[:, :-1]], 1)
    return inputs


def run_model(model: Any, inputs: Tensors) -> Tensors:
    """Return the outputs of a model by transformers' names."""
    if isinstance(model, Vit):
        pixels = inputs["pixel_values"]
        if model.classes:
            return {"logits": model(pixels)}
        return {"last_hidden_state": model.encoder(pixels)}
    tokens = inputs["input_ids"]
    if isinstance(model, LanguageModel):
        return {"logits": model(tokens, model.begin(tokens.shape[0]))[0]}
    lengths = inputs["attention_mask"].sum(1)
    names = ("decoder_input_ids", "token_type_ids")
    outputs = model(
        tokens, lengths, *(inputs[name] for name in names if name in inputs)
    )
    if isinstance(model, BertSpans):
        return {"start_logits": outputs[..., 0], "end_logits": outputs[..., 1]}
    if not isinstance(model, Bert):
        return {"logits": outputs}
    results = {"last_hidden_state": outputs}
    if model.predictions is not None:
        results["logits"] = model.predictions(outputs)
    if model.next_sentence is not None and model.pooler is not None:
        results["seq_relationship_logits"] = model.next_sentence(model.pooler(outputs))
    return results


def compare(expected: Tensor, published: Tensor, place: Path | None = None) -> None:
    """Raise RunError for a difference above `CLOSE` of the median magnitude."""
    difference = (expected - published).masked_fill(expected == published, 0.0)
    largest = float(difference.abs().max())
    if not largest <= CLOSE * max(1.0, float(expected.abs().median())):
        beginning = "" if place is None else f"{place}: "
        raise RunError(
            f"{beginning}the published model differs from the run by up to {largest:.3g}"
        )
