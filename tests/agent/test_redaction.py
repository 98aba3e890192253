"""What is hidden of a run's description."""

import pytest

from rankbeat_agent.hooks import redaction


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["python", "train.py", "--token", "abc", "--lr", "1"], ["python", "train.py", "--token", "***", "--lr", "1"]),
        (["--api-key=abc", "--steps=3"], ["--api-key=***", "--steps=3"]),
        (["db_password=x", "max_tokens=4096"], ["db_password=***", "max_tokens=4096"]),
        (["--token", "--verbose"], ["--token", "--verbose"]),
        (["AKIAIOSFODNN7EXAMPLE"], ["***"]),
        (["--data", "s3://user:pass@host/bucket"], ["--data", "***"]),
        (["--key", "Zm9vYmFyMTIzNDU2Nzg5MEFCQ0RFRkdISUpL"], ["--key", "***"]),
        (
            ["--model", "/data/models/llama-2-7b-chat-hf/checkpoint"],
            ["--model", "/data/models/llama-2-7b-chat-hf/checkpoint"],
        ),
        (["--name", "pretraining_of_a_model_with_a_long_name"], ["--name", "pretraining_of_a_model_with_a_long_name"]),
    ],
)
def test_a_command_line_shows_what_is_no_secret(argv, shown):
    assert redaction.arguments(argv) == shown


def test_settings_are_hidden_by_name_and_by_the_shape_of_their_value_at_any_depth():
    config = {
        "obs": {"secret_key": "abc", "endpoint": "obs.example"},
        "tokens": [1, 2],
        "max_tokens": 4096,
        "list": ["hf_abcdefghijklmnopqrstu", "plain"],
        "use_flash": True,
        "kind": object,
    }

    assert redaction.filtered(config) == {
        "obs": {"secret_key": "***", "endpoint": "obs.example"},
        "tokens": [1, 2],
        "max_tokens": 4096,
        "list": ["***", "plain"],
        "use_flash": True,
        "kind": "<class 'object'>",
    }


def test_what_contains_itself_ends_somewhere():
    config = {"a": 1}
    config["self"] = config

    assert "..." in str(redaction.filtered(config))
