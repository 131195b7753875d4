"""Published ViTs and DeiTs: the same as transformers in every number."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from regard import load
from regard.attention.record import record
from regard.cli.train import usage
from regard.errors import InputError
from regard.hub import export_run, import_run
from regard.hub.formats import families, vit
from regard.hub.formats.folder import Folder
from regard.hub.formats.pretrained_model import PretrainedImageModel
from regard.images import Preparation
from regard.models.vit import Vit, VitConfig
from regard.nn.grid_positions import LearnedGrid
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.storage.run_folder import WEIGHTS, RunDirectory
from regard.storage.tensors import load_into
from regard.tasks.image_classification.run import ImageClassificationRun
from tests.hub.published_images import CLASSES, VITS, classifier, preprocessor

KINDS = ("vit", "deit")
cases = pytest.mark.parametrize(
    ("kind", "sizes"), [(kind, sizes) for kind in KINDS for sizes in VITS], ids=lambda value: str(value)[:20]
)


def opened(folder: Path, kind: str, sizes: dict[str, Any]) -> tuple[Vit, PretrainedImageModel, Any]:
    theirs = classifier(folder, kind, **sizes)
    found = families.read(Folder(folder))
    assert isinstance(found, PretrainedImageModel)
    model = Vit(len(found.labels), found.config)
    load_into(model, found.tensors)
    return model.eval(), found, theirs


def pixels(sizes: dict[str, Any], *shape: int) -> Tensor:
    return torch.randn(2, sizes["num_channels"], *shape, generator=torch.Generator().manual_seed(7))


@cases
@torch.no_grad()
def test_states_maps_and_logits_are_those_of_transformers(kind: str, sizes: dict[str, Any], tmp_path: Path):
    model, _, theirs = opened(tmp_path, kind, sizes)
    given = pixels(sizes, sizes["image_size"], sizes["image_size"])
    wanted = theirs(given, output_attentions=True, output_hidden_states=True)
    states: list[Tensor] = []
    model.encoder.layers[0].register_forward_pre_hook(lambda *found: states.append(found[1][0]))
    for each in model.encoder.layers:
        each.register_forward_hook(lambda *found: states.append(found[2]))
    with record(model, only=model.self_attention) as maps:
        logits = model(given)
    assert len(states) == len(wanted.hidden_states) == len(maps) + 1 == sizes["num_hidden_layers"] + 1
    for ours, expected in zip(states, wanted.hidden_states, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)
    for ours, expected in zip(maps.values(), wanted.attentions, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(logits, wanted.logits, rtol=1e-5, atol=1e-5)
    assert logits.shape == (2, len(CLASSES))


@cases
@pytest.mark.parametrize("grid", [(2, 3), (7, 7), (5, 11)])
@torch.no_grad()
def test_positions_of_another_grid(kind: str, sizes: dict[str, Any], grid: tuple[int, int], tmp_path: Path):
    model, _, theirs = opened(tmp_path, kind, sizes)
    height, width = (side * sizes["patch_size"] for side in grid)
    embeddings = getattr(theirs, kind).embeddings
    tokens = torch.zeros(1, model.config.marks + grid[0] * grid[1], sizes["hidden_size"])
    expected = embeddings.interpolate_pos_encoding(tokens, height, width)[0]
    assert isinstance(model.encoder.positions, LearnedGrid)
    torch.testing.assert_close(model.encoder.positions.encoding(*grid), expected, rtol=0, atol=0)
    given = pixels(sizes, height, width)
    wanted = theirs(given, interpolate_pos_encoding=True).logits
    torch.testing.assert_close(model(given), wanted, rtol=1e-5, atol=1e-5)


@cases
def test_there_and_back(kind: str, sizes: dict[str, Any], tmp_path: Path):
    theirs = classifier(tmp_path / "published", kind, **sizes)
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run = load(tmp_path / "run", "cpu", task=ImageClassificationRun)
    assert run.labels == ("cat", "dog", "crane", "owl", "crane (4)")
    against = export_run(tmp_path / "run", tmp_path / "exported")
    assert against == ["the files as regard reads them", "transformers"]
    import_run(str(tmp_path / "exported"), tmp_path / "again")
    again = load(tmp_path / "again", "cpu", task=ImageClassificationRun)
    assert (again.config, again.labels) == (run.config, run.labels)
    own, other = run.model.state_dict(), again.model.state_dict()
    assert all(torch.equal(own[name], other[name]) for name in own)
    image = np.random.default_rng(5).integers(0, 256, (43, 47, sizes["num_channels"]), dtype=np.uint8)
    (found,) = run.predict([image])
    if sizes["num_channels"] == 3:
        transformers = pytest.importorskip("transformers")
        name = {"vit": "ViTImageProcessorPil", "deit": "DeiTImageProcessorPil"}[kind]
        for folder in ("published", "exported"):
            described = json.loads((tmp_path / folder / "preprocessor_config.json").read_text())
            given = getattr(transformers, name)(**described)(Image.fromarray(image), return_tensors="pt")
            wanted = theirs(**given).logits[0].softmax(-1)
            assert [found.probabilities[label] for label in run.labels] == pytest.approx(wanted.tolist(), abs=1e-5)


@pytest.mark.parametrize("change", [{"stem": "convolutional"}, {"pooling": "mean"}, {"positions": "sinusoidal"}])
def test_a_form_that_no_release_has(change: dict[str, Any]):
    config = VitConfig(image=4, patch=2, channels=1, layers=1, width=2, heads=1, **change)
    with pytest.raises(InputError, match=r"has no published form; .* and a linear stem"):
        vit.write(PretrainedImageModel(config, {}, ("cat", "dog"), Preparation()))


def test_a_run_file_that_says_how_images_are_prepared(tmp_path: Path):
    classifier(tmp_path / "published", "deit", **VITS[0])
    import_run(str(tmp_path / "published"), tmp_path / "run")
    images = load(tmp_path / "run", "cpu", task=ImageClassificationRun).config.images
    expected = {"resize": 8, "shape": "stretched", "resample": "bicubic"}
    assert images == Preparation(**expected, mean=(0.4, 0.5, 0.6), deviation=(0.2, 0.3, 0.1))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_channels": 2}, "num_channels is 2; regard supports 1 or 3 only"),
        ({"patch_size": 4}, "image 6 is not divisible by patch 4"),
        ({"num_channels": 1}, r"the linear map of the patches is \(6, 3, 2, 2\), expected \(6, 1, 2, 2\)"),
        ({"patch_size": 1}, r"patch_size is 1, and embeddings\.patch_embeddings\.projection\.weight has 2"),
        ({"patch_size": [2, 2]}, r"patch_size is \[2, 2\]; expected a whole number"),
        ({"image_size": 8}, r"positions for image_size 8 is 17, and embeddings\.position_embeddings has 10"),
        ({"hidden_act": "relu"}, "hidden_act is 'relu'"),
        ({"qkv_bias": False}, "qkv_bias is False"),
        ({"id2label": {"0": "a"}}, "id2label does not name the 5 classes of the weights"),
        ({"layer_scale": 1}, "layer_scale is not known"),
        ({"model_type": "deit"}, "the tensors are not those of such a model: .* not known: classifier"),
    ],
)
def test_row_40_another_architecture(values: dict[str, Any], message: str, tmp_path: Path):
    refused(tmp_path, "config.json", values, message)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"do_resize": False}, "do_resize is False"),
        ({"rescale_factor": 1}, "rescale_factor is 1; regard scales by 1 / 255 only"),
        ({"size": {"height": 6, "width": 7}}, "size is {'height': 6, 'width': 7}; expected pixels"),
        ({"size": {"shortest_edge": 6}}, "size keeps the shape of images without a crop"),
        ({"size": 6, "do_center_crop": True, "crop_size": 8}, "resize is 6, less than the 8 pixels of size"),
        ({"size": 7}, "images of 7 pixels are no whole number of patches of 2"),
        ({"resample": 9}, "resample is 9"),
        ({"size": None}, "size is None; expected pixels"),
        ({"image_mean": None}, "image_mean is None; expected a number, or one for each"),
        ({"image_mean": [1, 2]}, r"image_mean is \[1, 2\]; expected a number, or one for each of 3 channels"),
        ({"image_mean": "x"}, "image_mean is 'x'; expected a number, or one for each"),
        ({"image_std": [0.5, 0, 0.5]}, r"deviation is \[0\.5, 0\.0, 0\.5\]; expected numbers above 0"),
        ({"do_solarize": True}, "do_solarize is not known"),
    ],
)
def test_another_way_to_prepare_images(values: dict[str, Any], message: str, tmp_path: Path):
    refused(tmp_path, "preprocessor_config.json", values, message)


@pytest.mark.parametrize("key", ["image_processor_type", "feature_extractor_type"])
def test_what_the_name_of_a_preprocessor_means(key: str, tmp_path: Path):
    classifier(tmp_path, "deit", **VITS[0])
    described = {key: "DeiTImageProcessor", "size": 8, "crop_size": 6, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(described))
    images = families.read(Folder(tmp_path)).images
    assert (images.resize, images.size, images.shape, images.resample) == (8, None, "stretched", "bicubic")


def refused(tmp_path: Path, name: str, values: dict[str, Any], message: str) -> None:
    classifier(tmp_path / "published", "vit", **VITS[0])
    path = tmp_path / "published" / name
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        import_run(str(tmp_path / "published"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_without_a_preprocessor(tmp_path: Path):
    classifier(tmp_path, "vit", **VITS[0])
    (tmp_path / "preprocessor_config.json").unlink()
    with pytest.raises(
        InputError, match=r"preprocessor_config\.json: no such file; expected the preparation of images"
    ):
        families.read(Folder(tmp_path))


@pytest.fixture
def alone(tmp_path: Path) -> tuple[Path, Any]:
    """An imported ViT without a classification layer, and as transformers runs it."""
    from transformers import ViTConfig, ViTModel

    ViTModel(ViTConfig(**VITS[0])).save_pretrained(tmp_path / "alone")  # with a pooler
    (tmp_path / "alone" / "preprocessor_config.json").write_text(json.dumps(preprocessor("vit", **VITS[0])))
    import_run(str(tmp_path / "alone"), tmp_path / "run")
    return tmp_path / "run", ViTModel.from_pretrained(tmp_path / "alone").eval()


@torch.no_grad()
def test_an_encoder_alone_has_vectors_and_maps(alone: tuple[Path, Any], tmp_path: Path, regard: Any):
    folder, theirs = alone
    run = load(folder, "cpu", task=ImageClassificationRun)
    image = np.random.default_rng(5).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    states = theirs(run.config.images.tensor(image)[None]).last_hidden_state[0]
    torch.testing.assert_close(run.embed([image])[0], states.mean(0), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(run.embed([image], pool="first")[0], states[0], rtol=1e-5, atol=1e-5)
    assert run.embed([]).shape == (0, 6)
    assert run.attribute(image).weights.weights.shape == (3, 3)
    assert run.attribute(image).prediction.text == "image"
    Image.fromarray(image).save(tmp_path / "seen.png")
    code, output, _ = regard("show", str(folder), str(tmp_path / "seen.png"), "--out", str(tmp_path / "page.html"))
    assert (code, output.splitlines()[0]) == (0, "seen.png")
    assert regard("embed", str(folder), str(tmp_path / "seen.png"))[0] == 0
    assert usage(folder, run.config) == f"regard embed {folder} IMAGE"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "seen.png"], "a run of the task image-classification does not predict; it can attribute"),
        (["evaluate"], "does not evaluate; it can attribute"),
        (["show", "seen.png", "--kind", "gradient"], "the run has no classes, so there is no gradient of one"),
        (["export", "--out", "out"], "this run has no classes; regard exports classifiers: train it on images"),
        (["export", "--to", "onnx", "--out", "out"], "no graph"),
    ],
)
def test_what_an_encoder_alone_does_not_do(arguments: list[str], message: str, alone: Any, regard: Any):
    verb, *rest = arguments
    code, _, errors = regard(verb, str(alone[0]), *rest)
    assert (code, len(errors.splitlines())) == (2, 1)
    assert message in errors


def test_classes_are_learned_on_an_encoder_alone(alone: Any, tmp_path: Path):
    for name, grey in (("dark", 40), ("light", 200)):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(12):
            Image.new("RGB", (6, 6), (grey + number,) * 3).save(tmp_path / "images" / name / f"{number}.png")
    before = RunDirectory.open(alone[0]).load_tensors(WEIGHTS)
    settings = [f"data={{kind: image-folders, train: {tmp_path / 'images'}}}", f"training.start={alone[0]}"]
    settings += ["training.steps=1", "training.threads=1", "training.validate_every=0", "training.precision=fp32"]
    own = load(alone[0], "cpu", task=ImageClassificationRun).config.model
    names = ("image", "patch", "channels", "layers", "width", "heads", "hidden", "epsilon")
    settings += [f"model.{name}={getattr(own, name)}" for name in names]
    launch.train(run_file.read(path_of("vit"), settings), tmp_path / "trained")
    run = load(tmp_path / "trained", "cpu", task=ImageClassificationRun)
    assert run.predict([np.full((6, 6, 3), 40, dtype=np.uint8)])[0].label in ("dark", "light")
    name = "encoder.layers.0.self_attention.query.weight"
    assert 0 < (run.model.state_dict()[name] - before[name]).abs().max() < 0.01
    assert export_run(tmp_path / "trained", tmp_path / "exported")[-1] == "transformers"
