"""Leases for workers that are no part of any Rota process: taken, kept and settled for them."""

from rota.control.leases.desk import LeaseDesk
from rota.control.leases.records import LeaseWish, Settled, Settlement

__all__ = ["LeaseDesk", "LeaseWish", "Settled", "Settlement"]
