"""The largest value of a channel, by itself and compiled in half precision, where the gradient of `amax` is 0/0."""

import shutil

import pytest
import torch

from sincere.encoders.pooling import largest_of_grid, largest_of_sequence

CASES = {
    "grid": (largest_of_grid, (2, 3), (8, 5, 6, 4)),
    "sequence": (largest_of_sequence, (1,), (8, 6, 5)),
}


@pytest.mark.parametrize("case", CASES)
def test_is_the_maximum_and_its_place_has_the_gradient(case):
    largest, dims, shape = CASES[case]
    values = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(largest(values), values.amax(dim=dims), rtol=0, atol=0)
    weights = torch.randn_like(largest(values))
    ours, plain = (
        torch.autograd.grad((weights * found).sum(), values)[0] for found in (largest(values), values.amax(dim=dims))
    )
    torch.testing.assert_close(ours, plain, rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # inductor's own imports
@pytest.mark.parametrize("case", CASES)
def test_compiled_in_half_precision(case):
    if shutil.which("c++") is None and shutil.which("g++") is None:
        pytest.skip("no C++ compiler on this machine, which torch.compile needs")
    largest, _, shape = CASES[case]
    inputs, weight = torch.randn(*shape[:-1], 7), torch.randn(7, shape[-1], requires_grad=True)

    def run(weight):
        with torch.autocast("cpu", torch.bfloat16):
            values = inputs @ weight
            return largest(values + 0.3 * values.relu()).float().square().mean()

    torch.compiler.reset()
    expected, gradient = (torch.autograd.grad(how(weight), weight)[0] for how in (run, torch.compile(run)))
    assert (gradient - expected).norm() <= 0.02 * expected.norm()
