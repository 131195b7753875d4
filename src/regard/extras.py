"""The optional packages, the extra that brings each, and how to install it."""

from pathlib import Path

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
    "soundfile": "audio",
    "pyarrow": "scale",
    "fsspec": "remote",
    "aiohttp": "remote",
    "ray": "ray",
    "starlette": "serve",
    "uvicorn": "serve",
    "prometheus_client": "serve",
}
"""Each optional package, and its extra."""
PACKAGE = Path(__file__).parent


def how_to_install(package: str) -> str:
    """Return the command that installs an optional package.

    With regard, or with the checkout that regard is used from.
    """
    extra = EXTRAS[package]
    checkout = PACKAGE.parents[1]
    if PACKAGE.parent.name != "src" or not (checkout / "pyproject.toml").is_file():
        return f"pip install 'regard[{extra}]'"
    place = "." if checkout == Path.cwd() else checkout
    return f"pip install -e '{place}[{extra}]'"
