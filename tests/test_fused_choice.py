"""Who gets the fused kernels, and which backend takes a derivative that they do not have."""

import pytest
import torch
from torch.autograd import forward_ad

import sincere.functional as SF
from kernel_results import DEVICE, needs_kernels
from sincere.losses.backends import select
from sincere.losses.options import Settings

Z, LABELS = torch.linspace(0, 40, 48).sin().view(12, 4), torch.arange(12) // 2 % 3
ASKED_FOR = Settings(backend="triton")
# torch's own, of its first dual tensor
NO_WARNING_OF_TORCH = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")


@needs_kernels
def test_who_gets_kernels():
    """Whole numbers of every size as labels, up to 1,024 dimensions; not labels elsewhere. On a CPU only if asked."""
    pytest.importorskip("triton")
    z, labels = Z.to(DEVICE), LABELS.to(DEVICE)
    for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        assert select.kernels_take_whole_loss(z, labels.to(dtype), ASKED_FOR)
    assert select.kernels_take_whole_loss(z.repeat(1, 256), labels, ASKED_FOR)
    assert not select.kernels_take_whole_loss(z.repeat(1, 257), labels, ASKED_FOR)
    assert not select.kernels_take_whole_loss(z, labels.to("meta"), ASKED_FOR)
    assert not select.kernels_take_whole_loss(Z, LABELS, Settings())


@needs_kernels
def test_every_gpu_is_asked_for_its_own_generation(monkeypatch):
    """From compute capability 8.0 on; asked once, but of every GPU."""
    pytest.importorskip("triton")
    generations, asked = {0: (7, 5), 1: (8, 0), 2: (9, 0)}, []
    monkeypatch.setattr(select, "CAPABILITIES", {})
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: asked.append(index) or generations[index])
    for _ in range(2):
        assert [select.runs_kernels(torch.device("cuda", index), False) for index in range(3)] == [False, True, True]
    assert asked == [0, 1, 2]
    assert not select.runs_kernels(torch.device("meta"), True)


def slope_of(call, z, direction):
    z = z.clone().requires_grad_()
    return (torch.autograd.grad(call(z), z)[0] * direction).sum()


@NO_WARNING_OF_TORCH
@pytest.mark.parametrize("of", ["embeddings", "contrasts"])
def test_dual_tensors_go_where_forward_mode_is(of, monkeypatch):
    """Without torch.func, a tangent is all that tells; the tensors need no gradient."""
    monkeypatch.setattr(select, "SMALL_ON_CPU", 4)
    z, other = Z.double(), Z.double().flip(1) + 0.3
    direction = torch.cos(7 * z)

    def loss(rows, backend="auto"):
        given = (rows, LABELS, other, LABELS) if of == "embeddings" else (other, LABELS, rows, LABELS)
        return SF.supcon(*given, backend=backend)

    with forward_ad.dual_level():
        found = forward_ad.unpack_dual(loss(forward_ad.make_dual(z, direction))).tangent
    torch.testing.assert_close(found, slope_of(lambda rows: loss(rows, "dense"), z, direction))


@needs_kernels
@NO_WARNING_OF_TORCH
def test_kernels_refuse_dual_tensors_in_words():
    pytest.importorskip("triton")
    z, labels = Z.to(DEVICE), LABELS.to(DEVICE)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(z, z)
        assert not select.kernels_take_whole_loss(dual, labels, ASKED_FOR)
        with pytest.raises(RuntimeError, match='Pass backend="dense"'):
            SF.sincere(dual, labels, backend="triton")


def test_problems_may_be_stacked_along_any_dimension():
    """Labels arrive as they were stacked, and embeddings as normalising leaves them."""
    z = torch.stack([Z, Z.flip(0), Z.cos()], dim=1).double()
    labels = torch.stack([LABELS, LABELS.flip(0), LABELS.roll(1)], dim=1)

    def loss(rows, labels, backend="tiled"):
        return SF.sincere(rows, labels, backend=backend)

    expected = torch.stack([loss(z[:, at], labels[:, at], "dense") for at in range(3)])
    torch.testing.assert_close(torch.func.vmap(loss, in_dims=1)(z, labels), expected)
