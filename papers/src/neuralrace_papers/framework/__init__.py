"""What experiments are made of: parameters, stored parts, figures, rows, and ledgers that judge the rows."""

from neuralrace_papers.framework.declaration import Data, Experiment, figure, part, rows
from neuralrace_papers.framework.ledger import Row
from neuralrace_papers.framework.parameters import require
from neuralrace_papers.framework.store import along

__all__ = ["Data", "Experiment", "Row", "along", "figure", "part", "require", "rows"]
