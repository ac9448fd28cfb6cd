package lint

import (
	"go/ast"
	"go/token"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestThisRepositoryKeepsTheRules(t *testing.T) {
	findings, err := Check(os.DirFS("../../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		t.Error(f)
	}
}

// A row about a package that is gone holds nothing, and would hold something else under its name.
func TestRules_NameOnlyWhatThereIs(t *testing.T) {
	const root = "../../../"
	folders := slices.Concat(slices.Collect(maps.Keys(layers)), ownModules, purePackages, impurePackages, mirrors, []string{mutantSwitch})
	for _, d := range dependencyHomes {
		folders = append(folders, d.folders...)
	}
	for _, folder := range folders {
		if s, err := os.Stat(root + folder); err != nil || !s.IsDir() {
			t.Errorf("the rules name the folder %s: %v", folder, err)
		}
	}
	sources, err := loadSources(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	homes := map[string]map[string]bool{}
	for _, s := range sources {
		for _, decl := range s.ast.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.TYPE || s.isTest() || !isWithin(s.folderPath(), "internal") {
				continue
			}
			for _, spec := range d.Specs {
				name := spec.(*ast.TypeSpec).Name.Name
				if homes[name] == nil {
					homes[name] = map[string]bool{}
				}
				homes[name][s.folderPath()] = true
			}
		}
	}
	for _, name := range sharedTypeNames {
		if len(homes[name]) < 2 {
			t.Errorf("%s is a type of one package now: remove it from sharedTypeNames", name)
		}
	}
}

// TestEveryRuleFailsOnAPlantedViolation plants one violation at a time in an
// otherwise clean module. The expectation is the whole list of findings, so a
// rule that fires where it should not fails the test as well.
func TestEveryRuleFailsOnAPlantedViolation(t *testing.T) {
	const own = `"github.com/cleavekv/cleave/`
	for _, tc := range []struct {
		name, file, text string
		want             string // "pos: rule: part of what", or "" for clean
	}{
		{"clean", "route/a.go", documentedPackage("route") + "import _ " + own + `hash"`, ""},
		{"import against the flow", "hash/a.go", documentedPackage("hash") + "import _ " + own + `route"`,
			"hash/a.go:3: direction: hash (layer 0) imports route (layer 2)"},
		{"import of a sibling", "shardmap/a.go", documentedPackage("shardmap") + "import _ " + own + `actor"`,
			"shardmap/a.go:3: direction: shardmap (layer 2) imports actor (layer 2)"},
		{"import of the facade", "shardmap/a.go", documentedPackage("shardmap") + `import _ "github.com/cleavekv/cleave"`,
			"shardmap/a.go:3: direction: shardmap (layer 2) imports . (layer 10)"},
		{"mutant in production code", "internal/node/a.go", documentedPackage("node") + "import _ " + own + `internal/testkit/mutants/plant"`,
			"internal/node/a.go:3: mutant: asks for a mutant"},
		{"mutant in a command", "cmd/cleave/a.go", "// Command cleave is.\npackage main\nimport _ " + own + `internal/testkit/mutants/plant"`,
			"cmd/cleave/a.go:3: mutant: asks for a mutant"},
		{"subpackage belongs to its parent", "hotkey/csv/a.go", documentedPackage("csv") + "import _ " + own + `hotkey"`, ""},
		{"folder without a layer", "gadget/a.go", documentedPackage("gadget"), "gadget/a.go: direction: folder gadget has no layer"},
		{"import of a folder without a layer", "shardmap/a.go", documentedPackage("shardmap") + "import _ " + own + `gadget"`,
			"shardmap/a.go:3: direction: imports gadget, which has no layer"},
		{"example looks inside", "examples/pool/a.go", "// Command pool shows.\npackage main\nimport _ " + own + `internal/ops/output"`,
			"examples/pool/a.go:3: direction: an example imports internal/ops/output"},

		{"pebble outside the store", "route/a.go", documentedPackage("route") + `import _ "github.com/cockroachdb/pebble/v2/vfs"`,
			"route/a.go:3: home: imports github.com/cockroachdb/pebble/v2/vfs outside internal/storage/store"},
		{"pebble in the store", "internal/storage/store/a.go", documentedPackage("store") + `import _ "github.com/cockroachdb/pebble/v2"`, ""},

		{"clock", "route/a.go", documentedPackage("route") + "import \"time\"\nvar x = time.Now()",
			"route/a.go:4: pure: uses time.Now"},
		{"clock by another name", "route/a.go", documentedPackage("route") + "import t \"time\"\nvar x = t.Now()",
			"route/a.go:4: pure: uses time.Now"},
		{"clock by dot", "route/a.go", documentedPackage("route") + "import . \"time\"\nvar x = Now()",
			"route/a.go:3: pure: dot-imports time"},
		{"time as a value", "route/a.go", documentedPackage("route") + "import \"time\"\nvar x time.Time", ""},
		{"clock where it is allowed", "actor/a.go", documentedPackage("actor") + "import \"time\"\nvar x = time.Now()", ""},
		{"global randomness", "key/a.go", documentedPackage("key") + "import \"math/rand/v2\"\nvar x = rand.IntN(3)",
			"key/a.go:4: pure: uses math/rand/v2.IntN"},
		{"seeded randomness", "key/a.go", documentedPackage("key") + "import \"math/rand/v2\"\nvar x = rand.New(rand.NewPCG(1, 2))", ""},
		{"per-process hash", "route/a.go", documentedPackage("route") + `import _ "hash/maphash"`,
			"route/a.go:3: pure: imports hash/maphash"},
		{"goroutine", "internal/shard/txn/a.go", documentedPackage("txn") + "func f() { go f() }",
			"internal/shard/txn/a.go:3: pure: starts a goroutine"},
		{"package of ours that is not pure", "internal/shard/txn/a.go", documentedPackage("txn") + "import _ " + own + `actor"`,
			"internal/shard/txn/a.go:3: pure: imports actor, which is not pure"},
		{"file I/O", "partition/a.go", documentedPackage("partition") + `import _ "os"`,
			"partition/a.go:3: pure: imports os"},
		{"file I/O below a listed package", "partition/a.go", documentedPackage("partition") + `import _ "os/user"`,
			"partition/a.go:3: pure: imports os/user"},
		{"network below a listed package", "partition/a.go", documentedPackage("partition") + `import _ "net/http/httptest"`,
			"partition/a.go:3: pure: imports net/http/httptest"},
		{"addresses as values", "partition/a.go", documentedPackage("partition") + "import \"net/netip\"\nvar x netip.Addr", ""},
		{"walking files", "partition/a.go", documentedPackage("partition") + "import \"path/filepath\"\nvar x = filepath.Glob",
			"partition/a.go:4: pure: uses path/filepath.Glob"},
		{"per-process hash of our own", "route/a.go", documentedPackage("route") + "import " + own + "hash\"\nvar x hash.Maphash",
			"route/a.go:4: pure: uses github.com/cleavekv/cleave/hash.Maphash"},
		{"stable hash of our own", "route/a.go", documentedPackage("route") + "import " + own + "hash\"\nvar x hash.Stable", ""},
		{"clock behind a build tag", "route/a.go", "//go:build never\n\n" + documentedPackage("route") + "import \"time\"\nvar x = time.Now",
			"route/a.go:6: pure: uses time.Now"},
		{"clock through the linker", "route/a.go", documentedPackage("route") + "import _ \"unsafe\"\n//go:linkname now time.now\nfunc now()",
			"route/a.go:4: pure: links to a name of another package"},
		{"C", "route/a.go", documentedPackage("route") + `import "C"`, "route/a.go:3: pure: imports C"},
		{"printing by a builtin", "route/a.go", documentedPackage("route") + "func f() { println() }",
			"route/a.go:3: pure: prints"},
		{"printing", "route/a.go", documentedPackage("route") + "import \"fmt\"\nfunc f() { fmt.Println() }",
			"route/a.go:4: pure: uses fmt.Println"},
		{"I/O in a test of a pure package", "route/a_test.go", "package route\nimport _ \"os\"", ""},

		{"no package comment", "route/a.go", "package route", "route/a.go: doc: package has no comment"},
		{"comment about something else", "route/a.go", "// Routing functions.\npackage route", "route/a.go: doc: package has no comment"},
		{"no comment on a command", "cmd/cleave/a.go", "package main", "cmd/cleave/a.go: doc: package has no comment"},
		{"comment missing in a module of its own", "bench/a.go", "package main", "bench/a.go: doc: package has no comment"},

		{"exported function without a comment", "actor/a.go", documentedPackage("actor") + "func F() {}", "actor/a.go:3: doc: exported F has no comment"},
		{"exported method without a comment", "actor/a.go", documentedPackage("actor") + "// T is.\ntype T[A any] struct{}\nfunc (*T[A]) M() {}",
			"actor/a.go:5: doc: exported M has no comment"},
		{"exported type without a comment", "actor/a.go", documentedPackage("actor") + "type T int", "actor/a.go:3: doc: exported T has no comment"},
		{"exported constant without a comment", "actor/a.go", documentedPackage("actor") + "const (\n\t// A is.\n\tA = 1\n\tB = 2\n)",
			"actor/a.go:6: doc: exported B has no comment"},
		{"group with a comment", "actor/a.go", documentedPackage("actor") + "// The letters.\nconst (\n\tA = 1\n\tB = 2\n)", ""},
		{"method of a private type", "actor/a.go", documentedPackage("actor") + "type t int\nfunc (t) M() {}", ""},

		{"long file", "route/a.go", documentedPackage("route") + strings.Repeat("\n", 800), "route/a.go: length: 802 lines"},
		{"long test", "route/a_test.go", "package route" + strings.Repeat("\n", 801), "route/a_test.go: length: 801 lines"},
		{"testdata is not ours to judge", "route/testdata/a.go", "package x" + strings.Repeat("\n", 900), ""},
		{"nor is what the go command skips", ".cache/a.go", "package x", ""},
		{"nor what it skips by an underscore", "_old/a.go", "package x", ""},
		{"vague name", "internal/ops/output/util/a.go", documentedPackage("util"), "internal/ops/output/util/a.go: name: package util says nothing"},
		{"retired word in a method", "route/a.go", documentedPackage("route") + "type t int\nfunc (t) tendRows() {}", `route/a.go:4: name: tendRows has the retired word "tend": write housekeep`},
		{"retired word in a type", "route/a.go", documentedPackage("route") + "type doorBell int", `route/a.go:3: name: doorBell has the retired word "bell": write notifier`},
		{"retired letters in a word", "route/a.go", documentedPackage("route") + "func extendRing() {}", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			findings, err := Check(fstest.MapFS{tc.file: {Data: []byte(tc.text)}})
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case tc.want == "" && len(findings) > 0:
				t.Errorf("found %v in a clean module", findings)
			case tc.want != "" && len(findings) != 1:
				t.Errorf("found %v, want one finding: %s", findings, tc.want)
			case tc.want != "" && !strings.HasPrefix(findings[0].String(), tc.want):
				t.Errorf("found %q, want %q", findings[0], tc.want)
			}
		})
	}
}

func TestTwoPackageCommentsAreAFinding(t *testing.T) {
	findings, err := Check(fstest.MapFS{
		"route/a.go": {Data: []byte(documentedPackage("route"))},
		"route/b.go": {Data: []byte(documentedPackage("route"))},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(findings) != 1 || !strings.Contains(findings[0].What, "2 package comments") {
		t.Errorf("found %v", findings)
	}
}

func TestATypeNameWithTwoMeaningsIsAFinding(t *testing.T) {
	declare := func(name, declaration string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(documentedPackage(name) + "// It is.\n" + declaration)}
	}
	for _, tc := range []struct {
		name   string
		module fstest.MapFS
		want   int
	}{
		{"twice", fstest.MapFS{"internal/node/a.go": declare("node", "type Gadget int"), "internal/server/a.go": declare("server", "type Gadget int")}, 1},
		{"three times", fstest.MapFS{"internal/node/a.go": declare("node", "type Gadget int"), "internal/server/a.go": declare("server", "type Gadget int"),
			"internal/storage/store/a.go": declare("store", "type Gadget int")}, 2},
		{"once", fstest.MapFS{"internal/node/a.go": declare("node", "type Gadget int"), "internal/server/a.go": declare("server", "type Widget int")}, 0},
		{"generic", fstest.MapFS{"internal/node/a.go": declare("node", "type Options int"), "internal/server/a.go": declare("server", "type Options int")}, 0},
		{"alias", fstest.MapFS{"internal/node/a.go": declare("node", "type Gadget int"), "internal/server/a.go": declare("server", "type Gadget = int")}, 0},
		{"private", fstest.MapFS{"internal/node/a.go": declare("node", "type gadget int"), "internal/server/a.go": declare("server", "type gadget int")}, 0},
		{"wire form", fstest.MapFS{"internal/node/a.go": declare("node", "type Gadget int"), "internal/ops/api/a.go": declare("api", "type Gadget int")}, 0},
		{"public", fstest.MapFS{"internal/node/a.go": declare("node", "type Gadget int"), "actor/a.go": declare("actor", "type Gadget int")}, 0},
	} {
		findings, err := Check(tc.module)
		if err != nil {
			t.Fatal(err)
		}
		if len(findings) != tc.want || tc.want > 0 && findings[0].Rule != "type" {
			t.Errorf("%s: found %v, want %d findings", tc.name, findings, tc.want)
		}
	}
}

func TestBrokenGoIsAnErrorNotASilence(t *testing.T) {
	if _, err := Check(fstest.MapFS{"route/a.go": {Data: []byte("package")}}); err == nil {
		t.Error("a file that does not parse was passed over")
	}
}

// documentedPackage is the first two lines of a documented package.
func documentedPackage(name string) string {
	return "// Package " + name + " is documented.\npackage " + name + "\n"
}
