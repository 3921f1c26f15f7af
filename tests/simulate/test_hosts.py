"""Batches over several processes, and over devices that do not divide them."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bouncing import METHOD, T1, WORLD, bounce, drops, heights
from helpers import on_devices, on_hosts

import jaxrb as rb

SETUP = """
    import warnings
    import jax.numpy as jnp, numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    import jaxrb as rb
    from bouncing import METHOD, T1, WORLD, check_heights, drops, heights

    place = NamedSharding(Mesh(np.array(jax.devices()), ("lanes",)), P("lanes"))

    def spread(states):
        def leaf(x):
            rows = np.asarray(x)
            return jax.make_array_from_callback(rows.shape, place, lambda index: rows[index])
        return jax.tree.map(leaf, states)

    def error_of(run):
        try:
            run()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        raise AssertionError("no error")
"""


def test_arrays_that_span_processes():
    """All find the first True of a mask; each reads its own rows alone, also where devices hold
    copies of them."""
    program = """
    import jax.numpy as jnp, numpy as np
    from jax.sharding import NamedSharding, PartitionSpec as P
    import jaxrb as rb
    from jaxrb._hosts import entry, first_of, held_here, spans_processes
    from jaxrb.simulate.results import to_result

    mesh = jax.make_mesh((2, 2), ("lanes", "copies"))
    def spread(rows, spec=P("lanes")):
        place = NamedSharding(mesh, spec)
        return jax.make_array_from_callback(rows.shape, place, lambda index: rows[index])

    rows = np.arange(6.0)
    array = spread(rows)
    assert spans_processes((1, array)) and not spans_processes((rows, spread(rows, P())))
    assert first_of(array > 3) == (2, 4) and first_of(array > 9) is None
    assert float(entry(array, 4)) == 4.0
    if rank == 0:  # the other does not take part
        assert held_here(array).tolist() == [0.0, 1.0, 2.0]
        assert held_here(spread(rows, P())).tolist() == rows.tolist()
        try:
            rb.io.save("never.jaxrb", array)
        except ValueError as error:
            assert "is spread over several processes" in str(error)
            print("refused")
        print(rb.RESULTS[jax.vmap(to_result)(spread(np.array([0, 4, 4, 5])))])
    else:
        print("done")
    """
    assert on_hosts(2, program) == [["refused", "1 successful, 1 zeno"], ["done"]]


@pytest.mark.slow
def test_a_batch_that_spans_processes():
    """All raise the same failure, one can read alone, and uneven shares are refused."""
    program = (
        SETUP
        + """
    assert len(jax.devices()) == 4 and len(jax.local_devices()) == 2
    sunk = heights(12)
    sunk[[7, 9]] = 0.4
    print(error_of(lambda: rb.simulate_batch(WORLD, spread(drops(sunk)), METHOD, T1)))

    sol = rb.simulate_batch(WORLD, spread(drops(sunk)), METHOD, T1, throw=False)
    assert all(leaf.sharding.spec[0] == "lanes" for leaf in jax.tree.leaves(sol))
    # One process alone looks at it, and does not wait for the other.
    if rank == 1:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            sol.final
        (caught,) = [str(w.message) for w in caught if w.category is UserWarning]
        print(caught)
        print(repr(sol), rb.RESULTS[sol.result], repr(sol.impacts))

    whole = drops(heights(10))  # the same in both
    print(error_of(lambda: rb.simulate_batch(WORLD, whole, METHOD, T1, devices=jax.devices())))
    local = jax.local_devices()
    spans = spread(drops(sunk))
    print(error_of(lambda: rb.simulate_batch(WORLD, spans, METHOD, T1, devices=local)))
    print("done")
    """
    )
    outputs = on_hosts(2, program)
    first, second = outputs
    assert first[0].startswith(
        "RuntimeError: The simulation ended early: 2 of 12 worlds; the first, world 7: "
        "initial_penetration"
    )
    assert second[0] == first[0]
    assert "10 lanes over 4 devices of several processes" in first[1]
    assert "devices must be those of all processes" in first[2]
    assert re.search(
        r"2 of 6 worlds of this process ended early .*2 initial_penetration", second[1]
    )
    assert "Of several processes, here: Solution(\n  6 worlds" in "\n".join(second)
    assert first[-1] == second[-1] == "done"


@pytest.mark.slow
def test_what_a_batch_saves_stays_with_the_processes():
    """Also after what is unused of the room for times is taken off."""
    program = (
        SETUP
        + """
    save = rb.SaveAt(every=7)  # 10 times
    sol = rb.simulate_batch(WORLD, spread(drops(heights(12))), METHOD, T1, save=save)
    assert all(leaf.sharding.spec[0] == "lanes" for leaf in jax.tree.leaves(sol))
    assert sol.states.position.shape == (12, 10, 1, 3)
    rows = np.concatenate([np.asarray(s.data) for s in sol.final.position.addressable_shards])
    check_heights(rows, heights(12)[rank * 6 : rank * 6 + 6])
    print("same")
    """
    )
    assert on_hosts(2, program) == [["same"]] * 2


@pytest.mark.slow
def test_the_gradient_of_a_shared_parameter_is_one_all_reduce():
    """By the restitution: dz/de = v s a time s after an impact with the speed v.
    The mean over both processes is known to both."""
    program = (
        SETUP
        + """
    import re
    n = 12

    def loss(restitution, states):
        world = rb.World(WORLD.bodies, WORLD.obstacles, contact_law=rb.Frictionless(restitution))
        sol = rb.simulate_batch(world, states, METHOD, T1, throw=False, devices=jax.devices())
        return jnp.mean(sol.final.position[..., 2])

    restitution = jax.device_put(jnp.asarray(0.8), NamedSharding(place.mesh, P()))
    slope = jax.jit(jax.grad(loss))
    text = slope.lower(restitution, spread(drops(heights(n)))).compile().as_text()
    found = re.findall(r"(all-reduce|all-gather|collective-permute|all-to-all)(?:-start)?\\(", text)
    assert found == ["all-reduce"], found
    print(float(slope(restitution, spread(drops(heights(n))))))
    """
    )
    slopes = [float(line) for (line,) in on_hosts(2, program)]
    speed, after = bounce(heights(12))
    np.testing.assert_allclose(slopes, np.mean(speed * after), rtol=1e-13)


@pytest.mark.slow
def test_devices_that_do_not_divide_a_batch():
    """Even shares stay on their devices, others come to the first: no device holds the whole but
    that one, and the copies that fill up the last share are gone."""
    program = (
        SETUP
        + """
    states, devices = drops(heights(8)), jax.devices()
    for n in (8, 6):
        some = jax.tree.map(lambda leaf: leaf[:n], states)
        sol = rb.simulate_batch(WORLD, some, METHOD, T1)
        assert sol.final.position.devices() == (set(devices) if n == 8 else {devices[0]})
        check_heights(sol.final.position, heights(8)[:n])
    # A device that is not the first is cut into chunks as well.
    sol = rb.simulate_batch(WORLD, states, METHOD, T1, devices=devices[3:], chunk=4)
    assert sol.final.position.devices() == {devices[3]}
    check_heights(sol.final.position, heights(8))
    print("same")
    """
    )
    assert "same" in on_devices(4, program)


def test_devices_must_be_given_or_left_out():
    with pytest.raises(ValueError, match="devices must hold at least one"):
        rb.simulate_batch(WORLD, drops(heights(2)), METHOD, T1, devices=[])
    many = rb.parallel_vmap(jnp.sin, devices=jax.devices())
    np.testing.assert_array_equal(many(jnp.ones(3)), jnp.sin(jnp.ones(3)))
