"""What a box is made of, from its noisy poses in one toss.

A box is tossed over a floor; it slides and tumbles through six impacts. Its pose was measured 200
times, with 1 mm and half a degree of noise. Restitution, friction and the moments of inertia over
the mass are unknown, and guessed 30 % wrong; nothing is known of the first state.
Expected: the estimates are within a percent of the truth, and chi-square over the
degrees of freedom is about one.

Run: python examples/fit_toss.py [--out DIR]
"""

import argparse
from pathlib import Path

import jax
import matplotlib as mpl
import numpy as np
from replays import write_replay

import jaxrb as rb
from jaxrb import optimize as ro

HALF_EXTENTS = np.array([0.06, 0.05, 0.04])
METHOD = rb.LGVCI(dt=0.01, on_zeno="stop")
TS = np.linspace(0.0, 0.65, 200)
SD = (1e-3, np.radians(0.5))
MOMENTS = (np.sum(HALF_EXTENTS**2) - HALF_EXTENTS**2) / 3  # of a box of 1 kg [kg m^2]
RESTITUTION, FRICTION = 0.6, 0.25


def world_of(restitution, friction, moments):
    """A box of 1 kg above a floor."""
    return rb.World(
        [rb.RigidBody(rb.Box(HALF_EXTENTS), 1.0, moments)],
        [rb.HalfSpace()],
        contact_law=rb.Coulomb(friction, restitution),
    )


def measure(seed=0):
    """Noisy poses of a toss."""
    quaternion = np.array([[0.1257, -0.1321, 0.6404, 0.7461]])
    toss = rb.State(
        [[0.0, 0.0, 0.5]],
        quaternion / np.linalg.norm(quaternion),
        [[1.1, 0.6, -0.3]],
        [[3.0, -5.0, 4.0]],
    )
    true = world_of(RESTITUTION, FRICTION, MOMENTS)
    sol = rb.simulate(true, toss, METHOD, TS[-1], save=rb.SaveAt(ts=TS))
    noise = np.random.default_rng(seed)
    position = np.asarray(sol.states.position) + noise.normal(0, SD[0], (TS.size, 1, 3))
    turns = noise.normal(0, SD[1], (TS.size, 1, 3))
    return ro.Poses(TS, position, rb.lie.quaternion.retract(sol.states.quaternion, turns), SD)


def main(out=None):
    """Returns the fit."""
    data = measure()
    guess = world_of(0.7 * RESTITUTION, 1.3 * FRICTION, MOMENTS * [0.75, 1.1, 1.0])
    charts = {
        "contact_law.restitution": ro.Bounded(0, 1),
        "contact_law.friction": ro.Positive(),
        "bodies[0].inertia": ro.PhysicalInertia(),
    }
    fit = ro.fit(guess, data, ro.Parameters(guess, charts), METHOD)
    print(fit)
    if out is not None:
        draw(data, fit, Path(out) / "fit_toss.png")
    return fit


def draw(data, fit, path):
    """The measured and the fitted height, the residuals, and the estimates over the truth."""
    save = rb.SaveAt(ts=TS, impacts=8)
    sol = rb.simulate(fit.world, fit.states[0], METHOD, TS[-1], save=save)
    fitted = sol.states
    with mpl.rc_context(rb.viz.STYLE):
        figure, (left, middle, right) = rb.viz.new_figure(1, 3, size=(11, 3.4))
        left.plot(TS, 1e3 * data.position[:, 0, 2], ".", ms=3, color="0.6", label="measured")
        left.plot(TS, 1e3 * fitted.position[:, 0, 2], label="fitted")
        left.set(xlabel="time [s]", ylabel="height [mm]", title="One toss, six impacts")
        left.legend()
        for name, rows in (
            ("position", fit.residuals[0][:, :3]),
            ("attitude", fit.residuals[0][:, 3:]),
        ):
            middle.hist(
                rows.ravel(), np.linspace(-4, 4, 41), density=True, histtype="step", label=name
            )
        x = np.linspace(-4, 4, 200)
        middle.plot(x, np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi), "k", lw=1, label="normal")
        middle.set(xlabel="residual over noise", ylabel="density", title="What is left is noise")
        middle.legend()
        truth = np.array([RESTITUTION, FRICTION, *MOMENTS])
        values, lower, upper = (
            np.concatenate([np.ravel(estimate[k]) for estimate in fit.estimates.values()]) / truth
            for k in range(3)
        )
        names = ["restitution", "friction", "$J_1$", "$J_2$", "$J_3$"]
        right.axhline(1.0, color="0.6", lw=1)
        right.errorbar(range(5), values, [values - lower, upper - values], fmt="o", capsize=3)
        right.set_xticks(range(5), names)
        right.set(ylabel="estimate over truth", title="95 % intervals")
        path.parent.mkdir(parents=True, exist_ok=True)
        rb.viz.save_figure(figure, path)
    write_replay(path.with_suffix(".html"), fit.world, sol, speed=0.25)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="out")
    main(parser.parse_args().out)
