"""What a person sees of a run: a bar on a terminal, plain lines anywhere else."""

import sys
import time
from dataclasses import dataclass

_WIDTH = 24


def duration(seconds: float) -> str:
    """Seconds as `m:ss` or `h:mm:ss`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@dataclass
class Window:
    """Sums over the updates since the last record."""

    loss: float = 0.0
    norm: float = 0.0
    tokens: int = 0
    seconds: float = 0.0

    def add(self, loss: float, norm: float, tokens: int, seconds: float) -> None:
        """One update: its mean loss per token, gradient norm, tokens and seconds."""
        self.loss += loss * tokens
        self.norm = max(self.norm, norm)
        self.tokens += tokens
        self.seconds += seconds

    @property
    def tokens_per_second(self) -> float:
        """Of all processes together."""
        return self.tokens / max(self.seconds, 1e-9)

    def figures(self) -> dict[str, float | int]:
        """The mean loss per token, the largest gradient norm (before clipping), and the speed."""
        return {
            "loss": self.loss / max(self.tokens, 1),
            "gradient_norm": self.norm,
            "tokens": self.tokens,
            "tokens_per_second": self.tokens_per_second,
        }


class Progress:
    """Shows loss, tokens per second and time left on standard error; silent unless `shown` (one process shows it).

    On a terminal one line is rewritten, at most ten times a second; otherwise a line is printed every `every` updates.
    """

    def __init__(self, steps: int, every: int, shown: bool = True) -> None:
        self.steps, self.every, self.shown = steps, every, shown
        self.stream = sys.stderr
        self.bar = self.stream.isatty()
        self.began = self.drawn = time.monotonic()
        self.first: int | None = None
        self._open = False

    def update(self, update: int, loss: float, tokens_per_second: float) -> None:
        """After an update (counted from 1)."""
        self.first = update - 1 if self.first is None else self.first
        now = time.monotonic()
        due = now - self.drawn >= 0.1 if self.bar else update % self.every == 0
        if not self.shown or not (due or update == self.steps):
            return
        self.drawn = now
        left = (now - self.began) / (update - self.first) * (self.steps - update)
        text = f"{update}/{self.steps}  loss {loss:.4f}  {tokens_per_second:,.0f} tokens/s  {duration(left)} left"
        if self.bar:
            full = _WIDTH * update // self.steps
            self.stream.write(f"\r[{'#' * full}{'.' * (_WIDTH - full)}] {text}\x1b[K")
        else:
            self.stream.write(f"{text}\n")
        self._open = self.bar
        self.stream.flush()

    def note(self, text: str) -> None:
        """A line of its own, above the bar."""
        if self.shown:
            self.stream.write(f"\r\x1b[K{text}\n" if self._open else f"{text}\n")
            self.stream.flush()

    def close(self) -> None:
        """Ends the bar's line."""
        if self._open:
            self.stream.write("\n")
            self.stream.flush()
            self._open = False
