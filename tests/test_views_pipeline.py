"""What holds of all views: one generator decides, samples do not see each other, evaluation has no randomness."""

import json

import numpy as np
import pytest
import torch
from scipy import stats

from sincere.errors import InputError, OptionError
from sincere.views import (
    PRESETS,
    Flip,
    Hole,
    ResizedCrop,
    ShiftedCrop,
    StagedViews,
    Statistics,
    Views,
    build_views,
    default_views,
)

SHAPES = {"image": (3, 32, 30), "array": (7,), "text": (6, 4), "sound": (400,)}
CASES = [(kind, name) for kind, names in PRESETS.items() for name in names]


def inputs_of(kind, b=5, seed=0, shape=None):
    shape, generator = shape or SHAPES[kind], torch.Generator().manual_seed(seed)
    if kind == "image":
        return torch.randint(0, 256, (b, *shape), dtype=torch.uint8, generator=generator)
    if kind == "text":
        return torch.randint(1, 99, (b, *shape), dtype=torch.int32, generator=generator)
    return torch.rand(b, *shape, generator=generator) * 2 - 1


def views_of(kind, name, **changes):
    return build_views(name, kind=kind, statistics=Statistics.of(inputs_of(kind), kind=kind), **changes)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_every_preset(kind, name):
    views, inputs = views_of(kind, name), inputs_of(kind)
    before = torch.get_rng_state()
    made = views(inputs, count=3, generator=generator())
    assert made.shape == (5, 3, *SHAPES[kind])
    assert made.dtype == (torch.int32 if kind == "text" else torch.float32)
    assert made.isfinite().all()
    assert torch.equal(made, views(inputs, count=3, generator=generator()))
    assert torch.equal(before, torch.get_rng_state()), "the global generator is nobody's business here"
    if name == "none":
        assert torch.equal(made, views.plain(inputs).unsqueeze(1).expand_as(made))
    else:
        assert not torch.equal(made, views(inputs, count=3, generator=generator(1)))
        assert not torch.equal(made[:, 0], made[:, 1])


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_sample_does_not_see_its_neighbours(kind, name):
    views, inputs = views_of(kind, name), inputs_of(kind)
    numbers = views.draw(inputs, count=2, generator=generator())
    made = views.render(inputs, numbers)
    others = inputs_of(kind, seed=1)
    others[2] = inputs[2]
    torch.testing.assert_close(views.render(others, numbers)[2], made[2])
    torch.testing.assert_close(views.render(inputs[2:3], numbers[2:3])[0], made[2])


# "simclr" has every stage of "sincere", and blur.
@pytest.mark.parametrize(("kind", "name"), [("image", "simclr"), ("image", "digits"), ("sound", "sound")])
def test_views_after_the_draw_are_one_graph(kind, name):
    views, inputs = views_of(kind, name), inputs_of(kind)
    numbers = views.draw(inputs, count=2, generator=generator())
    whole = torch.compile(views.render, fullgraph=True, backend="eager")
    torch.testing.assert_close(whole(inputs, numbers), views.render(inputs, numbers))
    torch._dynamo.reset()


@pytest.mark.parametrize("name", PRESETS["image"])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 13, 17)])
def test_images_of_other_shapes(name, shape):
    inputs = inputs_of("image", b=1, shape=shape)
    views = build_views(name, kind="image", statistics=Statistics.of(inputs, kind="image"))
    made = views(inputs, count=1, generator=generator())
    assert made.shape == (1, 1, *shape)
    assert made.isfinite().all()


def test_two_views_share_no_choice():
    views = views_of("image", "sincere")
    numbers = views.draw(inputs_of("image", b=4000), count=2, generator=generator()).double()
    first, second = numbers[:, 0] - 0.5, numbers[:, 1] - 0.5
    correlation = (first * second).mean(dim=0) * 12
    assert correlation.abs().max() < 5 / 4000**0.5
    assert numbers.min() >= 0
    assert numbers.max() < 1


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(("name", "before"), [("sincere", 22), ("plain", 2)])
def test_turns_change_the_alternating_stage_and_nothing_else(name, before, count):
    """`before` numbers a view go to the stage ahead of the flip: crop or shift."""
    images = inputs_of("image", b=40)
    views = views_of("image", name, flip={"alternate": True})
    assert views.stages[1].name == "flip"
    plain = views.draw(images, count=count, generator=generator())
    assert torch.equal(views_of("image", name).draw(images, count=count, generator=generator()), plain)
    turns = torch.arange(40 * count).reshape(40, count) * 7 % 11
    taken = views.draw(images, count=count, generator=generator(), turns=turns)
    others = [place for place in range(plain.shape[2]) if place != before]
    assert torch.equal(taken[..., others], plain[..., others])
    assert torch.equal(taken[..., before] < 0.5, turns % 2 == 0)
    assert torch.equal(views_of("image", name).draw(images, count=count, generator=generator(), turns=turns), plain), (
        "where no stage alternates turns say nothing"
    )


def test_without_turns_an_alternating_flip_is_chance():
    images = inputs_of("image", b=2000, shape=(1, 2, 3))
    flips = {"kind": "image", "statistics": Statistics((0.5,), (0.25,)), "shift": False, "hole": False}
    made = build_views("plain", flip={"alternate": True}, **flips)(images, count=2, generator=generator())
    assert torch.equal(made, build_views("plain", **flips)(images, count=2, generator=generator()))
    plain = (images.double().numpy() / 255 - 0.5) / 0.25
    mirrored = np.abs(made.numpy() - np.flip(plain, axis=3)[:, None]).max(axis=(2, 3, 4)) < 1e-5
    same = np.abs(made.numpy() - plain[:, None]).max(axis=(2, 3, 4)) < 1e-5
    assert (mirrored | same).all()
    assert stats.binomtest(int(mirrored.sum()), 4000, 0.5).pvalue > 1e-3
    both = int((mirrored[:, 0] == mirrored[:, 1]).sum())
    assert stats.binomtest(both, 2000, 0.5).pvalue > 1e-3, "one side twice half of the time, which turns avoid"


def test_views_without_stages_take_turns_too():
    images = inputs_of("image")
    numbers = views_of("image", "none").draw(images, count=2, generator=generator(), turns=torch.zeros(5, 2).long())
    assert numbers.shape == (5, 2, 0)


def test_plain_scales_and_normalises():
    images = inputs_of("image")
    views = build_views("sincere", kind="image", statistics=Statistics.of(images, kind="image"))
    pixels = images.double().numpy() / 255
    expected = (pixels - pixels.mean((0, 2, 3), keepdims=True)) / pixels.std((0, 2, 3), keepdims=True)
    np.testing.assert_allclose(views.plain(images).numpy(), expected, atol=1e-5)
    arrays = inputs_of("array")
    views = build_views("array", kind="array", statistics=Statistics.of(arrays, kind="array"))
    expected = (arrays.double().numpy() - arrays.double().numpy().mean(0)) / arrays.double().numpy().std(0)
    np.testing.assert_allclose(views.plain(arrays).numpy(), expected, atol=1e-5)
    for kind in ("text", "sound"):
        assert torch.equal(views_of(kind, kind).plain(inputs_of(kind)), inputs_of(kind))


def test_a_size_of_their_own():
    views, images = views_of("image", "simclr", crop={"size": 12}), inputs_of("image")
    assert views(images, count=2, generator=generator()).shape == (5, 2, 3, 12, 12)
    plain = views.plain(images)
    expected = torch.nn.functional.interpolate(
        views_of("image", "none").plain(images), size=(12, 12), mode="bilinear", antialias=True
    )
    torch.testing.assert_close(plain, expected, atol=1e-4, rtol=0)


def test_a_hole_is_where_the_mean_is():
    views, images = views_of("image", "plain", shift=False, flip=False, hole={"pixels": 5}), inputs_of("image", b=300)
    made, plain = views(images, count=1, generator=generator())[:, 0], views.plain(images)
    hidden = (made == 0).all(dim=1) & (plain != 0).any(dim=1)
    assert (hidden.sum(dim=(1, 2)) == 25).all()
    assert torch.equal(torch.where(hidden.unsqueeze(1), 0.0, plain), made)
    rows = hidden.any(dim=2).float().argmax(dim=1)
    assert set(rows.tolist()) == set(range(32 - 5 + 1)), "the hole reaches every place, and no further"


# Side of the image, of the hole, and the farthest shift: 3/8 and 1/8, rounded down, as 12 and 4 are of 32; no more.
IN_PROPORTION = [(1, 0, 0), (2, 0, 0), (3, 1, 0), (4, 1, 0), (8, 3, 1), (12, 4, 1), (16, 6, 2), (31, 11, 3)]
IN_PROPORTION += [(32, 12, 4), (33, 12, 4), (96, 12, 4)]


@pytest.mark.parametrize(("side", "hole", "shift"), IN_PROPORTION)
@pytest.mark.parametrize("name", ["plain", "trivial"])
def test_hole_and_shift_follow_the_size_of_small_images(name, side, hole, shift):
    """Seen in the views themselves; the longer side does not count."""
    images = inputs_of("image", b=200, shape=(3, side, side + 5))
    others = {stage.name: False for stage in PRESETS["image"][name] if stage.name not in ("shift", "hole")}
    holes = views_of("image", name, shift=False, **others)
    made, plain = holes(images, count=1, generator=generator())[:, 0], holes.plain(images)
    assert torch.equal(((made == 0) & (plain != 0)).all(dim=1).sum(dim=(1, 2)), torch.full((200,), hole**2))
    # Every pixel says in its colours where it was.
    rows, columns = torch.meshgrid(torch.arange(side), torch.arange(side + 5), indexing="ij")
    places = torch.stack([rows, columns, rows]).to(torch.uint8).expand(200, -1, -1, -1)
    unscaled = Statistics((0.0,) * 3, (1.0,) * 3)
    moves = build_views(name, kind="image", statistics=unscaled, hole=False, **others)
    came = moves(places, count=1, generator=generator())[:, 0, :2] * 255
    # In the middle nothing is mirrored: as far as it came, it was moved.
    moved = (came - places[:, :2])[:, :, side // 2, (side + 5) // 2].round()
    assert set(moved[:, 1].tolist()) == set(range(-shift, shift + 1))
    assert set(moved[:, 0].tolist()) == set(range(-shift, shift + 1))


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 33, 40), (3, 96, 64)])
@pytest.mark.parametrize("name", ["plain", "trivial"])
def test_images_from_32_pixels_on_have_a_hole_of_12_and_move_by_4(name, shape):
    images = inputs_of("image", shape=shape)
    statistics = Statistics.of(images, kind="image")
    given = build_views(name, kind="image", statistics=statistics, hole={"pixels": 12}, shift={"pixels": 4})
    chosen = build_views(name, kind="image", statistics=statistics)
    assert torch.equal(*(views(images, count=2, generator=generator()) for views in (given, chosen)))


def test_pixels_that_are_given_stay_what_they_are():
    """As the files of runs have them, null included."""
    views = views_of("image", "plain", **json.loads('{"hole": {"pixels": 12}, "shift": {"pixels": 4}}'))
    assert (views.stages[0], views.stages[2]) == (ShiftedCrop(4), Hole(12))
    assert views_of("image", "plain", **json.loads('{"hole": {"pixels": null}}')).stages[2] == Hole()
    images = inputs_of("image", b=50, shape=(3, 13, 13))
    views = build_views(
        "plain", kind="image", statistics=views.statistics, shift=False, flip=False, hole={"pixels": 12}
    )
    made, plain = views(images, count=1, generator=generator())[:, 0], views.plain(images)
    assert (((made == 0) & (plain != 0)).all(dim=1).sum(dim=(1, 2)) == 144).all()


def test_statistics_are_exact_and_survive_json():
    images = torch.zeros(2, 2, 4, 4, dtype=torch.uint8)
    images[:, 0, :2] = 255
    found = Statistics.of(images, kind="image")
    assert found == Statistics((0.5, 0.0), (0.5, 1.0))
    arrays = Statistics.of(torch.randn(9, 3), kind="array")
    assert Statistics.from_json(json.loads(json.dumps(arrays.to_json()))) == arrays
    assert Statistics.of(inputs_of("sound"), kind="sound") == Statistics()


def test_changes_of_single_stages():
    views = views_of("image", "sincere", flip=False, crop={"scale": [0.5, 1.0]})
    assert [stage.name for stage in views.stages] == ["crop", "jitter", "greyscale"]
    assert views.stages[0] == ResizedCrop(scale=(0.5, 1.0))
    assert PRESETS["image"]["sincere"][0] == ResizedCrop(scale=(0.2, 1.0)), "a preset stays what it is"


def test_presets_are_the_papers():
    crop, flip, jitter, greyscale = PRESETS["image"]["sincere"]
    assert (crop.scale, crop.ratio, flip.p, greyscale.p) == ((0.2, 1.0), (3 / 4, 4 / 3), 0.5, 0.2)
    assert (jitter.brightness, jitter.contrast, jitter.saturation, jitter.hue, jitter.p) == (0.4, 0.4, 0.4, 0.1, 0.8)
    assert PRESETS["image"]["supcon"] == PRESETS["image"]["sincere"]
    assert [stage.name for stage in PRESETS["image"]["plain"]] == ["shift", "flip", "hole"]
    assert PRESETS["image"]["plain"] == (ShiftedCrop(), Flip(0.5), Hole())
    assert "flip" not in [stage.name for stage in PRESETS["image"]["digits"]]


def test_defaults():
    assert default_views("image", (1, 8, 8)) == default_views("image", (1, 224, 224)) == "digits"
    assert default_views("image", (3, 8, 8)) == default_views("image", (3, 95, 200)) == "plain"
    assert default_views("image", (3, 96, 200)) == default_views("image", (3, 224, 224)) == "supcon"
    assert [default_views(kind, SHAPES[kind]) for kind in ("array", "text", "sound")] == ["array", "text", "sound"]


def test_the_protocol_is_met():
    def made_by(views: Views) -> torch.Size:
        return views(inputs_of("array"), count=2, generator=generator()).shape

    assert made_by(views_of("array", "array")) == (5, 2, 7)
    assert "FeatureMask(share=" in repr(views_of("array", "array"))


IMAGES, ARRAYS = views_of("image", "plain"), views_of("array", "array")


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: IMAGES.plain(torch.rand(2, 3, 32, 30)), InputError, ["uint8", "(b, c, h, w)", "float32"]),
        (lambda: IMAGES.plain(inputs_of("image")[0]), InputError, ["(b, c, h, w)", "(3, 32, 30)"]),
        (lambda: IMAGES.plain(inputs_of("image")[:, :1]), InputError, ["3 channels", "(5, 1, 32, 30)"]),
        (lambda: ARRAYS.plain(torch.rand(2, 8)), InputError, ["7 features", "(2, 8)"]),
        (lambda: ARRAYS.plain(torch.ones(2, 7, dtype=torch.int64)), InputError, ["floating-point", "int64"]),
        (lambda: views_of("text", "text").plain(torch.rand(2, 6, 4)), InputError, ["int32", "(b, words, pieces)"]),
        (lambda: IMAGES(inputs_of("image"), count=0, generator=generator()), OptionError, ["count", "at least 1"]),
        (
            lambda: views_of("image", "plain", hole={"pixels": 12})(
                inputs_of("image", shape=(3, 8, 8)), count=1, generator=generator()
            ),
            InputError,
            ["hole of 12 pixels", "8×8", "hole={'pixels': 3}", "hole=False"],
        ),
        (
            lambda: views_of("sound", "sound")(
                inputs_of("sound").to("meta"), count=1, generator=torch.Generator().manual_seed(0)
            ),
            InputError,
            ["generator", "meta", "cpu"],
        ),
        (lambda: views_of("image", "simsiam"), OptionError, ["'image'", "'sincere'", "'simsiam'"]),
        (lambda: views_of("array", "sincere"), OptionError, ["'array'", "'sincere'"]),
        (lambda: build_views("none", kind="video", statistics=Statistics()), OptionError, ["kind", "'video'"]),
        (lambda: views_of("image", "plain", jitter=False), OptionError, ["'shift', 'flip', 'hole'", "'jitter'"]),
        (lambda: views_of("image", "plain", hole={"size": 4}), OptionError, ["'hole'", "'pixels'", "size"]),
        (lambda: views_of("image", "plain", hole=True), OptionError, ["'hole'", "False to leave it out", "True"]),
        (lambda: Statistics((0.0,), (0.0,)), OptionError, ["std", "positive", "Use 1"]),
        (lambda: Statistics((0.0,), ()), OptionError, ["one length", "1 and 0"]),
        (lambda: Statistics.of(torch.rand(2, 3), kind="image"), InputError, ["uint8", "(2, 3)"]),
        (lambda: Statistics.of(torch.zeros(0, 3), kind="array"), InputError, ["at least one row", "(0, 3)"]),
        (lambda: Statistics.from_json({"mean": []}), InputError, ["'mean' and 'std'", "['mean']"]),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert all(word in str(caught.value) for word in words), caught.value


def test_stages_on_normalised_samples_come_last():
    stages = StagedViews((Hole(2), ResizedCrop()), kind="image", statistics=Statistics((0.5,), (0.2,))).stages
    assert [stage.name for stage in stages] == ["crop", "hole"]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_no_samples_have_no_views(kind, name):
    views, nothing = views_of(kind, name), inputs_of(kind)[:0]
    assert views(nothing, count=2, generator=generator()).shape == (0, 2, *SHAPES[kind])
    assert views.plain(nothing).shape == (0, *SHAPES[kind])


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("plain", {"hole": {"pixels": 2.5}}),
        ("plain", {"hole": {"pixels": True}}),
        ("plain", {"shift": {"pixels": 1.5}}),
        ("plain", {"flip": {"alternate": "no"}}),
        ("sincere", {"crop": {"size": 10.5}}),
        ("sincere", {"crop": {"scale": 0.5}}),
        ("sincere", {"crop": {"scale": None}}),
        ("sincere", {"crop": {"scale": ["a", "b"]}}),
        ("sincere", {"crop": {"scale": [True, True]}}),
        ("sincere", {"crop": {"ratio": [1, 10**400]}}),
        ("sincere", {"jitter": {"brightness": 10**400}}),
        ("simclr", {"blur": {"deviation": "ab"}}),
    ],
)
def test_options_of_a_wrong_type_are_refused_at_once(name, changes):
    (options,) = changes.values()
    (option,) = options
    with pytest.raises(OptionError, match=f"^{option} must be"):
        views_of("image", name, **changes)


def test_a_slip_of_the_pen_is_guessed():
    with pytest.raises(OptionError, match="Did you mean 'jitter'"):
        views_of("image", "sincere", jiter=False)
    with pytest.raises(OptionError, match="Did you mean 'scale'"):
        views_of("image", "sincere", crop={"scael": [0.2, 1.0]})


def test_a_small_unit_is_no_constant_and_a_constant_has_deviation_one():
    values = torch.randn(60, 1, generator=generator()) * 1e-13
    found = Statistics.of(values, kind="array")
    assert found.std[0] == pytest.approx(values.double().numpy().std(), rel=1e-9)
    plain = build_views("none", kind="array", statistics=found).plain(values)
    assert float(plain.std(correction=0)) == pytest.approx(1, rel=1e-5)
    for constant in (0.0, 0.1, 1e-13, 1e8 / 3, -7e20, 1e-44):
        assert Statistics.of(torch.full((99, 1), constant), kind="array").std == (1.0,)


def test_statistics_of_what_is_not_finite_are_refused():
    for bad in (torch.nan, torch.inf):
        with pytest.raises(InputError, match="arrays must be finite"):
            Statistics.of(torch.tensor([[1.0, bad], [2.0, 3.0]]), kind="array")
        with pytest.raises(OptionError, match="mean must be finite"):
            Statistics((bad,), (1.0,))


@pytest.mark.parametrize("scale", [1e-300, 1e-42, 1.0, 1e160, 1e307])
def test_statistics_of_numbers_of_any_size(scale):
    values = torch.randn(50, 3, dtype=torch.float64, generator=generator()) + 0.5
    found = Statistics.of(values * scale, kind="array")
    np.testing.assert_allclose(np.array(found.mean) / scale, values.numpy().mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(np.array(found.std) / scale, values.numpy().std(axis=0), rtol=1e-12)


@pytest.mark.parametrize(
    ("mean", "std"), [((1e200,), (1.0,)), ((0.0,), (1e-300,)), ((0.0,), (1e200,)), ((0.0,), (1e-42,))]
)
def test_views_refuse_statistics_that_float32_cannot_hold(mean, std):
    with pytest.raises(OptionError, match="views normalise in float32, which cannot hold this"):
        build_views("array", kind="array", statistics=Statistics(mean, std))


def test_a_kind_that_there_is_not_has_no_statistics():
    with pytest.raises(OptionError, match=r"kind must be one of 'image', 'array', 'text', 'sound': got 'images'"):
        Statistics.of(torch.zeros(2, 3, 4, 4, dtype=torch.uint8), kind="images")


@pytest.mark.parametrize(
    ("kind", "empty"),
    [
        ("image", torch.zeros(2, 3, 0, 4, dtype=torch.uint8)),
        ("array", torch.zeros(2, 0)),
        ("text", torch.zeros(2, 0, 3, dtype=torch.int32)),
        ("sound", torch.zeros(2, 0)),
    ],
)
def test_samples_with_nothing_in_them_are_refused(kind, empty):
    views = StagedViews(PRESETS[kind][{"image": "plain"}.get(kind, kind)], kind=kind, statistics=Statistics())
    for call in (lambda: views(empty, count=1, generator=generator()), lambda: views.plain(empty)):
        with pytest.raises(InputError, match="there is nothing in a sample to make views of"):
            call()


def test_holes_and_shifts_are_as_likely_anywhere():
    """Chi-square over all places; each of the two raises a false alarm once in 10,000 seeds, and the seed is fixed."""
    images = torch.arange(1, 1 + 9 * 11, dtype=torch.uint8).reshape(1, 1, 9, 11).expand(6000, 1, 9, 11)
    unscaled = Statistics((0.0,), (1.0,))
    made = build_views("plain", kind="image", statistics=unscaled, shift=False, flip=False, hole={"pixels": 4})
    hidden = made(images, count=1, generator=generator())[:, 0, 0] == 0
    tops, lefts = hidden.any(dim=2).int().argmax(dim=1), hidden.any(dim=1).int().argmax(dim=1)
    counts = torch.bincount(tops * 8 + lefts, minlength=48).numpy()
    assert len(counts) == 48, "6 × 8 places"
    assert stats.chisquare(counts).pvalue > 1e-4
    made = build_views("plain", kind="image", statistics=unscaled, hole=False, flip=False, shift={"pixels": 3})
    middle = (made(images, count=1, generator=generator())[:, 0, 0, 4, 5] * 255).round().long() - 1
    counts = torch.bincount((middle // 11 - 1) * 7 + middle % 11 - 2, minlength=49).numpy()
    assert len(counts) == 49, "7 × 7 shifts"
    assert stats.chisquare(counts).pvalue > 1e-4
