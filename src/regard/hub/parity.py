"""Check that an exported model computes the same as its run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.attention.masks import padding
from regard.errors import RunError
from regard.hub.formats import families
from regard.hub.formats.folder import Folder
from regard.hub.formats.pretrained_model import Files
from regard.hub.text_runs import build_model
from regard.hub.tolerances import SHAPES, as_transformers, checked_against, compare
from regard.models.bert import Bert, BertClassifier, BertEncoder, BertSpans, BertTagger
from regard.models.gpt2 import GPT2, GPT2Classifier
from regard.models.llama import Llama
from regard.nn.encoder_decoder import EncoderDecoder
from regard.shapes import Bool, Lengths, Tokens
from regard.text import Tokenizer
from regard.text.special import SpecialTokens

Outputs = dict[str, dict[str, Tensor]]
"""Outputs of a model by transformers' class and name: `(batch, ...)` per text, `(token, ...)` per token without
padding."""


@dataclass(frozen=True)
class ParityBatch:
    """Tokens `(batch, position)` padded past `lengths`, their segments if the model has any, and the `special` ids."""

    tokens: Tokens
    lengths: Lengths
    segments: Tokens | None
    special: SpecialTokens

    @classmethod
    def of(
        cls, texts: int, tokens: int, model: nn.Module, tokenizer: Tokenizer
    ) -> "ParityBatch":
        """Make texts of distinct tokens as far as the vocabulary reaches, each shorter than the one before, with every
        segment."""
        special = tokenizer.special
        some = torch.tensor(
            [index for index in range(tokenizer.size) if index != special.pad]
        )
        ids = some[torch.arange(texts * tokens).view(texts, -1) % len(some)]
        lengths = 1 + (tokens - 1) * (texts - torch.arange(texts)) // texts
        known = encoder.segments if (encoder := encoder_of(model)) is not None else None
        segments = (
            None
            if known is None
            else torch.arange(tokens).expand_as(ids) * known.num_embeddings // tokens
        )
        return cls(
            ids.masked_fill(~padding(lengths, tokens).readable(), special.pad),
            lengths,
            segments,
            special,
        )

    @property
    def real(self) -> Bool[Tensor, "batch position"]:
        """Return True for each position with a token."""
        return padding(self.lengths, self.tokens.shape[1]).readable()

    @property
    def target_in(self) -> Tokens:
        """Return the decoder's input: the start and all tokens but the last."""
        return torch.cat(
            [
                torch.full_like(self.tokens[:, :1], self.special.start),
                self.tokens[:, :-1],
            ],
            1,
        )

    def inputs(self, kind: str) -> dict[str, Tensor]:
        """Return the inputs of transformers' class `kind`."""
        segments = {} if self.segments is None else {"token_type_ids": self.segments}
        written = (
            {"decoder_input_ids": self.target_in}
            if kind == "AutoModelForSeq2SeqLM"
            else {}
        )
        return {
            "input_ids": self.tokens,
            "attention_mask": self.real.long(),
            **segments,
            **written,
        }


def encoder_of(model: nn.Module) -> BertEncoder | None:
    """Return the encoder of a BERT."""
    return (
        model.encoder if isinstance(model, Bert | BertClassifier | BertSpans) else None
    )


def check_parity(
    model: nn.Module, context: int, out: Path, files: Files, tokenizer: Tokenizer
) -> list[str]:
    """Compare a model with its export: the tensors, the outputs of regard, and those of transformers if installed.

    Raises:
        RunError: the two differ; the message has the largest difference.
    """
    check_tensors(files.tensors, out)
    again = build_model(families.read(Folder(out)))
    examples = [
        ParityBatch.of(texts, min(tokens, context), model, tokenizer)
        for texts, tokens in SHAPES
    ]
    expected = [outputs(model, batch) for batch in examples]
    for batch, own in zip(examples, expected, strict=True):
        found = outputs(again, batch)
        for kind, named in own.items():
            for name, tensor in named.items():
                compare(tensor, found[kind][name], out)
    return checked_against(
        all(run_by_transformers(examples, expected, kind, out) for kind in expected[0])
    )


def check_tensors(tensors: Mapping[str, Tensor], out: Path) -> None:
    """Raises RunError for a tensor of the files that differs from the one written."""
    found = Folder(out).tensors()
    for name, tensor in tensors.items():
        if name not in found or not torch.equal(found[name], tensor):
            raise RunError(
                f"{out}: {name} differs in the written files; they are removed"
            )


@torch.no_grad()
def run_by_transformers(
    examples: Sequence[ParityBatch], expected: Sequence[Outputs], kind: str, out: Path
) -> bool:
    """Compare the outputs with those of transformers' class `kind`; return False without transformers. Raises RunError
    for a difference."""
    loaded = as_transformers(out, kind)
    if loaded is None:
        return False
    for batch, outputs in zip(examples, expected, strict=True):
        theirs = loaded(**batch.inputs(kind))
        for name, own in outputs[kind].items():
            compare(
                own,
                theirs[name]
                if theirs[name].ndim == own.ndim
                else theirs[name][batch.real],
                out,
            )
    return True


@torch.no_grad()
def outputs(model: nn.Module, batch: ParityBatch) -> Outputs:
    """Return the outputs of a model; a sequence-to-sequence model scores the source as its target."""
    tokens, lengths, real = batch.tokens, batch.lengths, batch.real
    match model:
        case GPT2() | Llama():
            logits, _ = model(tokens, model.begin(len(tokens)))
            return {"AutoModelForCausalLM": {"logits": logits[real]}}
        case EncoderDecoder():
            logits = model(tokens, lengths, batch.target_in)
            return {"AutoModelForSeq2SeqLM": {"logits": logits[real]}}
        case BertClassifier():
            return {
                "AutoModelForSequenceClassification": {
                    "logits": model(tokens, lengths, batch.segments)
                }
            }
        case GPT2Classifier():
            return {
                "AutoModelForSequenceClassification": {"logits": model(tokens, lengths)}
            }
        case BertTagger():
            return {
                "AutoModelForTokenClassification": {
                    "logits": model(tokens, lengths)[real]
                }
            }
        case BertSpans():
            begins, ends = model(tokens, lengths, batch.segments).unbind(-1)
            return {
                "AutoModelForQuestionAnswering": {
                    "start_logits": begins[real],
                    "end_logits": ends[real],
                }
            }
        case _:
            assert isinstance(model, Bert)
            return bert_outputs(model, batch)


def bert_outputs(model: Bert, batch: ParityBatch) -> Outputs:
    """Return the encoder's states and the outputs of each head."""
    states = model(batch.tokens, batch.lengths, batch.segments)
    pooled = None if model.pooler is None else model.pooler(states)
    words = None if model.predictions is None else model.predictions(states)[batch.real]
    follows = None if model.next_sentence is None else model.next_sentence(pooled)
    found = {"AutoModel": {"last_hidden_state": states[batch.real]}}
    if pooled is not None:
        found["AutoModel"]["pooler_output"] = pooled
    if words is not None and follows is not None:
        found["AutoModelForPreTraining"] = {
            "prediction_logits": words,
            "seq_relationship_logits": follows,
        }
    elif words is not None:
        found["AutoModelForMaskedLM"] = {"logits": words}
    elif model.discriminator is not None:
        found["AutoModelForPreTraining"] = {
            "logits": model.discriminator(states)[batch.real]
        }
    elif follows is not None:
        found["AutoModelForNextSentencePrediction"] = {"logits": follows}
    return found
