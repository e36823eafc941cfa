"""``manage.py rota work``: a worker for the tasks of this site."""

import asyncio
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from msgspec.structs import replace

from rota.django.backend import RotaBackend
from rota.django.execution import register_tasks
from rota.django.tasks_api import task_backends
from rota.runtime.observation import observed
from rota.worker import WorkerSettings, run_until_signalled


class Command(BaseCommand):
    help = "Runs the tasks of this site that were enqueued with rota.django.RotaBackend."

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True)
        work = commands.add_parser("work", help="run a worker until it is stopped")
        work.add_argument("--backend", default="default", help="alias in TASKS (default: default)")
        work.add_argument("--concurrency", type=int, default=10, help="tasks at a time (10)")
        work.add_argument("--queue", action="append", help="serve only this queue; may be repeated")

    def handle(self, *_args: Any, **options: Any) -> None:
        backend = task_backends[options["backend"]]
        if not isinstance(backend, RotaBackend):
            raise CommandError(
                f"TASKS[{options['backend']!r}] is {type(backend).__name__}; "
                "this command needs rota.django.RotaBackend"
            )
        settings = replace(
            backend.app.worker_settings(),
            concurrency=options["concurrency"],
            queues=options["queue"] or None,
        )
        asyncio.run(self._work(backend, settings))

    async def _work(self, backend: RotaBackend, settings: WorkerSettings) -> None:
        async with backend.app as app:
            worker, session = app.worker(settings), await app.session()
            register_tasks(worker, backend)
            count = len(worker.kinds)
            tasks = "1 task" if count == 1 else f"{count} tasks"
            self.stdout.write(f"Serving {tasks}. Stop with Ctrl-C.")
            async with observed(worker, session.store, session.clock):
                await run_until_signalled(worker)
