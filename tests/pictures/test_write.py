import os
import re
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from regard.errors import InputError, RunError
from regard.extras import how_to_install
from regard.maps import Alignment
from regard.maps.heads import HeadMaps
from regard.maps.lookups import TapeUse, lookups_from_alignment
from regard.pictures import heatmap, write
from regard.pictures.heatmap import multiples
from regard.pictures.overlay import overlay
from regard.pictures.panels import episode, positions, spectrogram, tape
from regard.pictures.shaded_text import reading
from regard.pictures.views import draw_entropies, lines
from regard.pictures.write import write_figure

SUFFIXES = [".png", ".svg", ".pdf", ".html"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_alignment_gives_the_same_bytes(alignment, suffix, tmp_path):
    first, second = (write(alignment, tmp_path / f"{i}{suffix}", title="T").read_bytes() for i in (1, 2))
    assert first == second
    assert sorted(os.listdir(tmp_path)) == [f"1{suffix}", f"2{suffix}"]


def test_the_users_matplotlib_settings_change_nothing(alignment, tmp_path):
    import matplotlib

    plain = write(alignment, tmp_path / "a.svg").read_bytes()
    with matplotlib.rc_context({"svg.fonttype": "path", "font.size": 23, "axes.grid": True, "svg.hashsalt": None}):
        assert write(alignment, tmp_path / "b.svg").read_bytes() == plain
        assert matplotlib.rcParams["font.size"] == 23


def test_svg_labels_are_text(alignment, tmp_path):
    root = ET.parse(write(alignment, tmp_path / "a.svg", title="Ein <Titel>")).getroot()
    texts = {"".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"Das", "Haus", "ist", "groß", ".", "The", "مرحبا", "␣", "Ein <Titel>", "0", "0.5", "1"} <= texts
    assert not re.search(r"20\d\d-\d\d-\d\d", (tmp_path / "a.svg").read_text())


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("shape", [(0, 3), (1, 1)])
def test_every_kind_writes_small_alignments(suffix, shape, tmp_path):
    alignment = Alignment(np.zeros(shape), ("s",) * shape[1], ("t",) * shape[0])
    assert write(alignment, tmp_path / f"a{suffix.upper()}").stat().st_size > 1000


@pytest.mark.parametrize("name", ["a.eps", "a", "a.png.gz", ".svg"])
def test_another_suffix_is_refused_with_the_list(alignment, name, tmp_path):
    with pytest.raises(InputError, match=r"expected a name ending in \.png, \.svg, \.pdf, \.html"):
        write(alignment, tmp_path / name)
    with pytest.raises(InputError, match="no directory"):
        write(alignment, tmp_path / "none" / "a.html")


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_without_matplotlib_the_extra_is_named(alignment, suffix, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=re.escape(how_to_install("matplotlib"))) as caught:
        write(alignment, tmp_path / f"a{suffix}")
    assert caught.value.exit_code == 2
    assert not list(tmp_path.iterdir())
    assert write(alignment, tmp_path / "a.html").stat().st_size > 1000


def test_a_failed_write_keeps_what_was_there(alignment, tmp_path, monkeypatch):
    path = tmp_path / "a.html"
    path.write_text("before")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match="no space left"):
        write(alignment, path)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["a.html"]


def drawings(alignment):
    """One of each kind of figure."""
    words, weights = alignment.source, np.stack([alignment.weights, alignment.weights])
    yield heatmap(alignment, vmax=0.5)
    yield lines(weights, words, alignment.target, ("one", "two"))
    yield multiples(weights, ("one", "two"), (2,), (words, alignment.target))
    yield reading(alignment, first=1)
    yield positions({"p": alignment.weights})
    yield draw_entropies(HeadMaps.of(lookups_from_alignment(alignment)))
    tape_weights = np.ones((1, 3, 7))
    yield tape(TapeUse(np.zeros((3, 2)), np.full((3, 2), np.nan), tape_weights, tape_weights), title="$copy$")
    images = np.random.default_rng(0).integers(0, 255, (4, 7, 7, 1)).astype(np.uint8)
    yield episode(images[0], images, ["cat", "dog", "dog", "cat"], np.full((1, 5), 0.2), title="$cat$")
    yield overlay(np.repeat(images[0], 3, 2), alignment.weights, title="$cat$ 0.9")
    yield spectrogram(alignment.weights, alignment.weights, alignment.target, times=(0.1, 0.1))


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_same_figures_give_the_same_bytes(alignment, suffix, tmp_path):
    first, again = (
        [write_figure(each, tmp_path / f"a{suffix}").read_bytes() for each in drawings(alignment)] for _ in "12"
    )
    assert first == again
    assert len(set(first)) == 10


def test_spaces_unicode_and_a_very_long_name(alignment, tmp_path):
    assert write(alignment, tmp_path / "eine Übersicht 注.html").exists()
    with pytest.raises(InputError, match="too long"):
        write(alignment, str(tmp_path / ("x" * 255 + ".html")))


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_too_large_is_refused(suffix, tmp_path):
    with pytest.raises(InputError, match="513 x 513 positions; at most 512 per side"):
        write(Alignment(np.zeros((513, 513)), ("s",) * 513, ("t",) * 513), tmp_path / f"a{suffix}")
    assert not list(tmp_path.iterdir())


def test_on_paper_a_picture_is_so_wide(alignment, tmp_path):
    figure = heatmap(alignment)
    with Image.open(write_figure(figure, tmp_path / "a.png", width=7.62)) as picture:
        assert picture.width == pytest.approx(900, abs=1)
        assert picture.info["dpi"] == pytest.approx((300, 300), abs=0.1)
    with pytest.raises(InputError, match=r"only a \.png has a width"):
        write_figure(figure, tmp_path / "a.svg", width=7.62)
