"""All claims, in the order of the papers."""

from collections.abc import Iterable

from sincere.checks import did_you_mean
from sincere.claims.batch_sums import BATCH_SUMS
from sincere.claims.claim import Claim
from sincere.claims.class_sizes import CLASS_SIZES
from sincere.claims.confusions import CONFUSIONS
from sincere.claims.cost import COST
from sincere.claims.encoder_share import ENCODER_SHARE
from sincere.claims.gradients import GRADIENTS
from sincere.claims.graf_closeness import GRAF_CLOSENESS
from sincere.claims.graf_errors import GRAF_ERRORS
from sincere.claims.identities import IDENTITIES
from sincere.claims.information import INFORMATION, OPEN_INFORMATION
from sincere.claims.likelihood import LIKELIHOOD
from sincere.claims.many_labels import MANY_LABELS
from sincere.claims.open_optimum import OPEN_OPTIMUM
from sincere.claims.optimum import OPTIMUM
from sincere.claims.other_modalities import OTHER_MODALITIES
from sincere.claims.projection_head import PROJECTION_HEAD
from sincere.claims.random_labels import RANDOM_LABELS
from sincere.claims.set_loss import SET_LOSS
from sincere.claims.sincere_accuracy import SINCERE_ACCURACY
from sincere.claims.sincere_losses import SINCERE_LOSSES
from sincere.claims.supcon_training import SUPCON_TRAINING
from sincere.claims.target_and_noise import TARGET_AND_NOISE
from sincere.errors import OptionError

CLAIMS: tuple[Claim, ...] = tuple(
    sorted(
        (
            *SINCERE_LOSSES,
            *TARGET_AND_NOISE,
            *SINCERE_ACCURACY,
            *CONFUSIONS,
            *SUPCON_TRAINING,
            *OTHER_MODALITIES,
            *MANY_LABELS,
            *SET_LOSS,
            *GRAF_ERRORS,
            *GRAF_CLOSENESS,
            *GRADIENTS,
            *IDENTITIES,
            *INFORMATION,
            *OPEN_INFORMATION,
            *LIKELIHOOD,
            *OPTIMUM,
            *BATCH_SUMS,
            *RANDOM_LABELS,
            *CLASS_SIZES,
            *OPEN_OPTIMUM,
            *PROJECTION_HEAD,
            *COST,
            *ENCODER_SHARE,
        ),
        key=lambda claim: claim.number,
    )
)


def find_claim(name: str) -> Claim:
    """By number or by name."""
    for claim in CLAIMS:
        if name in (claim.name, str(claim.number)):
            return claim
    hint = did_you_mean(name, [claim.name for claim in CLAIMS])
    raise OptionError(f"unknown claim {name!r}.{hint} `sincere reproduce` lists all {len(CLAIMS)}.")


def check_known(data: Iterable[str]) -> None:
    """Refuse a data set that no claim reads: one that is misspelt would be left out without a word."""
    known = list(dict.fromkeys(needed for claim in CLAIMS for needed in claim.needs))
    for name in data:
        if name not in known:
            raise OptionError(
                f"claims read {', '.join(known)}: got data by the name of {name!r}.{did_you_mean(name, known)}"
            )
