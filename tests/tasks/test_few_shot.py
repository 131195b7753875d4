"""Few-shot classification: it learns, from folders and from an .npz file, and refuses what does not fit."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from regard import load
from regard.errors import InputError
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.storage.run_folder import RunDirectory
from regard.tasks.few_shot import (
    Episode,
    EpisodeWeights,
    FewShot,
    FewShotExample,
    FewShotRun,
    FolderEpisodes,
    ImageRef,
    TableEpisodes,
    sample_episode,
    setup,
)

QUICK = [
    "model={name: snail, side: 16, code_filters: 16, width: 32, filters: 16}",
    "data.ways=2",
    "data.questions=1",
    "data.mirrored=false",
    "data.held_out=0.1",
    "augmentation={}",
    "data.test=[gamma]",
    "data.episodes=400",
    "data.valid_episodes=20",
    "data.test_episodes=60",
    "training.steps=200",
    "training.batch_tokens=128",
    "training.learning_rate=1e-2",
    "training.warmup=10",
    "training.validate_every=0",
    "training.threads=1",
]


def characters(count: int = 15, images: int = 6, size: int = 16) -> dict[str, np.ndarray]:
    """Characters of three alphabets, each a pattern of 4 x 4 squares that every image has with some noise."""
    random = np.random.default_rng(0)
    found, alphabets, numbers = [], [], []
    for alphabet in range(3):
        for character in range(count):
            pattern = np.kron(random.integers(0, 2, (4, 4)), np.ones((size // 4, size // 4)))
            for _ in range(images):
                found.append(pattern.astype(np.uint8) ^ (random.random((size, size)) < 0.03))
                alphabets.append(alphabet)
                numbers.append(character)
    names = np.array(["alpha", "beta", "gamma"])
    return {
        "images": np.array(found, np.uint8),
        "alphabet": np.array(alphabets),
        "character": np.array(numbers),
        "alphabet_names": names,
    }


def save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    np.savez_compressed(path, allow_pickle=False, **arrays)


def write_folders(folder: Path, drawn: dict[str, np.ndarray]) -> None:
    for place, (image, alphabet, character) in enumerate(
        zip(drawn["images"], drawn["alphabet"], drawn["character"], strict=True)
    ):
        kind = folder / f"{alphabet}-{character:02}"
        kind.mkdir(parents=True, exist_ok=True)
        Image.fromarray((1 - image) * np.uint8(255)).save(kind / f"{place:04}.png")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("episodes")
    save(folder / "characters.npz", characters())
    write_folders(folder / "classes", characters())
    launch.train(config(folder), folder / "run")
    return folder


def config(folder: Path, *settings: str) -> FewShot:
    found = run_file.read(path_of("few-shot"), [f"data.train={folder / 'characters.npz'}", *QUICK, *settings])
    assert isinstance(found, FewShot)
    return found


def opened(folder: Path) -> FewShotRun:
    return load(folder / "run", "cpu", task=FewShotRun)


def example(folder: Path) -> FewShotExample:
    """One image of each of two classes, and another of the second."""
    classes = sorted((folder / "classes").iterdir())[-2:]
    support = {each.name: [str(min(each.iterdir()))] for each in classes}
    return FewShotExample(support, str(max(classes[1].iterdir())))


def test_it_learns_to_tell_characters_of_an_alphabet_that_it_has_not_seen(folder: Path):
    result = json.loads((folder / "run" / "result.json").read_text())
    assert result["test/accuracy"] > 80  # chance is 50
    assert result["test/standard-error"] == pytest.approx(
        100 * (result["test/accuracy"] / 100 * (1 - result["test/accuracy"] / 100) / 60) ** 0.5
    )


def test_what_the_query_attends_to(folder: Path):
    episode = example(folder)
    attribution = opened(folder).attribute(episode)
    other = [label for label in episode.support if label != attribution.prediction.text]
    assert f"probabilities of the other classes: {other[0]} 0." in attribution.heading
    found = attribution.weights
    assert found.weights.shape == (3,)
    assert found.weights.sum() == pytest.approx(1)
    assert found.labels == tuple(episode.support)
    assert found.support.shape == (2, 16, 16, 1)
    assert found.maps.shape == (3, 3, 3)
    np.testing.assert_array_equal(found.weights, found.maps[-1, -1])
    assert np.triu(found.maps, 1).max() == 0  # no image reads those after it
    query, every = attribution.lookups
    assert (query.source, query.target) == ((*found.labels, "query"), ("query",))
    assert every.target == every.source == query.source
    np.testing.assert_allclose(query.weights[:, 0, 0], found.maps[:, -1], rtol=1e-6)
    np.testing.assert_allclose(every.weights[:, 0], found.maps, rtol=1e-6)
    assert query.images is not None
    np.testing.assert_array_equal(query.images, np.concatenate([found.support, found.query[None]]))
    (again,) = opened(folder).predict([replace(episode, query=np.asarray(Image.open(str(episode.query))))])
    assert again.probabilities == pytest.approx(attribution.prediction.to_json()["probabilities"], abs=1e-6)


def test_several_examples_of_a_class_are_numbered():
    image, weights = np.zeros((16, 16, 1), np.uint8), np.eye(5)[None]
    found = EpisodeWeights(image, np.stack([image] * 4), ("a", "a", "b", "b"), weights)
    assert found.lookups()[1].source == ("a 1", "a 2", "b 1", "b 2", "query")
    assert [each.layers for each in found.lookups()] == [("attention layer 1 of 1",)] * 2


def test_commands(regard, folder: Path, tmp_path: Path):
    episode = example(folder)
    text = json.dumps({"examples": episode.support, "image": episode.query})
    code, output, _ = regard("predict", str(folder / "run"), text, "--json")
    found = json.loads(output)
    assert (code, found["image"], set(found["probabilities"])) == (0, episode.query, set(episode.support))
    code, output, _ = regard("show", str(folder / "run"), text, "--out", str(tmp_path / "a.png"))
    assert (code, output.startswith(f"{found['label']}\t")) == (0, True)
    assert (tmp_path / "a.png").stat().st_size > 1000
    code, output, _ = regard("show", str(folder / "run"), text, "--out", str(tmp_path / "a.html"))
    assert (code, output.startswith(f"{found['label']}\t")) == (0, True)
    assert '"images":{"height":16' in (tmp_path / "a.html").read_text(encoding="utf-8")
    for given in ((), (str(folder / "characters.npz"),)):
        code, output, errors = regard("evaluate", str(folder / "run"), *given, "--json")
        assert (code, json.loads(output)["accuracy"] > 75) == (0, True)
        assert " images, " in errors
        assert "over 60 episodes of 2 classes (ways) with 1 image of each (shots); 50 % are right by chance" in errors


def test_folders_of_classes(folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO", "regard")
    data = f"data={{kind: class-folders, train: {folder / 'classes'}, ways: 2, shots: 2, episodes: 50}}"
    quick = [each for each in QUICK if not each.startswith("data.")]
    found = run_file.read(path_of("few-shot"), [*quick, data, "training.steps=2", "training.warmup=0"])
    assert isinstance(found, FewShot)
    assert "valid/accuracy" in launch.train(found, tmp_path / "run")
    assert caplog.messages[-1] == "beside the validation figures: 50 % of the episodes are right by chance"
    assert load(tmp_path / "run", "cpu").evaluate().keys() == {"accuracy", "standard-error"}
    assert "there is no test set: scored on the validation examples" in caplog.text
    assert "500 validation episodes of 2 classes (ways) with 2 images of each (shots)" in caplog.text
    assert "is ignored" not in caplog.text  # the recipe's test alphabets, which nobody set
    assert "images_per_second" in json.loads((tmp_path / "run" / "result.json").read_text())


def tabular(path: Path, *settings: str) -> FewShot:
    quick = [each for each in QUICK if not each.startswith("data.")]
    small = "data.ways=2", "data.questions=1", "data.mirrored=false"
    found = run_file.read(path_of("few-shot"), [*quick, f"data.train={path}", *small, *settings])
    assert isinstance(found, FewShot)
    assert isinstance(found.data, TableEpisodes)
    return found


def test_a_folder_holds_out_a_share_of_its_own(tmp_path: Path):
    """The recipe's share is that of Omniglot's thousand classes."""
    (tmp_path / "bag").mkdir()
    found = [run_file.read(path_of("few-shot"), more) for more in ([], [f"data.train={tmp_path}"])]
    shares = [each.data.held_out for each in found if isinstance(each, FewShot)]
    assert shares == [0.04, 0.1]


def test_a_table_of_image_files(tmp_path: Path):
    write_folders(tmp_path / "classes", characters(count=3))
    rows = [(str(file.relative_to(tmp_path)), file.parent.name) for file in sorted(tmp_path.rglob("*.png"))]
    lines = [",".join(row) for row in [("file", "class"), *rows]]
    (tmp_path / "a.csv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    found = tabular(tmp_path / "a.csv", "data.image=file", "data.label=class", "data.held_out=0.3")
    classes = found.data.load()
    assert [len(each) for each in classes.values()] == [6, 3, 0]
    for label, images in [*classes["train"].items(), *classes["valid"].items()]:
        assert [Path(str(each.image)).parent.name for each in images] == [label] * 6
    with pytest.raises(InputError, match=r"'kind'.*data\.label"):
        tabular(tmp_path / "a.csv", "data.image=file", "data.label=kind").data.load()


def test_no_class_is_in_two_sets(folder: Path):
    classes = config(folder).data.load()
    names = [set(each) for each in classes.values()]
    assert [len(each) for each in names] == [27, 3, 15]
    assert len(set().union(*names)) == 45
    assert {name.split("/")[0] for name in names[2]} == {"gamma"}


def sample(sizes: list[int], seed: str, *, training: bool = True, **settings: Any) -> Episode:
    pool = [np.zeros((size, 1, 1, 1), np.uint8) for size in sizes]
    return sample_episode(pool, FolderEpisodes(ways=3, shots=2, **settings), seed, training=training)


def test_episodes_are_functions_of_their_seed():
    sizes = [4, 5, 6, 7]
    assert sample(sizes, "1/2") == sample(sizes, "1/2") != sample(sizes, "1/3")
    for number in range(50):
        each = sample(sizes, str(number), training=bool(number % 2))
        assert sorted(each.labels) == [0, 0, 1, 1, 2, 2]
        own = dict(zip(each.support, each.labels, strict=True))
        assert len(own) == 6
        (query,), (target,) = each.queries, each.targets
        assert query not in own
        kinds = {(place.source, place.quarters) for place, label in own.items() if label == target}
        assert kinds == {(query.source, query.quarters)}
        assert number % 2 or {place.quarters for place in each.support} == {0}
    assert {sample(sizes, str(number)).queries[0].quarters for number in range(99)} == {0, 1, 2, 3}


def test_several_questions_and_mirrored_classes():
    found = [sample([5, 5, 6, 7], str(number), questions=7, mirrored=True) for number in range(50)]
    for each in found:
        labels = dict(zip(each.support, each.labels, strict=True)) | dict(zip(each.queries, each.targets, strict=True))
        assert len(labels) == 6 + 7  # no image twice
        assert sorted(each.targets.count(label) for label in range(3)) == [2, 2, 3]
        kinds = {((place.source, place.quarters, place.mirrored), label) for place, label in labels.items()}
        assert len(kinds) == 3
    assert {place.mirrored for each in found for place in each.support} == {False, True}


def test_an_image_is_mirrored_and_then_turned():
    pool = [np.arange(6, dtype=np.uint8).reshape(1, 2, 3, 1)]
    np.testing.assert_array_equal(ImageRef(0, 0, 1, mirrored=True).read(pool)[:, :, 0], [[0, 3], [1, 4], [2, 5]])


BATCH_OF_TWO = ("data.questions=2", "training.batch_tokens=128")


def test_training_sees_questions_and_augmented_images(folder: Path, tmp_path: Path):
    plain, other = (
        setup(config(folder, *BATCH_OF_TWO, settings), RunDirectory.create(tmp_path / settings), 1).objective
        for settings in ("augmentation={}", "augmentation={turn: 20}")
    )
    one, two = (each.batch(0, [0, 1]) for each in (plain, other))
    assert (one.images.shape, one.classes.shape) == ((2, 4, 1, 16, 16), (2, 2))
    assert torch.equal(one.labels, two.labels)
    assert torch.equal(one.classes, two.classes)
    assert not torch.equal(one.images, two.images)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["data.shots=6"], "class 'alpha/0' has 6 images; an episode of 6 shots needs 7, 1 as queries"),
        (
            ["data.questions=12"],
            "class 'alpha/0' has 6 images; an episode of 1 shots needs 7, 6 as queries; add images",
        ),
        (["augmentation.flip=true"], "augmentation.flip mirrors half of a class; data.mirrored makes it another"),
        (
            ["data.ways=20", "training.batch_tokens=512"],
            "characters.npz: 30 classes, but an episode needs 20 (data.ways) to train on and as many others",
        ),
        (["data.test=[delta]"], "has no alphabet 'delta'; expected of alpha, beta, gamma"),
        (["data.train=none.npz"], "none.npz: no such file"),
        (["images.size=20"], "images.size is 20, but model.side 16; set that alone"),
        (["training.label_smoothing=0.1"], "episodes are not smoothed"),
    ],
)
def test_classes_that_do_not_fit(settings: list[str], said: str, folder: Path, tmp_path: Path):
    with pytest.raises(InputError) as caught:
        launch.train(config(folder, *settings), tmp_path / "run")
    assert said in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("array", "given"),
    [
        ("images", np.zeros((5, 4, 4))),
        ("alphabet", np.full(270, 3)),
        ("alphabet", np.zeros(270)),
        ("character", np.zeros(269, int)),
        ("alphabet_names", np.array("alpha")),
    ],
)
def test_numbers_that_name_nothing(array: str, given: np.ndarray, tmp_path: Path):
    save(tmp_path / "a.npz", characters() | {array: given})
    with pytest.raises(InputError, match=r"a\.npz: expected images of uint8"):
        config(tmp_path).data.read(str(tmp_path / "a.npz"))


def test_sets_of_folders_that_share_classes(tmp_path: Path):
    whole, some = tmp_path / "whole", tmp_path / "some"
    write_folders(whole, characters(count=3))
    write_folders(some, characters(count=2))
    quick = [each for each in QUICK if not each.startswith("data.")]
    for sets, second in (
        (f"train: {whole}, valid: {some}", "valid"),
        (f"train: {some}, held_out: 0.4, test: {whole}", "test"),
    ):
        found = run_file.read(path_of("few-shot"), [*quick, f"data={{kind: class-folders, ways: 2, {sets}}}"])
        assert isinstance(found, FewShot)
        with pytest.raises(InputError, match=f"classes of the set train are in the set {second} too, such as '"):
            found.data.load()


def test_a_broken_image_is_told_before_training(folder: Path, tmp_path: Path):
    write_folders(tmp_path / "classes", characters(count=4))
    broken = sorted((tmp_path / "classes").rglob("*.png"))[5]
    broken.write_bytes(broken.read_bytes()[:50])
    data = f"data={{kind: class-folders, train: {tmp_path / 'classes'}, ways: 2}}"
    quick = [each for each in QUICK if not each.startswith("data.")]
    found = run_file.read(path_of("few-shot"), [*quick, data, "data.held_out=0.3"])
    with pytest.raises(InputError, match=f"{broken}: broken, truncated or unusual image"):
        launch.train(found, tmp_path / "run")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("predict", "x"), """text 1: got 'x'; expected {"examples": {"cat": ["1.png"], "dog": ["2.png"]}, "im"""),
        (("predict", '{"examples": {"a": "b.png"}, "image": "c.png"}'), "text 1: expected {"),
        (
            ("predict", '{"examples": {"a": []}, "image": "c.png"}'),
            "got [0] examples of 1 classes; the model was trained for 1 of each of 2 classes",
        ),
        (
            ("predict", '{"examples": {"a": ["a.png"], "b": ["a.png"]}, "image": "c.png"}'),
            "a.png: no such file",
        ),
        (("evaluate", "--columns", "a,b"), "a run of the task few-shot evaluates; supported: files, skip-bad"),
    ],
)
def test_commands_refuse(regard, folder: Path, arguments: tuple[str, ...], said: str):
    command, *rest = arguments
    code, _, errors = regard(command, str(folder / "run"), *rest)
    assert (code, len(errors.splitlines())) == (2, 1)
    assert said in errors
