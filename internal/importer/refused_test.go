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

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/redis"
	"github.com/cleavekv/cleave/internal/wal"
)

// fake is a server with strings, or with hashes, each command of which can be refused.
type fake struct {
	addr string
	mu   sync.Mutex
	rows map[string]string // of a hash the names of its fields, one after the other
	// dated has the keys that were given a lifetime and have not expired.
	dated map[string]bool
	// pieces is in how many a source gives each of its hashes; 0 if it has strings.
	pieces int
	// pttl is what a source says of the lifetime of each of its keys.
	pttl int
	// queue is what came since MULTI; nil outside of one.
	queue [][]string
	// starts is how often it was started anew.
	starts int
	// refuse is what a command is answered with; "" if it is executed.
	refuse func(words []string) string
}

func newFake(t *testing.T) *fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	f := &fake{addr: l.Addr().String(), rows: map[string]string{}, dated: map[string]bool{}, pttl: -1}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f.serve(c)
		}
	}()
	return f
}

// serve answers until the client leaves.
func (f *fake) serve(c net.Conn) {
	defer c.Close()
	for in := bufio.NewReader(c); ; {
		words, err := request(in)
		if err != nil {
			return
		}
		if _, err := io.WriteString(c, f.answer(words)); err != nil {
			return
		}
	}
}

// request reads an array of texts.
func request(in *bufio.Reader) (words []string, err error) {
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

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

// answer executes a command, or keeps it for EXEC.
func (f *fake) answer(words []string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case words[0] == "MULTI":
		f.queue = [][]string{}
		return "+OK\r\n"
	case words[0] == "EXEC":
		all := fmt.Sprintf("*%d\r\n", len(f.queue))
		for _, words := range f.queue {
			all += f.execute(words)
		}
		f.queue = nil
		return all
	case f.queue != nil:
		f.queue = append(f.queue, words)
		return "+QUEUED\r\n"
	}
	return f.execute(words)
}

// execute executes a command. The caller has the lock.
func (f *fake) execute(words []string) string {
	if f.refuse != nil {
		if why := f.refuse(words); why != "" {
			return "-" + why + "\r\n"
		}
	}
	switch strings.ToUpper(words[0]) {
	case "PING":
		return "+PONG\r\n"
	case "INFO":
		return bulk(fmt.Sprintf("run_id:%s-%d\r\n", f.addr, f.starts))
	case "DBSIZE":
		return fmt.Sprintf(":%d\r\n", len(f.rows))
	case "SCAN": // a cursor is the number of a page: of two keys, k0 and so on
		page, _ := strconv.Atoi(words[1])
		next := page + 1
		if 2*next >= len(f.rows) {
			next = 0
		}
		return fmt.Sprintf("*2\r\n%s*2\r\n%s%s", bulk(strconv.Itoa(next)), bulk(fmt.Sprint("k", 2*page)), bulk(fmt.Sprint("k", 2*page+1)))
	case "TYPE":
		if f.pieces > 0 {
			return "+hash\r\n"
		}
		return "+string\r\n"
	case "PTTL":
		return fmt.Sprintf(":%d\r\n", f.pttl)
	case "HLEN":
		return fmt.Sprintf(":%d\r\n", f.pieces*smallHash)
	case "HSCAN": // a cursor is the number of a piece: of one field, f0 and so on
		piece, _ := strconv.Atoi(words[2])
		return fmt.Sprintf("*2\r\n%s*2\r\n%s%s", bulk(strconv.Itoa((piece+1)%f.pieces)), bulk(fmt.Sprint("f", piece)), bulk("v"))
	case "STRLEN":
		return fmt.Sprintf(":%d\r\n", len(f.rows[words[1]]))
	case "GET":
		return bulk(f.rows[words[1]])
	case "SET":
		f.rows[words[1]] = words[2]
		return "+OK\r\n"
	case "DEL":
		f.expire(words[1])
		return ":1\r\n"
	case "HSET":
		f.rows[words[1]] += words[2]
		return ":1\r\n"
	case "PEXPIRE":
		f.dated[words[1]] = f.rows[words[1]] != ""
		return ":1\r\n"
	}
	return "-ERR unknown command\r\n"
}

// expire removes a key. The caller has the lock.
func (f *fake) expire(key string) {
	delete(f.rows, key)
	delete(f.dated, key)
}

// refuses says what the next commands are refused with.
func (f *fake) refuses(with func(words []string) string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = with
}

// fakes are a source of ten keys and a target, with an import from one to the other.
func fakes(t *testing.T) (source, target *fake, o Options) {
	t.Helper()
	source, target = newFake(t), newFake(t)
	for i := range 10 {
		source.rows[fmt.Sprint("k", i)] = fmt.Sprint("v", i)
	}
	o.State = filepath.Join(t.TempDir(), "state.json")
	for p, f := range map[*Place]*fake{&o.Source: source, &o.Target: target} {
		var err error
		if *p, err = ParsePlace(f.addr); err != nil {
			t.Fatal(err)
		}
	}
	return source, target, o
}

// set tells whether a command writes a key, any if it is "".
func set(words []string, key string) bool {
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
			_, target, o := fakes(t)
			full := false
			target.refuses(func(words []string) string {
				if full = full || set(words, "k5"); full && set(words, "") {
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
			target.refuses(nil)
			r, err = Run(context.Background(), o)
			if err != nil || !r.Resumed || !r.Complete || r.Strings != 10 || r.Failed > 0 || len(target.rows) != 10 {
				t.Errorf("with room it ends with %v, %d keys, %+v", err, len(target.rows), r)
			}
		})
	}
}

func TestAnImportWaitsForATargetThatHasTooMuchToDo(t *testing.T) {
	_, target, o := fakes(t)
	times := 0
	target.refuses(func(words []string) string {
		if set(words, "k5") && times < 5 {
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
	_, target, o := fakes(t)
	o.patience = 100 * time.Millisecond
	target.refuses(func(words []string) string {
		if set(words, "k5") {
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
	_, target, o := fakes(t)
	target.refuses(func(words []string) string {
		if set(words, "k5") {
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
		if said := redis.Error(redis.Text(err)); ofKey(said) != one {
			t.Errorf("%v is a fault of a key: %v", said, !one)
		}
	}
	full := fmt.Errorf("%w: 7 bytes are free", wal.ErrDiskFull)
	if err := refused(&item{key: "k"}, redis.Error(redis.Text(full))); !strings.Contains(err.Error(), "make room") {
		t.Errorf("a full disk is told as %v", err)
	}
}

// Clients connect again by themselves to a server that was started anew while the import runs.
// A target may have lost what it had taken, and the cursors of a source are of another walk.
func TestAnImportInWhichOneOfBothIsStartedAnewIsNotComplete(t *testing.T) {
	for _, restarted := range []string{"source", "target"} {
		t.Run(restarted, func(t *testing.T) {
			source, target, o := fakes(t)
			f := map[string]*fake{"source": source, "target": target}[restarted]
			o.Progress = func(Report) {
				f.mu.Lock()
				defer f.mu.Unlock()
				if f.starts++; f.starts == 1 && restarted == "target" {
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
