"""Packages that regard can do without."""

EXTRAS = {
    "matplotlib": "plot",
    "babel": "dates",
    "tensorboard": "tensorboard",
    "transformers": "transformers",
    "onnx": "onnx",
    "onnxscript": "onnx",
    "onnxruntime": "onnx",
    "ctranslate2": "ctranslate2",
    "pillow": "images",
    "h5py": "elmo",
    "starlette": "serve",
    "uvicorn": "serve",
}
"""Each optional package, and the extra of regard that brings it."""


def how_to_install(package: str) -> str:
    """The command that installs an optional package."""
    return f"pip install 'regard[{EXTRAS[package]}]'"
