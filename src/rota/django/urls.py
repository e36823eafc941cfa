"""The pages and the API, to be mounted by URL: ``path("rota/", include("rota.django.urls"))``.

The pages ask for a token of the store: ``rota tokens create`` makes one.
"""

from asyncio import AbstractEventLoop
from weakref import WeakKeyDictionary

from django.http import HttpRequest, HttpResponse
from django.urls import re_path
from django.views.decorators.csrf import csrf_exempt
from starlette.applications import Starlette

from rota.auth.tokens import TokenBook
from rota.django.asgi import Answer, call_application, make_response, make_scope
from rota.django.backend import RotaBackend
from rota.django.tasks_api import task_backends
from rota.server import create_app
from rota.session import Session

BACKEND = "default"

_pages: "WeakKeyDictionary[AbstractEventLoop, Starlette]" = WeakKeyDictionary()


@csrf_exempt  # the pages check the origin of every form themselves
def show(request: HttpRequest, path: str) -> HttpResponse:
    """Answer a request to the pages or the API."""
    backend: RotaBackend = task_backends[BACKEND]
    scope, body = make_scope(request, path), request.body

    async def answer(session: Session) -> Answer:
        pages = _pages.get(session.loop)
        if pages is None:
            auth = TokenBook(session.store, session.clock)
            pages = _pages[session.loop] = create_app(session.store, auth, clock=session.clock)
        return await call_application(pages, scope, body)

    return make_response(backend.app.sessions.run_sync(answer))


urlpatterns = [re_path(r"^(?P<path>.*)$", show, name="rota")]
