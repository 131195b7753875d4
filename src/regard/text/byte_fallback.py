"""Byte-pair encoding of characters, with bytes for those that the vocabulary lacks: the tokenizers of Llama 2 and
Mistral, made by SentencePiece (Kudo and Richardson 2018, 1808.06226).

A space is written as ▁, and a text is not cut into words before its characters are merged. A character that the
vocabulary lacks becomes the entries <0x00> to <0xFF> of its UTF-8 bytes.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from regard.text.kind import Merges, TokenizerSettings, entry_of, visible
from regard.text.special import NAMES, REPLACEMENT, SPECIAL, UNKNOWN, SpecialTokens

BLANK = "▁"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
"""The entry of each byte."""
_BYTE = re.compile("<0x([0-9A-F]{2})>")


class ByteFallback:
    """Byte-pair encoding whose texts get a space in front. With `always`, as in Llama 2, every text gets it, and
    decoding returns the text; otherwise, as in Mistral's later files, only a text that begins with none."""

    def __init__(self, *, always: bool) -> None:
        self._always = always

    def build(
        self,
        vocabulary: Mapping[str, int],
        merges: Merges,
        special: SpecialTokens = SPECIAL,
    ) -> Backend:
        unknown = entry_of(vocabulary, special.unknown)
        model = models.BPE(
            dict(vocabulary),
            list(merges),
            unk_token=unknown,
            fuse_unk=True,
            byte_fallback=True,
        )
        return self._around(model, split=False)

    def _around(self, model: models.Model, *, split: bool) -> Backend:
        """A backend of a model; with `split`, text is cut before each space."""
        backend = Backend(model)
        if self._always:
            backend.normalizer = normalizers.Sequence(
                [normalizers.Prepend(BLANK), normalizers.Replace(" ", BLANK)]
            )
        if split or not self._always:
            backend.pre_tokenizer = pre_tokenizers.Metaspace(
                BLANK, "never" if self._always else "first", split
            )
        backend.decoder = decoders.Sequence(
            [
                decoders.Replace(BLANK, " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
                decoders.Strip(" ", 1, 0),
            ]
        )
        return backend

    def train(self, settings: TokenizerSettings, texts: Iterable[str]) -> Backend:
        trainer = trainers.BpeTrainer(
            vocab_size=settings.size,
            min_frequency=settings.minimum_count,
            special_tokens=[*NAMES, *BYTES],
            limit_alphabet=max(1, (settings.size - len(NAMES) - len(BYTES)) // 2),
            show_progress=False,
        )
        trained = self._around(models.BPE(), split=True)
        trained.train_from_iterator(texts, trainer)
        model = json.loads(trained.to_str())["model"]
        return self.build(
            model["vocab"], [(left, right) for left, right in model["merges"]]
        )

    def join(self, pieces: Sequence[str]) -> str:
        return _bytes(pieces).decode("utf-8", errors="replace").removeprefix(" ")

    def label(self, piece: str) -> str:
        text = _bytes([piece]).decode("utf-8", errors="backslashreplace")
        return visible(text.removeprefix(" ") or text)


def _bytes(pieces: Sequence[str]) -> bytes:
    """The UTF-8 bytes of successive pieces."""
    return b"".join(map(_bytes_of, pieces))


def _bytes_of(piece: str) -> bytes:
    if piece == NAMES[UNKNOWN]:
        return REPLACEMENT.encode()
    byte = _BYTE.fullmatch(piece)
    return bytes([int(byte[1], 16)]) if byte else piece.replace(BLANK, " ").encode()
