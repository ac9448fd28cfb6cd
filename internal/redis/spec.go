package redis

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cleavekv/cleave/internal/command"
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
	// Edge tells that the connection answers by itself.
	Edge
	// Heavy tells that it may compute for long, so that it must not be done where
	// others wait.
	Heavy
)

// Keys says which arguments are keys: from First to Last, every Step-th. A negative
// Last counts from the end. First is 0 if there are none.
type Keys struct{ First, Last, Step int }

// Doc is what COMMAND DOCS and the documentation say.
type Doc struct {
	Group, Since, Summary, Complexity string
	// Differs is what is not as in Redis, empty if nothing is.
	Differs string
}

// Spec describes a command. Exactly one of build, run and Subs is there, or none if the
// connection answers by itself.
type Spec struct {
	// Name is in lower case. That of a command below another is "config|get".
	Name string
	// Arity is how many words a request has, its name included; negative means at
	// least so many.
	Arity int
	// Number is its place in All.
	Number int
	Flags  Flag
	// ACL are its categories, besides those that follow from Flags.
	ACL  Category
	Keys Keys
	Doc  Doc
	Subs []*Spec

	build  func(b *Builder) (command.Command, error)
	answer func(w *Writer, r *Request, reply command.Reply)
	// reply writes what a command has found if its reply does not tell.
	reply func(w *Writer, r *Request, c command.Command)
	// fail gives an error other words than the usual ones.
	fail func(error) error
	run  func(u Unit, r *Request, w *Writer)
	// keys finds those that Keys does not tell.
	keys func(args [][]byte) ([]int, error)
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
	Room *Room
}

// Single tells whether the command is about one key, and one step: see Build.
func (s *Spec) Single() bool { return s.build != nil }

// Unitary tells whether the command is run on a Unit: see Run.
func (s *Spec) Unitary() bool { return s.build != nil || s.run != nil }

// Build returns the command that a request of a single one asks for.
func (s *Spec) Build(b *Builder) (command.Command, error) { return s.build(b) }

// Answer writes the reply to the command of a single one.
func (s *Spec) Answer(w *Writer, r *Request, c command.Command, reply command.Reply) {
	switch {
	case errors.Is(reply.Err, command.ErrExpiry):
		w.Fail(errExpire(s.Name))
	case reply.Err != nil && s.fail != nil:
		w.Fail(s.fail(reply.Err))
	case reply.Err != nil:
		w.Fail(reply.Err)
	case s.reply != nil:
		s.reply(w, r, c)
	case s.answer != nil:
		s.answer(w, r, reply)
	default:
		plain(w, r, reply)
	}
}

// Run runs a request on a unit and writes its reply.
func (s *Spec) Run(u Unit, r *Request, w *Writer) {
	if s.run != nil {
		s.run(u, r, w)
		return
	}
	at := u.At(r.Args[s.Keys.First])
	c, err := s.build(&Builder{Request: r, Key: at, Room: new(Room)})
	switch {
	case err != nil:
		w.Fail(err)
	case s.Flags&Write != 0:
		s.Answer(w, r, c, u.Write(at, c))
	default:
		s.Answer(w, r, c, u.Read(at, c))
	}
}

// Check refuses a request with a wrong number of words.
func (s *Spec) Check(args [][]byte) error {
	if len(args) == s.Arity || s.Arity < 0 && len(args) >= -s.Arity {
		return nil
	}
	return errArity(s.Name)
}

// KeysOf returns which arguments of a request are keys.
func (s *Spec) KeysOf(args [][]byte) ([]int, error) {
	if s.keys != nil {
		return s.keys(args)
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

// All returns every command, by name.
func All() []*Spec { return all }

var (
	all    []*Spec
	byName = map[string]*Spec{}
)

// register adds commands to the registry. It panics on what is described wrongly: a test
// would be too late for a program that serves.
func register(specs ...*Spec) {
	for _, s := range specs {
		if byName[s.Name] != nil || s.Arity == 0 || s.build != nil && (s.run != nil || s.Keys.First == 0) {
			panic(fmt.Sprintf("redis: %s is described wrongly", s.Name))
		}
		byName[s.Name] = s
		shortNames.add(s)
		all = append(all, s)
		register(s.Subs...)
	}
	slices.SortFunc(all, func(a, b *Spec) int { return strings.Compare(a.Name, b.Name) })
	for i, s := range all {
		s.Number = i
	}
}

// longest is more than the length of any name.
const longest = 64

// Lookup returns the command of a request, or the error that the client is told.
func Lookup(args [][]byte) (*Spec, error) {
	s := find(args[0])
	if s == nil {
		return nil, unknown(args)
	}
	if len(s.Subs) == 0 || len(args) < 2 {
		return s, nil
	}
	var room [longest]byte
	name := append(append(room[:0], s.Name...), '|')
	if sub := byName[string(lower(name, args[1]))]; sub != nil {
		return sub, nil
	}
	return nil, Error(fmt.Sprintf("ERR unknown subcommand '%.128s'. Try %s HELP.", args[1], upper(s.Name)))
}

func find(name []byte) *Spec {
	if word, ok := shortWord(name); ok {
		return shortNames.find(word)
	}
	if len(name) > longest || bytes.IndexByte(name, '|') >= 0 { // one below another has no name of its own
		return nil
	}
	var room [longest]byte
	return byName[string(lower(room[:0], name))]
}

// shorts finds commands by the words of short names, which those have that come most
// often: a map takes some 30 ns of the 400 that a GET in a pipeline takes.
type shorts [1 << shortBits]struct {
	word uint64
	spec *Spec
}

const shortBits = 10

var shortNames shorts

// shortWord returns a name of up to seven bytes in lower case as a number, which is not 0 and
// of no other name.
func shortWord(name []byte) (word uint64, ok bool) {
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

// place returns where a word is, or where it would be. There are several times as many places
// as commands.
func (t *shorts) place(word uint64) int {
	at := word * 0x9e3779b97f4a7c15 >> (64 - shortBits)
	for t[at].word != word && t[at].word != 0 {
		at = (at + 1) % uint64(len(t))
	}
	return int(at)
}

func (t *shorts) find(word uint64) *Spec { return t[t.place(word)].spec }

func (t *shorts) add(s *Spec) {
	if word, ok := shortWord([]byte(s.Name)); ok && !strings.Contains(s.Name, "|") {
		at := &t[t.place(word)]
		at.word, at.spec = word, s
	}
}

func lower(dst, name []byte) []byte {
	for _, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

func upper(name string) string {
	b := []byte(name)
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			b[i] = c - ('a' - 'A')
		}
	}
	return string(b)
}

// unknown is Redis' answer to a command that there is not.
func unknown(args [][]byte) error {
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
