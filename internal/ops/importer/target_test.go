package importer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/storage/wal"
)

// fakeRedis is a server with strings, or with hashes, each command of which can be refused.
type fakeRedis struct {
	addr string
	mu   sync.Mutex
	rows map[string]string // of a hash the names of its fields, one after the other
	// expiring has the keys that were given a lifetime and have not expired.
	expiring map[string]bool
	// hashPages is in how many a source gives each of its hashes; 0 if it has strings.
	hashPages int
	// pttl is what a source says of the lifetime of each of its keys.
	pttl int
	// queue is what came since MULTI; nil outside of one.
	queue [][]string
	// restarts is how often it was started anew.
	restarts int
	// refuse is what a command is answered with; "" if it is executed.
	refuse func(words []string) string
}

func newFakeRedis(t *testing.T) *fakeRedis {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	f := &fakeRedis{addr: l.Addr().String(), rows: map[string]string{}, expiring: map[string]bool{}, pttl: -1}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f.serveConn(c)
		}
	}()
	return f
}

// serveConn answers until the client leaves.
func (f *fakeRedis) serveConn(c net.Conn) {
	defer c.Close()
	for in := bufio.NewReader(c); ; {
		words, err := readRequest(in)
		if err != nil {
			return
		}
		if _, err := io.WriteString(c, f.handleRequest(words)); err != nil {
			return
		}
	}
}

// readRequest reads an array of texts.
func readRequest(in *bufio.Reader) (words []string, err error) {
	number := func() (n int) {
		var line string
		if line, err = in.ReadString('\n'); err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(line[1:]))
		}
		return n
	}
	for n := number(); err == nil && len(words) < n; {
		word := make([]byte, number()+2)
		if err == nil {
			_, err = io.ReadFull(in, word)
		}
		words = append(words, string(word[:len(word)-2]))
	}
	return words, err
}

func formatBulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

// handleRequest executes a command, or keeps it for EXEC.
func (f *fakeRedis) handleRequest(words []string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case words[0] == "MULTI":
		f.queue = [][]string{}
		return "+OK\r\n"
	case words[0] == "EXEC":
		all := fmt.Sprintf("*%d\r\n", len(f.queue))
		for _, words := range f.queue {
			all += f.executeCommand(words)
		}
		f.queue = nil
		return all
	case f.queue != nil:
		f.queue = append(f.queue, words)
		return "+QUEUED\r\n"
	}
	return f.executeCommand(words)
}

// executeCommand executes a command. The caller has the lock.
func (f *fakeRedis) executeCommand(words []string) string {
	if f.refuse != nil {
		if why := f.refuse(words); why != "" {
			return "-" + why + "\r\n"
		}
	}
	switch strings.ToUpper(words[0]) {
	case "PING":
		return "+PONG\r\n"
	case "INFO":
		return formatBulk(fmt.Sprintf("run_id:%s-%d\r\n", f.addr, f.restarts))
	case "DBSIZE":
		return fmt.Sprintf(":%d\r\n", len(f.rows))
	case "SCAN": // a cursor is the number of a page: of two keys, k0 and so on
		page, _ := strconv.Atoi(words[1])
		next := page + 1
		if 2*next >= len(f.rows) {
			next = 0
		}
		return fmt.Sprintf("*2\r\n%s*2\r\n%s%s", formatBulk(strconv.Itoa(next)), formatBulk(fmt.Sprint("k", 2*page)), formatBulk(fmt.Sprint("k", 2*page+1)))
	case "TYPE":
		if f.hashPages > 0 {
			return "+hash\r\n"
		}
		return "+string\r\n"
	case "PTTL":
		return fmt.Sprintf(":%d\r\n", f.pttl)
	case "HLEN":
		return fmt.Sprintf(":%d\r\n", f.hashPages*smallHashFields)
	case "HSCAN": // a cursor is the number of a piece: of one field, f0 and so on
		piece, _ := strconv.Atoi(words[2])
		return fmt.Sprintf("*2\r\n%s*2\r\n%s%s", formatBulk(strconv.Itoa((piece+1)%f.hashPages)), formatBulk(fmt.Sprint("f", piece)), formatBulk("v"))
	case "STRLEN":
		return fmt.Sprintf(":%d\r\n", len(f.rows[words[1]]))
	case "GET":
		return formatBulk(f.rows[words[1]])
	case "SET":
		f.rows[words[1]] = words[2]
		return "+OK\r\n"
	case "DEL":
		f.deleteKey(words[1])
		return ":1\r\n"
	case "HSET":
		f.rows[words[1]] += words[2]
		return ":1\r\n"
	case "PEXPIRE":
		f.expiring[words[1]] = f.rows[words[1]] != ""
		return ":1\r\n"
	}
	return "-ERR unknown command\r\n"
}

// deleteKey removes a key. The caller has the lock.
func (f *fakeRedis) deleteKey(key string) {
	delete(f.rows, key)
	delete(f.expiring, key)
}

// setRefusal sets what the next commands are refused with.
func (f *fakeRedis) setRefusal(with func(words []string) string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = with
}

// newFakePair are a source of ten keys and a target, with an import from one to the other.
func newFakePair(t *testing.T) (source, target *fakeRedis, o Options) {
	t.Helper()
	source, target = newFakeRedis(t), newFakeRedis(t)
	for i := range 10 {
		source.rows[fmt.Sprint("k", i)] = fmt.Sprint("v", i)
	}
	o.State = filepath.Join(t.TempDir(), "state.json")
	for p, f := range map[*Endpoint]*fakeRedis{&o.Source: source, &o.Target: target} {
		var err error
		if *p, err = ParseEndpoint(f.addr); err != nil {
			t.Fatal(err)
		}
	}
	return source, target, o
}

// isSetOf reports whether a command writes a key, any if it is "".
func isSetOf(words []string, key string) bool {
	return words[0] == "SET" && (key == "" || words[1] == key)
}

func TestAnImportStopsAtATargetThatRefusesEverythingAndGoesOnLater(t *testing.T) {
	for why, do := range map[string]string{
		"ERR wal: disk is full":   "make room on its disk",
		"ERR the disk is full":    "make room on its disk",
		"ERR wal: log has failed": "see what is wrong with it",
		"ERR group: closed":       "see what is wrong with it",
		"OOM command not allowed when used memory > 'maxmemory'.":             "raise its maxmemory",
		"READONLY You can't write against a read only replica.":               "a server that takes writes",
		"NOPERM this user has no permissions":                                 "a user who may write",
		"ERR wal: no more files can be opened: raise the limit on open files": "no more files",
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel() // the client tries some of them again
			_, target, o := newFakePair(t)
			full := false
			target.setRefusal(func(words []string) string {
				if full = full || isSetOf(words, "k5"); full && isSetOf(words, "") {
					return why
				}
				return ""
			})
			r, err := Run(context.Background(), o)
			if err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), do) || !strings.Contains(err.Error(), `"k5"`) {
				t.Fatalf("it ends with %v", err)
			}
			if r.Failed > 0 || r.Complete {
				t.Errorf("the report is %+v", r)
			}
			target.setRefusal(nil)
			r, err = Run(context.Background(), o)
			if err != nil || !r.Resumed || !r.Complete || r.Strings != 10 || r.Failed > 0 || len(target.rows) != 10 {
				t.Errorf("with room it ends with %v, %d keys, %+v", err, len(target.rows), r)
			}
		})
	}
}

func TestAnImportWaitsForATargetThatHasTooMuchToDo(t *testing.T) {
	_, target, o := newFakePair(t)
	times := 0
	target.setRefusal(func(words []string) string {
		if isSetOf(words, "k5") && times < 5 {
			times++
			return "ERR group: overloaded: 9 commands wait: slow down"
		}
		return ""
	})
	r, err := Run(context.Background(), o)
	if err != nil || !r.Complete || r.Strings != 10 || r.Failed > 0 || r.Resumed || len(target.rows) != 10 {
		t.Errorf("it ends with %v, %d keys, %+v", err, len(target.rows), r)
	}
}

func TestAnImportDoesNotWaitForEver(t *testing.T) {
	_, target, o := newFakePair(t)
	o.retryTimeout = 100 * time.Millisecond
	target.setRefusal(func(words []string) string {
		if isSetOf(words, "k5") {
			return "ERR group: overloaded"
		}
		return ""
	})
	r, err := Run(context.Background(), o)
	if err == nil || !strings.Contains(err.Error(), "wait until it has less to do") || r.Failed > 0 || r.Complete {
		t.Errorf("it ends with %v, %+v", err, r)
	}
}

func TestAKeyThatIsRefusedByItselfIsLeftOut(t *testing.T) {
	_, target, o := newFakePair(t)
	target.setRefusal(func(words []string) string {
		if isSetOf(words, "k5") {
			return "ERR too large: key of 20000 bytes, at most 16384: split it up"
		}
		return ""
	})
	r, err := Run(context.Background(), o)
	if err != nil || !r.Complete || r.Strings != 9 || r.Failed != 1 || len(target.rows) != 9 {
		t.Errorf("it ends with %v, %d keys, %+v", err, len(target.rows), r)
	}
}

func TestFaultsOfKeysAreToldFromThoseOfTheTargetAsTheServerSpellsThem(t *testing.T) {
	for err, one := range map[error]bool{
		command.ErrWrongType:                     true,
		&command.LimitError{What: "key"}:         true,
		&command.LimitError{What: "field"}:       true,
		&command.LimitError{What: "value"}:       true,
		&command.LimitError{What: "transaction"}: true,
		wal.ErrDiskFull:                          false,
		wal.ErrNoFiles:                           false,
		wal.ErrFailed:                            false,
		wal.ErrClosed:                            false,
		wal.ErrUnknown:                           false,
	} {
		if said := redis.Error(redis.FormatError(err)); isKeyError(said) != one {
			t.Errorf("%v is a fault of a key: %v", said, !one)
		}
	}
	full := fmt.Errorf("%w: 7 bytes are free", wal.ErrDiskFull)
	if err := newRefusalError(&item{key: "k"}, redis.Error(redis.FormatError(full))); !strings.Contains(err.Error(), "make room") {
		t.Errorf("a full disk is told as %v", err)
	}
}

// Clients connect again by themselves to a server that was started anew while the import runs.
// A target may have lost what it had taken, and the cursors of a source are of another walk.
func TestAnImportInWhichOneOfBothIsStartedAnewIsNotComplete(t *testing.T) {
	for _, restarted := range []string{"source", "target"} {
		t.Run(restarted, func(t *testing.T) {
			source, target, o := newFakePair(t)
			f := map[string]*fakeRedis{"source": source, "target": target}[restarted]
			o.Progress = func(Report) {
				f.mu.Lock()
				defer f.mu.Unlock()
				if f.restarts++; f.restarts == 1 && restarted == "target" {
					clear(f.rows)
				}
			}
			r, err := Run(context.Background(), o)
			if !errors.Is(err, ErrRestarted) || !strings.Contains(err.Error(), restarted) || r.Complete {
				t.Fatalf("it is complete: %v, %v", r.Complete, err)
			}
			o.Progress = nil
			r, err = Run(context.Background(), o)
			if err != nil || !r.Complete || r.Resumed || len(target.rows) != len(source.rows) {
				t.Errorf("the next one: %v, complete %v, resumed %v, %d keys of %d", err, r.Complete, r.Resumed, len(target.rows), len(source.rows))
			}
		})
	}
}

// isFieldWrite reports whether a command writes a piece of a hash.
func isFieldWrite(words []string, key, field string) bool {
	return words[0] == "HSET" && words[1] == key && words[2] == field
}

// A later piece makes the hash anew if what came before it is not there.
func TestNoPieceOfAHashOutlivesIt(t *testing.T) {
	for _, c := range []struct {
		name   string
		meet   func(target *fakeRedis, words []string) string
		hashes int64
		left   string
	}{
		{"comes with its lifetime in one step", func(target *fakeRedis, words []string) string {
			if words[0] == "HSET" && target.queue == nil {
				return "ERR outside of MULTI"
			}
			return ""
		}, 10, "f0f1f2f3"},
		{"expires between its pieces", func(target *fakeRedis, words []string) string {
			if isFieldWrite(words, "k5", "f2") {
				target.deleteKey("k5")
			}
			return ""
		}, 10, "f2f3"},
		{"its first piece is refused", func(_ *fakeRedis, words []string) string {
			if isFieldWrite(words, "k5", "f0") {
				return "ERR too large: value of 70000000 bytes"
			}
			return ""
		}, 9, "f1f2f3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			source, target, o := newFakePair(t)
			source.hashPages, source.pttl = 4, 3_600_000
			target.setRefusal(func(words []string) string { return c.meet(target, words) })
			r, err := Run(context.Background(), o)
			if err != nil || !r.Complete || r.Hashes != c.hashes || r.Failed != 10-c.hashes || r.Gone > 0 {
				t.Errorf("it ends with %v, %+v", err, r)
			}
			if target.rows["k5"] != c.left {
				t.Errorf("it has the fields %s", target.rows["k5"])
			}
			for k := range target.rows {
				if !target.expiring[k] {
					t.Errorf("%s lives for ever", k)
				}
			}
		})
	}
}

func TestARefusalOfALaterPieceIsNoticed(t *testing.T) {
	for why, c := range map[string]struct{ times, hashes, failed int64 }{
		"ERR too large: value of 70000000 bytes": {times: 1, hashes: 9, failed: 1},
		"ERR group: overloaded":                  {times: 3, hashes: 10},
	} {
		source, target, o := newFakePair(t)
		source.hashPages, source.pttl = 4, 3_600_000
		times := int64(0)
		target.setRefusal(func(words []string) string {
			if !isFieldWrite(words, "k5", "f2") || times == c.times {
				return ""
			}
			times++
			return why
		})
		r, err := Run(context.Background(), o)
		if err != nil || !r.Complete || r.Hashes != c.hashes || r.Failed != c.failed || times != c.times {
			t.Errorf("%s, %d times: it ends with %v, %+v", why, times, err, r)
		}
		if whole := target.rows["k5"] == "f0f1f2f3"; whole != (c.failed == 0) || !target.expiring["k5"] {
			t.Errorf("%s: it has the fields %s, and expires: %v", why, target.rows["k5"], target.expiring["k5"])
		}
	}
}

// Redis says 0 of a key in its last millisecond.
func TestAKeyInItsLastMillisecondIsGone(t *testing.T) {
	for _, pieces := range []int{0, 4} {
		source, target, o := newFakePair(t)
		source.hashPages, source.pttl = pieces, 0
		r, err := Run(context.Background(), o)
		if err != nil || !r.Complete || r.Gone != 10 || r.Strings+r.Hashes > 0 || len(target.rows) > 0 {
			t.Errorf("in %d pieces: it ends with %v, %d keys, %+v", pieces, err, len(target.rows), r)
		}
	}
}

// A thousand years are more than a Duration holds.
func TestLongLivesAreCopied(t *testing.T) {
	const ms = 1000 * 365 * 24 * 3_600_000
	for _, pieces := range []int{0, 4} {
		source, target, o := newFakePair(t)
		source.hashPages, source.pttl = pieces, ms
		lives := 0
		target.setRefusal(func(words []string) string {
			if last := words[len(words)-1]; words[0] == "PEXPIRE" || words[0] == "SET" {
				if got, err := strconv.Atoi(last); err != nil || got > ms || got < ms-600_000 {
					t.Errorf("%q", words)
				}
				lives++
			}
			return ""
		})
		r, err := Run(context.Background(), o)
		if err != nil || !r.Complete || lives < 10 {
			t.Errorf("in %d pieces: it ends with %v, %d lives, %+v", pieces, err, lives, r)
		}
	}
}
