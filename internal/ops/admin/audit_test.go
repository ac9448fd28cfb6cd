package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/ops/api"
)

func TestEveryChangeIsInTheAuditLog(t *testing.T) {
	forMemoryAndDisk(t, func(t *testing.T, l *testServer) {
		if _, err := l.client.Post(ctx, api.PathCreateKeyspace, api.CreateKeyspace{Name: "a"}, false); err != nil {
			t.Fatal(err)
		}
		job := l.waitJobDone(l.client.Post(ctx, api.PathSplit, api.Split{Slots: []int{9}}, false))
		if _, err := l.client.Post(ctx, api.PathSplit, api.Split{Slots: []int{11}}, true); err != nil {
			t.Fatal(err)
		}
		l.sendRequest("POST", api.PathSplit, splitBody) // without the token
		all, err := l.client.Audit(ctx)
		if err != nil || len(all) != 5 {
			t.Fatalf("%d entries: %+v, %v", len(all), all, err)
		}
		denied, ended, begun := all[0], all[1], all[2]
		if denied.Outcome != api.AuditDenied || denied.Who != "nobody" || denied.Action != "split" {
			t.Errorf("who may not: %+v", denied)
		}
		if ended.ID != begun.ID || begun.Outcome != api.AuditBegun || ended.Outcome != api.AuditDone || ended.Job != job.ID || ended.Who != "token" ||
			ended.Claims != "tester" || !strings.HasPrefix(ended.From, "127.0.0.1:") || ended.What != "cut keyspace default at slot 9" {
			t.Errorf("a change: %+v and %+v", begun, ended)
		}
		if l.dataDir == "" {
			return
		}
		path := filepath.Join(l.dataDir, auditFileName)
		text, err := os.ReadFile(path)
		if err != nil || strings.Count(string(text), "\n") != 4 || strings.Contains(string(text), testToken) {
			t.Errorf("the file is %s, %v", text, err)
		}
		if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("its mode is %v, %v", info.Mode(), err)
		}
	})
}

// A change that fails is in the log as one that has failed, and a log that cannot be
// written lets nothing change.
func TestWithoutAnAuditLogNothingIsChanged(t *testing.T) {
	l := startServer(t, filepath.Join(t.TempDir(), "data"))
	if err := l.admin.audit.files.file.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := l.client.Post(ctx, api.PathCreateKeyspace, api.CreateKeyspace{Name: "a"}, false)
	if !errors.Is(err, &api.Error{Code: api.CodeUnavailable}) {
		t.Errorf("it says %v", err)
	}
	if _, err := l.db.Keyspace("a"); err == nil {
		t.Error("the keyspace was made")
	}
}

func TestTheAuditLogGoesOnAfterACrash(t *testing.T) {
	dir := t.TempDir()
	now := func() time.Time { return time.Unix(1000, 0) }
	line := func(id string, seq uint64) string {
		text, err := json.Marshal(api.Audit{ID: id, Seq: seq, Outcome: api.AuditDone})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	// The last line was cut by a crash.
	if err := os.WriteFile(filepath.Join(dir, auditFileName), []byte(line("one", 1)+"\n"+line("two", 2)+"\n"+line("three", 3)[:20]), 0o600); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		l, err := openAuditLog(dir, maxAuditFileBytes, now)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.appendEntry(api.Audit{ID: "more", Outcome: api.AuditDone}); err != nil {
			t.Fatal(err)
		}
		all := l.listNewest()
		if len(all) != 3+round || all[0].ID != "more" || all[0].Seq != uint64(3+round) || all[len(all)-1].ID != "one" {
			t.Errorf("round %d: %+v", round, all)
		}
		if err := l.close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestALineThatAFullDiskHasCutDoesNotJoinTheNext(t *testing.T) {
	r, w, err := os.Pipe() // it is full after some KiB
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	a, line := &auditFiles{maxBytes: maxAuditFileBytes, file: w}, append(bytes.Repeat([]byte("x"), 1<<20), '\n')
	if err := w.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		t.Skip(err)
	}
	if err := a.appendLine(line); err == nil || a.size == 0 {
		t.Fatalf("a pipe that nobody reads has taken %d bytes of a MiB, %v", a.size, err)
	}
	if _, err := io.CopyN(io.Discard, r, a.size); err != nil {
		t.Fatal(err)
	}
	if err := w.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	_ = a.appendLine([]byte("next\n")) // a pipe cannot be synced
	if err := r.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 6)
	if _, err := io.ReadFull(r, got); err != nil || string(got) != "\nnext\n" {
		t.Errorf("behind it comes %q, %v", got, err)
	}
}

func TestTheAuditLogBeginsANewFileWhenOneIsFull(t *testing.T) {
	dir := t.TempDir()
	const limit, entries = 1000, 200
	open := func() *auditLog {
		l, err := openAuditLog(dir, limit, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := open()
	for i := range entries {
		if i%7 == 0 { // also right after a new file was begun
			if err := l.close(); err != nil {
				t.Fatal(err)
			}
			l = open()
		}
		if err := l.appendEntry(api.Audit{ID: "x", Outcome: api.AuditDone}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	next := uint64(entries) // they go on without a gap, from the newest to the oldest
	for n := range maxOldAuditFiles + 1 {
		name := auditFileName
		if n > 0 {
			name = oldAuditName(n)
		}
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		in, cut, err := readAuditTail(f)
		info, _ := f.Stat()
		f.Close()
		if err != nil || cut || len(in) == 0 || info.Size() > limit || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has %d entries in %d bytes, %v, %v", name, len(in), info.Size(), info.Mode(), err)
		}
		for i := len(in) - 1; i >= 0; i-- {
			if in[i].Seq != next {
				t.Fatalf("%s has entry %d, want %d", name, in[i].Seq, next)
			}
			next--
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != maxOldAuditFiles+1 || next == 0 {
		t.Errorf("there are %d files, %v; the oldest entry is %d", len(files), err, next+1)
	}
}

// A file that cannot be given another name goes on to grow, and nothing that is kept is
// dropped meanwhile.
func TestAFullAuditLogThatCannotBeRenamedGoesOn(t *testing.T) {
	dir := t.TempDir()
	l, err := openAuditLog(dir, 500, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	// The last number is taken by something that no file takes the place of.
	if err := os.MkdirAll(filepath.Join(dir, oldAuditName(maxOldAuditFiles), "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := l.appendEntry(api.Audit{ID: "x", Outcome: api.AuditDone}); err != nil {
			t.Fatal(err)
		}
	}
	count := 0
	for n := range maxOldAuditFiles {
		name := auditFileName
		if n > 0 {
			name = oldAuditName(n)
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		count += strings.Count(string(text), "\n")
	}
	if count != 100 {
		t.Errorf("%d entries are left of 100", count)
	}
}

func TestStrangersCannotFillTheAuditLog(t *testing.T) {
	l := startSmallServer(t)
	if _, err := l.client.Post(ctx, api.PathCreateKeyspace, api.CreateKeyspace{Name: "a"}, false); err != nil {
		t.Fatal(err)
	}
	for range maxDeniedEntries + 20 {
		l.sendRequest("POST", api.PathSplit, splitBody, api.HeaderActor, strings.Repeat("x", 500))
	}
	all, err := l.client.Audit(ctx)
	if err != nil || len(all) != maxDeniedEntries+2 || len(all[0].Claims) > 64 {
		t.Errorf("%d entries, %v", len(all), err)
	}
}
