"""Any model of the transformers library as a model of regard.

A run file names a folder or a model on the hub: `model: {name: pretrained, path: NAME}`.
Training copies the model's configuration, tokenizer and weights into the run, which
does not need the folder afterwards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.attention.masks import padding
from regard.attention.memory import Memory
from regard.attention.observer import (
    LookupEvent,
    find_observer,
    report_event,
    select_from,
)
from regard.attention.record import ReportsWeights
from regard.errors import InputError
from regard.models.classifier import Classifier
from regard.models.language_model import FULL, LanguageModel, Softmax
from regard.models.published import (
    UNLIMITED,
    accepts,
    check_complete,
    convert_tokenizer,
    find_published,
    library_call,
    library_config,
    load_network,
    load_part,
    quiet_library,
    read_settings,
    require_transformers,
)
from regard.models.sizes import Size
from regard.nn.decoders import Encoder, EncoderDecoder, SequenceDecoder, State
from regard.nn.output import LogitsOutput
from regard.shapes import (
    ClassLogits,
    Float,
    Images,
    Lengths,
    Logits,
    SpanLogits,
    States,
    Tokens,
)
from regard.storage.published_folder import CONFIG, PublishedFolder
from regard.text import Tokenizer
from regard.text.kinds import SpecialTokens

UNBOUNDED_CONTEXT = 512
"""Tokens in a row of a model whose positions have no limit, such as T5."""
HEADS = {
    "class": "ForSequenceClassification",
    "tag": "ForTokenClassification",
    "span": "ForQuestionAnswering",
}
"""How the names of transformers' classes with a head of each kind end."""
MEAN_POOLED = ("clip", "siglip", "beit", "data2vec")
"""How the types of models begin whose image classifiers average positions."""
POOLER = "pooler."
"""The beginning of the names of parameters that no task here reads."""


@dataclass(frozen=True)
class PretrainedConfig:
    """A published model.

    Attributes:
        path: A folder, or a model's name on the hub, OWNER/NAME. It is read when
            training starts.
        revision: Branch, tag or commit on the hub.
        context: Most tokens in a row; by default as many as the model has positions.
        architecture: The published class; filled in when training starts.
        settings: The published configuration; filled in when training starts.
    """

    name: Literal["pretrained"] = "pretrained"
    path: str = ""
    revision: str | None = None
    context: Size | None = None
    architecture: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    one_tokenizer: ClassVar[bool] = True
    shared: ClassVar[bool] = False
    copying: ClassVar[bool] = False
    predictions: ClassVar[bool] = True
    next_sentence: ClassVar[bool] = False
    softmax: ClassVar[Softmax] = FULL

    def __post_init__(self) -> None:
        if not self.path and not self.settings:
            raise ValueError(
                "path is missing; name a folder or a model on the hub, OWNER/NAME"
            )

    @property
    def is_complete(self) -> bool:
        """Whether the published configuration is known."""
        return bool(self.settings)

    @property
    def is_causal(self) -> bool:
        """Whether each position reads the ones before it only."""
        library = require_transformers("model")
        kind = self.settings.get("model_type")
        auto = library.models.auto.modeling_auto
        return (
            kind in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
            and kind not in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
            and not self.network_config().is_encoder_decoder
        )

    def network_config(self) -> Any:
        """Return the configuration object of transformers."""
        return library_config(self.settings)

    def folder(self) -> PublishedFolder:
        """Return the folder of the published model, from the hub if necessary."""
        return find_published(self.path, self.revision)[0]

    def complete_like(self, saved: "PretrainedConfig") -> Any:
        """Return this configuration with what training filled in, from a run's own."""
        filled = {field.name: getattr(saved, field.name) for field in fields(saved)}
        filled |= {"path": self.path, "revision": self.revision}
        return replace(self, **filled | {"context": self.context or saved.context})

    def complete(self) -> tuple["PretrainedConfig", Tokenizer]:
        """Read the published configuration and tokenizer.

        Returns:
            The configuration with all fields, and the tokenizer.

        Raises:
            InputError: The folder is missing, incomplete or unsafe.
            RunError: The hub does not answer.
        """
        folder = self.folder()
        config = self.with_settings(folder)
        library = require_transformers("model")
        # the base model without storage tells its sizes
        with torch.device("meta"), quiet_library(), torch.random.fork_rng(devices=[]):
            network = library.AutoModel.from_config(config.network_config())
        published = load_part(folder, "AutoTokenizer")
        rows = embedding_of(network).num_embeddings
        tokenizer = convert_tokenizer(published, rows, str(folder.path))
        limits = [self.context, position_limit(network), published.model_max_length]
        bounds = [limit for limit in limits if limit and limit < UNLIMITED]
        context = min(bounds, default=UNBOUNDED_CONTEXT)
        start = getattr(network.config, "decoder_start_token_id", None)
        if network.config.is_encoder_decoder and start is not None:
            tokenizer = tokenizer.with_special(replace(tokenizer.special, start=start))
        return replace(config, context=context), tokenizer

    def with_settings(self, folder: PublishedFolder) -> Any:
        """Return the configuration with the published settings and class."""
        settings = read_settings(folder)
        names = folder.json(CONFIG).get("architectures") or [""]
        return replace(self, settings=settings, architecture=str(names[0]))

    @property
    def positions(self) -> int:
        """The most tokens in a row, known once training has started."""
        return self.context or UNBOUNDED_CONTEXT


@dataclass(frozen=True)
class PretrainedVisionConfig(PretrainedConfig):
    """A published model of images.

    Attributes:
        image: Side of an image in pixels; filled in when training starts.
        patch: Side of a patch in pixels; filled in when training starts.
    """

    image: Size = 224
    patch: Size = 16

    channels: ClassVar[int] = 3
    marks: ClassVar[int] = 1

    @property
    def width(self) -> int:
        """The width of a state."""
        values = self.network_config()
        return getattr(values, "vision_config", values).hidden_size

    @property
    def pooling(self) -> str:
        """What the class is read from: the `mean` of the positions, or the first."""
        kind = str(self.settings.get("model_type"))
        return "mean" if kind.startswith(MEAN_POOLED) else "first"


def position_limit(network: Any) -> int | None:
    """Return the most positions of a text; None for a model without a limit."""
    for name, module in network.named_modules():
        if (
            name.endswith("position_embeddings")
            and isinstance(module, nn.Embedding)
            and module.padding_idx is not None
        ):  # the first rows belong to padding
            return module.num_embeddings - module.padding_idx - 1
    config = network.config.get_text_config()
    limit = getattr(config, "max_position_embeddings", None)
    return limit if isinstance(limit, int) and limit > 0 else None


def embedding_of(network: Any) -> nn.Embedding:
    """Return the table of tokens of a model, or of its text tower."""
    towers = dict(network.named_children())
    return towers.get("text_model", network).get_input_embeddings()


class ReportedAttention(nn.Module):
    """The place to which a pretrained model reports its attention, layer by layer."""

    skip_queries = skip_keys = 0
    """Numbers of first positions that maps leave out."""

    def report(self, layers: Sequence[Tensor]) -> None:
        """Report the weights `(batch, head, query, key)` of each layer."""
        for number, layer in enumerate(layers):
            weights = layer[..., self.skip_queries :, self.skip_keys :]
            count = weights.shape[-2]
            report_event(self, LookupEvent(count, select_from(weights), call=number))


def run_reporting(
    network: Any,
    inputs: Mapping[str, Any],
    places: Mapping[str, ReportedAttention],
) -> Any:
    """Run a network, and report its attention if somebody records it.

    Args:
        inputs: Its inputs.
        places: Where to report the maps of each output.

    Raises:
        InputError: Somebody records it, and the network returns no weights.
    """
    if all(find_observer(place) is None for place in places.values()):
        return network(**inputs)
    outputs = run_plain(network, inputs)
    for name, place in places.items():
        layers = outputs.get(name) or outputs.get(f"encoder_{name}") or ()
        layers = [layer for layer in layers if layer is not None]
        if not layers or any(layer.ndim != 4 for layer in layers):
            kind = network.config.model_type
            raise InputError(
                f"the attention of {type(network).__name__} (model type {kind}) "
                "cannot be shown: it returns no weights of queries by keys. Use kind "
                "gradient."
            )
        place.report(layers)
    return outputs


def run_plain(network: Any, inputs: Mapping[str, Any]) -> Any:
    """Run a network by its plain implementation, which returns its weights."""
    before = network.config._attn_implementation
    network.set_attn_implementation("eager")
    try:
        return network(**inputs, output_attentions=True)
    finally:
        network.set_attn_implementation(before)


def mask_padding(network: Any, tokens: Tokens, lengths: Lengths) -> dict[str, Tensor]:
    """Return the inputs of a network for rows of tokens, padded on the right."""
    mask = padding(lengths, tokens.shape[1]).readable()
    pad = network.config.get_text_config().pad_token_id or 0
    tokens = tokens.masked_fill(~mask, pad)
    return {"input_ids": tokens, "attention_mask": mask.long()}


class Pretrained(nn.Module, ReportsWeights):
    """A network of transformers that reports its attention to whoever records it."""

    self_attention = "attention"
    network: Any
    has_head: bool = True
    """Whether the network is a published class with a head, which can be exported."""
    replaces_head: bool = False
    """Whether the weights of the head may be missing, since it is trained anew."""

    def __init__(self, network: Any):
        super().__init__()
        self.attention = ReportedAttention()
        self.network = network
        self.network_class = type(network)
        """The class of transformers of which the network is an instance or a part."""

    @property
    def token_table(self) -> nn.Module:
        """The module that embeds tokens or patches."""
        network = self.network
        if network.config.is_encoder_decoder and network is not network.get_encoder():
            network = network.get_encoder()
        return network.get_input_embeddings()

    def run_network(self, **inputs: Any) -> Any:
        """Run the network, and report its attention if somebody records it."""
        return run_reporting(self.network, inputs, {"attentions": self.attention})

    def row_inputs(
        self,
        tokens: Tokens,
        lengths: Lengths,
        segments: Any = None,
    ) -> dict[str, Any]:
        """Return the inputs of the network for rows of tokens, padded on the right."""
        forward = self.network.forward
        inputs = mask_padding(self.network, tokens, lengths)
        kinds = getattr(self.network.config, "type_vocab_size", 0)
        if segments is not None and kinds and accepts(forward, "token_type_ids"):
            inputs["token_type_ids"] = segments.clamp(max=kinds - 1)
        return inputs | ({"use_cache": False} if accepts(forward, "use_cache") else {})

    def load_published(self, folder: PublishedFolder) -> None:
        """Load the weights of the published model; a new head stays as it is.

        Raises:
            InputError: The weights lack a parameter of the network.
        """
        loaded, missing = load_network(self.network_class, folder)
        prefix = f"{self.network.base_model_prefix}."
        absent = []
        for name in missing:
            is_new = self.replaces_head and not name.startswith(prefix)
            if POOLER not in name and not is_new:
                absent.append(name)
        check_complete(folder, loaded, absent)
        if type(loaded) is not type(self.network):
            loaded = loaded.get_encoder()
        published = loaded.state_dict()
        for name, weight in self.network.state_dict().items():
            tensor = None if name in missing else published.get(name)
            if tensor is not None and tensor.shape == weight.shape:
                weight.copy_(tensor)


def build_network(config: Any, kind: str, **changes: Any) -> Any:
    """Build a network of transformers with fresh weights, without a pooler.

    Args:
        config: A complete configuration, which has a `network_config`.
        kind: Name of an automatic class, such as `AutoModelForCausalLM`, or of a class
            with a head of `HEADS`.
        changes: Values that replace those of the configuration.

    Raises:
        InputError: transformers has no such class for the model type.
    """
    library = require_transformers("model")
    values = config.network_config()
    for name, value in changes.items():
        setattr(values, name, value)
    with library_call(f"model.settings: model type {values.model_type} has no {kind}"):
        if not kind.startswith("Auto"):
            return getattr(library, kind)._from_config(values)
        network = getattr(library, kind).from_config(values)
    pooler = dict(network.named_children()).get("pooler")
    # a mean has no weights, and networks of convolutions require theirs
    if kind == "AutoModel" and pooler and next(pooler.parameters(), None) is not None:
        network.pooler = None
    return network


def new_head(width: int, outputs: int) -> nn.Linear:
    """Return a linear layer with small weights."""
    head = nn.Linear(width, outputs)
    nn.init.normal_(head.weight, std=0.02)
    nn.init.zeros_(head.bias)
    return head


class PretrainedEncoder(Pretrained):
    """The states of a text: an encoder, the encoder of an encoder-decoder, a decoder.

    The published class with a head of kind `head_name` of `HEADS` computes the logits,
    if the model is one; otherwise a new linear layer reads the states.
    """

    config_class = PretrainedConfig
    head_name: ClassVar[str]

    def __init__(self, vocabulary: int, outputs: int, config: PretrainedConfig):
        has_head = config.architecture.endswith(HEADS[self.head_name])
        changes: dict[str, Any] = {}
        if self.head_name != "span" or not has_head:
            changes["num_labels"] = outputs
        if has_head and config.settings.get("pad_token_id") is None:
            changes["pad_token_id"] = 0
        kind = config.architecture if has_head else "AutoModel"
        network = build_network(config, kind, **changes)
        values = network.config
        network_class = type(network)
        if not has_head and values.is_encoder_decoder:
            network = network.get_encoder()
        super().__init__(network)
        self.network_class = network_class
        self.config = config
        self.is_causal = config.is_causal
        self.has_head = self.replaces_head = has_head
        if not has_head:
            names = (
                "classifier_dropout",
                "hidden_dropout_prob",
                "dropout",
                "dropout_rate",
            )
            rates = [getattr(values, name, None) for name in names]
            rates = [rate for rate in rates if isinstance(rate, float)]
            self.dropout = nn.Dropout(next(iter(rates), 0.1))
            self.head = new_head(values.get_text_config().hidden_size, outputs)

    def forward(
        self,
        tokens: Tokens,
        lengths: Lengths,
        segments: Tokens | None = None,
    ) -> Float[Tensor, "batch *output"]:
        """Return the logits of rows of tokens, padded on the right."""
        outputs = self.run_network(**self.row_inputs(tokens, lengths, segments))
        if self.has_head:
            return self.read_logits(outputs)
        states = self.select_states(outputs.last_hidden_state, lengths)
        return self.head(self.dropout(states))

    def read_logits(self, outputs: Any) -> Tensor:
        """Return the logits of the published head."""
        return outputs.logits

    def select_states(self, states: States, lengths: Lengths) -> Tensor:
        """Return the states that a new head reads."""
        return states

    @property
    def output(self) -> nn.Linear:
        """The last linear layer."""
        if not self.has_head:
            return self.head
        count = self.network.config.num_labels
        layers = [
            module
            for module in self.network.modules()
            if isinstance(module, nn.Linear) and module.out_features == count
        ]
        return layers[-1]


class PretrainedClassifier(PretrainedEncoder, Classifier):
    """A class of one text or two: a new linear layer, or the published head."""

    form = "published-texts"
    head_name = "class"
    output: Any

    def select_states(self, states: States, lengths: Lengths) -> Tensor:
        """Return one state of a text: the last of a causal model, else the mean."""
        if self.is_causal:
            last = (lengths - 1).clamp(min=0)
            return states[torch.arange(len(states), device=states.device), last]
        real = padding(lengths, states.shape[1]).readable()[..., None]
        total = states.masked_fill(~real, 0.0).sum(1)
        return total / lengths.clamp(min=1)[:, None]


class PretrainedTagger(PretrainedEncoder):
    """A tag for each token: a new linear layer, or the published head."""

    head_name = "tag"


class PretrainedSpans(PretrainedEncoder):
    """The first and last token of an answer: a new layer, or the published head."""

    form = "one-row"
    head_name = "span"

    def __init__(self, vocabulary: int, config: PretrainedConfig):
        super().__init__(vocabulary, 2, config)

    def forward(
        self,
        tokens: Tokens,
        lengths: Lengths,
        segments: Tokens | None = None,
    ) -> SpanLogits:
        """Return the logits of start and end, minus infinity past each length."""
        logits = super().forward(tokens, lengths, segments)
        real = padding(lengths, tokens.shape[1]).readable()
        return logits.masked_fill(~real[..., None], -torch.inf)

    def read_logits(self, outputs: Any) -> Tensor:
        """Return the logits of the published head."""
        return torch.stack([outputs.start_logits, outputs.end_logits], -1)


class PretrainedVision(Pretrained):
    """A class of an image: the published class for it, or a layer over the states."""

    config_class = PretrainedVisionConfig

    def __init__(self, classes: int, config: PretrainedVisionConfig):
        auto = require_transformers("model").models.auto.modeling_auto
        kinds = auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES
        has_head = config.settings.get("model_type") in kinds
        name = "AutoModelForImageClassification" if has_head else "AutoModel"
        super().__init__(build_network(config, name, num_labels=classes))
        self.config = config
        self.classes = classes
        self.has_head = self.replaces_head = has_head
        if not has_head:
            self.head = new_head(self.network.config.hidden_size, classes)

    def forward(
        self,
        pixels: Images,
    ) -> ClassLogits:
        """Return the logits of the classes."""
        outputs = self.run_network(pixel_values=pixels)
        if self.has_head:
            return outputs.logits
        return self.head(outputs.last_hidden_state.mean(1))

    def encoder(self, pixels: Tensor) -> States:
        """Return the states of all positions of images."""
        base = self.network.base_model
        tower = dict(base.named_children()).get("vision_model", base)
        return tower(pixel_values=pixels).last_hidden_state


class PretrainedMaskedLM(Pretrained):
    """The logits of the token at each position of a text with blanks."""

    config_class = PretrainedConfig
    pooler = next_sentence = None

    def __init__(self, vocabulary: int, config: PretrainedConfig):
        super().__init__(build_network(config, "AutoModelForMaskedLM"))
        self.config = config
        self.predictions = LogitsOutput(vocabulary)

    def forward(
        self,
        tokens: Tokens,
        lengths: Lengths,
        segments: Tokens | None = None,
    ) -> Logits:
        """Return the logits, which `predictions` leaves as they are."""
        return self.run_network(**self.row_inputs(tokens, lengths, segments)).logits

    def states(self, tokens: Tokens, lengths: Lengths) -> States:
        """Return the states `(batch, position, width)` before the head."""
        inputs = self.row_inputs(tokens, lengths)
        return self.network.base_model(**inputs).last_hidden_state


@dataclass(frozen=True, eq=False)
class CacheState(State):
    """The tokens that a decoder has read, and its cache.

    The cache has keys and values of each layer in turn. A decoder with a source also has
    the memory, and the keys and values that its layers made of it.
    """

    tokens: Tensor
    cache: tuple[Tensor, ...] = ()
    memory: Memory | None = None
    source_cache: tuple[Tensor, ...] = ()

    @property
    def position(self) -> int:
        """Number of tokens read so far."""
        return self.tokens.shape[1]


def fill_cache(tensors: Sequence[Tensor]) -> Any:
    """Return a cache of transformers with keys and values of each layer in turn."""
    from transformers.cache_utils import DynamicCache

    cache = DynamicCache()
    for layer, (key, value) in enumerate(zip(tensors[::2], tensors[1::2], strict=True)):
        cache.update(key, value, layer)
    return cache


def read_cache(cache: Any) -> tuple[Tensor, ...]:
    """Return keys and values of each layer of a cache in turn.

    Raises:
        InputError: A layer keeps something else, as state space models do.
    """
    tensors: list[Tensor] = []
    for layer in cache.layers:
        if not isinstance(layer.keys, Tensor) or layer.keys.ndim != 4:
            raise InputError(
                f"the model's cache has a {type(layer).__name__}, and regard continues "
                "a text by keys and values only"
            )
        tensors += [layer.keys, layer.values]
    return tuple(tensors)


class PretrainedLanguageModel(Pretrained, LanguageModel[CacheState]):
    """A published language model."""

    config_class = PretrainedConfig
    shorter_windows = True

    def __init__(self, vocabulary: int, config: PretrainedConfig):
        super().__init__(build_network(config, "AutoModelForCausalLM"))
        self.config = config
        self.context = config.positions
        self.output = LogitsOutput(vocabulary)

    def begin(self, batch: int) -> CacheState:
        """Return the state before the first token."""
        device = next(self.parameters()).device
        return CacheState(torch.zeros(batch, 0, dtype=torch.int64, device=device))

    def detach_state(self, state: CacheState) -> None:
        """Return None: every window is read by itself."""
        return

    def run(self, tokens: Tokens, state: CacheState) -> tuple[Tensor, CacheState]:
        """Read tokens; the features after each are its logits.

        Raises:
            ValueError: There are more tokens than `context`.
        """
        read = torch.cat([state.tokens, tokens], 1)
        if self.context is not None and read.shape[1] > self.context:
            raise ValueError(
                f"{read.shape[1]} tokens exceed the model's context of {self.context}"
            )
        if torch.is_grad_enabled() and not state.position:
            outputs = self.run_network(input_ids=tokens, use_cache=False)
            return outputs.logits, replace(state, tokens=read)
        outputs = self.run_network(
            input_ids=tokens,
            attention_mask=torch.ones_like(read),
            past_key_values=fill_cache(state.cache),
            use_cache=True,
        )
        return outputs.logits, CacheState(read, read_cache(outputs.past_key_values))


class SourceEncoder(Encoder, ReportsWeights):
    """The encoder of a published encoder-decoder; its weights belong to the decoder.

    A source begins with the vocabulary's start token if published sources do; no map
    shows it.
    """

    self_attention = "attention"
    decoder: Any
    first: int | None
    """The token before each source, if the model reads one."""

    def __init__(self, decoder: "TargetDecoder", config: PretrainedConfig):
        super().__init__()
        self.attention = ReportedAttention()
        # not a submodule: its weights are saved once, as those of the decoder
        object.__setattr__(self, "decoder", decoder)
        width = decoder.network.config.hidden_size
        self.memory_width = self.summary_width = width
        self.first = None

    def parameters(self, recurse: bool = True) -> Any:
        """Return the parameters of the decoder's network, which has the encoder."""
        return self.decoder.network.get_encoder().parameters(recurse)

    @property
    def token_table(self) -> nn.Module:
        """The module that embeds the tokens of a source."""
        return self.decoder.network.get_encoder().get_input_embeddings()

    def forward(self, tokens: Tokens, lengths: Lengths) -> Memory:
        """Encode tokens `(batch, position)` of the sources' `lengths`."""
        network = self.decoder.network.get_encoder()
        if self.first is not None:
            first = torch.full_like(tokens[:, :1], self.first)
            tokens = torch.cat([first, tokens], 1)
            lengths = lengths + 1
        inputs = mask_padding(network, tokens, lengths)
        outputs = run_reporting(network, inputs, {"attentions": self.attention})
        return Memory.of(outputs.last_hidden_state, lengths, tokens=tokens)

    @property
    def skip_count(self) -> int:
        """Number of positions before the source, which maps leave out."""
        return self.attention.skip_keys


class TargetDecoder(SequenceDecoder[CacheState]):
    """The decoder of a published encoder-decoder."""

    source_attention = "cross"
    self_attention = "attention"
    network: Any

    def __init__(self, vocabulary: int, config: PretrainedConfig):
        super().__init__()
        self.attention = ReportedAttention()
        self.cross = ReportedAttention()
        self.network = build_network(config, "AutoModelForSeq2SeqLM")
        self.output = LogitsOutput(vocabulary)

    def start(self, memory: Memory) -> CacheState:
        """Return the state before the first token."""
        nothing = memory.value.new_zeros(len(memory.value), 0, dtype=torch.int64)
        return CacheState(nothing, memory=memory)

    def run(self, tokens: Tokens, state: CacheState) -> tuple[Tensor, CacheState]:
        """Read tokens; the features after each are its logits."""
        from transformers.cache_utils import EncoderDecoderCache
        from transformers.modeling_outputs import BaseModelOutput

        memory = state.memory
        assert memory is not None
        inputs: dict[str, Any] = {
            "decoder_input_ids": tokens,
            "encoder_outputs": BaseModelOutput(last_hidden_state=memory.value),
            "use_cache": False,
        }
        lengths = memory.lengths
        if lengths is not None:
            mask = padding(lengths, memory.value.shape[1]).readable()
            inputs["attention_mask"] = mask.long()
        read = torch.cat([state.tokens, tokens], 1)
        with_cache = not torch.is_grad_enabled() or bool(state.position)
        if with_cache:
            target = fill_cache(state.cache)
            source = fill_cache(state.source_cache)
            inputs["past_key_values"] = EncoderDecoderCache(target, source)
            inputs["use_cache"] = True
        places = {"decoder_attentions": self.attention, "cross_attentions": self.cross}
        outputs = run_reporting(self.network, inputs, places)
        if not with_cache:
            return outputs.logits, replace(state, tokens=read)
        cache = outputs.past_key_values
        target = cache.self_attention_cache
        source = cache.cross_attention_cache
        after = CacheState(read, read_cache(target), memory, read_cache(source))
        return outputs.logits, after


class PretrainedSeq2Seq(EncoderDecoder):
    """A published encoder-decoder of texts."""

    config_class = PretrainedConfig

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        config: PretrainedConfig,
    ):
        decoder = TargetDecoder(target_vocabulary, config)
        super().__init__(SourceEncoder(decoder, config), decoder)
        self.config = config
        self.max_source = self.max_target = config.positions

    decoder: Any

    @property
    def source_special(  # pyright: ignore[reportIncompatibleVariableOverride]
        self,
    ) -> SpecialTokens:
        """The special ids of the source vocabulary."""
        return self._source_special

    @source_special.setter
    def source_special(  # pyright: ignore[reportIncompatibleVariableOverride]
        self,
        special: SpecialTokens,
    ) -> None:
        self._source_special = special
        start = self.decoder.network.config.bos_token_id if special.opens else None
        self.encoder.first = start
        count = 0 if start is None else 1
        self.encoder.attention.skip_queries = count
        self.encoder.attention.skip_keys = self.decoder.cross.skip_keys = count

    def load_published(self, folder: PublishedFolder) -> None:
        """Load the weights of the published model."""
        loaded, missing = load_network(type(self.decoder.network), folder)
        check_complete(folder, loaded, missing)
        self.decoder.network.load_state_dict(loaded.state_dict())
