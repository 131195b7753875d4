"""The one thread that uses the models: it takes what has come and answers it as one batch."""

import contextvars
import logging
import threading
from collections import deque
from collections.abc import Sequence

from regard.serve.http_errors import encoded
from regard.serve.pending import LEFT, SLOW, Event, PendingRequest, fault

logger = logging.getLogger(__name__)


class Worker:
    """Answers requests in the order in which they came, with the first those of its group, `together` at most."""

    def __init__(self, together: int) -> None:
        self.together = together
        self._requests: deque[PendingRequest] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        context = contextvars.copy_context()  # in which --debug is
        self._thread = threading.Thread(target=context.run, args=(self._work,), name="regard-models", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End once all that was put has been answered or given up."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    def put(self, pending: PendingRequest) -> None:
        """Behind all others."""
        with self._changed:
            self._requests.append(pending)
            self._changed.notify()

    def _work(self) -> None:
        while batch := self._take():
            answer(batch)

    def _take(self) -> list[PendingRequest]:
        """What is answered next; nothing at the end."""
        with self._changed:
            while True:
                self._requests = deque(pending for pending in self._requests if not pending.gone)
                if self._requests or self._stopping:
                    break
                self._changed.wait()
            batch = [pending for pending in self._requests if pending.group == self._requests[0].group][: self.together]
            self._requests = deque(pending for pending in self._requests if pending not in batch)
            return batch


def answer(batch: Sequence[PendingRequest]) -> None:
    """Answer each request, or report why there is no answer. Where a batch fails before its first part, each request is
    answered alone, so that none suffers from another's fault."""
    waiting, silent = dict(enumerate(batch)), True
    try:
        said = batch[0].operation.answer([pending.ask for pending in batch], lambda number: batch[number].wanted)
        for number, data, last in said:
            silent = False
            batch[number].say(Event(encoded(data), last))
            if last:
                del waiting[number]
    except Exception as error:
        if silent and len(batch) > 1:
            for pending in batch:
                answer([pending])
            return
        for pending in waiting.values():
            pending.say(failure(error))
        return
    for pending in waiting.values():
        pending.say(SLOW if pending.slow else LEFT)


def failure(error: Exception) -> Event:
    """What is told: a fault of the request as it is, one of ours without its details, which the log has."""
    if isinstance(error, ValueError | FloatingPointError):
        return fault(422 if isinstance(error, ValueError) else 500, " ".join(str(error).split()))
    logger.error("a request failed", exc_info=error)
    return fault(500, f"unexpected {type(error).__name__}; the server's log says more")
