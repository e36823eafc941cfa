"""Damaged and malicious input for everything that reads text or bytes from outside.

``python -m tests.fuzz cron --seconds 600`` mutates the inputs of ``corpus/cron.txt``. An input that
leads to an outcome that was not seen before, such as another refusal, joins the corpus of the run;
``--keep`` writes those to the file. Each target says what may happen: a result that holds together,
or a refusal by an error of Rota. Anything else, or more than a second, is a finding.
"""
