"""One kustomization after another, in kustomize's order, over nodes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from trainyard.kustomize.kustomization import Kustomization, has_kustomization, inline, join, read
from trainyard.kustomize.replay import fieldspecs, generators, names, patches, replacements, transformers
from trainyard.kustomize.replay.fieldspecs import FieldSpec
from trainyard.kustomize.replay.patches import Patch
from trainyard.kustomize.replay.replacements import Replacement, Wiring
from trainyard.kustomize.replay.resources import Resource, text_of
from trainyard.yaml.nodes import Node
from trainyard.yaml.sources import Sources


@dataclass(slots=True)
class Stage:
    """Objects on their way, and what was done to them so far."""

    resources: list[Resource] = field(default_factory=list)
    deleted: list[Resource] = field(default_factory=list)
    """Objects that a patch deleted, as they stood then."""
    patches: list[Patch] = field(default_factory=list)
    unreached: list[Wiring] = field(default_factory=list)
    """Replacements without a source or without a target."""
    specs: dict[str, list[FieldSpec]] = field(default_factory=dict)
    """Field specs of `configurations`, by their section."""
    references: list[names.Reference] = field(default_factory=list)

    def absorb(self, other: "Stage") -> None:
        """Take over copies of another stage's objects, and its records."""
        forks = {id(resource): resource.fork() for resource in (*other.resources, *other.deleted)}
        self.resources.extend(forks[id(resource)] for resource in other.resources)
        self.deleted.extend(forks[id(resource)] for resource in other.deleted)
        self.patches.extend(other.patches)
        self.unreached.extend(other.unreached)
        self.references.extend(other.references)
        for section, specs in other.specs.items():
            self.specs.setdefault(section, []).extend(specs)


def evaluate(sources: Sources, folder: str) -> Stage:
    """What a folder builds: all but its local objects, which are among `deleted`."""
    stage = Stage()
    stage.absorb(_built(sources, folder))
    for resource in stage.resources:
        if resource.hashed:
            resource.remember()
            name = resource.own().at(("metadata", "name"))
            metadata = resource.node.child("metadata")
            if name is not None and metadata is not None:
                new = f"{text_of(name)}-{generators.name_hash(resource)}"
                metadata.value["name"] = Node(new, name.raw, name.key_raw, name.style, new, "str")
                resource.renamed()
    names.repair(stage.resources, stage.references)
    stage.deleted.extend(resource for resource in stage.resources if resource.is_local)
    stage.resources = [resource for resource in stage.resources if not resource.is_local]
    return stage


def _built(sources: Sources, folder: str) -> Stage:
    """A folder's stage. It is kept for the run, and whoever takes its objects forks them."""
    kept = sources.kept.get(("replay", folder))
    if isinstance(kept, Stage):
        return kept
    stage = Stage()
    _run(sources, read(sources, folder), stage)
    sources.kept["replay", folder] = stage
    return stage


def _run(sources: Sources, loaded: Kustomization, stage: Stage) -> None:
    for entry in (*loaded.items("resources"), *loaded.items("bases")):
        _resource(sources, join(loaded.folder, entry.value), stage)
    for entry in loaded.items("configurations"):
        _configure(sources.documents(join(loaded.folder, entry.value)), stage)
    _generate(sources, loaded, stage)
    for entry in loaded.items("components"):
        _run(sources, read(sources, join(loaded.folder, entry.value)), stage)
    _transform(sources, loaded, stage)
    wired: list[Replacement] = []
    for entry in loaded.items("transformers"):
        for config in _configs(sources, loaded, entry):
            if text_of(config.child("kind")) == "ReplacementTransformer":
                wired += _wiring(sources, loaded, config)
                continue
            stage.unreached.extend(replacements.apply(stage.resources, wired))
            wired = []
            _builtin(sources, loaded, config, stage)
    stage.unreached.extend(replacements.apply(stage.resources, wired))


def _resource(sources: Sources, path: str, stage: Stage) -> None:
    if has_kustomization(sources, path):
        stage.absorb(_built(sources, path))
        return
    for document in sources.documents(path):
        stage.resources.extend(Resource(node) for node in _unlisted(document))


def _unlisted(document: Node) -> Iterator[Node]:
    """A document, or the items of one that is a list."""
    if type(document.value) is not dict:
        return
    items = document.child("items")
    if text_of(document.child("kind")).endswith("List") and items is not None:
        for item in items.value if type(items.value) is list else ():
            yield from _unlisted(item)
        return
    yield document


def _configure(documents: Iterable[Node], stage: Stage) -> None:
    for document in documents:
        for section, listed in document.value.items() if type(document.value) is dict else ():
            entries = listed.value if type(listed.value) is list else []
            if section != "nameReference":
                stage.specs.setdefault(section, []).extend(FieldSpec.of(entry) for entry in entries)
                continue
            for entry in entries:
                specs = entry.child("fieldSpecs")
                for spec in specs.value if specs is not None and type(specs.value) is list else ():
                    kind, group = text_of(entry.child("kind")), text_of(entry.child("group"))
                    stage.references.append((kind, group, FieldSpec.of(spec)))


def _generate(sources: Sources, loaded: Kustomization, stage: Stage) -> None:
    options = loaded.root.child("generatorOptions")
    for kind, name in (("ConfigMap", "configMapGenerator"), ("Secret", "secretGenerator")):
        for entry in loaded.items(name):
            _absorb(generators.generate(sources, loaded.folder, kind, entry, options), stage)
    for entry in loaded.items("generators"):
        for config in _configs(sources, loaded, entry):
            kind = text_of(config.child("kind")).removesuffix("Generator")
            if kind not in ("ConfigMap", "Secret"):
                continue
            named = config.copy()
            for key in ("name", "namespace"):
                given = config.at(("metadata", key))
                if given is not None:
                    named.value.setdefault(key, given)
            _absorb(generators.generate(sources, loaded.folder, kind, named, None), stage)


def _absorb(made: Resource, stage: Stage) -> None:
    """Add a generated object, or merge it into the one that it is meant for."""
    old = next((each for each in stage.resources if each.has_id("v1", made.kind, made.name, made.namespace)), None)
    if old is None or made.behavior not in ("merge", "replace"):
        stage.resources.append(made)
        return
    root = old.own()
    for key in ("data", "type", "immutable"):
        new, present = made.node.child(key), root.value.get(key)
        if new is None:
            continue
        if made.behavior == "merge" and key == "data" and present is not None and type(present.value) is dict:
            present.value.update(new.value)
        else:
            root.value[key] = new
    for key in ("labels", "annotations"):
        added, metadata = made.node.at(("metadata", key)), root.child("metadata")
        if added is not None and metadata is not None:
            held = metadata.value.setdefault(key, Node({}, None, tag="map"))
            held.value.update(added.value)
    old.hashed = old.hashed and made.hashed


def _transform(sources: Sources, loaded: Kustomization, stage: Stage) -> None:
    resources, root = stage.resources, loaded.root
    for entry in loaded.items("patchesStrategicMerge"):
        document = inline(entry)
        file = None if document is not None else join(loaded.folder, entry.value)
        _patch(stage, patches.read(sources, file, entry, entry))
    for entry in loaded.items("patches"):
        _patch(stage, _read_patch(sources, loaded, entry))
    namespace = loaded.text("namespace")
    if namespace is not None:
        transformers.set_namespace(resources, namespace)
        _extra_namespaces(stage, namespace)
    for key, is_prefix in (("namePrefix", True), ("nameSuffix", False)):
        affix = loaded.text(key)
        if affix is not None:
            transformers.add_affix(resources, affix, _more(stage, key), prefix=is_prefix)
    for entry in loaded.items("labels"):
        transformers.add_strings(resources, entry.child("pairs"), _label_specs(entry, stage))
    common = (*fieldspecs.SELECTOR_LABELS, *stage.specs.get("commonLabels", ()))
    transformers.add_strings(resources, root.child("commonLabels"), common)
    noted = (*fieldspecs.ANNOTATIONS, *stage.specs.get("commonAnnotations", ()))
    transformers.add_strings(resources, root.child("commonAnnotations"), noted)
    for entry in loaded.items("patchesJson6902"):
        _patch(stage, _read_patch(sources, loaded, entry))
    for entry in loaded.items("replicas"):
        transformers.set_replicas(resources, entry, stage.specs.get("replicas", ()))
    for entry in (*loaded.items("images"), *loaded.items("imageTags")):
        transformers.set_image(resources, entry, stage.specs.get("images", ()))
    wired = [each for entry in loaded.items("replacements") for each in _replacements(sources, loaded, entry)]
    stage.unreached.extend(replacements.apply(resources, wired))


def _more(stage: Stage, section: str) -> list[FieldSpec]:
    return [spec for spec in stage.specs.get(section, ()) if spec.path != ("metadata", "name")]


def _extra_namespaces(stage: Stage, namespace: Node) -> None:
    def put(parent: Node, name: str) -> None:
        present = parent.value.get(name)
        parent.value[name] = namespace if present is None else namespace.under(present.key_raw)

    for spec in stage.specs.get("namespace", ()):
        for resource in stage.resources:
            if spec.applies(resource) and spec.path[0] != "metadata":
                fieldspecs.each(resource.own(), spec.path, spec.create, put)


def _label_specs(entry: Node, stage: Stage) -> list[FieldSpec]:
    def flag(name: str) -> bool:
        node = entry.child(name)
        return node is not None and node.value is True

    listed = entry.child("fields")
    own = [FieldSpec.of(spec) for spec in listed.value] if listed is not None and type(listed.value) is list else []
    own.extend(stage.specs.get("labels", ()))
    if flag("includeSelectors"):
        return [*own, *fieldspecs.SELECTOR_LABELS, *stage.specs.get("commonLabels", ())]
    if flag("includeTemplates"):
        own.extend((*fieldspecs.TEMPLATE_LABELS, *stage.specs.get("templateLabels", ())))
    if flag("includeVolumeClaimTemplates"):
        own.extend(fieldspecs.CLAIM_TEMPLATE_LABELS)
    return [*own, fieldspecs.METADATA_LABELS]


def _read_patch(sources: Sources, loaded: Kustomization, entry: Node) -> list[Patch]:
    path, text = entry.child("path"), entry.child("patch") or entry.child("jsonOp")
    file = join(loaded.folder, path.value) if path is not None and type(path.value) is str and path.value else None
    return patches.read(sources, file, text, entry)


def _patch(stage: Stage, read_patches: list[Patch]) -> None:
    for patch in read_patches:
        stage.patches.append(patch)
        stage.deleted.extend(patches.apply(stage.resources, patch))


def _wiring(sources: Sources, loaded: Kustomization, config: Node) -> list[Replacement]:
    """The replacements of a transformer, read once where they all stand in it: every job has the same."""
    listed = config.child("replacements")
    entries = listed.value if listed is not None and type(listed.value) is list else []
    if config.raw is None or any(entry.child("path") is not None for entry in entries):
        return [each for entry in entries for each in _replacements(sources, loaded, entry)]
    key = ("wiring", f"{config.raw[0].file}:{config.raw[1]}:{config.raw[2]}")
    kept = sources.kept.get(key)
    if isinstance(kept, _Wiring) and kept.config is config:
        return kept.replacements
    made = _Wiring(config, [Replacement.of(entry) for entry in entries])
    sources.kept[key] = made
    return made.replacements


@dataclass(frozen=True, slots=True)
class _Wiring:
    config: Node
    replacements: list[Replacement]


def _replacements(sources: Sources, loaded: Kustomization, entry: Node) -> list[Replacement]:
    path = entry.child("path")
    named = path is not None and type(path.value) is str and path.value
    nodes = _replacement_nodes(sources.documents(join(loaded.folder, text_of(path)))) if named else [entry]
    return [_replacement(sources, node) for node in nodes]


def _replacement_nodes(documents: list[Node]) -> list[Node]:
    first = documents[0] if documents else None
    if first is None:
        return []
    return first.value if type(first.value) is list else [first]


def _replacement(sources: Sources, node: Node) -> Replacement:
    key = ("replacement", f"{node.raw[0].file}:{node.raw[1]}:{node.raw[2]}" if node.raw is not None else "")
    kept = sources.kept.get(key)
    if isinstance(kept, Replacement) and node.raw is not None and kept.entry == node.raw:
        return kept
    made = Replacement.of(node)
    sources.kept[key] = made
    return made


def _configs(sources: Sources, loaded: Kustomization, entry: Node) -> list[Node]:
    """The transformers or generators that an entry holds or names, in order."""
    document = inline(entry)
    if document is not None:
        return [document]
    path = join(loaded.folder, entry.value)
    if not has_kustomization(sources, path):
        return sources.documents(path)
    return [resource.node for resource in _built(sources, path).resources]


def _builtin(sources: Sources, loaded: Kustomization, config: Node, stage: Stage) -> None:
    kind = text_of(config.child("kind"))
    resources = stage.resources
    listed = config.child("fieldSpecs")
    specs = [FieldSpec.of(spec) for spec in listed.value] if listed is not None and type(listed.value) is list else []
    if kind in ("PatchTransformer", "PatchJson6902Transformer"):
        _patch(stage, _read_patch(sources, loaded, config))
    elif kind == "PatchStrategicMergeTransformer":
        _merge_patches(sources, loaded, config, stage)
    elif kind == "NamespaceTransformer":
        namespace, unset = config.at(("metadata", "namespace")), config.child("unsetOnly")
        if namespace is not None and namespace.value:
            subjects = text_of(config.child("setRoleBindingSubjects"))
            only = unset is not None and unset.value is True
            transformers.set_namespace(resources, namespace, unset_only=only, subjects=subjects)
    elif kind in ("PrefixTransformer", "SuffixTransformer"):
        affix = config.child("prefix" if kind == "PrefixTransformer" else "suffix")
        if affix is not None and affix.value and any(spec.path == ("metadata", "name") for spec in specs):
            extra = [spec for spec in specs if spec.path != ("metadata", "name")]
            transformers.add_affix(resources, affix, extra, prefix=kind == "PrefixTransformer")
    elif kind in ("LabelTransformer", "AnnotationsTransformer"):
        transformers.add_strings(resources, config.child("labels") or config.child("annotations"), specs)
    elif kind == "ImageTagTransformer":
        entry = config.child("imageTag")
        if entry is not None:
            transformers.set_image(resources, entry, specs)
    elif kind == "ReplicaCountTransformer":
        entry = config.child("replica")
        if entry is not None:
            transformers.set_replicas(resources, entry, specs)


def _merge_patches(sources: Sources, loaded: Kustomization, config: Node, stage: Stage) -> None:
    listed, text = config.child("paths"), config.child("patches")
    for entry in listed.value if listed is not None and type(listed.value) is list else ():
        file = None if inline(entry) is not None else join(loaded.folder, entry.value)
        _patch(stage, patches.read(sources, file, entry, entry))
    if text is not None and type(text.value) is str:
        _patch(stage, patches.read(sources, None, text, config))
