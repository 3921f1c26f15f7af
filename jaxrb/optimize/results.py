"""How fitting and shooting ended."""

from .._codes import Codes


class RESULTS(Codes):
    """One code per start; the first that applies."""

    successful = ""
    simulation_failed = (
        "The simulation ended early at the start, or wherever a step led: see `world_result`. A "
        "start whose parameters are nearer, another method, or data cut before what fails."
    )
    max_iterations_reached = "Every iteration still gained something: raise max_iterations."
    stalled = (
        "No step gains anything, though the conditions are not met: the problem may have no "
        "solution, or a kink lies on the way. Try more starts."
    )
    poor_fit = (
        "Chi-square is above what noise explains in 999 of 1000 cases: a local minimum (try more "
        "starts, or more segments), noise that is larger than said, or a world that lacks "
        "something, such as another free parameter."
    )
    no_impact = (
        "Nothing touched anything, so nothing is known of what acts at impacts: the parameters "
        "named in `unidentifiable`."
    )
    not_identifiable = (
        "The data do not tell some combinations of parameters, named in `unidentifiable`: fix one "
        "of each, or measure a motion that depends on it."
    )
