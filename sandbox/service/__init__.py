"""The service around the instrument: pools of workers, servers seen from afar, faults, health and stored answers."""
