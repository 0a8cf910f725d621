"""The learning rate of every step."""

from math import cos, pi

from sincere.train.config import ScheduleConfig


def learning_rate(config: ScheduleConfig, lr: float, *, step: int, steps_per_epoch: int, epochs: int) -> float:
    """The rate at which step `step` (from 0) moves; `lr` is the full rate.

    A straight line from `warmup_start_lr` during the warm-up, then a half cosine or a power of the share of steps that
    are left, either of which reaches `end_lr` at the last step.

    >>> paper = ScheduleConfig(warmup_epochs=10, warmup_start_lr=0.0005, end_lr=0.0005)
    >>> [round(learning_rate(paper, 0.5, step=s, steps_per_epoch=98, epochs=1000), 4) for s in (0, 490, 980, 97_999)]
    [0.0005, 0.2502, 0.5, 0.0005]
    """
    warmup = round(config.warmup_epochs * steps_per_epoch)
    last = steps_per_epoch * epochs - 1
    if step < warmup:
        goal = _after_warmup(config, lr, step=warmup, warmup=warmup, last=last)
        return config.warmup_start_lr + (goal - config.warmup_start_lr) * step / warmup
    return _after_warmup(config, lr, step=step, warmup=warmup, last=last)


def _after_warmup(config: ScheduleConfig, lr: float, *, step: int, warmup: int, last: int) -> float:
    if config.shape == "constant":
        return lr
    begin = warmup if config.cosine_from == "warmup" else 0
    share = min(max(step - begin, 0) / (last - begin), 1.0) if last > begin else 0.0
    left = (1 - share) ** config.power if config.shape == "polynomial" else (1 + cos(pi * share)) / 2
    return config.end_lr + (lr - config.end_lr) * left
