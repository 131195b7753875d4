"""Audio files -> samples -> log-mel features for a model."""

from regard.audio.features import LogMel
from regard.audio.files import LONGEST, SUFFIXES, decode_audio, encode_audio, read_audio
from regard.audio.masking import Masking
from regard.audio.resampling import resampled
from regard.audio.sound import Sound

__all__ = [
    "LONGEST",
    "SUFFIXES",
    "LogMel",
    "Masking",
    "Sound",
    "decode_audio",
    "encode_audio",
    "read_audio",
    "resampled",
]
