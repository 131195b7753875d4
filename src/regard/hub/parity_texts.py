"""Texts on which two runtimes are compared."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention.masks import padding
from regard.models.bert import Bert, BertClassifier, BertEncoder, BertSpans
from regard.shapes import Bool, Lengths, Tokens
from regard.text import Tokenizer
from regard.text.special import SpecialTokens


@dataclass(frozen=True)
class ParityBatch:
    """Tokens `(batch, position)`, padded past each of the `lengths`, and their segments where the model tells these
    apart; `special` are the ids of the vocabulary."""

    tokens: Tokens
    lengths: Lengths
    segments: Tokens | None
    special: SpecialTokens

    @classmethod
    def of(cls, texts: int, tokens: int, model: nn.Module, tokenizer: Tokenizer) -> "ParityBatch":
        """All different tokens as far as the vocabulary goes, each text shorter than the one before, and every segment
        that the model knows."""
        special = tokenizer.special
        some = torch.tensor([index for index in range(tokenizer.size) if index != special.pad])
        ids = some[torch.arange(texts * tokens).view(texts, -1) % len(some)]
        lengths = 1 + (tokens - 1) * (texts - torch.arange(texts)) // texts
        known = encoder.segments if (encoder := encoder_of(model)) is not None else None
        segments = None if known is None else torch.arange(tokens).expand_as(ids) * known.num_embeddings // tokens
        return cls(ids.masked_fill(~padding(lengths, tokens).readable(), special.pad), lengths, segments, special)

    @property
    def real(self) -> Bool[Tensor, "batch position"]:
        """Which positions hold a token."""
        return padding(self.lengths, self.tokens.shape[1]).readable()

    @property
    def target_in(self) -> Tokens:
        """What a decoder is given to write the tokens: the start, and all but the last."""
        return torch.cat([torch.full_like(self.tokens[:, :1], self.special.start), self.tokens[:, :-1]], 1)

    def inputs(self, kind: str) -> dict[str, Tensor]:
        """As the class `kind` of transformers is given them."""
        segments = {} if self.segments is None else {"token_type_ids": self.segments}
        written = {"decoder_input_ids": self.target_in} if kind == "AutoModelForSeq2SeqLM" else {}
        return {"input_ids": self.tokens, "attention_mask": self.real.long(), **segments, **written}


def encoder_of(model: nn.Module) -> BertEncoder | None:
    """That of a BERT."""
    return model.encoder if isinstance(model, Bert | BertClassifier | BertSpans) else None
