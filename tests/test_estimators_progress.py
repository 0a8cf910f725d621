"""What a fit of an estimator shows while it goes on, and that showing it changes nothing."""

import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

import sincere.estimators.telling as telling
from sincere.errors import OptionError
from sincere.estimators import ContrastiveClassifier, ContrastiveTransformer

SMALL = {"width": 16, "dim": 4, "batch_size": 30, "epochs": 4, "random_state": 0}
X, Y = load_iris(return_X_y=True)


@pytest.mark.parametrize("estimator", [ContrastiveTransformer, ContrastiveClassifier])
def test_a_fit_is_silent_unless_it_is_asked(estimator, capsys):
    assert estimator().get_params()["verbose"] is False
    silent = estimator(**SMALL).fit(X, Y)
    assert capsys.readouterr() == ("", "")
    loud = clone(estimator(**SMALL, verbose=True)).fit(X, Y)
    out, err = capsys.readouterr()
    assert out == ""
    first, *_, last = err.splitlines()
    assert re.fullmatch(r"epoch 2/4  step 10/20  loss \d\.\d{4}  [\d,]+ samples/s  \d:\d\d left", first)
    assert re.fullmatch(r"epoch 4/4  step 20/20  loss \d\.\d{4}  [\d,]+ samples/s  0:00 left", last)
    np.testing.assert_array_equal(silent.transform(X), loud.transform(X))


def test_the_loss_that_is_told_is_the_mean_since_the_last_reading():
    seen = []

    class Kept(telling.Silent):
        def reading(self, step, epoch, reading):
            seen.append((step, epoch, reading.loss))

    display = telling.Told(Kept(), telling.Length(epochs=5, steps=25), telling.torch.device("cpu"))
    display.silent = False
    for loss in range(25):
        display.add(telling.torch.tensor(float(loss)), 30)
    assert seen == [(10, 2, 4.5), (20, 4, 14.5), (25, 5, 22.0)]


@pytest.mark.parametrize(("verbose", "shown"), [(0, "off"), (False, "off"), (1, "auto"), (2, "plain"), (10, "plain")])
def test_more_verbose_means_lines_on_a_terminal_too(verbose, shown):
    assert telling.show_by(verbose) == shown


@pytest.mark.parametrize("verbose", [-1, "yes", 0.5, None])
def test_what_verbose_is_not(verbose):
    with pytest.raises(OptionError, match="verbose must be True, False or a whole number from 0"):
        ContrastiveTransformer(**SMALL, verbose=verbose).fit(X, Y)


def test_numpys_true_is_true_and_its_numbers_are_numbers(capsys):
    for verbose in (np.True_, np.int64(1)):
        ContrastiveTransformer(**SMALL, verbose=verbose).fit(X, Y)
        assert "epoch 4/4" in capsys.readouterr().err


def test_a_fit_that_fails_takes_its_display_down(monkeypatch):
    closed = []

    class Kept(telling.Silent):
        def close(self):
            closed.append(True)

    monkeypatch.setattr(telling, "build_progress", lambda *given, **named: Kept())
    length, device = telling.Length(1, 1), telling.torch.device("cpu")
    with pytest.raises(OptionError, match="temperature"), telling.told("auto", length, device):
        raise OptionError("temperature")
    assert closed == [True]
