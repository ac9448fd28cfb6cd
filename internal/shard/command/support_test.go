package command

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// memoryStore is a Reader: the smallest thing that keeps rows in order.
type memoryStore struct{ rows map[string]string }

func newMemoryStore() *memoryStore { return &memoryStore{map[string]string{}} }

func (s *memoryStore) Get(key, dst []byte) ([]byte, bool, error) {
	value, ok := s.rows[string(key)]
	return append(dst, value...), ok, nil
}

func (s *memoryStore) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	keys := slices.Sorted(maps.Keys(s.rows))
	if reverse {
		slices.Reverse(keys)
	}
	for _, key := range keys {
		if key >= string(start) && key < string(end) && !visit([]byte(key), []byte(s.rows[key])) {
			return nil
		}
	}
	return nil
}

// failReporter is what a test and a run of a property have in common.
type failReporter interface {
	Helper()
	Fatal(args ...any)
}

// applyEffects applies a batch, as a replica would: from its bytes.
func (s *memoryStore) applyEffects(t failReporter, effects []byte) {
	t.Helper()
	batch, err := effect.Parse(bytes.Clone(effects))
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range batch.All() {
		if op.Delete {
			delete(s.rows, string(op.Key))
		} else {
			s.rows[string(op.Key)] = string(op.Value)
		}
	}
}

// tableRows returns the rows of a table by position.
func (s *memoryStore) tableRows(table effect.Table) map[string]string {
	rows := map[string]string{}
	for key, value := range s.rows {
		if key[0] == byte(table) {
			rows[key[1:]] = value
		}
	}
	return rows
}

var testKeyspace = partition.Keyspace{ID: 1, Name: "test", Kind: partition.Range}

func positionOf(key string) partition.Position { return testKeyspace.AppendPosition(nil, []byte(key)) }

// testEnv is an Env over a map that commits a batch at a time.
type testEnv struct {
	t           testing.TB
	store       *memoryStore
	env         *Env
	seq         uint64
	clockMS     int64
	nextVersion uint64
}

func newTestEnv(t testing.TB) *testEnv {
	store := newMemoryStore()
	l := &testEnv{t: t, store: store, env: NewEnv(store), clockMS: 1000, nextVersion: 1}
	l.begin()
	return l
}

func (l *testEnv) begin() {
	l.seq++
	l.env.Begin(effect.Header{Seq: l.seq, ClockMS: l.clockMS}, l.nextVersion)
}

// parseEffects is what the batch at hand has written.
func (l *testEnv) parseEffects() effect.Batch {
	batch, err := effect.Parse(l.env.Effects().Bytes())
	if err != nil {
		l.t.Fatal(err)
	}
	return batch
}

// commit applies the batch at hand and begins the next one.
func (l *testEnv) commit() {
	l.t.Helper()
	l.store.applyEffects(l.t, l.env.Effects().Bytes())
	l.nextVersion = l.env.NextVersion()
	l.begin()
}

// advanceClock commits and lets time pass.
func (l *testEnv) advanceClock(ms int64) {
	l.t.Helper()
	l.clockMS += ms
	l.commit()
}

// parseCommand makes a command from a line in Redis' words. It is for tests: it takes
// a line that makes no sense for a bug of the test.
func parseCommand(line string) Command {
	args := splitWords(line)
	word, args := args[0], args[1:]
	key := func() partition.Position { return positionOf(args[0]) }
	num := func(i int) int64 {
		n, err := strconv.ParseInt(args[i], 10, 64)
		if err != nil {
			panic(err)
		}
		return n
	}
	text := func(i int) []byte { return []byte(args[i]) }
	switch word {
	case "set":
		return parseSet(args)
	case "get":
		return &Get{Key: key()}
	case "del", "exists":
		var keys []partition.Position
		for _, arg := range args {
			keys = append(keys, positionOf(arg))
		}
		if word == "del" {
			return &Delete{Keys: keys}
		}
		return &Exists{Keys: keys}
	case "incrby":
		return &Add{Key: key(), Delta: num(1)}
	case "incrbyfloat":
		return &AddFloat{Key: key(), Delta: text(1)}
	case "append":
		return &Append{Key: key(), Suffix: text(1)}
	case "strlen":
		return &Strlen{Key: key()}
	case "getrange":
		return &GetRange{Key: key(), Start: num(1), End: num(2)}
	case "setrange":
		return &SetRange{Key: key(), Offset: num(1), Value: text(2)}
	case "pexpire", "pexpireat":
		c := &Expire{Key: key(), Expiry: ExpireIn(num(1))}
		if word == "pexpireat" {
			c.Expiry = ExpireAt(num(1))
		}
		flags := map[string]ExpireFlags{"nx": ExpireNX, "xx": ExpireXX, "gt": ExpireGT, "lt": ExpireLT}
		for _, arg := range args[2:] {
			c.Flags |= flags[arg]
		}
		return c
	case "persist":
		return &Persist{Key: key()}
	case "pttl", "pexpiretime":
		return &TTL{Key: key(), Absolute: word == "pexpiretime"}
	case "type":
		return &Type{Key: key()}
	}
	return parseHash(word, args)
}

func parseSet(args []string) Command {
	c := &Set{Key: positionOf(args[0]), Value: []byte(args[1])}
	for i := 2; i < len(args); i++ {
		switch args[i] {
		case "nx":
			c.Condition = IfAbsent
		case "xx":
			c.Condition = IfPresent
		case "get":
			c.ReturnOld = true
		case "keepttl":
			c.Expiry = KeepExpiry()
		default:
			n, err := strconv.ParseInt(args[i+1], 10, 64)
			if err != nil {
				panic(err)
			}
			switch args[i] {
			case "px":
				c.Expiry = ExpireIn(n)
			case "pxat":
				c.Expiry = ExpireAt(n)
			case "ifversion":
				c.Condition, c.Version = IfVersion, uint64(n)
			}
			i++
		}
	}
	return c
}

func parseHash(word string, args []string) Command {
	key := positionOf(args[0])
	var fields [][]byte
	for _, arg := range args[1:] {
		fields = append(fields, []byte(arg))
	}
	switch word {
	case "hset", "hsetnx":
		c := &HSet{Key: key, OnlyNew: word == "hsetnx"}
		for i := 0; i+1 < len(fields); i += 2 {
			c.Fields = append(c.Fields, FieldValue{fields[i], fields[i+1]})
		}
		return c
	case "hget":
		return &HGet{Key: key, Field: fields[0]}
	case "hmget":
		return &HMGet{Key: key, Fields: fields}
	case "hdel":
		return &HDel{Key: key, Fields: fields}
	case "hgetall":
		return &HGetAll{Key: key}
	case "hlen":
		return &HLen{Key: key}
	case "hexists":
		return &HExists{Key: key, Field: fields[0]}
	case "hstrlen":
		return &HStrlen{Key: key, Field: fields[0]}
	case "hincrby":
		n, err := strconv.ParseInt(args[2], 10, 64)
		if err != nil {
			panic(err)
		}
		return &HIncrBy{Key: key, Field: fields[0], Delta: n}
	case "hincrbyfloat":
		return &HIncrByFloat{Key: key, Field: fields[0], Delta: fields[1]}
	}
	panic("no such command: " + word)
}

// splitWords cuts a line at spaces; a word in quotes is Go's.
func splitWords(line string) (words []string) {
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		word, rest, _ := strings.Cut(line, " ")
		if quoted, err := strconv.QuotedPrefix(line); err == nil {
			word, _ = strconv.Unquote(quoted)
			rest = line[len(quoted):]
		}
		words, line = append(words, word), rest
	}
	return words
}

// formatReply is a reply in the words of the scripts.
func formatReply(r Reply) string {
	switch r.Kind {
	case Nil:
		return "nil"
	case OK:
		return "OK"
	case Int:
		return strconv.FormatInt(r.Int, 10)
	case Bytes:
		return strconv.Quote(string(r.Bytes))
	case Items:
		var words []string
		for _, item := range r.Items {
			value := "nil"
			if item.Found {
				value = strconv.Quote(string(item.Value))
			}
			words = append(words, fmt.Sprintf("%q=%s", item.Field, value))
		}
		return "[" + strings.Join(words, " ") + "]"
	}
	names := map[string]error{
		"ErrWrongType": ErrWrongType, "ErrNotInteger": ErrNotInteger, "ErrNotFloat": ErrNotFloat, "ErrOverflow": ErrOverflow,
		"ErrConflict": ErrConflict, "ErrTooLarge": ErrTooLarge, "ErrSyntax": ErrSyntax, "ErrRow": ErrRow,
	}
	for name, err := range names {
		if errors.Is(r.Err, err) {
			return name
		}
	}
	return fmt.Sprint(r.Err)
}
