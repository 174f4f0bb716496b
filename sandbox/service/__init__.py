"""The service around the instrument: pools of workers, remote servers, faults, health and stored answers."""
