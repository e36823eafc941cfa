"""Progress bars on standard error."""

from rich.console import Console
from rich.progress import Progress, ProgressColumn, TaskID


class Bars(Progress):
    """A bar for each step, on a terminal; elsewhere nothing."""

    def __init__(self, console: Console, *columns: ProgressColumn, is_transient: bool) -> None:
        super().__init__(
            *columns,
            console=console,
            transient=is_transient,
            redirect_stdout=False,
            redirect_stderr=False,
            disable=not console.is_terminal,
        )
        self._bars: dict[str, TaskID] = {}

    def find_bar(self, step: str, total: int | None) -> TaskID:
        """The bar of a step. Without ``total`` it only shows that something happens."""
        if step not in self._bars:
            self._bars[step] = self.add_task(step, total=total)
        return self._bars[step]
