"""Files of object stores and web servers by their URL, through fsspec. A store that fails is tried again."""

import importlib
import io
import logging
import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

from regard.errors import InputError
from regard.extras import how_to_install

URL = re.compile(r"[a-z][a-z0-9+.-]*://")
TRIES, PAUSE = 5, 0.5
"""How often a store is tried, and the seconds before the second time; the pause doubles each time."""
SCHEMES = ("http", "https", "s3", "gs", "gcs", "az", "abfs", "hf", "memory")
"""Kinds of stores that a URL may name. Other schemes of fsspec read local files (`file`), chain stores or render
templates that execute code (`reference`, before fsspec 2026.6)."""
BLOCK = 1 << 20
T = TypeVar("T")
log = logging.getLogger("regard")


def is_remote(path: object) -> bool:
    """Whether a path is a URL, such as s3://bucket/train.txt."""
    return URL.match(str(path)) is not None


def remote_size(url: str) -> int:
    """The bytes of a file. Raises InputError as `open_remote`."""
    return int(_in_store(url, lambda system, path: system.size(path)) or 0)


def remote_stamp(url: str) -> list[Any]:
    """What changes when a file does: its size, and the tag or the time that the store has. Raises InputError as
    `open_remote`."""
    info = _in_store(url, lambda system, path: system.info(path))
    tags = [
        str(info[name])
        for name in ("ETag", "etag", "mtime", "LastModified", "created")
        if info.get(name)
    ]
    return [url, info.get("size"), *tags]


def remote_names(pattern: str) -> list[str]:
    """The URLs that fit a pattern with * or ?. Raises InputError as `open_remote`."""
    return sorted(
        _in_store(
            pattern,
            lambda system, path: [
                system.unstrip_protocol(name) for name in system.glob(path)
            ],
        )
    )


def open_remote(url: str) -> io.BufferedReader:
    """The content of a file. Where the store fails, it is read on from the same place, `TRIES` times at most without a
    byte. Raises InputError for a file that is not there, a store that cannot be reached, and an unknown kind of URL."""
    return io.BufferedReader(_Remote(url), BLOCK)


class _Remote(io.RawIOBase):
    """A remote file whose reads are tried again."""

    def __init__(self, url: str) -> None:
        self.url, self.place, self.file = url, 0, _tried(url, lambda: _open(url))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        size = remote_size(self.url) if whence == io.SEEK_END else 0
        self.place = offset + (self.place if whence == io.SEEK_CUR else size)
        return self.place

    def readinto(self, buffer: Any) -> int:
        found = _tried(self.url, lambda: self._read(len(buffer)))
        buffer[: len(found)] = found
        self.place += len(found)
        return len(found)

    def _read(self, count: int) -> bytes:
        try:
            self.file.seek(self.place)
            return self.file.read(count)
        except Exception:
            self.file = _open(self.url)  # what failed may be of no use any more
            raise

    def close(self) -> None:
        self.file.close()
        super().close()


def _open(url: str) -> Any:
    system, path = _system(url)
    return system.open(path, "rb")


def _system(url: str) -> tuple[Any, str]:
    if "::" in url:
        raise InputError(
            f"{url}: chained URLs are not allowed. Write a single URL without '::'."
        )
    if url.partition("://")[0] not in SCHEMES:
        raise InputError(
            f"{url}: this kind of URL is not supported. Use a local path or one of {', '.join(SCHEMES)}."
        )
    try:
        return importlib.import_module("fsspec.core").url_to_fs(url)
    except ImportError as error:
        raise InputError(
            f"{url}: needs a package that is not installed ({error}): {how_to_install('fsspec')}"
        ) from error
    except ValueError as error:
        raise InputError(
            f"{url}: no file system of this kind ({' '.join(str(error).split())})"
        ) from error


def _in_store(url: str, action: Callable[[Any, str], T]) -> T:
    return _tried(url, lambda: action(*_system(url)))


def _tried(url: str, action: Callable[[], T]) -> T:
    for number in range(TRIES):
        try:
            return action()
        except InputError:
            raise
        except FileNotFoundError as error:
            raise InputError(f"{url}: no such file; check the URL") from error
        except PermissionError as error:
            raise InputError(
                f"{url}: access denied; check the credentials of the store"
            ) from error
        except Exception as error:  # each store has errors of its own
            reason = " ".join(str(error).split())[:100] or type(error).__name__
            if number + 1 == TRIES:
                raise InputError(
                    f"{url}: cannot be read ({reason}), tried {TRIES} times; try again later"
                ) from error
            log.warning("%s: cannot be read (%s); trying again", url, reason)
            time.sleep(PAUSE * 2**number)
    raise AssertionError("unreachable")
