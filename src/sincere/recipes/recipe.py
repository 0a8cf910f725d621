"""A named configuration, and the evidence for it."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sincere.evaluate import EvaluationOptions
from sincere.recipes.measured import measured_of
from sincere.train import TrainConfig
from sincere.train.fields import differences


@dataclass(frozen=True)
class Recipe:
    """A complete configuration by name.

    data: what `sincere train` takes as DATA; PATH stands for where the user keeps it.
    claim: what the recipe is for and what figure it stands for.
    origins: where each setting comes from that is not the default: "optimizer.lr" or a whole section, "optimizer".
    evaluation: how `sincere train --recipe NAME --evaluate` measures it; None: as `sincere evaluate` does by default.
    """

    name: str
    data: str
    claim: str
    make: Callable[[], TrainConfig]
    origins: Mapping[str, str]
    evaluation: EvaluationOptions | None = None

    @property
    def config(self) -> TrainConfig:
        """Every setting."""
        return self.make()

    @property
    def measured(self) -> str:
        """Figures with n, seeds, hardware, time and version; or that nobody has measured it here."""
        return measured_of(self.name)

    @property
    def needs_path(self) -> bool:
        """Does the user have to say where the data is?"""
        return "PATH" in self.data

    @property
    def command(self) -> str:
        return f"sincere train {self.data} --recipe {self.name}"

    def settings(self) -> Iterator[tuple[str, str, str]]:
        """What differs from the defaults: name, value, origin."""
        for name, value in (*_changed(self.config), *_changed_evaluation(self.evaluation)):
            yield name, json.dumps(value, ensure_ascii=False), self.origin(name)

    def origin(self, setting: str) -> str:
        """Where a setting comes from; the origin of its section where it has none of its own."""
        parts = setting.split(".")
        names = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
        return next((self.origins[name] for name in names if name in self.origins), "")

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        told = {name: getattr(self, name) for name in ("name", "data", "claim", "measured", "command")}
        evaluation = None if self.evaluation is None else asdict(self.evaluation)
        return {**told, "origins": dict(self.origins), "config": self.config.to_json(), "evaluation": evaluation}


def _changed(config: TrainConfig) -> Iterator[tuple[str, Any]]:
    values = config.to_json()
    for line in differences(TrainConfig().to_json(), values):
        name = line.partition(":")[0]
        if name.startswith("data.source"):
            continue
        value: Any = values
        for part in name.split("."):
            value = value[part]
        yield name, value


def _changed_evaluation(options: EvaluationOptions | None) -> Iterator[tuple[str, Any]]:
    plain = asdict(EvaluationOptions())
    for name, value in asdict(options or EvaluationOptions()).items():
        if value != plain[name]:
            yield f"evaluation.{name}", value
