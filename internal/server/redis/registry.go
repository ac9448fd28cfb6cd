package redis

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/partition"
)

// Flag is a property of a command, by the name that COMMAND INFO has for it.
type Flag uint32

// The properties of commands.
const (
	Write Flag = 1 << iota
	ReadOnly
	DenyOOM
	Admin
	PubSub
	NoScript
	Blocking
	Loading
	Stale
	NoAuth
	Fast
	NoMulti
	AllowBusy
	MovableKeys
	// ServerCommand means that the connection answers by itself.
	ServerCommand
	// Heavy means that it may compute for long, so that it must not be done where
	// others wait.
	Heavy
)

// KeySpec specifies which arguments are keys: from First to Last, every Step-th. A negative
// Last counts from the end. First is 0 if there are none.
type KeySpec struct{ First, Last, Step int }

// Doc is what COMMAND DOCS and the documentation say.
type Doc struct {
	Group, Since, Summary, Complexity string
	// Difference is what is not as in Redis, empty if nothing is.
	Difference string
}

// Spec describes a command. Exactly one of build, run and Subs is there, or none if the
// connection answers by itself.
type Spec struct {
	// Name is in lower case. That of a command below another is "config|get".
	Name string
	// Arity is how many words a request has, its name included; negative means at
	// least so many.
	Arity int
	// Index is its place in All.
	Index int
	Flags Flag
	// ACL are its categories, besides those that follow from Flags.
	ACL         Category
	Keys        KeySpec
	Doc         Doc
	Subcommands []*Spec

	build      func(b *Builder) (command.Command, error)
	writeReply func(w *Writer, r *Request, reply command.Reply)
	// writeResult writes the result of a command if its reply does not have it.
	writeResult func(w *Writer, r *Request, c command.Command)
	// mapError gives an error other words than the usual ones.
	mapError func(error) error
	run      func(u KeyspaceView, r *Request, w *Writer)
	// findKeys finds those that Keys does not tell.
	findKeys func(args [][]byte) ([]int, error)
}

// Category is a group of commands that an ACL may name.
type Category uint32

// The categories.
const (
	Keyspace Category = 1 << iota
	StringType
	HashType
	BitmapType
	Connection
	Transaction
	Dangerous
	Slow
	ScriptingType
	PubSubType
	AdminType
	ReadType
	WriteType
	FastType
	BlockingType
)

// Builder is a request about one key that becomes a command.
type Builder struct {
	*Request
	// Key is the position of its key.
	Key  partition.Position
	Pool *CommandPool
}

// IsSingleKey reports whether the command is about one key, and one step: see Build.
func (s *Spec) IsSingleKey() bool { return s.build != nil }

// RunsOnView reports whether the command is run on a KeyspaceView: see Run.
func (s *Spec) RunsOnView() bool { return s.build != nil || s.run != nil }

// Build returns the command that a request of a single one asks for.
func (s *Spec) Build(b *Builder) (command.Command, error) { return s.build(b) }

// WriteReply writes the reply to the command of a single one.
func (s *Spec) WriteReply(w *Writer, r *Request, c command.Command, reply command.Reply) {
	switch {
	case errors.Is(reply.Err, command.ErrExpiry):
		w.Fail(newExpireError(s.Name))
	case reply.Err != nil && s.mapError != nil:
		w.Fail(s.mapError(reply.Err))
	case reply.Err != nil:
		w.Fail(reply.Err)
	case s.writeResult != nil:
		s.writeResult(w, r, c)
	case s.writeReply != nil:
		s.writeReply(w, r, reply)
	default:
		writePlainReply(w, r, reply)
	}
}

// Run runs a request on a unit and writes its reply.
func (s *Spec) Run(u KeyspaceView, r *Request, w *Writer) {
	if s.run != nil {
		s.run(u, r, w)
		return
	}
	at := u.PositionOf(r.Args[s.Keys.First])
	c, err := s.build(&Builder{Request: r, Key: at, Pool: new(CommandPool)})
	switch {
	case err != nil:
		w.Fail(err)
	case s.Flags&Write != 0:
		s.WriteReply(w, r, c, u.Write(at, c))
	default:
		s.WriteReply(w, r, c, u.Read(at, c))
	}
}

// CheckArity refuses a request with a wrong number of words.
func (s *Spec) CheckArity(args [][]byte) error {
	if len(args) == s.Arity || s.Arity < 0 && len(args) >= -s.Arity {
		return nil
	}
	return newArityError(s.Name)
}

// HasKeys reports whether arguments of a request may be keys.
func (s *Spec) HasKeys() bool { return s.findKeys != nil || s.Keys.First > 0 }

// KeyIndexes returns which arguments of a request are keys.
func (s *Spec) KeyIndexes(args [][]byte) ([]int, error) {
	if s.findKeys != nil {
		return s.findKeys(args)
	}
	if s.Keys.First == 0 {
		return nil, nil
	}
	last := s.Keys.Last
	if last < 0 {
		last += len(args)
	}
	var at []int
	for i := s.Keys.First; i <= last && i < len(args); i += s.Keys.Step {
		at = append(at, i)
	}
	return at, nil
}

// AllSpecs returns every command, by name.
func AllSpecs() []*Spec { return allSpecs }

var (
	allSpecs    []*Spec
	specsByName = map[string]*Spec{}
)

// register adds commands to the registry. It panics on what is described wrongly: a test
// would be too late for a program that serves.
func register(specs ...*Spec) {
	for _, s := range specs {
		if specsByName[s.Name] != nil || s.Arity == 0 || s.build != nil && (s.run != nil || s.Keys.First == 0) {
			panic(fmt.Sprintf("redis: %s is described wrongly", s.Name))
		}
		specsByName[s.Name] = s
		shortNames.add(s)
		allSpecs = append(allSpecs, s)
		register(s.Subcommands...)
	}
	slices.SortFunc(allSpecs, func(a, b *Spec) int { return strings.Compare(a.Name, b.Name) })
	for i, s := range allSpecs {
		s.Index = i
	}
}

// maxNameBytes is more than the length of any name.
const maxNameBytes = 64

// LookupRequest returns the command of a request, or the error for the client.
func LookupRequest(args [][]byte) (*Spec, error) {
	s := findTopLevel(args[0])
	if s == nil {
		return nil, unknownCommandError(args)
	}
	if len(s.Subcommands) == 0 || len(args) < 2 {
		return s, nil
	}
	var room [maxNameBytes]byte
	name := append(append(room[:0], s.Name...), '|')
	if sub := specsByName[string(appendLower(name, args[1]))]; sub != nil {
		return sub, nil
	}
	return nil, Error(fmt.Sprintf("ERR unknown subcommand '%.128s'. Try %s HELP.", args[1], toUpper(s.Name)))
}

func findTopLevel(name []byte) *Spec {
	if word, ok := encodeShortName(name); ok {
		return shortNames.find(word)
	}
	if len(name) > maxNameBytes || bytes.IndexByte(name, '|') >= 0 { // one below another has no name of its own
		return nil
	}
	var room [maxNameBytes]byte
	return specsByName[string(appendLower(room[:0], name))]
}

// shortNameTable finds commands by the words of short names, which those have that come most
// often: a map takes some 30 ns of the 400 that a GET in a pipeline takes.
type shortNameTable [1 << shortNameBits]struct {
	word uint64
	spec *Spec
}

const shortNameBits = 10

var shortNames shortNameTable

// encodeShortName returns a name of up to seven bytes in lower case as a number, which is not 0 and
// of no other name.
func encodeShortName(name []byte) (word uint64, ok bool) {
	if len(name) > 7 {
		return 0, false
	}
	word = 1 // or zeros at the beginning would not count
	for _, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		word = word<<8 | uint64(c)
	}
	return word, true
}

// findSlot returns where a word is, or where it would be. There are several times as many places
// as commands.
func (t *shortNameTable) findSlot(word uint64) int {
	at := word * 0x9e3779b97f4a7c15 >> (64 - shortNameBits)
	for t[at].word != word && t[at].word != 0 {
		at = (at + 1) % uint64(len(t))
	}
	return int(at)
}

func (t *shortNameTable) find(word uint64) *Spec { return t[t.findSlot(word)].spec }

func (t *shortNameTable) add(s *Spec) {
	if word, ok := encodeShortName([]byte(s.Name)); ok && !strings.Contains(s.Name, "|") {
		at := &t[t.findSlot(word)]
		at.word, at.spec = word, s
	}
}

func appendLower(dst, name []byte) []byte {
	for _, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

func toUpper(name string) string {
	b := []byte(name)
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			b[i] = c - ('a' - 'A')
		}
	}
	return string(b)
}

// unknownCommandError is Redis' answer to a command that there is not, or what Cleave lacks if it is a known command of Redis.
func unknownCommandError(args [][]byte) error {
	if what := missingWhat(args[0]); what != "" {
		return Error(fmt.Sprintf("ERR unknown command '%s': Cleave has no %s yet, see docs/redis.md", args[0], what))
	}
	text := fmt.Sprintf("ERR unknown command '%.128s', with args beginning with: ", args[0])
	start := len(text)
	for _, a := range args[1:] {
		if len(text)-start >= 128 {
			break
		}
		text += fmt.Sprintf("'%.*s' ", 128-(len(text)-start), a)
	}
	return Error(text)
}

// TopLevelSpecs returns the commands that are not below others, by name.
func TopLevelSpecs() (specs []*Spec) {
	below := map[*Spec]bool{}
	for _, s := range allSpecs {
		for _, sub := range s.Subcommands {
			below[sub] = true
		}
	}
	for _, s := range allSpecs {
		if !below[s] {
			specs = append(specs, s)
		}
	}
	return specs
}

// SpecByName returns the command of a name in lower case, nil if there is none.
func SpecByName(name string) *Spec { return specsByName[name] }

// flagNames are those of COMMAND INFO. Those that are ours alone have none.
var flagNames = []struct {
	flag Flag
	name string
}{
	{Write, "write"}, {ReadOnly, "readonly"}, {DenyOOM, "denyoom"}, {Admin, "admin"}, {PubSub, "pubsub"}, {NoScript, "noscript"},
	{Blocking, "blocking"}, {Loading, "loading"}, {Stale, "stale"}, {NoAuth, "no_auth"}, {Fast, "fast"}, {NoMulti, "no_multi"},
	{AllowBusy, "allow_busy"}, {MovableKeys, "movablekeys"},
}

// Names are the names of flags.
func (f Flag) Names() (names []string) {
	for _, n := range flagNames {
		if f&n.flag != 0 {
			names = append(names, n.name)
		}
	}
	return names
}

// categoryNames are those of ACL CAT.
var categoryNames = []struct {
	category Category
	name     string
}{
	{Keyspace, "keyspace"}, {ReadType, "read"}, {WriteType, "write"}, {StringType, "string"}, {HashType, "hash"}, {BitmapType, "bitmap"},
	{Connection, "connection"}, {Transaction, "transaction"}, {Dangerous, "dangerous"}, {Slow, "slow"}, {FastType, "fast"},
	{ScriptingType, "scripting"}, {PubSubType, "pubsub"}, {AdminType, "admin"}, {BlockingType, "blocking"},
}

// Names are the names of categories.
func (c Category) Names() (names []string) {
	for _, n := range categoryNames {
		if c&n.category != 0 {
			names = append(names, n.name)
		}
	}
	return names
}

// ParseCategory returns the category of a name.
func ParseCategory(name string) (c Category, ok bool) {
	for _, n := range categoryNames {
		if n.name == name {
			return n.category, true
		}
	}
	return 0, false
}

// Categories are those that a command is in.
func (s *Spec) Categories() Category {
	c := s.ACL
	for _, f := range []struct {
		flag Flag
		in   Category
	}{{Write, WriteType}, {ReadOnly, ReadType}, {Admin, AdminType | Dangerous}, {PubSub, PubSubType}, {Blocking, BlockingType}, {Fast, FastType}} {
		if s.Flags&f.flag != 0 {
			c |= f.in
		}
	}
	if s.Flags&Fast == 0 {
		c |= Slow
	}
	if s.Keys.First == 0 && s.ACL&(Keyspace|StringType|HashType|BitmapType) == 0 {
		c &^= WriteType | ReadType
	}
	return c
}

// TypeName is Redis' name of a type of values.
func TypeName(k command.Kind) string { return typeNames[k] }

// docGroups are the groups of commands in the order in which they are best read.
var docGroups = []struct{ name, title string }{
	{"connection", "Connection"}, {"string", "Strings"}, {"bitmap", "Bits"}, {"hash", "Hashes"}, {"generic", "Keys"},
	{"transactions", "Transactions"}, {"pubsub", "Messages"}, {"server", "Server"}, {"cluster", "Cluster"}, {"scripting", "Functions"},
	{ModuleName, "Cleave's own"},
}

// FormatTable is all commands as Markdown, for the documentation. What several commands have in
// common is said at the first one.
func FormatTable() string {
	var b strings.Builder
	first := map[string]string{} // by the difference, the command that has it first
	for _, g := range docGroups {
		fmt.Fprintf(&b, "### %s\n\n| command | what it does | not as in Redis |\n|---|---|---|\n", g.title)
		for _, s := range allSpecs {
			if s.Doc.Group == g.name && len(s.Subcommands) == 0 {
				name := strings.ToUpper(strings.ReplaceAll(s.Name, "|", " "))
				difference := s.Doc.Difference
				if same, ok := first[difference]; ok && difference != "" {
					difference = fmt.Sprintf("As for `%s`.", same)
				} else {
					first[difference] = name
				}
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, s.Doc.Summary, difference)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
