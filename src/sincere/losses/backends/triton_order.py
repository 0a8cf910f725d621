"""The kernels that put normalised rows into class order, in one launch or two.

`place_ptr` holds five rows of integers: the caller's row, start and end of its class, its own place; then how many take
part and how many programs of the next kernel are done.
"""

import triton
import triton.language as tl

from sincere.losses.backends.triton_tiles import LOG2E, in_precision, to_tf32, value_of

LAST = tl.constexpr(9223372036854775807)  # the key of rows that take no part: behind all others


@triton.jit
def class_keys(label_ptr, samples, views, ignore, mask, KEEP_IGNORED: tl.constexpr):
    """The labels by which rows are sorted; unlabelled ones come last unless they serve as negatives.

    No class is named like unlabelled rows, so a class that is named like the last key can have their name instead.
    """
    label = tl.load(label_ptr + samples // views, mask=mask, other=0).to(tl.int64)
    if not KEEP_IGNORED:
        label = tl.where(label == ignore, LAST, tl.where(label == LAST, ignore, label))
    return tl.where(mask, label, LAST)


@triton.jit
def are_taking_part(key, mask, KEEP_IGNORED: tl.constexpr):
    """Which rows do; where all are kept, the last key is a class like any other."""
    if KEEP_IGNORED:
        return mask
    return mask & (key != LAST)


@triton.jit
def store_row(
    x_ptr, x_stride, source, place, mask, rows_ptr, inverse_ptr, scale, dim,
    D: tl.constexpr, WIDE: tl.constexpr, COSINE: tl.constexpr, TF32: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Rows `source` of the embeddings, normalised and scaled, at `place` in class order; zeros where masked, that is
    for rows that take no part, whatever they hold.

    Dividing by the largest entry first keeps norms from over- or underflowing; a zero row stays zero.
    """
    dims = tl.arange(0, WIDE)
    x = tl.load(
        x_ptr + source.to(tl.int64)[:, None] * x_stride + dims[None, :],
        mask=mask[:, None] & (dims < dim)[None, :],
        other=0.0,
    ).to(tl.float32)
    inverse = tl.full([place.shape[0]], 1.0, tl.float32)
    if COSINE:
        largest = tl.max(tl.abs(x), axis=1)
        largest = tl.where(largest > 0, largest, 1.0)
        x = x / largest[:, None]
        squared = tl.sum(x * x, axis=1)
        length = tl.where(squared > 0, tl.rsqrt(tl.where(squared > 0, squared, 1.0)), 0.0)
        x = x * length[:, None]
        inverse = length / largest
    target = rows_ptr + place.to(tl.int64)[:, None] * D + dims[None, :]
    x = x * scale
    if TF32:
        x = to_tf32(x)
    tl.store(target, in_precision(x, rows_ptr, INTERPRETED), mask=(dims < D)[None, :])
    tl.store(inverse_ptr + place, inverse)


@triton.jit
def store_places(place_ptr, size, place, source, start, end, takes_part):
    """One below the other: the caller's row, start and end of its class, its own place."""
    tl.store(place_ptr + place, source)
    tl.store(place_ptr + size + place, tl.where(takes_part, start, 0))
    tl.store(place_ptr + 2 * size + place, tl.where(takes_part, end, 0))
    tl.store(place_ptr + 3 * size + place, place)


@triton.jit
def place_kernel(
    x_ptr, x_stride, label_ptr, views, ignore, temperature,
    rows_ptr, number_ptr, place_ptr, size, n, dim,
    D: tl.constexpr, WIDE: tl.constexpr, BR: tl.constexpr, BK: tl.constexpr,
    KEEP_IGNORED: tl.constexpr, COSINE: tl.constexpr, LEARNED: tl.constexpr,
    TF32: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Class order by counting: a row's place is how many rows have a smaller label, or the same and come before it."""
    source = tl.program_id(0) * BR + tl.arange(0, BR)
    mask = source < n
    key = class_keys(label_ptr, source, views, ignore, mask, KEEP_IGNORED)
    less, same, before = tl.zeros([BR], tl.int32), tl.zeros([BR], tl.int32), tl.zeros([BR], tl.int32)
    usable = 0
    for first in range(0, n, BK):
        other = first + tl.arange(0, BK)
        other_key = class_keys(label_ptr, other, views, ignore, other < n, KEEP_IGNORED)
        equal = (other_key[None, :] == key[:, None]) & (other < n)[None, :]
        less += tl.sum((other_key[None, :] < key[:, None]).to(tl.int32), axis=1)
        same += tl.sum(equal.to(tl.int32), axis=1)
        before += tl.sum((equal & (other[None, :] < source[:, None])).to(tl.int32), axis=1)
        usable += tl.sum((other_key != LAST).to(tl.int32))
    place = tl.where(mask, less + before, source)
    takes_part = are_taking_part(key, mask, KEEP_IGNORED)
    store_places(place_ptr, size, place, tl.where(mask, source, 0), less, less + same, takes_part)
    if tl.program_id(0) == 0:
        tl.store(place_ptr + 4 * size, n if KEEP_IGNORED else usable)
        tl.store(place_ptr + 4 * size + 1, 0)
    scale = tl.sqrt(1.0 / value_of(temperature, LEARNED) * LOG2E)
    inverse_ptr = number_ptr + 7 * size
    store_row(
        x_ptr, x_stride, source, place, takes_part, rows_ptr, inverse_ptr, scale, dim, D, WIDE, COSINE, TF32,
        INTERPRETED,
    )  # fmt: skip


@triton.jit
def first_place(key_ptr, key, n, steps, OR_EQUAL: tl.constexpr):
    """How many of n sorted keys are below `key` (or equal to it), by bisection."""
    low = tl.zeros(key.shape, tl.int32)
    high = low + n
    for _ in range(steps):
        middle = (low + high) // 2
        found = tl.load(key_ptr + middle, mask=middle < n, other=LAST)
        right = found < key
        if OR_EQUAL:
            right = found <= key
        right = right & (low < high)
        low = tl.where(right, middle + 1, low)
        high = tl.where(right, high, tl.where(low < high, middle, high))
    return low


@triton.jit
def sorted_kernel(
    x_ptr, x_stride, key_ptr, sorted_order_ptr, temperature,
    rows_ptr, number_ptr, place_ptr, size, n, steps, dim,
    D: tl.constexpr, WIDE: tl.constexpr, BR: tl.constexpr, KEEP_IGNORED: tl.constexpr, COSINE: tl.constexpr,
    LEARNED: tl.constexpr, TF32: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """The same from keys that are sorted already: for batches where counting n² times would cost."""
    place = tl.program_id(0) * BR + tl.arange(0, BR)
    mask = place < n
    source = tl.load(sorted_order_ptr + place, mask=mask, other=0).to(tl.int32)
    key = tl.load(key_ptr + place, mask=mask, other=LAST)
    takes_part = are_taking_part(key, mask, KEEP_IGNORED)
    start = first_place(key_ptr, key, n, steps, False)
    end = first_place(key_ptr, key, n, steps, True)
    store_places(place_ptr, size, place, source, start, end, takes_part)
    if tl.program_id(0) == 0:
        usable = tl.max(first_place(key_ptr, tl.full([BR], LAST, tl.int64), n, steps, False))
        tl.store(place_ptr + 4 * size, n if KEEP_IGNORED else usable)
        tl.store(place_ptr + 4 * size + 1, 0)
    scale = tl.sqrt(1.0 / value_of(temperature, LEARNED) * LOG2E)
    inverse_ptr = number_ptr + 7 * size
    store_row(
        x_ptr, x_stride, source, place, takes_part, rows_ptr, inverse_ptr, scale, dim, D, WIDE, COSINE, TF32,
        INTERPRETED,
    )  # fmt: skip


@triton.jit
def chunk_kernel(
    label_ptr, key_ptr, source_ptr, views, ignore, n,
    CHUNK: tl.constexpr, KEEP_IGNORED: tl.constexpr,
):  # fmt: skip
    """Sorts every CHUNK of rows by itself, by counting; `merge_kernel` does the rest."""
    first = tl.program_id(0) * CHUNK
    source = first + tl.arange(0, CHUNK)
    key = class_keys(label_ptr, source, views, ignore, source < n, KEEP_IGNORED)
    rank = tl.zeros([CHUNK], tl.int32)
    for part in range(0, CHUNK, 32):
        other = first + part + tl.arange(0, 32)
        other_key = class_keys(label_ptr, other, views, ignore, other < n, KEEP_IGNORED)[None, :]
        ahead = (other_key < key[:, None]) | ((other_key == key[:, None]) & (other[None, :] < source[:, None]))
        rank += tl.sum(ahead.to(tl.int32), axis=1)
    tl.store(key_ptr + first + rank, key)
    tl.store(source_ptr + first + rank, source)


@triton.jit
def first_in_chunks(key_ptr, chunk, key, inside, CHUNK: tl.constexpr, OR_EQUAL: tl.constexpr):
    """How many keys of each sorted chunk are below each key (or equal to it): (keys, chunks), by bisection."""
    low = tl.zeros([key.shape[0], chunk.shape[0]], tl.int32)
    step = CHUNK
    while step > 0:
        at = low + step - 1
        found = tl.load(key_ptr + chunk[None, :] * CHUNK + at, mask=inside[None, :] & (at < CHUNK), other=LAST)
        right = found < key[:, None]
        if OR_EQUAL:
            right = found <= key[:, None]
        low = tl.where(right & inside[None, :] & (at < CHUNK), low + step, low)
        step = step // 2
    return low


@triton.jit
def merge_kernel(
    x_ptr, x_stride, key_ptr, source_ptr, temperature,
    rows_ptr, number_ptr, place_ptr, size, n, chunks, dim,
    D: tl.constexpr, WIDE: tl.constexpr, BR: tl.constexpr, CHUNK: tl.constexpr, BC: tl.constexpr,
    KEEP_IGNORED: tl.constexpr, COSINE: tl.constexpr, LEARNED: tl.constexpr, TF32: tl.constexpr,
    INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Class order from sorted chunks: a row's place is what every chunk has before it."""
    at = tl.program_id(0) * BR + tl.arange(0, BR)
    key, source = tl.load(key_ptr + at), tl.load(source_ptr + at)
    own = at // CHUNK
    start, end, earlier = tl.zeros([BR], tl.int32), tl.zeros([BR], tl.int32), tl.zeros([BR], tl.int32)
    own_start, usable = tl.zeros([BR], tl.int32), tl.zeros([1], tl.int32)
    for first in range(0, chunks, BC):
        chunk = first + tl.arange(0, BC)
        below = first_in_chunks(key_ptr, chunk, key, chunk < chunks, CHUNK, False)
        up_to = first_in_chunks(key_ptr, chunk, key, chunk < chunks, CHUNK, True)
        start += tl.sum(below, axis=1)
        end += tl.sum(up_to, axis=1)
        earlier += tl.sum(tl.where(chunk[None, :] < own[:, None], up_to - below, 0), axis=1)
        own_start += tl.sum(tl.where(chunk[None, :] == own[:, None], below, 0), axis=1)
        last = tl.full([1], LAST, tl.int64)
        usable += tl.sum(first_in_chunks(key_ptr, chunk, last, chunk < chunks, CHUNK, False), axis=1)
    place = start + earlier + at % CHUNK - own_start
    mask = source < n
    takes_part = are_taking_part(key, mask, KEEP_IGNORED)
    end = tl.minimum(end, n)  # behind the last class stands what fills the last chunk
    store_places(place_ptr, size, place, tl.where(mask, source, 0), start, end, takes_part)
    if tl.program_id(0) == 0:
        if KEEP_IGNORED:
            usable = tl.zeros([1], tl.int32) + n
        tl.store(place_ptr + 4 * size + tl.arange(0, 1), usable)
        tl.store(place_ptr + 4 * size + 1, 0)
    scale = tl.sqrt(1.0 / value_of(temperature, LEARNED) * LOG2E)
    inverse_ptr = number_ptr + 7 * size
    store_row(
        x_ptr, x_stride, source, place, takes_part, rows_ptr, inverse_ptr, scale, dim, D, WIDE, COSINE, TF32,
        INTERPRETED,
    )  # fmt: skip
