"""What experiments are made of: parameters, stored parts, figures and claims."""
