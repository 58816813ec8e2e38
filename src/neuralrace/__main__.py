"""`python -m neuralrace`."""

from neuralrace_command import main

raise SystemExit(main())
