// Lint is `argo lint --offline` without the rest of Argo's command line, whose web pages are not in its Go module.
package main

import (
	"fmt"
	"os"

	"github.com/argoproj/argo-workflows/v3/cmd/argo/lint"
	"github.com/argoproj/argo-workflows/v3/pkg/apiclient"
)

func main() {
	files := os.Args[1:]
	ctx, client, err := apiclient.NewClientFromOpts(apiclient.Opts{Offline: true, OfflineFiles: files})
	if err == nil {
		kinds := []string{"workflows", "workflowtemplates", "cronworkflows", "clusterworkflowtemplates"}
		err = lint.RunLint(ctx, client, kinds, "simple", true, lint.LintOptions{
			Files:            files,
			Strict:           true,
			DefaultNamespace: "default",
			Printer:          os.Stdout,
		})
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "lint: %v\n", err)
		os.Exit(1)
	}
}
