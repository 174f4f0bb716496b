"""What every job is made of: its command line, checked settings, paths that a user names, files that come whole.

Imports nothing else of the project, so that every package may import it.
"""
