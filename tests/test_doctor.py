"""The doctor finds nothing wrong with the embedded policy, and names the cure where something is."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path

import pytest

from scripts import doctor


def test_the_embedded_policy_is_healthy(capsys: pytest.CaptureFixture[str]) -> None:
    assert [finding for finding in doctor.policy("models/tiny") if finding.fatal] == []
    assert [finding.about for finding in doctor.packages() if finding.fatal] == []


@pytest.mark.parametrize(
    ("old", "new", "cure"),
    [
        ("tool.function.parameters.properties", "[]", "does not render tools"),
        ("message.role != 'system'", "message.role == 'user'", "set eos_token"),
        ("<|im_end|>\\n' }}{% endif %}{% endfor %}", "<|pad|>\\n' }}{% endif %}{% endfor %}", "eos_token"),
    ],
)
def test_a_broken_template_is_found_with_its_cure(old: str, new: str, cure: str, tmp_path: Path) -> None:
    model = copied(tmp_path)
    template = (model / "chat_template.jinja").read_text("utf-8")
    assert old in template
    (model / "chat_template.jinja").write_text(template.replace(old, new), "utf-8")
    findings = list(doctor.policy(str(model)))
    assert any(finding.fatal and cure in finding.cure for finding in findings)


def test_a_template_that_rewrites_the_past_is_found(tmp_path: Path) -> None:
    model = copied(tmp_path)
    path = model / "chat_template.jinja"
    path.write_text("{{ messages | length }}" + path.read_text("utf-8"), "utf-8")
    said = {finding.about: finding for finding in doctor.policy(str(model))}
    assert said["prefix kept"].fatal and said["calls parsed"].said == "right"


def test_sliding_windows_are_refused_with_the_reason(tmp_path: Path) -> None:
    model = copied(tmp_path)
    config = json.loads((model / "config.json").read_text("utf-8"))
    config["layer_types"] = ["sliding_attention"] * config["num_hidden_layers"]
    (model / "config.json").write_text(json.dumps(config), "utf-8")
    said = {finding.about: finding for finding in doctor.policy(str(model))}
    assert said["attention"].fatal


def test_a_taken_port_and_a_missing_model_stop_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        (finding,) = doctor.ports([server.getsockname()[1]])
        assert finding.fatal and finding.cure
    assert doctor.main(["--model", str(tmp_path / "nowhere")]) == 1
    assert "no such folder" in " ".join(capsys.readouterr().out.split())


def copied(folder: Path) -> Path:
    """The embedded policy without its weights: the doctor does not need them."""
    return Path(
        shutil.copytree("models/tiny", folder / "model", ignore=shutil.ignore_patterns("*.safetensors", "*.md"))
    )
