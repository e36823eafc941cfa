"""What a job can be found by."""

from rota.search.terms import MOST_VALUES, Clause, TermRange, list_terms, shorten
from rota.testing import a_job


def test_names_and_kinds_are_split_into_words_at_signs_and_humps() -> None:
    terms = list_terms(a_job(name="Send WelcomeMail", kind="mail.send_now"))
    words = {term[1:] for term in terms if term[0] == "w"}
    assert words == {"send", "welcomemail", "welcome", "mail", "now"}
    assert "kmail.send_now" in terms


def test_payload_values_have_their_paths_and_lists_share_one() -> None:
    payload = {"order": {"ID": 7, "Paid": True}, "items": [{"sku": "A b"}, {"sku": None}]}
    terms = list_terms(a_job(payload=payload))
    found = {term for term in terms if term[0] in "Pp"}
    assert found == {
        *("Porder.id", "Porder.paid", "Pitems.sku"),
        *("porder.id=7", "porder.paid=true", "pitems.sku=a b", "pitems.sku=null"),
    }


def test_errors_have_their_name_and_the_words_of_the_first_and_last_line() -> None:
    error = "Traceback (most recent call last):\n  in secret\nConnectTimeout: host is away"
    terms = list_terms(a_job(last_error=error))
    assert "cConnectTimeout" in terms
    assert {"etimeout", "eaway", "etraceback"} <= terms
    assert "esecret" not in terms


def test_a_large_payload_has_a_limited_number_of_terms() -> None:
    terms = list_terms(a_job(payload={f"field{number}": number for number in range(1000)}))
    assert sum(term[0] == "p" for term in terms) == MOST_VALUES


def test_long_values_that_differ_at_their_end_are_different_terms() -> None:
    one, other = shorten("x" * 100 + "1"), shorten("x" * 100 + "2")
    assert one != other
    assert len(one) < 70
    assert shorten("\ud800") == "?"


def test_a_clause_accepts_a_term_or_a_beginning() -> None:
    clause = Clause((TermRange("wsend"), TermRange("kmail", is_prefix=True)))
    assert clause.accepts({"kmail.digest"})
    assert clause.accepts({"wsend"})
    assert not clause.accepts({"wsender", "wmail"})
