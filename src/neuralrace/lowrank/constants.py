"""The constants of the low-rank flow, and what each of them trades.

All but the shares of the error estimate change only how much work is done and how errors are split. These
shares were set on random networks; docs/developers/lowrank.md says on which, and how the estimate did on
others.
"""

# Of outputs, or of the loss curve, where most errors of outputs are along errors that are small by then.
# Tolerances, in the error that is asked for: a factor, and the power of the depth by which it is divided,
# as deeper networks learn later and faster: the more an error grows --------------------------------
STEP = {"outputs": (2.1, 5), "loss": (60.0, 4)}  # of a step: fewer steps against solving again more often
RESIDUAL = {"outputs": 0.45, "loss": 1.0}  # of the projection residual, to a power: fewer enrichments
MAX_RESIDUAL = 0.1  # above this the velocity points elsewhere, and the residual tells nothing
MAX_TOLERANCE = 2e-3  # above this local errors are no longer small, and their sum tells less than it should
MAX_SOLUTIONS = 6  # with smaller and smaller tolerances, before an error is said to be missed
EARLY = 0.04  # least share of all tolerances while nothing has been learned: early errors grow

# Steps of backward differentiation ---------------------------------------------------------------
MAX_ORDER = 6  # the highest stable order: longer steps, more past states
SAFETY = 0.8  # of the step that the error would allow: shorter steps against refused ones
KEEP_STEP = 0.9  # lengths that differ less are not changed: steady formulas against best lengths
MAX_GROWTH = 2.0  # of the length of a step of order 2 or more: few steps against refused ones
FIRST_STEP = 0.7  # of the step whose change would be the tolerance if velocities changed as weights do
DIRECT = 256  # most outputs, over all samples, whose tangent kernel is written down; else conjugate gradients
CG_ERROR = 1e-3  # of conjugate gradients, relative to the change of the outputs in a step

# Projection residual -----------------------------------------------------------------------------
SKETCH = 24  # random directions that estimate norms outside a basis: 15% error against cost
# A velocity counts at least as much as one that moves weights by this share in the time left: near rest a
# residual relative to nothing would fill the bases with rounding.
AT_REST = 0.1
MAX_UNCHECKED = 8  # longest time without a look at the residual, in steps of the present length

# Enrichment and truncation -----------------------------------------------------------------------
ENRICH_DOWN_TO = 0.01  # of the tolerated residual: larger bases against more frequent enrichments
DEPENDENT = 1e-3  # a new direction with less than this outside the basis is rounding
TRUNCATE_AT = 1.5  # growth of the number of coordinates at which bases are truncated
TRUNCATE_BELOW = 3e-3  # tolerated residuals below which a direction is dropped

# Look-ahead: bases are enriched for states to come, predicted in the bases that are there --------
LOOK_STEPS = 3  # most of them: fewer enrichments against larger bases
LOOK_GROWTH = 3.0  # of their lengths, the first in that of a step of the solution
LOOK_RESIDUAL = 20.0  # tolerated residuals up to which predictions are trusted

# Error estimate ----------------------------------------------------------------------------------
LOCAL = {"outputs": 4.0, "loss": 0.4}  # share of the sum of local errors
# Share, and power of the residual: outputs and loss are off by its square. Errors of outputs count also what
# single edges carry, which is off by more.
MISSED = {"outputs": (0.35, 1.5), "loss": (0.3, 2.0)}
LEAST_STATED = 0.1  # of the error asked for: what is stated below that is not reliable
ROUNDING = 10.0  # stated on top, in units of the precision
EVEN_INPUTS = 0.1  # least singular value of the inputs, relative to the largest, for which this is allowed
