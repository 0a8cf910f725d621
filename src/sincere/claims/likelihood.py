"""Claims 3 and 4: the probability behind the loss, and the function that minimises it (SINCERE, Section 3.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from sincere.claims.claim import Claim, Conditions, Outcome
from sincere.claims.palette import COLOURS, GREY, TITLES
from sincere.claims.record import Measured, Verdict
from sincere.claims.sincere_losses import SECTION
from sincere.claims.statistics import over_seeds
from sincere.claims.trends import exponent
from sincere.theory import DensityRatioFit, Lemma2Check, density_ratio_fit, lemma2_by_enumeration

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-12
PRACTICAL = 0.05  # how far a slope may be from 1, and log f from the log ratio in the mean, at the largest sample


def lemma_2(conditions: Conditions) -> Outcome:
    """Eq. 8 against Bayes' rule, data set by data set."""
    shapes: tuple[tuple[int, int, int], ...] = ((2, 5, 1), (2, 5, 3), (3, 6, 0), (3, 6, 2), (3, 6, 4), (4, 5, 2))
    if conditions.full:
        shapes += ((2, 12, 5), (3, 9, 4), (5, 7, 3), (8, 5, 2))
    seeds = range(conditions.seed, conditions.seed + (10 if conditions.full else 3))
    found = [
        lemma2_by_enumeration(symbols=symbols, samples=samples, known=known, seed=seed)
        for symbols, samples, known in shapes
        for seed in seeds
    ]
    verdict, reason = judge_lemma_2(found)
    posteriors = sum(one.posteriors for one in found)
    low, high = (pick(mass for one in found if one.known for mass in one.supcon_mass) for pick in (min, max))
    counted = f"{posteriors:,} posteriors"
    return Outcome(
        verdict,
        reason,
        f"{len(found)} discrete models with random probabilities, {sum(one.datasets for one in found):,} data sets, "
        f"every "
        "placement of the targets, float64",
        (
            Measured("largest |Bayes − Eq. 8|", max(one.difference for one in found), n=counted, paper="0"),
            Measured("largest |−log Bayes − SINCERE|", max(one.loss_difference for one in found), n=counted, paper="0"),
            Measured("least total that SupCon's softmax gives the candidates", low, paper="not a probability"),
            Measured("largest total that SupCon's softmax gives them", high, paper="not a probability"),
        ),
        tuple(
            {**one.__dict__, "supcon_mass": None, "supcon_low": one.supcon_mass[0], "supcon_high": one.supcon_mass[1]}
            for one in found
        ),
        lambda figure: _draw_lemma_2(figure, found),
    )


def judge_lemma_2(found: Sequence[Lemma2Check]) -> tuple[Verdict, str]:
    """Equal to rounding: the formula, and the loss."""
    criteria = (
        f"Criteria: Eq. 8 equals Bayes' rule to {ROUNDING:.0e}, and the library's SINCERE with log f = log ratio "
        f"equals its "
        "negative logarithm to the same."
    )
    formula = all(one.difference <= ROUNDING for one in found)
    loss = all(one.loss_difference <= ROUNDING for one in found)
    if formula and loss:
        return "reproduced", f"{criteria} What SupCon's softmax gives the candidates adds up to less than 1."
    wrong = " The formula differs." * (not formula) + " The loss differs." * (not loss)
    return ("partly" if formula or loss else "not reproduced"), criteria + wrong


def _draw_lemma_2(figure: "Figure", found: Sequence[Lemma2Check]) -> None:
    left, right = figure.subplots(1, 2)
    shapes = list(dict.fromkeys((one.symbols, one.samples, one.known) for one in found))
    names = [f"{symbols}, {samples}, {known}" for symbols, samples, known in shapes]
    for one in found:
        place = shapes.index((one.symbols, one.samples, one.known))
        left.scatter(max(one.difference, 1e-18), place, color=COLOURS["sincere"], s=18)
        left.scatter(max(one.loss_difference, 1e-18), place, color=COLOURS["decoupled"], s=18, marker="s")
        right.plot(one.supcon_mass, [place] * 2, color=COLOURS["supcon"], linewidth=4, alpha=0.5, solid_capstyle="butt")
    left.scatter([], [], color=COLOURS["sincere"], s=18, label="Eq. 8")
    left.scatter([], [], color=COLOURS["decoupled"], s=18, marker="s", label="SINCERE loss")
    left.axvline(ROUNDING, color=GREY, linestyle="--", linewidth=1)
    left.set(xscale="log", xlim=(1e-17, 1e-10), xlabel="largest difference to Bayes' rule", title="Equal to rounding")
    left.legend(frameon=False, loc="upper left", fontsize=8)
    right.axvline(1, color=COLOURS["sincere"], linewidth=2, label="Bayes, SINCERE")
    right.plot([], [], color=COLOURS["supcon"], linewidth=4, alpha=0.5, label="SupCon, all data sets")
    right.set(xlim=(0, 1.1), xlabel="total probability of the candidates", title="SupCon's falls short of 1")
    right.legend(frameon=False, loc="upper left", fontsize=8)
    for axis in (left, right):
        axis.set_yticks(range(len(names)), names)
    left.set_ylabel("symbols, samples, |P|")
    right.set_ylim(-0.5, len(names) + 0.9)
    left.set_ylim(-0.5, len(names) + 0.9)


@dataclass(frozen=True)
class RatioFits:
    """Fits of f by one loss and family over samples and seeds."""

    loss: str
    family: str
    fits: tuple[DensityRatioFit, ...]

    @property
    def sizes(self) -> list[int]:
        return sorted({fit.samples for fit in self.fits})

    def at(self, samples: int) -> list[DensityRatioFit]:
        return [fit for fit in self.fits if fit.samples == samples]

    @property
    def last(self) -> list[DensityRatioFit]:
        """At the largest sample, by seed."""
        return self.at(self.sizes[-1])

    @property
    def slope(self) -> Measured:
        name = f"slope of log f on the log ratio, {TITLES[self.loss]}, {self.family}"
        return over_seeds(name, [fit.slope for fit in self.last], paper="1" if self.loss == "sincere" else None)

    @property
    def error(self) -> Measured:
        name = f"error of log f, {TITLES[self.loss]}, {self.family}"
        return over_seeds(name, [fit.rms_error for fit in self.last], paper="0" if self.loss == "sincere" else None)

    @property
    def rate(self) -> Measured:
        """The exponent with which the error falls as samples grow; −½ where only sampling is left of it."""
        name = f"exponent of the error in the samples, {TITLES[self.loss]}, {self.family}"
        samples, errors = [fit.samples for fit in self.fits], [fit.rms_error for fit in self.fits]
        paper = "−0.5" if self.loss == "sincere" else None
        return exponent(name, samples, errors, n=f"{len(self.fits)} fits", paper=paper)


def density_ratio(conditions: Conditions) -> Outcome:
    """Fit f, and compare it with the ratio that is known."""
    sizes = (500, 2000, 8000, 32000) if conditions.full else (250, 1000, 4000)
    seeds = range(conditions.seed, conditions.seed + (10 if conditions.full else 5))
    found = [
        RatioFits(
            loss,
            family,
            tuple(
                density_ratio_fit(loss, family=family, positives=4, samples=size, seed=seed)
                for size in sizes
                for seed in seeds
            ),
        )
        for loss in ("sincere", "supcon")
        for family in ("quadratic", "tabular")
    ]
    verdict, reason = judge_density_ratio([one for one in found if one.loss == "sincere"])
    supcon = [one for one in found if one.loss == "supcon"]
    slopes = " and ".join(f"{one.slope.value:.2f}" for one in supcon)
    ours = [one for one in found if one.loss == "sincere"]
    first = ours[0].fits[0]
    return Outcome(
        verdict,
        f"{reason} SupCon with the same |P| = 4 does not find the ratio: its slopes are {slopes} whatever the sample, "
        "close to log r/(|N| + |P| r).",
        f"target N({first.separation:g}, {first.scale:g}²) and noise N(0, 1), |P| = {first.positives}, |N| = "
        f"{first.negatives}, "
        f"{sizes[0]:,} to {sizes[-1]:,} anchors, {len(seeds)} seeds; log f a parabola, and a table of ten cells",
        tuple(one.slope for one in ours)
        + tuple(one.error for one in ours)
        + tuple(one.rate for one in ours)
        + (_regret(ours),)
        + tuple(one.slope for one in supcon),
        tuple(_fit_row(fit) for one in found for fit in one.fits),
        lambda figure: _draw_density_ratio(figure, found),
    )


def judge_density_ratio(found: Sequence[RatioFits]) -> tuple[Verdict, str]:
    """Near the ratio, and nearer with every sample."""
    tests = {
        f"at the largest sample the mean slope of log f on the log ratio is within {PRACTICAL} of 1": all(
            abs(one.slope.value - 1) <= PRACTICAL for one in found
        ),
        f"and the error of log f at most {2 * PRACTICAL}": all(one.error.value <= 2 * PRACTICAL for one in found),
        "the error falls as samples grow, the whole interval of its exponent below 0": all(
            one.rate.high is not None and one.rate.high < 0 for one in found
        ),
        "on fresh samples no fit is better than the true ratio by more than three standard errors": all(
            fit.fresh_regret > -3 * fit.fresh_regret_error for one in found for fit in one.fits
        ),
    }
    failed = "".join(f" Not so: {name}." for name, holds in tests.items() if not holds)
    held = sum(tests.values())
    verdict: Verdict = "reproduced" if held == len(tests) else "partly" if held else "not reproduced"
    return verdict, "Criteria: " + "; ".join(tests) + "." + failed


def _regret(found: Sequence[RatioFits]) -> Measured:
    """Over seeds and families at the largest sample."""
    values = [fit.fresh_regret for one in found for fit in one.last]
    return over_seeds("loss of the fit − loss of the true ratio, fresh samples", values, paper="at least 0", of="fits")


def _fit_row(fit: DensityRatioFit) -> dict[str, object]:
    names = "loss family positives negatives samples seed slope correlation rms_error error posterior_rms_error"
    names += " fresh_regret fresh_regret_error converged"
    return {name: getattr(fit, name) for name in names.split()}


def _draw_density_ratio(figure: "Figure", found: Sequence[RatioFits]) -> None:
    from matplotlib.ticker import LogLocator

    left, right = figure.subplots(1, 2)
    for one in found:
        if one.family == "quadratic":
            for number, fit in enumerate(one.last):
                label = f"{TITLES[one.loss]}, {len(one.last)} seeds" if number == 0 else None
                left.plot(fit.grid, fit.log_f, color=COLOURS[one.loss], linewidth=1, alpha=0.8, label=label)
        style = "-" if one.family == "quadratic" else "--"
        errors = [fmean(fit.rms_error for fit in one.at(size)) for size in one.sizes]
        name = "parabola" if one.family == "quadratic" else "table"
        right.plot(one.sizes, errors, style, color=COLOURS[one.loss], marker="o", label=f"{TITLES[one.loss]}, {name}")
    truth = found[0].last[0]
    left.plot(truth.grid, truth.log_ratio, color="black", linestyle=":", linewidth=2, label="true log ratio")
    low = float(truth.log_ratio.min())
    left.set(
        ylim=(1.1 * low, 2.5),
        xlabel="x",
        ylabel="log f, centred",
        title=f"{truth.samples:,} anchors, |P| = {truth.positives}",
    )
    left.legend(frameon=False, loc="lower center", fontsize=8)
    right.set(
        xscale="log", yscale="log", xlabel="anchors", ylabel="error of log f, weighed by density", title="More samples"
    )
    right.set_xticks(found[0].sizes, [f"{size:,}" for size in found[0].sizes])
    right.minorticks_off()
    right.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    right.yaxis.set_major_formatter("{x:g}")
    right.legend(frameon=False, fontsize=8, loc="center right", bbox_to_anchor=(1, 0.72))


LIKELIHOOD = (
    Claim(
        3,
        "lemma-2",
        f"{SECTION}, Lemma 2",
        "the probability that a sample is the last of its class is its density ratio over the sum with the noise's",
        "exact by Bayes' rule",
        lemma_2,
    ),
    Claim(
        4,
        "density-ratio",
        f"{SECTION}, Propositions 3.1 and 3.2",
        "the f that minimises SINCERE is the density ratio of target and noise, up to a factor",
        "log f = log ratio + constant",
        density_ratio,
    ),
)
