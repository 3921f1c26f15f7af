"""How sensitive the bounces of an ellipsoid are: maps of the norm of the Jacobian of the motion.

The ellipsoid of Tran and Leok's Case I bounces over a plane without loss. `flow_map` returns the
derivative of where it is and how it moves by its start, through all impacts; a batch of it makes a
map over the spin at the start. A second batch has starts that differ by up to 5 % in all numbers.
The norm says how much a small difference has grown at most, in metres, radians and seconds.
Expected: curves along which the norm is large, where an impact more or less comes in, and finer and
finer folds with each impact. Of the 5 % starts the median is 4e2 after two impacts, 7e4 after five
and 5e8 after ten: a factor of about five per impact.

Run: python examples/sensitivity_map.py [--out DIR] [--n N]
"""

import argparse
from functools import cache, partial
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np

import jaxrb as rb
from jaxrb import optimize as ro
from jaxrb.cli.cases import CASES
from jaxrb.viz.figure import BLUE, GREY, ORANGE

METHOD = rb.EventDriven(rb.ExactFlight(), dt=None, max_impacts=64)
SPINS = (-3.0, 3.0)  # about the first and the second axis of the body [rad/s]
TIMES = (4.8, 10.6)  # of the maps [s]
LATER = np.linspace(1.0, 22.0, 22)  # of the growth [s]


@cache
def case():
    """World and start of Case I."""
    return CASES["I"].build()


@partial(rb.parallel_vmap, chunk=64)
def jacobian(state, t1):
    """The Jacobian at a time [s], and how many impacts there were."""
    world, _ = case()
    by_state = ro.flow_map(world, state, METHOD, t1, throw=False).by_state
    return by_state, rb.simulate(world, state, METHOD, t1, throw=False).impacts.count


def norms(states, times):
    """Of many states: the norm of each Jacobian, and the numbers of impacts."""
    by_state, count = jacobian(states, jnp.asarray(times))
    # By NumPy: singular values in several XLA programs at once can make its threads wait for each
    # other for ever.
    return np.linalg.norm(by_state, ord=2, axis=(1, 2)), np.asarray(count)


def spun(n):
    """The start with other spins, shape (n n,), row by row of a map."""
    about_1, about_2 = (
        g.ravel() for g in np.meshgrid(np.linspace(*SPINS, n), np.linspace(*SPINS, n))
    )
    states = repeated(n * n)
    spin = states.angular_velocity.at[:, 0, 0].set(about_1).at[:, 0, 1].set(about_2)
    return rb.State(states.position, states.quaternion, states.velocity, spin)


def nearby(n, seed=0):
    """Starts that differ by up to 5 % in every number."""
    rng = np.random.default_rng(seed)
    states = repeated(n)
    position, quaternion, velocity, spin = (
        leaf * rng.uniform(0.95, 1.05, leaf.shape)
        for leaf in (states.position, states.quaternion, states.velocity, states.angular_velocity)
    )
    unit = quaternion / jnp.linalg.norm(quaternion, axis=-1, keepdims=True)
    return rb.State(position, unit, velocity, spin)


def repeated(n):
    _, start = case()
    return jax.tree.map(lambda leaf: jnp.repeat(leaf[None], n, axis=0), start)


def main(out=None, n=200, n_starts=64):
    """Returns the norms of the maps by time, and the medians by the number of impacts."""
    case()  # not while the program is traced: its numbers would be the tracer's
    maps = {t: norms(spun(n), np.full(n * n, t))[0].reshape(n, n) for t in TIMES}
    starts = jax.tree.map(lambda leaf: jnp.repeat(leaf, len(LATER), axis=0), nearby(n_starts))
    found, count = norms(starts, np.tile(LATER, n_starts))
    medians = {int(k): float(np.median(found[count == k])) for k in range(1, 12)}
    print("impacts     " + "".join(f"{k:9d}" for k in medians))
    print("median norm " + "".join(f"{value:9.1e}" for value in medians.values()))
    ks = np.array(list(medians))
    slope = np.polyfit(ks, np.log([medians[k] for k in ks]), 1)[0]
    print(f"growth per impact: a factor of {np.exp(slope):.1f}")
    if out is not None:
        with mpl.rc_context(rb.viz.STYLE):
            draw(maps, found, count, medians, Path(out) / "sensitivity_map.png")
    return maps, medians


def draw(maps, found, count, medians, path):
    """The maps, and the norms of the 5 % starts by the number of impacts."""
    figure, axes = rb.viz.new_figure(1, 3, size=(12, 4.0), width_ratios=(1, 1, 1.1))
    shades = None
    for ax, (time, values) in zip(axes[:2], maps.items(), strict=True):
        ticks = np.linspace(*SPINS, len(values))
        shades = ax.pcolormesh(ticks, ticks, np.log10(values), vmin=1, vmax=7, rasterized=True)
        ax.set(aspect="equal", xlabel="spin about axis 1 [rad/s]", ylabel="about axis 2 [rad/s]")
        ax.set_title(f"after {time:g} s", loc="left")
    figure.colorbar(shades, ax=axes[:2], label="log10 of the norm", extend="max", shrink=0.8)
    growth = axes[2]
    shift = np.random.default_rng(1).uniform(-0.2, 0.2, len(count))
    growth.semilogy(count + shift, found, ".", color=GREY, ms=2, label="each start and time")
    growth.semilogy(list(medians), list(medians.values()), "o-", color=ORANGE, label="median")
    ks = np.array(list(medians))
    growth.semilogy(
        ks, medians[1] * 5.0 ** (ks - 1), "--", color=BLUE, label="five-fold per impact"
    )
    growth.set(xlabel="impacts", ylabel="norm of the Jacobian", xlim=(0.5, 11.5))
    growth.set_title("starts within 5 %", loc="left")
    growth.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    rb.viz.save_figure(figure, path)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--out", default="examples/figures", help="folder of the picture")
    parser.add_argument("--n", type=int, default=200, help="points of a map along each side")
    arguments = parser.parse_args()
    main(arguments.out, arguments.n)
