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
    FewShot,
    FewShotExample,
    FewShotRun,
    FolderEpisodes,
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
    np.savez_compressed(folder / "characters.npz", allow_pickle=False, **characters())
    write_folders(folder / "classes", characters())
    launch.train(config(folder), folder / "run")
    return folder


def read(*settings: str) -> FewShot:
    config = run_file.read(path_of("few-shot"), list(settings))
    assert isinstance(config, FewShot)
    return config


def config(folder: Path, *settings: str) -> FewShot:
    return read(f"data.train={folder / 'characters.npz'}", *QUICK, *settings)


def other_data(*settings: str) -> FewShot:
    """A quick model on data of another kind."""
    return read(*(setting for setting in QUICK if not setting.startswith("data.")), *settings)


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


def test_what_the_query_attends_to(folder: Path, tmp_path: Path):
    episode = example(folder)
    attribution = load(folder / "run", "cpu", task=FewShotRun).attribute(episode)
    result = attribution.weights
    assert result.weights.sum() == pytest.approx(1)
    assert result.labels == tuple(episode.support)
    assert (result.images.shape, result.maps.shape) == ((3, 16, 16, 1), (3, 3, 3))
    assert np.triu(result.maps, 1).max() == 0  # no image reads those after it
    (every,) = attribution.lookups
    assert every.target == every.source == (*result.labels, "query")
    np.testing.assert_allclose(every.weights[:, 0], result.maps, rtol=1e-6)
    for name in ("a.png", "a.html"):
        attribution.write(tmp_path / name)
    assert '"images":{"height":16' in (tmp_path / "a.html").read_text(encoding="utf-8")
    (again,) = load(folder / "run", "cpu", task=FewShotRun).predict(
        [replace(episode, query=np.asarray(Image.open(str(episode.query))))]
    )
    assert again.probabilities == pytest.approx(attribution.prediction.to_json()["probabilities"], abs=1e-6)


def test_folders_of_classes(folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO", "regard")
    data = f"data={{kind: class-folders, train: {folder / 'classes'}, ways: 2, shots: 2, episodes: 50}}"
    launch.train(other_data(data, "training.steps=2", "training.warmup=0"), tmp_path / "run")
    assert load(tmp_path / "run", "cpu").evaluate().keys() == {"accuracy", "standard-error"}
    assert "no test set: evaluated on the validation examples" in caplog.text
    assert (
        "500 validation episodes of 2 classes (ways) with 2 images of each (shots); 50 % are right by chance"
        in caplog.text
    )
    assert "is ignored" not in caplog.text  # the recipe's test alphabets, which nobody set
    assert "images_per_second" in json.loads((tmp_path / "run" / "result.json").read_text())


def test_a_folder_holds_out_a_share_of_its_own(tmp_path: Path):
    """The recipe's share is that of Omniglot's thousand classes."""
    (tmp_path / "bag").mkdir()
    assert [read(*settings).data.held_out for settings in ([], [f"data.train={tmp_path}"])] == [0.04, 0.1]


def test_a_table_of_image_files(tmp_path: Path):
    write_folders(tmp_path / "classes", characters(count=3))
    rows = [(str(file.relative_to(tmp_path)), file.parent.name) for file in sorted(tmp_path.rglob("*.png"))]
    lines = [",".join(row) for row in [("file", "class"), *rows]]
    (tmp_path / "a.csv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    table = f"data.train={tmp_path / 'a.csv'}", "data.image=file", "data.ways=2", "data.questions=1"
    data = other_data(*table, "data.mirrored=false", "data.label=class", "data.held_out=0.3").data
    assert isinstance(data, TableEpisodes)
    splits = data.load()
    assert [len(classes) for classes in splits.by_name.values()] == [6, 3, 0]
    for images in (*splits.train, *splits.valid):
        assert [Path(str(image.image)).parent.name for image in images] == [images[0].label] * 6


def test_no_class_is_in_two_sets(folder: Path):
    sets = config(folder).data.load().by_name.values()
    names = [{images[0].label for images in classes} for classes in sets]
    assert [len(labels) for labels in names] == [27, 3, 15]
    assert len(set().union(*names)) == 45
    assert {name.split("/")[0] for name in names[2]} == {"gamma"}


def variants(sizes: list[int]) -> tuple[list[np.ndarray], dict[bytes, tuple[int, int, int, int]]]:
    """Images of 2 x 2 of four numbers, and the class, index, mirroring and quarter turns of each variant."""
    pool, meanings = [], {}
    for source, size in enumerate(sizes):
        images = []
        for index in range(size):
            image = np.array([[0, 1], [2, 3]], np.uint8)[..., None] + np.uint8(4 * (10 * source + index))
            images.append(image)
            for mirrored in (0, 1):
                for quarters in range(4):
                    turned = np.rot90(image[:, ::-1] if mirrored else image, quarters)
                    meanings[turned.tobytes()] = source, index, mirrored, quarters
        pool.append(np.stack(images))
    return pool, meanings


def sample(sizes: list[int], seed: str, *, training: bool = True, **settings: Any) -> Any:
    """The support and query images of an episode, each as its meaning and its label."""
    pool, meanings = variants(sizes)
    episode = sample_episode(pool, FolderEpisodes(ways=3, shots=2, **settings), seed, training=training)
    images = [meanings[image.tobytes()] for image in episode.images]
    pairs = list(zip(images, [*episode.labels, *episode.targets], strict=True))
    return pairs[: len(episode.labels)], pairs[len(episode.labels) :]


def test_episodes_are_functions_of_their_seed():
    sizes = [4, 5, 6, 7]
    assert sample(sizes, "1/2") == sample(sizes, "1/2") != sample(sizes, "1/3")
    turns = set()
    for number in range(60):
        support, [(query, target)] = sample(sizes, str(number), training=bool(number % 2))
        assert sorted(label for _, label in support) == [0, 0, 1, 1, 2, 2]
        assert len(dict(support)) == 6
        assert query not in dict(support)
        kinds = {(source, quarters) for (source, _, _, quarters), label in support if label == target}
        assert kinds == {(query[0], query[3])}
        assert number % 2 or {image[2:] for image in dict(support)} == {(0, 0)}
        turns.add(query[3])
    assert turns == {0, 1, 2, 3}


def test_several_questions_and_mirrored_classes():
    mirrored = set()
    for number in range(50):
        support, queries = sample([5, 5, 6, 7], str(number), questions=7, mirrored=True)
        labels = dict(support) | dict(queries)
        assert len(labels) == 6 + 7  # no image twice
        assert sorted([label for _, label in queries].count(label) for label in range(3)) == [2, 2, 3]
        assert len({(image[0], image[2:], label) for image, label in labels.items()}) == 3
        mirrored |= {image[2] for image in dict(support)}
    assert mirrored == {0, 1}


def test_training_sees_questions_and_augmented_images(folder: Path, tmp_path: Path):
    plain, other = (
        setup(config(folder, "data.questions=2", settings), RunDirectory.create(tmp_path / settings), 1).objective
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
        (["data.shots=6"], "train: 27 classes of 6 images or more; an episode needs 2 classes (data.ways) of 7 images"),
        (["data.questions=12"], "classes of 6 images or more; an episode needs 2 classes (data.ways) of 7 images"),
        (["augmentation.flip=true"], "augmentation.flip mirrors half of a class; data.mirrored makes it another"),
        (
            ["data.ways=20", "training.batch_tokens=512"],
            "characters.npz: 30 classes, but an episode needs 20 (data.ways) to train on and as many others",
        ),
        (["data.test=[delta]"], "has no alphabet 'delta'; expected of alpha, beta, gamma"),
        (["images.size=20"], "images.size is 20, but model.side is 16; remove images.size"),
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
        ("character", np.zeros(269, int)),
        ("alphabet_names", np.array("alpha")),
    ],
)
def test_numbers_that_name_nothing(array: str, given: np.ndarray, tmp_path: Path):
    np.savez(tmp_path / "characters.npz", allow_pickle=False, **(characters() | {array: given}))
    with pytest.raises(InputError, match=r"characters\.npz: expected images of uint8"):
        config(tmp_path).data.load()


def test_sets_of_folders_that_share_classes(tmp_path: Path):
    whole, some = tmp_path / "whole", tmp_path / "some"
    write_folders(whole, characters(count=3))
    write_folders(some, characters(count=2))
    for sets in (f"train: {whole}, valid: {some}", f"train: {some}, held_out: 0.4, test: {whole}"):
        data = other_data(f"data={{kind: class-folders, ways: 2, {sets}}}").data
        with pytest.raises(InputError, match=r"class '0-0.' is in two sets"):
            data.load()


def test_a_broken_image_is_told_before_training(folder: Path, tmp_path: Path):
    write_folders(tmp_path / "classes", characters(count=4))
    broken = sorted((tmp_path / "classes").rglob("*.png"))[5]
    broken.write_bytes(broken.read_bytes()[:50])
    data = f"data={{kind: class-folders, train: {tmp_path / 'classes'}, ways: 2}}"
    with pytest.raises(InputError, match=f"{broken}: broken, truncated or unusual image"):
        launch.train(other_data(data, "data.held_out=0.3"), tmp_path / "run")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("predict", "x"), """text 1: 'x'; expected {"examples": {"cat": ["1.png"], "dog": ["2.png"]}, "im"""),
        (
            ("predict", '{"examples": {"a": []}, "image": "c.png"}'),
            "got 1 classes with [0] examples; the model was trained for 2 classes with 1 each, so give as many",
        ),
        (("predict", '{"examples": {"a": ["a.png"], "b": ["a.png"]}, "image": "c.png"}'), "a.png: no such file"),
    ],
)
def test_commands_refuse(regard, folder: Path, arguments: tuple[str, ...], said: str):
    command, *rest = arguments
    code, _, errors = regard(command, str(folder / "run"), *rest)
    assert (code, len(errors.splitlines())) == (2, 1)
    assert said in errors
