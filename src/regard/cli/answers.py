"""Predictions for texts, and for standard input as it arrives."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from regard.cli.options import Asked, searching
from regard.cli.sampled import drawn
from regard.cli.stream import CHUNK, NAME, chunks, standard_input
from regard.decoding.mbr import least_risk
from regard.errors import InputError
from regard.tasks.seq2seq.prediction import Prediction
from regard.tasks.seq2seq.run import Seq2SeqRun


class Answer:
    """A run, and the search that the user asked for. Raises InputError where it is none."""

    def __init__(self, run: Seq2SeqRun, asked: Asked, attention: bool) -> None:
        self.run, self.attention, self.drawn = run, attention, drawn(run.config.search, asked)
        self.asked = asked

    def texts(self, texts: Sequence[str]) -> list[Prediction]:
        """A prediction for each text. Raises InputError."""
        with searching(self.asked):
            return self._predict(texts)

    def lines(self) -> Iterator[tuple[str, Prediction]]:
        """The lines of standard input with their predictions. Raises InputError naming a line that has none, after
        those before it. Each is drawn by itself: what is drawn must not hang on how fast they arrive."""
        done = 0
        with searching(self.asked):
            for chunk in chunks(standard_input(), most=CHUNK if self.drawn is None else 1):
                try:
                    yield from zip(chunk, self._predict(chunk), strict=True)
                except InputError:
                    yield from self._one_by_one(chunk, done)
                done += len(chunk)

    def _predict(self, texts: Sequence[str]) -> list[Prediction]:
        found = self.run.predict(
            texts,
            beam=self.asked.beam,
            search=self.drawn,
            n_best=self.asked.n_best,
            prefix=self.asked.prefix,
            phrases=self.asked.phrase,
            attention=self.attention,
        )
        return [_least_risk(each) for each in found] if self.asked.least_risk else found

    def _one_by_one(self, chunk: list[str], done: int) -> Iterator[tuple[str, Prediction]]:
        for number, line in enumerate(chunk, done + 1):
            try:
                (prediction,) = self._predict([line])
            except InputError as error:
                raise InputError(f"{NAME}:{number}: {str(error).removeprefix('text 1: ')}") from error
            yield line, prediction


def _least_risk(prediction: Prediction) -> Prediction:
    """That of an answer and its alternatives which is most like the others."""
    answers = (replace(prediction, alternatives=()), *prediction.alternatives)
    return answers[least_risk([answer.text for answer in answers])]
