package server

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The replies and refusals of HOTKEYS are those of Redis 8.6.
func TestHotKeys_Session_IsThatOfRedis(t *testing.T) {
	l := startServer(t, shapes[1], Options{})
	c := l.dial()
	c.runScript(`
		HOTKEYS GET -> (nil)
		HOTKEYS STOP -> -ERR no hotkey tracking session in progress
		HOTKEYS RESET -> OK
		HOTKEYS START -> -ERR METRICS parameter is required
		HOTKEYS START METRICS 0 -> -ERR METRICS count must be 1 or 2
		HOTKEYS START METRICS 3 CPU NET -> -ERR METRICS count must be 1 or 2
		HOTKEYS START METRICS 2 CPU -> -ERR METRICS count does not match*
		HOTKEYS START METRICS 1 CPU NET -> -ERR syntax error
		HOTKEYS START METRICS 1 GPU -> -ERR METRICS no valid metrics*
		HOTKEYS START METRICS 2 CPU CPU -> -ERR METRICS CPU*
		HOTKEYS START METRICS 1 CPU COUNT 0 -> -ERR COUNT must be between 1 and 64
		HOTKEYS START METRICS 1 CPU COUNT 65 -> -ERR COUNT must be between 1 and 64
		HOTKEYS START METRICS 1 CPU SAMPLE 0 -> -ERR SAMPLE ratio must be positive*
		HOTKEYS START METRICS 1 CPU SLOTS 2 0 5 -> -ERR SLOTS parameter cannot be used in non-cluster mode
		HOTKEYS START METRICS 2 GPU NET COUNT 2 -> OK
		HOTKEYS START METRICS 1 NET -> -ERR hotkey tracking session already in progress
		HOTKEYS RESET -> -ERR hotkey tracking session in progress, stop tracking first
		SET a 12345 -> OK
		GET a -> 12345
		GET b -> (nil)
		MULTI -> OK
		SET b 1 -> QUEUED
		EXEC -> [OK]
		SET c 1 -> OK
		HOTKEYS STOP -> OK
		SET after 1 -> OK
		HOTKEYS STOP -> -ERR no hotkey tracking session in progress
	`)
	a := len(encodeRequest("SET", "a", "12345")) + len("+OK\r\n") + len(encodeRequest("GET", "a")) + len("$5\r\n12345\r\n")
	b := len(encodeRequest("GET", "b")) + len("$-1\r\n") + len(encodeRequest("SET", "b", "1")) + len("+OK\r\n")
	all := a + b + len(encodeRequest("SET", "c", "1")) + len("+OK\r\n")
	got := c.ask("HOTKEYS GET")
	for _, want := range []string{
		"[[tracking-active (0) sample-ratio (1) selected-slots [[(0) (16383)]] all-commands-all-slots-us (",
		fmt.Sprintf(" net-bytes-all-commands-all-slots (%d) collection-start-time-unix-ms (", all),
		fmt.Sprintf(" total-net-bytes (%d) by-net-bytes [a (%d) b (%d)]]]", all, a, b),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("HOTKEYS GET: %s\nlacks %s", got, want)
		}
	}
	if strings.Contains(got, "cpu") {
		t.Errorf("HOTKEYS GET has times that were not asked for: %s", got)
	}
	c.runScript("HOTKEYS RESET -> OK\nHOTKEYS GET -> (nil)")
	if l.s.observesOps.Load() {
		t.Error("operations are counted though nothing wants it")
	}
}

// What is sampled stands for all, and of selected slots alone keys are found.
func TestHotKeys_SampleAndSlots_FindTheHotKeys(t *testing.T) {
	l := startServer(t, shapes[0], Options{Cluster: true})
	c := l.dial()
	c.runScript(`
		HOTKEYS START METRICS 1 CPU SLOTS 2 0 0 -> -ERR duplicate slot number
		HOTKEYS START METRICS 1 CPU SLOTS 3 0 1 -> -ERR not enough slot numbers provided
		HOTKEYS START METRICS 1 CPU SLOTS 1 16384 -> -ERR Invalid or out of range slot
		HOTKEYS START METRICS 1 CPU SLOTS 1 0 SLOTS 1 5 -> -ERR SLOTS parameter already specified
	`)
	if got := c.ask(fmt.Sprintf("HOTKEYS START METRICS 2 CPU NET SAMPLE 10 SLOTS 4 7 6 %s 5", strings.Trim(c.ask("CLUSTER KEYSLOT {in}"), "()"))); got != "OK" {
		t.Fatal(got)
	}
	for range 20 {
		c.exchange(slices.Repeat(encodeRequest("SET", "{in}hot", "1"), 200), 200)
		c.exchange(slices.Repeat(encodeRequest("SET", "{in}warm", "1"), 20), 20)
		c.exchange(slices.Repeat(encodeRequest("SET", "{out}", "1"), 400), 400)
	}
	got := c.ask("HOTKEYS GET")
	if !strings.Contains(got, "tracking-active (1) sample-ratio (10) selected-slots [[(5) (7)] [(") || !strings.Contains(got, "sampled-commands-selected-slots-us (") ||
		strings.Contains(got, "{out}") || !strings.Contains(got, "by-net-bytes [{in}hot (") {
		t.Errorf("HOTKEYS GET: %s", got)
	}
	each := len(encodeRequest("SET", "{in}hot", "1")) + len("+OK\r\n")
	_, rest, _ := strings.Cut(got, "by-net-bytes [{in}hot (")
	digits, _, _ := strings.Cut(rest, ")")
	count, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatal(err)
	}
	if want := 4000 * each; count < want*7/10 || count > want*13/10 {
		t.Errorf("it has %d bytes, want about %d", count, want)
	}
	c.runScript("HOTKEYS STOP -> OK\nHOTKEYS RESET -> OK\nHOTKEYS START METRICS 1 CPU DURATION 1 -> OK")
	h := l.s.hotKeySession.Load()
	h.mu.Lock()
	h.startedAt = h.startedAt.Add(-1e9)
	h.mu.Unlock()
	c.ask("SET late 1")
	if got := c.ask("HOTKEYS GET"); strings.Contains(got, "late") || !strings.Contains(got, "tracking-active (0)") || !strings.Contains(got, "collection-duration-ms (1000)") {
		t.Errorf("a second later: %s", got)
	}
}

// A user sees no key that it may not read, nor the begin of one.
func TestHotKeys_RestrictedUser_SeesItsKeysAlone(t *testing.T) {
	l := startServer(t, shapes[1], Options{})
	long := "mine:" + strings.Repeat("x", 400)
	c := l.dial()
	c.runScript(`
		ACL SETUSER ann on >p ~mine:* +@all -> OK
		HOTKEYS START METRICS 2 CPU NET COUNT 2 -> OK
		SET theirs:1 123456789 -> OK
		SET theirs:2 123456789 -> OK
		SET mine:1 1 -> OK
		SET ` + long + ` 1 -> OK
	`)
	if got := c.ask("HOTKEYS GET"); !strings.Contains(got, "theirs:1") || !strings.Contains(got, "mine:xxx") {
		t.Errorf("who may read all is shown %s", got)
	}
	c.runScript("AUTH ann p -> OK")
	if got := c.ask("HOTKEYS GET"); strings.Contains(got, "theirs") || strings.Contains(got, "xxx") || strings.Count(got, "mine:1") != 2 {
		t.Errorf("a user that may read mine:* is shown %s", got)
	}
}
