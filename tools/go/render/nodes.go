package main

import (
	"bytes"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// expanded counts the YAML nodes of a file as they are once each alias is replaced by a copy of what it names, and
// stops counting above limit. A file without aliases counts as zero: its size bounds it. So does one that is not YAML.
func expanded(content []byte, limit int) int {
	if !bytes.ContainsRune(content, '*') || !bytes.ContainsRune(content, '&') {
		return 0
	}
	counter := nodeCounter{limit: limit, sizes: map[*yaml.Node]int{}}
	total := 0
	documents := yaml.NewDecoder(bytes.NewReader(content))
	for total <= limit {
		var document yaml.Node
		if documents.Decode(&document) != nil {
			break
		}
		total += counter.size(&document)
	}
	return total
}

// nodeCounter keeps the size of what an alias names, so that a chain of aliases is counted in one walk.
type nodeCounter struct {
	limit int
	sizes map[*yaml.Node]int
}

func (c *nodeCounter) size(node *yaml.Node) int {
	if node.Kind == yaml.AliasNode {
		size, known := c.sizes[node.Alias]
		if !known {
			// Only an alias within its own anchor comes before the end of what it names.
			return c.limit + 1
		}
		return size
	}
	size := 1
	for _, child := range node.Content {
		size = min(size+c.size(child), c.limit+1)
	}
	if node.Anchor != "" {
		c.sizes[node] = size
	}
	return size
}
