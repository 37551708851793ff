"""The story of a compressed forest: how much smaller it is, and what that does to its answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scurry.errors import InputError
from scurry.forest import Forest
from scurry.formatting import format_bytes, format_number, format_percent, format_share
from scurry.predictor import Predictor
from scurry.promises import Certificate, SizeMeasurement
from scurry.report.markup import Axis, Chart
from scurry.report.story import Claim, Picture, Story, Table, TestRows, Tile, claim_promise, outcomes_of, tell_whole
from scurry.timing import Runner

_ALONE = (
    "The model that this forest was made of is not part of it, so nothing can be compared here; pass model= to compare "
    "with it."
)


def is_compressed(predictor: Predictor) -> bool:
    """Return whether a predictor evaluates all trees of a forest that `scurry.compress` made."""
    certificate = predictor.certificate
    return certificate is not None and isinstance(certificate.measured, SizeMeasurement)


def check_original(predictor: Predictor, model: Forest) -> None:
    """Raise an error if a compressed forest was made of another model than this one."""
    measured = None if predictor.certificate is None else predictor.certificate.measured
    if isinstance(measured, SizeMeasurement) and model.digest != measured.model:
        raise InputError(
            "model is not the one that this forest was made of, and its promise compares with that one; pass the model "
            "that scurry.compress was given",
            argument="model",
        )


def tell(predictor: Predictor, test: TestRows) -> Story:
    """Collect what there is to say about a compressed forest, with its promise measured on the test rows."""
    forest, certificate = predictor.forest, predictor.certificate
    assert certificate is not None
    measured = certificate.measured
    assert isinstance(measured, SizeMeasurement)
    story, is_alone = tell_whole(forest, test, certificate), test.forest is forest
    times = format_number(measured.full_bytes / measured.n_bytes)
    tiles = [
        Tile("packed file", format_bytes(measured.n_bytes), f"the model's: {format_bytes(measured.full_bytes)}"),
        Tile(
            "nodes",
            f"{forest.n_nodes:,}",
            f"{format_share(forest.n_nodes / measured.full_nodes)} of the model's {measured.full_nodes:,}",
        ),
        *story.tiles[1:],
    ]
    if not is_alone:
        change = test.format_value(test.measure_change(story.answers))
        tiles.append(Tile(test.change_name, change, f"on {len(test):,} test rows"))
    return replace(
        story,
        kind="Compressed forest",
        verdict=f"It is {times} times smaller than the model it was made of.",
        tiles=tiles,
        promise=certificate.statement() + (f" {_ALONE}" if is_alone else ""),
        claims=[] if is_alone else _claim(predictor, certificate, test, story),
        tests=certificate.tests,
        picture=_draw_path(measured, certificate),
        tables=[_tabulate_path(measured)],
        runners=[
            *([] if is_alone else [Runner("the original model, scurry", test.forest.predict)]),
            Runner("compressed forest, scurry", forest.predict),
        ],
    )


def _claim(predictor: Predictor, certificate: Certificate, test: TestRows, story: Story) -> list[Claim]:
    scores = None
    if predictor.forest.n_classes == 2 and predictor.forest.link == "logistic":
        scores = predictor.run(test.rows, None).scores
    outcomes = outcomes_of(test, story.answers, probabilities=story.probabilities, scores=scores)
    return [*claim_promise(certificate, outcomes), *test.claim_quality(story.answers)]


def _draw_path(measured: SizeMeasurement, certificate: Certificate) -> Picture | None:
    """Draw changed answers of all candidates against their sizes."""
    path = measured.path
    if len(path) < 2:
        return None
    sizes, changed = (np.array([getattr(point, name) for point in path], np.float64) for name in ("n_bytes", "changed"))
    highest = max(float(changed.max()), certificate.max_rate or 0.0) * 1.05
    chart = Chart(
        f"Share of changed answers of {len(path)} candidates against their sizes",
        Axis("bytes", 0, float(sizes.max()), format_bytes),
        Axis("changed answers", 0, highest or 1.0, format_percent),
    )
    chart.draw_line(sizes, changed, "main")
    chart.draw_dots(sizes, changed, "large")
    if certificate.max_rate is not None:
        chart.draw_guide(certificate.max_rate, "promised")
    chart.draw_marker(measured.n_bytes, measured.changed, "chosen")
    return Picture(
        "Candidates", chart, [], "Measured on the calibration rows. The circle is the forest that was chosen."
    )


def _tabulate_path(measured: SizeMeasurement) -> Table:
    has_labels = all(point.accuracy is not None for point in measured.path)
    header = ["Candidate", "Nodes", "Trees", "Bytes", "Changed", *(["Accuracy"] if has_labels else []), "Certified"]
    rows = [
        [
            _name(point.node_share, point.split_bits),
            f"{point.n_nodes:,}",
            f"{point.n_trees:,}",
            format_bytes(point.n_bytes),
            format_share(point.changed),
            *([format_share(point.accuracy)] if point.accuracy is not None and has_labels else []),
            "yes" if point.is_certified else "no",
        ]
        for point in measured.path
    ]
    return Table("Candidates on the calibration rows, from large to small", header, rows)


def _name(node_share: float, split_bits: int) -> str:
    if not split_bits:
        return "answers unchanged"
    share = "" if node_share == 1 else f"{format_number(100 * node_share)} % of nodes, "
    return f"{share}{2**split_bits:,} distinct splits"
