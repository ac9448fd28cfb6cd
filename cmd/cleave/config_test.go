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

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/config"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// writeTempFile puts a text into a file of a new directory.
func writeTempFile(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfigCheckTellsPlacesAndExits2(t *testing.T) {
	bad := writeTempFile(t, "bad.toml", "timeout = 1\nmaxclient = 2\nstorage = 'tape'\n")
	code, stdout, stderr := runCommand("config", "check", bad)
	want := bad + ":2:1: unknown setting \"maxclient\": did you mean \"maxclients\"?\n" + bad + ":3:1: storage: \"tape\": want disk or memory\n"
	if code != exitUsage || stdout != want || stderr != "" {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	good := writeTempFile(t, "good.toml", "timeout = 1\n")
	if code, stdout, _ := runCommand("config", "check", good); code != exitOK || stdout != good+": no mistakes\n" {
		t.Errorf("exit %d, %q", code, stdout)
	}
	for args, want := range map[string]string{
		"config check":           "config check needs FILE",
		"config check a b":       "takes one FILE",
		"config check /nowhere":  "/nowhere",
		"config chek":            `did you mean "check"?`,
		"config example nothing": "takes no arguments",
	} {
		if code, _, stderr := runCommand(strings.Fields(args)...); code != exitUsage || !strings.Contains(stderr, want) {
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
	if string(file) != config.ExampleFile() {
		t.Error("packaging/cleave.toml is not what cleave config example prints: write it anew")
	}
	if code, stdout, stderr := runCommand("config", "check", path); code != exitOK {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
}

func TestSIGHUPTakesWhatCanChangeAndNamesTheRest(t *testing.T) {
	file := writeTempFile(t, "c.toml", "storage = 'memory'\ntimeout = 10\ngroups = 2\nslowlog-max-len = 7\n")
	p := startServer(t, "--config", file, "--slowlog-max-len", "9")
	c := newRedisClient(p.addr)
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
	eventually.Holds(t, "timeout 20", func() bool { return setting("timeout") == "20" })
	if setting("slowlog-log-slower-than") != "5" || setting("slowlog-max-len") != "9" {
		t.Error("what a client has set, or a flag, was lost")
	}
	says := func(want string) {
		t.Helper()
		eventually.Holds(t, "it says "+want, func() bool { return strings.Contains(p.stderrText.String(), want) })
	}
	says("msg=reloaded signal=SIGHUP in_effect=timeout waits_for_restart=groups")
	hup("timeout = 30\nnonsense = 1\n")
	says(`msg="reload refused, nothing is changed" signal=SIGHUP error="` + file + `:2:1: unknown setting`)
	hup("timeout = 40\nstorage = 'memory'\ngroups = 3\n")
	eventually.Holds(t, "timeout 40", func() bool { return setting("timeout") == "40" })
	var groups, timeout api.Setting
	all, err := p.operatorClient(t, "").Config(ctx)
	for _, s := range all {
		switch s.Name {
		case "groups":
			groups = s
		case "timeout":
			timeout = s
		}
	}
	if err != nil || groups.Value != "2" || groups.Pending != "3" || groups.Source != "file" || timeout.Source != "file" || timeout.From != file+":1:1" || timeout.Value != "40" {
		t.Errorf("the settings are %+v and %+v, %v", groups, timeout, err)
	}
	if err := p.stopWith(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v: %s", err, p.stderrText.String())
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
	p := startServer(t, "--storage", "memory")
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
	if err := p.stopWith(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v: %s", err, p.stderrText.String())
	}
	if got := told(); got != "STOPPING=1" {
		t.Errorf("told %q", got)
	}
}
