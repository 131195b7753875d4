"""Import of published models as runs."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import Tensor

from regard.config import yaml_tree
from regard.errors import InputError, RunError
from regard.hub.families import FAMILIES, vit
from regard.hub.generation import read_generation
from regard.hub.parity import check_parity
from regard.hub.sentencepiece import read_sides
from regard.models.pretrained import (
    POOLER,
    Pretrained,
    PretrainedConfig,
    PretrainedVisionConfig,
)
from regard.models.published import (
    check_complete,
    check_published,
    find_published,
    library_config,
    load_network,
    quiet_library,
    read_settings,
    require_transformers,
)
from regard.models.published_images import complete_images
from regard.runs import run_file
from regard.runs.load import CONFIG
from regard.storage import tensors
from regard.storage.published_folder import PublishedFolder
from regard.storage.run_folder import LABELS, SCALE, WEIGHTS, RunDirectory
from regard.tasks.catalog import TASKS as RUNS
from regard.tasks.tokenizers import SOURCE, TARGET, TOKENIZER
from regard.text import Tokenizer
from regard.training.settings import Training

ORIGIN = "origin.json"
RATE = 5e-5
"""The default learning rate for further training of an imported model."""
MARIAN = "marian"
"""The model type whose tokenizers are SentencePiece files."""
TASKS = {
    "ForTokenClassification": "tagging",
    "ForQuestionAnswering": "extractive-qa",
    "ForImageClassification": "image-classification",
    "ForCausalLM": "language-model",
    "LMHeadModel": "language-model",
    "ForConditionalGeneration": "seq2seq",
    "MTModel": "seq2seq",
    "ForMaskedLM": "masked-language-model",
}
"""The task of published classes, by the endings of their names."""
NAMED = {
    "BertForPreTraining": "masked-language-model",
    "BertModel": "masked-language-model",
    vit.ENCODER: "image-classification",
}
"""The task of published classes by their whole names."""
PROBLEMS = {
    "single_label_classification": "classification",
    "multi_label_classification": "multi-label",
    "regression": "regression",
}
METRICS = ["bleu", "chrf"]
LABELED = ("classification", "multi-label", "regression", "tagging")
DATA: Mapping[str, dict[str, Any]] = {
    "seq2seq": {"kind": "parallel"},
    "multi-label": {"kind": "labelled"},
    "tagging": {"kind": "tagged"},
    "image-classification": {"kind": "image-folders"},
}
"""The section of the data, which are still to be named, where it has a kind."""
log = logging.getLogger("regard")


@dataclass(frozen=True)
class Source:
    """A published model that is checked, before its weights are read.

    Attributes:
        folder: Its files.
        name: Its folder or its name on the hub.
        revision: Its commit on the hub.
        values: The configuration object of transformers.
        architecture: The name of its class.
        task: The name of the task of that class.
    """

    folder: PublishedFolder
    name: str
    revision: str | None
    values: Any
    architecture: str
    task: str

    @property
    def labels(self) -> list[str]:
        """The labels of the head; a repeated one has its number."""
        names = self.values.id2label or {}
        labels = []
        if self.architecture == vit.ENCODER:
            return []
        for number in range(len(names)):
            label = str(names.get(number, names.get(str(number), number)))
            labels.append(f"{label} ({number})" if label in labels else label)
        return labels


def import_run(
    source: str, out: Path, revision: str | None = None, *, paired: bool = False
) -> None:
    """Import a published model as a run.

    A BERT, GPT-2, Llama, Marian or ViT becomes the model of regard, if that computes the
    same; any other model becomes the model `pretrained`.

    Args:
        source: A folder, or a model's name on the hub, OWNER/NAME.
        out: The folder of the run.
        revision: Branch, tag or commit on the hub.
        paired: Whether a classifier reads two texts, which no published file records.

    Raises:
        InputError: The model is missing, incomplete or unsafe, or of no task; or `out`
            is in use.
        RunError: The hub does not answer.
    """
    folder, commit = find_published(source, revision)
    published = read_source(folder, source, commit or revision)
    task = published.task
    if paired and task not in PROBLEMS.values():
        raise InputError(
            f"{source}: is no text classifier, so it cannot read pairs; remove --pairs"
        )
    pairs = {"second": "second"} if paired else {}
    data = {"task": task, "data": pairs | DATA.get(task, {})}
    origin = {"model": source, "revision": commit} if commit else {"folder": source}
    with RunDirectory.create(out) as run:
        try:
            run.write_json(ORIGIN, origin)
            model = None
            if published.values.model_type in FAMILIES:
                try:
                    model = import_own(published, run, data)
                except RunError as error:
                    log.info(
                        "%s: becomes the model pretrained, since regard's own does not "
                        "compute it: %s",
                        source,
                        error,
                    )
            if model is None:
                sections, tokenizers = describe(published)
                model = open_described(published, run, data | sections, tokenizers)
                if isinstance(model, Pretrained):
                    model.replaces_head = False  # a random head is not published
                model.load_published(folder)
            run.save_tensors(WEIGHTS, model.state_dict())
        except BaseException:
            run.withdraw()  # half an import would be in the way of the next one
            raise


def read_source(folder: PublishedFolder, name: str, revision: str | None) -> Source:
    """Check a folder, and find the task of its model.

    Raises:
        InputError: The folder is unsafe or incomplete, or its class is of no task.
    """
    document = check_published(folder)
    settings = read_settings(folder)
    head = ("id2label", "problem_type")
    settings |= {key: document[key] for key in head if key in document}
    values = library_config(settings)
    architecture = str((document.get("architectures") or [""])[0])
    task = find_task(architecture, values, str(folder.path))
    return Source(folder, name, revision, values, architecture, task)


def find_task(architecture: str, values: Any, place: str) -> str:
    """Return the name of the task of a published class.

    Raises:
        InputError: No task of regard has such a class.
    """
    auto = require_transformers(place).models.auto.modeling_auto
    if architecture.endswith("ForSequenceClassification"):
        default = "regression" if values.num_labels == 1 else "classification"
        return PROBLEMS.get(getattr(values, "problem_type", None) or "", default)
    tasks = [task for ending, task in TASKS.items() if architecture.endswith(ending)]
    task = NAMED.get(architecture, *tasks[:1])
    is_text = values.model_type in auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
    if task is None or (task == "seq2seq" and not is_text):
        raise InputError(
            f"{place}: is a {architecture or 'model without a class'}, which has the "
            "head of no task. Open it with `regard show` or `regard embed`, or train "
            "it: model: {name: pretrained, path: ...}."
        )
    return task


def import_own(source: Source, run: RunDirectory, data: dict[str, Any]) -> Any:
    """Import a model as one of regard's own, and return it.

    Raises:
        InputError: The tensors or the tokenizer do not fit, or weights are not finite.
        RunError: regard's own model computes something else.
    """
    family = FAMILIES[source.values.model_type]
    try:
        config = family.read_config(source.values, source.architecture)
    except (InputError, ValueError, TypeError) as error:
        raise RunError(str(error)) from error
    kind = getattr(require_transformers(source.name), source.architecture)
    network, missing = load_network(kind, source.folder, exact=True)
    weights = canonical_weights(network)
    task = source.task
    if source.architecture == vit.ENCODER:  # nothing here reads the pooler
        task = vit.EMBEDDING
        head = f"{network.base_model_prefix}.{POOLER}"
        missing = {name for name in missing if not name.startswith(POOLER)}
        weights = {name: weights[name] for name in weights if not name.startswith(head)}
    check_complete(source.folder, network, missing)
    parameters = family.read(weights, config, task)
    sections, tokenizers = describe(source, config)
    model = open_described(source, run, data | sections, tokenizers)
    tensors.load_into(model, parameters)
    check_parity(model, network, next(iter(tokenizers.values()), None))
    return model


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


Described = tuple[dict[str, Any], dict[str, Tokenizer]]
"""The sections of a run file beside the task and its data; and the tokenizers by the
names of their files."""


def describe(source: Source, ours: Any = None) -> Described:
    """Describe a run of one of regard's own models, or of the model `pretrained`.

    Args:
        source: The published model.
        ours: The configuration of regard's own model.

    Raises:
        InputError: The tokenizer, the search or the preparation of images does not fit.
    """
    folder = source.folder
    values = source.values
    named = {"path": source.name, "revision": source.revision}
    if source.task == "image-classification":
        vision, images = complete_images(PretrainedVisionConfig(**named))
        model = ours or vision
        positions = model.marks + (model.image // model.patch) ** 2
        return {"model": model, "images": images, **_training(16 * positions)}, {}
    if values.model_type == MARIAN and ours is not None:
        ends = read_generation(folder, values, encodes=True).ends
        start = values.decoder_start_token_id
        limit = ours.max_length
        sides = read_sides(folder, values.vocab_size, start, ends)
        settings = {"source": sides[0].settings, "target": sides[1].settings}
        sections = {"model": ours}
        tokenizers = {SOURCE: sides[0], TARGET: sides[1]}
    else:
        config, tokenizer = PretrainedConfig(**named).complete()
        limit = config.positions
        sections = {"model": ours or config}
        settings = {"source": tokenizer.settings, "shared": True}
        tokenizers = {SOURCE: tokenizer, TARGET: tokenizer}
    sections |= _training(limit)
    tokenizer = tokenizers[TARGET]
    if source.task == "seq2seq":
        sections |= {"tokenizers": settings, "metrics": METRICS}
        sections["search"] = _read_search(source, tokenizer, limit)
        return sections, tokenizers
    if source.task == "language-model":
        tokenizer = _add_generation(source, sections, tokenizer, limit)
    sections["tokenizer"] = tokenizer.settings
    return sections, {TOKENIZER: tokenizer}


def _training(longest: int) -> dict[str, Any]:
    """Return the settings for further training: a batch holds the longest row."""
    tokens = max(Training.batch_tokens, longest)
    return {"training": {"batch_tokens": tokens, "learning_rate": RATE}}


def _add_generation(
    source: Source, sections: dict[str, Any], tokenizer: Tokenizer, context: int
) -> Tokenizer:
    """Add the sections of a language model; the tokenizer gets the published ends."""
    generation = read_generation(source.folder, source.values, encodes=False)
    generation.check(tokenizer.size, str(source.folder.path))
    sections |= {"search": generation.search, "window": context, "before": "nothing"}
    if generation.tokens is not None:
        sections["tokens"] = generation.tokens
    special = tokenizer.special
    if generation.ends:
        end, *further = generation.ends
        start = special.start if special.opens else end
        special = replace(special, start=start, end=end, more_ends=tuple(further))
    if special.opens:
        sections["before"] = "end" if special.start == special.end else "start"
    return tokenizer.with_special(special)


def _read_search(source: Source, target: Tokenizer, positions: int) -> Any:
    """Return the search of an encoder-decoder with the length of its outputs."""
    generation = read_generation(source.folder, source.values, encodes=True)
    generation.check(target.size, str(source.folder.path))
    start = (target.special.start,)
    banned = tuple(ids for ids in generation.search.banned if ids != start)
    limit = max(1, positions - 1) if generation.tokens is None else generation.tokens
    return replace(
        generation.search, banned=banned, length_ratio=0.0, length_extra=limit
    )


def open_described(
    source: Source,
    run: RunDirectory,
    document: Mapping[str, Any],
    tokenizers: Mapping[str, Tokenizer],
) -> Any:
    """Write the files of a run, and return its model with fresh weights.

    Raises:
        InputError: A value is out of a run file's range.
    """
    run.write_text(CONFIG, yaml_tree.dump(document))
    config = run_file.read(run.file(CONFIG))
    run.write_text(CONFIG, run_file.dump(config))  # with all defaults
    labels: Sequence[str] = source.labels
    if source.task == "regression":
        run.write_json(SCALE, {"mean": 0.0, "deviation": 1.0})
    elif source.task in (*LABELED, "image-classification"):
        run.write_json(LABELS, list(labels))
    for name, tokenizer in tokenizers.items():
        with run.writing(name) as path:
            tokenizer.save(path)
    return RUNS[source.task].open(run, config).model
