"""Problems of frictional contact, for the library and as dense matrices of an own making."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial.transform import Rotation

from jaxrb.stepping.cone import ConeProblem
from jaxrb.stepping.rows import WORLD, Links, Rows
from jaxrb.stepping.yielding import Yielding


class Scene:
    """Bodies with contacts and joint rows between them.

    Args:
        bodies: of each mass, principal moments, position and rotation matrix.
        contacts: of each two bodies (or `WORLD` as the second), the place, and the normal into the
            first body.
        friction: of all contacts.
        velocity: of each body, (v, world; Omega, body frame), before impulses.
        bias: added to the normal velocities.
        pins: pairs of bodies, or a body and the world, and a place where they are held together.
    """

    def __init__(self, bodies, contacts, friction, velocity, bias=0.0, pins=()):
        self.bodies, self.contacts, self.pins = bodies, contacts, pins
        self.friction, self.free = friction, np.asarray(velocity, float)
        self.bias = np.zeros((len(contacts), 3))
        self.bias[:, 0] = bias

    def _row(self, body, place, axis):
        _, _, position, rotation = self.bodies[body]
        return axis, np.cross(rotation.T @ (place - position), rotation.T @ axis)

    @property
    def mass(self):
        """M, of shape (6 n, 6 n)."""
        return np.diag(np.concatenate([[m, m, m, *moments] for m, moments, _, _ in self.bodies]))

    def _dense(self, items, axes_of):
        rows = []
        for first, second, place, *rest in items:
            for axis in axes_of(*rest):
                row = np.zeros((len(self.bodies), 6))
                for body, sign in ((first, 1), (second, -1)):
                    if body != WORLD:
                        row[body] += sign * np.concatenate(self._row(body, place, axis))
                rows.append(row.reshape(-1))
        return np.array(rows).reshape(-1, 6 * len(self.bodies))

    @property
    def contact_rows(self):
        """G, three rows for each contact."""
        return self._dense(self.contacts, frame)

    @property
    def joint_rows(self):
        """H, three rows for each pin."""
        return self._dense(self.pins, lambda: np.eye(3))

    def check(self, impulse, reaction):
        """How far impulses (n_contacts, 3) and reactions are from a solution, by the law itself.

        Returns:
            Impulses beyond the cone [N s], velocities beyond its dual [m/s], power that should be
            zero [J], and velocities of joints [m/s].
        """
        force = self.contact_rows.T @ impulse.reshape(-1) + self.joint_rows.T @ reaction
        v = self.free.reshape(-1) + np.linalg.solve(self.mass, force)
        u = (self.contact_rows @ v).reshape(-1, 3) + self.bias
        slip, across = (np.linalg.norm(x[:, 1:], axis=1) for x in (u, impulse))
        outside = across - self.friction * impulse[:, 0]
        # With de Saxce's term, mu |u_t| <= u_n + mu |u_t| is u_n >= 0.
        power = (u * impulse).sum(1) + self.friction * slip * impulse[:, 0]
        worst = [outside.max(initial=0), (-u[:, 0]).max(initial=0), np.abs(power).max(initial=0)]
        return (*worst, np.abs(self.joint_rows @ v).max(initial=0)), u

    def problem(self, dtype=float, **changes):
        """The problem as the library has it."""
        n, m = len(self.bodies), len(self.contacts)
        inertia = np.stack([np.diag(moments) for _, moments, _, _ in self.bodies], axis=-1)
        numbers = {
            "mass": np.array([body[0] for body in self.bodies]),
            "inertia": inertia,
            "inverse_inertia": np.stack([np.linalg.inv(inertia[..., k]) for k in range(n)], -1),
            "contacts": self._rows(self.contacts, frame, 3),
            "contact_rates": self._rows(self.contacts, frame, 3),
            "friction": np.full(m, self.friction),
            "bias": self.bias.T,
            "active": np.ones(m, bool),
            "joints": self._rows(self.pins, lambda: np.eye(3), 1),
            "joint_rates": self._rows(self.pins, lambda: np.eye(3), 1),
            "drift": np.zeros(3 * len(self.pins)),
            "free": self.free.reshape(n, 6).T,
            "error": np.zeros(1),
            "pressed": np.zeros(0),
            "yielding": Yielding(np.zeros(0), np.zeros(0), None),
        } | changes

        def convert(x):
            return jnp.asarray(x, bool if jnp.issubdtype(jnp.result_type(x), bool) else dtype)

        return ConeProblem(
            **{
                name: jax.tree.map(convert, value)
                if isinstance(value, Rows | Yielding)
                else convert(value)
                for name, value in numbers.items()
            }
        )

    def _rows(self, items, axes_of, k):
        """Items of k rows each."""
        sides, directions, levers = [], [], ([], [])
        for first, second, place, *rest in items:
            axes = list(axes_of(*rest))
            for start in range(0, len(axes), k):
                own = axes[start : start + k]
                sides.append((first, second))
                directions.append(own)
                for lever, body in zip(levers, (first, second), strict=True):
                    moved = body != WORLD
                    lever.append([self._row(body, place, a)[1] if moved else a * 0 for a in own])
        shape = lambda x: np.moveaxis(np.array(x, float).reshape(-1, k, 3), 0, -1)  # noqa: E731
        direction, first, second = (shape(x) for x in (directions, *levers))
        return Rows(direction, (first, second), Links(sides, len(self.bodies)))


def frame(normal):
    """The normal and two tangents."""
    normal = np.asarray(normal, float)
    helper = np.eye(3)[np.argmin(np.abs(normal))]
    first = np.cross(normal, helper)
    first /= np.linalg.norm(first)
    return normal, first, np.cross(normal, first)


UP = np.array([0.0, 0.0, 1.0])


def box(half, position, rotation=None, density=1000.0):
    """The numbers of a uniform box."""
    x, y, z = half
    m = 8 * density * x * y * z
    moments = m / 3 * np.array([y * y + z * z, x * x + z * z, x * x + y * y])
    return m, moments, np.asarray(position, float), np.eye(3) if rotation is None else rotation


def tower(n, half=(0.1, 0.1, 0.1), friction=0.5, velocity=None, masses=None, seed=0):
    """Boxes on top of each other, each touching the one below it with four corners; they are
    offset by up to a tenth of their size."""
    rng = np.random.default_rng(seed)
    bodies, contacts, below = [], [], np.zeros(2)
    for k in range(n):
        at = below + 0.1 * half[0] * rng.uniform(-1, 1, 2) if k else below
        body = box(half, (*at, (2 * k + 1) * half[2]))
        scale = 1.0 if masses is None else masses[k] / body[0]
        bodies.append((body[0] * scale, body[1] * scale, *body[2:]))
        low = np.maximum(at, below) - half[:2]
        high = np.minimum(at, below) + half[:2]
        for x in (low[0], high[0]):
            for y in (low[1], high[1]):
                place = np.array([x, y, 2 * k * half[2]])
                contacts.append((k, k - 1 if k else WORLD, place, UP))
        below = at
    if velocity is None:
        velocity = np.zeros((n, 6))
        velocity[:, 2] = -9.81 * 0.005
    return Scene(bodies, contacts, friction, velocity)


def pile(n, seed, friction=0.4):
    """Balls in a heap that touch their neighbours, at random velocities."""
    rng = np.random.default_rng(seed)
    places = [np.zeros(3)]
    while len(places) < n:
        step = Rotation.random(random_state=rng).as_matrix()[0]
        place = places[rng.integers(len(places))] + 0.2 * step
        if min(np.linalg.norm(place - other) for other in places) > 0.2 - 1e-9:
            places.append(place)
    masses = rng.uniform(0.5, 2, n)
    bodies = [
        (m, np.full(3, 0.004 * m), place, np.eye(3))
        for m, place in zip(masses, places, strict=True)
    ]
    contacts = []
    for j in range(n):
        for i in range(j):
            apart = places[j] - places[i]
            distance = np.linalg.norm(apart)
            # Some that are nearly in contact are taken for closed: more than a tree.
            if distance < 0.23:
                normal = apart / distance
                contacts.append((j, i, (places[i] + places[j]) / 2, normal))
    return Scene(bodies, contacts, friction, rng.normal(size=(n, 6)))
