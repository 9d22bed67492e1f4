// Artifact says what of a repository Flux's source-controller would hand to kustomize-controller: the files at HEAD as
// go-git checks them out, less what Flux's own library ignores and less what is not a regular file.
//
// It takes the folder of a repository and prints one JSON document: the SHA-256 of each file, by its path.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fluxcd/pkg/sourceignore"
	"github.com/go-git/go-git/v5"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: artifact REPOSITORY")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "artifact: %v\n", err)
		os.Exit(1)
	}
}

func run(repository string) error {
	folder, err := os.MkdirTemp("", "artifact-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if _, err := git.PlainClone(folder, false, &git.CloneOptions{URL: repository, Depth: 1, SingleBranch: true}); err != nil {
		return err
	}
	files, err := archived(folder)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(files)
}

// archived goes through a folder as source-controller does when it packs an artifact: its own patterns hold unless a
// .sourceignore brings others.
func archived(folder string) (map[string]string, error) {
	domain := strings.Split(folder, string(filepath.Separator))
	patterns, err := sourceignore.LoadIgnorePatterns(folder, domain)
	if err != nil {
		return nil, err
	}
	matcher := sourceignore.NewDefaultMatcher(patterns, domain)
	if len(patterns) > 0 {
		matcher = sourceignore.NewMatcher(append(sourceignore.VCSPatterns(domain), patterns...))
	}
	files := map[string]string{}
	return files, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || matcher.Match(strings.Split(path, string(filepath.Separator)), false) {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		digest := sha256.Sum256(content)
		files[filepath.ToSlash(name)] = hex.EncodeToString(digest[:])
		return nil
	})
}
