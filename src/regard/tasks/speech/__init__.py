"""Speech recognition, with the attention of each letter to times of the sound."""

from regard.tasks.run import LazyTask

TASK = LazyTask(
    __name__,
    "config:Speech",
    "training:setup",
    "run:SpeechRun",
    command="regard predict {} FILE.wav",
)
