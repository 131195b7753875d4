"""Export of Transformers and of GPT-2 to CTranslate2."""

from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from regard.data.batches import collate
from regard.errors import InputError
from regard.hub.card import write_card
from regard.hub.exports.inputs import write_inputs
from regard.hub.families.weights import require
from regard.hub.parity import SHAPES, compare
from regard.models.attention import RELATIVE_POSITIONS
from regard.models.gpt2 import GPT2, Block
from regard.models.transformer import Transformer
from regard.nn.ctranslate2 import (
    MAX_POSITIONS,
    activation,
    fill,
    fill_embedding,
    fill_layer,
    fill_norm,
    fill_positions,
    save_transformer,
    set_special_tokens,
)
from regard.nn.output import Output
from regard.runs.load import load
from regard.storage.atomic import explained, new_folder
from regard.text import Tokenizer


def export_ctranslate2(path: Path, out: Path) -> list[str]:
    """Export a run's Transformer or GPT-2 to the folder `out` for CTranslate2, and compare the log-probabilities of
    given targets at three sizes. CTranslate2 puts the end behind each source of a Transformer by itself.

    Returns: the runtimes that checked the export.

    Raises:
        InputError: the run's model is another one or has another score, alignment or output, or `out` exists.
        RunError: the export computes other values; it is removed.
    """
    run = load(path, "cpu")
    model = run.model
    if not isinstance(model, Transformer | GPT2):
        raise InputError(
            f"{path}: is a model named {run.config.model.name}; ctranslate2 takes transformer and gpt2"
        )
    require(run.config.model)
    if (name := run.config.model.positions) in RELATIVE_POSITIONS:
        raise InputError(
            f"{path}: model.positions is {name!r}; ctranslate2 takes absolute ones"
        )
    if isinstance(model, GPT2) and not isinstance(model.output, Output):
        raise InputError(
            f"{path}: model.softmax.kind is {run.config.model.softmax.kind!r}; ctranslate2 takes full"
        )
    with new_folder(out), explained(out):
        write_card(path, out, "CTranslate2")
        write_inputs(run, out, described=False)
        if isinstance(model, GPT2):
            save_gpt2(model, run.tokenizer, out)
            check_gpt2(model, run.tokenizer, out)
        else:
            save_transformer(model, run.tokenizers.source, run.tokenizers.target, out)
            check(model, run.tokenizers.source, run.tokenizers.target, out)
    return ["CTranslate2"]


def save_gpt2(model: GPT2, tokenizer: Tokenizer, out: Path) -> None:
    """Write a GPT-2 with its vocabulary."""
    from ctranslate2.specs import TransformerDecoderModelSpec

    blocks = cast("list[Block]", [*model.blocks])
    kind = activation(blocks[0].feedforward)
    spec: Any = TransformerDecoderModelSpec.from_config(
        len(blocks), blocks[0].self_attention.heads, pre_norm=True, activation=kind
    )
    part, output = spec.decoder, cast(Output, model.output)
    fill_norm(part.layer_norm, model.norm)
    fill_positions(
        part, model.positions, model.embedding, model.context or MAX_POSITIONS
    )
    fill_embedding(part.embeddings, model.embedding)
    fill(part.projection, output.weight, output.bias)
    for written, item in zip(part.layer, blocks, strict=True):
        fill_layer(written, item)
    spec.register_vocabulary(entries(tokenizer))
    set_special_tokens(spec, tokenizer)
    spec.validate()
    spec.save(str(out))


def entries(tokenizer: Tokenizer) -> list[str]:
    """The entries of the vocabulary in the order of their ids."""
    return [*tokenizer.vocabulary]


def ordinary(tokenizer: Tokenizer) -> Tensor:
    """All ids that are not special."""
    return torch.tensor(
        [index for index in range(tokenizer.size) if index not in tokenizer.special.all]
    )


@torch.no_grad()
def check(model: Transformer, source: Tokenizer, target: Tokenizer, out: Path) -> None:
    """Raises RunError if CTranslate2's log-probabilities differ."""
    from ctranslate2 import Translator

    translator = Translator(
        str(out), device="cpu", compute_type="float32", intra_threads=1
    )
    names, most = (entries(source), entries(target)), model.max_source or MAX_POSITIONS
    for texts, longest in SHAPES:
        tokens = min(longest, most - 1)  # followed by the end
        order = torch.arange(texts * tokens).view(texts, tokens)
        sources, targets = (
            ordinary(item)[order % len(ordinary(item))].tolist()
            for item in (source, target)
        )
        batch = collate(
            list(zip(sources, targets, strict=True)), source.special, target.special
        )
        logits = model(batch.source, batch.source_lengths, batch.target_in).log_softmax(
            -1
        )
        own = logits.gather(-1, batch.target_out[..., None])[..., 0]
        sides = zip(names, (sources, targets), strict=True)
        pieces = [
            [[item[index] for index in row] for row in rows] for item, rows in sides
        ]
        results = translator.score_batch(*pieces)
        compare(own, torch.tensor([item.log_probs for item in results]), out)


@torch.no_grad()
def check_gpt2(model: GPT2, tokenizer: Tokenizer, out: Path) -> None:
    """Raises RunError if CTranslate2's log-probabilities differ."""
    from ctranslate2 import Generator

    generator = Generator(
        str(out), device="cpu", compute_type="float32", intra_threads=1
    )
    names = entries(tokenizer)
    for texts, longest in SHAPES:
        tokens = max(2, min(longest, model.context or MAX_POSITIONS))
        ids = ordinary(tokenizer)[
            torch.arange(texts * tokens).view(texts, tokens) % len(ordinary(tokenizer))
        ]
        logits = model(ids, model.begin(texts))[0][:, :-1].log_softmax(-1)
        own = logits.gather(-1, ids[:, 1:, None])[..., 0]
        results = generator.score_batch(
            [[names[index] for index in row] for row in ids.tolist()]
        )
        compare(own, torch.tensor([item.log_probs for item in results]), out)
