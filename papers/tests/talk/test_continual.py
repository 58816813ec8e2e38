import pytest

import neuralrace as nr
import neuralrace_papers
from neuralrace_papers.talk import continual


@pytest.mark.whole
def test_experiment(tmp_path):
    changes = {"seeds": 1, "tasks": 3, "trained": (6.0, 8.0), "imbalances": (0.1,)}
    report = neuralrace_papers.run("continual", quick=True, out=tmp_path, changes=changes)
    value = {id: row.value for id, row in report.rows.items()}
    assert value["forgetting-set-by-tasks"] < 1e-3
    assert value["reversal-spare"] == pytest.approx(1, abs=0.1)
    assert value["transfer-new-outputs"] < 0.7 < value["transfer-lazy"]
    assert [name for name, _ in report.figures] == ["continual-forgetting", "continual-next"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 5}, "size must be at least 6"),
        ({"lams": (1.0, 2.0, 3.0)}, "lams must be 0 and two others"),
        ({"lams": (0.0, 0.1, 0.2)}, "lams must be 0 and two others"),
    ],
)
def test_wrong_parameters_are_refused(changes, message):
    with pytest.raises(nr.errors.InputError, match=message):
        continual.Continual(**changes)
