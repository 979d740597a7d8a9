"""headwise.attention against the formula in NumPy."""

import numpy as np
import pytest

import headwise as hw

RNG = np.random.default_rng(1)


def draw(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def reference(q, k, v, *, gates=None, causal=False, window=(None, None), lengths=None, scale=None, softcap=0.0, bias=None,
              sinks=None, alibi_slopes=None):
    batch, heads, rows, width = q.shape
    keys = k.shape[2]
    k, v = (np.repeat(x.astype(np.float64), heads // x.shape[1], axis=1) for x in (k, v))
    scores = (q.astype(np.float64) @ k.swapaxes(2, 3)) * (width**-0.5 if scale is None else scale)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    offset = np.arange(keys)[None] - (np.arange(rows) + keys - rows)[:, None]
    if bias is not None:
        scores = scores + bias
    if alibi_slopes is not None:
        scores = scores - np.asarray(alibi_slopes)[:, None, None] * np.abs(offset)
    seen = np.ones((batch, 1, rows, keys), bool)
    if causal:
        seen &= offset <= 0
    left, right = window
    if left is not None:
        seen &= offset >= -left
    if right is not None:
        seen &= offset <= right
    if lengths is not None:
        seen &= (np.arange(keys) < np.asarray(lengths)[:, None])[:, None, None]
    scores = np.where(seen, scores, -np.inf)
    extra = np.zeros(heads) if sinks is None else np.exp(np.asarray(sinks, np.float64))
    exp = np.exp(scores)
    weights = exp / (exp.sum(-1, keepdims=True) + extra[:, None, None])
    out = weights @ v
    if gates is not None:
        out = out * np.atleast_2d(gates)[:, :, None, None]
    return weights, out


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"causal": True},
        {"causal": True, "window": (3, 0)},
        {"window": (2, 5)},
        {"lengths": [7, 11]},
        {"scale": 0.3, "softcap": 2.0},
        {"bias": draw(4, 9, 11)},
        {"bias": draw(2, 4, 9, 11), "causal": True},
        {"sinks": [0.5, -1.0, 3.0, 0.0]},
        {"alibi_slopes": [0.5, 0.25, 0.125, 0.0625]},
        {"gates": [1.0, 0.0, -0.5, 2.0]},
        {"gates": draw(2, 4)},
    ],
)
def test_equals_the_formula(options):
    q, k, v = draw(2, 4, 9, 8), draw(2, 2, 11, 8), draw(2, 2, 11, 5)
    weights, expected = reference(q, k, v, **options)
    out, statistics = hw.attention(q, k, v, observe=True, **options)
    assert out.shape == (2, 4, 9, 5)
    np.testing.assert_allclose(out, expected, atol=2e-6)
    np.testing.assert_allclose(hw.attention(q, k, v, **options), out, atol=0)
    entropy = -(weights * np.log(np.where(weights > 0, weights, 1))).sum(-1)
    np.testing.assert_allclose(statistics["entropy"], entropy.mean((0, 2)), atol=1e-5)
    np.testing.assert_allclose(statistics["confidence"], weights.max(-1).mean((0, 2)), atol=1e-5)
    assert (statistics.rows("entropy") == 18).all()
    options.pop("gates", None)
    np.testing.assert_allclose(hw.attention_maps(q, k, **options), weights, atol=1e-6)


def test_fewer_dimensions_and_other_layouts():
    q, k, v = draw(3, 5, 4), draw(3, 5, 4), draw(3, 5, 4)
    out = hw.attention(q, k, v, causal=True)
    assert out.shape == (3, 5, 4)
    spread = np.zeros((3, 5, 8), np.float32)[..., ::2]
    spread[:] = q
    np.testing.assert_array_equal(hw.attention(spread, k, v, causal=True), out)
    np.testing.assert_array_equal(hw.attention(q[None, None], k[None, None], v[None, None], causal=True)[0, 0], out)


def test_maps_have_the_shape_of_the_arrays():
    q, k = draw(3, 4, 5, 6), draw(3, 2, 7, 6)
    maps = hw.attention_maps(q, k)
    assert maps.shape == (3, 4, 5, 7)
    np.testing.assert_array_equal(hw.attention_maps(q[1], k[1]), maps[1])
    np.testing.assert_array_equal(hw.attention_maps(q[:, None], k[:, None]), maps[:, None])
    assert hw.attention_maps(q[:, :, :0], k).shape == (3, 4, 0, 7)


def test_statistics_add_up():
    parts = [[draw(2, 3, 6, 4) for _ in "qkv"] for _ in range(2)]
    total = hw.HeadStatistics()
    for part in parts:
        total += hw.attention(*part, observe=True)[1]
    whole = hw.attention(*(np.concatenate(x) for x in zip(*parts)), observe=True)[1]
    for name in whole:
        np.testing.assert_allclose(total[name], whole[name], rtol=1e-12)
    assert np.isnan(total["mass_sink"]).all()


def test_errors_name_what_is_wrong():
    q = draw(2, 4, 9, 8)
    with pytest.raises(hw.Error) as caught:
        hw.attention(q, draw(2, 3, 9, 8), draw(2, 3, 9, 8))
    assert "do not divide" in caught.value.what
    assert caught.value.got == "4 query heads, 3 key/value heads"
    assert isinstance(caught.value, ValueError)
    with pytest.raises(hw.Error, match="shapes of q, k and v"):
        hw.attention(q, draw(1, 4, 9, 8), draw(1, 4, 9, 8))
    with pytest.raises(hw.Error, match="too few dimensions"):
        hw.attention(draw(9, 8), draw(9, 8), draw(9, 8))
    with pytest.raises(hw.Error, match="sinks"):
        hw.attention(q, q, q, sinks=[1.0])


def test_an_error_can_be_pickled():
    import pickle

    error = pickle.loads(pickle.dumps(hw.Error("what", "where", "got", "expected", "hint")))
    assert (error.what, error.where, error.got, error.expected, error.hint) == ("what", "where", "got", "expected", "hint")
    assert str(error) == "what\n  where: where\n  got: got\n  expected: expected\n  hint: hint"


def test_threads_give_the_same_bits():
    before = hw.threads()
    q, k, v = draw(4, 8, 50, 16), draw(4, 8, 50, 16), draw(4, 8, 50, 16)
    try:
        hw.set_threads(1)
        one = hw.attention(q, k, v, causal=True)
        hw.set_threads(2)
        np.testing.assert_array_equal(hw.attention(q, k, v, causal=True), one)
    finally:
        hw.set_threads(before)
    with pytest.raises(hw.Error):
        hw.set_threads(0)


def test_a_forked_process_computes():
    import multiprocessing

    q = draw(2, 4, 30, 8)
    expected = hw.attention(q, q, q)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for out in pool.map(_square, [q, q]):
            np.testing.assert_array_equal(out, expected)


def _square(q):
    return hw.attention(q, q, q)
