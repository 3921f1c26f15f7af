"""What a GPU would be given, on a machine without one."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import pytest

import jaxrb as rb
from jaxrb.bench.problem import CASE, heights, start
from jaxrb.exec.kernel import cuda
from jaxrb.exec.kernel.operations import NotScalarError


def has_nvrtc() -> bool:
    try:
        cuda.compile_to_ptx('extern "C" __global__ void nothing() {}')
    except NotScalarError:
        return False
    return True


needs_nvrtc = pytest.mark.skipif(
    not has_nvrtc(), reason="needs NVRTC, which comes with jax[cuda12] and jax[cuda13]"
)


def runs(backend, law=None):
    """Case I from some heights, to be exported."""
    world, state = CASE.build()
    if law is not None:
        world = rb.World(world.bodies, world.obstacles, contact_law=law)

    def run(z):
        own = partial(start, state)
        method = rb.LGVCI(0.01, on_zeno="stop")
        simulate = lambda s: rb.simulate(world, s, method, 1.0, throw=False, backend=backend)  # noqa: E731
        return jax.vmap(lambda z: simulate(own(z)).final.position[..., 2])(z)

    return run


def exported(function) -> str:
    """The program for an NVIDIA GPU."""
    allowed = [jax.export.DisabledSafetyCheck.custom_call("__gpu$xla.gpu.ptx")]
    make = jax.export.export(jax.jit(function), platforms=["cuda"], disabled_checks=allowed)
    return make(heights(64)).mlir_module()


@needs_nvrtc
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_run_is_one_kernel(dtype):
    """Without a stack in memory, without products and sums in one rounding, without tensor cores:
    the numbers are those of a CPU, and only the state comes from memory."""
    jax.config.update("jax_enable_x64", dtype == "float64")
    try:
        text = exported(runs("kernel"))
    finally:
        jax.config.update("jax_enable_x64", True)
    assert text.count("custom_call @__gpu$xla.gpu.ptx") == 1
    assert text.count(".visible .entry lanes(") == 1
    assert ".local" not in text
    assert not re.search(r"\bfma\b|mma|tf32|div\.full|sqrt\.approx|div\.approx", text)
    # Once read and once written, not in the loop: 12 numbers of a body, and some of the world.
    assert text.count("ld.global") < 80
    assert text.count("st.global") < 40


@needs_nvrtc
def test_text_that_does_not_compile_says_what_the_compiler_said():
    with pytest.raises(NotScalarError, match="undefined"):
        cuda.compile_to_ptx('extern "C" __global__ void wrong(int* a) { *a = nowhere; }')


def test_without_the_compiler_xla_compiles_for_a_gpu(monkeypatch):
    def missing():
        raise NotScalarError("NVRTC is not installed")

    monkeypatch.setattr(cuda, "_nvrtc", missing)
    cuda.compile_to_ptx.cache_clear()
    with pytest.warns(UserWarning, match="NVRTC is not installed"):
        text = exported(runs("kernel"))
    assert "custom_call @__gpu$xla.gpu.ptx" not in text
    assert "stablehlo.while" in text


BALL, DIE = rb.RigidBody(rb.Sphere(0.1), 1.0), rb.RigidBody(rb.Box((0.1, 0.1, 0.1)), 1.0)
COULOMB = rb.Coulomb(0.3, restitution=0.5)
RESTS = rb.EventDriven(rb.LieVariational(), 0.01, on_zeno="rest")


def falls(bodies, method, **options):
    """A run of bodies that fall onto a floor, one above the other, from some heights."""
    world = rb.World(bodies, [rb.HalfSpace()], contact_law=COULOMB, **options)
    place = jnp.array([[0.01 * k, 0.02 * k, 0.5 + 0.3 * k] for k in range(len(bodies))])
    upright = jnp.tile(jnp.array([1.0, 0, 0, 0]), (len(bodies), 1))
    still = jnp.zeros_like(place)

    def fall(z):
        state = rb.State(place.at[:, 2].add(z), upright, still, still)
        return rb.simulate(world, state, method, 1.0, throw=False).final.position[..., 2]

    return jax.vmap(fall)


RUNS = {
    "frictionless": runs("xla"),
    "coulomb": runs("xla", rb.Coulomb(0.3, restitution=0.8)),
    "rest": falls([DIE], RESTS),
    "pairs": falls([BALL, BALL], rb.LGVCI(0.01)),
    "pairs at rest": falls([DIE, DIE], RESTS),
    "joint": falls([DIE], RESTS, joints=[rb.Hinge(0, (0, 1, 0), (0, 0, 0.4))]),
    "stepped": falls([DIE, DIE], rb.MoreauJean(0.01, impacts="stepped")),
    "continuous": falls([BALL], rb.EventDriven(rb.ExactFlight(), None)),
}


@pytest.mark.long
@pytest.mark.parametrize("name", RUNS)
def test_all_of_xla_knows_a_gpu(name):
    """No part of a program, nor of its gradient, is for a CPU alone."""
    run = RUNS[name]
    assert "stablehlo.while" in exported(run)
    assert "stablehlo.while" in exported(jax.grad(lambda z: jnp.sum(run(z))))
