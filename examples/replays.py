"""Replays beside the pictures of the other examples."""

import jaxrb as rb


def write_replay(path, world, sol, **options):
    """Writes a replay for a browser, or says what is not installed that it needs."""
    try:
        rb.viz.replay(world, sol, **options).save(path)
    except ImportError as error:
        print(error)
