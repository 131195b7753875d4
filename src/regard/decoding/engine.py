"""CTranslate2: Transformers converted to it, and search by it, which is faster on a CPU."""

import logging
import math
import os
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.align import Softmax
from regard.attention.heads import MultiHead
from regard.attention.observer import current_observer
from regard.attention.scores import ScaledDot
from regard.data.tokens import Tokenizers
from regard.decoding.sampling import Hypothesis, LengthPenalty, NoTokenError
from regard.decoding.search import DecodingConstraints, Search
from regard.errors import InputError, RunError
from regard.nn.decoders import EncoderDecoder
from regard.nn.layers import FeedForward, Output, PreNorm
from regard.nn.transformer import (
    DecoderLayer,
    TransformerDecoder,
    TransformerEncoder,
)
from regard.storage.atomic import discard, explain_errors
from regard.text import Tokenizer
from regard.work import is_debugging

MAX_POSITIONS = 1024
"""Number of exported positions of a model without a limit."""
Affine = tuple[Tensor, Tensor]
"""A weight and a bias."""


def supports_model(model: EncoderDecoder) -> bool:
    """Return whether CTranslate2 has all layers of the model.

    It has Transformers with scaled dot products, softmax and absolute positions.
    """
    encoder = model.encoder
    decoder: Any = model.decoder
    sides = type(encoder), type(decoder)
    if sides != (TransformerEncoder, TransformerDecoder):
        return False
    attentions = [layer.self_attention for layer in encoder.layers]
    for layer in decoder.layers:
        attentions += [layer.self_attention, layer.cross_attention]
    return type(decoder.output) is Output and all(
        type(attention) is MultiHead
        and type(attention.attend.score) is ScaledDot
        and type(attention.attend.align) is Softmax
        and attention.positions is None
        for attention in attentions
    )


def save_transformer(
    model: EncoderDecoder,
    source: Tokenizer,
    target: Tokenizer,
    folder: Path,
) -> None:
    """Write a model that `supports_model` accepts, with its vocabularies."""
    from ctranslate2.specs import TransformerSpec

    encoder = model.encoder
    decoder: Any = model.decoder
    first_layer: Any = encoder.layers[0]
    norm_before = isinstance(first_layer.residuals[0], PreNorm)
    spec: Any = TransformerSpec.from_config(
        (len(encoder.layers), len(decoder.layers)),
        first_layer.self_attention.heads,
        pre_norm=norm_before,
        no_final_norm=not norm_before,
        activation=activation(first_layer.feedforward),
    )
    size = model.max_source or MAX_POSITIONS
    tables = spec.encoder.embeddings[0], spec.decoder.embeddings
    sides: Any = ((spec.encoder, encoder), (spec.decoder, decoder))
    for table, (side_spec, side) in zip(tables, sides, strict=True):
        if norm_before:
            fill_norm(side_spec.layer_norm, side.norm)
        embedding = side.embedding
        table.weight = embedding.table.weight.detach().numpy()
        side_spec.scale_embeddings = embedding.scale
        encodings = side.positions(torch.zeros(1, size, embedding.width))[0]
        side_spec.position_encodings.encodings = encodings.detach().numpy()
        for layer_spec, layer in zip(side_spec.layer, side.layers, strict=True):
            fill_layer(layer_spec, layer)
    fill(spec.decoder.projection, decoder.output)
    spec.register_source_vocabulary([*source.vocabulary])
    spec.register_target_vocabulary([*target.vocabulary])
    ids = target.special
    names = target.pieces([ids.unknown, ids.start, ids.end])
    config = spec.config
    config.unk_token, config.bos_token, config.eos_token = names
    config.decoder_start_token = config.bos_token
    config.add_source_eos = True
    spec.validate()
    spec.save(str(folder))


def activation(network: FeedForward) -> Any:
    """Return CTranslate2's name for the activation between the two layers."""
    from ctranslate2.specs.common_spec import Activation

    function = network[1]
    if isinstance(function, nn.GELU) and function.approximate == "tanh":
        return Activation.GELUTanh
    names = {
        nn.ReLU: Activation.RELU,
        nn.GELU: Activation.GELU,
        nn.SiLU: Activation.SWISH,
    }
    return names[type(function)]


def fill_layer(spec: Any, layer: Any) -> None:
    """Fill in the attentions, the feed-forward network and their norms.

    Args:
        spec: CTranslate2's layer.
        layer: An `EncoderLayer` or a `DecoderLayer`.
    """
    norms = [residual.norm for residual in layer.residuals]
    query, key, value, output = projections(layer.self_attention)
    fill_attention(spec.self_attention, [query + key + value, output], norms[0])
    if isinstance(layer, DecoderLayer):
        query, key, value, output = projections(layer.cross_attention)
        fill_attention(spec.attention, [query, key + value, output], norms[1])
    first, _, second = layer.feedforward
    fill(spec.ffn.linear_0, first)
    fill(spec.ffn.linear_1, second)
    fill_norm(spec.ffn.layer_norm, norms[-1])


def projections(attention: MultiHead) -> list[list[Any]]:
    """Return the projections of queries, keys, values and the output, each in a list.

    Keys and values that heads share are repeated for each head.
    """
    groups = attention.key_value_heads

    def repeat(part: Tensor) -> Tensor:
        heads = part.unflatten(0, (groups, -1))
        return heads.repeat_interleave(attention.heads // groups, 0).flatten(0, 1)

    parts = attention.query, attention.key, attention.value, attention.output
    query, key, value, output = ([(part.weight, part.bias)] for part in parts)
    key, value = (
        [(repeat(weight), repeat(bias)) for weight, bias in part]
        for part in (key, value)
    )
    return [query, key, value, output]


def fill_attention(spec: Any, maps: Sequence[Sequence[Affine]], norm: Any) -> None:
    """Fill in the maps of an attention, each concatenated of several, and its norm."""
    for map_spec, parts in zip(spec.linear, maps, strict=True):
        weights, biases = zip(*parts, strict=True)
        map_spec.weight = torch.cat(weights).detach().numpy()
        map_spec.bias = torch.cat(biases).detach().numpy()
    fill_norm(spec.layer_norm, norm)


def fill(spec: Any, linear: Any) -> None:
    """Fill in a linear map."""
    spec.weight = linear.weight.detach().numpy()
    spec.bias = linear.bias.detach().numpy()


def fill_norm(spec: Any, norm: nn.LayerNorm) -> None:
    """Fill in a norm."""
    spec.gamma = norm.weight.detach().numpy()
    spec.beta = norm.bias.detach().numpy()


FOLDER = "ctranslate2"
"""The folder of converted weights inside the folder of a run."""
log = logging.getLogger(__name__)


class Engine:
    """A trained Transformer converted to CTranslate2.

    The weights are converted at the first search that the engine supports, into
    `folder/ctranslate2/KEY`. They are used until a weight is changed in memory.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        tokenizers: Tokenizers,
        folder: Path,
        key: str,
        *,
        int8: bool = False,
    ) -> None:
        """Prepare a model for which `can_convert` is true.

        Args:
            tokenizers: Its tokenizers.
            folder: The folder of the run.
            key: A digest of the run's files.
            int8: Whether to multiply in 8-bit integers.
        """
        self.model = model
        self.tokenizers = tokenizers
        self.int8 = int8
        self.parent = folder / FOLDER
        self.key = key
        self._source_names = [*tokenizers.source.vocabulary]
        self._target_ids = tokenizers.target.vocabulary
        self._versions = weight_versions(model)
        self._lock = threading.Lock()
        self._translator: Any = None
        self._failed = False

    def supports(
        self,
        search: Search,
        constraints: DecodingConstraints | None = None,
    ) -> bool:
        """Return whether the engine finds the same texts as the search in PyTorch.

        It knows no constraints, processors or penalties but that of the length. Nobody
        may observe the model, whose weights must be those of the run.

        Raises:
            InputError: The engine must be used, because it has 8-bit weights, and
                it doesn't support the search.
        """
        is_supported = supports_search(search, constraints)
        if self.int8 and not is_supported:
            raise InputError(
                "--int8 supports greedy and beam search for one text without further "
                "settings. Remove --int8 or the other options."
            )
        return (
            is_supported
            and not is_observed(self.model)
            and weight_versions(self.model) == self._versions
            and self._open() is not None
        )

    @torch.no_grad()
    def search(
        self,
        ids: Sequence[list[int]],
        search: Search,
    ) -> list[Hypothesis | None]:
        """Search for the best text of each source.

        Args:
            ids: The tokens of each source, without the end.
            search: Settings that `supports` accepts.

        Returns:
            A hypothesis for each source. None where the output reaches its limit or has
            a token that no text contains: the search in PyTorch knows how to go on.
        """
        lengths = torch.tensor([len(tokens) + 1 for tokens in ids])
        limits = search.limit(lengths).tolist()
        max_source = self.model.max_source or MAX_POSITIONS
        max_target = self.model.max_target or MAX_POSITIONS
        rows = [
            row
            for row, limit in enumerate(limits)
            if 0 < len(ids[row]) < max_source and limit <= max_target
        ]
        results: list[Hypothesis | None] = [None] * len(ids)
        if not rows:
            return results
        # Without a penalty, CTranslate2 ends a beam once its best hypothesis has ended;
        # with the slightest one, once as many hypotheses have ended as it is wide.
        exponent = 1e-6 if search.early_stopping else 0
        names = self._source_names
        outputs = self._open().translate_batch(
            [[names[token] for token in ids[row]] for row in rows],
            beam_size=search.beam,
            num_hypotheses=search.beam if search.early_stopping else 1,
            length_penalty=exponent,
            min_decoding_length=0,
            max_input_length=0,
            max_decoding_length=max(limits[row] for row in rows),
            return_scores=True,
            return_end_token=True,
        )
        penalty = LengthPenalty(search.length_penalty, search.length_offset)
        special = self.tokenizers.target.special
        for row, output in zip(rows, outputs, strict=True):
            hypotheses = []
            for names, score in zip(output.hypotheses, output.scores, strict=True):
                if not math.isfinite(score):
                    raise NoTokenError
                *tokens, last = [self._target_ids[name] for name in names]
                is_usable = last == special.end and len(names) <= limits[row]
                if is_usable and {*special.unwritten}.isdisjoint(tokens):
                    score = penalty(score * len(names) ** exponent, len(names))
                    hypotheses.append(Hypothesis(tuple(tokens), score, finished=True))
            if len(hypotheses) == len(output.scores):
                results[row] = max(hypotheses, key=lambda item: item.score)
        return results

    def _open(self) -> Any:
        """Return CTranslate2's translator, or None if it can't be written.

        Weights are converted first if necessary.
        """
        from ctranslate2 import Translator

        folder = self.parent / self.key
        with self._lock:
            if self._translator is None and not self._failed:
                try:
                    if not folder.is_dir():
                        self._convert(folder)
                    self._translator = Translator(
                        str(folder),
                        device="cpu",
                        compute_type="int8" if self.int8 else "float32",
                        intra_threads=torch.get_num_threads(),
                    )
                except RunError as error:
                    self._failed = True
                    if self.int8:
                        raise
                    log.warning("%s\nDecoding continues in PyTorch.", error)
            return self._translator

    def _convert(self, folder: Path) -> None:
        """Write the weights and remove those of earlier weights of the run.

        Raises:
            RunError: The folder can't be written.
        """
        temporary = self.parent / f"{self.key}.{os.getpid()}.tmp"
        with explain_errors(self.parent):
            try:
                temporary.mkdir(parents=True, exist_ok=True)
                tokenizers = self.tokenizers
                sides = tokenizers.source, tokenizers.target
                save_transformer(self.model, *sides, temporary)
                for path in list(self.parent.iterdir()):
                    if path.suffix != ".tmp" and path != folder:
                        discard(path)
                if not folder.is_dir():  # another process may have been faster
                    temporary.rename(folder)
            finally:
                discard(temporary)


def can_convert(model: nn.Module, tokenizers: Tokenizers) -> bool:
    """Return whether the model can run in CTranslate2, and CTranslate2 is installed."""
    if not isinstance(model, EncoderDecoder) or find_spec("ctranslate2") is None:
        return False
    kinds = {(weight.device.type, weight.dtype) for weight in model.parameters()}
    return (
        supports_model(model)
        and model.decoder.output.out_features == tokenizers.target.size
        and not tokenizers.target.special.more_ends
        and not tokenizers.copying
        and kinds == {("cpu", torch.float32)}
    )


def supports_search(
    search: Search,
    constraints: DecodingConstraints | None = None,
) -> bool:
    """Return whether CTranslate2 has all settings of a search, and ends it by the same rule.

    Without `early_stopping` our beam may go on for a longer text that a penalty of the
    length prefers, which CTranslate2's doesn't.
    """
    usual = Search(
        beam=search.beam,
        length_penalty=search.length_penalty,
        length_offset=search.length_offset,
        length_ratio=search.length_ratio,
        length_extra=search.length_extra,
        early_stopping=search.early_stopping,
        seed=search.seed,
    )
    if search != usual or constraints not in (None, DecodingConstraints()):
        return False
    return search.beam == 1 or search.early_stopping or search.length_penalty == 0


def weight_versions(model: nn.Module) -> list[tuple[int, int]]:
    """Return the address and PyTorch's counter of changes of each weight."""
    return [(weight.data_ptr(), weight._version) for weight in model.parameters()]


def is_observed(model: EncoderDecoder) -> bool:
    """Return whether steps of the model are recorded, changed or checked."""
    if is_debugging() or current_observer() is not None or model.training:
        return True
    _, *parts = model.modules()
    return any(part._forward_hooks or part._forward_pre_hooks for part in parts)
