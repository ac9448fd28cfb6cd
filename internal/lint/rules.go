package lint

// module is the path of the module that the rules are about.
const module = "github.com/cleavekv/cleave"

// maxLines is the length no file of ours passes: a longer one holds two ideas.
const maxLines = 800

// ownModules are folders with a go.mod of their own. What they import is
// their business; how long their files are and whether they are documented
// is ours.
var ownModules = []string{"bench"}

// layers orders the packages along the flow of data. A package imports only
// from lower layers, so that data never turns back and a toolkit package can
// be used without the store. A package that is not listed is a finding: give
// it a layer when you create it.
var layers = map[string]int{
	"hash":               0,
	"internal/output":    0,
	"internal/lint":      0,
	"internal/typecheck": 0,
	"internal/plant":     0,
	"internal/tally":     0,
	"internal/caller":    0,
	"internal/check":     0,
	"internal/resp":      0,
	"internal/glob":      0,
	"internal/cputime":   0,
	"internal/config":    0,
	"internal/terminal":  1,
	"internal/importer":  1,

	"internal/spans/spantest": 0,

	"key":              1,
	"internal/sums":    1,
	"internal/lanes":   1,
	"internal/waiting": 1,
	"internal/fresh":   1,

	"route":     2,
	"partition": 2,
	"heat":      2,
	"shardmap":  2,
	"actor":     2,
	"affinity":  2,
	"hotkey":    2,

	"internal/effect": 2,

	"internal/command":     3,
	"internal/index":       3,
	"internal/api":         3,
	"internal/distributor": 3,
	"internal/ratekeeper":  3,
	"saga":                 3,
	"advisor":              3,
	"client":               3,
	"hotkey/redishook":     3,

	"internal/redis":   4,
	"internal/acl":     5,
	"internal/own":     4,
	"internal/spans":   4,
	"internal/txn":     4,
	"internal/wal":     4,
	"internal/rows":    4,
	"internal/runs":    4,
	"internal/store":   5,
	"internal/group":   6,
	"internal/replica": 7,
	"internal/mover":   6,
	"internal/feed":    6,
	"internal/drive":   7,
	"internal/sim":     8,
	"internal/node":    8,

	"internal/inside": 9,

	".": 10,

	// Patterns on the store: each uses package cleave as a program would.
	"saga/journal": 11,
	"counter":      11,
	"queue":        11,
	"table":        11,
	"cache":        11,
	"watch":        11,

	"internal/serve": 12,
	"internal/admin": 13,
	"internal/dash":  13,

	"cmd/cleave":       14,
	"internal/planted": 14,
	"internal/ordeal":  14,
	"examples":         14,
}

// pure lists the packages that decide. They are handed time, randomness and
// I/O, so that the simulator can own them and a test can replay them.
var pure = []string{
	"route", "key", "affinity", "partition",
	"internal/effect", "internal/command", "internal/own", "internal/txn", "internal/mover",
	"internal/distributor", "internal/ratekeeper", "internal/check", "internal/index", "internal/sums", "internal/lanes", "internal/waiting", "internal/fresh",
}

// impure names what a pure package may not use. A nil list forbids the whole
// package with all below it that is not listed itself; otherwise only the
// names in the list, so an empty one allows the package.
var impure = map[string][]string{
	"C": nil,
	"time": {
		"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick",
		"NewTimer", "NewTicker", "LoadLocation", "Local",
	},
	"context":      {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause", "AfterFunc"},
	"hash/maphash": nil,
	// Our own wrapping of it is a table's business, not that of a decision.
	module + "/hash": {"Maphash", "NewMaphash", "Comparable"},
	"math/rand":      nil,
	// In a normal build it is a constant.
	module + "/internal/plant": {},
	// The generators with an explicit seed are values like any other.
	"math/rand/v2": {
		"Int", "IntN", "Int32", "Int32N", "Int64", "Int64N", "Uint", "UintN", "Uint32", "Uint32N",
		"Uint64", "Uint64N", "Float32", "Float64", "ExpFloat64", "NormFloat64", "N", "Perm", "Shuffle",
	},
	"crypto/rand": nil,
	"io/ioutil":   nil,
	"log":         nil,
	"net":         nil,
	"net/netip":   {},
	"net/url":     {},
	"os":          nil,
	"syscall":     nil,
	"path/filepath": {
		"Abs", "EvalSymlinks", "Glob", "Walk", "WalkDir",
	},
	"plugin":  nil,
	"runtime": nil,
	"fmt":     {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},

	"golang.org/x/sys/unix":    nil,
	"golang.org/x/sys/windows": nil,
}

// homes are dependencies that some folders alone import.
var homes = []struct {
	dependency string
	folders    []string
	reason     string
}{
	{"github.com/cockroachdb/pebble", []string{"internal/store"}, "the store hides which engine holds the rows"},
	{"github.com/maypok86/otter", []string{"cache"}, "the cache hides which library chooses what to keep"},
	{"github.com/redis/go-redis", []string{"hotkey/redishook", "internal/importer", "examples/redis"}, "who wants the detector or the store alone does not take a client along"},
	{"github.com/pelletier/go-toml", []string{"internal/config"}, "the settings hide the language of their file"},
	{"go.opentelemetry.io", []string{"internal/spans"}, "who embeds the store does not take a tracer along"},
	{"go.etcd.io/raft", []string{"internal/replica"}, "replication stays behind the group's commit interface"},
}

// vague are package names that say nothing about what is inside.
var vague = []string{"util", "utils", "common", "types", "helper", "helpers", "misc", "base"}
