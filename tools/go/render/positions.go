package main

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// position is where kustomize's own engine has a rendered scalar from: the file, line and column that the scalar's node
// was read at. Line is 0 where the node was not read from a file by itself: kustomize made it, or read it from JSON or
// from a text within a kustomization.
type position struct {
	Path   []any  `json:"path"`
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
}

var errNotTheSame = errors.New("blank lines above its documents change what it renders to")

// positions builds a folder once more from numbered files. The objects must be the same to the byte.
func (r *result) positions(files *files, folder string) ([][]position, error) {
	numbered := &numbered{files: files, next: firstNumber, left: map[string]bool{}, texts: map[string][]byte{}}
	resources, err := build(numbered, folder)
	if err := files.explain(err); err != nil {
		return nil, err
	}
	if resources.Size() != len(r.Objects) {
		return nil, errNotTheSame
	}
	positions := [][]position{}
	for i, resource := range resources.Resources() {
		object, err := resource.MarshalJSON()
		if err != nil || !bytes.Equal(object, r.Objects[i]) {
			return nil, errNotTheSame
		}
		positions = append(positions, numbered.of(resource.YNode(), nil, []position{}))
	}
	return positions, nil
}

// numbered gives each document of a YAML file lines of its own: it is read below that many blank lines. A node keeps
// its line through every merge and copy, so in the end the line tells the document. Kustomizations are left as they
// are, for their texts are not nodes, and so are files that become texts of a ConfigMap or Secret.
type numbered struct {
	*files
	starts []start
	next   int
	left   map[string]bool
	texts  map[string][]byte
}

// start is what one document's lines are counted from.
type start struct {
	blank, above int
	file         string
}

// firstNumber is more than the lines of any text within a file, such as a patch in a kustomization: its nodes are
// counted from 1.
const firstNumber = 10_000

var separator = regexp.MustCompile(`\n---.*\n`) // as kyaml splits a file

func (n *numbered) ReadFile(name string) ([]byte, error) {
	content, err := n.files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	extension, base := filepath.Ext(name), filepath.Base(name)
	isKustomization := slices.Contains(konfig.RecognizedKustomizationFileNames(), base)
	if !isKustomization && (n.left[name] || extension != ".yaml" && extension != ".yml") {
		return content, nil
	}
	if bytes.Count(content, []byte("\n")) >= firstNumber {
		return nil, n.refuse("%s has too many lines to number the others", base)
	}
	n.leave(filepath.Dir(name), content)
	if isKustomization {
		return content, nil
	}
	if _, known := n.texts[name]; !known {
		if n.texts[name], err = n.number(name, content); err != nil {
			return nil, err
		}
	}
	return n.texts[name], nil
}

// leave notes the files that a kustomization or a generator makes texts of.
func (n *numbered) leave(folder string, content []byte) {
	documents := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var document struct {
			types.KvPairSources `yaml:",inline"`
			ConfigMapGenerator  []types.KvPairSources `yaml:"configMapGenerator"`
			SecretGenerator     []types.KvPairSources `yaml:"secretGenerator"`
		}
		if documents.Decode(&document) != nil {
			return
		}
		for _, each := range slices.Concat(
			[]types.KvPairSources{document.KvPairSources}, document.ConfigMapGenerator, document.SecretGenerator,
		) {
			for _, source := range slices.Concat(each.FileSources, each.EnvSources, []string{each.EnvSource}) {
				n.left[filepath.Join(folder, source[strings.Index(source, "=")+1:])] = true
			}
		}
	}
}

func (n *numbered) number(name string, content []byte) ([]byte, error) {
	file, _ := n.tree.relative(name)
	var text bytes.Buffer
	at, above := 0, 0
	for _, found := range append(separator.FindAllIndex(content, -1), []int{len(content), len(content)}) {
		document := content[at:found[0]]
		lines := bytes.Count(content[at:found[1]], []byte("\n"))
		if int64(text.Len()+len(content)+n.next) > n.bounds.fileBytes {
			return nil, n.refuse("%s has too many documents to number them", file)
		}
		n.starts = append(n.starts, start{n.next, above, file})
		if bytes.HasPrefix(document, []byte("---")) { // a separator without a document before it, which kyaml keeps
			end := bytes.IndexByte(document, '\n') + 1
			text.Write(document[:end])
			document = document[end:]
		}
		text.Write(bytes.Repeat([]byte("\n"), n.next))
		text.Write(document)
		text.Write(content[found[0]:found[1]])
		n.next += lines + 2
		above += lines
		at = found[1]
	}
	return text.Bytes(), nil
}

// of adds the positions of the scalars at and below a node.
func (n *numbered) of(node *yaml.Node, path []any, found []position) []position {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			found = n.of(node.Content[i+1], append(slices.Clone(path), node.Content[i].Value), found)
		}
	case yaml.SequenceNode:
		for i, item := range node.Content {
			found = n.of(item, append(slices.Clone(path), i), found)
		}
	case yaml.ScalarNode:
		found = append(found, n.position(node, path))
	default:
		panic(fmt.Sprintf("a rendered object has a node of kind %d", node.Kind))
	}
	return found
}

func (n *numbered) position(node *yaml.Node, path []any) position {
	after := sort.Search(len(n.starts), func(i int) bool { return n.starts[i].blank >= node.Line })
	if after == 0 {
		return position{Path: path}
	}
	from := n.starts[after-1]
	return position{path, from.file, node.Line - from.blank + from.above, node.Column}
}
