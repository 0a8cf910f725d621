"""Shared set-up of the tests."""

import os

import torch

# Must be set before the first kernel is decorated. With a GPU the kernels are compiled and run there.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

import pytest
from hypothesis import settings

# Several test processes share two cores; one thread each keeps them out of each other's way.
torch.set_num_threads(1)
# A slow machine must not turn a correct example red, and CI must see the same examples every time.
settings.register_profile("sincere", deadline=None, derandomize=True, max_examples=60, print_blob=False)
settings.load_profile("sincere")


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
