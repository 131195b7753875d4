"""Conversations with a run that was trained on dialogue."""

from regard.data.dialogue import Dialogue, context
from regard.data.tokenizer_pair import Tokenizers
from regard.decoding.texts import limited
from regard.errors import InputError
from regard.tasks.options import PredictOptions
from regard.tasks.run import Run
from regard.tasks.seq2seq.prediction import Prediction


class Conversation:
    """The turns of a conversation so far, and the run that replies to them.

    Raises:
        InputError: the run was trained on other data than dialogue, or does not support an option.
    """

    def __init__(
        self, run: Run[str, Prediction], tokenizers: Tokenizers, options: PredictOptions
    ):
        data = run.config.data
        if not isinstance(data, Dialogue):
            raise InputError(
                f"the run was trained on data of kind {data.kind}; a chat needs one trained on dialogue"
            )
        run.check_supported("predict", options)
        self.run, self.tokenizers, self.options, self.data = (
            run,
            tokenizers,
            options,
            data,
        )
        self.turns: list[str] = []

    def reply(self, text: str, place: str = "text 1") -> Prediction:
        """The run's reply to a turn and those before it; both become turns.

        Raises:
            InputError: the turn is longer than the model can take; it names the `place`.
        """
        self.turns.append(text)
        (prediction,) = self.run.predict([self.source(place)], self.options)
        if reply := " ".join(prediction.text.split()):
            self.turns.append(reply)
        return prediction

    def source(self, place: str) -> str:
        """The last turns, as many as the model was trained on and its context holds. Raises InputError as `reply`."""
        count, longest, most = (
            self.data.turns,
            self.data.longest,
            self.run.model.max_source,
        )
        source_ids = self.tokenizers.source_ids
        source = context(self.turns, count, longest)
        while most is not None and count > 1 and len(source_ids(source)) >= most:
            count -= 1
            source = context(self.turns, count, longest)
        limited(most, [source_ids(source)], [place], truncate=self.run.config.truncate)
        return source
