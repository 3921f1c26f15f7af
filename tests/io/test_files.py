"""jaxrb's own files: round trips bit by bit, precision, and files that are none."""

import hashlib
import json
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrb as rb
from jaxrb.io import load, save
from jaxrb.simulate import ContactForces

CORNERS = np.array([(x, y, z) for x in (0, 1) for y in (0, 2) for z in (0, 3.0)])
SHAPES = [
    rb.Box((1.0, 2.0, 3.0)),
    rb.Capsule(0.1, 0.2),
    rb.Cone(0.1, 0.2),
    rb.ConvexPolyhedron(CORNERS, pad_to=10),
    rb.Cylinder(0.1, 0.2),
    rb.Ellipsoid(np.array([0.1, 0.2, 1 / 3])),
    rb.Sphere(0.1),
    rb.Placed(rb.Scaled(rb.Sphere(0.1), 2.0), (1.0, 2.0, 3.0), (1.0, 1.0, 0.0, 0.0)),
    rb.Rounded(rb.Box((1.0, 2.0, 3.0)), 0.1),
    rb.Union(rb.Sphere(0.1), rb.Box((1.0, 2.0, 3.0))),
    rb.Intersection(rb.Sphere(1.5), rb.Complement(rb.HalfSpace())),
    rb.Difference(rb.Box((1.0, 2.0, 3.0)), rb.Cylinder(0.1, 9.0)),
]


def identical(a, b):
    """Whether trees agree in structure and bits, weak types and the sign of zero included."""
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        if eqx.is_array(x):
            assert (x.dtype, x.shape, x.weak_type) == (y.dtype, y.shape, y.weak_type)
            assert np.asarray(x).tobytes() == np.asarray(y).tobytes()
        else:
            assert type(x) is type(y) and x == y
    return True


def state(n, dtype=float, seed=0):
    draw = np.random.default_rng(seed).normal
    q = draw(size=(n, 4))
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    fields = (draw(size=(n, 3)), q, draw(size=(n, 3)), draw(size=(n, 3)))
    return rb.State(*(jnp.asarray(field, dtype) for field in fields))


def test_worlds(tmp_path):
    bodies = [rb.RigidBody(shape, 2.0, (1.0, 1.0, 1.5)) for shape in SHAPES]
    bodies.append(rb.RigidBody(rb.Cone(0.1, 0.2), jnp.asarray(3.0)))
    world = rb.World(
        bodies,
        [rb.HalfSpace((0.0, 0.6, 0.8), -1.0), rb.HalfSpace()],
        gravity=(0.0, 1e-300, -9.81),
        contact_law=rb.Coulomb(0.4, 0.8, rb.Poisson()),
        forces=[rb.ConstantForce(3, (1.0, 0.0, 0.0))],
        pairs=[(0, 1), (2, 5)],
        obstacle_pairs=[(4, 1), (0, 0), (3, 1)],
        pair_laws=[
            rb.PairLaw(rb.Frictionless(0.5), 0, other=1),
            rb.PairLaw(rb.Coulomb(0.1, 1.0, rb.Poisson()), 4, obstacle=1),
        ],
    )
    pinned = rb.World(
        [rb.RigidBody(rb.Sphere(0.1), 1.0, np.eye(3))],
        joints=[rb.Pin(0, (0.0, 0.0, -0.1))],
        contact_law=rb.Coulomb(0.4, hypothesis=rb.Newton()),
    )
    turning = rb.World(
        [rb.RigidBody(rb.Sphere(0.1))] * 2,
        joints=[
            rb.Universal(0, np.eye(3)[:2], limits=(None, (-1.0, 1.0)), stiffness=(0, 1.0)),
            rb.Gimbal(1, np.eye(3), other=0, friction=0.1),
            rb.Planar(1, np.eye(3), limits=(None, (0.0, 9.0), None)),
        ],
        forces=[rb.Motor((0, 1), (1.0, 2.0), axis=(1, 2))],
    )
    rough = rb.World([rb.RigidBody(rb.Sphere(0.1))], contact_law=rb.Rough(0.9, 0.5, 0.3))
    thing = {
        "worlds": (world, pinned, turning, rough),
        "states": [state(13), jax.vmap(lambda h: h)(state(3))],
        "method": rb.EventDriven(rb.SimoWong(), 0.01, on_zeno="rest"),
        "steps": rb.MoreauJean(0.01, 0.75, "implicit"),
        "contacts": ContactForces(
            jnp.ones((2, 3)),
            jnp.zeros(2),
            jnp.array([0, 2]),
            jnp.ones((2, 3)),
            jnp.ones((2, 3, 3)),
            jnp.array(True),
            jnp.array(1e-12),
            ((0, 1), (2, 3)),
        ),
        "notes": ("text", 1, 0.1, float("inf"), True, None, np.int32(3)),
    }
    path = tmp_path / "all.jaxrb"
    save(path, thing)
    found = load(path)
    assert identical(found["worlds"], thing["worlds"])
    assert identical(found["states"], thing["states"])
    assert found["method"] == thing["method"] and found["steps"] == thing["steps"]
    assert identical(found["contacts"], thing["contacts"])
    assert found["notes"][:6] == thing["notes"][:6] and found["notes"][6] == 3
    header = json.loads(path.read_bytes().partition(b"\n")[0])
    assert header["units"] == "SI" and header["jaxrb"] == rb.__version__
    assert header["dtype"] == "float64" and header["kind"] == "dict"
    assert [item.name for item in tmp_path.iterdir()] == ["all.jaxrb"]  # nothing temporary


@pytest.fixture(scope="module")
def bounce():
    world = rb.World([rb.RigidBody(rb.Sphere(0.5))], [rb.HalfSpace()])
    start = rb.State(
        jnp.array([[0.0, 0.0, 1.0]]),
        jnp.array([[1.0, 0.0, 0.0, 0.0]]),
        jnp.array([[1.0, 0.0, 0.1]]),
        jnp.array([[1.0, 2.0, 3.0]]),
    )
    save_at = rb.SaveAt(every=10, impacts=4)
    return world, start, rb.simulate(world, start, rb.LGVCI(0.01), 1.0, save=save_at)


def test_solutions(tmp_path, bounce):
    *_, solution = bounce
    assert solution.impacts.count > 0
    path = tmp_path / "bounce.jaxrb"
    for found in (solution, jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), solution)):
        save(path, found)
        assert identical(load(path), found)
    assert np.all(load(path).result == rb.RESULTS.successful)


def test_going_on_in_another_process(tmp_path, bounce):
    world, _, solution = bounce
    path, after = tmp_path / "here.jaxrb", tmp_path / "after.jaxrb"
    save(path, (world, solution.final))
    script = f"""
import sys, jax
jax.config.update("jax_enable_x64", True)
import jaxrb as rb
assert "jaxrb.io" not in sys.modules
from jaxrb.io import load, save
assert not {{"mujoco", "trimesh"}} & sys.modules.keys()
world, state = load({str(path)!r})
save({str(after)!r}, rb.simulate(world, state, rb.LGVCI(0.01), 1.0))
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=300)
    expected = rb.simulate(world, solution.final, rb.LGVCI(0.01), 1.0)
    assert expected.impacts.count > 0
    assert identical(load(after), expected)


def test_functions_need_a_template(tmp_path):
    def ball(radius):
        return rb.World(
            [rb.RigidBody(rb.Implicit(Ball(jnp.asarray(radius)), 2.0), 1.0, (1.0, 1.0, 1.0))]
        )

    path = tmp_path / "ball.jaxrb"
    with pytest.raises(ValueError, match=r"World.bodies\[0\].shape .* functions of yours.*like="):
        save(path, ball(1.0))
    assert not path.exists()
    save(path, ball(1.25), structure=False)
    with pytest.raises(ValueError, match="numbers of a World without its structure"):
        load(path)
    assert identical(load(path, like=ball(1.0)), ball(1.25))
    with pytest.raises(ValueError, match=r"the template has \.radius .*the file has \.bodies"):
        load(path, like=rb.Sphere(1.0))
    save(path, rb.Coulomb(0.4, 0.8), structure=False)  # as many numbers of the same shapes
    with pytest.raises(ValueError, match=r"has \.radius .*, where the file has \.restitution"):
        load(path, like=rb.Capsule(1.0, 2.0))
    with pytest.raises(ValueError, match=r"nothing more, where the file has \.friction"):
        load(path, like=eqx.tree_at(lambda law: law.friction, rb.Coulomb(0.4), 1.0))
    save(path, rb.Sphere(1.0))
    with pytest.raises(ValueError, match="leave out like="):
        load(path, like=rb.Sphere(1.0))


class Ball(eqx.Module):
    radius: jax.Array

    def __call__(self, point):
        return jnp.linalg.norm(point) - self.radius


def test_obstacles(tmp_path):
    """All are saved but those that move, which hold a function."""
    path, ball = tmp_path / "world.jaxrb", rb.RigidBody(rb.Sphere(0.1), 1.0)
    still = [rb.HalfSpace(), *SHAPES, rb.Complement(rb.Placed(rb.Sphere(1.0), (1.0, 2.0, 3.0)))]
    world = rb.World([ball], still)
    save(path, world)
    assert identical(load(path), world)
    moving = rb.Moving(rb.Sphere(1.0), lambda t, args: (jnp.zeros(3), jnp.eye(1, 4)[0]))
    with pytest.raises(ValueError, match=r"World.obstacles\[1\] .* holds functions of yours"):
        save(path, rb.World([ball], [rb.HalfSpace(), moving]))


def test_what_cannot_be_saved(tmp_path):
    path = tmp_path / "it.jaxrb"
    for thing, message in (
        ({"f": print}, r"dict\['f'\] is of the type builtin_function_or_method"),
        ({1: 2}, "keys must be strings"),
        ((1, np.array(["text"])), r"tuple\[1\] has the dtype"),
    ):
        with pytest.raises(ValueError, match=message):
            save(path, thing)
    with pytest.raises(ValueError, match="save outside of jit"):
        jax.jit(lambda x: save(path, x))(1.0)
    with pytest.raises(ValueError, match=r"suffix \.jaxrb"):
        save(tmp_path / "it.pkl", 1)


def test_precision(tmp_path):
    double, single = tmp_path / "double.jaxrb", tmp_path / "single.jaxrb"
    world = rb.World([rb.RigidBody(rb.Sphere(jnp.float64(1 / 3)))])
    save(double, (world, state(2)))
    save(single, state(2, "float32"))
    assert identical(load(single), state(2, "float32"))  # as it was, in 64-bit mode
    assert load(single, dtype="float64").position.dtype == "float64"
    rounded = load(double, dtype="float32")
    assert rounded[0].bodies[0].shape.radius == np.float32(1 / 3)
    assert rounded[1].position.dtype == "float32"
    with jax.enable_x64(False):
        with pytest.raises(ValueError, match=r'(?s)32-bit mode.*dtype="float32"'):
            load(double)
        with pytest.raises(ValueError, match="jax_enable_x64"):
            load(single, dtype="float64")
        assert load(double, dtype=jnp.float32)[1].position.dtype == "float32"
        assert load(single).position.dtype == "float32"
    for unknown in ("int32", "double precision"):
        with pytest.raises(ValueError, match=f"dtype must be .*got '{unknown}'"):
            load(single, dtype=unknown)


def sealed(content):
    """With the checksum that belongs to it."""
    return content + hashlib.sha256(content).digest()


def test_other_files(tmp_path):
    path = tmp_path / "it.jaxrb"
    with pytest.raises(FileNotFoundError, match=r"it\.jaxrb"):
        load(path)
    save(path, state(3))
    whole = path.read_bytes()
    line, _, payload = whole[:-32].partition(b"\n")
    header = json.loads(line)
    assert sealed(line + b"\n" + payload) == whole

    def changed(**entries):
        return json.dumps({**header, **entries}).encode() + b"\n" + payload

    first = {**header, "format_version": 1, "sha256": hashlib.sha256(payload).hexdigest()}
    for content, message in {
        b"": "is no file of jaxrb",
        b"PK\x03\x04": "is no file of jaxrb",
        whole[:5]: "is truncated: it has 5 bytes",
        whole[:200]: "is truncated",
        whole[:-1]: r"is truncated: it has \d+ of \d+ bytes",
        whole + b"\0": r"is damaged: it has \d+ of \d+ bytes",
        whole[:-1] + bytes([whole[-1] ^ 1]): "checksum",
        json.dumps(first).encode() + b"\n" + payload: r"has version 1 .*version 3.*Write it anew",
        sealed(changed(format_version=4, jaxrb="9.0")): r"version 4 .*jaxrb 9.0.*Install a newer",
        changed(format_version=4) + bytes(32): "or has another version of the format",
        sealed(changed(tree={"class": "Popen", "fields": {}})): "does not fit jaxrb .*Popen",
        sealed(changed(tree={"class": "Sphere", "fields": {}})): "its Sphere has the fields",
        sealed(changed(tree={"array": 99})): "does not fit jaxrb",
        sealed(changed(arrays=[{"shape": [2], "dtype": "O", "weak": False}])): "not understood",
        line[:20] + b"}\n": "is damaged",
    }.items():
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message) as error:
            load(path)
        assert str(path) in str(error.value)


def test_every_bit_counts(tmp_path):
    """Of the line that says which number is which as of the numbers, and no byte is too much."""
    path = tmp_path / "it.jaxrb"
    save(path, (rb.LGVCI(0.01), rb.Coulomb(0.4, 0.8), rb.Sphere(0.1)))
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        spoiled = bytearray(whole)
        spoiled[bit // 8] ^= 1 << bit % 8
        refused(path, spoiled)
    for length in range(len(whole)):
        refused(path, whole[:length])
    for more in (b"\0", b"\n", whole[-32:], whole):
        refused(path, whole + more)
    path.write_bytes(whole)
    assert load(path)[0] == rb.LGVCI(0.01)


def refused(path, content):
    path.write_bytes(content)
    with pytest.raises(ValueError) as error:
        load(path)
    assert str(path) in str(error.value)
