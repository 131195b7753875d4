"""Texts on which two runtimes are compared."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention.masks import padding
from regard.hub.formats.names import Order
from regard.models.bert import Bert, BertClassifier, BertEncoder, BertSpans
from regard.shapes import Bool, Lengths, Tokens
from regard.text.special import END, PAD, START


@dataclass(frozen=True)
class Given:
    """Tokens `(batch, position)`, PAD past each of the `lengths`, and their segments where the model tells these apart;
    `order` are the ids that tokens have in published files."""

    tokens: Tokens
    lengths: Lengths
    segments: Tokens | None
    order: Order

    @classmethod
    def of(cls, texts: int, tokens: int, model: nn.Module, order: Order) -> "Given":
        """All different tokens as far as the vocabulary goes, each text shorter than the one before, and every segment
        that the model knows."""
        ids = END + torch.arange(texts * tokens).view(texts, -1) % (len(order) - END)
        lengths = 1 + (tokens - 1) * (texts - torch.arange(texts)) // texts
        known = encoder.segments if (encoder := encoder_of(model)) is not None else None
        segments = None if known is None else torch.arange(tokens).expand_as(ids) * known.num_embeddings // tokens
        return cls(ids.masked_fill(~padding(lengths, tokens).readable(), PAD), lengths, segments, order)

    @property
    def real(self) -> Bool[Tensor, "batch position"]:
        """Which positions hold a token."""
        return padding(self.lengths, self.tokens.shape[1]).readable()

    @property
    def begun(self) -> Tokens:
        """What a decoder is given to write the tokens: START, and all but the last."""
        return torch.cat([torch.full_like(self.tokens[:, :1], START), self.tokens[:, :-1]], 1)

    def named(self, kind: str) -> dict[str, Tensor]:
        """As the class `kind` of transformers is given them."""
        segments = {} if self.segments is None else {"token_type_ids": self.segments}
        written = {"decoder_input_ids": self.published(self.begun)} if kind == "AutoModelForSeq2SeqLM" else {}
        return {"input_ids": self.published(self.tokens), "attention_mask": self.real.long(), **segments, **written}

    def published(self, ids: Tokens) -> Tokens:
        """The ids there. What is not published, as PAD may be, stands where nothing reads it."""
        return torch.tensor([0 if theirs is None else theirs for theirs in self.order])[ids]

    def words(self, logits: Tensor) -> Tensor:
        """Logits `(..., token)` in the order of the published ids."""
        places = sorted((theirs, ours) for ours, theirs in enumerate(self.order) if theirs is not None)
        return logits[..., [ours for _, ours in places]]


def encoder_of(model: nn.Module) -> BertEncoder | None:
    """That of a BERT."""
    return model.encoder if isinstance(model, Bert | BertClassifier | BertSpans) else None
