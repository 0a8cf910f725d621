"""What to evaluate, and how."""

from dataclasses import dataclass
from math import isfinite
from typing import Literal, TypeAlias, get_args

from sincere.checks import check_choice, check_flag, is_number, is_whole
from sincere.errors import OptionError
from sincere.evaluate.bootstrap import LEAST_DRAWS
from sincere.nearest.neighbours import Voting

Method: TypeAlias = Literal["knn", "class_means", "linear", "linear_paper", "retrieval"]
Vectors: TypeAlias = Literal["embeddings", "features"]


@dataclass(frozen=True)
class EvaluationOptions:
    """Methods and their settings; the defaults need nothing but embeddings and labels."""

    methods: tuple[Method, ...] = ("knn", "class_means", "linear", "retrieval")
    k: int | None = None  # None: chosen on the validation set; 20 where there is none, fewer where classes are small
    voting: Voting = "count"
    neighbours_on: Vectors = "embeddings"  # k-NN, class means and retrieval
    probes_on: Vectors | None = None  # None: features where there are any, as in the papers
    recall_at: tuple[int, ...] = (1, 5, 10)
    draws: int = 1000
    seed: int = 0
    l2: float | None = None  # of the linear probe; None: chosen on the validation set, or within the training set
    probe_views: int = 0  # random views of each training sample that the linear probe is fitted on; 0: the samples
    unit_probe: bool = False  # the linear probe sees vectors of length one: their directions alone

    def __post_init__(self) -> None:
        for method in self.methods:
            check_choice("methods", method, get_args(Method))
        if not self.methods or len(set(self.methods)) != len(self.methods):
            raise OptionError(f"methods must name at least one, each once: got {self.methods}.")
        check_choice("neighbours_on", self.neighbours_on, get_args(Vectors))
        if self.probes_on is not None:
            check_choice("probes_on", self.probes_on, get_args(Vectors))
        check_choice("voting", self.voting, get_args(Voting))
        check_flag("unit_probe", self.unit_probe)
        self._check_numbers()
        if self.l2 is not None and not (is_number(self.l2) and isfinite(self.l2) and self.l2 > 0):
            raise OptionError(
                f"l2 must be a positive number: got {self.l2!r}. Separable classes have no minimum without."
            )

    def _check_numbers(self) -> None:
        """At once: to hear of it after the last fit would be late."""
        if not isinstance(self.recall_at, (tuple, list)) or not self.recall_at:
            raise OptionError(
                f"recall_at must hold at least one number of neighbours, such as (1, 5): got {self.recall_at!r}."
            )
        _check_whole("seed", self.seed, None)
        _check_whole("draws", self.draws, LEAST_DRAWS)
        _check_whole("probe_views", self.probe_views, 0)
        if self.k is not None:
            _check_whole("k", self.k, 1)
        for k in self.recall_at:
            _check_whole("recall_at", k, 1)


def _check_whole(name: str, value: object, least: int | None) -> None:
    if not is_whole(value):  # one of NumPy's could not be written into the record, after all the work
        raise OptionError(f"{name} must be a whole number: got {value!r}.")
    if least is not None and value < least:
        raise OptionError(f"{name} must be at least {least}: got {value}.")
