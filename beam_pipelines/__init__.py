"""From raw programming problems to DMC-Optim: sources, stages, and a dataset of tests with reference durations."""

import logging

# Beam warns at import that a Google client is missing; nothing here uses it, and a user could not act on it.
logging.getLogger().addFilter(lambda record: not str(record.msg).startswith("apitools not found"))
# An interrupt inside a step is not an error of the step; the job says in one line that it was interrupted.
logging.getLogger("apache_beam.runners.common").addFilter(
    lambda record: not str(record.getMessage()).startswith("KeyboardInterrupt")
)
