"""Tar files for tests."""

import io
import tarfile
from pathlib import Path


def packed(path: Path, files: dict[str, bytes]) -> Path:
    """Write files with these contents into a tar file, whose path is returned."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path
