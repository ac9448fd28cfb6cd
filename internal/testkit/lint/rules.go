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
	"hash":                       0,
	"internal/ops/output":        0,
	"internal/testkit/lint":      0,
	"internal/testkit/measure":   0,
	"internal/testkit/typecheck": 0,
	"internal/testkit/tally":     0,
	"internal/testkit/caller":    0,
	"internal/testkit/browser":   0,
	"internal/testkit/check":     0,
	"internal/server/resp":       0,
	"internal/server/glob":       0,
	"internal/cputime":           0,
	"internal/throttle":          0,
	"internal/ops/oplog":         0,
	"internal/ops/config":        0,
	"internal/ops/diskspace":     0,
	"internal/memlimit":          0,
	"internal/ops/terminal":      1,
	"internal/ops/importer":      4,

	"internal/ops/tracing/spantest": 0,

	"internal/testkit/eventually": 0,
	"internal/testkit/rowtable":   3,

	"key":                           1,
	"internal/patterns/splitcount":  1,
	"internal/patterns/delivery":    1,
	"internal/patterns/watchbuffer": 1,
	"internal/patterns/freshness":   1,

	"route":          2,
	"key/fanout":     2,
	"partition":      2,
	"shardmap":       2,
	"actor":          2,
	"affinity":       2,
	"heat":           1,
	"hotkey":         2,
	"hotkey/backoff": 2,
	"cache":          2,

	"route/meter":    3,
	"shardmap/meter": 3,

	"advisor/internal/sketch":    0,
	"advisor/internal/textchunk": 0,
	"advisor":                    3,

	"internal/shard/effect": 2,

	"internal/shard/ratekeeper": 3,
	"internal/shard/load":       3,
	"internal/shard/admission":  3,
	"internal/shard/command":    3,
	"internal/shard/index":      3,
	"internal/ops/api":          3,
	"saga":                      3,
	"saga/machine":              2,
	"hotkey/redishook":          3,

	"internal/server/redis":        4,
	"internal/server/acl":          5,
	"internal/shard/ownership":     4,
	"internal/ops/tracing":         4,
	"internal/shard/txn":           4,
	"internal/storage/pages":       0,
	"internal/storage/wal":         4,
	"internal/storage/rowcache":    4,
	"internal/storage/memruns":     4,
	"internal/storage/store":       5,
	"internal/shard/group":         6,
	"internal/reshard/mover":       6,
	"internal/reshard/classify":    6,
	"internal/reshard/feed":        6,
	"internal/reshard/protocol":    7,
	"internal/reshard/distributor": 7,
	"internal/testkit/sim":         8,
	"internal/node":                8,

	"internal/reshard/balancer": 9,

	"internal/engine": 9,

	".": 10,

	"internal/patterns/spread": 11,

	// Patterns on the store: each uses package cleave as a program would.
	"saga/journal":     12,
	"copies":           12,
	"counter":          12,
	"queue":            12,
	"table":            12,
	"cache/storecache": 12,
	"watch":            12,

	"internal/testkit/smallstore": 12,
	"internal/testkit/relief":     10,

	"internal/server/pubsub":   12,
	"internal/server/settings": 13,
	"internal/server/stats":    5,
	"internal/server/conn":     14,
	"internal/server":          16,
	"internal/ops/admin":       17,

	"internal/ops/page":         0,
	"internal/ops/page/shots":   18,
	"internal/demo":             18,
	"cmd/cleave":                19,
	"internal/testkit/mutants":  18,
	"internal/testkit/killtest": 18,
	"examples":                  18,

	"examples/shardkeys/dataset": 0,
}

// purePackages lists the packages that decide. They are handed time, randomness and
// I/O, so that the simulator can own them and a test can replay them.
var purePackages = []string{
	"route", "key", "affinity", "partition", "heat", "saga/machine",
	"internal/shard/effect", "internal/shard/command", "internal/shard/ownership", "internal/shard/txn", "internal/reshard/mover", "internal/reshard/distributor", "internal/reshard/classify", "internal/shard/ratekeeper",
	"internal/testkit/check", "internal/shard/index", "internal/patterns/splitcount", "internal/patterns/delivery", "internal/patterns/watchbuffer", "internal/patterns/freshness",
	"internal/throttle", "internal/ops/output",
}

// impurePackages lie in the folder of a pure package and use it; they measure, or drive what it
// decides.
var impurePackages = []string{"route/meter", "key/fanout"}

// impureNames are what a pure package may not use. A nil list forbids the whole
// package with all below it that is not listed itself; otherwise only the
// names in the list, so an empty one allows the package.
var impureNames = map[string][]string{
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

// dependencyHomes are dependencies that some folders alone import.
var dependencyHomes = []struct {
	dependency string
	folders    []string
	reason     string
}{
	{"github.com/cockroachdb/pebble", []string{"internal/storage/store"}, "the store hides which engine holds the rows"},
	{"github.com/maypok86/otter", []string{"cache"}, "the cache hides which library chooses what to keep"},
	{"github.com/redis/go-redis", []string{"hotkey/redishook", "internal/ops/importer", "internal/ops/page/shots", "internal/demo", "examples/redis"}, "who wants the detector or the store alone does not take a client along"},
	{"github.com/pelletier/go-toml", []string{"internal/ops/config"}, "the settings hide the language of their file"},
	{"go.opentelemetry.io", []string{"internal/ops/tracing"}, "who embeds the store does not take a tracer along"},
	{"github.com/prometheus", []string{"internal/ops/admin"}, "who embeds the store chooses what it reports its figures with"},
	{"github.com/parquet-go", []string{"advisor/parquetfile"}, "the advisor takes along only the sources that a program uses"},
	{"github.com/jackc/pgx", []string{"advisor/postgres"}, "the advisor takes along only the sources that a program uses"},
	{"github.com/chromedp", []string{"internal/ops/page"}, "a browser is driven by tests, and by what takes pictures of the page"},
	{"golang.org/x/term", []string{"internal/ops/terminal"}, "one package knows whether there is a person to ask"},
}

// mutantSwitch is the package that copies of the code ask for their mutants. The code itself has none.
const mutantSwitch = "internal/testkit/mutants/plant"

// vagueNames are package names that say nothing about what is inside.
var vagueNames = []string{"util", "utils", "common", "types", "helper", "helpers", "misc", "base"}

// retiredWords are words that no function, method or type is named by, with those to use.
var retiredWords = map[string]string{
	"hasty": "non-blocking", "glance": "lookup or prefetch", "rehearse": "prefetch", "lent": "helper", "tend": "housekeep",
	"tidy": "compact or reclaim", "reown": "change ownership", "bell": "notifier", "hush": "suppress", "ordeal": "kill test",
	"planted": "mutant", "knots": "strongly connected", "nobody": "none", "whoever": "caller", "tells": "reports", "mend": "fix",
	"brake": "throttle", "ease": "throttle", "gentle": "throttle", "polite": "throttle", "politely": "throttle", "haste": "urgency",
}

// mirrors are folders whose types have the names of others on purpose: the wire form of a thing, and what
// plays its part in tests.
var mirrors = []string{"internal/ops/api", "internal/testkit"}

// genericTypeNames are names of types that several packages may have, with what they mean in each.
var genericTypeNames = map[string]string{
	"Options":      "what the constructor of the package takes",
	"Metrics":      "what the package counts",
	"State":        "the states of the one machine of the package",
	"Kind":         "the kinds of the one thing of the package",
	"Event":        "what a step function is given",
	"Effect":       "what a step function wants done",
	"Timeout":      "the event that time has passed",
	"Builder":      "makes the one thing of the package piece by piece",
	"Reader":       "reads the one thing of the package",
	"Iter":         "goes over the rows of the package",
	"Header":       "the first bytes of the record of the package",
	"ID":           "names the one thing of the package",
	"CorruptError": "damage that the package has found in its files",
}

// sharedTypeNames are names of types that several packages still have for different things. A name goes
// from here when one of its types gets another; none is added.
var sharedTypeNames = []string{
	"Batch", "Change", "Chunk", "Commit", "DecideJob", "Digest", "Entry", "Epoch", "GroupHost", "GroupSpan", "Job", "Load", "Log", "Op",
	"Range", "Request", "Row", "Savepoint", "Set", "Site", "SiteCommand", "Snapshot", "Table",
}
