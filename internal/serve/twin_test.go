package serve

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// answer is a reply as it was sent, but for the replies in it.
type answer struct {
	text  string
	parts []answer
}

func (a answer) String() string {
	for _, p := range a.parts {
		a.text += p.String()
	}
	return a.text
}

func readAnswer(in *bufio.Reader) (a answer, err error) {
	if a.text, err = in.ReadString('\n'); err != nil {
		return a, err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(a.text[1:]))
	switch {
	case a.text[0] == '$' && n >= 0:
		rest := make([]byte, n+2)
		_, err = io.ReadFull(in, rest)
		a.text += string(rest)
	case a.text[0] == '%':
		n *= 2
		fallthrough
	case a.text[0] == '*':
		for i := 0; i < n && err == nil; i++ {
			var p answer
			p, err = readAnswer(in)
			a.parts = append(a.parts, p)
		}
	}
	return a, err
}

// plain is an answer without what may differ: in which order a hash has its fields, and
// how often others have counted. Those of EXEC are answers to what was queued.
func (a answer) plain(words []string, queued [][]string) string {
	width := 1
	switch {
	case words[0] == "INCR" && words[1] == "shared" && a.text[0] == ':':
		return "a number"
	case words[0] == "EXEC" && len(a.parts) == len(queued):
		for i, p := range a.parts {
			a.text += p.plain(queued[i], nil)
		}
		return a.text
	case words[0] == "HGETALL":
		width = 2
	case words[0] != "HKEYS":
		return a.String()
	}
	rows := slices.Collect(slices.Chunk(a.parts, width))
	slices.SortFunc(rows, func(x, y []answer) int { return cmp.Compare(x[0].text, y[0].text) })
	return answer{a.text, slices.Concat(rows...)}.String()
}

// twin is a client of two servers, ours and Redis, that says the same to both.
type twin struct {
	draws
	ours, theirs *conn
	queued       [][]string // in MULTI
}

// step sends a pipeline to both servers, and tells where the answers differ.
func (w *twin) step() error {
	requests := w.pipeline()
	theirs, err := exchange(w.theirs, requests, 0, false)
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	ours, err := exchange(w.ours, requests, w.IntN(500), w.IntN(8) == 0)
	said := ""
	for i, words := range requests {
		said += fmt.Sprintf("%4d  %.150s\n", i, strings.Join(words, " "))
		if i == len(ours) {
			return fmt.Errorf("client %d, answer %d: %w, after\n%s", w.id, i, err, said)
		}
		if got, want := ours[i].plain(words, w.queued), theirs[i].plain(words, w.queued); got != want {
			return fmt.Errorf("client %d, answer %d: %.200q, and that of Redis is %.200q, after\n%s", w.id, i, got, want, said)
		}
		if theirs[i].text == "+QUEUED\r\n" {
			w.queued = append(w.queued, words)
		} else if ends(words) {
			w.queued = nil
		}
	}
	return err
}

// exchange sends requests at once, in two pieces, and reads the answers meanwhile.
func exchange(c *conn, requests [][]string, cut int, slowly bool) (answers []answer, err error) {
	var text []byte
	for _, words := range requests {
		text = append(text, requestOf(words...)...)
	}
	cut = min(cut, len(text))
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	sent := make(chan error, 1)
	go func() {
		_, first := c.Write(text[:cut])
		_, second := c.Write(text[cut:])
		sent <- errors.Join(first, second)
	}()
	for range requests {
		if slowly {
			time.Sleep(100 * time.Microsecond)
		}
		a, err := readAnswer(c.in)
		if err != nil {
			return answers, err
		}
		answers = append(answers, a)
	}
	return answers, <-sent
}

// dialRedis starts a Redis server, and returns what makes connections to it.
func dialRedis(t *testing.T) func() *conn {
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	cmd := exec.Command("redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", dir)
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: make deps installs it", err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	soon(t, "a Redis server that listens", func() bool {
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return func() *conn {
		c, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return &conn{t, c, bufio.NewReader(c)}
	}
}
