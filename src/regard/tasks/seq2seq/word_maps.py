"""The attention of known targets to their sources, between words."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from regard.attribution.forced_decoding import attended
from regard.data.pair import Pair
from regard.data.tokenizer_pair import Tokenizers
from regard.decoding.scoring import encoded
from regard.errors import InputError
from regard.maps.words import join_words
from regard.nn.encoder_decoder import EncoderDecoder
from regard.text.words import word_indices

WordMaps = Float[np.ndarray, "map _target _source"]


def word_maps_of(
    model: EncoderDecoder, tokenizers: Tokenizers, pairs: Sequence[Pair]
) -> list[WordMaps]:
    """The attention of each target to its source under teacher forcing, between words separated by blanks, without END.
    One map a layer and head, in that order.

    Raises:
        InputError: the model does not attend to its source, or a text is too long for it.
    """
    if model.decoder.source_attention is None:
        raise InputError(
            "the run's model does not attend to its source, so it aligns nothing"
        )
    source, target = tokenizers.source, tokenizers.target
    weighed = attended(model, encoded(model, tokenizers, pairs))
    return [
        join_words(
            weights.numpy()[:, :-1, :-1],
            word_indices(pair.source, source.offsets(pair.source)),
            word_indices(pair.target, target.offsets(pair.target)),
        )
        for pair, weights in zip(pairs, weighed, strict=True)
    ]
