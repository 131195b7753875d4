"""One encoder with a decoder for each target language.

Dong, Wu, He, Yu, Wang 2015 (Multi-task learning for multiple language translation,
ACL).
"""

from collections.abc import Mapping
from typing import Any

from torch import nn

from regard.nn.decoders import EncoderDecoder


class OneToMany(nn.Module):
    """An encoder that reads the source once, for any number of languages.

    Each decoder has its own attention, vocabulary and output layer. The models by
    language have the same settings; the encoder is that of the first one.
    """

    def __init__(self, models: Mapping[str, EncoderDecoder]):
        super().__init__()
        first = next(iter(models.values()))
        self.encoder = first.encoder
        self.max_source = first.max_source
        self.max_target = first.max_target
        # the prefix keeps languages apart from attributes of modules
        self.decoders = nn.ModuleDict(
            {f"to_{name}": model.decoder for name, model in models.items()}
        )

    def of(self, language: str) -> EncoderDecoder:
        """Return the model of one language, sharing its weights with this one."""
        decoder: Any = self.decoders[f"to_{language}"]
        model = EncoderDecoder(self.encoder, decoder)
        model.max_source = self.max_source
        model.max_target = self.max_target
        return model
