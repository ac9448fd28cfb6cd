package admin

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/api"
)

func TestEveryChangeIsInTheAuditLog(t *testing.T) {
	both(t, func(t *testing.T, l *lab) {
		if _, err := l.client.Act(ctx, api.PathCreateKeyspace, api.CreateKeyspace{Name: "a"}, false); err != nil {
			t.Fatal(err)
		}
		job := l.done(l.client.Act(ctx, api.PathSplit, api.Split{Slots: []int{9}}, false))
		if _, err := l.client.Act(ctx, api.PathSplit, api.Split{Slots: []int{11}}, true); err != nil {
			t.Fatal(err)
		}
		l.ask("POST", api.PathSplit, split) // without the token
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
		if l.data == "" {
			return
		}
		path := filepath.Join(l.data, auditFile)
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
	l := start(t, filepath.Join(t.TempDir(), "data"))
	if err := l.admin.audit.file.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := l.client.Act(ctx, api.PathCreateKeyspace, api.CreateKeyspace{Name: "a"}, false)
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
	if err := os.WriteFile(filepath.Join(dir, auditFile), []byte(line("one", 1)+"\n"+line("two", 2)+"\n"+line("three", 3)[:20]), 0o600); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		l, err := openAudit(dir, now)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.write(api.Audit{ID: "more", Outcome: api.AuditDone}); err != nil {
			t.Fatal(err)
		}
		all := l.list()
		if len(all) != 3+round || all[0].ID != "more" || all[0].Seq != uint64(3+round) || all[len(all)-1].ID != "one" {
			t.Errorf("round %d: %+v", round, all)
		}
		if err := l.close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStrangersCannotFillTheAuditLog(t *testing.T) {
	l := small(t)
	if _, err := l.client.Act(ctx, api.PathCreateKeyspace, api.CreateKeyspace{Name: "a"}, false); err != nil {
		t.Fatal(err)
	}
	for range deniedKept + 20 {
		l.ask("POST", api.PathSplit, split, api.HeaderActor, strings.Repeat("x", 500))
	}
	all, err := l.client.Audit(ctx)
	if err != nil || len(all) != deniedKept+2 || len(all[0].Claims) > 64 {
		t.Errorf("%d entries, %v", len(all), err)
	}
}
