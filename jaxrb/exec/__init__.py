"""How work is spread over lanes, cores and devices; nothing here knows of physics."""
