"""Flight without steps: a coin toss, a racket, the convergence of a scheme, a momentum sphere.

`EventDriven(ExactFlight(), dt=None)` flies a free body from impact to impact in closed form.

Coin: which face is up (white: heads, as at the start) by the speed and the spin with which a coin
is flipped, at the moment in which it touches the floor, and when it has bounced until it lies. The
lines are Keller's (The probability of heads, 1986): the coin stands upright when its centre is back
on the floor, which its edge reaches a little earlier. Bounces mix the bands, up to where the spin
is small (Diaconis, Holmes and Montgomery, Dynamical bias in the coin toss, 2007).
Racket: a plate spun about its middle axis turns over again and again (Dzhanibekov). The times at
which it does so are those of the elliptic integral, 3232 of them in 10^4 s, in three flights.
Steps: the error of the first impacts of Tran and Leok's Case I by the step size: of order 2, and
none in continuous time but round-off.
Sphere: the angular momentum of a free body in its own frame goes along curves of equal energy,
about the axis of the least moment (blue) or the largest (orange); between them the separatrix.

Run: python examples/continuous_time.py [--out DIR]
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from scipy.special import ellipkm1

import jaxrb as rb
from jaxrb import viz
from jaxrb.viz.figure import BLACK, BLUE, ORANGE

GRAVITY = 9.80665
METHOD = rb.EventDriven(rb.ExactFlight(), dt=None)
# A coin: radius and half of its thickness [m], mass [kg], how high it is flipped from [m].
RADIUS, HALF, MASS, HEIGHT = 0.012, 0.001, 0.005, 0.05
SPEEDS, SPINS = (0.5, 4.0), (10.0, 200.0)  # [m/s], [rad/s]
# Impacts of Case I by Newton's equations [s], by Taylor series in 24 digits.
IMPACTS = np.array([2.6491323431753971, 4.8945305294234769, 5.3520612519070436])
STEPS = (0.02, 0.01, 0.005, 0.0025, 0.00125)  # [s]


def coin(restitution: float) -> rb.World:
    """A coin over a smooth floor."""
    body = rb.RigidBody(rb.Cylinder(RADIUS, HALF), MASS)
    law = rb.Frictionless(restitution)
    return rb.World([body], [rb.HalfSpace()], gravity=(0, 0, -GRAVITY), contact_law=law)


def flipped(speed, spin) -> rb.State:
    """Heads up, about a horizontal diameter."""
    zero = jnp.zeros_like(speed)
    upright = jnp.stack([zero + 1, zero, zero, zero])[None]
    return rb.State(
        jnp.stack([zero, zero, zero + HEIGHT])[None],
        upright,
        jnp.stack([zero, zero, speed])[None],
        jnp.stack([spin, zero, zero])[None],
    )


def heads(state: rb.State) -> jax.Array:
    return state.rotation_matrix[..., 0, 2, 2] > 0


def toss(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Speeds (n,), spins (n,), and which face is up, shape (n, n), at the first touch and in the
    end."""
    speeds, spins = jnp.linspace(*SPEEDS, n), jnp.linspace(*SPINS, n)
    speed, spin = (grid.reshape(-1) for grid in jnp.meshgrid(speeds, spins))
    hard, soft = coin(1.0), coin(0.5)

    def at_touch(speed, spin):
        # Until the centre is on the floor; the edge is there a little earlier.
        fall = (speed + jnp.sqrt(speed**2 + 2 * GRAVITY * HEIGHT)) / GRAVITY
        save = rb.SaveAt(final=True, impacts=1)
        sol = rb.simulate(hard, flipped(speed, spin), METHOD, fall, save=save, throw=False)
        return heads(sol.impacts.before)[0]

    def in_the_end(speed, spin):
        # Where bounces accumulate the simulation ends, with a result code.
        sol = rb.simulate(soft, flipped(speed, spin), METHOD, 10.0, throw=False)
        return heads(sol.final)

    faces = (rb.parallel_vmap(which)(speed, spin) for which in (at_touch, in_the_end))
    first, last = (np.asarray(face).reshape(n, n) for face in faces)
    return np.asarray(speeds), np.asarray(spins), first, last


def draw_toss(n: int, out: Path) -> float:
    """The map; returns the part of the tosses whose first face agrees with Keller's formula."""
    speeds, spins, first, last = toss(n)
    figure, (left, right) = viz.new_figure(1, 2, size=(7.0, 3.2), sharey=True)
    shades = mpl.colors.ListedColormap([ORANGE, "white"])
    for ax, face, title in ((left, first, "at the first touch"), (right, last, "in the end")):
        ax.pcolormesh(speeds, spins, face, cmap=shades, vmin=0, vmax=1, rasterized=True)
        ax.set_xlabel("speed [m/s]")
        ax.set_title(title)
    time = (speeds + np.sqrt(speeds**2 + 2 * GRAVITY * HEIGHT)) / GRAVITY
    for k in range(int(SPINS[1] * time[-1] / np.pi) + 1):
        bound = (k + 0.5) * np.pi / time
        left.plot(speeds, bound, color=BLACK, linewidth=0.4)
    left.set_ylim(*SPINS)
    left.set_ylabel("spin [rad/s]")
    viz.save_figure(figure, out / "coin.png")
    keller = np.cos(spins[:, None] * time[None]) > 0
    return float(np.mean(keller == first))


def turns_over(momentum: np.ndarray, moments: np.ndarray, t1: float) -> np.ndarray:
    """When the spin about the middle axis changes its sign, if it begins without one about the
    last, and nearer to the first axis (Landau and Lifshitz, Mechanics, section 37)."""
    a, b, c = moments
    first, middle, _ = momentum**2 / moments  # twice the energies
    steep = (c - a) * first + (c - b) * middle
    rate = np.sqrt((b - a) * steep / (a * b * c))
    quarter = ellipkm1((c - a) * first / steep) / rate
    return quarter * np.arange(1, t1 / quarter, 2)


def draw_racket(out: Path) -> np.ndarray:
    """The spin of a plate about its middle axis; returns errors of the times it turns over at."""
    t1 = 1e4
    body = rb.RigidBody(rb.Box((0.08, 0.04, 0.005)), 0.2)
    moments = np.diag(np.asarray(body.inertia_matrix()))
    spin = np.array([0.02, 6.0, 0.0])
    times = turns_over(moments * spin, moments, t1)
    world = rb.World([body], gravity=(0, 0, 0))
    state = rb.State([[0, 0, 0.0]], [[1.0, 0, 0, 0]], [[0, 0, 0.0]], [spin])

    def spins(method, ts, **options):
        sol = rb.simulate(world, state, method, t1, save=rb.SaveAt(ts=ts), **options)
        return np.asarray(sol.states.angular_velocity[:, 0])

    def errors(method, **options):
        omega = spins(method, times, **options)
        rate = (moments[2] - moments[0]) / moments[1] * omega[:, 2] * omega[:, 0]
        return np.abs(omega[:, 1] / rate)

    exact, stepped = errors(METHOD), errors(rb.LGVCI(0.02), max_steps=round(t1 / 0.02) + 1)
    figure, (first, last, right) = viz.new_figure(1, 3, size=(9.0, 2.8))
    for ax, begin in ((first, 0.0), (last, t1 - 20)):
        ts = np.linspace(begin, begin + 20, 400)
        ax.plot(ts, spins(METHOD, ts)[:, 1], color=BLUE)
        shown = times[(times >= begin) & (times <= begin + 20)]
        ax.plot(shown, 0 * shown, "o", color=ORANGE, markersize=4)
        ax.ticklabel_format(useOffset=False)
        ax.set_xlabel("time [s]")
    last.set_yticklabels([])
    first.set_ylabel("spin about the middle axis [rad/s]")
    period = times[1] - times[0]
    good = stepped < period / 4  # later ones are nearer to another turn
    far = np.argmin(good) if not good.all() else len(good)
    right.loglog(times[:far], stepped[:far], color=BLACK, label="LGVCI, 20 ms")
    right.loglog(times, np.maximum(exact, 1e-16), color=BLUE, label="continuous time")
    right.set_xlabel("time [s]")
    right.set_ylabel("error of the time [s]")
    right.legend()
    viz.save_figure(figure, out / "racket.png")
    return exact


def draw_steps(out: Path) -> tuple[np.ndarray, np.ndarray]:
    """Errors of the impact times: with steps, shape (n_steps, 3), and without, shape (3,)."""
    body = rb.RigidBody(rb.Ellipsoid((2.0, 3.0, 4.0)), 1.0)
    world = rb.World([body], [rb.HalfSpace()], gravity=(0, 0, -GRAVITY))
    state = rb.State([[0, 0, 10.0]], [[1.0, 0, 0, 0]], [[0, 0, 10.0]], [[0.8, -1.0, 4 / 2.6]])
    save = rb.SaveAt(final=True, impacts=3)

    def errors(method, **options):
        sol = rb.simulate(world, state, method, 5.4, save=save, **options)
        return np.abs(np.asarray(sol.impacts.time) - IMPACTS)

    most = round(5.4 / min(STEPS)) + 1
    with_steps = np.array([errors(rb.LGVCI(h), max_steps=most) for h in STEPS])
    without = errors(METHOD)
    figure, ax = viz.new_figure(size=(4.5, 3.2))
    for k, color in enumerate((BLUE, ORANGE, BLACK)):
        ax.loglog(STEPS, with_steps[:, k], "o-", color=color, label=f"impact {k + 1}")
        ax.axhline(max(without[k], 2e-16), color=color, linestyle=":")
    ax.set_xticks(STEPS, [f"{1e3 * h:g}" for h in STEPS])
    ax.minorticks_off()
    ax.set_xlabel("step size [ms]")
    ax.set_ylabel("error of the time [s]")
    ax.set_title("LGVCI; dotted: continuous time")
    ax.legend()
    viz.save_figure(figure, out / "steps.png")
    return with_steps, without


def draw_sphere(out: Path) -> float:
    """The momentum sphere; returns by how much the energy changes along the curves."""
    moments = jnp.array([1.0, 2.0, 3.0])
    world = rb.World([rb.RigidBody(rb.Sphere(0.1), 1.0, moments)], gravity=(0, 0, 0))
    still, upright = jnp.zeros((1, 3)), jnp.eye(1, 4)
    ts = np.linspace(0.0, 30.0, 601)
    angles = np.deg2rad([10, 25, 40, 54.0])
    near_first = [(np.cos(a), 0.0, np.sin(a)) for a in angles]
    near_last = [(np.sin(a), 0.0, np.cos(a)) for a in np.deg2rad([10, 22, 34])]
    starts = np.array(near_first + near_last)
    starts = np.concatenate([starts, -starts])

    def curve(momentum):
        state = rb.State(still, upright, still, (momentum / moments)[None])
        sol = rb.simulate(world, state, METHOD, 30.0, save=rb.SaveAt(ts=ts))
        return sol.states.angular_velocity[:, 0] * moments

    curves = np.asarray(jax.vmap(curve)(jnp.asarray(starts)))
    energy = np.sum(curves**2 / np.asarray(moments), axis=-1)

    figure, ax = viz.new_figure(size=(4.0, 4.0))
    view = np.array([1.0, 0.8, 0.6]) / np.linalg.norm([1.0, 0.8, 0.6])
    right = np.cross([0, 0, 1.0], view)
    right /= np.linalg.norm(right)
    up = np.cross(view, right)
    ax.add_patch(mpl.patches.Circle((0, 0), 1.0, fill=False, color=BLACK, linewidth=0.5))
    for path in curves:
        shown = path @ view > 0
        line = np.where(shown[:, None], path, np.nan)
        about_first = path[0, 0] ** 2 / 2 > path[0, 2] ** 2 / 6
        color = BLUE if about_first else ORANGE
        ax.plot(line @ right, line @ up, color=color, linewidth=0.8)
    # The separatrix: the energy of the middle axis.
    half = np.linspace(-np.pi, np.pi, 400)
    for sign in (1, -1):
        plane = np.array([np.sqrt(0.25), 0.0, sign * np.sqrt(0.75)])
        circle = np.outer(np.cos(half), [0, 1.0, 0]) + np.outer(np.sin(half), plane)
        circle = np.where((circle @ view > 0)[:, None], circle, np.nan)
        ax.plot(circle @ right, circle @ up, color=BLACK, linewidth=1.0)
    ax.set_aspect("equal")
    ax.set_axis_off()
    viz.save_figure(figure, out / "sphere.png")
    return float(np.max(np.abs(energy / energy[:, :1] - 1)))


def main(out: Path, n: int = 160) -> tuple[float, np.ndarray, np.ndarray, np.ndarray, float]:
    """Draws all figures; returns the numbers they rest on."""
    jax.config.update("jax_enable_x64", True)
    out.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(viz.STYLE):
        agreement = draw_toss(n, out)
        racket = draw_racket(out)
        with_steps, without = draw_steps(out)
        change = draw_sphere(out)
    print(f"coin    {agreement:.1%} of the first faces are those of Keller's formula")
    print(f"racket  turns over {len(racket)} times, the last {racket[-1]:.0e} s off")
    for h, row in zip(STEPS, with_steps, strict=True):
        print(
            f"steps   h = {h:<8g} errors of three impacts [s] " + " ".join(f"{e:.1e}" for e in row)
        )
    print(
        "steps   none         errors of three impacts [s] " + " ".join(f"{e:.1e}" for e in without)
    )
    print(f"sphere  energy changed by {change:.0e}")
    return agreement, racket, with_steps, without, change


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/continuous_time"))
    return parser.parse_args(words)


if __name__ == "__main__":
    main(_arguments(None).out)
