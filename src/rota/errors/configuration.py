"""What can be wrong with the surroundings in which a program is started."""

from collections.abc import Mapping

from rota.errors.groups import InvalidInputError, RotaError


class InvalidConfigurationError(InvalidInputError):
    """Environment variables have values that cannot be used; all of them are named at once."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        listed = "; ".join(f"{name} {reason}" for name, reason in problems.items())
        super().__init__(
            f"Invalid configuration: {listed}",
            {"field": next(iter(problems)), "problems": dict(problems)},
        )
        self.problems = dict(problems)


class MissingExtraError(RotaError):
    """Something was imported that needs a package which is not installed."""

    def __init__(self, purpose: str, package: str, extra: str) -> None:
        super().__init__(
            f"{purpose} need {package}, which is not installed: pip install 'rota[{extra}]'",
            {"missing": package, "extra": f"rota[{extra}]"},
        )
        self.package = package
        self.extra = extra
