"""Check that a published model computes the same as one of regard's own."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.masks import padding
from regard.errors import RunError
from regard.models.bert import Bert, BertClassifier, BertSpans, BertTagger
from regard.models.gpt2 import GPT2Classifier
from regard.models.language_model import LanguageModel
from regard.models.vit import Vit
from regard.nn.encoder_decoder import EncoderDecoder
from regard.text import Tokenizer

SHAPES = (1, 1), (2, 7), (3, 64)
"""Numbers of texts and of tokens per text in each check."""
CLOSE = 1e-4
"""Largest difference as a share of the median magnitude."""


@torch.no_grad()
def check_parity(model: nn.Module, network: Any, tokenizer: Tokenizer | None) -> None:
    """Compare the outputs of a model with those of a network of transformers.

    Args:
        model: One of regard's own models.
        network: The network.
        tokenizer: The tokenizer of a model of texts.

    Raises:
        RunError: The two differ; the message has the largest difference.
    """
    model.eval()
    for texts, tokens in SHAPES:
        if isinstance(model, Vit):
            config = model.config
            shape = texts, config.channels, config.image, config.image
            pixels = torch.linspace(-2, 2, shape[1] * texts * shape[2] ** 2).sin()
            outputs = network.eval()(pixels.view(shape))
            if model.classes:
                compare(model(pixels.view(shape)), outputs.logits)
            else:
                compare(model.encoder(pixels.view(shape)), outputs.last_hidden_state)
            continue
        assert tokenizer is not None
        limit = getattr(network.config, "max_position_embeddings", tokens)
        inputs = make_inputs(model, network, texts, min(tokens, limit), tokenizer)
        outputs = network.eval()(**inputs)
        real = inputs["attention_mask"].bool()
        for name, expected in run_model(model, inputs).items():
            published = outputs[name]
            if published.shape[:2] == real.shape and expected.ndim == published.ndim:
                compare(expected[real], published[real])
            else:
                compare(expected, published)


def make_inputs(
    model: nn.Module, network: Any, texts: int, tokens: int, tokenizer: Tokenizer
) -> dict[str, Tensor]:
    """Return texts of distinct tokens as a network reads them, each shorter."""
    special = tokenizer.special
    ids = torch.tensor([id_ for id_ in range(tokenizer.size) if id_ != special.pad])
    rows = ids[torch.arange(texts * tokens).view(texts, -1) % len(ids)]
    lengths = 1 + (tokens - 1) * (texts - torch.arange(texts)) // texts
    real = padding(lengths, tokens).readable()
    rows = rows.masked_fill(~real, special.pad)
    inputs = {"input_ids": rows, "attention_mask": real.long()}
    kinds = getattr(network.config, "type_vocab_size", 0)
    if kinds and not isinstance(model, BertTagger):
        segments = torch.arange(tokens).expand_as(rows) * kinds // tokens
        inputs["token_type_ids"] = segments
    if network.config.is_encoder_decoder:
        start = torch.full_like(rows[:, :1], special.start)
        inputs["decoder_input_ids"] = torch.cat([start, rows[:, :-1]], 1)
    return inputs


def run_model(model: nn.Module, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the outputs of a model of texts by transformers' names."""
    tokens = inputs["input_ids"]
    segments = inputs.get("token_type_ids")
    lengths = inputs["attention_mask"].sum(1)
    if isinstance(model, LanguageModel):
        return {"logits": model(tokens, model.begin(len(tokens)))[0]}
    if isinstance(model, EncoderDecoder):
        return {"logits": model(tokens, lengths, inputs["decoder_input_ids"])}
    if isinstance(model, GPT2Classifier | BertTagger):
        return {"logits": model(tokens, lengths)}
    if isinstance(model, BertClassifier):
        return {"logits": model(tokens, lengths, segments)}
    if isinstance(model, BertSpans):
        first, last = model(tokens, lengths, segments).unbind(-1)
        return {"start_logits": first, "end_logits": last}
    assert isinstance(model, Bert)
    states = model(tokens, lengths, segments)
    if model.predictions is None:
        return {"last_hidden_state": states}
    if model.next_sentence is None or model.pooler is None:
        return {"logits": model.predictions(states)}
    return {
        "prediction_logits": model.predictions(states),
        "seq_relationship_logits": model.next_sentence(model.pooler(states)),
    }


def compare(expected: Tensor, published: Tensor, place: Path | None = None) -> None:
    """Raise RunError for a difference above `CLOSE` of the median magnitude."""
    difference = (expected - published).masked_fill(expected == published, 0.0)
    largest = float(difference.abs().max())
    if not largest <= CLOSE * max(1.0, float(expected.abs().median())):
        beginning = "" if place is None else f"{place}: "
        raise RunError(
            f"{beginning}the published model differs from the run by up to {largest:.3g}"
        )
