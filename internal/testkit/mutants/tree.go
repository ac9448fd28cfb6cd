package mutants

import (
	"bytes"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// PatchFolder has the patches, each at the path of its file with .patch behind it.
const PatchFolder = "internal/testkit/mutants/patches"

const patchSuffix = ".patch"

// A Tree is a checkout of the module: its files, and its patches by the file that they are of.
type Tree struct {
	root    string
	Patches map[string]*Patch
}

// OpenTree reads the patches of the module in a directory.
func OpenTree(root string) (*Tree, error) {
	t := &Tree{root, map[string]*Patch{}}
	top := filepath.Join(root, filepath.FromSlash(PatchFolder))
	err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if name == top && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(top, name)
		if err != nil {
			return err
		}
		source := strings.TrimSuffix(filepath.ToSlash(rel), patchSuffix)
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		p, err := ParsePatch(string(text))
		if err == nil && p.Source != source {
			err = fmt.Errorf("it is of %s, and lies where one of %s does", p.Source, source)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", patchPath(source), err)
		}
		t.Patches[source] = p
		return nil
	})
	return t, err
}

// patchPath is where the patch of a file is.
func patchPath(source string) string { return PatchFolder + "/" + source + patchSuffix }

func (t *Tree) path(name string) string { return filepath.Join(t.root, filepath.FromSlash(name)) }

// Mutated returns a file with the mutants of its patch. The error says how to renew the patch if it does
// not fit, and comes with the file as far as it did.
func (t *Tree) Mutated(source string) ([]byte, error) {
	text, err := os.ReadFile(t.path(source))
	if err == nil {
		if text, err = t.Patches[source].Apply(text); err == nil {
			return text, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: if the file has moved, move the patch and name the file in its first two lines", err)
	}
	return text, fmt.Errorf(`%s does not fit %s:
%w
Either edit its lines to what the file has, or renew it: make plant puts all mutants that fit into the code,
add those that do not by hand, make extract writes the patches again`, patchPath(source), source, err)
}

// ReadFolder returns the Go files of a folder of the module, by their paths in it.
func (t *Tree) ReadFolder(folder string) (map[string][]byte, error) {
	files := map[string][]byte{}
	names, err := filepath.Glob(filepath.Join(t.path(folder), "*.go"))
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		rel, err := filepath.Rel(t.root, name)
		if err != nil {
			return nil, err
		}
		files[filepath.ToSlash(rel)] = text
	}
	return files, err
}

// ListMutated returns the files of production code that have conditions of mutants.
func (t *Tree) ListMutated() (sources []string, err error) {
	err = filepath.WalkDir(t.root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := d.Name(); d.IsDir() && (base == "testdata" || name != t.root && strings.HasPrefix(base, ".")) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(text, []byte(`/plant"`)) {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
		if err != nil {
			return err
		}
		if imported, _ := findSwitch(file); imported != "" {
			rel, err := filepath.Rel(t.root, name)
			sources = append(sources, filepath.ToSlash(rel))
			return err
		}
		return nil
	})
	return sources, err
}

// Plant applies the patches of some files, or of those in some folders, to the files, and removes them. With
// none named it applies all. Hunks that do not fit stay in their patches and are reported.
func (t *Tree) Plant(only ...string) (report []string, err error) {
	for _, source := range slices.Sorted(maps.Keys(t.Patches)) {
		if len(only) > 0 && !slices.ContainsFunc(only, func(o string) bool { return o == source || o == folderOf(source) }) {
			continue
		}
		text, failure := t.Mutated(source)
		if failure != nil {
			report = append(report, failure.Error())
			if text == nil {
				continue
			}
		}
		if err := os.WriteFile(t.path(source), text, 0o644); err != nil {
			return report, err
		}
		p := t.Patches[source]
		p.Hunks = slices.DeleteFunc(p.Hunks, func(h Hunk) bool { return !h.failed(failure) })
		if err := t.writePatch(p); err != nil {
			return report, err
		}
	}
	return report, nil
}

// failed reports whether the hunk is one of those that did not fit.
func (h *Hunk) failed(err error) bool {
	switch e := err.(type) {
	case *HunkError:
		return e.Hunk.text() == h.text() && e.Hunk.Function == h.Function
	case interface{ Unwrap() error }:
		return h.failed(e.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), h.failed)
	}
	return false
}

func (t *Tree) writePatch(p *Patch) error {
	name := t.path(patchPath(p.Source))
	if len(p.Hunks) == 0 {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(p.String()), 0o644)
}

// Extract takes the conditions of mutants out of production code and writes patches that put them in. A
// patch of a file that has conditions too is applied before. What does not fit is given up if the code has
// its mutants by now, and is an error else: no mutant is lost. Nothing is written if there is an error.
func (t *Tree) Extract() (report []string, err error) {
	planted, err := t.ListMutated()
	if err != nil {
		return nil, err
	}
	folders := map[string]map[string][]byte{}
	inCode := map[string]bool{}
	for _, source := range planted {
		folder := folderOf(source)
		if folders[folder] == nil {
			if folders[folder], err = t.ReadFolder(folder); err != nil {
				return nil, err
			}
		}
		for _, m := range mutantPattern.FindAllSubmatch(folders[folder][source], -1) {
			inCode[string(m[1])] = true
		}
	}
	var given []*Patch
	for _, source := range slices.Sorted(maps.Keys(t.Patches)) {
		text, failure := t.Mutated(source)
		if failure != nil {
			for _, h := range t.Patches[source].Hunks {
				lost := slices.DeleteFunc(slices.Clone(h.Mutants), func(name string) bool { return inCode[name] })
				if len(lost) > 0 && (h.failed(failure) || text == nil) {
					return nil, failure
				}
			}
			report = append(report, patchPath(source)+": left out what did not fit and the code has: compare it with git diff")
			given = append(given, t.Patches[source])
		}
		if slices.Contains(planted, source) {
			folders[folderOf(source)][source] = text
		}
	}
	clean := map[string][]byte{}
	var patches []*Patch
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		texts, made, err := Extract(folders[folder])
		if err != nil {
			return nil, err
		}
		maps.Copy(clean, texts)
		patches = append(patches, made...)
	}
	for _, p := range given {
		p.Hunks = slices.DeleteFunc(p.Hunks, func(h Hunk) bool {
			_, err := (&Patch{Source: p.Source, Hunks: []Hunk{h}}).applyTo(t)
			return err != nil
		})
		if err := t.writePatch(p); err != nil {
			return nil, err
		}
	}
	for name, text := range clean {
		if err := os.WriteFile(t.path(name), text, 0o644); err != nil {
			return nil, err
		}
	}
	mutants := map[string]bool{}
	for _, p := range patches {
		if err := t.writePatch(p); err != nil {
			return nil, err
		}
		for _, name := range p.Mutants() {
			mutants[name] = true
		}
	}
	return append(report, fmt.Sprintf("%d mutants are in the patches of %d files", len(mutants), len(patches))), nil
}

// applyTo applies the patch to its file in a tree.
func (p *Patch) applyTo(t *Tree) ([]byte, error) {
	text, err := os.ReadFile(t.path(p.Source))
	if err != nil {
		return nil, err
	}
	return p.Apply(text)
}
