"""Check that a published model computes the same as its run."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.masks import padding
from regard.errors import RunError
from regard.models.bert import Bert, BertClassifier, BertSpans, BertTagger
from regard.models.gpt2 import GPT2, GPT2Classifier
from regard.models.llama import Llama
from regard.models.vit import Vit
from regard.nn.encoder_decoder import EncoderDecoder
from regard.shapes import Bool, Lengths, Tokens
from regard.text.special import SpecialTokens

SHAPES = (1, 1), (2, 7), (3, 64)
"""Numbers of texts and of tokens per text in each check."""
CLOSE = 1e-4
"""Largest difference as a share of the median magnitude."""


@dataclass(frozen=True)
class ParityBatch:
    """Tokens padded past `lengths`, their segments if the model has several."""

    tokens: Tokens
    lengths: Lengths
    segments: Tokens | None
    special: SpecialTokens

    @classmethod
    def create(
        cls, texts: int, tokens: int, segments: int, size: int, special: SpecialTokens
    ) -> "ParityBatch":
        """Return texts of distinct tokens, each shorter than the one before."""
        ids = torch.tensor([index for index in range(size) if index != special.pad])
        rows = ids[torch.arange(texts * tokens).view(texts, -1) % len(ids)]
        lengths = 1 + (tokens - 1) * (texts - torch.arange(texts)) // texts
        real = padding(lengths, tokens).readable()
        kinds = torch.arange(tokens).expand_as(rows) * segments // tokens
        rows = rows.masked_fill(~real, special.pad)
        return cls(rows, lengths, kinds if segments else None, special)

    @property
    def real(self) -> Bool[Tensor, "batch position"]:
        """True for each position with a token."""
        return padding(self.lengths, self.tokens.shape[1]).readable()

    @property
    def target(self) -> Tokens:
        """The decoder's input: the start and all tokens but the last."""
        start = torch.full_like(self.tokens[:, :1], self.special.start)
        return torch.cat([start, self.tokens[:, :-1]], 1)

    def inputs(self, *, pairs: bool) -> dict[str, Tensor]:
        """Return the inputs of a network of transformers."""
        published = {"input_ids": self.tokens, "attention_mask": self.real.long()}
        if self.segments is not None:
            published["token_type_ids"] = self.segments
        if pairs:
            published["decoder_input_ids"] = self.target
        return published


def batches(
    model: nn.Module, context: int, size: int, special: SpecialTokens
) -> Iterator[ParityBatch]:
    """Yield batches of three sizes for a model of texts."""
    segments = 0
    if isinstance(model, Bert | BertClassifier | BertSpans):
        table = model.encoder.segments
        segments = 0 if table is None else table.num_embeddings
    for texts, tokens in SHAPES:
        yield ParityBatch.create(texts, min(tokens, context), segments, size, special)


@torch.no_grad()
def check_texts(
    model: nn.Module, network: Any, context: int, size: int, special: SpecialTokens
) -> None:
    """Compare a model of texts with a network of transformers.

    Raises:
        RunError: The two differ; the message has the largest difference.
    """
    pairs = bool(network.config.is_encoder_decoder)
    for batch in batches(model, context, size, special):
        published = network.eval()(**batch.inputs(pairs=pairs))
        for name, expected in run_model(model.eval(), batch).items():
            found = published[name]
            if found.ndim != expected.ndim:
                found = found[batch.real]
            compare(expected, found)


@torch.no_grad()
def check_images(model: Vit, network: Any) -> None:
    """Compare a model of images with a network of transformers.

    Raises:
        RunError: The two differ.
    """
    config = model.config
    for images in (1, 2, 3):
        shape = images, config.channels, config.image, config.image
        count = images * config.channels * config.image**2
        pixels = torch.linspace(-2, 2, count).sin().view(shape)
        outputs = network.eval()(pixels)
        if model.classes:
            compare(model.eval()(pixels), outputs.logits)
        else:
            compare(model.eval().encoder(pixels), outputs.last_hidden_state)


def run_model(model: nn.Module, batch: ParityBatch) -> dict[str, Tensor]:
    """Return the outputs of a model by transformers' names, of real tokens only."""
    tokens, lengths, real = batch.tokens, batch.lengths, batch.real
    match model:
        case GPT2() | Llama():
            logits, _ = model(tokens, model.begin(len(tokens)))
            return {"logits": logits[real]}
        case EncoderDecoder():
            return {"logits": model(tokens, lengths, batch.target)[real]}
        case BertClassifier():
            return {"logits": model(tokens, lengths, batch.segments)}
        case GPT2Classifier():
            return {"logits": model(tokens, lengths)}
        case BertTagger():
            return {"logits": model(tokens, lengths)[real]}
        case BertSpans():
            begins, ends = model(tokens, lengths, batch.segments).unbind(-1)
            return {"start_logits": begins[real], "end_logits": ends[real]}
        case Bert():
            return run_bert(model, batch)
        case _:
            raise TypeError(f"{type(model).__name__} has no published form")


def run_bert(model: Bert, batch: ParityBatch) -> dict[str, Tensor]:
    """Return the outputs of the heads of a BERT, or its states without a head."""
    states = model(batch.tokens, batch.lengths, batch.segments)
    pooled = None if model.pooler is None else model.pooler(states)
    predictions = (
        None if model.predictions is None else model.predictions(states)[batch.real]
    )
    if predictions is None:
        published = {"last_hidden_state": states[batch.real]}
        return published if pooled is None else published | {"pooler_output": pooled}
    if model.next_sentence is None:
        return {"logits": predictions}
    follows = model.next_sentence(pooled)
    return {"prediction_logits": predictions, "seq_relationship_logits": follows}


def compare(expected: Tensor, published: Tensor, place: Any = "") -> None:
    """Raise RunError for a difference above `CLOSE` of the median magnitude."""
    difference = (
        (expected - published).masked_fill(expected == published, 0.0).abs().max()
    )
    if not float(difference) <= CLOSE * max(1.0, float(expected.abs().median())):
        beginning = f"{place}: " if place else ""
        raise RunError(
            f"{beginning}the published model differs from the run by up to "
            f"{float(difference):.3g}"
        )
