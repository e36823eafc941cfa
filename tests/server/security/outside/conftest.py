from tests.unit.cli.conftest import rota

__all__ = ["rota"]
