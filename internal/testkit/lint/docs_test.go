package lint

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// readTree returns the text of all files of the repository whose names end with a suffix, by path.
func readTree(t *testing.T, suffix string) map[string]string {
	t.Helper()
	root, found := os.DirFS("../../.."), map[string]string{}
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && p != "." || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(p, suffix) {
			text, err := fs.ReadFile(root, p)
			if err != nil {
				return err
			}
			found[p] = string(text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var (
	codeBlock   = regexp.MustCompile("(?ms)^```.*?^```")
	markdownRef = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading     = regexp.MustCompile(`(?m)^#+ (.*)$`)
	linkText    = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
	codeSpan    = regexp.MustCompile("`([^`\\s]+)`")
	mixedCaps   = regexp.MustCompile(`[A-Za-z0-9_]*[a-z][A-Z][A-Za-z0-9_]*`)
	word        = regexp.MustCompile(`\w+`)
)

// anchorsOf returns the anchors of the headings of a document, as GitHub makes them.
func anchorsOf(text string) map[string]bool {
	anchors := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		title := strings.ToLower(linkText.ReplaceAllString(m[1], "$1"))
		anchors[strings.ReplaceAll(strings.TrimSpace(notInAnchor.ReplaceAllString(title, "")), " ", "-")] = true
	}
	return anchors
}

func TestDocuments_EveryLinkResolves(t *testing.T) {
	pages := readTree(t, ".md")
	for page, text := range pages {
		for _, m := range markdownRef.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = path.Join(path.Dir(page), file)
			}
			if _, err := os.Stat(path.Join("../../..", target)); err != nil {
				t.Errorf("%s: the link %s leads nowhere", page, m[1])
			} else if anchor != "" && !anchorsOf(pages[target])[anchor] {
				t.Errorf("%s: the link %s names no heading", page, m[1])
			}
		}
	}
}

// The map of the code and the design pages name functions, types and files: each exists.
func TestDocuments_DesignPagesNameCodeThatExists(t *testing.T) {
	known, files := map[string]bool{}, []string{}
	for file, text := range readTree(t, ".go") {
		files = append(files, path.Base(file))
		for _, w := range word.FindAllString(text, -1) {
			known[w] = true
		}
	}
	for page, text := range readTree(t, ".md") {
		if base := path.Base(page); base != "ARCHITECTURE.md" && base != "DESIGN.md" {
			continue
		}
		for _, m := range codeSpan.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
			if strings.HasSuffix(m[1], ".go") && !slices.ContainsFunc(files, func(file string) bool { // it may be a pattern
				ok, _ := path.Match(path.Base(m[1]), file)
				return ok
			}) {
				t.Errorf("%s: there is no file %s", page, m[1])
			}
			for _, w := range mixedCaps.FindAllString(m[1], -1) {
				if !known[w] {
					t.Errorf("%s: nothing is named %s", page, w)
				}
			}
		}
	}
}
