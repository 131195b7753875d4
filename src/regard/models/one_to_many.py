"""One encoder with a decoder for each target language.

Dong, Wu, He, Yu, Wang 2015 (Multi-task learning for multiple language translation,
ACL).
"""

from collections.abc import Mapping
from typing import Any, cast

from torch import Tensor, nn

from regard.nn.decoders import Decoder
from regard.nn.encoder_decoder import EncoderDecoder, decode_target
from regard.nn.output import OutputLayer
from regard.shapes import Lengths, Source, Tokens


class OneToMany(nn.Module):
    """Encode the source once, for any number of languages.

    Each decoder has its own attention, vocabulary and output layer.

    Raises:
        ValueError: There are no models, or their longest sources differ.
    """

    def __init__(self, models: Mapping[str, EncoderDecoder]):
        super().__init__()
        if len({model.max_source for model in models.values()}) != 1:
            raise ValueError(
                f"{len(models)} models have different longest sources; expected equal ones"
            )
        first = next(iter(models.values()))
        self.encoder = first.encoder
        self.max_source = first.max_source
        self.decoders = nn.ModuleDict(
            {key(name): model.decoder for name, model in models.items()}
        )
        self.max_target = {name: model.max_target for name, model in models.items()}

    def of(self, language: str) -> EncoderDecoder:
        """Return the model of one language, sharing its weights with this one."""
        model = EncoderDecoder(self.encoder, self.decoder(language))
        model.max_source = self.max_source
        model.max_target = self.max_target[language]
        return model

    def forward(
        self,
        source: Source,
        source_lengths: Lengths,
        targets: Mapping[str, Tokens],
        *,
        forcing: float = 1.0,
    ) -> dict[str, Tensor]:
        """Logits `(batch, position, vocabulary)` of each language, after each token of its right-shifted target."""
        features = self.features(source, source_lengths, targets, forcing)
        return {name: self.output(name)(feature) for name, feature in features.items()}

    def features(
        self,
        source: Source,
        source_lengths: Lengths,
        targets: Mapping[str, Tokens],
        forcing: float = 1.0,
    ) -> dict[str, Any]:
        """Return the input of each language's output layer."""
        memory = self.encoder(source, source_lengths)
        return {
            name: decode_target(self.decoder(name), memory, target, forcing)
            for name, target in targets.items()
        }

    def decoder(self, language: str) -> Decoder:
        """Return the decoder of one language."""
        return cast("Decoder", self.decoders[key(language)])

    def output(self, language: str) -> OutputLayer:
        """Return the output layer of one language."""
        return self.decoder(language).output


def key(language: str) -> str:
    """Return the key of a language's decoder.

    The prefix keeps it apart from attributes of modules.
    """
    return f"to_{language}"
