package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/config"
)

// write puts a text into a file of a new directory.
func write(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfigCheckTellsPlacesAndExits2(t *testing.T) {
	bad := write(t, "bad.toml", "timeout = 1\nmaxclient = 2\nstorage = 'tape'\n")
	code, stdout, stderr := exec("config", "check", bad)
	want := bad + ":2:1: unknown setting \"maxclient\": did you mean \"maxclients\"?\n" + bad + ":3:1: storage: \"tape\": want disk or memory\n"
	if code != exitUsage || stdout != want || stderr != "" {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	good := write(t, "good.toml", "timeout = 1\n")
	if code, stdout, _ := exec("config", "check", good); code != exitOK || stdout != good+": no mistakes\n" {
		t.Errorf("exit %d, %q", code, stdout)
	}
	for args, want := range map[string]string{
		"config check":           "config check needs FILE",
		"config check a b":       "takes one FILE",
		"config check /nowhere":  "/nowhere",
		"config chek":            `did you mean "check"?`,
		"config example nothing": "takes no arguments",
	} {
		if code, _, stderr := exec(strings.Fields(args)...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("cleave %s: exit %d, %q", args, code, stderr)
		}
	}
}

func TestTheExampleFileHasEverySettingWithItsDefault(t *testing.T) {
	const path = "../../packaging/cleave.toml"
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(file) != config.Example() {
		t.Error("packaging/cleave.toml is not what cleave config example prints: write it anew")
	}
	if code, stdout, stderr := exec("config", "check", path); code != exitOK {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
}

// eventually waits for something that another process does. It fails only if it has not
// come about after a minute.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 6000 {
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

func TestSIGHUPTakesWhatCanChangeAndNamesTheRest(t *testing.T) {
	file := write(t, "c.toml", "storage = 'memory'\ntimeout = 10\ngroups = 2\nslowlog-max-len = 7\n")
	p := serving(t, "--config", file, "--slowlog-max-len", "9")
	c := client(p.addr)
	defer c.Close()
	setting := func(name string) string { return c.ConfigGet(ctx, name).Val()[name] }
	if setting("timeout") != "10" || setting("slowlog-max-len") != "9" {
		t.Fatalf("timeout %s, slowlog-max-len %s", setting("timeout"), setting("slowlog-max-len"))
	}
	if err := c.ConfigSet(ctx, "slowlog-log-slower-than", "5").Err(); err != nil {
		t.Fatal(err)
	}
	hup := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := p.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	hup("storage = 'memory'\ntimeout = 20\ngroups = 3\nslowlog-max-len = 8\n")
	eventually(t, "timeout 20", func() bool { return setting("timeout") == "20" })
	if setting("slowlog-log-slower-than") != "5" || setting("slowlog-max-len") != "9" {
		t.Error("what a client has set, or a flag, was lost")
	}
	says := func(want string) {
		t.Helper()
		eventually(t, "it says "+want, func() bool { return strings.Contains(p.plain.String(), want) })
	}
	says("now in effect: timeout; waiting for a restart: groups")
	hup("timeout = 30\nnonsense = 1\n")
	says("nothing is changed:\n" + file + ":2:1: unknown setting")
	hup("timeout = 40\nstorage = 'memory'\ngroups = 3\n")
	eventually(t, "timeout 40", func() bool { return setting("timeout") == "40" })
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v: %s", err, p.plain.String())
	}
}

func TestTheServiceManagerIsTold(t *testing.T) {
	dir, err := os.MkdirTemp("", "n") // short: names of sockets are
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unixgram"})
	if err != nil {
		t.Skip(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", socket.LocalAddr().String())
	p := serving(t, "--storage", "memory")
	told := func() string {
		b := make([]byte, 100)
		_ = socket.SetReadDeadline(time.Now().Add(time.Minute))
		n, err := socket.Read(b)
		if err != nil {
			return fmt.Sprint(err)
		}
		return string(b[:n])
	}
	if got := told(); got != "READY=1" {
		t.Errorf("told %q", got)
	}
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v: %s", err, p.plain.String())
	}
	if got := told(); got != "STOPPING=1" {
		t.Errorf("told %q", got)
	}
}
