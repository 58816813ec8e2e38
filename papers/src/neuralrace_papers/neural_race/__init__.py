"""Saxe, Sodhani and Lewallen (2022), The neural race reduction: dynamics of abstraction in gated networks."""
