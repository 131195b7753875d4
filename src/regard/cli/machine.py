"""The installation: versions, devices and kernels."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from regard.cli.output import one_line
from regard.extras import EXTRAS, how_to_install
from regard.version import VERSION

if TYPE_CHECKING:
    from regard.kernels.libraries import Kernel

PACKAGES = ("torch", "accelerate", "tokenizers", "safetensors", "sacrebleu", "numpy")


def versions() -> dict[str, str]:
    """Of regard, Python and the packages; for an optional one that is missing, how to install it."""
    rows = {
        "regard": VERSION,
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
    }
    rows |= {
        name: _version(name) or "not installed; install regard again"
        for name in PACKAGES
    }
    return rows | {
        name: _version(name) or f"not installed; {how_to_install(name)}"
        for name in EXTRAS
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def active() -> dict[str, str]:
    """Devices, threads and kernels."""
    try:
        import torch
    except Exception as error:  # any error of a broken installation is reported
        return {
            "devices": f"unknown: torch cannot be imported ({type(error).__name__}: {one_line(str(error))})"
        }
    from regard.kernels.libraries import find
    from regard.training.devices import devices, multiplies_bf16

    return {
        "devices": ", ".join(_device(kind, torch) for kind in devices()),
        "bf16 products": ", ".join(kind for kind in devices() if multiplies_bf16(kind))
        or "none in hardware",
        "threads": f"{torch.get_num_threads()}, in training 1 for a small model; --set training.threads=N changes it",
        "additive scores": _kernel("fused on a CPU", find("additive")),
        "product scores": "PyTorch's fused attention; on a CPU plain where that was measured to be faster",
        "layers of Transformers": _kernel(
            "one call when a CPU writes or reads", find("layer")
        ),
        "rotary positions": _kernel("turned in one pass on a CPU", find("rotary")),
        "cross-entropy": "chunk by chunk",
    }


def _kernel(form: str, found: "Kernel") -> str:
    return (
        f"{form}, by {found.description}"
        if found.library
        else f"plain: {found.description}"
    )


def _device(kind: str, torch) -> str:
    if kind != "cuda":
        return kind
    names = [
        torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())
    ]
    return f"cuda ({', '.join(names)})"
