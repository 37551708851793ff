import subprocess

import numpy as np
import pytest

from scurry.export import LAYOUTS, to_c
from scurry.export.c.selftest import make_probes


def count_mismatches(folder) -> int:
    """Compile the self-test and return what it returns."""
    (folder / "main.c").write_text('#include "model_selftest.h"\nint main(void) { return model_selftest(); }\n')
    subprocess.run(["cc", "-std=c99", "main.c", "model.c", "-o", "main"], cwd=folder, check=True)
    return subprocess.run([folder / "main"], check=False).returncode


@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_passes_until_a_label_is_changed(anyt, cancer, layout, tmp_path):
    to_c(anyt, tmp_path, layout=layout, X_cal=cancer[1])
    assert count_mismatches(tmp_path) == 0
    header = tmp_path / "model_selftest.h"
    before, labels = header.read_text().split(" labels[8][5] = {")
    changed = labels.replace("{ 0", "{ 2", 1) if "{ 0" in labels else labels.replace("{ 1", "{ 2", 1)
    header.write_text(f"{before} labels[8][5] = {{{changed}")
    assert count_mismatches(tmp_path) == 1


def test_probes_lie_on_and_next_to_thresholds(anyt, cancer):
    forest = anyt.forest
    probes = make_probes(forest, 400, rows=cancer[1])
    assert probes.dtype == np.float32
    assert np.isnan(probes).any()
    assert np.isinf(probes).any()
    feature = forest.feature[~forest.is_leaf][0]
    thresholds = forest.threshold[~forest.is_leaf & (forest.feature == feature)].astype(np.float32)
    near = [thresholds, *(np.nextafter(thresholds, np.float32(side)) for side in (-np.inf, np.inf))]
    for cells in near:
        assert np.isin(probes[:, feature], cells).any()
    assert np.isin(probes[:, feature], near).mean() > 0.5


def test_probes_repeat_and_can_be_finite(anyt, cancer):
    holes = np.where(cancer[1] > 20, np.nan, cancer[1])
    first, second = (make_probes(anyt.forest, 50, rows=holes, special=False, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert np.isfinite(first).all()
