"""Whether what was exported computes the same as the run."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.errors import RunError
from regard.hub.formats import families
from regard.hub.formats.folder import Folder
from regard.hub.formats.pretrained_model import Files
from regard.hub.parity_texts import ParityBatch
from regard.hub.text_runs import build_model
from regard.hub.tolerances import SHAPES, as_transformers, checked_against, compare
from regard.models.bert import Bert, BertClassifier, BertSpans
from regard.models.gpt2 import GPT2
from regard.nn.encoder_decoder import EncoderDecoder
from regard.text import Tokenizer

Outputs = dict[str, dict[str, Tensor]]
"""What a model gives, by the class that transformers runs such a model with and the name that it has there: of whole
texts `(batch, ...)`, of their tokens `(token, ...)` without those of padding."""


def check_parity(model: nn.Module, context: int, out: Path, files: Files, tokenizer: Tokenizer) -> list[str]:
    """Compare a model with what was exported of it: the tensors one by one, and what it computes, read back and, where
    transformers is installed, run by it.

    Raises:
        RunError: the two differ, with the largest difference.
    """
    check_tensors(files.tensors, out)
    again = build_model(families.read(Folder(out)))
    examples = [ParityBatch.of(texts, min(tokens, context), model, tokenizer) for texts, tokens in SHAPES]
    expected = [outputs(model, batch) for batch in examples]
    for batch, own in zip(examples, expected, strict=True):
        found = outputs(again, batch)
        for kind, named in own.items():
            for name, tensor in named.items():
                compare(tensor, found[kind][name], out)
    return checked_against(all(run_by_transformers(examples, expected, kind, out) for kind in expected[0]))


def check_tensors(tensors: Mapping[str, Tensor], out: Path) -> None:
    """Raises RunError where a tensor of the files is not what was written."""
    found = Folder(out).tensors()
    for name, tensor in tensors.items():
        if name not in found or not torch.equal(found[name], tensor):
            raise RunError(f"{out}: {name} is not in the files as it was written; they are removed")


@torch.no_grad()
def run_by_transformers(examples: Sequence[ParityBatch], expected: Sequence[Outputs], kind: str, out: Path) -> bool:
    """Whether transformers is there to run the files, by its class `kind`. Raises RunError where it finds other
    numbers."""
    loaded = as_transformers(out, kind)
    if loaded is None:
        return False
    for batch, outputs in zip(examples, expected, strict=True):
        theirs = loaded(**batch.inputs(kind))
        for name, own in outputs[kind].items():
            compare(own, theirs[name] if theirs[name].ndim == own.ndim else theirs[name][batch.real], out)
    return True


@torch.no_grad()
def outputs(model: nn.Module, batch: ParityBatch) -> Outputs:
    """What the model gives for some texts. What makes texts of texts is made to repeat them."""
    tokens, lengths, real = batch.tokens, batch.lengths, batch.real
    match model:
        case GPT2():
            logits, _ = model(tokens, model.begin(len(tokens)))
            return {"AutoModelForCausalLM": {"logits": logits[real]}}
        case EncoderDecoder():
            logits = model(tokens, lengths, batch.target_in)
            return {"AutoModelForSeq2SeqLM": {"logits": logits[real]}}
        case BertClassifier():
            return {"AutoModelForSequenceClassification": {"logits": model(tokens, lengths, batch.segments)}}
        case BertSpans():
            begins, ends = model(tokens, lengths, batch.segments).unbind(-1)
            return {"AutoModelForQuestionAnswering": {"start_logits": begins[real], "end_logits": ends[real]}}
        case _:
            assert isinstance(model, Bert)
            return bert_outputs(model, batch)


def bert_outputs(model: Bert, batch: ParityBatch) -> Outputs:
    """The encoder's states, and what each part makes of them that stands on it."""
    states = model(batch.tokens, batch.lengths, batch.segments)
    pooled = None if model.pooler is None else model.pooler(states)
    words = None if model.predictions is None else model.predictions(states)[batch.real]
    follows = None if model.next_sentence is None else model.next_sentence(pooled)
    found = {"AutoModel": {"last_hidden_state": states[batch.real]}}
    if pooled is not None:
        found["AutoModel"]["pooler_output"] = pooled
    if words is not None and follows is not None:
        found["AutoModelForPreTraining"] = {"prediction_logits": words, "seq_relationship_logits": follows}
    elif words is not None:
        found["AutoModelForMaskedLM"] = {"logits": words}
    elif follows is not None:
        found["AutoModelForNextSentencePrediction"] = {"logits": follows}
    return found
