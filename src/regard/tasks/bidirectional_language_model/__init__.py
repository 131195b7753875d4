"""Words predicted from the words before and behind them: ELMo, whose states stand for words in their context."""

from regard.tasks.task import LazyTask

TASK = LazyTask(
    __name__,
    "config:BidirectionalLanguageModelling",
    "setup:setup",
    "run:ElmoRun",
    command="regard embed {} TEXT --words",
)
