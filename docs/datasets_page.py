"""Write docs/datasets.md: the datasets that scurry knows by name, from its catalogue.

    python docs/datasets_page.py

A test makes the page again and compares.
"""

from pathlib import Path

from scurry import datasets

PAGE = """\
# Datasets

<!-- Written by docs/datasets_page.py. Do not edit by hand. -->

`scurry.datasets.load(name)` returns a dataset of the papers, or of the examples, as arrays:

```python
import scurry

data = scurry.datasets.load("thyroid_ann_cost")
print(data)
print(data.about)
```

`X` has the features, with categories as codes (`data.frame()` has them as values), and `y` the labels or values.
`split`, where there is one, says which rows the source trains and tests with; `extras` has columns that are no
features, such as the query of each row of a ranking; `feature_costs` and `group_costs` have what features cost
([how they are used](how-to/features.md)).

`adult` and `thyroid_ann_cost` come with scurry. Others are looked up in the folder that the environment variable
`SCURRY_DATA` names, then in a cache (`scurry.datasets.cache_folder()`), and are downloaded into it where the table
says from where. The rest is downloaded by hand: the error of `load` says from which address, and where to save it.
Many files are sorted by class: shuffle before you split.

{table}
"""


def make_page() -> str:
    """Return the page."""
    lines = [
        "| name | what is predicted | rows | features | answers | other columns | download |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, facts in datasets._catalogue().items():
        answers = facts.task if facts.task != "classification" else f"{len(facts.classes)} classes"
        cells = [
            f"`{name}`",
            facts.about,
            "" if facts.n_rows is None else f"{facts.n_rows:,}",
            f"{len(facts.features)}{', with prices' if facts.costs else ''}" if facts.features else "",
            answers if facts.features else "",
            ", ".join(f"`{column}`" for column in facts.other_columns),
            {"openml": "OpenML", "uci": "UCI", None: "by hand"}[facts.download],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return PAGE.format(table="\n".join(lines))


if __name__ == "__main__":
    (Path(__file__).parent / "datasets.md").write_text(make_page(), encoding="utf-8")
