"""Which names are those of secrets: one definition, for arguments, declarations, the trace and cassettes."""

from __future__ import annotations

import pytest

from mcp_magic.config.masking import Masker, mask_arguments, mask_text, mask_url, named_secrets, to_json
from mcp_magic.display.arguments import hidden_arguments
from mcp_magic.schema import is_secret, shown
from mcp_magic.schema.secrets import is_declared_secret, is_secret_name

SECRET = (
    *("password", "passwd", "Passwort", "passphrase", "pass_phrase", "passcode", "pass", "pwd", "pat", "jwt"),
    *("passWord", "db_pass", "DB_PASS", "db-pass", "dbPass", "user.pass", "SSHPASS", "MYSQL_PWD", "MYSQLPWD"),
    *("PGPASSWORD", "password2", "newPassword", "password_hash", "passwords", "SSH_PASSPHRASE", "userPwd"),
    *("accessKey", "access_key", "ACCESS-KEY", "aws.accessKeyId", "subscriptionKey", "privateKey", "GITHUB_PAT"),
    *("signing_key", "encryptionKey", "apiKey", "api_keys", "APIKEY", "x-api-key", "API_KEY_2", "secret_key"),
    *("token", "authToken", "GITHUB_TOKEN", "id_token", "next_page_token", "access_tokens", "jwtToken", "ID_JWT"),
    *("secret", "client_secret", "clientSecret", "secrets", "credential", "credentials", "CREDENTIALS_JSON"),
    *("Authorization", "proxy-authorization", "auth", "oauth", "X-Auth", "authHeader", "Set-Cookie", "bearer"),
    *("clientKey", "private_key_path", "githubPat", "cookie"),
    *("db_pass_x", "db_pass_y", "pass_x", "password_x", "api_key_x"),
)
PLAIN = (
    *("key", "keys", "sort_key", "primary_key", "public_key", "keyboard", "monkey", "keyword", "tokenizer"),
    *("token_count", "tokenCount", "max_tokens", "maxTokens", "tokens", "total_tokens", "token_type", "progressToken"),
    *("pass_rate", "first_pass", "passed", "passes", "passport", "passenger", "bypass", "compass", "GIT_ASKPASS"),
    *(
        "first_pass_x",
        "pass_z",
        "pass_through",
        "passwordless",
        "password_length",
        "PWD",
        "OLDPWD",
        "author",
        "authors",
        "authority",
    ),
    *("path", "pattern", "patch", "patient", "signature", "sig", "secretary", "cookiecutter", "requires_auth"),
    *("authUrl", "use_oauth", "accept_cookies", "", "a", "日本", "_"),
)
DECLARED = ("key", "--key", "OPENAI_KEY", "X-Functions-Key", "sig", "X-Signature", "WWW-Authenticate", "MY_TOKENS")
DECLARED_PLAIN = ("--author", "AUTHOR", "--keyboard", "--max-tokens", "MAX_TOKENS", "PWD", "--path", "GIT_ASKPASS")


@pytest.mark.parametrize("name", SECRET)
def test_a_name_of_a_secret_is_one_wherever_it_stands(name):
    assert is_secret(name)
    assert is_declared_secret(name)
    assert hidden_arguments({name: "sesame-22"}, None) == {name: "***"}
    assert "sesame-22" not in shown({name: "sesame-22"})
    assert named_secrets({name: "sesame-22"}) == {"sesame-22"}
    assert mask_arguments((f"--{name}", "sesame-22")) == (f"--{name}", "***")
    assert mask_arguments((f"--{name}=sesame-22",)) == (f"--{name}=***",)
    assert mask_url(f"https://x.org/mcp?{name}=sesame-22&page=2") == f"https://x.org/mcp?{name}=***&page=2"
    assert mask_text(f"host=x {name}=sesame-22") == f"host=x {name}=***"
    assert b"sesame-22" not in Masker(()).mask(to_json({"arguments": {name: "sesame-22"}}))
    assert b"sesame-22" not in Masker(()).mask(to_json({name: "sesame-22"})), "what the trace looks for finds it"
    assert Masker(()).text(f"with {name}=sesame-22") == f"with {name}=***"
    assert Masker(()).text(f'{{"{name}": "sesame-22"}}') == f'{{"{name}": "***"}}'


@pytest.mark.parametrize("name", PLAIN)
def test_a_name_that_only_resembles_a_secret_is_not_masked(name):
    assert not is_secret(name)
    assert hidden_arguments({name: "sesame-22"}, None) == {name: "sesame-22"}
    assert b"sesame-22" in Masker(()).mask(to_json({"arguments": {name: "sesame-22"}}))


@pytest.mark.parametrize("name", DECLARED)
def test_in_a_declaration_a_key_is_a_secret(name):
    assert is_declared_secret(name)
    assert not is_secret_name(name)


@pytest.mark.parametrize("name", DECLARED_PLAIN)
def test_in_a_declaration_a_number_and_a_folder_are_none(name):
    assert not is_declared_secret(name)


def test_in_a_sentence_a_short_word_is_a_word():
    said = "PASS: tests/test_sum.py, pwd: /home/ada/data, pass=12, Pat: everything works"
    assert Masker(()).text(said) == said
    assert Masker(()).text("DB_PASS: sesame-22") == "DB_PASS: ***"
    text = to_json({"pass": 12, "fail": 3})
    assert Masker(()).mask(text) is text


def test_a_long_name_is_looked_at_in_no_time():
    assert is_secret_name(f"{'x' * 1_000_000}_password")
    assert not is_secret_name("key" * 1_000_000)
