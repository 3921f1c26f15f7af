"""Impacts to test with, and two independent ways to solve them."""

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

# Icosahedron on tetrahedron: (13) of Jia and Wang, symmetrised, and one of the velocities that
# its captions allow (they do not fix it).
ICOSAHEDRON = np.array(
    [[11.5984, -0.910367, 2.442355], [-0.910367, 9.90134, 1.957465], [2.442355, 1.957465, 2.59042]]
)
APPROACH = np.array([-0.2619763422694, 0.3863287259736, -0.07717447725])
BODY_VELOCITY = np.array([-0.1, 0.5, 0.95])  # of the icosahedron, which the captions vary


def random_impacts(n: int, seed: int):
    """W of two random boxes each, hit at a random point; v, mu in [0, 2], e in [0, 1]."""
    rng = np.random.default_rng(seed)

    def response():
        mass = np.exp(0.7 * rng.normal(size=n))
        half = rng.uniform(0.1, 1, size=(n, 3))
        square = half**2
        inertia = (square.sum(1, keepdims=True) - square) / 3 * mass[:, None]
        rotation = np.linalg.qr(rng.normal(size=(n, 3, 3)))[0]
        arm = np.einsum("nij,nj->ni", rotation, rng.uniform(-1, 1, size=(n, 3)) * half)
        cross = np.cross(np.eye(3)[None], arm[:, None, :])
        inverse = np.einsum("nij,nj,nkj->nik", rotation, 1 / inertia, rotation)
        return np.eye(3) / mass[:, None, None] + cross @ inverse @ np.swapaxes(cross, 1, 2)

    velocity = rng.normal(size=(n, 3))
    velocity[:, 2] = -np.abs(velocity[:, 2])
    return response() + response(), velocity, rng.uniform(0, 2, n), rng.uniform(0, 1, n)


def by_integration(w, v, mu, e):
    """Stronge's impulse and the order of the events, by SciPy's integration of (31) and (11).

    Off the origin nothing but the definition is used. Within 1e-9 of it the contact is taken
    to reach it on a straight line.
    """
    b, d = w[:2, :2], w[:2, 2]
    resist = np.linalg.solve(b, d)
    scale = np.linalg.norm(v)

    def rates(_, y, push):
        tangential = -mu * y[:2] / np.linalg.norm(y[:2]) if push is None else push
        return [*(w @ [*tangential, 1.0]), -y[2], *tangential]

    def vanishes(_, y, push):
        return y[2] if not compressed else -y[3]

    def slows(_, y, push):
        return 1.0 if push is not None else y[0] ** 2 + y[1] ** 2 - (1e-9 * scale) ** 2

    vanishes.terminal = slows.terminal = True
    vanishes.direction, slows.direction = 1, -1
    state, at, push, compressed, word = np.array([*v, 0.0, 0.0, 0.0]), 0.0, None, False, ""
    while True:
        span = (at, at + 1e4 * scale / w[2, 2])
        course = solve_ivp(
            rates,
            span,
            state,
            args=(push,),
            events=(vanishes, slows),
            method="DOP853",
            rtol=1e-12,
            atol=1e-13 * scale,
        )
        at, state = course.t[-1], course.y[:, -1].copy()
        if course.t_events[0].size and compressed:
            return np.array([state[4], state[5], at]), word + "r"
        if course.t_events[0].size:
            compressed, word = True, word + "c"
            state[2:4] = 0.0, e**2 * state[3]
            continue
        speed = np.linalg.norm(state[:2])
        direction = state[:2] / speed
        step = -speed / (direction @ (d - mu * b @ direction))
        at, word = at + step, word + "s"
        state += step * np.array(rates(at, state, None))
        state[:2] = 0.0
        push = -resist
        if np.linalg.norm(resist) > mu:
            push = -mu * _centrifugal(b, d, mu)


def _centrifugal(b, d, mu):
    def direction(growth):
        return np.linalg.solve(growth * np.eye(2) + mu * b, d)

    size = np.linalg.norm(d)
    return direction(brentq(lambda g: np.linalg.norm(direction(g)) - 1, 0, size, xtol=1e-15))


def in_polar_time(w, v, mu, e):
    """Stronge's impulse of an impact that sticks after compression, if at all: "csr" or "cr".

    In the time tau with dI_z = r dtau the equations of angle and ln r have no singularity;
    the sliding ends at infinite tau.
    """
    b, d = w[:2, :2], w[:2, 2]

    def rates(_, y):
        angle, log_speed, _, _, _, normal, _ = y
        direction = np.array([np.cos(angle), np.sin(angle)])
        push = d - mu * b @ direction
        speed = np.exp(log_speed)
        impulse = np.array([*(-mu * direction), 1.0]) * speed
        turning = direction[0] * push[1] - direction[1] * push[0]
        return [turning, direction @ push, *impulse, w[2] @ impulse, -normal * speed]

    def compressed(_, y):
        return y[5]

    def restored(_, y):
        return y[6]

    compressed.terminal = restored.terminal = True
    compressed.direction, restored.direction = 1, -1
    options = {"method": "DOP853", "rtol": 1e-13, "atol": 1e-17}
    start = [np.arctan2(v[1], v[0]), np.log(np.hypot(v[0], v[1])), 0, 0, 0, v[2], 0]
    first = solve_ivp(rates, (0, 100), start, events=compressed, **options).y[:, -1]
    first[5], first[6] = 0.0, e**2 * first[6]
    span = (0, 40 / np.linalg.norm(b, 2) / mu * 4)
    course = solve_ivp(rates, span, first, events=restored, **options)
    second = course.y[:, -1]
    if course.t_events[0].size:
        return second[2:5]
    assert second[1] < -36  # sliding has ended
    push = np.array([*-np.linalg.solve(b, d), 1.0])
    normal, energy, slope = second[5], second[6], w[2] @ push
    return second[2:5] + push * (np.sqrt(normal**2 + 2 * slope * energy) - normal) / slope
