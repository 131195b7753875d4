"""Whether what was exported computes the same as the run."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.errors import RunError
from regard.hub.formats import families
from regard.hub.formats.folder import Folder
from regard.hub.formats.pretrained_model import Files
from regard.hub.parity_texts import Given
from regard.hub.text_runs import built
from regard.hub.tolerances import SHAPES, against, as_transformers, compare
from regard.models.bert import Bert, BertClassifier, BertSpans
from regard.models.gpt2 import GPT2
from regard.nn.encoder_decoder import EncoderDecoder
from regard.text import Tokenizer

Outputs = dict[str, dict[str, Tensor]]
"""What a model gives, by the class that transformers runs such a model with and the name that it has there: of whole
texts `(batch, ...)`, of their tokens `(token, ...)` without those of padding."""


def checked(model: nn.Module, context: int, out: Path, files: Files, tokenizer: Tokenizer) -> list[str]:
    """Compare a model with what was exported of it: the tensors one by one, and what it computes, read back and, where
    transformers is installed, run by it.

    Raises:
        RunError: the two differ, with the largest difference.
    """
    kept(files.tensors, out)
    again = built(families.read(Folder(out)))
    examples = [Given.of(texts, min(tokens, context), model, tokenizer) for texts, tokens in SHAPES]
    expected = [outputs(model, given) for given in examples]
    for given, own in zip(examples, expected, strict=True):
        found = outputs(again, given)
        for kind, named in own.items():
            for name, tensor in named.items():
                compare(tensor, found[kind][name], out)
    return against(all(run_by_transformers(examples, expected, kind, out) for kind in expected[0]))


def kept(tensors: Mapping[str, Tensor], out: Path) -> None:
    """Raises RunError where a tensor of the files is not what was written."""
    found = Folder(out).tensors()
    for name, tensor in tensors.items():
        if name not in found or not torch.equal(found[name], tensor):
            raise RunError(f"{out}: {name} is not in the files as it was written; they are removed")


@torch.no_grad()
def run_by_transformers(examples: Sequence[Given], expected: Sequence[Outputs], kind: str, out: Path) -> bool:
    """Whether transformers is there to run the files, by its class `kind`. Raises RunError where it finds other
    numbers."""
    loaded = as_transformers(out, kind)
    if loaded is None:
        return False
    for given, outputs in zip(examples, expected, strict=True):
        theirs = loaded(**given.named(kind))
        for name, own in outputs[kind].items():
            compare(own, theirs[name] if theirs[name].ndim == own.ndim else theirs[name][given.real], out)
    return True


@torch.no_grad()
def outputs(model: nn.Module, given: Given) -> Outputs:
    """What the model gives for some texts. What makes texts of texts is made to repeat them."""
    tokens, lengths, real = given.tokens, given.lengths, given.real
    match model:
        case GPT2():
            logits, _ = model(tokens, model.begin(len(tokens)))
            return {"AutoModelForCausalLM": {"logits": logits[real]}}
        case EncoderDecoder():
            logits = model(tokens, lengths, given.begun)
            return {"AutoModelForSeq2SeqLM": {"logits": logits[real]}}
        case BertClassifier():
            return {"AutoModelForSequenceClassification": {"logits": model(tokens, lengths, given.segments)}}
        case BertSpans():
            begins, ends = model(tokens, lengths, given.segments).unbind(-1)
            return {"AutoModelForQuestionAnswering": {"start_logits": begins[real], "end_logits": ends[real]}}
        case _:
            assert isinstance(model, Bert)
            return bert_outputs(model, given)


def bert_outputs(model: Bert, given: Given) -> Outputs:
    """The encoder's states, and what each part makes of them that stands on it."""
    states = model(given.tokens, given.lengths, given.segments)
    pooled = None if model.pooler is None else model.pooler(states)
    words = None if model.predictions is None else model.predictions(states)[given.real]
    follows = None if model.next_sentence is None else model.next_sentence(pooled)
    found = {"AutoModel": {"last_hidden_state": states[given.real]}}
    if pooled is not None:
        found["AutoModel"]["pooler_output"] = pooled
    if words is not None and follows is not None:
        found["AutoModelForPreTraining"] = {"prediction_logits": words, "seq_relationship_logits": follows}
    elif words is not None:
        found["AutoModelForMaskedLM"] = {"logits": words}
    elif follows is not None:
        found["AutoModelForNextSentencePrediction"] = {"logits": follows}
    return found
