"""The instrument: what runs of programs say about them. Runs nothing itself and knows no service."""
