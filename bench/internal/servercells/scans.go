package servercells

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// Redis has no order of keys. As in YCSB's own program for it, a sorted set has the names,
// and a scan asks that first and then for the values. Ours is a keyspace with an order.
const (
	nameSet = "names"
	ordered = "ordered"
)

// order makes a server ready for scans, and writes the keys.
func (s *server) order(cfg Config) error {
	if s.name == Ours {
		out, err := exec.Command(s.Path, "keyspace", "create", ordered, "--range", "--addr", "127.0.0.1:"+s.http,
			"--token-file", filepath.Join(s.Dir, "data", "http-token")).CombinedOutput()
		if err != nil {
			return fmt.Errorf("create a keyspace: %w: %s", err, out)
		}
	}
	w, err := s.scanner()
	if err != nil {
		return err
	}
	defer w.Close()
	for k := 0; k < cfg.Keys; {
		answers := 0
		for ; k < cfg.Keys && answers < 1000; k++ {
			answers += s.insertOrdered(w, keysOf{}.key(nil, k))
		}
		if err := w.exchange(answers); err != nil {
			return err
		}
	}
	return nil
}

// scanner is a connection to where the order is.
func (s *server) scanner() (*wire, error) {
	w, err := dial(s.Port, respSpeech{})
	if err != nil || s.name != Ours {
		return w, err
	}
	w.out = request(w.out, "SELECT", ordered)
	return w, w.exchange(1)
}

// insertOrdered appends the requests that insert a key, and returns how many they are.
func (s *server) insertOrdered(w *wire, key []byte) (answers int) {
	w.out = w.write(w.out, key)
	if s.name == Ours {
		return 1
	}
	w.out = request(w.out, "ZADD", nameSet, "0", string(key))
	return 2
}

// scan reads some rows from a key on.
func (s *server) scan(w *wire, key []byte, rows int) error {
	if s.name == Ours {
		w.out = request(w.out, "CLEAVE.RANGE", "["+string(key), "+", "LIMIT", strconv.Itoa(rows), "WITHVALUES")
		return w.exchange(1)
	}
	if _, err := w.Write(request(nil, "ZRANGEBYLEX", nameSet, "["+string(key), "+", "LIMIT", "0", strconv.Itoa(rows))); err != nil {
		return err
	}
	names, err := reply(w.in, []string{"MGET"})
	if err != nil || len(names) == 1 {
		return err
	}
	w.out = request(w.out, names...)
	return w.exchange(1)
}

// scanOne does one operation of a mix with scans.
func (s *server) scanOne(m *mix, w *wire, r *rand.Rand, keys keysOf) (time.Duration, error) {
	began := time.Now()
	if r.IntN(100) < m.inserts {
		k := keys.census.next()
		err := w.exchange(s.insertOrdered(w, keys.key(nil, k)))
		took := time.Since(began)
		keys.census.inserted([]int{k})
		return took, err
	}
	err := s.scan(w, keys.key(nil, keys.choose(r, false)), 1+r.IntN(scanRows))
	return time.Since(began), err
}
