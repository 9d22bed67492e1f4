package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

var placed = map[string]string{
	"over/kustomization.yaml": `namespace: team
resources: [../base]
configMapGenerator:
- {name: made, files: [text.yaml], options: {disableNameSuffixHash: true}}
patches:
- path: patch.yaml
- target: {kind: Second}
  patch: |-
    apiVersion: example.org/v1
    kind: Second
    metadata: {name: any}
    spec: {inline: 1}
- target: {kind: Third}
  patch: '[{"op": "add", "path": "/spec/size", "value": 3}]'
`,
	"over/patch.yaml":         "# a comment\n\napiVersion: example.org/v1\nkind: First\nmetadata: {name: one}\nspec: {size: 2}\n",
	"over/text.yaml":          "kind: Text\n",
	"base/kustomization.yaml": "resources: [one.yaml, two.yaml]\n",
	"base/one.yaml":           "---\napiVersion: example.org/v1\nkind: First\nmetadata: {name: one}\nspec:\n  size: 1\n  list:\n  - a\n",
	"base/two.yaml": `apiVersion: example.org/v1
kind: Second
metadata: {name: two}
spec: {size: 1}
--- # and
# a comment
apiVersion: example.org/v1
kind: Third
metadata: {name: three}
spec: {size: 1}
---
---
apiVersion: example.org/v1
kind: Fourth
metadata: {name: four}
spec: {text: "x"}
`,
}

func TestPositionsAreThoseOfTheFiles(t *testing.T) {
	one := answers(t, write(t, placed), roomy, "over")[0]
	if one.Error != "" {
		t.Fatal(one.Error)
	}
	if len(one.Positions) != len(one.Objects) {
		t.Fatalf("%d objects, and positions of %d", len(one.Objects), len(one.Positions))
	}
	byKind := map[string][]position{}
	for i, object := range one.Objects {
		var typed struct{ Kind string }
		if err := json.Unmarshal(object, &typed); err != nil {
			t.Fatal(err)
		}
		byKind[typed.Kind] = one.Positions[i]
	}
	for kind, want := range map[string]map[string]string{
		"First": {"kind": ":0:0", "spec.size": "over/patch.yaml:6:14", "spec.list.0": "base/one.yaml:8:5",
			"metadata.namespace": ":0:0"},
		"Second":    {"kind": ":0:0", "spec.inline": ":0:0", "spec.size": "base/two.yaml:4:14"},
		"Third":     {"kind": ":0:0", "spec.size": ":0:0"},
		"Fourth":    {"kind": "base/two.yaml:14:7", "spec.text": "base/two.yaml:16:14"},
		"ConfigMap": {"data.text.yaml": ":0:0"},
	} {
		for path, position := range want {
			if found := positionOf(byKind[kind], path); found != position {
				t.Errorf("%s, %s: %s, not %s", kind, path, found, position)
			}
		}
	}
}

func positionOf(positions []position, path string) string {
	for _, each := range positions {
		var steps []string
		for _, step := range each.Path {
			steps = append(steps, fmt.Sprint(step))
		}
		if strings.Join(steps, ".") == path {
			return fmt.Sprintf("%s:%d:%d", each.File, each.Line, each.Column)
		}
	}
	return "absent"
}

func TestPositionsChangeNoAnswer(t *testing.T) {
	root := write(t, placed)
	with := answers(t, root, roomy, "over")[0]
	tree, err := openTree(root)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.close()
	without := render(tree, "over", roomy, extras{yaml: true})

	if with.YAML != without.YAML || len(without.Positions) != 0 || fmt.Sprint(with.Reads) != fmt.Sprint(without.Reads) {
		t.Errorf("with positions:\n%s\nwithout:\n%s", with.YAML, without.YAML)
	}
}

func TestWhatIsTooLongIsNotNumbered(t *testing.T) {
	document := "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\n"
	var many strings.Builder
	for i := range 200 {
		fmt.Fprintf(&many, document, i)
	}
	for name, contents := range map[string]map[string]string{
		"a/many.yaml has too many documents to number them": {
			"a/kustomization.yaml": "resources: [many.yaml]\n", "a/many.yaml": many.String(),
		},
		"kustomization.yaml has too many lines to number the others": {
			"a/kustomization.yaml": "resources: []\n" + strings.Repeat("#\n", firstNumber),
		},
	} {
		if one := answers(t, write(t, contents), roomy, "a")[0]; !strings.Contains(one.Error, name) {
			t.Errorf("error %q, not %q", one.Error, name)
		}
	}
}
