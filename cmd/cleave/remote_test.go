package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/terminal"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// runJSON runs a command against a server and reads its JSON.
func runJSON[T any](t *testing.T, p *serverProcess, args ...string) (answer T) {
	t.Helper()
	code, stdout, stderr := runCommand(append(args, "--addr", p.httpAddr, "-o", "json")...)
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || code != exitOK {
		t.Fatalf("cleave %v: exit %d, %v\n%s%s", args, code, err, stdout, stderr)
	}
	return answer
}

func listShards(t *testing.T, p *serverProcess) []api.Shard {
	t.Helper()
	return runJSON[[]api.Shard](t, p, "shard", "list")
}

// runAction runs a command that changes something, and wants its job done.
func runAction(t *testing.T, p *serverProcess, args ...string) api.Action {
	t.Helper()
	a := runJSON[api.Action](t, p, args...)
	if a.DryRun || a.Job != nil && a.Job.State != api.JobDone {
		t.Fatalf("cleave %v: %+v", args, a)
	}
	return a
}

func TestOperatorsReshapeARunningServer(t *testing.T) {
	dir := t.TempDir()
	p := startServer(t, "--data", dir, "--stores", "2", "--groups", "4")
	c := newRedisClient(p.addr)
	defer c.Close()
	_, err := c.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range 2000 {
			pipe.Set(ctx, fmt.Sprint("key", i), strings.Repeat("v", 100), 0)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	before := listShards(t, p)

	plan := runJSON[api.Action](t, p, "shard", "split", "--slot", "100", "--dry-run")
	if !plan.DryRun || plan.Job != nil || len(listShards(t, p)) != len(before) {
		t.Errorf("the plan is %+v", plan)
	}
	for range 2 { // the second time there is nothing to change, which is no failure
		runAction(t, p, "shard", "split", "--slot", "100,200", "--yes")
	}
	if n := len(listShards(t, p)); n != len(before)+2 {
		t.Errorf("%d shards became %d", len(before), n)
	}
	slot := runJSON[api.Explanation](t, p, "explain", "slot", "100").Shard
	if *slot.FirstSlot != 100 || *slot.LastSlot != 199 {
		t.Errorf("the shard of slot 100 is %+v", slot)
	}
	runAction(t, p, "shard", "split", "--shard", fmt.Sprint(slot.ID), "--yes")
	cut := runJSON[api.Explanation](t, p, "explain", "slot", "199").Shard
	runAction(t, p, "shard", "merge", fmt.Sprint(slot.ID), fmt.Sprint(cut.ID), "--yes")

	to := uint64(4)
	if slot.Group == to {
		to = 3
	}
	moved := runAction(t, p, "shard", "move", "--shard", fmt.Sprint(slot.ID), "--to", fmt.Sprint(to), "--rate", "100mb", "--yes")
	if s := runJSON[api.Explanation](t, p, "explain", "shard", fmt.Sprint(slot.ID)).Shard; s.Group != to {
		t.Errorf("it went to group %d", s.Group)
	}
	if j := runJSON[api.Job](t, p, "job", "show", moved.Job.ID); j.Kind != "move" || j.To != to {
		t.Errorf("the job is %+v", j)
	}
	if j := runJSON[api.Job](t, p, "job", "watch", moved.Job.ID); j.State != api.JobDone {
		t.Errorf("the job is %+v", j)
	}
	runAction(t, p, "group", "drain", "4", "--yes")
	for _, g := range runJSON[[]api.Group](t, p, "group", "list") {
		if g.ID == 4 && (g.Shards != 0 || !g.Draining) {
			t.Errorf("the group that was drained is %+v", g)
		}
	}
	runAction(t, p, "group", "undrain", "4")
	runAction(t, p, "group", "resize", "6", "--yes")
	if n := len(runJSON[[]api.Group](t, p, "group", "list")); n != 6 {
		t.Errorf("there are %d groups", n)
	}

	runAction(t, p, "keyspace", "create", "orders", "--range")
	if code, stdout, stderr := runCommand("keyspace", "create", "orders", "--range", "--addr", p.httpAddr); code != exitOK || stdout != "keyspace orders exists already: kind range\n" {
		t.Errorf("the same once more: exit %d, %q, %q", code, stdout, stderr)
	}
	if code, _, stderr := runCommand("keyspace", "create", "orders", "--hash", "--addr", p.httpAddr); code != exitFailed || !strings.Contains(stderr, "it has kind range, not kind hash, 16,384 slots") {
		t.Errorf("another of that name: exit %d, %q", code, stderr)
	}
	runAction(t, p, "keyspace", "create", "carts", "--hash", "--slots", "64")
	runAction(t, p, "shard", "presplit", "--keyspace", "orders", "--key", "g", "--key", `n\x00`, "--yes")
	runAction(t, p, "shard", "presplit", "--keyspace", "carts", "--into", "32", "--yes")
	if rows := runJSON[[]api.Shard](t, p, "shard", "list", "--keyspace", "orders"); len(rows) != 3 || rows[2].StartKey.String() != `n\x00` {
		t.Errorf("orders has %+v", rows)
	}
	if rows := runJSON[[]api.Shard](t, p, "shard", "list", "--keyspace", "carts"); len(rows) < 32 {
		t.Errorf("carts has %d shards", len(rows))
	}
	runAction(t, p, "keyspace", "drop", "carts", "--yes")
	if n := len(runJSON[[]api.Keyspace](t, p, "keyspace", "list")); n != 2 {
		t.Errorf("there are %d keyspaces", n)
	}
	runAction(t, p, "config", "set", "timeout=77")
	if v := c.ConfigGet(ctx, "timeout").Val()["timeout"]; v != "77" {
		t.Errorf("timeout is %s", v)
	}
	for i := range 2000 {
		if v, err := c.Get(ctx, fmt.Sprint("key", i)).Result(); len(v) != 100 || err != nil {
			t.Fatalf("key%d: %q, %v", i, v, err)
		}
	}
	checkAllShown(t, p)
}

// checkAllShown runs every command that shows something, in every form.
func checkAllShown(t *testing.T, p *serverProcess) {
	for _, line := range []string{
		"status", "status --ready", "map", "shard list", "shard explain 2", "group list", "keyspace list", "index list", "job list", "job show 1",
		"saga list", "explain key user:1", "explain key {a}b --keyspace orders", "explain slot 5", "explain shard 2", "client list", "slowlog", "audit", "config list", "backup list",
	} {
		for _, format := range []string{"table", "json", "jsonl"} {
			code, stdout, stderr := runCommand(append(strings.Fields(line), "--addr", p.httpAddr, "-o", format)...)
			if code != exitOK || stdout == "" && format != "jsonl" || format == "json" && !json.Valid([]byte(stdout)) {
				t.Errorf("cleave %s -o %s: exit %d, %q, %q", line, format, code, stdout, stderr)
			}
			if format == "table" && strings.Contains(stdout, "…\n") { // it is not read at a terminal
				t.Errorf("cleave %s is cut:\n%s", line, stdout)
			}
		}
	}
}

func TestAJobIsPausedResumedThrottledAndCancelled(t *testing.T) {
	p := startServer(t, "--storage", "memory", "--stores", "2", "--groups", "2")
	c := newRedisClient(p.addr)
	defer c.Close()
	for i := range 1000 {
		if err := c.Set(ctx, fmt.Sprint("{a}", i), strings.Repeat("v", 10_000), 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	at := runJSON[api.Explanation](t, p, "explain", "key", "{a}").Shard
	begun := runJSON[api.Action](t, p, "shard", "move", "--shard", fmt.Sprint(at.ID), "--to", fmt.Sprint(3-at.Group), "--rate", "64kb", "--yes", "--detach")
	if begun.Job == nil {
		t.Fatalf("%+v", begun)
	}
	id := begun.Job.ID
	state := func() string { return runJSON[api.Job](t, p, "job", "show", id).State }
	runJSON[api.Action](t, p, "job", "pause", id)
	eventually.Holds(t, "it is paused", func() bool { return state() == api.JobPaused })
	runJSON[api.Action](t, p, "job", "throttle", id, "--rate", "128kb")
	if j := runJSON[api.Job](t, p, "job", "show", id); j.LimitBytesPerSecond != 128<<10 {
		t.Errorf("the limit is %d", j.LimitBytesPerSecond)
	}
	runJSON[api.Action](t, p, "job", "resume", id)
	eventually.Holds(t, "it runs", func() bool { return state() == api.JobRunning })
	if code, _, stderr := runCommand("job", "cancel", id, "--addr", p.httpAddr); code != exitUsage || !strings.Contains(stderr, "say --yes") {
		t.Errorf("cancel without --yes: exit %d, %q", code, stderr)
	}
	if a := runJSON[api.Action](t, p, "job", "cancel", id, "--yes"); a.Job == nil || a.Job.State != api.JobUndone {
		t.Errorf("%+v", a)
	}
	code, stdout, stderr := runCommand("job", "watch", id, "--addr", p.httpAddr)
	if code != exitFailed || !strings.Contains(stdout, "undone") {
		t.Errorf("watch: exit %d, %q, %q", code, stdout, stderr)
	}
	if s := runJSON[api.Explanation](t, p, "explain", "key", "{a}").Shard; s.Group != at.Group {
		t.Errorf("it is with group %d", s.Group)
	}
}

func TestABackupIsRestoredWhereNoServerRuns(t *testing.T) {
	root := t.TempDir()
	data := filepath.Join(root, "data")
	t.Setenv("CLEAVE_DATA", data)
	p := startServer(t, "--data", data, "--backup-dir", filepath.Join(root, "backups"))
	if code, _, stderr := runCommand("status", "--addr", p.addr); code != exitFailed || !strings.Contains(stderr, "not that of Redis clients") {
		t.Errorf("the address for Redis clients: exit %d, %q", code, stderr)
	}
	c := newRedisClient(p.addr)
	defer c.Close()
	for i := range 100 {
		c.Set(ctx, fmt.Sprint("k", i), i, 0)
	}
	runAction(t, p, "backup", "create", "first")
	c.Set(ctx, "k0", "later", 0)
	runAction(t, p, "backup", "verify", "first")
	if list := runJSON[[]api.Backup](t, p, "backup", "list"); len(list) != 1 || list[0].Name != "first" || !list[0].Complete {
		t.Errorf("the backups are %+v", list)
	}
	runAction(t, p, "backup", "restore", "first", "--to", "again")
	backup, restored := filepath.Join(root, "backups", "first"), filepath.Join(root, "restored")
	if code, stdout, stderr := runCommand("restore", backup, "--data", restored); code != exitOK || !strings.Contains(stdout, "cleave serve --data "+restored) {
		t.Fatalf("exit %d, %s%s", code, stdout, stderr)
	}
	q := startServer(t, "--data", restored)
	d := newRedisClient(q.addr)
	defer d.Close()
	for i := range 100 {
		if v := d.Get(ctx, fmt.Sprint("k", i)).Val(); v != fmt.Sprint(i) {
			t.Errorf("k%d is %q", i, v)
		}
	}
	if v := c.Get(ctx, "k0").Val(); v != "later" {
		t.Errorf("the server that was backed up has %q", v)
	}
	// What would do harm is refused, and nothing is left of what cannot be served.
	junk := filepath.Join(root, "junk")
	if err := os.MkdirAll(junk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(junk, "file"), []byte("not a backup"), 0o600); err != nil {
		t.Fatal(err)
	}
	torn := filepath.Join(root, "torn")
	if err := os.CopyFS(torn, os.DirFS(junk)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(torn, "STORES"), []byte("not a number"), 0o600); err != nil {
		t.Fatal(err)
	}
	lost, damaged := filepath.Join(root, "lost"), filepath.Join(root, "damaged")
	for _, dir := range []string{lost, damaged} {
		if err := os.CopyFS(dir, os.DirFS(backup)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(filepath.Join(lost, "0")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(damaged, "0", "FORMAT"), []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"is in use":          {data, "--data", filepath.Join(root, "y")},
		"is not empty":       {backup, "--data", data},
		"wants --data":       {backup},
		"no such file":       {filepath.Join(root, "none"), "--data", filepath.Join(root, "x")},
		"is no backup":       {junk, "--data", filepath.Join(root, "y")},
		"not a number":       {torn, "--data", filepath.Join(root, "y")},
		"0 of 1 is missing":  {lost, "--data", filepath.Join(root, "y")},
		"open what was":      {damaged, "--data", filepath.Join(root, "y")},
		"wants BACKUP":       {"--data", filepath.Join(root, "y")},
		"name the directory": {t.TempDir(), "--data", filepath.Join(root, "y")},
	} {
		if code, _, stderr := runCommand(append([]string{"restore"}, args...)...); code == exitOK || !strings.Contains(stderr, want) {
			t.Errorf("restore %v: exit %d, %q", args, code, stderr)
		}
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := restoreBackup(over, backup, filepath.Join(root, "x"), terminal.New(strings.NewReader(""), io.Discard)); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("a restore that is interrupted: %v", err)
	}
	for _, name := range []string{"x", "x.restoring", "y", "y.restoring"} {
		if _, err := os.Stat(filepath.Join(root, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
}

// The token of the data that happens to be here is for a server on this machine alone.
func TestOtherMachinesAreNotToldTheTokenOfThisOne(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	for _, name := range []string{api.EnvToken, api.EnvTokenFile, "CLEAVE_DATA"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", root)
	t.Setenv("XDG_CACHE_HOME", root)
	if err := os.Mkdir("cleave-data", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("cleave-data", api.TokenFile), []byte("a token"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, all := range map[string][]remote{
		"a token": {{addr: "127.0.0.1:7380"}, {addr: "localhost:7380"}, {addr: "[::1]:7380"}, {addr: "10.0.0.1:7380", data: "cleave-data"}},
		"":        {{addr: "10.0.0.1:7380"}, {addr: "example.com:7380"}},
	} {
		for _, r := range all {
			r.timeout = time.Second
			if c, err := r.newClient(); err != nil || r.tokenErr != nil || c.Token != want {
				t.Errorf("%s, --data %q: %+v, %v, %v", r.addr, r.data, c, err, r.tokenErr)
			}
		}
	}
}

// makeBackup makes a backup of a store, in a directory where there is room for more.
func makeBackup(t *testing.T) (root, backup string) {
	t.Helper()
	root = t.TempDir()
	db, err := cleave.Open(filepath.Join(root, "data"), cleave.Options{})
	if err != nil {
		t.Fatal(err)
	}
	backup = filepath.Join(root, "backup")
	if err := errors.Join(db.Backup(ctx, backup), db.Close()); err != nil {
		t.Fatal(err)
	}
	return root, backup
}

func TestARestoreForWhichThereIsNoRoomMakesNothing(t *testing.T) {
	root, backup := makeBackup(t)
	const size = 1 << 43
	if most, err := node.MaxCopyBytes(root, 1); err != nil || most >= size {
		t.Skipf("there is room for %d bytes, %v", most, err)
	}
	hole := filepath.Join(backup, "hole")
	if err := os.WriteFile(hole, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(hole, size); err != nil {
		t.Skip(err)
	}
	large := filepath.Join(root, "large")
	if code, _, stderr := runCommand("restore", backup, "--data", large); code != exitFailed || !strings.Contains(stderr, "has room for") {
		t.Errorf("exit %d, %q", code, stderr)
	}
	if left, err := filepath.Glob(large + "*"); len(left) > 0 || err != nil {
		t.Errorf("%q is left, %v", left, err)
	}
}

func TestARestoreGoesWhereLinksLead(t *testing.T) {
	root, backup := makeBackup(t)
	disk, link := filepath.Join(root, "disk"), filepath.Join(root, "link")
	for _, dir := range []string{disk, filepath.Join(root, "here")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(disk, link); err != nil {
		t.Skip(err)
	}
	inside := filepath.Join(root, "inside")
	if err := os.Symlink(backup, inside); err != nil {
		t.Fatal(err)
	}
	nowhere := filepath.Join(root, "nowhere")
	if err := os.Symlink(filepath.Join(root, "gone"), nowhere); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(root, "here"))
	for data, want := range map[string]string{
		nowhere: "a link to what is not there", ".": "run it in another one", filepath.Join(backup, "x"): "inside of the backup", filepath.Join(inside, "x"): "inside of the backup",
	} {
		if code, _, stderr := runCommand("restore", backup, "--data", data); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("--data %s: exit %d, %q", data, code, stderr)
		}
	}
	if code, _, stderr := runCommand("restore", inside, "--data", link); code != exitOK {
		t.Errorf("to a link: exit %d, %q", code, stderr)
	}
	if at, err := os.Readlink(link); err != nil || at != disk {
		t.Errorf("the link leads to %q, %v", at, err)
	}
	if _, err := os.Stat(filepath.Join(disk, "STORES")); err != nil {
		t.Error(err)
	}
}

func TestWhatIsAskedWronglyIsRefusedInTheWordsOfTheCommandLine(t *testing.T) {
	dir := t.TempDir()
	p := startServer(t, "--data", dir)
	for args, want := range map[string]string{
		"shard split":                                "2 say where to cut with one of --slot, --key, --shard",
		"shard split --slot 1 --shard 2":             "2 say where to cut with one of",
		"shard split --slot x":                       `2 --slot "x": want whole numbers such as 4096,8192`,
		"shard split --slot 99999 --yes":             "2 use 1 to 16383",
		`shard split --key \q`:                       `2 --key "\\q"`,
		"shard split --slot 1":                       "2 say --yes",
		"shard split --slot 1 --keyspace none --yes": "1 none",
		"shard split --shard 999 --yes":              "1 no shard 999",
		"shard move --shard 2":                       "2 wants --shard and --to",
		"shard move --shard 2 --to 99 --yes":         "1 list the groups",
		"shard move --shard 2 --to 1 --rate fast":    "2 want bytes in a second, such as 10mb",
		"shard merge 1":                              "2 shard merge wants LEFT and RIGHT",
		"shard merge a b":                            `2 shard "a": want a number from 1 on`,
		"shard presplit":                             "2 say how to cut with one of --into, --key",
		"shard explain":                              "2 shard explain wants SHARD",
		"shard explain 999":                          "1 there is no shard 999",
		"shard list extra":                           "2 takes no arguments",
		"shard list --watch=never":                   "2 want a time of at least 100ms",
		"group drain":                                "2 group drain wants GROUP",
		"group drain 1 --yes":                        "1 ",
		"group drain 99 --yes":                       "1 ",
		"keyspace create x":                          "2 one of --range, --hash",
		"keyspace create x --range --hash":           "2 one of --range, --hash",
		"keyspace create x --range --slots 5":        "2 --slots is for --hash",
		"keyspace create x --hash --slots 5":         "2 power of two",
		"keyspace create --hash":                     "2 keyspace create wants NAME",
		"keyspace create default --hash --slots 64":  "1 exists",
		"keyspace drop none --yes":                   "1 none",
		"keyspace drop default --yes":                "1 default",
		"index show none":                            `1 there is no index "none"`,
		"index drop none --yes":                      `1 there is no index "none"`,
		"job show 99":                                "1 99: list the jobs",
		"job watch 99":                               "1 99",
		"job pause 99":                               "1 99",
		"job throttle 99":                            "2 job throttle wants --rate",
		"saga show none":                             `1 there is no saga "none"`,
		"saga list --state odd":                      "2 odd",
		"explain key":                                "2 explain key wants KEY",
		"explain slot -- -1":                         "2 want a number from 0 on",
		"explain slot 99999":                         "2 slots 0 to 16383",
		"backup restore x":                           "2 wants --to",
		"backup verify none":                         "1 none",
		"backup verify none --yes":                   "1 none",
		"backup create a b":                          "2 takes one NAME",
		"config set x":                               `2 "x": want NAME=VALUE`,
		"config set":                                 "2 config set wants NAME=VALUE",
		"config set maxclients=5 --yes":              "1 maxclients",
		"status --timeout 0s":                        "2 --timeout 0s: want more than nothing",
		"status --timeout soon":                      `2 --timeout "soon": want a time such as 30s`,
		"status --token-file /nowhere":               "2 --token-file",
	} {
		line := strings.Fields(args)
		if !strings.Contains(args, "--data") {
			line = append([]string{"--data", dir}, line...)
		}
		code, text, _ := strings.Cut(want, " ")
		// Flags go before the arguments: some of these lines end them.
		got, stdout, stderr := runCommand(insertServerFlags(line, p.httpAddr)...)
		if fmt.Sprint(got) != code || !strings.Contains(stderr, text) || stdout != "" {
			t.Errorf("cleave %s: exit %d, stdout %q, stderr %q, want %s", args, got, stdout, stderr, want)
		}
	}
}

// insertServerFlags puts flags about the server behind the command's own words, before a "--".
func insertServerFlags(line []string, addr string) []string {
	var server []string
	if line[0] == "--data" {
		server, line = line[:2:2], line[2:]
	}
	server = append(server, "--addr", addr)
	for i, w := range line {
		if w == "--" {
			return append(append(append([]string{}, line[:i]...), server...), line[i:]...)
		}
	}
	return append(append([]string{}, line...), server...)
}

func TestWhoHasNoTokenLooksAndDoesNotChange(t *testing.T) {
	dir := t.TempDir()
	p := startServer(t, "--data", dir)
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // of another user
	listShards(t, p)
	code, _, stderr := runCommand("keyspace", "create", "x", "--hash", "--addr", p.httpAddr)
	if code != exitFailed || !strings.Contains(stderr, "--token-file") {
		t.Errorf("exit %d, %q", code, stderr)
	}
	runAction(t, p, "keyspace", "create", "a", "--hash", "--data", dir)
	runAction(t, p, "keyspace", "create", "b", "--hash", "--token-file", filepath.Join(dir, api.TokenFile))
	if n := len(runJSON[[]api.Keyspace](t, p, "keyspace", "list")); n != 3 {
		t.Errorf("there are %d keyspaces", n)
	}
}

func TestAServerThatDoesNotAnswerIsTold(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, c) }()
		}
	}()
	if code, _, stderr := runCommand("status", "--addr", addr, "--timeout", "200ms"); code != exitTimeout || !strings.Contains(stderr, "no answer in time") {
		t.Errorf("silence: exit %d, %q", code, stderr)
	}
	l.Close()
	for _, args := range [][]string{{"status"}, {"status", "--ready"}, {"map"}, {"shard", "split", "--slot", "5", "--yes"}, {"job", "watch", "1"}} {
		code, stdout, stderr := runCommand(append(args, "--addr", addr)...)
		if code != exitUnreachable || stdout != "" || !strings.Contains(stderr, addr) || !strings.Contains(stderr, "CLEAVE_ADDR") {
			t.Errorf("cleave %v: exit %d, %q, %q", args, code, stdout, stderr)
		}
	}
	t.Setenv("CLEAVE_ADDR", "127.0.0.1:1")
	if code, _, stderr := runCommand("status"); code != exitUnreachable || !strings.Contains(stderr, "127.0.0.1:1") {
		t.Errorf("CLEAVE_ADDR: exit %d, %q", code, stderr)
	}
	if code, _, stderr := runCommand("status", "--addr", "redis://x"); code != exitUsage || !strings.Contains(stderr, "--addr: address \"redis://x\": want host:port") {
		t.Errorf("exit %d, %q", code, stderr)
	}
	if code, _, stderr := runCommand("status", "--addr", "127.0.0.1:99999"); code != exitUsage || !strings.Contains(stderr, `--addr: address "127.0.0.1:99999": the port "99999" is none`) {
		t.Errorf("exit %d, %q", code, stderr)
	}
}

func TestWhatIsWatchedIsShownUntilItEnds(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	times := 0
	err := watchFlag(time.Millisecond).runRepeatedly(ctx, io.Discard, func() error {
		if times++; times == 3 {
			stop()
		}
		return nil
	})
	if err != nil || times != 3 {
		t.Errorf("shown %d times, %v", times, err)
	}
}

func TestShellsCompleteWhatTheServerHas(t *testing.T) {
	p := startServer(t, "--storage", "memory", "--groups", "2")
	if code, _, stderr := runCommand("keyspace", "create", "orders", "--range", "--addr", p.httpAddr); code != exitOK {
		t.Fatal(stderr)
	}
	for line, want := range map[string]string{
		"shard split --addr ADDR --shard ":          "2\tdefault slots ",
		"shard merge --addr ADDR ":                  "2\tdefault slots ",
		"shard move --addr ADDR --to ":              "2\t",
		"shard list --addr ADDR --keyspace ":        "orders\trange",
		"keyspace drop --addr ADDR ":                "orders\trange",
		"group drain --addr ADDR ":                  "1\t",
		"shard list --addr ADDR --output ":          "jsonl",
		"shard list --addr 127.0.0.1:1 --keyspace ": ":4", // no names, and none of files
	} {
		args := append([]string{"__complete"}, strings.Split(strings.Replace(line, "ADDR", p.httpAddr, 1), " ")...)
		if code, stdout, stderr := runCommand(args...); code != exitOK || !strings.Contains(stdout, want) {
			t.Errorf("%s: exit %d, %q, %q", line, code, stdout, stderr)
		}
	}
}

func TestBackupDelete_ShowsThePlanAsksAndRemoves(t *testing.T) {
	dir := t.TempDir()
	p := startServer(t, "--data", filepath.Join(dir, "data"), "--backup-dir", filepath.Join(dir, "backups"))
	runAction(t, p, "backup", "create", "night")
	half := filepath.Join(dir, "backups", "half", "0")
	if err := errors.Join(os.MkdirAll(half, 0o700), os.WriteFile(filepath.Join(half, "1.sst"), make([]byte, 2048), 0o600)); err != nil {
		t.Fatal(err)
	}
	_, listed, _ := runCommand("backup", "list", "--addr", p.httpAddr)
	if !strings.Contains(listed, "2.0 KiB      1  unfinished\n") || !strings.Contains(listed, "  whole\n") {
		t.Errorf("the list is\n%s", listed)
	}
	code, _, stderr := runCommand("backup", "delete", "half", "--addr", p.httpAddr)
	if code != exitUsage || !strings.Contains(stderr, "delete backup half, which is unfinished\n") || !strings.Contains(stderr, "Nothing takes this back.") || !strings.Contains(stderr, "say --yes") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	for _, name := range []string{"half", "night"} {
		if a := runAction(t, p, "backup", "delete", name, "--yes"); a.Job == nil || a.Job.Kind != "delete" {
			t.Errorf("%+v", a)
		}
		if _, err := os.Stat(filepath.Join(dir, "backups", name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, want := range map[string]int{"night": exitFailed, "../data": exitUsage} {
		if code, _, stderr := runCommand("backup", "delete", name, "--yes", "--addr", p.httpAddr); code != want {
			t.Errorf("%s: exit %d, %s", name, code, stderr)
		}
	}
}

func TestIDs_AreTakenWithAndWithoutTheirLetter(t *testing.T) {
	p := startServer(t, "--storage", "memory", "--groups", "2")
	for _, args := range [][]string{{"shard", "explain", "s2"}, {"explain", "shard", "2"}, {"shard", "list", "--group", "g1"}, {"shard", "split", "--shard", "s2", "--dry-run"}, {"shard", "move", "--shard", "s2", "--to", "g2", "--dry-run"}} {
		if code, stdout, stderr := runCommand(append(args, "--addr", p.httpAddr)...); code != exitOK {
			t.Errorf("%v: exit %d, %s%s", args, code, stdout, stderr)
		}
	}
	for _, args := range [][]string{{"shard", "explain", "g2"}, {"shard", "explain", "s"}, {"group", "drain", "s1", "--dry-run"}, {"group", "resize", "g3", "--dry-run"}, {"shard", "move", "--shard", "0", "--to", "2"}, {"shard", "move", "--shard", "2", "--to", "s1"}} {
		if code, _, stderr := runCommand(append(args, "--addr", p.httpAddr)...); code != exitUsage || !strings.Contains(stderr, "want a number from 1 on") {
			t.Errorf("%v: exit %d, %s", args, code, stderr)
		}
	}
	_, _, stderr := runCommand("shard", "move", "--shard", "2", "--to", "99", "--dry-run", "--addr", p.httpAddr)
	if !strings.Contains(stderr, "no such group: group 99") {
		t.Errorf("it says %s", stderr)
	}
}
