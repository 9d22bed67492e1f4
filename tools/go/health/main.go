// Health says what Argo CD or Flux would call an object, with the engine and in the versions that they run.
//
// It reads JSON documents from standard input, {"engine": "lua", "script": ..., "object": ...} for a health check of
// Argo CD, or {"engine": "cel", "expressions": {"inProgress": ..., "failed": ..., "current": ...}, "object": ...} for
// one of Flux, and writes one line of JSON for each: {"status": ..., "message": ...}, or {"error": ...}.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type request struct {
	Engine      string                           `json:"engine"`
	Script      string                           `json:"script"`
	Expressions kustomize.HealthCheckExpressions `json:"expressions"`
	Object      unstructured.Unstructured        `json:"object"`
}

type answer struct {
	Status  string `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
	Error   string `json:"error,omitempty"`
}

func main() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var asked request
		if err := in.Decode(&asked); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			fmt.Fprintf(os.Stderr, "health: %v\n", err)
			os.Exit(1)
		}
		said, err := judge(asked)
		if err != nil {
			said = answer{Error: err.Error()}
		}
		if err := out.Encode(said); err != nil {
			os.Exit(1)
		}
	}
}

func judge(asked request) (answer, error) {
	switch asked.Engine {
	case "lua":
		return runLua(asked.Script, asked.Object.Object)
	case "cel":
		return runCEL(asked.Expressions, &asked.Object)
	}
	return answer{}, fmt.Errorf("no engine %q", asked.Engine)
}

// runCEL is what Flux does, by Flux's own package.
func runCEL(expressions kustomize.HealthCheckExpressions, object *unstructured.Unstructured) (answer, error) {
	evaluator, err := cel.NewStatusEvaluator(&expressions)
	if err != nil {
		return answer{}, err
	}
	result, err := evaluator.Evaluate(context.Background(), object)
	if err != nil {
		return answer{}, err
	}
	return answer{Status: string(result.Status), Message: result.Message}, nil
}

// runLua opens what Argo CD opens for a health check of its ConfigMap, but for `os`, which none may need: no string and
// no math library, and one second.
func runLua(script string, object map[string]any) (answer, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage,
		lua.BaseLibName: lua.OpenBase,
		lua.TabLibName:  lua.OpenTable,
	} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			return answer{}, err
		}
	}
	within, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	state.SetContext(within)
	state.SetGlobal("obj", luaValue(state, object))
	if err := state.DoString(script); err != nil {
		return answer{}, err
	}
	returned, isTable := state.Get(-1).(*lua.LTable)
	if !isTable {
		return answer{}, fmt.Errorf("expected a table from the script, not %s", state.Get(-1).Type())
	}
	return answer{Status: luaText(returned, "status"), Message: luaText(returned, "message")}, nil
}

func luaText(table *lua.LTable, field string) string {
	if text, isText := table.RawGetString(field).(lua.LString); isText {
		return string(text)
	}
	return ""
}

// luaValue gives a script numbers as numbers and null as nil, as Argo CD does.
func luaValue(state *lua.LState, value any) lua.LValue {
	switch known := value.(type) {
	case bool:
		return lua.LBool(known)
	case string:
		return lua.LString(known)
	case float64:
		return lua.LNumber(known)
	case int64:
		return lua.LNumber(known)
	case []any:
		list := state.CreateTable(len(known), 0)
		for _, item := range known {
			list.Append(luaValue(state, item))
		}
		return list
	case map[string]any:
		table := state.CreateTable(0, len(known))
		for key, item := range known {
			table.RawSetString(key, luaValue(state, item))
		}
		return table
	}
	return lua.LNil
}
