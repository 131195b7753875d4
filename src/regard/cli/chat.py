"""`regard chat`."""

from regard.cli.loading import loading
from regard.cli.options import PredictFlags, RunFolder
from regard.cli.output import one_line, say, warn
from regard.errors import InputError

OWN = PredictFlags()


def chat(run: RunFolder, /, *, flags: PredictFlags = OWN) -> None:
    """Reply to each line that you type, in its context.

    A blank line begins a new conversation.
    """
    flags.check()
    if flags.n_best > 1 and not flags.mbr:
        raise InputError(
            "--n-best gives several replies, a chat has one; add --least-risk to choose among them"
        )
    with loading():
        from regard.cli.stream import NAME, chunks, standard_input
        from regard.runs.load import load
        from regard.tasks.capabilities import Converses, capable

        opened = load(run)
        loaded = capable(opened, Converses, run)
        conversation = loaded.conversation(flags.options())
    for number, (line,) in enumerate(chunks(standard_input(), most=1), 1):
        if line.strip():
            warn(f"{NAME}:{number}", opened.warnings(line))
            say(one_line(conversation.reply(line, f"{NAME}:{number}").text))
        else:
            conversation = loaded.conversation(flags.options())
