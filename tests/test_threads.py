"""Several fits and runs in threads of one process, and in a caller's `no_grad`: the same as one after another."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from threading import Barrier

import numpy as np
import pytest
import torch

import sincere
from sincere.estimators import ContrastiveClassifier
from sincere.train import train
from small_runs import small_config, small_splits

THREADS = 4


def in_threads(work, count):
    """Results of `work(number)`, all begun at once."""
    ready = Barrier(THREADS)

    def begun(number):
        if number < THREADS:
            ready.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begun, range(count)))


@pytest.fixture
def blobs():
    random = np.random.default_rng(0)
    labels = np.arange(60) % 3
    return random.standard_normal((60, 5)) + labels[:, None], labels


def fitted(blobs, seed=0):
    rows, labels = blobs
    model = ContrastiveClassifier(epochs=2, width=16, dim=8, random_state=seed, device="cpu").fit(rows, labels)
    return model.transform(rows)


def test_a_seed_repeats_a_fit_in_threads(blobs):
    expected = [fitted(blobs, seed) for seed in range(2)]
    torch.manual_seed(11)
    before = torch.get_rng_state()
    for number, found in enumerate(in_threads(lambda number: fitted(blobs, number % 2), 24)):
        np.testing.assert_array_equal(found, expected[number % 2])
    assert torch.equal(torch.get_rng_state(), before)


def test_runs_in_threads_are_the_runs(tmp_path):
    splits = small_splits()
    config = small_config(epochs=2)
    expected = train(config, run=tmp_path / "alone", data=splits, show="off")
    torch.manual_seed(11)
    before = torch.get_rng_state()
    done = in_threads(lambda number: train(config, run=tmp_path / str(number), data=splits, show="off"), 12)
    assert [found.loss for found in done] == [expected.loss] * 12
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("within", [torch.no_grad, torch.inference_mode, nullcontext])
def test_training_has_gradients_whatever_it_is_called_in(within, blobs, tmp_path):
    splits, expected = small_splits(), fitted(blobs)
    with within():
        found = train(small_config(epochs=1), run=tmp_path / "run", data=splits, show="off")
        again = fitted(blobs)
        assert torch.is_grad_enabled() == (within is nullcontext)
    assert found.finished
    np.testing.assert_array_equal(again, expected)
    assert torch.isfinite(sincere.load(tmp_path / "run").embed(splits.test).embeddings).all()
