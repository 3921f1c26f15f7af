"""Contact geometry and kinematics."""

from .half_space import (
    ContactKinematics as ContactKinematics,
    Contacts as Contacts,
    HalfSpaceContacts as HalfSpaceContacts,
    apply_impulse as apply_impulse,
    kinematics as kinematics,
)
from .single import SingleContact as SingleContact
