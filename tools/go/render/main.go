// Render builds kustomizations as the stock `kustomize build` does, many in one process.
//
// It reads folder names from standard input, one a line, relative to the folder given as -root, and writes one line of
// JSON for each to standard output, in the order of the names. With -scripts, it reads shell scripts in the place of
// folders, and says what they run. With -unsaved, an editor's texts stand for those of files. It is made for input from strangers: no path leaves the root, nothing is fetched,
// started or written, and memory is bounded. See the constants below for its exit codes.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/openapi"
)

const (
	exitMemory = 3
	exitOrphan = 4
	exitUsage  = 5
)

// extras are what an answer holds besides the objects.
type extras struct {
	yaml      bool
	positions bool
}

// result is one line of output. Its fields never mix with another folder's: each is made anew for each folder.
type result struct {
	Folder    string            `json:"folder"`
	Objects   []json.RawMessage `json:"objects"`
	YAML      string            `json:"yaml,omitempty"`
	Positions [][]position      `json:"positions,omitempty"`
	Reads     map[string]string `json:"reads"`
	Error     string            `json:"error"`
}

func main() {
	var bounds bounds
	flags := flag.NewFlagSet("render", flag.ContinueOnError)
	root := flags.String("root", ".", "folder that no path may leave")
	var extras extras
	flags.BoolVar(&extras.yaml, "yaml", false, "also give what kustomize build prints")
	flags.BoolVar(&extras.positions, "positions", false, "also give the position of each scalar, as kustomize's engine has it")
	scripts := flags.Bool("scripts", false, "follow scripts, and render nothing")
	unsaved := flags.Bool("unsaved", false, "read a line of JSON first: texts that stand for those of files, by path")
	memory := flags.Uint64("memory-bytes", 2<<30, "memory of this process; beyond it, it ends with exit code 3")
	flags.Int64Var(&bounds.fileBytes, "file-bytes", 4<<20, "size of one file")
	flags.IntVar(&bounds.nodes, "nodes", 200_000, "YAML nodes of one file, its aliases expanded")
	flags.IntVar(&bounds.kustomizations, "kustomizations", 200, "kustomizations that one folder may pull in")
	flags.IntVar(&bounds.renderedBytes, "rendered-bytes", 64<<20, "JSON that one folder may render to")
	flags.IntVar(&bounds.depth, "depth", 64, "nesting of one rendered object")
	if flags.Parse(os.Args[1:]) != nil {
		os.Exit(exitUsage)
	}

	output := os.Stdout
	os.Stdout = os.Stderr
	cutOff()
	go watch(*memory)
	err := error(nil)
	if *scripts {
		err = serveScripts(os.Stdin, output)
	} else {
		err = serveBelow(*root, *unsaved, os.Stdin, output, bounds, extras)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(exitUsage)
	}
}

func serveBelow(root string, unsaved bool, input io.Reader, output io.Writer, bounds bounds, extras extras) error {
	tree, err := openTree(root)
	if err != nil {
		return err
	}
	defer tree.close()
	if unsaved {
		lines := bufio.NewReader(input)
		first, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		if err := json.Unmarshal(first, &tree.unsaved); err != nil {
			return err
		}
		input = lines
	}
	return serve(input, output, tree, bounds, extras)
}

func serve(names io.Reader, output io.Writer, tree *tree, bounds bounds, extras extras) error {
	lines := bufio.NewScanner(names)
	encoder := json.NewEncoder(output)
	encoder.SetEscapeHTML(false)
	for lines.Scan() {
		if err := encoder.Encode(render(tree, lines.Text(), bounds, extras)); err != nil {
			return err
		}
	}
	return lines.Err()
}

func render(tree *tree, folder string, bounds bounds, extras extras) (rendered result) {
	files := newFiles(tree, bounds)
	rendered = result{Folder: folder, Objects: []json.RawMessage{}, Reads: files.reads}
	defer func() {
		if cause := recover(); cause != nil {
			rendered.Error = fmt.Sprint("kustomize gave up: ", cause)
		}
		if rendered.Error != "" {
			rendered.Error = tree.oneLine(rendered.Error)
			rendered.Objects = []json.RawMessage{}
			rendered.YAML = ""
			rendered.Positions = nil
		}
		forgetSchema()
	}()
	if !filepath.IsLocal(folder) || path.Clean(folder) != folder {
		rendered.Error = "not a plain path below the root"
		return rendered
	}
	if err := rendered.build(files, tree.join(folder), bounds, extras); err != nil {
		rendered.Error = err.Error()
	}
	return rendered
}

func (r *result) build(files *files, folder string, bounds bounds, extras extras) error {
	resources, err := build(files, folder)
	if err := files.explain(err); err != nil {
		return err
	}
	size := 0
	for _, resource := range resources.Resources() {
		object, err := resource.MarshalJSON()
		if err != nil {
			return fmt.Errorf("%s has a value that JSON does not have: %w", resource.CurId(), err)
		}
		if size += len(object); size > bounds.renderedBytes {
			return fmt.Errorf("renders to more than %d bytes", bounds.renderedBytes)
		}
		if depth(object) > bounds.depth {
			return fmt.Errorf("%s nests deeper than %d levels", resource.CurId(), bounds.depth)
		}
		r.Objects = append(r.Objects, object)
	}
	if extras.yaml {
		yaml, err := resources.AsYaml()
		if err != nil {
			return err
		}
		r.YAML = string(yaml)
	}
	if extras.positions {
		r.Positions, err = r.positions(newFiles(files.tree, bounds), folder)
	}
	return err
}

func build(files filesys.FileSystem, folder string) (resmap.ResMap, error) {
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified
	return krusty.MakeKustomizer(options).Run(files, folder)
}

var stockSchema = openapi.GetSchemaVersion()

// forgetSchema undoes the field `openapi` of a kustomization. Kustomize keeps that schema for the whole process, and
// the next folder's patches would be merged by it.
func forgetSchema() {
	if openapi.GetSchemaVersion() != stockSchema {
		openapi.ResetOpenAPI()
	}
}

// depth counts the levels of a JSON document.
func depth(document []byte) int {
	deepest, level, quoted := 0, 0, false
	for i := 0; i < len(document); i++ {
		switch c := document[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return deepest
}

const errorBytes = 4096

// oneLine makes a message fit for a report: no path above the root, no control character, a bounded length.
func (t *tree) oneLine(message string) string {
	if t.path != "/" {
		message = strings.ReplaceAll(message, t.path+"/", "")
		message = strings.ReplaceAll(message, t.path, ".")
	}
	message = strings.Join(strings.FieldsFunc(message, func(c rune) bool {
		return c <= ' ' || c >= 0x7f && c <= 0xa0 || c == '\u2028' || c == '\u2029'
	}), " ")
	if len(message) > errorBytes {
		half := errorBytes / 2
		message = message[:half] + " ... " + message[len(message)-half:]
	}
	return strings.ToValidUTF8(message, "?")
}
