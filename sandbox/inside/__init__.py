"""What runs inside the isolation boundary with `sandbox.runner`; imports itself and the standard library alone."""
