"""What the controllers made for an object: the owners that they write into it lead back there."""

from typing import Any

from trainyard.controlplane import Client, Refused

Json = dict[str, Any]


def owned(client: Client, root: Json, api_version: str, kind: str) -> list[Json]:
    """Objects of a kind in the namespace of `root` that it owns, by however many others between."""
    namespace = root["metadata"]["namespace"]
    known = {client.get(root)["metadata"]["uid"]: True}
    return [item for item in client.list(api_version, kind, namespace) if _descends(client, item, namespace, known)]


def passing_names(client: Client, item: Json) -> set[str]:
    """What tells this run from the next of the same job: the UIDs of an object and its owners, and names made up."""
    metadata = item["metadata"]
    found = {metadata["uid"]}
    for reference in metadata.get("ownerReferences", []):
        owner = _owner(client, reference, metadata["namespace"])
        if owner is None:
            found.add(reference["uid"])
            continue
        found |= passing_names(client, owner)
        if _is_made_up(owner):
            found.add(owner["metadata"]["name"])
    return found


def _is_made_up(item: Json) -> bool:
    """Whether an object's name ends with five letters drawn by chance: that of a RayJob's cluster."""
    return item["kind"] == "RayCluster" and bool(item["metadata"].get("ownerReferences"))


def _descends(client: Client, item: Json, namespace: str, known: dict[str, bool]) -> bool:
    for reference in item["metadata"].get("ownerReferences", []):
        uid = reference["uid"]
        if uid not in known:
            known[uid] = False
            owner = _owner(client, reference, namespace)
            known[uid] = owner is not None and _descends(client, owner, namespace, known)
        if known[uid]:
            return True
    return False


def _owner(client: Client, reference: Json, namespace: str) -> Json | None:
    """The object that a reference names, or None where it is gone."""
    named = {"apiVersion": reference["apiVersion"], "kind": reference["kind"]}
    try:
        found = client.get({**named, "metadata": {"namespace": namespace, "name": reference["name"]}})
    except Refused:
        return None
    return {**named, **found} if found["metadata"]["uid"] == reference["uid"] else None
