"""The parts that the kernels are assembled from: loading, products, exponentials, masks of one tile.

Logits here are in base 2: t = s·log₂e, so that e^s = 2^t. BOUNDED promises |s| ≤ 32; then sums of e^s fit float32, and
so does a product of two (`pull_of_both`), and no maximum is needed. Otherwise a running maximum per row keeps every
exponent ≤ 0.
"""

import triton
import triton.language as tl

LN2 = tl.constexpr(0.6931471805599453)
LOG2E = tl.constexpr(1.4426950408889634)
# Above this many bits log₂(1 + 2^x) is x to float32's last digit; four such factors still fit float32.
LINEAR = tl.constexpr(30.0)


@triton.jit
def load_tile(ptr, first, dims, width: tl.constexpr, ROWS: tl.constexpr, UPCAST: tl.constexpr):
    """ROWS rows of a padded matrix, from `first` on. Only that scalar moves with a loop; the rest is set up once.

    The interpreter multiplies bfloat16 wrongly, so there the tile becomes float32.
    """
    start = ptr + tl.cast(first, tl.int64) * width
    tile = tl.load(start + tl.arange(0, ROWS)[:, None] * width + dims[None, :])
    if UPCAST:
        tile = tile.to(tl.float32)
    return tile


@triton.jit
def product(
    a_ptr, a, first_row, c_ptr, first_column,
    D: tl.constexpr, DK: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    PRECISION: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    """A tile of base-2 logits. Rows up to DK wide stay in registers (`a`); wider ones are read again, DK at a time."""
    dims = tl.arange(0, DK)
    if D == DK:
        t = tl.dot(a, tl.trans(load_tile(c_ptr, first_column, dims, D, BN, UPCAST)), input_precision=PRECISION)
    else:
        t = tl.zeros([BM, BN], dtype=tl.float32)
        for k in range(0, D, DK):
            part = load_tile(a_ptr, first_row, dims + k, D, BM, UPCAST)
            c = load_tile(c_ptr, first_column, dims + k, D, BN, UPCAST)
            t = tl.dot(part, tl.trans(c), t, input_precision=PRECISION)
    return t


@triton.jit
def class_places(place_ptr, stride, rows):
    """Where the rows' classes start and end among the columns, and where the rows themselves stand there."""
    first = place_ptr + stride + rows
    return tl.load(first), tl.load(first + stride), tl.load(first + 2 * stride)


@triton.jit
def class_range(start, end, count, BN: tl.constexpr):
    """Whole tiles of columns that may hold a positive of rows whose classes stand at [start, end).

    Padding and rows without a class have empty ranges, which must not widen the block's.
    """
    low = tl.min(tl.where(end > start, start, count))
    high = tl.max(tl.where(end > start, end, 0))
    low = tl.minimum(low, count) // BN * BN
    high = tl.maximum(tl.minimum(high, count), low)
    return low, tl.cdiv(high - low, BN) * BN + low


@triton.jit
def one_class_range(start, end, low, high, BN: tl.constexpr):
    """Whole tiles, between low and high, that are of one class with all of the rows; padding does not count.

    A row that takes part without a class on the other side has its empty range above 0: every tile holds negatives
    of it, so none is of one class.
    """
    last_start = tl.max(tl.where(end > start, start, 0))
    first_end = tl.min(tl.where(end > start, end, high))
    pure_low = tl.minimum(tl.maximum(tl.cdiv(last_start, BN) * BN, low), high)
    first_end = tl.where(tl.max(tl.where(end > start, 0, end)) > 0, 0, first_end)
    return pure_low, tl.maximum(tl.minimum(first_end // BN * BN, high), pure_low)


@triton.jit
def own_range(own, pure_low, pure_high, BN: tl.constexpr):
    """Whole tiles, between pure_low and pure_high, in which the rows themselves may stand; −1 stands nowhere."""
    first = tl.min(tl.where(own < 0, pure_high, own)) // BN * BN
    last = tl.max(own) // BN * BN + BN
    first = tl.minimum(tl.maximum(first, pure_low), pure_high)
    return first, tl.minimum(tl.maximum(last, first), pure_high)


@triton.jit
def jump(j, gap_start, gap_end):
    """j, moved behind the gap if it has reached it: a loop that leaves a range out."""
    return tl.where(j < gap_start, j, j + (gap_end - gap_start))


@triton.jit
def pair_masks(start, end, own, columns, count):
    """Positive and negative pairs of a tile; `own` is the column at which a row itself stands."""
    same = (columns[None, :] >= start[:, None]) & (columns[None, :] < end[:, None])
    return same & (columns[None, :] != own[:, None]), (same == 0) & (columns < count)[None, :]


@triton.jit
def add_exponentials(total, top, t, BOUNDED: tl.constexpr):
    """total · 2^top + Σ 2^t as a new (total, top); −inf entries of t count nothing."""
    if BOUNDED:
        return total + tl.sum(tl.exp2(t), axis=1), top
    higher = tl.maximum(top, tl.max(t, axis=1))
    safe = tl.where(higher == float("-inf"), 0.0, higher)
    return total * tl.exp2(top - safe) + tl.sum(tl.exp2(t - safe[:, None]), axis=1), higher


@triton.jit
def log2_total(total, top, BOUNDED: tl.constexpr):
    """log₂(total · 2^top); −inf where nothing was added. A total that is no number stays none."""
    empty = total == 0
    log2 = tl.log2(tl.where(empty, 1.0, total))
    if not BOUNDED:
        log2 += tl.where(top == float("-inf"), 0.0, top)
    return tl.where(empty, float("-inf"), log2)


@triton.jit
def halves(tile, BM: tl.constexpr, BN: tl.constexpr):
    """Left and right half of a tile; no number changes its thread."""
    return tl.split(tl.permute(tl.reshape(tile, [BM, 2, BN // 2]), (0, 2, 1)))


@triton.jit
def softplus_and_sigmoid_sums(x, BM: tl.constexpr, BN: tl.constexpr):
    """Σ log(1 + 2^x) and Σ 1/(1 + 2^−x) along the rows of a tile; −inf entries count nothing.

    With y = 2^x four numbers at a time share one logarithm and one division:
    Σ log(1 + y) = log(1 + q), q = Π(1 + y) − 1, and Σ y/(1 + y) = m/(1 + q). q is built up without its 1, so that small
    y keep their digits.
    """
    # Without a word on NaN the smaller of NaN and a number would be the number, and a broken network look whole.
    y = tl.exp2(tl.minimum(x, LINEAR, propagate_nan=tl.PropagateNan.ALL))
    left, right = halves(y, BM, BN)
    q = left + right + left * right
    m = q + left * right
    q_left, q_right = halves(q, BM, BN // 2)
    m_left, m_right = halves(m, BM, BN // 2)
    m = m_left * q_right + m_left + m_right * q_left + m_right
    q = q_left + q_right + q_left * q_right
    logs = tl.where(q < 1e-3, q * (1 - 0.5 * tl.minimum(q, 1.0)), tl.log2(1 + q) * LN2)
    beyond = (tl.sum(tl.maximum(x, LINEAR), axis=1) - LINEAR * BN) * LN2
    return tl.sum(logs, axis=1) + beyond, tl.sum(m / (1 + q), axis=1)


@triton.jit
def share_of_exponentials(t, e, coefficient, lse, BOUNDED: tl.constexpr):
    """coefficient · 2^(t − lse); where BOUNDED the coefficient already holds 2^(−lse) and e is 2^t."""
    if BOUNDED:
        return coefficient * e
    # A pair outside the sum that lse is of may exceed it; its result is masked, but must not be inf.
    return coefficient * tl.exp2(tl.minimum(t - lse, 0.0, propagate_nan=tl.PropagateNan.ALL))


@triton.jit
def sigmoid(x):
    """1/(1 + 2^−x), without overflow."""
    y = tl.exp2(-tl.abs(x))
    return tl.where(x >= 0, 1.0, y) / (1 + y)


@triton.jit
def value_of(number, IS_TENSOR: tl.constexpr):
    """A number, whether it came as such or in a tensor."""
    value = number
    if IS_TENSOR:
        value = tl.load(number).to(tl.float32)
    return value


@triton.jit
def to_tf32(x):
    """Float32 rounded to TF32's ten bits: tensor cores cut the others off, and what is cut off always shrinks.

    The NaN that GPUs make has all bits set but the sign: rounded up it would be −0, and a broken network look whole.
    """
    bits = x.to(tl.int32, bitcast=True)
    return tl.where(x != x, x, ((bits + 0x1000) & -0x2000).to(tl.float32, bitcast=True))


@triton.jit
def operand(x, like, PRECISION: tl.constexpr):
    """x as a factor of the next product, whose other one is `like`."""
    if PRECISION == "tf32":
        x = to_tf32(x)
    return x.to(like.dtype)


@triton.jit
def in_precision(x, ptr, INTERPRETED: tl.constexpr):
    """x in the precision of what `ptr` points at, to nearest; the interpreter would cut bfloat16 off, so by bits."""
    if INTERPRETED and ptr.dtype.element_ty == tl.bfloat16:
        bits = x.to(tl.int32, bitcast=True)
        x = (bits + 0x7FFF + ((bits >> 16) & 1)).to(tl.float32, bitcast=True)
    return x.to(ptr.dtype.element_ty)
