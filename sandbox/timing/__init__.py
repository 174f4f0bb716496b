"""The instrument: from runs of programs to verdicts and seconds. Starts no process and knows no service."""
