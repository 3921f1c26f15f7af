"""The commands of `python -m jaxrb`."""
