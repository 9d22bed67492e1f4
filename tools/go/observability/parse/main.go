// Command parse reads what dashboards and agents are made of with the parsers of the programs that will run them.
//
//	parse promql    a JSON list of expressions on standard input; for each a JSON object with "error", or with
//	                "selectors": of every selector, in order, the metric, the label matchers and, where it selects
//	                a range, the function that takes the range
//	parse alloy     an Alloy configuration on standard input; a JSON list of its top-level blocks as "name label"
//
// It ends with 2 where standard input cannot be read as such.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/grafana/alloy/syntax/ast"
	alloy "github.com/grafana/alloy/syntax/parser"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

type selector struct {
	Metric string            `json:"metric"`
	Labels map[string]string `json:"labels"`
	Taker  string            `json:"taker"`
}

type query struct {
	Error     string     `json:"error,omitempty"`
	Selectors []selector `json:"selectors"`
}

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("usage: parse promql|alloy"))
	}
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		fail(err)
	}
	var answer any
	switch os.Args[1] {
	case "promql":
		answer, err = readQueries(input)
	case "alloy":
		answer, err = readBlocks(input)
	default:
		err = fmt.Errorf("unknown language %q", os.Args[1])
	}
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		fail(err)
	}
}

func readQueries(input []byte) ([]query, error) {
	var expressions []string
	if err := json.Unmarshal(input, &expressions); err != nil {
		return nil, err
	}
	read := parser.NewParser(parser.Options{})
	queries := make([]query, 0, len(expressions))
	for _, text := range expressions {
		expression, err := read.ParseExpr(text)
		if err != nil {
			queries = append(queries, query{Error: err.Error(), Selectors: []selector{}})
			continue
		}
		queries = append(queries, query{Selectors: selectorsOf(expression)})
	}
	return queries, nil
}

func selectorsOf(expression parser.Expr) []selector {
	found := []selector{}
	parser.Inspect(expression, func(node parser.Node, path []parser.Node) error {
		vector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		one := selector{Metric: vector.Name, Labels: map[string]string{}, Taker: takerOf(path)}
		for _, matcher := range vector.LabelMatchers {
			if matcher.Name != labels.MetricName {
				one.Labels[matcher.Name] = matcher.Type.String() + matcher.Value
			}
		}
		found = append(found, one)
		return nil
	})
	return found
}

// takerOf names the call whose argument is the range at the end of path, or nothing.
func takerOf(path []parser.Node) string {
	if len(path) < 2 {
		return ""
	}
	_, ranged := path[len(path)-1].(*parser.MatrixSelector)
	call, called := path[len(path)-2].(*parser.Call)
	if !ranged || !called {
		return ""
	}
	return call.Func.Name
}

func readBlocks(input []byte) ([]string, error) {
	file, err := alloy.ParseFile("config.alloy", input)
	if err != nil {
		return nil, err
	}
	blocks := []string{}
	for _, statement := range file.Body {
		if block, ok := statement.(*ast.BlockStmt); ok {
			blocks = append(blocks, strings.TrimSpace(strings.Join(block.Name, ".")+" "+block.Label))
		}
	}
	return blocks, nil
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "parse:", err)
	os.Exit(2)
}
