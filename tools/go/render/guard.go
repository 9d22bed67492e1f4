package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// deafTransport answers every request with an error before a name is looked up or a socket opened.
type deafTransport struct{}

var errNoNetwork = errors.New("remote files are not allowed")

func (deafTransport) RoundTrip(*http.Request) (*http.Response, error) { return nil, errNoNetwork }

// cutOff takes away what kustomize could reach the world with. It fetches files with an http.Client that has no
// transport of its own, and repositories with the git that it finds on PATH, into a folder under TMPDIR. Without PATH
// it stops before it makes the folder.
func cutOff() {
	http.DefaultTransport = deafTransport{}
	http.DefaultClient = &http.Client{Transport: deafTransport{}}
	os.Clearenv()
	for name, value := range map[string]string{"PATH": "", "HOME": os.DevNull, "TMPDIR": os.DevNull + "/none"} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
}

const (
	watchEvery = 10 * time.Millisecond
	stackBytes = 64 << 20
	// gcPercent trades memory, of which the schema of Kubernetes takes most, for a fifth of the time.
	gcPercent = 400
)

// watch ends the process when it holds more memory than it may, or when the process that started it is gone.
func watch(memoryBytes uint64) {
	debug.SetMemoryLimit(int64(memoryBytes / 4 * 3))
	debug.SetMaxStack(stackBytes)
	debug.SetGCPercent(gcPercent)
	parent := os.Getppid()
	held := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for range time.Tick(watchEvery) {
		metrics.Read(held)
		if held[0].Value.Uint64()-held[1].Value.Uint64() > memoryBytes {
			fmt.Fprintf(os.Stderr, "render: needs more than %d bytes of memory\n", memoryBytes)
			os.Exit(exitMemory)
		}
		if os.Getppid() != parent {
			os.Exit(exitOrphan)
		}
	}
}
