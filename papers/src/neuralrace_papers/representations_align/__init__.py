"""van Rossem and Saxe (2024), When representations align: universality in representation learning
dynamics."""
