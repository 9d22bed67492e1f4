package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// What result.Reads says of a path, besides the SHA-256 of a file's content. A link is followed by what it holds.
const (
	absent = "absent"
	folder = "folder"
	link   = "link:"
)

const maxLinks = 40

var (
	errOutside         = errors.New("lies outside the repository")
	errNotPartOfABuild = errors.New("a build only reads files")
)

// bounds are what one folder may ask for.
type bounds struct {
	fileBytes      int64
	nodes          int
	kustomizations int
	renderedBytes  int
	depth          int
}

// tree is the folder that no path may leave.
type tree struct {
	path string
	root *os.Root
	// unsaved are texts that stand for those of files that are there, by path without links.
	unsaved map[string]string
}

func openTree(folder string) (*tree, error) {
	absolute, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(absolute)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return nil, err
	}
	return &tree{path: real, root: root}, nil
}

func (t *tree) close() { _ = t.root.Close() }

func (t *tree) join(name string) string { return filepath.Join(t.path, name) }

// relative gives an absolute path as seen from the tree, and whether it lies within.
func (t *tree) relative(name string) (string, bool) {
	relative, err := filepath.Rel(t.path, name)
	return relative, err == nil && filepath.IsLocal(relative)
}

// files is the file system of one build. It reads regular files below the tree and nothing else, and keeps what it saw.
type files struct {
	tree   *tree
	bounds bounds
	reads  map[string]string
	// refusal is the first bound that the build ran into. Kustomize may go on after an error, to try a name another
	// way, and would then report the other way's failure.
	refusal        error
	kustomizations int
}

var _ filesys.FileSystem = (*files)(nil)

func newFiles(tree *tree, bounds bounds) *files {
	return &files{tree: tree, bounds: bounds, reads: map[string]string{}}
}

func (f *files) refuse(format string, values ...any) error {
	err := fmt.Errorf(format, values...)
	if f.refusal == nil {
		f.refusal = err
	}
	return err
}

// explain gives the error of a build, which is a refusal even where kustomize went on and made do without the file.
func (f *files) explain(err error) error {
	if f.refusal == nil || err != nil && strings.Contains(err.Error(), f.refusal.Error()) {
		return err
	}
	return f.refusal
}

// resolve follows the links of an absolute path and returns where it ends, relative to the tree.
func (f *files) resolve(name string) (string, fs.FileInfo, error) {
	asked, inside := f.tree.relative(name)
	if !inside {
		return "", nil, f.refuse("%s %w", filepath.Base(name), errOutside)
	}
	ahead := strings.Split(asked, "/")
	at, info, links := ".", fs.FileInfo(nil), 0
	for len(ahead) > 0 {
		next := filepath.Join(at, ahead[0])
		ahead = ahead[1:]
		if !filepath.IsLocal(next) {
			return "", nil, f.refuse("%s %w", asked, errOutside)
		}
		var err error
		info, err = os.Lstat(f.tree.join(next))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			f.reads[asked] = absent
			return "", nil, fmt.Errorf("%s: no such file or folder", asked)
		}
		if err != nil {
			return "", nil, f.refuse("%s: %s", asked, reason(err))
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", nil, f.refuse("%s: links lead in a circle", asked)
		}
		target, err := os.Readlink(f.tree.join(next))
		if err != nil {
			return "", nil, f.refuse("%s: %s", asked, reason(err))
		}
		f.reads[next] = link + target
		if filepath.IsAbs(target) {
			inner, inside := f.tree.relative(target)
			if !inside {
				return "", nil, f.refuse("%s %w", asked, errOutside)
			}
			at, target = ".", inner
		}
		ahead = slices.Concat(strings.Split(target, "/"), ahead)
	}
	return at, info, nil
}

// CleanedAbs splits a path into the folder it ends in and, if it is a file's, the name of the file.
func (f *files) CleanedAbs(name string) (filesys.ConfirmedDir, string, error) {
	at, info, err := f.resolve(name)
	if err != nil {
		return "", "", err
	}
	if info.IsDir() {
		f.reads[at] = folder
		return filesys.ConfirmedDir(f.tree.join(at)), "", nil
	}
	return filesys.ConfirmedDir(f.tree.join(filepath.Dir(at))), filepath.Base(at), nil
}

// ReadFile reads a regular file. Whatever else has its name is refused before it can block.
func (f *files) ReadFile(name string) ([]byte, error) {
	at, info, err := f.resolve(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, f.refuse("%s is not a regular file", at)
	}
	if slices.Contains(konfig.RecognizedKustomizationFileNames(), filepath.Base(at)) {
		if f.kustomizations++; f.kustomizations > f.bounds.kustomizations {
			return nil, f.refuse("pulls in more than %d kustomizations", f.bounds.kustomizations)
		}
	}
	content, err := f.read(at)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(content)
	sum := hex.EncodeToString(digest[:])
	if before, seen := f.reads[at]; seen && before != sum {
		return nil, f.refuse("%s changed while it was read", at)
	}
	f.reads[at] = sum
	if nodes := expanded(content, f.bounds.nodes); nodes > f.bounds.nodes {
		return nil, f.refuse("%s has more than %d nodes when its aliases are expanded", at, f.bounds.nodes)
	}
	return content, nil
}

func (f *files) read(at string) ([]byte, error) {
	file, err := f.tree.root.OpenFile(at, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, f.refuse("%s: %s", at, reason(err))
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, f.refuse("%s is not a regular file", at)
	}
	content, err := []byte(f.tree.unsaved[at]), error(nil)
	if _, is := f.tree.unsaved[at]; !is {
		content, err = io.ReadAll(io.LimitReader(file, f.bounds.fileBytes+1))
	}
	if err != nil {
		return nil, f.refuse("%s: %s", at, reason(err))
	}
	if int64(len(content)) > f.bounds.fileBytes {
		return nil, f.refuse("%s is larger than %d bytes", at, f.bounds.fileBytes)
	}
	return content, nil
}

// reason is an error of the system without the path that it stands in front of.
func reason(err error) string {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err.Error()
	}
	return err.Error()
}

// Exists tells whether something that a build may see has the name.
func (f *files) Exists(name string) bool {
	_, _, err := f.CleanedAbs(name)
	return err == nil
}

// IsDir tells whether the name ends at a folder.
func (f *files) IsDir(name string) bool {
	_, file, err := f.CleanedAbs(name)
	return err == nil && file == ""
}

// The rest of the interface is for kustomize's commands that edit, and for the clean-up of clones.

func (*files) Create(string) (filesys.File, error)  { return nil, errNotPartOfABuild }
func (*files) Open(string) (filesys.File, error)    { return nil, errNotPartOfABuild }
func (*files) Mkdir(string) error                   { return errNotPartOfABuild }
func (*files) MkdirAll(string) error                { return errNotPartOfABuild }
func (*files) RemoveAll(string) error               { return errNotPartOfABuild }
func (*files) WriteFile(string, []byte) error       { return errNotPartOfABuild }
func (*files) ReadDir(string) ([]string, error)     { return nil, errNotPartOfABuild }
func (*files) Glob(string) ([]string, error)        { return nil, errNotPartOfABuild }
func (*files) Walk(string, filepath.WalkFunc) error { return errNotPartOfABuild }
