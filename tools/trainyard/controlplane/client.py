"""A small client of the Kubernetes API over the standard library: what the questions need, and no more."""

import http.client
import json
import ssl
import time
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from trainyard.errors import Fault

MANAGER = "argocd-controller"
"""The field manager that Argo CD applies under."""
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
TIMEOUT_SECONDS = 60
_NOT_READ_YET = "not yet synced to use for admission"
"""What kube-apiserver refuses a request with while it still reads the objects that a policy takes its parameters from.

It waits a second for them itself, which a busy machine may need longer than.
"""

Json = dict[str, Any]


@dataclass(slots=True)
class Refused(Exception):
    """The API server refused a request: its Status object, and the HTTP code."""

    code: int
    status: Json

    def __str__(self) -> str:
        return str(self.status.get("message", self.code))

    @property
    def reason(self) -> str:
        """The one-word reason: Invalid, Forbidden, NotFound, AlreadyExists ..."""
        return str(self.status.get("reason", ""))

    @property
    def causes(self) -> list[Json]:
        """What is wrong, a cause a field: `field`, `message`, `reason`."""
        details = self.status.get("details")
        causes = details.get("causes") if isinstance(details, dict) else None
        return [cause for cause in causes if isinstance(cause, dict)] if isinstance(causes, list) else []


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API server answered, and the warnings beside it."""

    body: Json
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class User:
    """Somebody to act as."""

    name: str
    groups: tuple[str, ...] = ()

    @classmethod
    def service_account(cls, namespace: str, name: str) -> "User":
        """A ServiceAccount with the groups that every one of its namespace is in."""
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        return cls(f"system:serviceaccount:{namespace}:{name}", groups)

    def headers(self) -> list[tuple[str, str]]:
        """The headers of a request on their behalf."""
        return [("Impersonate-User", self.name), *(("Impersonate-Group", group) for group in self.groups)]


@dataclass(slots=True)
class _Line:
    """The connection to a server, once there is one."""

    connection: http.client.HTTPSConnection | None = None


@dataclass(slots=True)
class Client:
    """One API server and who asks it. Not for several threads at once."""

    server: str
    trust: ssl.SSLContext = field(repr=False)
    token: str = field(default="", repr=False)
    basic: str = field(default="", repr=False)
    """An Authorization header other than a bearer token."""
    user: User | None = None
    """Act as somebody else."""
    _line: _Line = field(default_factory=_Line, repr=False)
    _resources: dict[str, dict[str, Json]] = field(default_factory=dict, repr=False)

    def acting_as(self, user: User) -> "Client":
        """The same server on behalf of somebody else, over the same connection: a request says whom it is for."""
        return replace(self, user=user)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        kind: str = "application/json",
    ) -> Answer:
        """One request. Refused where the server says no, Fault where it cannot be reached.

        A server that has not read the parameters of an admission policy yet is asked again, for TIMEOUT_SECONDS.
        """
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            code, text, headers = self._asked(method, path, body, query, kind)
            answer = _document(text, code)
            if code < http.client.BAD_REQUEST:
                return Answer(answer, tuple(map(_warning, headers.get_all("Warning") or ())))
            refused = Refused(code, answer)
            if _NOT_READ_YET not in str(refused) or time.monotonic() > deadline:
                raise refused

    def _asked(
        self, method: str, path: str, body: Any, query: Mapping[str, str] | None, kind: str
    ) -> tuple[int, bytes, http.client.HTTPMessage]:
        """Code, body and headers of an answer; a connection that went away is made once more."""
        base = urllib.parse.urlsplit(self.server).path.rstrip("/")
        target = base + path + (f"?{urllib.parse.urlencode(query)}" if query else "")
        payload = None if body is None else json.dumps(body).encode()
        again = True
        while True:
            try:
                response = self._send(method, target, payload, kind)
                return response.status, response.read(), response.headers
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if not again or isinstance(error, ssl.SSLError):
                    raise Fault(f"{self.server} cannot be reached: {error}") from None
                again = False

    def text(self, path: str, query: Mapping[str, str] | None = None) -> str:
        """What is not JSON, as a pod's log. Refused where the server says no, Fault where it cannot be reached."""
        code, body, _ = self._asked("GET", path, None, query, "application/json")
        if code >= http.client.BAD_REQUEST:
            raise Refused(code, _document(body, code))
        return body.decode(errors="replace")

    def close(self) -> None:
        """Let go of the connection; the next request makes another."""
        if self._line.connection is not None:
            self._line.connection.close()
            self._line.connection = None

    def path(self, data: Json, *, named: bool = True, below: str = "") -> str:
        """The path of an object, or of the collection it belongs to. Refused (404) where its kind is not served."""
        api_version, kind = str(data.get("apiVersion", "")), str(data.get("kind", ""))
        resource = self._resource(api_version, kind)
        metadata = data.get("metadata") or {}
        parts = [_group_path(api_version)]
        if resource["namespaced"]:
            parts += ["namespaces", _quoted(metadata.get("namespace") or "default")]
        parts.append(resource["name"])
        if named:
            parts.append(_quoted(metadata.get("name", "")))
        return "/".join(parts + ([below] if below else []))

    def get(self, data: Json) -> Json:
        """An object as the server has it, by apiVersion, kind, namespace and name."""
        return self.request("GET", self.path(data)).body

    def list(self, api_version: str, kind: str, namespace: str = "", selector: str = "") -> list[Json]:
        """Objects of a kind, in one namespace or in all."""
        resource = self._resource(api_version, kind)
        place = f"/namespaces/{_quoted(namespace)}" if namespace else ""
        query = {"labelSelector": selector} if selector else None
        answer = self.request("GET", f"{_group_path(api_version)}{place}/{resource['name']}", query=query)
        return [{"apiVersion": api_version, "kind": kind, **item} for item in answer.body.get("items") or []]

    def create(self, data: Json, *, dry_run: bool = False, manager: str = MANAGER) -> Answer:
        """Create an object; in a dry run everything happens but for storing it."""
        query = {"fieldManager": manager, "fieldValidation": "Strict", **({"dryRun": "All"} if dry_run else {})}
        return self.request("POST", self.path(data, named=False), data, query=query)

    def apply(self, data: Json, *, dry_run: bool = False, force: bool = True, manager: str = MANAGER) -> Answer:
        """Server-side apply."""
        query = {"fieldManager": manager, "fieldValidation": "Strict", "force": str(force).lower()}
        if dry_run:
            query["dryRun"] = "All"
        return self.request("PATCH", self.path(data), data, query=query, kind=APPLY)

    def patch(self, data: Json, change: Any, *, kind: str = MERGE, below: str = "", manager: str = MANAGER) -> Json:
        """Patch an object, or its subresource `below`."""
        path = self.path(data, below=below)
        return self.request("PATCH", path, change, query={"fieldManager": manager}, kind=kind).body

    def delete(self, data: Json, *, propagation: str = "Background", now: bool = False) -> Json:
        """Delete an object; `now` leaves its pods no time."""
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if now:
            options["gracePeriodSeconds"] = 0
        return self.request("DELETE", self.path(data), options).body

    def allowed(self, user: User, verb: str, resource: str, namespace: str = "", *, name: str = "") -> bool:
        """Whether the server's authorizer lets somebody do something. `resource` is like `jobs.batch` or `pods/log`."""
        plural, _, group = resource.partition(".")
        plural, _, subresource = plural.partition("/")
        attributes = {"verb": verb, "resource": plural, "group": group, "namespace": namespace}
        attributes |= {"subresource": subresource, "name": name}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user.name, "groups": list(user.groups), "resourceAttributes": attributes},
        }
        status = self.create(review).body["status"]
        return bool(status.get("allowed")) and not status.get("denied")

    def serves(self, api_version: str, kind: str) -> bool:
        """Whether the server knows a kind by now."""
        try:
            self._resource(api_version, kind)
        except Refused:
            return False
        return True

    def until(self, what: str, check: Callable[[], Any], seconds: float = 120) -> Any:
        """What `check` gives, as soon as it is true. Fault where that takes too long; `what` says what was awaited."""
        deadline = time.monotonic() + seconds
        while not (found := check()):
            if time.monotonic() > deadline:
                raise Fault(f"{self.server}: after {seconds:g} s still no {what}")
            time.sleep(0.05)
        return found

    def _resource(self, api_version: str, kind: str) -> Json:
        if kind not in self._resources.get(api_version, {}):
            try:
                listed = self.request("GET", _group_path(api_version)).body.get("resources") or []
            except Refused as error:
                if error.code != http.client.NOT_FOUND:
                    raise
                listed = []
            self._resources[api_version] = {each["kind"]: each for each in listed if "/" not in each["name"]}
        found = self._resources[api_version].get(kind)
        if found is None:
            message = f'no matches for kind "{kind}" in version "{api_version}"'
            raise Refused(http.client.NOT_FOUND, {"message": message, "reason": "NotFound"})
        return found

    def _send(self, method: str, target: str, payload: bytes | None, kind: str) -> http.client.HTTPResponse:
        if self._line.connection is None:
            place = urllib.parse.urlsplit(self.server)
            self._line.connection = http.client.HTTPSConnection(
                place.hostname or "", place.port, timeout=TIMEOUT_SECONDS, context=self.trust
            )
        connection = self._line.connection
        connection.putrequest(method, target)
        headers = [("Accept", "application/json"), ("User-Agent", "trainyard")]
        if self.token or self.basic:
            headers.append(("Authorization", self.basic or f"Bearer {self.token}"))
        if self.user is not None:
            headers += self.user.headers()
        if payload is not None:
            headers += [("Content-Type", kind), ("Content-Length", str(len(payload)))]
        for name, value in headers:
            connection.putheader(name, value)
        connection.endheaders(payload)
        return connection.getresponse()


def _group_path(api_version: str) -> str:
    group = "/".join(map(_quoted, api_version.split("/", 1)))
    return f"/apis/{group}" if "/" in api_version else f"/api/{group}"


def _quoted(text: Any) -> str:
    return urllib.parse.quote(str(text), safe="")


def _document(text: bytes, code: int) -> Json:
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if isinstance(document, dict):
        return document
    return {"message": f"HTTP {code}: {text[:200].decode(errors='replace').strip()}"}


def _warning(header: str) -> str:
    """The text of a Warning header, `299 - "text"`."""
    _, quote, rest = header.partition('"')
    return rest.rstrip().removesuffix('"').replace('\\"', '"').replace("\\\\", "\\") if quote else header
