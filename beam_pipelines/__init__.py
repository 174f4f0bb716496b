"""From raw programming problems to DMC-Optim: sources, stages, and a dataset of tests with reference durations."""

import errno
import logging

# Beam warns at import that a Google client is missing; nothing here uses it, and a user could not act on it.
logging.getLogger().addFilter(lambda record: not str(record.msg).startswith("apitools not found"))
# What ends a job in one line is no error of the step inside which it happened: an interrupt, a full disk.
_TOLD_BY_THE_JOB = ("KeyboardInterrupt", f"OSError: [Errno {errno.ENOSPC}]")
logging.getLogger("apache_beam.runners.common").addFilter(
    lambda record: not str(record.getMessage()).startswith(_TOLD_BY_THE_JOB)
)
