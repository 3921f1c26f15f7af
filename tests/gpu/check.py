"""One table about jaxrb on the GPU at hand: python tests/gpu/check.py [--quick] [--seconds N]

Speed of Case I and of other worlds as kernels and by XLA, agreement with the CPU, gradients, what
is saved along the way, and the ceilings of the machine in the same minutes. On an H200 it takes
about five minutes. With --quick it runs on a CPU, too, to test itself.
"""

from __future__ import annotations

import argparse
import os
import time
from functools import partial

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import numpy as np

import jaxrb as rb
from jaxrb.bench.problem import CASE, start

STARTED = time.perf_counter()


def main() -> None:
    """Prints the rows one after another, the most important first."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small batches, few steps")
    parser.add_argument("--seconds", type=float, default=440, help="no row is begun after these")
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    device, quick = jax.devices()[0], arguments.quick
    print(f"{device.device_kind}, jax {jax.__version__}, Case I unless said otherwise")
    for row in rows(quick):
        if time.perf_counter() - STARTED > arguments.seconds:
            print("no time is left for more rows")
            break
        try:
            text = row()
        except Exception as error:  # one row that fails shall not hide the others
            text = f"FAILED {row.func.__name__} {row.args}: {type(error).__name__}: {error}"[:400]
        print(f"{time.perf_counter() - STARTED:6.1f} s  {text}", flush=True)


def rows(quick: bool):
    """The rows of the table, as functions that give their text."""
    some, many, most = (64, 128, 256) if quick else (10_000, 100_000, 1_000_000)
    dice = 64 if quick else 4096
    dtypes = ("float32", "float64")
    yield partial(bandwidth, 1 << (16 if quick else 28))
    for dtype in dtypes:
        for n in (some, many, most):
            yield partial(speed, "Case I", dtype, n, "kernel", quick)
    for n in (some, many, most):
        yield partial(speed, "Case I", "float32", n, "xla", quick)
    yield partial(gradient, "float32", many, quick)
    yield partial(gradient, "float32", most, quick)
    for backend in ("kernel", "xla"):
        yield partial(speed, "Case I", "float32", many, backend, quick, rb.SaveAt(every=10))
    yield partial(bits, "float32")
    yield partial(bits, "float64")
    yield partial(agreement, "Case I", "float32")
    for name in ("friction", "balls", "rest", "continuous", "box"):
        for backend in ("kernel", "xla"):
            yield partial(speed, name, "float32", many, backend, quick)
    yield partial(speed, "Case I", "float64", 1, "kernel", quick)
    yield partial(speed, "Case I", "float64", most, "xla", quick)
    yield partial(gradient, "float64", many, quick)
    with_impacts = rb.SaveAt(every=10, impacts=16)
    yield partial(speed, "Case I", "float32", many, "kernel", quick, with_impacts)
    for dtype in dtypes:
        for name in ("friction", "continuous"):
            yield partial(agreement, name, dtype)
    # These are compiled for minutes.
    yield partial(speed, "dice", "float32", dice, "kernel", quick)
    yield partial(speed, "dice", "float64", dice, "kernel", quick)
    yield partial(speed, "dice", "float32", 64 if quick else 65_536, "kernel", quick)
    yield partial(speed, "dice", "float32", dice, "xla", quick)


def scene(name: str, n: int, dtype: str, quick: bool = False):
    """A world, n states, a method, the end of the run and its number of steps."""
    world, state = CASE.build()
    steps = 100 if quick else 1000
    method, t1 = rb.LGVCI(CASE.dt, on_zeno="stop"), steps * CASE.dt
    rng = np.random.default_rng(0)
    states = jax.vmap(start, in_axes=(None, 0))(state, jnp.asarray(10 + rng.random(n)))
    if name == "friction":
        law = rb.Coulomb(0.3, restitution=1.0)
        world = rb.World(world.bodies, world.obstacles, contact_law=law)
    if name == "rest":
        law = rb.Frictionless(0.5)
        world = rb.World(world.bodies, world.obstacles, contact_law=law)
        method = rb.LGVCI(CASE.dt, on_zeno="rest")
    if name == "box":
        world = rb.World([rb.RigidBody(rb.Box((0.5, 0.4, 0.3)))], world.obstacles)
    if name == "continuous":
        method = rb.EventDriven(rb.ExactFlight(), None)
    if name == "balls":
        world = rb.World([rb.RigidBody(rb.Sphere(0.1)) for _ in range(3)], [rb.HalfSpace()])
        places = np.array([[0.0, 0.0, 1.0], [0.15, 0.02, 1.3], [0.3, 0.04, 1.6]])
        places = places + rng.uniform(-0.05, 0.05, (n, 3, 3))
        upright = np.broadcast_to([1.0, 0.0, 0.0, 0.0], (n, 3, 4))
        still = np.zeros((n, 3, 3))
        states = rb.State(*map(jnp.asarray, (places, upright, still, still)))
    if name == "dice":
        law = rb.Coulomb(0.4, restitution=0.3)
        die = rb.RigidBody(rb.Box((0.01, 0.01, 0.01)))
        world = rb.World([die], [rb.HalfSpace()], contact_law=law)
        turned = rng.normal(size=(n, 1, 4))
        turned /= np.linalg.norm(turned, axis=-1, keepdims=True)
        places = np.tile([0.0, 0.0, 0.15], (n, 1, 1))
        velocity, spin = rng.normal(size=(n, 1, 3)) * 0.5, rng.normal(size=(n, 1, 3)) * 10
        states = rb.State(*map(jnp.asarray, (places, turned, velocity, spin)))
        steps = 25 if quick else 500
        method, t1 = rb.LGVCI(0.002, on_zeno="rest"), steps * 0.002
    world, states = in_precision((world, states), dtype)
    return world, states, method, t1, steps


def in_precision(tree, dtype: str):
    """The tree with its floating numbers in a precision."""

    def of(leaf):
        return leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    return jax.tree.map(of, tree)


def best(function, n: int = 2) -> float:
    """The least of some wall times, after a first call [s]."""
    jax.block_until_ready(function())
    seconds = []
    for _ in range(n):
        begin = time.perf_counter()
        jax.block_until_ready(function())
        seconds.append(time.perf_counter() - begin)
        if seconds[-1] > 10:
            break
    return min(seconds)


def bandwidth(n: int) -> str:
    """Of reading and writing numbers in device memory."""
    numbers, copy = jnp.ones(n, jnp.float32), jax.jit(lambda x: x + 1)
    return f"copies {8 * n / best(lambda: copy(numbers)) / 1e12:.2f} TB/s"


def speed(name, dtype, n, backend, quick, save=None) -> str:
    """Body-steps per second, and what the run was."""
    world, states, method, t1, steps = scene(name, n, dtype, quick)

    def run():
        return rb.simulate_batch(world, states, method, t1, save=save, throw=False, backend=backend)

    begin = time.perf_counter()
    sol = jax.block_until_ready(run())
    first = time.perf_counter() - begin
    seconds = best(run)
    n_bodies = sol.final.position.shape[-2]
    early = int(np.sum(np.asarray(~sol.successful)))
    kept = "" if save is None else f", every {save.every} steps and {save.impacts} impacts saved"
    by = "kernel" if bool(np.all(np.asarray(sol.stats.kernel))) else "XLA"
    return (
        f"{name:10s} {dtype} {n:>8} by {by:6s} {n * n_bodies * steps / seconds:9.3g} body-steps/s, "
        f"{seconds * 1e3:8.2f} ms (first {first:.1f} s), ended early {early}{kept}"
    )


def agreement(name: str, dtype: str) -> str:
    """With XLA on the CPU, over 3 s and a few bounces."""
    world, states, method, _, _ = scene(name, 64, dtype)

    def run(device, backend):
        there = jax.device_put((world, states), device)
        options = {"throw": False, "devices": [device], "backend": backend}
        return jax.device_get(rb.simulate_batch(*there, method, 3.0, **options))

    here, cpu = run(jax.devices()[0], "auto"), run(jax.devices("cpu")[0], "xla")
    same = np.array_equal(here.impacts.count, cpu.impacts.count)
    place = np.abs(here.final.position - cpu.final.position).max()
    turning = np.abs(here.final.angular_velocity - cpu.final.angular_velocity).max()
    return (
        f"{name:10s} {dtype} against XLA on the CPU: impacts equal {same}, position {place:.1e} m, "
        f"angular velocity {turning:.1e} rad/s, kernel {bool(here.stats.kernel.all())}"
    )


def gradient(dtype: str, n: int, quick: bool) -> str:
    """Of the mean height at the end by the restitution, in reverse mode."""
    world, states, method, t1, steps = scene("Case I", n, dtype, quick)

    def loss(restitution, states):
        own = rb.World(world.bodies, world.obstacles, contact_law=rb.Frictionless(restitution))
        final = rb.simulate_batch(own, states, method, t1, throw=False).final
        return jnp.mean(final.position[..., 2])

    one = jnp.asarray(1.0, dtype)
    slope = jax.jit(jax.value_and_grad(loss))
    seconds = best(lambda: slope(one, states))
    forward = best(partial(jax.jit(loss), one, states))
    return (
        f"gradient   {dtype} {n:>8} {n * steps / seconds:9.3g} body-steps/s, "
        f"{seconds * 1e3:.1f} ms, {seconds / forward:.1f} forward runs, "
        f"d/de = {float(slope(one, states)[1]):.6g}"
    )


def bits(dtype: str) -> str:
    """Whether worlds of a batch have the same bits alone, elsewhere in it, and in a larger one."""
    world, states, method, _, _ = scene("Case I", 4096, dtype)

    def run(states):
        return rb.simulate_batch(world, states, method, 3.0, throw=False).final

    whole = run(states)
    order = np.random.default_rng(0).permutation(4096)
    moved = run(jax.tree.map(lambda leaf: leaf[order], states))
    few = run(jax.tree.map(lambda leaf: leaf[17:18], states))

    def same(tree, those):
        return all(
            np.array_equal(np.asarray(a), np.asarray(b)[those])
            for a, b in zip(jax.tree.leaves(tree), jax.tree.leaves(whole), strict=True)
        )

    return (
        f"bits       {dtype}: in another order equal {same(moved, order)}, "
        f"alone {same(few, slice(17, 18))}"
    )


if __name__ == "__main__":
    main()
