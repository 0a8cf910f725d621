"""Do the class means form a regular simplex? There SupCon and SINCERE have their minimum, and cross-entropy too."""

import torch

from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.geometry.directions import cells, check_not_empty, class_means, cosines_across, spread
from sincere.geometry.record import SimplexConditions
from sincere.losses.similarity import unit_rows
from sincere.nearest.precision import full_precision


@full_precision()
def simplex_conditions(found: EmbeddingSet) -> SimplexConditions:
    """S1 to S3 of Graf et al. for the class means ζ, and how far they are from it.

    Source: Graf, Hofer, Niethammer, Kwitt 2021, arXiv:2102.08817, Definition 1 and Theorem 2: S1 the means average to
    zero, S2 they have one norm, S3 one pairwise distance. Their simplex lies around the origin, so the cosines are of
    the means as they are; those of centred means are NC2's (`neural_collapse`). Classes without samples are left out,
    and K counts the others.
    """
    check_not_empty(found)
    names, labels = found.class_names, found.labels
    means = class_means(found.embeddings, labels, classes=len(names))
    present = torch.bincount(labels, minlength=len(names)) > 0
    here = means[present]
    k = here.shape[0]
    cosines = cosines_across(means.nan_to_num()).masked_fill(~(present.unsqueeze(1) & present), torch.nan)
    above = torch.triu_indices(k, k, offset=1, device=cosines.device)
    pairs = cosines[present][:, present][above[0], above[1]]
    target = -1 / (k - 1) if k > 1 else None
    deviations = (pairs - target).abs() if target is not None else pairs
    # Σ_i cos(z_i, ζ) = Σ_i z_i · ζ/‖ζ‖ = n_c ‖ζ‖
    norms = here.norm(dim=1)
    sizes = torch.bincount(labels, minlength=len(names))[present]
    not_zero = (unit_rows(found.embeddings).square().sum(dim=1) > 0).sum()
    return SimplexConditions(
        class_names=names,
        s1=float(here.mean(dim=0).norm()),
        s2=spread(norms),
        s3=spread(torch.pdist(here)) if k > 1 else None,
        cosines=cells(cosines),
        target=target,
        mean_cosine=float(pairs.mean()) if k > 1 else None,
        mean_deviation=float(deviations.mean()) if k > 1 else None,
        largest_deviation=float(deviations.max()) if k > 1 else None,
        within_collapse=float((sizes * norms).sum() / not_zero) if int(not_zero) else None,
        fits=k <= found.embeddings.shape[1] + 1,
    )
