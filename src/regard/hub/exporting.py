"""Export of runs for Hugging Face's libraries."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import InputError, RunError
from regard.hub.card import write_card
from regard.hub.families import FAMILIES
from regard.hub.families.gpt2 import TEXT_TASKS
from regard.hub.families.llama import find_variant
from regard.hub.families.weights import write_weights
from regard.hub.generation import GENERATION, write_generation
from regard.hub.parity import check_images, check_texts
from regard.hub.tokenizers import marian_files, save_tokenizer
from regard.images import Preparation
from regard.models.llama import LlamaConfig
from regard.models.pretrained import Pretrained, PretrainedSeq2Seq, PretrainedVision
from regard.models.published import (
    first_line,
    load_network,
    quiet_library,
    require_transformers,
)
from regard.models.published_images import RESAMPLING
from regard.models.vit import Vit, VitConfig
from regard.runs.load import load
from regard.storage import tensors
from regard.storage.atomic import explained, new_folder
from regard.storage.published_folder import CONFIG, WEIGHTS, PublishedFolder
from regard.storage.run_folder import LABELS
from regard.tasks.tokenizers import check_mask

TYPES = {"bert": "bert", "gpt2": "gpt2", "transformer": "marian"}
"""The published model types of regard's models."""
PREPROCESSOR = "preprocessor_config.json"


def export_run(path: Path, out: Path) -> list[str]:
    """Export a run's model to the folder `out`, and check the export.

    Returns:
        The runtimes that checked the export.

    Raises:
        InputError: The run's model is of no published family, or `out` exists.
        RunError: The export computes other values; it is removed.
    """
    run = load(path, "cpu")
    require_transformers(f"{path}: an export")
    if isinstance(run.model, Pretrained | PretrainedSeq2Seq):
        return export_network(run, path, out)
    try:
        document, weights = published_form(run)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    with new_folder(out):
        write_card(path, out, "Hugging Face's libraries")
        write_json(out / CONFIG, document)
        with explained(out):
            tensors.write(out / WEIGHTS, weights, {"format": "pt"})
        try:
            write_preparation(run, out)
            check_export(run, out, document)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
    return ["transformers"]


def published_form(run: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the config.json of a run's model, and its published tensors.

    Raises:
        InputError: No published family has such a model.
    """
    config = run.config.model
    family = FAMILIES[model_type(run)]
    task = run.config.task
    document = family.write_config(config, task)
    parameters = {**run.model.state_dict(), **scaled_output(run)}
    table = family.parts(config, task)
    layers = getattr(config, "layers", 0)
    weights = write_weights(table, family.to_published(parameters, config), layers)
    if document["architectures"] == ["BertModel"]:
        weights = {
            name.removeprefix("bert."): tensor for name, tensor in weights.items()
        }
    return document | vocabulary_keys(run) | label_keys(run), weights


def model_type(run: Any) -> str:
    """Return the published model type of a run's model.

    Raises:
        InputError: There is none.
    """
    config = run.config.model
    if isinstance(config, LlamaConfig):
        return find_variant(config)[0]
    if isinstance(config, VitConfig):
        if not run.labels:
            raise InputError("has no classes; regard exports classifiers of images")
        return "vit"
    if config.name not in TYPES:
        raise InputError(
            f"is a model named {config.name}; regard exports gpt2, llama, bert, "
            "transformer, vit and pretrained"
        )
    return TYPES[config.name]


def scaled_output(run: Any) -> dict[str, Tensor]:
    """Return the output layer of a number, which predicts the number itself.

    Raises:
        InputError: The model has no bias to add the mean of the numbers.
    """
    if run.config.task != "regression":
        return {}
    output, outputs = run.model.output, run.outputs
    scaled = {"output.weight": output.weight.detach() * outputs.deviation}
    if output.bias is not None:
        bias = output.bias.detach() * outputs.deviation + outputs.mean
        return scaled | {"output.bias": bias}
    if outputs.mean:
        raise InputError(
            f"its numbers have the mean {outputs.mean:.4g}, and a published gpt2 has no "
            "bias to add it. Train on labels with a mean of 0."
        )
    return scaled


def vocabulary_keys(run: Any) -> dict[str, Any]:
    """Return the keys of a configuration that name special tokens."""
    if isinstance(run.model, Vit):
        return {}
    if run.config.task == "seq2seq":
        size, special = run.tokenizers.target.size, run.tokenizers.target.special
        start = special.start
        ids = {"pad_token_id": start, "decoder_start_token_id": start}
        return {"vocab_size": size, "decoder_vocab_size": size, **ids} | {
            "eos_token_id": special.end
        }
    size, special = run.tokenizer.size, run.tokenizer.special
    ids = {"bos_token_id": special.start, "eos_token_id": special.end}
    return {"vocab_size": size, **ids, "pad_token_id": special.pad}


def label_keys(run: Any) -> dict[str, Any]:
    """Return the keys of a configuration that describe a head."""
    task = run.config.task
    labels = []
    if task in TEXT_TASKS:
        labels = run.outputs.files.get(LABELS, ()) or ("LABEL_0",)
    elif task in ("tagging", "image-classification"):
        labels = run.labels
    if not labels:
        return {}
    keys: dict[str, Any] = {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }
    return keys | ({"problem_type": run.outputs.problem} if task in TEXT_TASKS else {})


def write_preparation(run: Any, out: Path, *, described: bool = True) -> None:
    """Write what prepares the inputs of a run's model, such as its tokenizer.

    Args:
        run: The run.
        out: The folder of the export.
        described: Whether to write the settings of the search too.

    Raises:
        InputError: The tokenizer has no published form.
        RunError: The published tokenizer cuts text differently.
    """
    config, task = run.config, run.config.task
    if isinstance(run.model, Vit | PretrainedVision):
        write_json(out / PREPROCESSOR, image_processor(config.images, config.model))
        return
    if task == "seq2seq":
        context = run.model.max_source or 1024
        if run.tokenizers.source.settings.kind == "unigram":
            sides = run.tokenizers.source, run.tokenizers.target
            for name, document in marian_files(*sides, context).items():
                write_json(out / name, document)
        elif config.tokenizers.shared:
            save_tokenizer(run.tokenizers.source, out, context)
        else:
            raise InputError(
                "its sides have tokenizers of their own; none is published"
            )
        if described:
            write_search(run, out, run.tokenizers.target.special.ends)
        return
    if task == "masked-language-model":
        check_mask(run.tokenizer)
    classifies = config.model.name == "gpt2" and task in TEXT_TASKS
    before = "nothing" if classifies else None
    if task == "language-model":
        before = config.before
        if described:
            write_search(run, out, run.tokenizer.special.ends)
    context = getattr(config.model, "context", None) or 1024
    save_tokenizer(run.tokenizer, out, context, before)


def write_search(run: Any, out: Path, ends: tuple[int, ...]) -> None:
    """Write the settings of a run's search."""
    search, encodes = run.config.search, run.config.task == "seq2seq"
    document = write_generation(search, ends, encodes=encodes)
    if encodes:
        start = run.tokenizers.target.special.start
        limit = (
            run.config.model.max_length
            if not isinstance(run.model, PretrainedSeq2Seq)
            else run.config.model.positions
        )
        longest = limit if search.length_ratio else search.length_extra + 1
        banned = [*document.get("bad_words_ids", []), [start]]
        document |= {
            "max_length": longest,
            "bad_words_ids": banned,
            "pad_token_id": start,
            "decoder_start_token_id": start,
        }
    else:
        document |= {
            "max_new_tokens": run.config.tokens,
            "bos_token_id": run.tokenizer.special.start,
        }
    write_json(out / GENERATION, document)


def image_processor(images: Preparation, config: Any) -> dict[str, Any]:
    """Return the preprocessor_config.json of a preparation."""
    size = images.size or config.image
    resize = images.resize or size
    is_cropped = images.shape == "kept" or resize != size
    kind = "DeiTImageProcessor" if is_cropped else "ViTImageProcessor"
    square: dict[str, int] = {"height": resize, "width": resize}
    if images.shape == "kept":
        kind, square = "CLIPImageProcessor", {"shortest_edge": resize}
    document = {
        "image_processor_type": kind,
        "do_convert_rgb": config.channels == 3,
        "do_resize": True,
        "size": square,
        "resample": RESAMPLING.index(images.resample),
        "do_center_crop": is_cropped,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": _per_channel(images.mean, config.channels),
        "image_std": _per_channel(images.deviation, config.channels),
    }
    crop = {"crop_size": {"height": size, "width": size}} if is_cropped else {}
    return document | crop


def _per_channel(numbers: tuple[float, ...], channels: int) -> list[float]:
    return list(numbers if len(numbers) == channels else numbers * channels)


def check_export(run: Any, out: Path, document: Mapping[str, Any]) -> None:
    """Compare the written model, as transformers loads it, with the run's.

    Raises:
        RunError: The two differ, or the library cannot load the files.
    """
    library = require_transformers(str(out))
    kind = getattr(library, document["architectures"][0])
    try:
        network, missing = load_network(kind, PublishedFolder(out))
    except InputError as error:
        raise RunError(f"{out}: {first_line(error)}; it is removed") from error
    if missing:
        raise RunError(f"{out}: transformers misses {min(missing)}; it is removed")
    try:
        if isinstance(run.model, Vit):
            check_images(run.model, network)
            return
        if run.config.task == "seq2seq":
            size, special = run.tokenizers.target.size, run.tokenizers.target.special
            context = run.config.model.max_length
        else:
            size, special = run.tokenizer.size, run.tokenizer.special
            context = run.config.model.context
        with torch.no_grad():
            for name, tensor in scaled_output(run).items():
                run.model.get_parameter(name).copy_(tensor)
        check_texts(run.model, network, context, size, special)
    except RunError as error:
        raise RunError(f"{out}: {error}; it is removed") from error


def export_network(run: Any, path: Path, out: Path) -> list[str]:
    """Export a pretrained model: its network, as transformers writes it.

    Raises:
        InputError: The run has a head that no published class has.
    """
    model: nn.Module = run.model
    network: Any = model.network if isinstance(model, Pretrained) else None
    if isinstance(model, PretrainedSeq2Seq):
        network = model.decoder.network
    elif not (isinstance(model, Pretrained) and model.is_published):
        raise InputError(
            f"{path}: has a new head over a {type(network).__name__}, which no class of "
            "transformers has. Start from a model with a head to export it."
        )
    for key, value in label_keys(run).items():
        if key == "id2label":
            value = {int(number): label for number, label in value.items()}
        setattr(network.config, key, value)
    with new_folder(out):
        write_card(path, out, "Hugging Face's libraries")
        with explained(out), quiet_library():
            network.save_pretrained(out)
        write_preparation(run, out)
        loaded, missing = load_network(type(network), PublishedFolder(out))
        own, theirs = network.state_dict(), loaded.state_dict()
        same = all(torch.equal(tensor, theirs[name]) for name, tensor in own.items())
        if missing or not same:
            raise RunError(f"{out}: its weights differ from the run's; it is removed")
    return ["transformers"]


def write_json(path: Path, value: Mapping[str, Any] | bytes) -> None:
    """Write a JSON object, or bytes as they are."""
    if isinstance(value, bytes):
        content = value
    else:
        content = (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode()
    with explained(path):
        path.write_bytes(content)
