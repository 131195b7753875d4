"""CTranslate2: Transformers converted to it, and search by it, which is faster on a CPU."""

import logging
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
from regard.decoding.converted import (
    FOLDER,
    SETTINGS,
    ConvertedModel,
    SearchSettings,
    write_settings,
)
from regard.decoding.hypothesis import Hypothesis
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
        search: Search | None = None,
        files: Sequence[str] = (),
        int8: bool = False,
    ) -> None:
        """Prepare a model for which `can_convert` is true.

        Args:
            tokenizers: Its tokenizers.
            folder: The folder of the run.
            key: A digest of the run's files.
            search: The run's own search, to predict by it without PyTorch.
            files: The names of the run's files that a prediction depends on, with
                both tokenizers first.
            int8: Whether to multiply in 8-bit integers.
        """
        self.model = model
        self.tokenizers = tokenizers
        self.int8 = int8
        self.parent = folder / FOLDER
        self.key = key
        self.run_search = search
        self.files = files
        self._versions = weight_versions(model)
        self._lock = threading.Lock()
        self._converted: ConvertedModel | None = None
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

    def search(
        self, ids: Sequence[list[int]], search: Search
    ) -> list[Hypothesis | None]:
        """Return what `ConvertedModel.search` finds with settings that `supports` accepts."""
        converted = self._open()
        assert converted is not None
        return converted.search(ids, self._settings(search))

    def _settings(self, search: Search) -> SearchSettings:
        """Return the settings that CTranslate2 knows."""
        return SearchSettings(
            search.beam,
            search.early_stopping,
            search.length_penalty,
            search.length_offset,
            search.length_ratio,
            search.length_extra,
            self.model.max_source or MAX_POSITIONS,
            self.model.max_target or MAX_POSITIONS,
        )

    def _open(self) -> ConvertedModel | None:
        """Return the converted model, or None if it can't be written.

        Weights are converted first if necessary.
        """
        folder = self.parent / self.key
        with self._lock:
            if self._converted is None and not self._failed:
                try:
                    if not (folder / SETTINGS).is_file():
                        self._convert(folder)
                    sides = self.tokenizers.source, self.tokenizers.target
                    threads = torch.get_num_threads()
                    self._converted = ConvertedModel(
                        folder, *sides, int8=self.int8, threads=threads
                    )
                except RunError as error:
                    self._failed = True
                    if self.int8:
                        raise
                    log.warning("%s\nDecoding continues in PyTorch.", error)
            return self._converted

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
                search = self.run_search
                settings = None
                if search is not None and supports_search(search):
                    settings = self._settings(search)
                write_settings(temporary, settings, self.files)
                # another process may have been faster
                is_complete = (folder / SETTINGS).is_file()
                for path in list(self.parent.iterdir()):
                    if path.suffix != ".tmp" and not (path == folder and is_complete):
                        discard(path)
                if not is_complete:
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
