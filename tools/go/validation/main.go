// Validation says what a Kubernetes API server refuses of new objects, by the server's own functions.
//
// It reads lists of objects from standard input, a list of JSON a line, and writes for each a line to standard output:
// a list as long, of the causes of a refusal. Kinds of Kubernetes are validated whole, of all others the metadata.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	exitMemory = 3
	exitOrphan = 4
	exitUsage  = 5
)

// most is how many causes are given of one object.
const most = 50

// cause is a reason to refuse an object: the field as the server names it, the value where it is a text, and the
// server's words.
type cause struct {
	Field   string `json:"field"`
	Type    string `json:"type"`
	Value   string `json:"value"`
	Message string `json:"message"`
}

func main() {
	flags := flag.NewFlagSet("validation", flag.ContinueOnError)
	memory := flags.Uint64("memory-bytes", 2<<30, "memory of this process; beyond it, it ends with exit code 3")
	if flags.Parse(os.Args[1:]) != nil {
		os.Exit(exitUsage)
	}
	output := os.Stdout
	os.Stdout = os.Stderr
	go watch(*memory)
	if err := serve(os.Stdin, output); err != nil {
		fmt.Fprintln(os.Stderr, "validation:", err)
		os.Exit(exitUsage)
	}
}

// watch ends the process where it takes too much memory, or where whoever started it is gone.
func watch(most uint64) {
	debug.SetMemoryLimit(int64(most))
	parent := os.Getppid()
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for range time.Tick(50 * time.Millisecond) {
		metrics.Read(sample)
		if sample[0].Value.Uint64()-sample[1].Value.Uint64() > most {
			os.Exit(exitMemory)
		}
		if os.Getppid() != parent {
			os.Exit(exitOrphan)
		}
	}
}

func serve(input io.Reader, output io.Writer) error {
	lines := bufio.NewReader(input)
	encoder := json.NewEncoder(output)
	encoder.SetEscapeHTML(false)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var objects []json.RawMessage
		if err := json.Unmarshal(line, &objects); err != nil {
			return err
		}
		answers := make([][]cause, len(objects))
		for index, object := range objects {
			answers[index] = causes(object)
		}
		if err := encoder.Encode(answers); err != nil {
			return err
		}
	}
}

func causes(object []byte) (found []cause) {
	found = []cause{}
	defer func() {
		// The server answers a request that makes it panic with an error, too.
		if reason := recover(); reason != nil {
			found = []cause{{Message: fmt.Sprint("the validation gave up: ", reason)}}
		}
	}()
	refused, err := validate(object)
	if err != nil {
		return []cause{{Message: err.Error()}}
	}
	for _, each := range refused[:min(len(refused), most)] {
		found = append(found, cause{Field: each.Field, Type: string(each.Type), Value: text(each.BadValue), Message: words(each)})
	}
	return found
}

// text gives a value of any type whose values are texts.
func text(value any) string {
	if reflected := reflect.ValueOf(value); reflected.Kind() == reflect.String {
		return reflected.String()
	}
	return ""
}

// words are the server's, without a value that is a whole object.
func words(refused *field.Error) string {
	short := *refused
	switch reflect.Indirect(reflect.ValueOf(short.BadValue)).Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice:
		short.BadValue = field.OmitValueType{}
	}
	return short.ErrorBody()
}
