"""Shared set-up of the tests."""

import os

# Several test processes share two cores; one thread each keeps them out of each other's way. It counts for torch, numpy
# and scikit-learn, here and in every process that a test starts, and must be set before they are imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from interpreter import replace_the_language_once_a_launch

# Must be set before the first kernel is decorated. With a GPU the kernels are compiled and run there.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
    replace_the_language_once_a_launch()

import pytest
from hypothesis import settings

import browsing

torch.set_num_threads(1)
# A slow machine must not turn a correct example red, and CI must see the same examples every time.
settings.register_profile("sincere", deadline=None, derandomize=True, max_examples=60, print_blob=False)
settings.load_profile("sincere")
# They take half a minute each. Begun last, one process would compile while the others have nothing left to do.
LONG = ("test_kernels_compile_without_a_gpu",)


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: getattr(item, "originalname", None) not in LONG)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture(params=["device", "dtype"])
def set_default(request):
    """Calls a function with another default; "meta", where tensors have no values, stands in for a GPU."""

    def call(function, *arguments, **options):
        try:
            if request.param == "device":
                torch.set_default_device("meta")
            else:
                torch.set_default_dtype(torch.float64)
            return function(*arguments, **options)
        finally:
            torch.set_default_device(None)
            torch.set_default_dtype(torch.float32)

    return call


@pytest.fixture(scope="module")
def browser():
    if browsing.CHROMIUM is None:
        if os.environ.get("SINCERE_NEEDS_BROWSER") == "1":
            pytest.fail("SINCERE_NEEDS_BROWSER=1, but there is no chromium on PATH")
        pytest.skip("no chromium on PATH; SINCERE_NEEDS_BROWSER=1 makes this a failure")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=browsing.CHROMIUM, args=browsing.ARGUMENTS)
        yield opened
        opened.close()
