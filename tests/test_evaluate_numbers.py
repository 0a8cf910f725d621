"""Figures of labels that are numbers, against scikit-learn."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.neighbors import KNeighborsRegressor

from sincere.errors import InputError, OptionError
from sincere.evaluate import evaluate_numbers
from sincere.evaluate.linear import STRENGTHS

GENERATOR = np.random.default_rng(0)
KNOWN, NEW = GENERATOR.normal(size=(120, 6)).astype("float32"), GENERATOR.normal(size=(50, 6)).astype("float32")
DIRECTION = GENERATOR.normal(size=6)
NUMBERS, WANTED = (50 + 9 * (rows @ DIRECTION + GENERATOR.normal(size=len(rows))) for rows in (KNOWN, NEW))


def ridge(l2, rows=KNOWN, numbers=NUMBERS, new=NEW):
    mean, scale = rows.mean(0, dtype=float), rows.std(0, dtype=float)
    return Ridge(alpha=l2 * len(rows)).fit((rows - mean) / scale, numbers).predict((new - mean) / scale)


def test_figures_are_scikit_learns():
    found = evaluate_numbers(NEW, WANTED, KNOWN, NUMBERS, k=7, l2=0.3)
    guesses = {
        "knn": KNeighborsRegressor(7, metric="cosine").fit(KNOWN, NUMBERS).predict(NEW),
        "linear": ridge(0.3),
        "median": np.full(len(NEW), np.sort(NUMBERS)[59]),  # of an even number torch takes the lower
    }
    for name, guess in guesses.items():
        one = getattr(found, name)
        assert one.predictions == pytest.approx(guess, rel=1e-5)
        assert one.error.value == pytest.approx(mean_absolute_error(WANTED, guess), rel=1e-5)
        assert one.r2.value == pytest.approx(r2_score(WANTED, guess), rel=1e-4)
        assert one.error.low < one.error.value < one.error.high
    assert found.linear.error.high < found.median.error.low
    assert "mean absolute error" in str(found)


def test_intervals_come_from_the_draws():
    from sincere.evaluate.bootstrap import resampled_counts

    found = evaluate_numbers(NEW, WANTED, KNOWN, NUMBERS, l2=0.3, draws=200, seed=4)
    guess, errors, shares = ridge(0.3), [], []
    for counts in np.concatenate([part.numpy() for part in resampled_counts(len(NEW), draws=200, seed=4)]):
        some = np.repeat(np.arange(len(NEW)), counts.astype(int))
        errors.append(mean_absolute_error(WANTED[some], guess[some]))
        shares.append(r2_score(WANTED[some], guess[some]))
    for figure, values in ((found.linear.error, errors), (found.linear.r2, shares)):
        assert (figure.low, figure.high) == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])), rel=1e-4)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_a_draw_of_one_sample_has_no_r2(n):
    """Of three samples every ninth draw is one of them three times; what rounding leaves of its variance is none."""
    from sincere.evaluate.bootstrap import resampled_counts

    found = evaluate_numbers(NEW[:n], WANTED[:n], KNOWN, NUMBERS, l2=0.3, draws=200)
    guess, shares = np.array(found.linear.predictions), []
    for counts in np.concatenate([part.numpy() for part in resampled_counts(n, draws=200, seed=0)]):
        some = np.repeat(np.arange(n), counts.astype(int))
        if len(set(some)) > 1:
            shares.append(r2_score(WANTED[some], guess[some]))
    wanted = np.quantile(shares, [0.025, 0.975]) if shares else [np.nan] * 2
    assert (found.linear.r2.low, found.linear.r2.high) == pytest.approx(tuple(wanted), rel=1e-6, nan_ok=True)


def test_equally_near_references_share_without_a_loss_of_digits():
    """Nanoseconds since 1970, of which thirds in float32 would lose half a minute."""
    numbers = 1_700_000_000_000_000_000 + np.arange(12) * 10**9
    found = evaluate_numbers(np.eye(4), numbers[:4], np.repeat(np.eye(4), 3, axis=0), numbers, k=2, l2=1.0)
    assert found.knn.predictions == pytest.approx(numbers.reshape(4, 3).mean(1), rel=0, abs=1e4)


def test_strength_is_chosen_within_the_references():
    from sincere.evaluate.linear import stratified_folds

    found = evaluate_numbers(NEW, WANTED, KNOWN, NUMBERS, seed=2)
    assert evaluate_numbers(NEW, -WANTED, KNOWN, NUMBERS, seed=2).l2 == found.l2
    import torch

    fold = stratified_folds(torch.zeros(len(KNOWN), dtype=torch.int64), 3, seed=2).numpy()
    errors = {}
    for l2 in STRENGTHS:
        parts = [(fold != held, fold == held) for held in range(3)]
        errors[l2] = sum(
            ((ridge(l2, KNOWN[inside], NUMBERS[inside], KNOWN[out]) - NUMBERS[out]) ** 2).sum() for inside, out in parts
        )
    assert found.l2 == min(errors, key=errors.get)


@pytest.mark.parametrize(("references", "k"), [(3, 3), (120, 10)])
def test_neighbours_are_ten_or_all_of_fewer(references, k):
    assert evaluate_numbers(NEW, WANTED, KNOWN[:references], NUMBERS[:references]).k == k


def test_samples_without_a_number_are_left_out():
    plain = evaluate_numbers(NEW, WANTED, KNOWN, NUMBERS)
    gap = [np.nan]
    more = evaluate_numbers(np.r_[NEW, NEW[:1]], np.r_[WANTED, gap], np.r_[KNOWN, KNOWN[:1]], np.r_[NUMBERS, gap])
    assert more == plain


@pytest.mark.parametrize(
    ("arguments", "options", "error", "said"),
    [
        ((NEW, WANTED[:9], KNOWN, NUMBERS), {}, InputError, r"one number for each of embeddings, \(50,\)"),
        ((NEW, ["a"] * 50, KNOWN, NUMBERS), {}, InputError, "one number for each"),
        ((NEW, WANTED * np.nan, KNOWN, NUMBERS), {}, InputError, "not all of them NaN"),
        ((NEW, WANTED, KNOWN, NUMBERS * np.inf), {}, InputError, "reference_values must be finite"),
        ((NEW, np.r_[np.inf, WANTED[1:]], KNOWN, NUMBERS), {}, InputError, "values must be finite"),
        ((NEW[:, :3], WANTED, KNOWN, NUMBERS), {}, InputError, "share their dimensions: got 3 and 6"),
        ((NEW, WANTED, KNOWN, NUMBERS), {"k": 0}, OptionError, "k must be"),
        ((NEW, WANTED, KNOWN, NUMBERS), {"l2": -1.0}, OptionError, "l2 must be positive"),
        ((NEW, WANTED, KNOWN, NUMBERS), {"l2": np.nan}, OptionError, "l2 must be positive and finite: got nan"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, options, error, said):
    with pytest.raises(error, match=said):
        evaluate_numbers(*arguments, **options)
