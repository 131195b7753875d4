"""`regard chat`."""

from typing import TYPE_CHECKING

from regard.cli.loading import loading
from regard.cli.options import Asked, RunFolder
from regard.cli.output import say
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.data.sources import Dialogue
    from regard.tasks.seq2seq.run import Seq2SeqRun

OWN = Asked()


def chat(run: RunFolder, /, *, asked: Asked = OWN) -> None:
    """Reply to each line of standard input, knowing the last turns; a blank line begins a new conversation."""
    asked.check()
    if asked.shown > 1:
        raise InputError("--n-best shows several answers, a chat has one; add --least-risk to choose it among them")
    with loading():
        from regard.cli.answers import Answer
        from regard.cli.stream import NAME, chunks, standard_input
        from regard.data.sources import Dialogue
        from regard.runs.load import load
        from regard.tasks.seq2seq.run import Seq2SeqRun

        loaded = load(run, task=Seq2SeqRun)
    data = loaded.config.data
    if not isinstance(data, Dialogue):
        raise InputError(f"{run}: was trained on data of kind {data.kind}; a chat needs one trained on dialogue")
    answer, said = Answer(loaded, asked, attention=False), []
    for number, (line,) in enumerate(chunks(standard_input(), most=1), 1):
        said = [*said, line] if line.strip() else []
        if said:
            (prediction,) = answer.texts([_source(loaded, data, said, f"{NAME}:{number}")])
            reply = " ".join(prediction.text.split())
            said = [*said, reply] if reply else said
            say(reply)


def _source(run: "Seq2SeqRun", data: "Dialogue", said: list[str], place: str) -> str:
    """As many of the last turns as the model knows and can take. Raises InputError where it cannot take the last."""
    from regard.data.dialogue import context
    from regard.decoding.texts import limited

    count = data.turns
    source = context(said, count, data.longest)
    most = run.model.max_source
    while most is not None and count > 1 and len(run.tokenizers.source_ids(source)) >= most:
        count -= 1
        source = context(said, count, data.longest)
    limited(most, [run.tokenizers.source_ids(source)], [place])
    return source
