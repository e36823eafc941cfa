"""Access: who may do what, for which tenant."""

from rota.access.auth import Auth
from rota.access.binding import LOOPBACK_NAMES, check_binding, is_loopback
from rota.access.caller import EVERY_SCOPE, Caller, Scope
from rota.access.masking import SECRET_WORDS, mask_secrets
from rota.access.secret import Secret
from rota.access.sessions import OpenedSession, SessionBook
from rota.access.token import IssuedToken, Token
from rota.access.token_book import TokenBook
from rota.access.token_text import TOKEN_PATTERN, is_well_formed

__all__ = [
    "EVERY_SCOPE",
    "LOOPBACK_NAMES",
    "SECRET_WORDS",
    "TOKEN_PATTERN",
    "Auth",
    "Caller",
    "IssuedToken",
    "OpenedSession",
    "Scope",
    "Secret",
    "SessionBook",
    "Token",
    "TokenBook",
    "check_binding",
    "is_loopback",
    "is_well_formed",
    "mask_secrets",
]
