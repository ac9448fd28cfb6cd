package server

import (
	"strings"

	"github.com/cleavekv/cleave/internal/server/glob"
	"github.com/cleavekv/cleave/internal/server/redis"
)

func init() {
	registerHandlers(map[string]func(*call){
		"command":         func(t *call) { writeCommands(t.out, redis.TopLevelSpecs()) },
		"command|count":   func(t *call) { t.out.Int(int64(len(redis.TopLevelSpecs()))) },
		"command|info":    handleCommandInfo,
		"command|docs":    handleCommandDocs,
		"command|list":    handleCommandList,
		"command|getkeys": handleCommandGetKeys,
		"command|help": newHelpHandler("COMMAND", "(no subcommand)", "    Return details about all commands.", "COUNT", "    Return the total number of commands in this server.",
			"LIST", "    Return a list of all commands in this server.", "INFO [<command-name> ...]", "    Return details about multiple commands.",
			"DOCS [<command-name> ...]", "    Return documentation details about multiple commands.", "GETKEYS <full-command>", "    Return the keys from a full command."),
	})
}

// lookupCommands returns the commands of some names, nil for one that there is not.
func lookupCommands(names [][]byte) []*redis.Spec {
	specs := make([]*redis.Spec, len(names))
	for i, name := range names {
		specs[i] = redis.SpecByName(strings.ToLower(string(name)))
	}
	return specs
}

func writeCommands(out *redis.Writer, specs []*redis.Spec) {
	out.Array(len(specs))
	for _, s := range specs {
		if s == nil {
			out.Null()
		} else {
			writeCommand(out, s)
		}
	}
}

// writeCommand writes the form of a command.
func writeCommand(out *redis.Writer, s *redis.Spec) {
	out.Array(10)
	out.Text(s.Name)
	out.Int(int64(s.Arity))
	flags := s.Flags.Names()
	out.Set(len(flags))
	for _, f := range flags {
		out.Simple(f)
	}
	out.Int(int64(s.Keys.First))
	out.Int(int64(s.Keys.Last))
	out.Int(int64(s.Keys.Step))
	categories := s.Categories().Names()
	out.Set(len(categories))
	for _, c := range categories {
		out.Simple("@" + c)
	}
	out.Array(0) // hints
	writeKeySpecs(out, s)
	out.Array(len(s.Subcommands))
	for _, sub := range s.Subcommands {
		writeCommand(out, sub)
	}
}

// writeKeySpecs writes where the keys of a request are, in the newer form.
func writeKeySpecs(out *redis.Writer, s *redis.Spec) {
	if s.Keys.First == 0 {
		out.Array(0)
		return
	}
	access := "RO"
	if s.Flags&redis.Write != 0 {
		access = "RW"
	}
	out.Array(1)
	out.Map(3)
	out.Text("flags")
	out.Set(1)
	out.Simple(access)
	out.Text("begin_search")
	out.Map(2)
	out.Text("type")
	out.Text("index")
	out.Text("spec")
	out.Map(1)
	out.Text("index")
	out.Int(int64(s.Keys.First))
	out.Text("find_keys")
	out.Map(2)
	out.Text("type")
	out.Text("range")
	out.Text("spec")
	out.Map(3)
	last := s.Keys.Last
	if last > 0 {
		last -= s.Keys.First
	}
	out.Text("lastkey")
	out.Int(int64(last))
	out.Text("keystep")
	out.Int(int64(s.Keys.Step))
	out.Text("limit")
	out.Int(0)
}

func handleCommandInfo(t *call) {
	if len(t.Args) == 2 {
		writeCommands(t.out, redis.TopLevelSpecs())
		return
	}
	writeCommands(t.out, lookupCommands(t.Args[2:]))
}

func handleCommandDocs(t *call) {
	specs := redis.TopLevelSpecs()
	if len(t.Args) > 2 {
		specs = nil
		for _, s := range lookupCommands(t.Args[2:]) {
			if s != nil {
				specs = append(specs, s)
			}
		}
	}
	t.out.Map(len(specs))
	for _, s := range specs {
		t.out.Text(s.Name)
		writeDoc(t.out, s)
	}
}

func writeDoc(out *redis.Writer, s *redis.Spec) {
	pairs := [][2]string{{"summary", s.Doc.Summary}, {"since", s.Doc.Since}, {"group", s.Doc.Group}}
	if s.Doc.Group == redis.ModuleName {
		pairs[2][1] = "module"
		pairs = append(pairs, [2]string{"module", redis.ModuleName})
	}
	if s.Doc.Complexity != "" {
		pairs = append(pairs, [2]string{"complexity", s.Doc.Complexity})
	}
	n := len(pairs)
	if len(s.Subcommands) > 0 {
		n++
	}
	out.Map(n)
	for _, p := range pairs {
		out.Text(p[0])
		out.Text(p[1])
	}
	if len(s.Subcommands) > 0 {
		out.Text("subcommands")
		out.Map(len(s.Subcommands))
		for _, sub := range s.Subcommands {
			out.Text(sub.Name)
			writeDoc(out, sub)
		}
	}
}

func handleCommandList(t *call) {
	keep := func(*redis.Spec) bool { return true }
	if err := checkNames("pattern", t.Args[2:]...); err != nil {
		t.out.Fail(err)
		return
	}
	switch {
	case len(t.Args) == 2:
	case len(t.Args) == 5 && redis.IsKeyword(t.Args[2], "FILTERBY") && redis.IsKeyword(t.Args[3], "PATTERN"):
		keep = func(s *redis.Spec) bool { return glob.Match(t.Args[4], []byte(s.Name)) }
	case len(t.Args) == 5 && redis.IsKeyword(t.Args[2], "FILTERBY") && redis.IsKeyword(t.Args[3], "ACLCAT"):
		c, ok := redis.ParseCategory(strings.ToLower(string(t.Args[4])))
		keep = func(s *redis.Spec) bool { return ok && s.Categories()&c != 0 }
	case len(t.Args) == 5 && redis.IsKeyword(t.Args[2], "FILTERBY") && redis.IsKeyword(t.Args[3], "MODULE"):
		keep = func(*redis.Spec) bool { return false }
	default:
		t.out.Fail(redis.ErrSyntax)
		return
	}
	var names []string
	for _, s := range redis.AllSpecs() {
		if keep(s) {
			names = append(names, s.Name)
		}
	}
	t.out.Array(len(names))
	for _, name := range names {
		t.out.Text(name)
	}
}

func handleCommandGetKeys(t *call) {
	args := t.Args[2:]
	s, err := redis.LookupRequest(args)
	if err != nil {
		t.out.Fail(redis.Error("ERR Invalid command specified"))
		return
	}
	if !s.HasKeys() {
		t.out.Fail(redis.Error("ERR The command has no key arguments"))
		return
	}
	if s.CheckArity(args) != nil {
		t.out.Fail(redis.Error("ERR Invalid number of arguments specified for command"))
		return
	}
	at, err := s.KeyIndexes(args)
	if err != nil || len(at) == 0 {
		t.out.Fail(redis.Error("ERR Invalid arguments specified for command"))
		return
	}
	t.out.Array(len(at))
	for _, i := range at {
		t.out.Bulk(args[i])
	}
}
