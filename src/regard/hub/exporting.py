"""Export of runs for Hugging Face's libraries."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError, RunError
from regard.hub.card import write_card
from regard.hub.families import FAMILIES
from regard.hub.families.weights import TEXT_TASKS
from regard.hub.generation import GENERATION, write_generation
from regard.hub.parity import check_parity
from regard.hub.tokenizers import save_tokenizer
from regard.images import Preparation
from regard.models.pretrained import Pretrained, PretrainedSeq2Seq, PretrainedVision
from regard.models.published import (
    check_complete,
    load_network,
    quiet_library,
    require_transformers,
)
from regard.models.published_images import RESAMPLING
from regard.models.vit import Vit, VitConfig
from regard.runs.load import load
from regard.storage import tensors
from regard.storage.atomic import explain_errors, new_folder
from regard.storage.published_folder import CONFIG, WEIGHTS, PublishedFolder
from regard.storage.run_folder import LABELS
from regard.tasks.tokenizers import check_mask

TYPES = {name: name for name in ("bert", "gpt2", "llama", "vit")}
TYPES |= {"transformer": "marian"}
"""The published model types of regard's models."""
CONTEXT = 1024
"""The most tokens of a row of a model without a limit, in a tokenizer's file."""


def export_run(path: Path, out: Path) -> list[str]:
    """Export a run's model to the folder `out`, and check the export.

    Returns:
        The runtimes that checked the export.

    Raises:
        InputError: The run's model is of no published family, or `out` exists.
        RunError: The export computes other values; it is removed.
    """
    run = load(path, "cpu")
    library = require_transformers(f"{path}: an export")
    try:
        network = find_network(run)
        document, weights = ({}, {}) if network else convert_model(run)
        with new_folder(out):
            write_card(path, out, "Hugging Face's libraries")
            with explain_errors(out), quiet_library():
                if network:
                    network.save_pretrained(out)
                else:
                    write_json(out / CONFIG, document)
                    tensors.write(out / WEIGHTS, weights, {"format": "pt"})
            write_preparation(run, out)
            kind = type(network)
            if not network:
                kind = getattr(library, document["architectures"][0])
            check_export(run, network, kind, out)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    return ["transformers"]


def check_export(run: Any, network: Any, kind: Any, out: Path) -> None:
    """Compare a run's model with the written one, as transformers loads it.

    Raises:
        RunError: The two differ, or the library cannot load the files.
    """
    try:
        folder = PublishedFolder(out)
        loaded, missing = load_network(kind, folder)
        check_complete(folder, loaded, missing)
        if network:
            written = loaded.state_dict()
            for name, tensor in network.state_dict().items():
                if not torch.equal(tensor, written[name]):
                    raise RunError(f"{name} differs from the run's")
            return
        with torch.no_grad():
            for name, tensor in scale_output(run).items():
                run.model.get_parameter(name).copy_(tensor)
        check_parity(run.model, loaded, target_tokenizer(run))
    except (InputError, RunError) as error:
        raise RunError(f"{out}: {error}; it is removed") from error


def target_tokenizer(run: Any) -> Any:
    """Return the tokenizer of what a run predicts; None for a run of images."""
    if isinstance(run.model, Vit | PretrainedVision):
        return None
    return run.tokenizers.target if run.config.task == "seq2seq" else run.tokenizer


def find_network(run: Any) -> Any:
    """Return the network of a pretrained model, with the run's labels, or None.

    Raises:
        InputError: The run has a head that no published class has.
    """
    model = run.model
    if isinstance(model, PretrainedSeq2Seq):
        network = model.decoder.network
    elif isinstance(model, Pretrained):
        network = model.network
        if not model.has_head:
            raise InputError(
                f"has a new head over a {type(network).__name__}, which no class of "
                "transformers has. Start from a model with a head to export it."
            )
    else:
        return None
    for key, value in label_keys(run).items():
        if key == "id2label":
            value = {int(number): label for number, label in value.items()}
        setattr(network.config, key, value)
    return network


def convert_model(run: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the config.json of a run's model, and its published tensors.

    Raises:
        InputError: No published family has such a model.
    """
    config = run.config.model
    task = run.config.task
    kind = TYPES.get(config.name)
    if isinstance(config, VitConfig) and not run.labels:
        raise InputError("has no classes; regard exports classifiers of images")
    if kind is None:
        raise InputError(
            f"is a model named {config.name}; regard exports gpt2, llama, bert, "
            "transformer, vit and pretrained"
        )
    family = FAMILIES[kind]
    document = family.write_config(config, task)
    parameters = {**run.model.state_dict(), **scale_output(run)}
    weights = family.write(parameters, config, task)
    if document["architectures"] == ["BertModel"]:
        weights = {name.removeprefix("bert."): weights[name] for name in weights}
    return document | vocabulary_keys(run) | label_keys(run), weights


def scale_output(run: Any) -> dict[str, Tensor]:
    """Return the output layer of a number, which predicts the number itself.

    Raises:
        InputError: The model has no bias to add the mean of the numbers.
    """
    if run.config.task != "regression":
        return {}
    output = run.model.output
    outputs = run.outputs
    weight = output.weight.detach() * outputs.deviation
    if output.bias is not None:
        bias = output.bias.detach() * outputs.deviation + outputs.mean
        return {"output.weight": weight, "output.bias": bias}
    if outputs.mean:
        raise InputError(
            f"its numbers have the mean {outputs.mean:.4g}, and a published gpt2 has no "
            "bias to add it. Train on labels with a mean of 0."
        )
    return {"output.weight": weight}


def vocabulary_keys(run: Any) -> dict[str, Any]:
    """Return the keys of a configuration that name special tokens."""
    tokenizer = target_tokenizer(run)
    if tokenizer is None:
        return {}
    size = tokenizer.size
    special = tokenizer.special
    keys = {"vocab_size": size, "eos_token_id": special.end}
    if run.config.task != "seq2seq":
        return keys | {"bos_token_id": special.start, "pad_token_id": special.pad}
    starts = dict.fromkeys(("pad_token_id", "decoder_start_token_id"), special.start)
    return keys | {"decoder_vocab_size": size} | starts


def label_keys(run: Any) -> dict[str, Any]:
    """Return the keys of a configuration that describe a head."""
    task = run.config.task
    keys = {}
    if task in TEXT_TASKS:
        labels = run.outputs.files.get(LABELS, ()) or ("LABEL_0",)
        keys["problem_type"] = run.outputs.problem
    elif task in ("tagging", "image-classification"):
        labels = run.labels
    else:
        return {}
    names = {str(number): label for number, label in enumerate(labels)}
    numbers = {label: number for number, label in enumerate(labels)}
    return keys | ({"id2label": names, "label2id": numbers} if labels else {})


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
    config = run.config
    task = run.config.task
    tokenizer = target_tokenizer(run)
    if tokenizer is None:
        document = image_processor(config.images, config.model)
        write_json(out / "preprocessor_config.json", document)
        return
    if described and task in ("seq2seq", "language-model"):
        write_search(run, out, tokenizer.special.ends)
    if task == "seq2seq":
        source = run.tokenizers.source
        context = run.model.max_source or CONTEXT
        if config.tokenizers.shared:
            save_tokenizer(source, out, context)
        elif source.settings.kind != "pipeline":  # else the publisher has the files
            raise InputError(
                "its sides have tokenizers of their own; none is published"
            )
        return
    before = config.before if task == "language-model" else None
    if task == "masked-language-model":
        check_mask(tokenizer)
    elif config.model.name == "gpt2" and task in TEXT_TASKS:
        before = "nothing"
    context = getattr(config.model, "context", None) or CONTEXT
    save_tokenizer(tokenizer, out, context, before)


def write_inputs(run: Any, out: Path, *, described: bool = True) -> None:
    """Write the files that prepare the inputs of a graph of a run.

    A model of no published family has its tokenizers as the tokenizers library does.

    Args:
        run: The run.
        out: The folder of the export.
        described: Whether to write config.json and generation_config.json too.
    """
    try:
        document, _ = convert_model(run)
        write_preparation(run, out, described=described)
    except InputError:  # no published family computes this model; other runtimes do
        sides = {"tokenizer.json": target_tokenizer(run)}
        if run.config.task == "seq2seq":
            sides = {
                "source.tokenizer.json": run.tokenizers.source,
                "target.tokenizer.json": run.tokenizers.target,
            }
        for name, tokenizer in sides.items():
            write_json(out / name, tokenizer.backend)
        return
    if described:
        write_json(out / CONFIG, document)


def write_search(run: Any, out: Path, ends: tuple[int, ...]) -> None:
    """Write the settings of a run's search."""
    search = run.config.search
    encodes = run.config.task == "seq2seq"
    document = write_generation(search, ends, encodes=encodes)
    if encodes:
        start = run.tokenizers.target.special.start
        model = run.model
        is_network = isinstance(model, PretrainedSeq2Seq)
        sizes = run.config.model
        limit = sizes.positions if is_network else sizes.max_length
        document |= {
            "max_length": limit if search.length_ratio else search.length_extra + 1,
            "bad_words_ids": [*document.get("bad_words_ids", []), [start]],
            "pad_token_id": start,
            "decoder_start_token_id": start,
        }
    else:
        document["max_new_tokens"] = run.config.tokens
        document["bos_token_id"] = run.tokenizer.special.start
    write_json(out / GENERATION, document)


def image_processor(images: Preparation, config: Any) -> dict[str, Any]:
    """Return the preprocessor_config.json of a preparation."""
    size = images.size or config.image
    resize = images.resize or size
    keeps_shape = images.shape == "kept"
    is_cropped = keeps_shape or resize != size
    kind = "CLIP" if keeps_shape else "DeiT" if is_cropped else "ViT"
    sides = ("shortest_edge",) if keeps_shape else ("height", "width")
    mean, deviation = (
        list(numbers if len(numbers) == config.channels else numbers * config.channels)
        for numbers in (images.mean, images.deviation)
    )
    document = {
        "image_processor_type": f"{kind}ImageProcessor",
        "do_convert_rgb": config.channels == 3,
        "do_resize": True,
        "size": dict.fromkeys(sides, resize),
        "resample": RESAMPLING.index(images.resample),
        "do_center_crop": is_cropped,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": mean,
        "image_std": deviation,
    }
    crop = {"crop_size": {"height": size, "width": size}} if is_cropped else {}
    return document | crop


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object."""
    with explain_errors(path):
        text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
        path.write_text(text, encoding="utf-8")
