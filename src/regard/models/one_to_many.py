"""One encoder, and a decoder for each target language: Dong, Wu, He, Yu, Wang 2015 (Multi-task learning for multiple
language translation, ACL)."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.nn.encoder_decoder import EncoderDecoder, decoded
from regard.shapes import Lengths, Source, Tokens


class OneToMany(nn.Module):
    """The source is encoded once, whatever the number of languages. Each decoder has its own attention, vocabulary and
    output layer.

    Raises:
        ValueError: the models are none, or take sources of different lengths.
    """

    def __init__(self, models: Mapping[str, EncoderDecoder]):
        super().__init__()
        if len({model.max_source for model in models.values()}) != 1:
            raise ValueError(f"{len(models)} models with different longest sources; expected some with the same")
        first = next(iter(models.values()))
        self.encoder, self.max_source = first.encoder, first.max_source
        self.decoders = nn.ModuleDict({key(name): model.decoder for name, model in models.items()})
        self.max_target = {name: model.max_target for name, model in models.items()}

    def of(self, language: str) -> EncoderDecoder:
        """The model of one language; it shares all its weights with this one."""
        model = EncoderDecoder(self.encoder, self.decoders[key(language)])  # type: ignore[arg-type]
        model.max_source, model.max_target = self.max_source, self.max_target[language]
        return model

    def forward(
        self,
        source: Source,
        source_lengths: Lengths,
        targets: Mapping[str, Tokens],
        expected: Mapping[str, Tokens],
        *,
        forcing: float = 1.0,
        smoothing: float = 0.0,
    ) -> tuple[Tensor, dict[str, Any]]:
        """The loss of all languages' targets, summed, and that of each position by language, without a gradient. The
        targets are right-shifted; `expected` has what they should say."""
        memory = self.encoder(source, source_lengths)
        totals, losses = [], {}
        for name, target in targets.items():
            decoder: Any = self.decoders[key(name)]
            features = decoded(decoder, memory, target, forcing)
            total, losses[name] = decoder.output.loss(features, expected[name], smoothing)
            totals.append(total)
        return torch.stack(totals).sum(), losses


def key(language: str) -> str:
    """Under which a language's decoder is kept: no attribute that every module has, whatever the language's name."""
    return f"to_{language}"
