"""The kinds of jobs that are known, and what operators have set for them."""

import msgspec

from rota.ops.catalogue import KindEntry, read_kinds
from rota.ops.reasons import ANY_KIND
from rota.ops.served_kinds import ServedKinds
from rota.policy.audit import AuditedAction, record_action
from rota.policy.gate_settings import KindNotifies
from rota.rail import settings
from rota.rail.jobs import RailContext
from rota.stores.protocol import DocumentStore

_UNKNOWN = KindEntry(schema={})


class KnownKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of job, as its app describes it.

    ``is_served``: a running worker serves it. ``declared_notifies``: its app or a running worker
    says that its jobs notify people. ``set_notifies`` is what an operator has set instead.
    """

    kind: str
    entry: KindEntry = _UNKNOWN
    is_served: bool = False
    declared_notifies: bool = False
    set_notifies: bool | None = None

    @property
    def notifies(self) -> bool:
        """Whether quiet hours hold back its jobs, unless a job says otherwise."""
        return self.declared_notifies if self.set_notifies is None else self.set_notifies


async def list_known_kinds(store: DocumentStore, served: ServedKinds) -> list[KnownKind]:
    """The kinds that an app declares, a worker serves or an operator has set, by name."""
    entries, kinds = await read_kinds(store), await served.list() - {ANY_KIND}
    loud = await served.list_notifying()
    chosen = {
        it.kind: it.notifies
        for it in (await settings.list_gates(store)).entries
        if isinstance(it, KindNotifies)
    }
    return [
        KnownKind(
            kind=kind,
            entry=entries.get(kind, _UNKNOWN),
            is_served=kind in kinds,
            declared_notifies=kind in loud or entries.get(kind, _UNKNOWN).notifies,
            set_notifies=chosen.get(kind),
        )
        for kind in sorted({*entries, *kinds, *chosen})
    ]


async def set_notifies(
    context: RailContext, kind: str, *, notifies: bool | None, who: str, why: str | None = None
) -> None:
    """Set whether jobs of a kind notify people, for all tenants; None: as the kind declares.

    ``context`` is that of ``EVERYBODY``: the audit log has the change under that name.
    """
    details = {"kind": kind, "notifies": notifies}
    act = AuditedAction(action="set_kind_notifies", who=who, why=why, details=details)
    await record_action(context, act)
    await settings.set_kind_notifies(context.store, kind, notifies=notifies, clock=context.clock)
