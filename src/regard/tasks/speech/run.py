"""A trained recogniser of speech: `load(folder).predict(files)`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.attribution.kinds import Kind
from regard.audio import Sound, decode_audio
from regard.data.memory import Records
from regard.data.usable import usable_files
from regard.decoding.constraints import writable
from regard.decoding.streaming import StreamEvent, StreamSource, check_prefixes
from regard.errors import InputError
from regard.maps.lookups import Lookups, Patches
from regard.models.recogniser import Recogniser
from regard.nonfinite import guarded
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.decoded_text import DecodedText, TextStream, constraints_of
from regard.tasks.evaluation import for_evaluation
from regard.tasks.options import (
    SEARCHING,
    AttributionOptions,
    EvaluationOptions,
    PredictOptions,
    StreamOptions,
)
from regard.tasks.prediction import TextPrediction, ranked
from regard.tasks.run import Run
from regard.tasks.speech.attribution import SpeechMaps, SpeechWeights, attended, picture
from regard.tasks.speech.config import Speech
from regard.tasks.speech.data import Audio, SpeechTables, Utterance, normalised
from regard.tasks.speech.training import build, decode, encoded, figures
from regard.tasks.tokenizer_file import TOKENIZER
from regard.text import Tokenizer

READ = "attention weights: what each token reads of the sound above"
QUIET = 1e-4
"""The loudest sample of a sound that counts as silent, of 1."""


class Transcript(DecodedText):
    """The transcript of a sound."""


class SpeechRun(Run[Audio, Transcript]):
    """A trained model with its tokenizer and its run file. An example is the path of an audio file, or a `Sound`."""

    config: Speech
    model: Recogniser
    supports = {
        "predict": frozenset({"beam", "n_best", *SEARCHING}),
        "stream": frozenset({*SEARCHING, "prefix", "prefix_tokens", "candidates"}),
        "evaluate": frozenset({"files", "beam", "columns", "skip_bad"}),
        "attribute": frozenset({"beam", "target", "finished", "target_tokens"}),
    }
    inputs = {"audio": bytes}

    def __init__(self, config: Speech, model: Recogniser, tokenizer: Tokenizer):
        self.config, self.model, self.tokenizer = config, model, tokenizer

    @classmethod
    def open(cls, run: RunDirectory, config: Speech) -> "SpeechRun":
        """The run in a folder, its model with fresh weights. Raises InputError for a damaged tokenizer."""
        tokenizer = Tokenizer.load(run.file(TOKENIZER))
        return cls(config, build(config, tokenizer.size), tokenizer)

    def parse(self, line: str, place: str = "text 1") -> Audio:
        """The path of an audio file."""
        return line

    def example(self, values: Mapping[str, Any]) -> Audio:
        """The sound of an audio file's bytes. Raises InputError for bytes that are no audio."""
        return decode_audio(values["audio"], self.config.audio.longest)

    def warnings(self, example: Audio) -> list[str]:
        loudest = float(
            abs(self._utterance(example).sound(self.config.audio).samples).max()
        )
        return (
            ["the sound is silent, so the prediction means nothing"]
            if loudest <= QUIET
            else []
        )

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return ("weights",)

    def description(self) -> dict[str, Any]:
        model, end = self.config.model.name, self.tokenizer.special.end
        return super().description() | {"kind": "audio", "model": model, "end": end}

    def record(self, example: Audio) -> dict[str, Any]:
        return {
            "audio": str(example) if isinstance(example, Path | str) else "the sound"
        }

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[Utterance]:
        """The sounds of tables with transcripts. Raises InputError as `SpeechTables.read`."""
        own = self.config.data
        data = own if isinstance(own, SpeechTables) else SpeechTables()
        data = data.with_columns(options.columns, skip_bad=options.skip_bad)

        def readable(each: Utterance) -> Utterance:
            each.frames(self.config.audio)
            return each

        return usable_files(files, data.read, readable, skip_bad=data.skip_bad)

    def _evaluate(
        self, examples: Sequence[Utterance] | None, options: EvaluationOptions
    ) -> dict[str, float]:
        """The metrics of the run file, and the share of weights inside of each word (`INSIDE`) where its time is known.

        Raises:
            InputError: there are neither examples nor a test set, or a sound cannot be read.
        """
        found = for_evaluation(
            examples, self.config.data, "give sounds with transcripts"
        )
        sounds = [normalised(each, self.config.lower) for each in found]
        with guarded(self.model):
            return figures(
                self.model,
                self.tokenizer,
                sounds,
                self.config,
                self.config.search.searching(options.beam),
            )

    def _predict(
        self, examples: Sequence[Audio], options: PredictOptions
    ) -> list[Transcript]:
        """The transcript of each sound, with its `n_best` - 1 alternatives.

        Raises:
            InputError: a sound cannot be read.
            ValueError: beam, `n_best` and vocabulary do not fit together.
        """
        search = options.search(self.config.search)
        sounds = [
            self._utterance(each, number) for number, each in enumerate(examples, 1)
        ]
        with guarded(self.model):
            found = decode(
                self.model,
                sounds,
                self.config,
                search,
                constraints_of(self.tokenizer, options, search),
            )
        return [
            ranked(
                [Transcript.of(each, self.tokenizer) for each in some], options.n_best
            )
            for some in found
        ]

    def _stream(
        self,
        sounds: Sequence[Audio],
        options: StreamOptions,
        active: Callable[[int], bool],
    ) -> Iterator[StreamEvent]:
        """The weights of a token are on the keys of its sound.

        Raises:
            InputError: as `predict`, and for a prefix with a token that no transcript has.
            ValueError: a prefix is longer than its transcript may be.
        """
        examples = [
            self._utterance(each, number).loaded(self.config.audio)
            for number, each in enumerate(sounds, 1)
        ]
        search, prefix = (
            options.search(self.config.search),
            options.forced(partial(writable, self.tokenizer)),
        )
        check_prefixes([prefix], self.tokenizer.size, self.tokenizer.special)
        keys = [
            self._patches(each.features(self.config.audio).numpy()) for each in examples
        ]
        sources = [
            StreamSource(
                times(each.columns, self.config.key_seconds), each, len(prefix)
            )
            for each in keys
        ]
        with guarded(self.model):
            memory, limit = encoded(self.model, examples, self.config, search)
            stream = TextStream(
                self.model.decoder, self.tokenizer, search, sources, prefix
            )
            yield from stream.events(memory, limit, options, active)

    def _attribute(self, example: Audio, options: AttributionOptions) -> Attribution:
        """The attention to the sound at each token of the predicted or forced transcript. Raises InputError as
        `predict`."""
        sound = self._utterance(example).loaded(self.config.audio)
        with guarded(self.model):
            transcript, tokens = self._written(sound, options)
            written = [each for each in tokens if each != self.tokenizer.special.end]
            seen = attended(self.model, sound, written, self.config)
        # END has a row of its own where an output is forced; the run's own transcript is drawn without it.
        labels = written if isinstance(transcript, Transcript) else tokens
        pieces = tuple(self.tokenizer.pieces(labels))
        features = sound.features(self.config.audio).numpy()
        weights = SpeechWeights(
            features,
            pieces,
            seen.weights[: len(pieces)],
            self.config.audio.seconds,
            self.config.key_seconds,
        )
        lookups = self._lookups(features, pieces, seen)
        return Attribution(
            transcript,
            transcript.text,
            (lookups,),
            weights,
            options,
            draw=weights.figure,
            detail=READ,
        )

    def _written(
        self, sound: Utterance, options: AttributionOptions
    ) -> tuple[Transcript | TextPrediction, list[int]]:
        """A transcript and its tokens, END among them where it is finished: the forced one, or the run's own."""
        end = self.tokenizer.special.end
        if options.target_tokens is not None:
            tokens = list(options.target_tokens)
            return TextPrediction(self.tokenizer.decode(tokens)), tokens
        if options.target is not None:
            text = normalised(
                replace(sound, transcript=options.target), self.config.lower
            ).transcript
            tokens = self.tokenizer.encode(text)
            if self.tokenizer.unknown_characters(text)[0]:
                raise InputError(
                    f"the transcript {text!r} has letters that the run does not know; leave them out"
                )
            return TextPrediction(text), [*tokens, end] if options.finished else tokens
        ((best, *_),) = decode(
            self.model, [sound], self.config, self.config.search.searching(options.beam)
        )
        return Transcript.of(best, self.tokenizer), [
            *best.tokens,
            end,
        ] if best.finished else list(best.tokens)

    def _lookups(
        self,
        features: Float[np.ndarray, "frame mel"],
        tokens: tuple[str, ...],
        seen: SpeechMaps,
    ) -> Lookups:
        """The lookups of the first rows, one for each of these tokens."""
        patches = self._patches(features)
        labels = times(patches.columns, self.config.key_seconds)
        breakdown = seen.breakdown and seen.breakdown.of_rows(slice(len(tokens)))
        return Lookups(
            seen.every[:, :, : len(tokens)],
            labels,
            tokens,
            patches=patches,
            breakdown=breakdown,
        )

    def _patches(self, features: Float[np.ndarray, "frame mel"]) -> Patches:
        """The spectrogram, cut into one column a key."""
        keys = self.model.encoder.halving.keys(len(features))
        return Patches(picture(features, keys, self.config.halvings), 1, keys)

    def _utterance(self, audio: Audio, number: int = 1) -> Utterance:
        known = isinstance(audio, Sound | Path | str)
        if not known:
            raise InputError(
                f"sound {number}: is a {type(audio).__name__}; expected the path of a file, or a Sound"
            )
        return Utterance(audio, "", f"sound {number}")


def times(keys: int, key: float) -> tuple[str, ...]:
    """Labels of keys that are each `key` seconds long: when they begin."""
    return tuple(f"{place * key:.2f} s" for place in range(keys))
