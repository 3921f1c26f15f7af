"""Contact geometry and kinematics."""

from .base import (
    AbstractContacts as AbstractContacts,
    AbstractContactSet as AbstractContactSet,
    ContactKinematics as ContactKinematics,
)
from .half_space import AtHalfSpaces as AtHalfSpaces, HalfSpaceContacts as HalfSpaceContacts
from .mixed import all_contacts as all_contacts
from .moving import Moving as Moving
from .obstacles import flat_at_rest as flat_at_rest
from .single import SingleContact as SingleContact
