"""The constants of reductions, and what each of them trades."""

from neuralrace.dynamics.methods import Adaptive

# Is a reduction exact? ---------------------------------------------------------------------------
EXACT = 1e-8  # residual below which it is called so: above rounding, below what any false family leaves
MOST_PATHS = 1000  # among which the worst ones are looked for by name
SAME = 1e-9  # of the largest: statistics of paths that differ less are the same
OFF_GRID = 0.381966  # values are compared on a grid whose lines no simple fraction meets
NEGLIGIBLE = 1e-9  # of its size: what is left of a signal that others span is rounding

# Size: what is not written out, but left to a small network ---------------------------------------
MOST_CLASSES = 400  # of paths
MOST_TERMS = 5000  # products of strengths in equations
MOST_LOAD = 2.0  # of the equations of classes; beyond, the small network has fewer products
LOAD_OF_CALLS = 10_000  # powers that take as long as the calls of the smallest system

# What can be learned -----------------------------------------------------------------------------
UNLEARNED = 1e-4  # share of it that may be left where it counts as learned
UNSOLVED = 1e-14  # share of it that is left where a solution stops
MOST_PATTERNS = 4_000_000  # numbers of a node's; beyond, gatings count as free, which lowers the bound

# Where a solution ended: what is rest, and what is rounding ---------------------------------------
REST = 1e-3  # of its speeds before and after: a loss that falls more slowly may wait for rounding to grow
NUDGE = 1e-11  # of the largest strength: a change of the start that is larger than rounding
DIFFERENT = 0.1  # of what still changes, and
LITTLE = 1e-6  # of the whole change: curves that differ more part
MOVES = 0.03  # logarithm of the change of a strength, over as long as the solution took, that counts as rest
DECAYED = 1e-3  # factor by which a decaying strength is made smaller to see that nothing depends on it
NOTHING = 1e-10  # of the largest singular value of a block: smaller ones are rounding
SPARE = 1e-3  # of the largest weight: a direction with less is free
PULL = 1e-6  # of the correlation of the data: a gradient that is larger is none of rounding

# Solutions that are only looked at: is a family right, when is all learned? ------------------------
COARSE = Adaptive(rtol=1e-6, atol=1e-8, max_steps=5000)
TRIED_FROM = 0.1  # strength of the start from which a family is tried
TRIED_FOR = 1e6  # in units of the fastest time of the data
FOREVER = 1e15  # likewise: a solution that is to learn all
MOST_STEPS = {"equations": 100_000, "network": 2_000}  # until all is learned

# Starts ------------------------------------------------------------------------------------------
WIDE = 15_000  # weights between wide layers above which small bases are faster; `flow` asks for less error
BLOWN_UP = 20.0  # a logarithm: what is left of the time is smaller by its exponential
LONGEST = 300.0  # in units of the first growth: a start that rests does not blow up
BLOW_UP_RTOL, BLOW_UP_ATOL = 1e-6, 1e-9  # of its time, which only the strength of a start depends on
MOST_FOLLOWED = 3e6  # numbers touched in a step, beyond which the wide start is not followed

# Directions in which the modes of given weights grow ------------------------------------------------
ROUNDS = 20  # at most, at each time; from one time to the next directions hardly turn
TURN = 1e-6  # change of a direction in a round at which the search stops
