"""The kind of a file in the place of weights or a run, from its first bytes; nothing else is read."""

from pathlib import Path

STARTS = {
    b"version https://git-lfs": "a Git LFS pointer (fetch the file itself with `git lfs pull`)",
    b"PK\x03\x04": "a zip archive, as torch.save writes",
    b"PK\x05\x06": "an empty zip archive",
    b"\x1f\x8b": "a gzip file",
    b"\x89HDF": "an HDF5 file",
    b"\x93NUMPY": "a NumPy array",
    b"GGUF": "a GGUF file",
    b"%PDF": "a PDF",
    b"\x89PNG": "a PNG image",
}
MARKUP = (b"<!doctype html", b"<html", b"<?xml", b"<head", b"<body")


def named(path: Path) -> str | None:
    """The kind of the file, or None if unknown. Raises OSError."""
    with path.open("rb") as file:
        head = file.read(1024)
    if not head:
        return "an empty file"
    if head[4:9] == b"\0\0\0\0{":
        return None  # safetensors: the length of its header can begin like a pickle or a gzip file
    for start, name in STARTS.items():
        if head.startswith(start):
            return name
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(MARKUP):
        return "an HTML page (a download that ended at a login or error page?)"
    if head[:1] == b"\x80" and head[1:2] in {b"\x02", b"\x03", b"\x04", b"\x05"}:
        return "a pickle, which can run code when it is read"
    if head[257:262] == b"ustar":
        return "a tar archive"
    return "plain text" if _text(head) else None


def _text(head: bytes) -> bool:
    try:
        text = head[:-3].decode("utf-8") if len(head) == 1024 else head.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start > 900  # a character cut by the end of the first bytes
    return all(character.isprintable() or character in "\t\r\n\f" for character in text)
