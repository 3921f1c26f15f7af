"""References, and the tracking controllers of Lee, Leok and McClamroch (2010), for the tests.

The controllers are written with NumPy in rotation matrices from the paper, and all derivatives by
hand.
"""

import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

GRAVITY = np.array([0.1, -0.2, -9.81])  # not quite along an axis
# Of `screw`: rate about z, size and rate of the wobble about x, size and rate of the path.
SCREW = np.array([0.9, 0.5, 1.2, 0.7, 1.1])
QUADROTOR = np.array([0.8, 1.3, 0.6])  # of `heading_path`: size and rate of it, rate of the heading


def screw(t, args):
    """A pose that moves on a helix, turns about z and wobbles about x: R_d = R_z(a) R_x(b)."""
    spin, wobble, w, size, rate = args
    half_a, half_b = spin * (t + jnp.sin(t) / 4) / 2, wobble * jnp.sin(w * t) / 2
    position = [size * jnp.cos(rate * t), size * jnp.sin(rate * t), size * rate * t / 3]
    c, s = jnp.cos(half_a), jnp.sin(half_a)
    d, u = jnp.cos(half_b), jnp.sin(half_b)
    return jnp.stack(position), jnp.stack([c * d, c * u, s * u, s * d])


def screw_by_hand(t, args):
    """x_d, its first two derivatives, R_d, Omega_d and its derivative."""
    spin, wobble, w, size, rate = args
    c, s = np.cos(rate * t), np.sin(rate * t)
    path = (
        size * np.array([c, s, rate * t / 3]),
        size * rate * np.array([-s, c, 1 / 3]),
        -size * rate**2 * np.array([c, s, 0.0]),
    )
    a, da, dda = spin * (t + np.sin(t) / 4), spin * (1 + np.cos(t) / 4), -spin * np.sin(t) / 4
    b = wobble * np.sin(w * t)
    db, ddb = wobble * w * np.cos(w * t), -(w**2) * b
    about_z = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
    about_x = np.array([[1, 0, 0], [0, np.cos(b), -np.sin(b)], [0, np.sin(b), np.cos(b)]])
    # The z axis seen from the turned frame is (0, sin b, cos b).
    omega = np.array([db, da * np.sin(b), da * np.cos(b)])
    change = np.array(
        [
            ddb,
            dda * np.sin(b) + da * db * np.cos(b),
            dda * np.cos(b) - da * db * np.sin(b),
        ]
    )
    return path, about_z @ about_x, omega, change


def heading_path(t, args):
    """An upright figure of eight, and a heading that turns about z."""
    size, rate, turn = args
    position = [size * jnp.sin(rate * t), size * jnp.sin(2 * rate * t) / 2, size * jnp.cos(t)]
    return jnp.stack(position), jnp.stack([jnp.cos(turn * t), jnp.sin(turn * t), 0.1 + 0 * t])


def heading_path_by_hand(t, args):
    """Four derivatives of the position and two of the heading, with the values."""
    size, rate, turn = args

    def sine(w, k):  # the k-th derivative of sin(w t)
        return w**k * np.sin(w * t + k * np.pi / 2)

    path = [
        size * np.array([sine(rate, k), sine(2 * rate, k) / 2, np.cos(t + k * np.pi / 2)])
        for k in range(5)
    ]
    heading = [np.array([sine(turn, k + 1) / turn, sine(turn, k), 0.0]) for k in range(3)]
    heading[0][2] = 0.1
    return path, heading


def hat(a):
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


def vee(matrix):
    return np.array([matrix[2, 1], matrix[0, 2], matrix[1, 0]])


def attitude_errors(R, omega, R_d, omega_d):
    """e_R, e_Omega and Psi."""
    e_R = vee(R_d.T @ R - R.T @ R_d) / 2
    return e_R, omega - R.T @ R_d @ omega_d, np.trace(np.eye(3) - R_d.T @ R) / 2


def errors_of(t, state, args):
    """e_x, e_v, e_R, e_Omega and Psi of a body, given as (x, v, R, Omega), from `screw`."""
    x, v, R, omega = state
    (x_d, v_d, _), R_d, omega_d, _ = screw_by_hand(t, args)
    return x - x_d, v - v_d, *attitude_errors(R, omega, R_d, omega_d)


def moment(R, omega, desired, J, k_R, k_Omega):
    R_d, omega_d, change = desired
    e_R, e_Omega, _ = attitude_errors(R, omega, R_d, omega_d)
    back = hat(omega) @ R.T @ R_d @ omega_d - R.T @ R_d @ change
    return -k_R * e_R - k_Omega * e_Omega + np.cross(omega, J @ omega) - J @ back


def control_of_pose(t, state, args, mass, J, gains):
    """Force and torque that follow `screw`."""
    k_x, k_v, k_R, k_Omega = gains
    _, _, R, omega = state
    (_, _, a_d), *desired = screw_by_hand(t, args)
    e_x, e_v, *_ = errors_of(t, state, args)
    force = -k_x * e_x - k_v * e_v + mass * (a_d - GRAVITY)
    return force, moment(R, omega, desired, J, k_R, k_Omega)


def unit_and_derivatives(a, da, dda):
    """Of a/|a|."""
    n = np.linalg.norm(a)
    dn = a @ da / n
    ddn = (da @ da + a @ dda - dn**2) / n
    u = a / n
    du = (da - u * dn) / n
    return u, du, (dda - 2 * du * dn - u * ddn) / n


def crossed(a, b):
    """A cross product and its two derivatives."""
    return (
        np.cross(a[0], b[0]),
        np.cross(a[1], b[0]) + np.cross(a[0], b[1]),
        np.cross(a[2], b[0]) + 2 * np.cross(a[1], b[1]) + np.cross(a[0], b[2]),
    )


def computed(t, state, args, mass, gains):
    """The thrust along the third body axis that follows `heading_path`, and R_c, Omega_c and its
    derivative."""
    k_x, k_v = gains[:2]
    x, v, R, omega = state
    path, heading = heading_path_by_hand(t, args)
    b3, db3 = R[:, 2], (R @ hat(omega))[:, 2]
    e_x, e_v = x - path[0], v - path[1]
    A = -k_x * e_x - k_v * e_v + mass * (path[2] - GRAVITY)
    f = A @ b3
    e_a = f * b3 / mass + GRAVITY - path[2]
    dA = -k_x * e_v - k_v * e_a + mass * path[3]
    df = dA @ b3 + A @ db3
    e_j = (df * b3 + f * db3) / mass - path[3]
    ddA = -k_x * e_a - k_v * e_j + mass * path[4]
    third = unit_and_derivatives(A, dA, ddA)
    second = unit_and_derivatives(*crossed(third, heading))
    first = crossed(second, third)
    R_c, dR_c, ddR_c = (np.stack(axes, axis=1) for axes in zip(first, second, third, strict=True))
    return f, (R_c, vee(R_c.T @ dR_c), vee(R_c.T @ ddR_c + dR_c.T @ dR_c))


def control_of_quadrotor(t, state, args, mass, J, gains):
    """Force and torque that follow `heading_path`."""
    _, _, R, omega = state
    f, desired = computed(t, state, args, mass, gains)
    return f * R[:, 2], moment(R, omega, desired, J, *gains[2:])


def on_heading_path(t, args, mass, gains):
    """The motion on `heading_path`: x, v, R and Omega."""
    path, _ = heading_path_by_hand(t, args)
    R, omega = np.eye(3), np.zeros(3)
    # The attitude follows from the path, the angular velocity from both.
    for _ in range(2):
        _, (R, omega, _) = computed(t, (path[0], path[1], R, omega), args, mass, gains)
    return path[0], path[1], R, omega


def closed_loop(control, args, mass, moments, gains, start, t1):
    """The motion at t1 of a free body under `control_of_pose` or `control_of_quadrotor`, to some
    1e-11: x, v, R and Omega."""
    J = np.diag(moments)

    def rate(t, y):
        state = y[:3], y[3:6], y[6:15].reshape(3, 3), y[15:]
        _, v, R, omega = state
        force, torque = control(t, state, args, mass, J, gains)
        turn = (torque - np.cross(omega, J @ omega)) / moments
        return np.concatenate([v, GRAVITY + force / mass, (R @ hat(omega)).ravel(), turn])

    y = np.concatenate([np.ravel(part) for part in start])
    end = solve_ivp(rate, (0.0, t1), y, "DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
    return end[:3], end[3:6], end[6:15].reshape(3, 3), end[15:]
