"""`regard chat`."""

from regard.cli.options import Asked, RunFolder
from regard.cli.output import say
from regard.errors import InputError

OWN = Asked()


def chat(run: RunFolder, /, *, asked: Asked = OWN) -> None:
    """Reply to each line of standard input, knowing the last turns; a blank line begins a new conversation."""
    asked.check()
    if asked.shown > 1:
        raise InputError("--n-best shows several answers, a chat has one; add --least-risk to choose it among them")
    from regard.cli.answers import Answer
    from regard.cli.stream import chunks, standard_input
    from regard.data.dialogue import context
    from regard.data.sources import Dialogue
    from regard.runs import load
    from regard.tasks.text_to_text.run import TextToTextRun

    loaded = load(run, task=TextToTextRun)
    data = loaded.config.data
    if not isinstance(data, Dialogue):
        raise InputError(f"{run}: was trained on data of kind {data.kind}; a chat needs one trained on dialogue")
    answer, said = Answer(loaded, asked, attention=False), []
    for (line,) in chunks(standard_input(), most=1):
        said = [*said, line] if line.strip() else []
        if said:
            (prediction,) = answer.texts([context(said, data.turns, data.longest)])
            said.append(" ".join(prediction.text.split()))
            say(said[-1])
