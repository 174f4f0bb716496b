"""From raw programming problems to DMC-Optim: sources, stages, and a dataset of tests with reference durations."""

import logging

# Beam warns at import that a Google client is missing; nothing here uses it, and a user could not act on it.
logging.getLogger().addFilter(lambda record: not str(record.msg).startswith("apitools not found"))
