"""`python -m neuralrace`."""

from neuralrace.cli import main

raise SystemExit(main())
