"""compool in other libraries: a pooler for torch-geometric-pool, and studies on a Ray cluster."""
