"""Numbers that are text, as Python reads them."""

import numpy as np
import pytest

from scurry import _core


def test_numbers_are_rounded_as_by_python():
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 2**64, 5000, np.uint64).view(np.float64)
    words = [repr(float(number)) for number in numbers[np.isfinite(numbers)]]
    words += [f"{number:.17g}" for number in rng.normal(size=500)] + [
        f"{number:.25f}" for number in rng.normal(size=500)
    ]
    words += ["0", "-0", "1e400", "-1e400", "1e-400", "5e-324", "inf", "-inf", "007", "1E5", "1e+5"]
    found, counts = _core.read_numbers([" ".join(words), "", ",".join(words[:7]), "\n1\t2\r\n3 "])
    expected = np.array([float(word) for word in [*words, *words[:7], "1", "2", "3"]])
    np.testing.assert_array_equal(found.view(np.int64), expected.view(np.int64))
    assert counts.tolist() == [len(words), 0, 7, 3]
    assert np.isnan(_core.read_numbers(["nan"])[0]).all()


@pytest.mark.parametrize("text", ["1 x", "1.2.3", "--1", "1e", "0x1", "é"])
def test_what_is_no_number(text):
    with pytest.raises(ValueError, match="is no number"):
        _core.read_numbers(["1", text])
