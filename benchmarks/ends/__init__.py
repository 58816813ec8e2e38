"""Where gated networks end and when: random tasks, trained networks, and how the theory does against them."""
