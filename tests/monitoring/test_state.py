"""What a state says."""

import json
import math

import pytest

import scurry
from scurry.errors import InputError


def watch_all(fast, rows, **options):
    watch = scurry.watch(fast, random_state=0, **options)
    watch.predict(rows)
    return watch


def test_a_window_is_about_the_latest_rows(fast, rows, drifted):
    watch = scurry.watch(fast, share=1.0, window=1000, random_state=0, on_alarm=lambda state: None)
    watch.predict(rows)
    watch.predict(drifted)
    state = watch.state
    changed = fast.predict(drifted) != fast.forest.predict(drifted)
    assert 1000 <= state.parts[0].n_shadow < 1000 + 256
    assert state.rate == pytest.approx(changed[-state.parts[0].n_shadow :].mean())
    assert state.lower < state.rate < state.upper


def test_a_state_as_text_and_json(fast, rows):
    state = watch_all(fast, rows, share=1.0).state
    text = state.describe()
    assert text.startswith("verdict")
    assert "4,000, of which 4,000 were evaluated in full" in text
    assert "promised 2 %" in text
    data = json.loads(json.dumps(state.to_json()))
    assert data["n_changed"] == state.n_changed
    assert data["by_class"][0] == {
        "name": 0,
        "n_shadow": state.by_class[0].n_shadow,
        "n_changed": state.by_class[0].n_changed,
    }
    assert data["parts"][0]["upper"] == state.upper


def test_infinite_evidence_is_a_number_in_json(fast):
    watch = scurry.watch(scurry.early_exit(fast.forest, promise=scurry.promises.Certain()), share=1.0)
    watch.on_alarm = lambda state: None
    watch._record.add(0, [[5, 1]], 0.0)
    state = watch.state
    assert state.alarm
    assert state.change
    assert state.e_value == math.inf
    assert json.loads(json.dumps(state.to_json(), allow_nan=False))["e_value"] == 1e308
    assert "e-value infinite" in state.describe()


def test_the_history_leads_to_the_state(fast, rows, drifted):
    watch = scurry.watch(fast, share=0.5, random_state=0, on_alarm=lambda state: None)
    watch.predict(rows)
    watch.predict(drifted)
    state, history = watch.state, watch.history(7)
    assert len(history.rate) == 7
    assert history.n_shadow.sum() == state.n_shadow
    assert (history.rate * history.n_shadow).sum() == pytest.approx(state.n_changed)
    assert history.e_value[-1] == state.e_value
    assert history.first_row[0] == 0
    assert history.last_row[-1] == state.n_rows - 1
    assert (history.lower <= history.rate).all()
    assert (history.rate <= history.upper).all()
    assert history.rate[-1] > history.max_rate > history.rate[0]


def test_states_are_read_without_their_predictor(fast, rows, tmp_path):
    watch = watch_all(fast, rows, share=0.2)
    watch.save(tmp_path / "w")
    assert scurry.monitoring.read([tmp_path / "w"]) == watch.state
    with pytest.raises(InputError, match="one file or more"):
        scurry.monitoring.read([])
