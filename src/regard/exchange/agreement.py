"""Whether what was exported computes the same as the run."""

from pathlib import Path

import torch
from torch import Tensor, nn

from regard.exchange.comparison import SHAPES, against, as_transformers, compare
from regard.exchange.runs import built
from regard.models.bert import Bert
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.gpt2 import GPT2
from regard.pretrained import families
from regard.pretrained.folder import Folder
from regard.pretrained.names import Order
from regard.text.special import END, START


def checked(model: nn.Module, context: int, out: Path, order: Order) -> list[str]:
    """Compare a model with what was exported of it, read back and, where transformers is installed, run by it.

    Raises:
        RunError: the two differ, with the largest difference.
    """
    named = torch.tensor([-1 if theirs is None else theirs for theirs in order])
    again, loaded = built(families.read(Folder(out))), as_transformers(out, kind(model))
    for texts, tokens in SHAPES:
        chosen = END + torch.arange(texts * min(tokens, context)).view(texts, -1) % (len(order) - END)
        own = numbers(model, chosen)
        compare(own, numbers(again, chosen), out)
        if loaded is not None:
            with torch.no_grad():
                more = {"decoder_input_ids": named[begun(chosen)]} if isinstance(model, EncoderDecoder) else {}
                theirs = loaded(named[chosen], **more)
            if "logits" in theirs:
                compare(own[..., named >= 0], theirs.logits[..., named[named >= 0]], out)
            else:
                compare(own, theirs.last_hidden_state, out)
    return against(loaded)


def kind(model: nn.Module) -> str:
    """The class that transformers runs such a model with."""
    if isinstance(model, GPT2):
        return "AutoModelForCausalLM"
    if isinstance(model, EncoderDecoder):
        return "AutoModelForSeq2SeqLM"
    return "AutoModelForMaskedLM" if isinstance(model, Bert) and model.predictions is not None else "AutoModel"


@torch.no_grad()
def numbers(model: nn.Module, ids: Tensor) -> Tensor:
    """What the model gives for whole texts: logits, or states where it has no more. What makes texts of texts is made
    to repeat them."""
    lengths = torch.full((len(ids),), ids.shape[1])
    if isinstance(model, GPT2):
        return model(ids, model.begin(len(ids)))[0]
    if isinstance(model, EncoderDecoder):
        return model(ids, lengths, begun(ids))
    assert isinstance(model, Bert)
    states = model(ids, lengths)
    return states if model.predictions is None else model.predictions(states)


def begun(ids: Tensor) -> Tensor:
    """What a decoder is given to write these: START, and all but the last."""
    return torch.cat([torch.full_like(ids[:, :1], START), ids[:, :-1]], 1)
