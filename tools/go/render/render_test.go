package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/kyaml/openapi"
)

var roomy = bounds{fileBytes: 1 << 20, nodes: 1000, kustomizations: 10, renderedBytes: 1 << 20, depth: 64}

func write(t *testing.T, contents map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range contents {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func answers(t *testing.T, root string, bounds bounds, folders ...string) []result {
	t.Helper()
	return answersTo(t, strings.Join(folders, "\n"), false, root, bounds)
}

func answersTo(t *testing.T, input string, unsaved bool, root string, bounds bounds) []result {
	t.Helper()
	var output bytes.Buffer
	extras := extras{yaml: true, positions: true}
	if err := serveBelow(root, unsaved, strings.NewReader(input), &output, bounds, extras); err != nil {
		t.Fatal(err)
	}
	var results []result
	for _, line := range strings.Split(strings.TrimSpace(output.String()), "\n") {
		var one result
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		results = append(results, one)
	}
	return results
}

const fleet = "apiVersion: example.org/v1\nkind: Fleet\nmetadata:\n  name: fleet\nspec:\n  items:\n"

var fleets = map[string]string{
	"with/kustomization.yaml":    "openapi: {path: schema.json}\nresources: [fleet.yaml]\npatches: [{path: patch.yaml}]\n",
	"with/fleet.yaml":            fleet + "  - {name: a, size: 1}\n",
	"with/patch.yaml":            fleet + "  - {name: b, size: 2}\n",
	"without/kustomization.yaml": "resources: [fleet.yaml]\npatches: [{path: patch.yaml}]\n",
	"without/fleet.yaml":         fleet + "  - {name: a, size: 1}\n",
	"without/patch.yaml":         fleet + "  - {name: b, size: 2}\n",
	"with/schema.json": `{"definitions": {"org.example.v1.Fleet": {"type": "object",
		"x-kubernetes-group-version-kind": [{"group": "example.org", "version": "v1", "kind": "Fleet"}],
		"properties": {"spec": {"type": "object", "properties": {"items": {"type": "array",
			"items": {"type": "object"},
			"x-kubernetes-patch-merge-key": "name", "x-kubernetes-patch-strategy": "merge"}}}}}}}`,
}

func TestAnUnsavedTextStandsForThatOfItsFile(t *testing.T) {
	root := write(t, fleets)
	if err := os.Symlink("fleet.yaml", filepath.Join(root, "without/link.yaml")); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{
		"without/fleet.yaml":         fleet + "  - {name: typed, size: 3}\n",
		"without/kustomization.yaml": "resources: [link.yaml]\n",
		"without/../../elsewhere":    "never read",
	}
	first, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	typed := answersTo(t, string(first)+"\nwithout\n", true, root, roomy)[0]
	saved := answers(t, root, roomy, "without")[0]

	if !strings.Contains(typed.YAML, "name: typed") || strings.Contains(saved.YAML, "name: typed") {
		t.Errorf("unsaved:\n%s\nsaved:\n%s", typed.YAML, saved.YAML)
	}
	digest := sha256.Sum256([]byte(texts["without/fleet.yaml"]))
	if typed.Reads["without/fleet.yaml"] != hex.EncodeToString(digest[:]) {
		t.Errorf("reads %v", typed.Reads)
	}
	if bounded := answersTo(t, string(first)+"\nwithout\n", true, root, bounds{fileBytes: 8}); bounded[0].Error == "" {
		t.Error("a long text is taken")
	}
	if err := serveBelow(root, true, strings.NewReader("no JSON\n"), &bytes.Buffer{}, roomy, extras{}); err == nil {
		t.Error("no texts are taken for some")
	}
}

func TestSchemaOfOneFolderIsForgottenBeforeTheNext(t *testing.T) {
	root := write(t, fleets)
	alone := answers(t, root, roomy, "without")[0]
	after := answers(t, root, roomy, "with", "without")

	if !strings.Contains(after[0].YAML, "name: a") {
		t.Errorf("the schema was not used where it is named:\n%s", after[0].YAML)
	}
	if after[1].YAML != alone.YAML || strings.Contains(after[1].YAML, "name: a") {
		t.Errorf("after a folder with a schema:\n%s\nalone:\n%s", after[1].YAML, alone.YAML)
	}
	if version := openapi.GetSchemaVersion(); version != stockSchema {
		t.Errorf("schema %q is left", version)
	}
}

func TestPanicIsTheErrorOfOneFolder(t *testing.T) {
	broken := map[string]string{"with/schema.json": "{"}
	for name, content := range fleets {
		if _, changed := broken[name]; !changed {
			broken[name] = content
		}
	}
	results := answers(t, write(t, broken), roomy, "with", "without")

	if !strings.Contains(results[0].Error, "invalid schema file") || results[1].Error != "" {
		t.Errorf("errors %q and %q", results[0].Error, results[1].Error)
	}
}

func TestErrorsNameNoFolderAboveTheRoot(t *testing.T) {
	root := write(t, map[string]string{
		"job/kustomization.yaml": "resources: [../base]\n", "base/kustomization.yaml": "resources: [../job]\n",
	})
	one := answers(t, root, roomy, "job")[0]

	if !strings.Contains(one.Error, "cycle detected: candidate root 'job'") || strings.Contains(one.Error, root) {
		t.Errorf("error %q", one.Error)
	}
}

func TestErrorIsOneBoundedLine(t *testing.T) {
	here := &tree{path: "/repository"}
	for message, want := range map[string]string{
		"a\n\tb\r\nc":                     "a b c",
		"\x1b[31mred\u009b \u2028x":       "[31mred x",
		"in /repository/a of /repository": "in a of .",
		"\xff":                            "?",
		strings.Repeat("x", 5000):         strings.Repeat("x", 2048) + " ... " + strings.Repeat("x", 2048),
	} {
		if line := here.oneLine(message); line != want {
			t.Errorf("%q became %q", message, line)
		}
	}
}

func TestNothingOfTheWorldIsInReach(t *testing.T) {
	restore := os.Environ()
	transport, client := http.DefaultTransport, http.DefaultClient
	t.Cleanup(func() {
		http.DefaultTransport, http.DefaultClient = transport, client
		os.Clearenv()
		for _, entry := range restore {
			name, value, _ := strings.Cut(entry, "=")
			_ = os.Setenv(name, value)
		}
	})
	cutOff()

	for _, client := range []*http.Client{{}, http.DefaultClient} {
		if _, err := client.Get("http://127.0.0.1/"); !errors.Is(err, errNoNetwork) {
			t.Errorf("a request ended with %v", err)
		}
	}
	if git, err := exec.LookPath("git"); err == nil {
		t.Errorf("found %s", git)
	}
	if folder, err := os.MkdirTemp("", "any"); err == nil {
		t.Errorf("made %s", folder)
	}
}

func TestFileSystemOnlyReads(t *testing.T) {
	root := write(t, map[string]string{"folder/file": "content"})
	tree, err := openTree(root)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.close()
	files, file := newFiles(tree, roomy), tree.join("folder/file")

	_, create := files.Create(file)
	_, open := files.Open(file)
	_, list := files.ReadDir(root)
	_, glob := files.Glob(file)
	for _, err := range []error{
		create, open, list, glob, files.Mkdir(file), files.MkdirAll(file), files.RemoveAll(file),
		files.WriteFile(file, nil), files.Walk(file, nil),
	} {
		if !errors.Is(err, errNotPartOfABuild) {
			t.Errorf("%v", err)
		}
	}
	if !files.IsDir(tree.join("folder")) || files.IsDir(file) || !files.Exists(file) || files.Exists(file+"s") {
		t.Error("IsDir or Exists is wrong")
	}
}

func TestLinksAreFollowedInsideOnly(t *testing.T) {
	root := write(t, map[string]string{"a/file": "content", "a/b/other": ""})
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		"relative": "a/b/../file", "absolute": filepath.Join(real, "a", "file"), "folder": "a/b",
		"up": "../a", "out": "a/../../" + filepath.Base(root) + "/a/file", "away": "/etc/hosts", "loop": "loop",
	} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := openTree(root)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.close()

	for name, want := range map[string]string{
		"a/file": "content", "relative": "content", "absolute": "content", "folder/../a/file": "content",
		"out": "outside", "up": "outside", "away": "outside", "loop": "circle", "../any": "outside", "a/none": "no such",
		"a/file/below": "no such", "folder": "not a regular file",
	} {
		content, err := newFiles(tree, roomy).ReadFile(tree.path + "/" + name)
		if err != nil && !strings.Contains(err.Error(), want) || err == nil && string(content) != want {
			t.Errorf("%s: %q, %v", name, content, err)
		}
	}
}

func TestAFileThatChangesWhileItIsReadIsRefused(t *testing.T) {
	root := write(t, map[string]string{"file": "before"})
	tree, err := openTree(root)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.close()
	files := newFiles(tree, roomy)
	if _, err := files.ReadFile(tree.join("file")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "file"), []byte("after"), 0o644); err != nil {
		t.Fatal(err)
	}

	if _, err := files.ReadFile(tree.join("file")); err == nil || files.explain(nil) == nil {
		t.Error("the second content was taken")
	}
}

func TestExpandedCountsWhatAliasesStandFor(t *testing.T) {
	for document, want := range map[string]int{
		"a: [1, 2]\n":                         0,
		"a: &x [1, 2]\nb: *x\n":               1 + 1 + 2*(1+3),
		"a: &x [1]\nb: &y [*x, *x]\nc: *y\n":  1 + 1 + (1 + 2) + 2*(1+1+2*2),
		"a: &x 1\nb: *x\n---\na: &x 1\n":      (1 + 1 + 4) + (1 + 1 + 2),
		"a: &x [*x]\n":                        1001,
		"not yaml: & *: {\n":                  0,
		"a: &x 1\nb: *x\n---\nbroken: & *: {": 1 + 1 + 4,
	} {
		if nodes := expanded([]byte(document), 1000); nodes != want {
			t.Errorf("%q has %d nodes, not %d", document, nodes, want)
		}
	}
}

func TestDepthIgnoresBracketsInStrings(t *testing.T) {
	for document, want := range map[string]int{
		`{}`: 1, `"[["`: 0, `{"a":[{"b":"\"[[{"}]}`: 3, `[[],[[]]]`: 3,
	} {
		if levels := depth([]byte(document)); levels != want {
			t.Errorf("%s has %d levels, not %d", document, levels, want)
		}
	}
}

func TestFoldersAreAnsweredInOrder(t *testing.T) {
	root := write(t, fleets)
	wrong := []string{"none", "/with", "with/", "../with", ""}
	folders := []string{"without", "none", "with", "/with", "with/", "../with", "without", "", "with"}
	results := answers(t, root, roomy, folders...)

	if len(results) != len(folders) {
		t.Fatalf("%d answers", len(results))
	}
	for i, one := range results {
		failed := slices.Contains(wrong, folders[i])
		if one.Folder != folders[i] || (one.Error != "") != failed || (len(one.Objects) == 0) != failed {
			t.Errorf("%q: %q, %d objects, error %q", folders[i], one.Folder, len(one.Objects), one.Error)
		}
	}
}
