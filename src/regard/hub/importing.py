"""Import of published models as runs."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import Tensor, nn

from regard.config import yaml_tree
from regard.errors import InputError, RunError
from regard.hub.families import FAMILIES, vit
from regard.hub.families.weights import read_weights
from regard.hub.generation import Generation, read_generation
from regard.hub.parity import check_images, check_texts
from regard.hub.sentencepiece import read_sides
from regard.models.bert import Bert
from regard.models.catalog import (
    build,
    build_classifier,
    build_image_classifier,
    build_language_model,
    build_span_model,
    build_tagger,
)
from regard.models.pretrained import (
    POOLER,
    PretrainedConfig,
    PretrainedVisionConfig,
)
from regard.models.published import (
    check_published,
    find_published,
    library_config,
    load_network,
    quiet_library,
    read_settings,
    read_tokenizer,
    require_transformers,
)
from regard.models.published_images import complete_images, read_preparation
from regard.runs import run_file
from regard.runs.load import CONFIG
from regard.storage import tensors
from regard.storage.published_folder import PublishedFolder
from regard.storage.run_folder import LABELS, SCALE, WEIGHTS, RunDirectory
from regard.storage.tensors import load_into
from regard.tasks.tokenizers import SOURCE, TARGET, TOKENIZER
from regard.text import Tokenizer
from regard.training.settings import Training

ORIGIN = "origin.json"
RATE = 5e-5
"""The default learning rate for further training of an imported model."""
TASKS = {
    "ForTokenClassification": "tagging",
    "ForQuestionAnswering": "extractive-qa",
    "ForImageClassification": "image-classification",
    "ForImageClassificationWithTeacher": "image-classification",
    "ForCausalLM": "language-model",
    "LMHeadModel": "language-model",
    "ForConditionalGeneration": "seq2seq",
    "MTModel": "seq2seq",
}
"""The task of published classes, by the endings of their names."""
PROBLEMS = {
    "single_label_classification": "classification",
    "multi_label_classification": "multi-label",
    "regression": "regression",
}
LABELLED = ("classification", "multi-label", "regression", "tagging")
DATA: Mapping[str, dict[str, Any]] = {
    "seq2seq": {"kind": "parallel"},
    "multi-label": {"kind": "labelled"},
    "tagging": {"kind": "tagged"},
    "image-classification": {"kind": "image-folders"},
}
"""The section of the data, which are still to be named, where it has a kind."""
log = logging.getLogger("regard")


@dataclass
class Imported:
    """A published model as the parts of a run.

    task: The name of the run's task.
    model: The model with its weights.
    sections: The run file beside the task and its data.
    tokenizers: The tokenizers by the names of their files.
    labels: The labels of a head.
    """

    task: str
    model: nn.Module
    sections: dict[str, Any]
    tokenizers: dict[str, Tokenizer] = field(default_factory=dict)
    labels: Sequence[str] = ()


@dataclass(frozen=True)
class Source:
    """A published model that is checked, before its weights are read.

    settings: The keys of its configuration that differ from the library's.
    values: The configuration object of transformers.
    """

    folder: PublishedFolder
    name: str
    revision: str | None
    settings: Mapping[str, Any]
    values: Any
    architecture: str
    task: str

    @property
    def labels(self) -> list[str]:
        """The labels of the head; a repeated one has its number."""
        if self.architecture in vit.ENCODERS:
            return []
        names = self.values.id2label or {}
        labels: list[str] = []
        for number in range(len(names)):
            label = str(names.get(number, names.get(str(number), number)))
            labels.append(f"{label} ({number})" if label in labels else label)
        return labels


def import_run(
    source: str, out: Path, revision: str | None = None, *, paired: bool = False
) -> None:
    """Import a published model as a run.

    A BERT, GPT-2, Llama, Marian or ViT becomes the model of regard, checked against
    transformers; any other model, and one with settings that regard's own does not
    compute, becomes the model `pretrained`.

    Args:
        source: A folder, or a model's name on the hub, OWNER/NAME.
        out: The folder of the run.
        revision: Branch, tag or commit on the hub.
        paired: Whether a classifier reads two texts, which no published file records.

    Raises:
        InputError: The model is missing, incomplete or unsafe, or of no task; or `out`
            is in use.
        RunError: The hub does not answer, or regard's model computes other values.
    """
    folder, commit = find_published(source, revision)
    origin = {"model": source, "revision": commit} if commit else {"folder": source}
    published = read_source(folder, source, commit or revision)
    if paired and published.task not in PROBLEMS.values():
        raise InputError(
            f"{source}: is no text classifier, so it cannot read pairs; remove --pairs"
        )
    imported = _convert(published) or keep_network(published)
    if paired:
        imported.sections["data"] = {"second": "second", **DATA.get(published.task, {})}
    write_run(imported, origin, out)


def read_source(folder: PublishedFolder, name: str, revision: str | None) -> Source:
    """Check a folder, and find the task of its model.

    Raises:
        InputError: The folder is unsafe or incomplete, or its class is of no task.
    """
    document = check_published(folder)
    settings = read_settings(folder)
    known = {
        key: document[key] for key in ("id2label", "problem_type") if key in document
    }
    values = library_config({**settings, **known})
    architectures = document.get("architectures") or [""]
    architecture = str(architectures[0])
    task = task_of(architecture, values, str(folder.path))
    return Source(folder, name, revision, settings, values, architecture, task)


def task_of(architecture: str, values: Any, place: str) -> str:
    """Return the name of the task of a published class.

    Raises:
        InputError: No task of regard has such a class.
    """
    library = require_transformers(place)
    if architecture.endswith("ForSequenceClassification"):
        default = "regression" if values.num_labels == 1 else "classification"
        problem = getattr(values, "problem_type", None)
        return default if problem is None else PROBLEMS.get(problem, default)
    if values.model_type == "bert" and architecture in (
        "BertModel",
        "BertForMaskedLM",
        "BertForPreTraining",
    ):
        return "masked-language-model"
    if architecture in vit.ENCODERS:
        return "image-classification"
    names = [task for ending, task in TASKS.items() if architecture.endswith(ending)]
    auto = library.models.auto.modeling_auto
    texts = auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
    if not names or (names[0] == "seq2seq" and values.model_type not in texts):
        raise InputError(
            f"{place}: is a {architecture or 'model without a class'}, which has the "
            "head of no task. Open it with `regard show` or `regard embed`, or train "
            "it: model: {name: pretrained, path: ...}."
        )
    return names[0]


def _convert(source: Source) -> Imported | None:
    """Convert a model to one of regard's; None where regard's own computes less."""
    family = FAMILIES.get(source.values.model_type)
    if family is None:
        return None
    try:
        family.check(source.values)
        config = family.read_config(source.values, source.architecture)
    except (InputError, ValueError, TypeError) as error:
        log.info(
            "%s: imported as model pretrained, since regard's %s does not compute it: %s",
            source.name,
            source.values.model_type,
            error,
        )
        return None
    return convert(source, config)


def convert(source: Source, config: Any) -> Imported:
    """Convert a model to the model of regard with this configuration.

    Raises:
        InputError: The tensors or the tokenizer do not fit.
        RunError: regard's model computes other values.
    """
    family = FAMILIES[source.values.model_type]
    library = require_transformers(source.name)
    kind = getattr(library, source.architecture)
    network, missing = load_network(kind, source.folder, exact=True)
    if source.architecture in vit.ENCODERS:  # nothing here reads the pooler
        missing = {name for name in missing if not name.startswith(POOLER)}
    if missing:
        raise InputError(
            f"{source.folder.path}: its weights lack {len(missing)} parameters of "
            f"{source.architecture}, such as {min(missing)}. Download it again."
        )
    weights = canonical_weights(network)
    task = source.task
    if source.architecture in vit.ENCODERS:
        task = vit.EMBEDDING
        pooler = f"{network.base_model_prefix}.pooler."
        weights = {
            name: tensor
            for name, tensor in weights.items()
            if not name.startswith(pooler)
        }
    table = family.parts(config, task)
    try:
        parameters = family.to_ours(
            read_weights(table, weights, getattr(config, "layers", 0)), config
        )
    except InputError as error:
        raise InputError(f"{source.folder.path}: {error}") from error
    imported = _with_tokenizers(source, config)
    load_into(imported.model, parameters)
    _check_parity(source, imported, network)
    return imported


def _check_parity(source: Source, imported: Imported, network: Any) -> None:
    model = imported.model
    try:
        if source.task == "image-classification":
            check_images(model, network)  # pyright: ignore[reportArgumentType]
            return
        tokenizer = next(iter(imported.tokenizers.values()))
        limit = source.values.max_position_embeddings
        check_texts(model, network, limit, tokenizer.size, tokenizer.special)
    except RunError as error:
        raise RunError(f"{source.folder.path}: {error}; please report this") from error


def canonical_weights(network: Any) -> dict[str, Tensor]:
    """Return the tensors of a network by the names that files have.

    The library's names in memory change from version to version; those of files do not.
    """
    with TemporaryDirectory() as folder, quiet_library():
        network.save_pretrained(folder, max_shard_size="1000GB")
        weights = tensors.read(Path(folder) / "model.safetensors")
    if network.base_model is not network:
        return weights
    prefix = network.base_model_prefix
    return {f"{prefix}.{name}": tensor for name, tensor in weights.items()}


def _with_tokenizers(source: Source, config: Any) -> Imported:
    """Return the parts of a run with regard's model, its weights still fresh."""
    task, folder, values = source.task, source.folder, source.values
    sections: dict[str, Any] = {"model": config, "training": _training(config)}
    if task == "image-classification":
        sections["images"] = read_preparation(folder, config.image)
        labels = source.labels
        model = build_image_classifier(config, len(labels))
        return Imported(task, model, sections, labels=labels)
    if task == "seq2seq":
        generation = read_generation(folder, values, encodes=True)
        start = values.decoder_start_token_id
        source_side, target = read_sides(
            folder, values.vocab_size, start, generation.ends
        )
        generation.check(target.size, str(folder.path))
        sections["tokenizers"] = {
            "source": source_side.settings,
            "target": target.settings,
        }
        sections["search"] = _limited(generation, values, (start,))
        special = source_side.special, target.special
        model = build(config, source_side.size, target.size, special)
        return Imported(task, model, sections, {SOURCE: source_side, TARGET: target})
    tokenizer = read_tokenizer(folder, values.vocab_size)
    if task == "language-model":
        tokenizer = _add_generation(source, sections, tokenizer, config.context)
    sections["tokenizer"] = tokenizer.settings
    labels = source.labels if task in LABELLED else []
    model = _build(task, config, tokenizer, len(labels))
    return Imported(task, model, sections, {TOKENIZER: tokenizer}, labels)


def _build(task: str, config: Any, tokenizer: Tokenizer, labels: int) -> nn.Module:
    """Build the model of a task with fresh weights."""
    size = tokenizer.size
    if task == "language-model":
        return build_language_model(config, size, tokenizer.special)
    if task == "tagging":
        return build_tagger(config, size, labels)
    if task == "extractive-qa":
        return build_span_model(config, size)
    if task == "masked-language-model":
        return Bert(size, config)
    return build_classifier(config, size, labels)


def _add_generation(
    source: Source, sections: dict[str, Any], tokenizer: Tokenizer, context: int
) -> Tokenizer:
    """Add the sections of a language model; the tokenizer gets the published ends."""
    generation = read_generation(source.folder, source.values, encodes=False)
    generation.check(tokenizer.size, str(source.folder.path))
    sections["search"] = generation.search
    sections["window"] = context
    if generation.tokens is not None:
        sections["tokens"] = generation.tokens
    special = tokenizer.special
    if generation.ends:
        end, *more = generation.ends
        start = special.start if special.opens else end
        special = replace(special, start=start, end=end, more_ends=tuple(more))
    sections["before"] = "nothing"
    if special.opens:
        sections["before"] = "end" if special.start == special.end else "start"
    return tokenizer.with_special(special)


def _limited(generation: Generation, values: Any, start: tuple[int, ...]) -> Any:
    """Return the search of an encoder-decoder with the length of its outputs."""
    search = generation.search
    banned = tuple(sequence for sequence in search.banned if sequence != start)
    limit = generation.tokens
    if limit is None:
        limit = max(1, getattr(values, "max_position_embeddings", 512) - 1)
    return replace(search, banned=banned, length_ratio=0.0, length_extra=limit)


def _training(config: Any) -> dict[str, Any]:
    """Return the settings for further training: a batch holds the longest row."""
    if isinstance(config, PretrainedVisionConfig) or config.name == "vit":
        positions = config.marks + (config.image // config.patch) ** 2
        longest = 16 * positions
    else:
        longest = getattr(config, "context", None) or getattr(config, "max_length", 0)
    tokens = max(Training.batch_tokens, longest)
    return {"batch_tokens": tokens, "learning_rate": RATE}


def keep_network(source: Source) -> Imported:
    """Keep a published network as the model `pretrained`.

    Raises:
        InputError: Its weights or its tokenizer do not fit.
    """
    task, folder = source.task, source.folder
    if task == "masked-language-model":
        raise InputError(
            f"{folder.path}: is a {source.architecture} with settings that regard's BERT "
            "does not compute. Open it with `regard show` or `regard embed`."
        )
    if task == "image-classification":
        named = PretrainedVisionConfig(path=source.name, revision=source.revision)
        config, images = complete_images(named)
        sections = {"model": config, "images": images, "training": _training(config)}
        labels = source.labels
        model = build_image_classifier(config, len(labels))
        model.load_published(folder)
        return Imported(task, model, sections, labels=labels)
    config, tokenizer = PretrainedConfig(
        path=source.name, revision=source.revision
    ).complete()
    sections = {"model": config, "training": _training(config)}
    labels = source.labels if task in LABELLED else []
    if task == "seq2seq":
        generation = read_generation(folder, source.values, encodes=True)
        sections["search"] = _limited(generation, config, (tokenizer.special.start,))
        sections["tokenizers"] = {"source": tokenizer.settings, "shared": True}
        special = tokenizer.special, tokenizer.special
        model = build(config, tokenizer.size, tokenizer.size, special)
        tokenizers = {SOURCE: tokenizer, TARGET: tokenizer}
    else:
        if task == "language-model":
            tokenizer = _add_generation(source, sections, tokenizer, config.positions)
        sections["tokenizer"] = tokenizer.settings
        model = _build(task, config, tokenizer, len(labels))
        tokenizers = {TOKENIZER: tokenizer}
    network: Any = model
    network.load_published(folder)
    return Imported(task, model, sections, tokenizers, labels)


def write_run(imported: Imported, origin: Mapping[str, str], out: Path) -> None:
    """Write an imported model as a run.

    Raises:
        InputError: A value is out of a run file's range, or the folder is in use.
    """
    data = imported.sections.pop("data", DATA.get(imported.task, {}))
    document = {"task": imported.task, "data": data, **imported.sections}
    if imported.task == "seq2seq":
        document["metrics"] = ["bleu", "chrf"]
    config = _complete(yaml_tree.dump(document))
    with RunDirectory.create(out) as run:
        try:
            run.write_text(CONFIG, config)
            run.write_json(ORIGIN, dict(origin))
            if imported.task == "regression":
                run.write_json(SCALE, {"mean": 0.0, "deviation": 1.0})
            elif imported.labels or imported.task == "image-classification":
                run.write_json(LABELS, list(imported.labels))
            for name, tokenizer in imported.tokenizers.items():
                with run.writing(name) as path:
                    tokenizer.save(path)
            run.save_tensors(WEIGHTS, imported.model.state_dict())
        except BaseException:
            run.withdraw()  # half an import would be in the way of the next one
            raise


def _complete(text: str) -> str:
    """Return a run file with all defaults."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / CONFIG
        path.write_text(text, encoding="utf-8")
        try:
            return run_file.dump(run_file.read(path))
        except InputError as error:
            message = str(error).replace(str(path), "the imported run file")
            raise InputError(message) from error
