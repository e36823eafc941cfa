"""Access: tokens, sessions, scopes and masking."""

from rota.auth.binding import LOOPBACK_NAMES, check_binding, is_loopback
from rota.auth.caller import EVERY_SCOPE, Auth, Caller, Scope
from rota.auth.masking import SECRET_WORDS, mask_secrets
from rota.auth.sessions import OpenedSession, SessionBook
from rota.auth.tokens import TOKEN_PATTERN, IssuedToken, Secret, Token, TokenBook, is_well_formed

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
