"""The summary of sounds and transcripts before training."""

from base64 import b64encode
from collections.abc import Sequence

from regard.audio import encode_audio
from regard.data.splits import Splits
from regard.tasks.speech.config import Speech
from regard.tasks.speech.data import Utterance
from regard.tasks.summary import (
    DataSummary,
    Lengths,
    pieces,
    rows,
    sampled,
    text_lengths,
    unknown_shares,
    unknown_warnings,
)
from regard.text import Tokenizer

LONGEST_REQUEST = 10.0
"""The most seconds of a sound that is the example on a page."""


def speech_summary(
    config: Speech,
    splits: Splits[Utterance],
    frames: Sequence[int],
    tokenizer: Tokenizer,
) -> DataSummary:
    """The lengths of sounds and transcripts, with the transcripts' unknown characters. `frames` are those of the
    training sounds."""
    transcripts = {
        name: [each.transcript for each in sampled(some)]
        for name, some in splits.named.items()
    }
    unknown = unknown_shares(tokenizer, transcripts)
    first, keys = (
        splits.train[0],
        [round(count * config.keys_per_frame) for count in frames],
    )
    ids = [*tokenizer.encode(first.transcript), tokenizer.special.end]
    others = {name: share for name, share in unknown.items() if name != "train"}
    return DataSummary(
        unit="recordings",
        rows=rows(config.data, splits),
        lengths={
            "recordings, in seconds": Lengths.of(
                [round(each * config.audio.seconds, 2) for each in frames]
            ),
            "transcripts": text_lengths(tokenizer, transcripts["train"]),
        },
        unknown=unknown,
        unknown_unit=tokenizer.unknown_unit,
        request=request(first, config),
        example={"recording": first.place, "transcript": pieces(tokenizer, ids)},
        warnings=(
            *_long(config, splits.train, keys, tokenizer),
            *unknown_warnings(tokenizer, others),
        ),
    )


def request(sound: Utterance, config: Speech) -> dict[str, str]:
    """The sound as a request has it, or none where it is too long to be sent with a page."""
    found = sound.sound(config.audio)
    return (
        {"audio": b64encode(encode_audio(found)).decode()}
        if found.seconds <= LONGEST_REQUEST
        else {}
    )


def _long(
    config: Speech,
    train: Sequence[Utterance],
    keys: Sequence[int],
    tokenizer: Tokenizer,
) -> list[str]:
    """A warning for transcripts that the search could not finish."""
    search, long = config.search, 0
    for each, count in zip(train, keys, strict=True):
        long += (
            len(each.transcript) + 1 > count * search.length_ratio + search.length_extra
        )
    if not long or config.tokenizer.kind != "character":
        return []
    return [
        f"{long} transcripts have more tokens than an output may have; raise search.length_ratio, or check that sounds "
        "and transcripts belong together"
    ]
