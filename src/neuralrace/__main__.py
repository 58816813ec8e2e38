"""`python -m neuralrace`."""

import os

import jax

from neuralrace_command import cache_folder, main

folder = cache_folder()
if folder is not None:  # JAX is imported, and has read its environment; that is for other processes
    kept = os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder))
    least = os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    jax.config.update("jax_compilation_cache_dir", kept)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", float(least))
raise SystemExit(main())
