"""The constants of the low-rank flow, and what each of them trades.

All but the shares of the error estimate change only how much work is done and how errors are split. These
shares were set on random networks; docs/developers/lowrank.md says on which, and how the estimate did on
others.
"""

# Tolerances, from the error that is asked for ----------------------------------------------------
FIRST_TOLERANCE = (
    0.05  # of a step, of a network of one layer: larger is fewer steps, but solving twice more often
)
TOLERANCE_POWER = 1.1  # in errors of outputs to this power: they grow a little faster than tolerances
RESIDUAL = 100.0  # tolerated projection residual, in step tolerances to the power below: fewer enrichments
RESIDUAL_POWER = 0.8  # against larger bases; costs are balanced over tolerances of 1e-2 to 1e-8
LOSS_TOLERANCE = 27.0  # where the error is that of the loss curve: step tolerance, in errors over depth^3,
LOSS_RESIDUAL = 80.0  # and projection residual, in errors over depth: small bases are cheap, steps are not
MAX_RESIDUAL = 0.3  # above this the velocity points elsewhere, and the residual tells nothing
MAX_TOLERANCE = 1e-2  # above this steps are refused more often than they are taken
MAX_SOLUTIONS = 6  # with smaller and smaller tolerances, before an error is said to be missed
EARLY = 0.04  # least share of all tolerances while nothing has been learned: early errors grow
SINGLE = 1e-6  # step tolerance above which bases are in single precision: half the memory traffic

# Steps of backward differentiation ---------------------------------------------------------------
MAX_ORDER = 6  # the highest stable order: longer steps, more past states
SAFETY = 0.8  # of the step that the error would allow: shorter steps against refused ones
KEEP_STEP = 0.9  # lengths that differ less are not changed: steady formulas against best lengths
MAX_GROWTH = 2.0  # of the length of a step: few steps after a transition against refused ones
DIRECT = 256  # most outputs, over all samples, whose tangent kernel is written down; else conjugate gradients
CG_ERROR = 1e-3  # of conjugate gradients, relative to the change of the outputs in a step

# Projection residual -----------------------------------------------------------------------------
SKETCH = 24  # random directions that estimate norms outside a basis: 15% error against cost
OUTPUT_WEIGHT = 4.0  # errors of outputs count at once, those of velocities only for a while
AT_REST = 0.1  # velocities count at least as much as moves weights by this share in the time left: near
#                rest a residual relative to nothing would fill the bases with rounding
MAX_UNCHECKED = 8  # longest time without a look at the residual, in steps of the present length

# Enrichment and truncation -----------------------------------------------------------------------
ENRICH_DOWN_TO = 0.01  # of the tolerated residual: larger bases against more frequent enrichments
DEPENDENT = 1e-3  # a new direction with less than this outside the basis is rounding
TRUNCATE_AT = 2.0  # growth of the number of coordinates at which bases are truncated
TRUNCATE_BELOW = 3.0  # step tolerances below which a direction is dropped

# Look-ahead: bases are enriched for states to come, predicted in the bases that are there --------
LOOK_RESIDUAL = 20.0  # tolerated residuals up to which predictions are trusted
LOOK_TOLERANCE = 1e5  # step tolerance of predictions, in that of the solution
LOOK_ORDER = 3  # their first order,
LOOK_STEP = 5.0  # their first length, in that of the solution,
LOOK_STEPS = 12  # and most of them: fewer enrichments against cost of each
LOOK_EVERY = 3  # steps between looks at the residual
LOOK_STATES = 3  # most states that are taken: all directions on the way against larger products

# Error estimate ----------------------------------------------------------------------------------
LOCAL_SHARE = 4.0  # of the sum of local errors
RESIDUAL_SHARE = 0.3  # of what the residual moved, relative to the weights
LOSS_LOCAL_SHARE = 0.2  # the same for the loss curve: most errors of outputs are along errors that
LOSS_RESIDUAL_SHARE = 0.03  # are small by then
LEAST_STATED = 0.1  # of the error asked for: what is stated below that is not reliable
ROUNDING = 10.0  # stated on top, in units of the precision
PROJECTED_OUTPUTS = 0.1  # error of projected outputs, in stated ones, up to which they stand for the network
EVEN_INPUTS = 0.1  # least singular value of the inputs, relative to the largest, for which this is allowed

# Products ----------------------------------------------------------------------------------------
SMALL_PRODUCT = 1_000_000  # most multiplications of a product that OpenBLAS does without copying
