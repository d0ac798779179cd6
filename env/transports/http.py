"""Calls HTTP plugins: method, URL template, field maps and secret headers as the contract's `transport` says."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx2

from env.contract import ToolContract
from env.types import JSON, ErrorCode, ToolError

LARGEST_BODY = 4 * 1024 * 1024
MAX_DETAIL = 300  # characters of a foreign error
_PLACE = re.compile(r"\{(\w+)\}")
_SECRET = re.compile(r"\$\{(\w+)\}")
_BY_STATUS: Mapping[int, ErrorCode] = {
    400: ErrorCode.INVALID_ARGUMENTS,
    404: ErrorCode.NOT_FOUND,
    408: ErrorCode.TIMEOUT,
    409: ErrorCode.BUSINESS_ERROR,
    422: ErrorCode.INVALID_ARGUMENTS,
    429: ErrorCode.RATE_LIMITED,
    504: ErrorCode.TIMEOUT,
}


class HttpCaller:
    """For `Registry.bind(callers={"http": ...})`. Keeps connections open; a context manager, safe in several threads.

    timeout_s: at most per call, whatever the contract says. headers: sent with every request.
    """

    def __init__(self, timeout_s: float = 60.0, headers: Mapping[str, str] | None = None):
        self._timeout_s = timeout_s
        self._client = httpx2.Client(headers=dict(headers or {}), follow_redirects=False)

    def __enter__(self) -> HttpCaller:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def __call__(self, contract: ToolContract, arguments: dict[str, JSON]) -> JSON:
        request = self._request(contract, arguments)
        limit = min(contract.timeout_ms / 1000, self._timeout_s)
        try:
            response = self._client.send(request, stream=True)
            try:
                body = _read(response)
            finally:
                response.close()
        except httpx2.TimeoutException:
            raise ToolError(ErrorCode.TIMEOUT, f"no answer within {limit:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise ToolError(ErrorCode.UNAVAILABLE, f"the plugin cannot be reached: {type(error).__name__}") from None
        if not response.is_success:
            code = _BY_STATUS.get(response.status_code)
            if code is None:
                code = ErrorCode.UNAVAILABLE if response.status_code >= 500 else ErrorCode.TRANSPORT_ERROR
            raise ToolError(code, _told(response, body))
        names = contract.transport.options.get("result", {})
        return pruned(renamed(_decoded(response, body), names), contract.output_schema)

    def _request(self, contract: ToolContract, arguments: Mapping[str, JSON]) -> httpx2.Request:
        options = contract.transport.options
        names = options.get("arguments", {})
        left = {names.get(name, name): value for name, value in arguments.items() if value is not None}

        def place(match: re.Match[str]) -> str:
            if match[1] not in left:
                raise ToolError(ErrorCode.TRANSPORT_ERROR, f"the URL needs {match[1]!r}, which is no argument")
            return quote(str(left.pop(match[1])), safe="")

        url = _PLACE.sub(place, options["url"])
        query = options["method"] in ("GET", "DELETE")
        limit = min(contract.timeout_ms / 1000, self._timeout_s)
        try:
            return self._client.build_request(
                options["method"],
                url,
                params=left if query and left else None,
                json=None if query else left,
                headers={name: _secret(value) for name, value in options.get("headers", {}).items()},
                timeout=limit,
            )
        except (httpx2.InvalidURL, ValueError) as error:
            raise ToolError(ErrorCode.TRANSPORT_ERROR, f"the URL cannot be used: {type(error).__name__}") from None


def renamed(value: JSON, names: Mapping[str, str]) -> JSON:
    """Members called as the plugin calls them -> as the contract does, at any depth. names: theirs -> ours."""
    if isinstance(value, dict):
        return {names.get(key, key): renamed(inner, names) for key, inner in value.items()}
    return [renamed(inner, names) for inner in value] if isinstance(value, list) else value


def pruned(value: JSON, schema: Mapping[str, Any]) -> JSON:
    """Without members that a closed schema does not declare: a plugin may grow. What it lacks stays lacking."""
    if isinstance(value, dict) and "properties" in schema:
        declared = schema["properties"]
        closed = schema.get("additionalProperties") is False
        return {
            key: pruned(inner, declared.get(key, {})) for key, inner in value.items() if key in declared or not closed
        }
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [pruned(inner, schema["items"]) for inner in value]
    return value


def _secret(value: str) -> str:
    """${NAME} from the environment; a secret has no other way into a contract."""

    def look_up(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise ToolError(ErrorCode.UNAVAILABLE, f"the environment variable {match[1]} is not set")
        return os.environ[match[1]]

    return _SECRET.sub(look_up, value)


def _read(response: httpx2.Response) -> bytes:
    body = bytearray()
    for part in response.iter_bytes():
        body += part
        if len(body) > LARGEST_BODY:
            raise ToolError(ErrorCode.OUTPUT_INVALID, f"the answer has more than {LARGEST_BODY} bytes")
    return bytes(body)


def _text(response: httpx2.Response, body: bytes) -> str:
    """By the charset that the plugin names, UTF-8 where it names none. Raises ToolError."""
    try:
        return body.decode(response.charset_encoding or "utf-8")
    except (UnicodeDecodeError, LookupError) as error:
        raise ToolError(ErrorCode.OUTPUT_INVALID, f"the answer is no text: {type(error).__name__}") from None


def _decoded(response: httpx2.Response, body: bytes) -> JSON:
    try:
        return json.loads(_text(response, body))
    except (ValueError, RecursionError):
        raise ToolError(ErrorCode.OUTPUT_INVALID, "the answer is no JSON") from None


def _told(response: httpx2.Response, body: bytes) -> str:
    """What a failed answer says: its message or error, else the status."""
    try:
        value = json.loads(_text(response, body))
    except (ValueError, RecursionError, ToolError):
        value = None
    for key in ("detail", "message", "error"):
        if isinstance(value, dict) and isinstance(value.get(key), str):
            said = value[key]
            return said if len(said) <= MAX_DETAIL else f"{said[: MAX_DETAIL - 3]}..."
    return f"the plugin answered {response.status_code}"
