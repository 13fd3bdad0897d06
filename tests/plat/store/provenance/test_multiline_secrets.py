"""Secrets that stand on another line than their name never get into what is recorded of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from plat.store.provenance import redaction
from plat.store.provenance.multiline_secrets import value_lines

FORMS = [
    'password = (\n    "hunter2"\n)',
    "password = (\n    'hunter2'\n)",
    'password = \\\n    "hunter2"',
    'password: str = (\n    "hunter2"\n)',
    'password = (  # of the database\n    "hunter2"\n)',
    'password =\n    "hunter2";',
    'const secret =\n  "hunter2";',
    "let apiKey =\n  `hunter2`;",
    '"password":\n    "hunter2"',
    "'api_key':\n  'hunter2',",
    "password:\n  hunter2",
    "password: |\n  hunter2",
    "password: >-\n  hunter2",
    "db_password: |-\n  hunter2\n  more",
    'password = """\nhunter2\n"""',
    "secret = '''\nhunter2\n'''",
    'password = f"""\nhunter2\n"""',
    'password = [\n  "hunter2",\n]',
    'passwords = {\n  "anna": "hunter2",\n}',
    'connect(password=\n    "hunter2")',
    'set_password(\n    "hunter2"\n)',
    'password = os.environ.get(\n    "DB",\n    "hunter2",\n)',
    'token = str(\n    "hunter2"\n)',
    'secret = base64.b64decode(\n  "aHVudGVyMg"\n)',
    'password = ("hunt"\n    "er2")',
    'secret = ("hun" +\n    "ter2")',
    "PASSWORD=$(cat <<EOF\nhunter2\nEOF\n)",
    "export TOKEN=\\\nhunter2",
    "mysql --password \\\n  hunter2",
    '"--password",\n"hunter2",',
    "- name: DB_PASSWORD\n  value: hunter2",
    '- name: DB_PASSWORD\n  value: "hunter2"',
    '{"name": "API_KEY",\n "value": "hunter2"}',
    'variable "db_password" {\n  default = "hunter2"\n}',
    "<password>\n  hunter2\n</password>",
    'password :=\n    "hunter2"',
    ':password =>\n  "hunter2"',
    "ENV PASSWORD \\\n  hunter2",
    'password = (\n\n    "hunter2"\n)',
    'access_key = dict(\n    value="hunter2",\n)',
    'self.token = (\n    "hunter2"\n    if x else None\n)',
    'auth = (\n    "anna",\n    "hunter2",\n)',
    'private_key: [\n  "hunter2"\n]',
    'password = await prompt(\n    "hunter2"\n)',
    'String password = new String(\n    "hunter2");',
]
VALUES = ("hunter2", 'er2"', "aHVu", '"hun"', '"hunt"')


@pytest.mark.parametrize("marks", ["++", "--", " +"])
@pytest.mark.parametrize("form", FORMS)
def test_the_value_is_left_out_and_what_is_around_it_is_not(form, marks):
    first, *rest = form.split("\n")
    diff = f"+before\n{marks[0]}{first}\n" + "".join(f"{marks[1]}{line}\n" for line in rest) + "+after\n"
    text = redaction.without_secrets(diff)
    assert not [value for value in VALUES if value in text]
    assert text.startswith("+before\n") and text.endswith("\n+after\n") and text.count("\n") == diff.count("\n")


def test_next_to_nothing_of_ordinary_code_is_taken_for_a_value():
    lines = [
        f"+{line}\n"
        for path in Path(redaction.__file__).parents[2].rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    assert len(lines) > 5000 and len(value_lines(lines)) < len(lines) / 1000


def test_a_name_at_the_end_of_one_file_opens_nothing_in_the_next():
    diff = '+password = (\ndiff --git a/x b/x\n@@ -1 +1 @@\n+    "a plain text"\n'
    assert redaction.without_secrets(diff) == diff
