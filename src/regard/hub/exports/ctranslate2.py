"""Export of Transformers to CTranslate2."""

from pathlib import Path
from typing import Any, cast

import torch
from einops import rearrange, repeat
from torch import Tensor, nn

from regard.attention.heads import MultiHead
from regard.data.batching import collate
from regard.errors import InputError
from regard.hub.card import write_card
from regard.hub.exports.tokenizers import write_preparation
from regard.hub.formats.settings import check_attention
from regard.hub.tolerances import SHAPES, compare
from regard.models.positions import RELATIVE_POSITIONS
from regard.models.transformer import Transformer
from regard.nn.decoders.transformer import DecoderLayer, TransformerDecoder
from regard.nn.embeddings import Positions, TokenEmbedding
from regard.nn.encoders.transformer import EncoderLayer, TransformerEncoder
from regard.nn.sublayers import FeedForward, PreNorm, Residual
from regard.runs.load import load
from regard.storage.atomic import explained, new_folder
from regard.text import Tokenizer

LONGEST = 1024
"""The number of exported positions for a model without a limit."""


def export_ctranslate2(path: Path, out: Path) -> list[str]:
    """Export a run's Transformer to the folder `out` for CTranslate2, and compare the log-probabilities of given
    targets at three sizes.

    Returns: the runtimes that checked the export.

    Raises:
        InputError: the run's model is no Transformer or has another score or alignment, or `out` exists.
        RunError: the export computes other values; it is removed.
    """
    run = load(path, "cpu")
    model = run.model
    if not isinstance(model, Transformer):
        raise InputError(f"{path}: is a model named {run.config.model.name}; ctranslate2 takes transformer")
    check_attention(run.config.model, str(path))
    if (name := run.config.model.positions) in RELATIVE_POSITIONS:
        raise InputError(f"{path}: model.positions is {name!r}; ctranslate2 takes absolute ones")
    with new_folder(out), explained(out):
        write_card(path, out, "CTranslate2")
        write_preparation(run, out)
        save(model, run.tokenizers.source, run.tokenizers.target, out)
        check(model, run.tokenizers.source, run.tokenizers.target, out)
    return ["CTranslate2"]


def save(model: Transformer, source: Tokenizer, target: Tokenizer, out: Path) -> None:
    """Write the model with its vocabularies."""
    from ctranslate2.specs import TransformerSpec

    encoder, decoder = cast(TransformerEncoder, model.encoder), cast(TransformerDecoder, model.decoder)
    layers: tuple[list[Any], list[Any]] = [*encoder.layers], [*decoder.layers]
    before = isinstance(layers[0][0].residuals[0], PreNorm)
    sizes = len(layers[0]), len(layers[1])
    spec: Any = TransformerSpec.from_config(
        sizes,
        layers[0][0].self_attention.heads,
        pre_norm=before,
        no_final_norm=not before,
        activation=activation(layers[0][0].feedforward),
    )
    most = model.max_source or LONGEST
    for part, side, own in ((spec.encoder, encoder, layers[0]), (spec.decoder, decoder, layers[1])):
        if before:
            _norm(part.layer_norm, cast(nn.LayerNorm, side.norm))
        _positions(part, side.positions, cast(TokenEmbedding, side.embedding), most)
        for written, each in zip(part.layer, own, strict=True):
            _layer(written, each)
    _embedding(spec.encoder.embeddings[0], cast(TokenEmbedding, encoder.embedding))
    _embedding(spec.decoder.embeddings, decoder.embedding)
    _linear(spec.decoder.projection, cast(nn.Linear, decoder.output))
    spec.register_source_vocabulary(entries(source))
    spec.register_target_vocabulary(entries(target))
    ids = target.special
    spec.config.unk_token, start, spec.config.eos_token = target.pieces([ids.unknown, ids.start, ids.end])
    spec.config.bos_token = spec.config.decoder_start_token = start
    spec.config.add_source_eos = True
    spec.validate()
    spec.save(str(out))


def activation(network: FeedForward) -> Any:
    """CTranslate2's name for the activation between the two layers."""
    from ctranslate2.specs.common_spec import Activation

    return {nn.ReLU: Activation.RELU, nn.GELU: Activation.GELU, nn.SiLU: Activation.SWISH}[type(network[1])]


def entries(tokenizer: Tokenizer) -> list[str]:
    """The entries of the vocabulary in the order of their ids."""
    return [*tokenizer.vocabulary]


def ordinary(tokenizer: Tokenizer) -> Tensor:
    """All ids that are not special."""
    return torch.tensor([index for index in range(tokenizer.size) if index not in tokenizer.special.all])


def _layer(spec: Any, layer: EncoderLayer | DecoderLayer) -> None:
    """Fill in the attentions, the feed-forward network and their norms."""
    residuals = cast("list[Residual]", [*layer.residuals])
    _self_attention(spec.self_attention, layer.self_attention)
    _norm(spec.self_attention.layer_norm, residuals[0].norm)
    if isinstance(layer, DecoderLayer):
        query, key, value, output = projections(layer.cross_attention)
        _set(spec.attention.linear[0], *query)
        _set(spec.attention.linear[1], *joined(key, value))
        _set(spec.attention.linear[2], *output)
        _norm(spec.attention.layer_norm, residuals[1].norm)
    _network(spec.ffn, layer.feedforward)
    _norm(spec.ffn.layer_norm, residuals[-1].norm)


def _self_attention(spec: Any, attention: MultiHead) -> None:
    *three, output = projections(attention)
    _set(spec.linear[0], *joined(*three))
    _set(spec.linear[1], *output)


Affine = tuple[Tensor, Tensor]
"""A weight and a bias."""


def projections(attention: MultiHead) -> tuple[Affine, Affine, Affine, Affine]:
    """The projections of queries, keys, values and the output. Shared keys and values are repeated for each head."""
    times = attention.heads // attention.key_value_heads

    def wide(linear: nn.Linear) -> Affine:
        return spread(linear.weight), spread(linear.bias)

    def spread(rows: Tensor) -> Tensor:
        heads = rearrange(rows, "(g d) ... -> g d ...", g=attention.key_value_heads)
        return rearrange(repeat(heads, "g d ... -> g r d ...", r=times), "g r d ... -> (g r d) ...")

    query, output = attention.query, attention.output
    return (query.weight, query.bias), wide(attention.key), wide(attention.value), (output.weight, output.bias)


def joined(*parts: Affine) -> Affine:
    """One map whose output concatenates the outputs of several maps."""
    return torch.cat([weight for weight, _ in parts]), torch.cat([bias for _, bias in parts])


def _network(spec: Any, network: FeedForward) -> None:
    first, _, second = network
    _linear(spec.linear_0, cast(nn.Linear, first))
    _linear(spec.linear_1, cast(nn.Linear, second))


def _linear(spec: Any, linear: nn.Linear) -> None:
    _set(spec, linear.weight, linear.bias)


def _set(spec: Any, weight: Tensor, bias: Tensor) -> None:
    spec.weight, spec.bias = weight.detach().numpy(), bias.detach().numpy()


def _norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = norm.weight.detach().numpy(), norm.bias.detach().numpy()


def _embedding(spec: Any, embedding: TokenEmbedding) -> None:
    spec.weight = embedding.table.weight.detach().numpy()


@torch.no_grad()
def _positions(spec: Any, positions: Positions, embedding: TokenEmbedding, most: int) -> None:
    """Fill in the positional encodings and the factor of the embeddings."""
    spec.scale_embeddings = embedding.scale
    spec.position_encodings.encodings = positions(torch.zeros(1, most, embedding.width))[0].numpy()


@torch.no_grad()
def check(model: Transformer, source: Tokenizer, target: Tokenizer, out: Path) -> None:
    """Raises RunError if CTranslate2's log-probabilities differ."""
    from ctranslate2 import Translator

    translator = Translator(str(out), device="cpu", compute_type="float32", intra_threads=1)
    names, most = (entries(source), entries(target)), model.max_source or LONGEST
    for texts, longest in SHAPES:
        tokens = min(longest, most - 1)  # followed by the end
        order = torch.arange(texts * tokens).view(texts, tokens)
        sources, targets = (ordinary(each)[order % len(ordinary(each))].tolist() for each in (source, target))
        batch = collate(list(zip(sources, targets, strict=True)), source.special, target.special)
        logits = model(batch.source, batch.source_lengths, batch.target_in).log_softmax(-1)
        own = logits.gather(-1, batch.target_out[..., None])[..., 0]
        sides = zip(names, (sources, targets), strict=True)
        pieces = [[[each[index] for index in row] for row in rows] for each, rows in sides]
        found = translator.score_batch(*pieces)
        compare(own, torch.tensor([each.log_probs for each in found]), out)
