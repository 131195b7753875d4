"""Export of runs for Hugging Face's libraries."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError, RunError
from regard.hub.families import FAMILIES
from regard.hub.families.weights import TEXT_TASKS, Keys
from regard.hub.generation import GENERATION, write_generation
from regard.hub.model_card import write_card
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
from regard.models.vit import Vit
from regard.runs.run_file import load
from regard.storage.atomic import explain_errors, new_folder
from regard.storage.published_folder import CONFIG, WEIGHTS, PublishedFolder
from regard.storage.run_folder import LABELS
from regard.storage.tensors import write_tensors
from regard.tasks.base import check_mask
from regard.text.kinds import SPECIAL

TYPES = {
    "bert": "bert",
    "gpt2": "gpt2",
    "llama": "llama",
    "vit": "vit",
    "transformer": "marian",
}
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
                    write_tensors(out / WEIGHTS, weights, {"format": "pt"})
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
        tokenizer = target_tokenizer(run)
        check_parity(run.model, loaded, tokenizer.special if tokenizer else SPECIAL)
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
        model = model.decoder
    elif not isinstance(model, Pretrained):
        return None
    elif not model.has_head:
        raise InputError(
            f"has a new head over a {type(model.network).__name__}, which no class of "
            "transformers has. Start from a model with a head to export it."
        )
    for key, value in label_keys(run).items():
        setattr(model.network.config, key, value)
    return model.network


def convert_model(run: Any) -> tuple[Keys, dict[str, Tensor]]:
    """Return the config.json of a run's model, and its published tensors.

    Raises:
        InputError: No published family has such a model.
    """
    config = run.config.model
    task = run.config.task
    if config.name not in TYPES:
        raise InputError(
            f"is a model named {config.name}; regard exports {', '.join(TYPES)} and "
            "pretrained, but no recurrent models. Use the run itself (regard predict, "
            "regard serve), or its weights.safetensors in PyTorch."
        )
    if config.name == "vit" and not run.labels:
        raise InputError("has no classes; regard exports classifiers of images")
    kind = TYPES[config.name]
    document = {"model_type": kind, **FAMILIES[kind].write_config(config, task)}
    parameters = {**run.model.state_dict(), **scale_output(run)}
    weights = FAMILIES[kind].write_weights(parameters, config, task)
    if document["architectures"] == ["BertModel"]:
        weights = {name.removeprefix("bert."): weights[name] for name in weights}
    tokenizer = target_tokenizer(run)
    if tokenizer is not None:
        special = tokenizer.special
        document |= {"vocab_size": tokenizer.size, "eos_token_id": special.end}
        document["pad_token_id"] = special.pad
        start = "bos_token_id"
        if task == "seq2seq":
            document["decoder_vocab_size"] = tokenizer.size
            document["pad_token_id"] = special.start
            start = "decoder_start_token_id"
        document[start] = special.start
    return document | label_keys(run), weights


def scale_output(run: Any) -> dict[str, Tensor]:
    """Return the output layer of a number, which predicts the number itself.

    Raises:
        InputError: The model has no bias to add the mean of the numbers.
    """
    if run.config.task != "regression":
        return {}
    output = run.model.output
    outputs = run.outputs
    weights = {"output.weight": output.weight.detach() * outputs.deviation}
    if output.bias is not None:
        bias = output.bias.detach() * outputs.deviation + outputs.mean
        weights["output.bias"] = bias
    elif outputs.mean:
        raise InputError(
            f"its numbers have the mean {outputs.mean:.4g}, and a published gpt2 has no "
            "bias to add it. Train on labels with a mean of 0."
        )
    return weights


def label_keys(run: Any) -> Keys:
    """Return the keys of a configuration that describe a head."""
    task = run.config.task
    keys = {}
    labels = ()
    if task in TEXT_TASKS:
        labels = run.outputs.files.get(LABELS, ()) or ("LABEL_0",)
        keys["problem_type"] = run.outputs.problem
    elif task in ("tagging", "image-classification"):
        labels = run.labels
    if labels:
        keys["id2label"] = dict(enumerate(labels))
        keys["label2id"] = {label: number for number, label in enumerate(labels)}
    return keys


def write_preparation(run: Any, out: Path, *, described: bool = True) -> None:
    """Write what prepares the inputs of a run's model, such as its tokenizer.

    Args:
        out: The folder of the export.
        described: Whether to write the settings of the search too.

    Raises:
        InputError: The tokenizer has no published form.
        RunError: The published tokenizer cuts text differently.
    """
    config = run.config
    task = config.task
    tokenizer = target_tokenizer(run)
    if tokenizer is None:
        document = image_processor(config.images, config.model)
        write_json(out / "preprocessor_config.json", document)
        return
    if described and task in ("seq2seq", "language-model"):
        write_json(out / GENERATION, describe_search(run))
    before = config.before if task == "language-model" else None
    context = getattr(config.model, "context", None)
    if task == "seq2seq":
        tokenizer = run.tokenizers.source
        context = run.model.max_source
        if not config.tokenizers.shared:
            if tokenizer.settings.kind == "pipeline":
                return  # the publisher has the files
            raise InputError(
                "its sides have tokenizers of their own; none is published"
            )
    elif task == "masked-language-model":
        check_mask(tokenizer)
    elif config.model.name == "gpt2" and task in TEXT_TASKS:
        before = "nothing"
    save_tokenizer(tokenizer, out, context or CONTEXT, before)


def write_inputs(run: Any, out: Path, *, described: bool = True) -> None:
    """Write the files that prepare the inputs of a graph of a run.

    A model of no published family has its tokenizers as the tokenizers library does.

    Args:
        out: The folder of the export.
        described: Whether to write config.json and generation_config.json too.
    """
    try:
        document, _ = convert_model(run)
        write_preparation(run, out, described=described)
        if described:
            write_json(out / CONFIG, document)
    except InputError:  # no published family computes this model; other runtimes do
        sides = {"tokenizer.json": target_tokenizer(run)}
        if run.config.task == "seq2seq":
            sides = {
                "source.tokenizer.json": run.tokenizers.source,
                "target.tokenizer.json": run.tokenizers.target,
            }
        for name, tokenizer in sides.items():
            write_json(out / name, tokenizer.backend)


def describe_search(run: Any) -> Keys:
    """Return the generation_config.json of a run."""
    search = run.config.search
    special = target_tokenizer(run).special
    encodes = run.config.task == "seq2seq"
    document = write_generation(search, special.ends, encodes=encodes)
    if not encodes:
        tokens = run.config.tokens
        return document | {"max_new_tokens": tokens, "bos_token_id": special.start}
    sizes = run.config.model
    is_network = isinstance(run.model, PretrainedSeq2Seq)
    limit = sizes.positions if is_network else sizes.max_length
    start = special.start
    return document | {
        "max_length": limit if search.length_ratio else search.length_extra + 1,
        "bad_words_ids": [*document.get("bad_words_ids", []), [start]],
        "pad_token_id": start,
        "decoder_start_token_id": start,
    }


def image_processor(images: Preparation, config: Any) -> Keys:
    """Return the preprocessor_config.json of a preparation."""
    size = images.size or config.image
    resize = images.resize or size
    keeps_shape = images.shape == "kept"
    is_cropped = keeps_shape or resize != size
    kind = "CLIP" if keeps_shape else "DeiT" if is_cropped else "ViT"
    sides = ("shortest_edge",) if keeps_shape else ("height", "width")
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
    }
    if is_cropped:
        document["crop_size"] = {"height": size, "width": size}
    for key, numbers in (("mean", images.mean), ("std", images.deviation)):
        repeats = config.channels // len(numbers)
        document[f"image_{key}"] = list(numbers) * repeats
    return document


def write_json(path: Path, value: Keys) -> None:
    """Write a JSON object."""
    with explain_errors(path):
        text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
        path.write_text(text, encoding="utf-8")
