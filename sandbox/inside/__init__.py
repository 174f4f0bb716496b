"""What runs inside the isolation boundary with `sandbox.runner`; imports itself and the standard library alone."""

import sys

# Modules that the interpreter had before any of ours; in a bundle, before the bundle's text.
STARTED_WITH = frozenset(sys.modules)
