"""The constants of flows and descent, and what each of them trades."""

# Steps of the explicit method --------------------------------------------------------------------
SAFETY = 0.9  # of the step that the error would allow: shorter steps against refused ones
SHORTEST = 0.2  # least ratio of a step to the one before
LONGEST = 10.0  # largest one
FIRST_CHANGE = 0.01  # relative change of the state in the first step, about
FIRST_FALL = 0.02  # share of the loss that may go in it: no steps before say how the loss bends there
SUMMED = 1000  # numbers up to which JAX sums velocities faster than it multiplies matrices

# Stiff systems -----------------------------------------------------------------------------------
EDGE = 5.0  # step times rate from which a step is at the edge of stability
CALM = 6  # steps inside it in a row after which a system is not stiff
PATIENT = 15  # steps at the edge that make a system stiff
FEW_NUMBERS = 100  # of a system for LSODA, which differentiates by each
LSODA_SHARE = 0.01  # of the tolerances, as its errors add up over its many steps
LSODA_LEAST = 1e-13  # relative tolerance
EXPONENTIAL_SHARE = 0.1  # of the tolerances, as its order is 2
MOST_DIRECTIONS = 40  # of a Krylov space, which is as many states in memory
EACH = 4  # new directions between looks at whether they are enough
LEFT_OUT = 0.1  # of a step by these, in tolerances
SHORTER = 0.7  # ratio of steps that are tried where the most directions are not enough
MOST_PARTS = 4  # of a step whose losses are kept
TRIED = 3  # steps after which the exponential method is compared with explicit steps

# Rest, where nothing changes any more ------------------------------------------------------------
NOTHING_LEFT = 1e-20  # share of the first loss that is none
NO_CHANGE = 1e-8  # relative change of a number that is none
NO_SPEED = 1e-15  # velocity of a number that is rounding, in units of the largest of the run
MANY_STEPS = 100  # steps left below which it is not worth to look
FAR = 1e4  # time ahead, in units of that which has passed: rates below are rounding

# Memory and cache --------------------------------------------------------------------------------
KEPT_NUMBERS = 50_000_000  # of polynomials inside steps, kept to choose times; else the fall is solved twice
CACHED_RUNS = 60_000  # numbers of runs that go side by side in NumPy: more leave the cache
CACHED_WEIGHTS = 100_000  # numbers of weights whose losses NumPy computes at once, likewise
FLOOR = 1e-12  # share of the first loss below which differences of a history are rounding

# Times to save -----------------------------------------------------------------------------------
RESOLVED = 0.1  # share of the fall of the loss between two even times, at most
FINE_POINTS = 20_001  # on which other times are chosen
ROUNDING = 1e-12  # share of the loss below which a fall is none; of t1, by which a time may be later

# Errors that methods state -----------------------------------------------------------------------
STEP_SHARE = 0.01  # tolerance of a step, in errors of the loss curve that are asked for
STATED = 4.0  # error that is stated, in tolerances; above the true one in 205 of 206 narrow networks
LOW_RANK_ERROR = 1e-6  # stated error up to which small bases are chosen
LOW_RANK_WEIGHTS = 60_000  # between wide layers, above which small bases are faster
WIDE = 5  # neurons of a wide layer for each signal that passes it

# Descent -----------------------------------------------------------------------------------------
LARGE_WEIGHTS = 100_000  # beyond, steps of mini-batches are worth a slow compiler
STRETCH_ROWS = 256  # saved steps that a stretch returns, at most
STRETCH_NUMBERS = 1_000_000  # and numbers: more leave the cache
FIRST_STRETCH = 64  # steps of the first stretch
STRETCH_SECONDS = 0.3  # how long the others take, about: it can be interrupted between them
LEAST_ROOM = 4096  # places for losses in a program: of few sizes, so that many lengths share it

# Names in a saved trajectory, which runs and axes do not have --------------------------------------
RESERVED = (
    "t", "step", "loss", "end", "step_loss", "solver_step", "status", "outcome", "ending",
)  # fmt: skip
