"""
Two pathways race
=================

The pathway that sees more samples learns first.
"""

import neuralrace as nr

task = nr.tasks.hierarchy(3)
solution = nr.reduce(task).solve(strengths=0.05, t1=40.0)
figure = solution.plot()
