// Library builds kustomizations with kustomize's library as its documentation uses it, one after the other in one
// process. It is what bench/lint.py holds tools/lint-jobs against: no bounds, no record of what was read, the garbage
// collector as it comes.
//
// It reads folder names from standard input, one a line, and writes what `kustomize build` prints.
package main

import (
	"bufio"
	"fmt"
	"os"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func main() {
	output := bufio.NewWriter(os.Stdout)
	folders := bufio.NewScanner(os.Stdin)
	for folders.Scan() {
		if err := build(output, folders.Text()); err != nil {
			fmt.Fprintln(os.Stderr, "library:", err)
			os.Exit(1)
		}
	}
	if err := output.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "library:", err)
		os.Exit(1)
	}
}

func build(output *bufio.Writer, folder string) error {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return err
	}
	text, err := resources.AsYaml()
	if err != nil {
		return err
	}
	_, err = output.Write(text)
	return err
}
