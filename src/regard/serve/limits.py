"""What a server takes, and no more."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """`body` bytes of a request and `text` characters of one text; requests `inside`, waiting or being answered, of
    which at most `together` are answered as one batch; `connections` at a time. Seconds that a connection may be
    without the head of a request, that a body may take to come, and that an answer may take from then on. `bodies`:
    bytes that all bodies on their way may hold; the first of each are not counted (`serve.bodies.SMALL`)."""

    body: int = 8 << 20
    bodies: int = 64 << 20
    text: int = 5000
    inside: int = 32
    together: int = 16
    head_seconds: float = 20.0
    body_seconds: float = 20.0
    answer_seconds: float = 120.0
    connections: int = 512
