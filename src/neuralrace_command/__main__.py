"""`python -m neuralrace_command`."""

from neuralrace_command import main

raise SystemExit(main())
