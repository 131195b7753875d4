"""A captioner's trunk and word embeddings, trained beforehand to find the caption of each photograph among others.

`python -m benchmarks.contrast FOLDER OUT [SETTING...]` reads the photographs of FOLDER/images with
FOLDER/captions.jsonl and writes a run, from which `regard train captions --set training.start=OUT` goes on; the
settings are those of the run file. In a batch each image is to find its caption and each caption its image, by the
cosine of the mean cell and the mean word (as Radford et al. 2021, 2103.00020, with a fixed temperature and means in
place of the encoders' vectors). The metric is the share of validation captions whose image is among the ten likest.
"""

import sys
from dataclasses import replace
from pathlib import Path

import torch
from accelerate import PartialState
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.captions import data
from regard.models.bottleneck import BottleneckDecoder
from regard.models.captioner import Captioner
from regard.models.show_attend_and_tell import GatedDecoder
from regard.runs import run_file
from regard.runs.recipes import path_of
from regard.runs.train import begin, train_setup
from regard.shapes import Float
from regard.storage.run_folder import RunDirectory
from regard.tasks.image_captioning.data import CaptionBatch
from regard.tasks.image_captioning.training import CaptionObjective, encoded_captions, tensors
from regard.tasks.setup import Setup
from regard.tasks.task import RunConfig
from regard.text.special import IGNORED
from regard.training.objective import Carried, Loss

TEMPERATURE, NEAREST = 0.1, 10


def likeness(
    cells: Float[Tensor, "image cell width"], words: Float[Tensor, "caption word width"], real: Tensor
) -> Float[Tensor, "image caption"]:
    """The cosine of each image's mean cell and the mean of each caption's `real` words."""
    seen = functional.normalize(cells.mean(1), dim=-1)
    read = functional.normalize((words * real[..., None]).sum(1), dim=-1)  # a sum has the mean's direction
    return seen @ read.t()


def parts(model: nn.Module) -> tuple[nn.Module, nn.Module]:
    """The trunk and the words of Show, Attend and Tell, or of Show and Tell."""
    assert isinstance(model, Captioner)
    assert isinstance(model.decoder, GatedDecoder | BottleneckDecoder)
    return model.encoder, model.decoder.embedding


class Contrast(CaptionObjective):
    """Each image finds its caption in the batch, and each caption its image."""

    def loss(self, model: nn.Module, batch: CaptionBatch, update: int, carried: Carried | None = None) -> Loss:
        encoder, embedding = parts(model)
        words, real = batch.target_in[:, 1:], batch.target_out[:, :-1] != IGNORED
        scores = likeness(encoder(batch.images).value, embedding(words), real) / TEMPERATURE
        own = torch.arange(len(scores))
        total = functional.cross_entropy(scores, own) + functional.cross_entropy(scores.t(), own)
        return Loss(total * batch.target_tokens / 2, batch.target_tokens)

    @torch.no_grad()
    def validate(self, model: nn.Module) -> dict[str, float]:
        encoder, embedding = parts(model)
        cells = encoder(tensors(self.valid, self.config, torch.device("cpu"))).value
        found = encoded_captions(self.valid, self.tokenizer, self.config)
        right = []
        for ids, owner in zip(found.items, found.owners.tolist(), strict=True):
            words = embedding(torch.tensor([ids]))
            right.append(owner in likeness(cells, words, torch.ones(1, len(ids)))[:, 0].topk(NEAREST).indices)
        return {"recall": 100 * sum(right) / len(right)}


def contrasting(config: RunConfig, run: RunDirectory, process: PartialState, resume: bool) -> tuple[RunConfig, Setup]:
    """The setup of a captioner whose objective is `Contrast`, without a test set."""
    full, setup = begin(config, run, process, resume)
    objective = setup.objective
    assert isinstance(objective, CaptionObjective)
    assert isinstance(setup.model, Captioner)
    objective = Contrast(objective.images, objective.valid, objective.tokenizer, objective.config, setup.model)
    objective.metric = "recall"
    return full, replace(setup, objective=objective, tests=())


def main(folder: str, out: str, *settings: str) -> None:
    """Trains the run."""
    config = run_file.read(path_of("captions"), [*data(folder), *settings])
    print(train_setup(config, contrasting, Path(out)))


if __name__ == "__main__":
    main(*sys.argv[1:])
