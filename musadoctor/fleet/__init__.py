"""Many hosts: reports carried by the engine that a site already runs, gathered, and compared."""
