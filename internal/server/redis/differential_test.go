package redis

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/server/resp"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/testkit/tally"
	"github.com/cleavekv/cleave/partition"
)

// memoryStore is a Reader: the smallest thing that keeps rows in order.
type memoryStore map[string]string

func (s memoryStore) Get(key, dst []byte) ([]byte, bool, error) {
	value, ok := s[string(key)]
	return append(dst, value...), ok, nil
}

func (s memoryStore) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	keys := slices.Sorted(maps.Keys(s))
	if reverse {
		slices.Reverse(keys)
	}
	for _, key := range keys {
		if key >= string(start) && key < string(end) && !visit([]byte(key), []byte(s[key])) {
			return nil
		}
	}
	return nil
}

// testUnit is a KeyspaceView over a map, which commits after each request.
type testUnit struct {
	rows        memoryStore
	env         *command.Env
	nextVersion uint64
	keyspace    partition.Keyspace
}

func newTestUnit() *testUnit {
	l := &testUnit{rows: memoryStore{}, nextVersion: 1, keyspace: partition.Keyspace{ID: 1, Kind: partition.Range}}
	l.env = command.NewEnv(l.rows)
	return l
}

func (l *testUnit) PositionOf(key []byte) partition.Position {
	return l.keyspace.AppendPosition(nil, key)
}

func (l *testUnit) IsSelected(name []byte) bool { return string(name) == "0" }

func (l *testUnit) Read(_ partition.Position, c command.Command) command.Reply  { return l.env.Do(c) }
func (l *testUnit) Write(_ partition.Position, c command.Command) command.Reply { return l.env.Do(c) }

func (l *testUnit) NowMS() int64 { return l.env.NowMS() }

// sendRequest executes a request and returns its reply.
func (l *testUnit) sendRequest(t *testing.T, words ...string) string {
	var args [][]byte
	for _, w := range words {
		args = append(args, []byte(w))
	}
	w := Writer{Version: resp.RESP2}
	spec, err := LookupRequest(args)
	if err == nil {
		err = spec.CheckArity(args)
	}
	if err != nil {
		w.Fail(err)
		return string(w.Bytes)
	}
	l.env.Begin(effect.Header{ClockMS: time.Now().UnixMilli()}, l.nextVersion)
	spec.Run(l, &Request{spec, args}, &w)
	l.nextVersion = l.env.NextVersion()
	batch, err := effect.Parse(bytes.Clone(l.env.Effects().Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range batch.All() {
		if op.Delete {
			delete(l.rows, string(op.Key))
		} else {
			l.rows[string(op.Key)] = string(op.Value)
		}
	}
	return string(w.Bytes)
}

// redisServer is a Redis server.
type redisServer struct {
	conn net.Conn
	in   *bufio.Reader
}

func startRedis(t *testing.T) *redisServer {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("there is no redis-server to compare with")
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(path, "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for range 500 {
		if conn, err := net.Dial("unix", socket); err == nil {
			return &redisServer{conn, bufio.NewReader(conn)}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("redis-server does not listen")
	return nil
}

func (o *redisServer) sendRequest(t *testing.T, words ...string) string {
	b := resp.AppendArray(nil, len(words))
	for _, w := range words {
		b = resp.AppendBulk(b, w)
	}
	if _, err := o.conn.Write(b); err != nil {
		t.Fatal(err)
	}
	return o.readReply(t)
}

func (o *redisServer) readReply(t *testing.T) string {
	line, err := o.in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	switch {
	case line[0] == '$' && n >= 0:
		rest := make([]byte, n+2)
		if _, err := io.ReadFull(o.in, rest); err != nil {
			t.Fatal(err)
		}
		return line + string(rest)
	case line[0] == '*':
		for range n {
			line += o.readReply(t)
		}
	}
	return line
}

// drawRequest draws a request of a command at random, mostly a sensible one.
func drawRequest(rng *rand.Rand, s *Spec) []string {
	one := func(words ...string) string { return words[rng.IntN(len(words))] }
	key := func() string { return one("a", "b", "c", "h", "{t}x") }
	value := func() string {
		return one("", "0", "1", "-1", "7", "10", "abc", "xyz", "3.5", "-2.25e2", "1e400", "nan", " 1", "01", "9223372036854775807", "-9223372036854775808",
			"9223372036854775808", "\xff\x00\x0f", strings.Repeat("ab", 20), "hello world")
	}
	number := func() string {
		return one("0", "1", "-1", "2", "5", "8", "12", "-3", "100", "x", "9223372036854775807", "-9223372036854775808", "")
	}
	// Redis saturates numbers near the smallest of 64 bits to the largest of a field.
	small := func() string { return strings.Replace(number(), "-9223372036854775808", "-9000000000000000000", 1) }
	option := func() string {
		return one("NX", "xx", "GET", "KEEPTTL", "EX", "PX", "EXAT", "PXAT", "PERSIST", "GT", "LT", "100", "100000", "0", "-5", "99999999999", "BIT", "BYTE", "foo")
	}
	words := strings.Split(one(s.Name, strings.ToUpper(s.Name)), "|")
	n := s.Arity
	if n < 0 {
		n = -n + rng.IntN(4)
	}
	if rng.IntN(20) == 0 {
		n = max(1, n-1+rng.IntN(3))
	}
	if s.Name == "bitop" {
		words = append(words, one("AND", "or", "XOR", "NOT", "NAND"))
	}
	if strings.HasPrefix(s.Name, "bitfield") {
		words = append(words, key())
		for len(words) < 8 && rng.IntN(3) > 0 {
			switch rng.IntN(5) {
			case 0:
				words = append(words, "OVERFLOW", one("WRAP", "SAT", "FAIL", "x"))
			case 1:
				words = append(words, "GET", one("u8", "i8", "i64", "u63", "u64", "u0", "i3"), one("0", "5", "#1", "#2", "-1", "100"))
			default:
				words = append(words, one("SET", "INCRBY"), one("u8", "i8", "i64", "u63", "i3", "u2"), one("0", "5", "#1", "#2", "100"), small())
			}
		}
		return words
	}
	hash := s.ACL&HashType != 0
	for len(words) < n {
		i := len(words)
		switch {
		case i == s.Keys.First || s.Keys.Last < 0 && i > s.Keys.First && (i-s.Keys.First)%s.Keys.Step == 0:
			if hash {
				words = append(words, one("h", "h", "h", "a"))
			} else {
				words = append(words, key())
			}
		case hash && i%2 == 0:
			words = append(words, one("f", "g", "", "field"))
		case rng.IntN(3) == 0:
			words = append(words, number())
		case i > 2 && s.Name != "mset" && s.Name != "msetnx" && rng.IntN(2) == 0:
			words = append(words, option())
		default:
			words = append(words, value())
		}
	}
	return words
}

// extendTimes makes times that are short long: the two servers do not look at their clocks
// at once.
func extendTimes(words []string) []string {
	inMS := false
	for i, w := range words {
		switch n, err := strconv.Atoi(w); {
		case strings.EqualFold(w, "PX"), strings.EqualFold(w, "PEXPIRE"), strings.EqualFold(w, "PSETEX"), strings.EqualFold(w, "EX"), strings.EqualFold(w, "EXPIRE"), strings.EqualFold(w, "SETEX"):
			inMS = true
		case inMS && err == nil && 0 < n && n < 1000:
			words[i] = "100000"
		}
	}
	return words
}

// normalizeReply makes replies comparable that may differ: fields of a hash come in any order, and
// what is left of a time changes.
func normalizeReply(name, reply string) string {
	switch name {
	case "hgetall", "hkeys", "hvals":
		lines := strings.Split(reply, "\r\n")
		slices.Sort(lines)
		return strings.Join(lines, "\r\n")
	case "pttl", "pexpiretime", "ttl", "expiretime":
		if n, err := strconv.Atoi(strings.TrimSpace(reply[1:])); err == nil && n > 0 {
			return fmt.Sprint("about ", (n+50)/1000)
		}
	}
	return reply
}

// ownAnswers are the commands whose answers are not those of Redis: by chance, or by design.
var ownAnswers = map[string]bool{
	"dump": true, "restore": true, "hrandfield": true, "memory|usage": true, "object|encoding": true, "object|idletime": true, "object|refcount": true,
}

// Whatever is asked, the answer is that of Redis.
func TestAnswersAreThoseOfRedis(t *testing.T) {
	redis := startRedis(t)
	seed := tally.Seed(t, "./internal/server/redis")
	rng := rand.New(rand.NewPCG(seed, 0))
	var specs []*Spec
	for _, s := range AllSpecs() {
		if s.RunsOnView() && !ownAnswers[s.Name] {
			specs = append(specs, s)
		}
	}
	bad := 0
	for round := range 200 {
		redis.sendRequest(t, "FLUSHALL")
		l := newTestUnit()
		var said []string
		for range 60 {
			words := extendTimes(drawRequest(rng, specs[rng.IntN(len(specs))]))
			want, got := redis.sendRequest(t, words...), l.sendRequest(t, words...)
			name := strings.ToLower(words[0])
			said = append(said, fmt.Sprintf("%q", words))
			if normalizeReply(name, want) != normalizeReply(name, got) {
				t.Errorf("seed %d, round %d: %q\n redis: %q\n ours:  %q\n after %s", seed, round, words, want, got, strings.Join(said[max(0, len(said)-6):], "\n       "))
				if bad++; bad > 25 {
					t.FailNow()
				}
				break
			}
		}
	}
}

// What a random run has found stays asked.
func TestAnswersThatOnceDifferedAreThoseOfRedis(t *testing.T) {
	redis, l := startRedis(t), newTestUnit()
	for _, line := range []string{
		"BITFIELD a OVERFLOW SAT SET u63 100 -9000000000000000000",
		"BITFIELD a OVERFLOW SAT SET u8 0 -1 OVERFLOW FAIL SET u8 8 -1 OVERFLOW WRAP SET u8 16 -2",
		"GET a",
		"SET b 12", "BITPOS b 1 -3 -9", "BITPOS b 1 -1 -2", "BITCOUNT b -3 -9", "GETRANGE b -3 -9",
	} {
		words := strings.Fields(line)
		if want, got := redis.sendRequest(t, words...), l.sendRequest(t, words...); want != got {
			t.Errorf("%s\n redis: %q\n ours:  %q", line, want, got)
		}
	}
}
