package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/ops/api"
)

func TestBackupsAreMadeVerifiedAndRestored(t *testing.T) {
	l := startServer(t, filepath.Join(t.TempDir(), "data"))
	l.writeKeys(500)
	if _, err := l.db.Default().HSet(ctx, []byte("h"), cleave.Field{Name: []byte("f"), Value: []byte("v")}); err != nil {
		t.Fatal(err)
	}
	if a, err := l.client.Post(ctx, api.PathCreateBackup, api.CreateBackup{Name: "one"}, true); err != nil || !a.DryRun {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := os.Stat(l.admin.o.Backups); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a plan has made the directory: %v", err)
	}
	stop := l.startTraffic()
	l.waitJobDone(l.client.Post(ctx, api.PathCreateBackup, api.CreateBackup{Name: "one"}, false))
	stop()
	l.waitJobDone(l.client.Post(ctx, api.PathCreateBackup, api.CreateBackup{}, false))
	if info, err := os.Stat(l.admin.o.Backups); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		t.Errorf("the mode of the directory is %v, %v", info.Mode(), err)
	}
	all, note, err := l.client.Backups(ctx)
	if err != nil || len(all) != 2 || note != "" || all[0].Name != "one" || !all[0].Complete || all[0].Stores != 2 || all[0].Bytes == 0 || !all[1].Complete {
		t.Errorf("%+v, %q, %v", all, note, err)
	}
	keys := 0
	for _, err := range l.db.Default().Scan(ctx, cleave.ScanOptions{KeysOnly: true}) {
		if err != nil {
			t.Fatal(err)
		}
		keys++
	}
	j := l.waitJobDone(l.client.Post(ctx, api.PathVerifyBackup, api.VerifyBackup{Name: all[1].Name}, false))
	if !strings.Contains(j.Result, fmt.Sprintf("has %d keys in 1 keyspace", keys)) {
		t.Errorf("verify of %d keys: %+v", keys, j)
	}
	j = l.waitJobDone(l.client.Post(ctx, api.PathRestoreBackup, api.RestoreBackup{Name: "one", To: "again"}, false))
	dir := filepath.Join(l.admin.o.Backups, restoredDir, "again")
	if !strings.Contains(j.Result, "cleave serve --data "+dir) {
		t.Errorf("restore: %+v", j)
	}
	db, err := cleave.Open(dir, cleave.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if v, err := db.Default().HGet(ctx, []byte("h"), []byte("f")); string(v) != "v" || err != nil {
		t.Errorf("what was restored has %q, %v", v, err)
	}
	entries, err := os.ReadDir(l.admin.o.Backups)
	if err != nil || len(entries) != 3 { // two backups and what was restored: no scratch
		t.Errorf("%v, %v", entries, err)
	}
	if all, _, err := l.client.Backups(ctx); err != nil || len(all) != 3 {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestBackupsHaveNamesAndNotPaths(t *testing.T) {
	l := startServer(t, filepath.Join(t.TempDir(), "data"))
	outside := filepath.Join(filepath.Dir(l.dataDir), "outside")
	if err := os.Mkdir(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	l.waitJobDone(l.client.Post(ctx, api.PathCreateBackup, api.CreateBackup{Name: "good"}, false))
	for _, name := range []string{"..", ".", "a/b", `a\b`, "/etc", "../outside", "-rf", ".hidden", "a b", "a\x00", strings.Repeat("x", 65), restoredDir, "ü"} {
		for path, request := range map[string]any{
			api.PathCreateBackup: api.CreateBackup{Name: name}, api.PathVerifyBackup: api.VerifyBackup{Name: name}, api.PathRestoreBackup: api.RestoreBackup{Name: "good", To: name},
		} {
			if _, err := l.client.Post(ctx, path, request, false); !errors.Is(err, &api.Error{Code: api.CodeInvalid}) {
				t.Errorf("%s %q: %v", path, name, err)
			}
		}
	}
	// A link that leads out is no backup.
	if err := os.Symlink(outside, filepath.Join(l.admin.o.Backups, "link")); err == nil {
		if _, err := l.client.Post(ctx, api.PathVerifyBackup, api.VerifyBackup{Name: "link"}, false); !errors.Is(err, &api.Error{Code: api.CodeNotFound}) {
			t.Errorf("a link: %v", err)
		}
	}
	if err := os.Mkdir(filepath.Join(l.admin.o.Backups, "half"), 0o700); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		path    string
		request any
		code    string
	}{
		"a name that is taken":  {api.PathCreateBackup, api.CreateBackup{Name: "good"}, api.CodeExists},
		"no such backup":        {api.PathVerifyBackup, api.VerifyBackup{Name: "none"}, api.CodeNotFound},
		"one that was cut":      {api.PathRestoreBackup, api.RestoreBackup{Name: "half", To: "x"}, api.CodeRefused},
		"a restore of no place": {api.PathRestoreBackup, api.RestoreBackup{Name: "good"}, api.CodeInvalid},
	} {
		if _, err := l.client.Post(ctx, c.path, c.request, false); !errors.Is(err, &api.Error{Code: c.code}) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestBackup_Delete_RemovesWholeAndUnfinishedOnes(t *testing.T) {
	l := startServer(t, filepath.Join(t.TempDir(), "data"))
	l.writeKeys(50)
	if _, err := l.client.DeleteBackup(ctx, "none", false, true); !errors.Is(err, &api.Error{Code: api.CodeNotFound}) {
		t.Errorf("without a directory of backups: %v", err)
	}
	for _, name := range []string{"one", "two", "create"} {
		l.waitJobDone(l.client.Post(ctx, api.PathCreateBackup, api.CreateBackup{Name: name}, false))
	}
	l.waitJobDone(l.client.Post(ctx, api.PathRestoreBackup, api.RestoreBackup{Name: "one", To: "one"}, false))
	dir := l.admin.o.Backups
	if err := os.Remove(filepath.Join(dir, "two", storesFile)); err != nil { // as a crash leaves it
		t.Fatal(err)
	}
	names := func() (all []string) {
		t.Helper()
		backups, _, err := l.client.Backups(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range backups {
			all = append(all, fmt.Sprint(backupDirName(b.Name, b.Restored), " ", b.Complete, b.Bytes > 0))
		}
		slices.Sort(all)
		return all
	}
	if got := names(); !slices.Equal(got, []string{"create true true", "one true true", filepath.Join(restoredDir, "one") + " true true", "two false true"}) {
		t.Fatalf("%q", got)
	}
	a, err := l.client.DeleteBackup(ctx, "two", false, true)
	if err != nil || !a.DryRun || !a.Plan.Irreversible || a.Plan.Summary != "delete backup two, which is unfinished" || len(names()) != 4 {
		t.Errorf("the plan is %+v, %v", a, err)
	}
	for _, name := range []string{"two", "create", "one"} {
		l.waitJobDone(l.client.DeleteBackup(ctx, name, false, false))
	}
	if got := names(); !slices.Equal(got, []string{filepath.Join(restoredDir, "one") + " true true"}) {
		t.Errorf("%q", got)
	}
	if _, err := l.client.DeleteBackup(ctx, "one", false, false); !errors.Is(err, &api.Error{Code: api.CodeNotFound}) {
		t.Errorf("a second time: %v", err)
	}
	// What was restored is served by another.
	db, err := cleave.Open(filepath.Join(dir, restoredDir, "one"), cleave.Options{CacheBytes: 1 << 20, BlockCacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.client.DeleteBackup(ctx, "one", true, false); runtime.GOOS != "windows" && !errors.Is(err, &api.Error{Code: api.CodeRefused}) {
		t.Errorf("one that is served: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	l.waitJobDone(l.client.DeleteBackup(ctx, "one", true, false))
	if len(names()) != 0 {
		t.Errorf("%q", names())
	}
	log, err := l.client.Audit(ctx)
	if err != nil || log[0].Action != "deleteBackup" || log[0].Outcome != api.AuditDone || log[0].What != "delete what was restored as one" {
		t.Errorf("%+v, %v", log, err)
	}
}

func TestBackup_Delete_NeverLeavesTheDirectoryOfBackups(t *testing.T) {
	l := startServer(t, filepath.Join(t.TempDir(), "data"))
	l.waitJobDone(l.client.Post(ctx, api.PathCreateBackup, api.CreateBackup{Name: "good"}, false))
	outside := filepath.Join(filepath.Dir(l.dataDir), "outside")
	if err := os.WriteFile(outside, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "..", ".", "a/b", `a\b`, "/etc", "../outside", "../data", "good/..", "good/0", "-rf", ".hidden", "a\x00", strings.Repeat("x", 65), restoredDir} {
		for _, restored := range []bool{false, true} {
			if _, err := l.client.DeleteBackup(ctx, name, restored, false); !errors.Is(err, &api.Error{Code: api.CodeInvalid}) {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
	// A link is none, and one inside of a backup is removed without what it leads to.
	if err := os.Symlink(l.dataDir, filepath.Join(l.admin.o.Backups, "link")); err != nil {
		t.Skip(err)
	}
	if _, err := l.client.DeleteBackup(ctx, "link", false, false); !errors.Is(err, &api.Error{Code: api.CodeNotFound}) {
		t.Errorf("a link: %v", err)
	}
	if err := errors.Join(os.Symlink(l.dataDir, filepath.Join(l.admin.o.Backups, "good", "link")), os.Symlink(outside, filepath.Join(l.admin.o.Backups, "good", "file"))); err != nil {
		t.Fatal(err)
	}
	l.waitJobDone(l.client.DeleteBackup(ctx, "good", false, false))
	if text, err := os.ReadFile(outside); string(text) != "mine" || err != nil {
		t.Errorf("what a link leads to: %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(l.dataDir, storesFile)); err != nil {
		t.Errorf("the store: %v", err)
	}
}

func TestBackup_Delete_WhileAJobIsAtWork_IsRefused(t *testing.T) {
	l := startServer(t, filepath.Join(t.TempDir(), "data"))
	l.waitJobDone(l.client.Post(ctx, api.PathCreateBackup, api.CreateBackup{Name: "one"}, false))
	goOn := make(chan struct{})
	job, err := l.admin.serverJobs.start("backup", []string{"one"}, func(ctx context.Context, _ func(string)) (string, int64, error) {
		select {
		case <-goOn:
		case <-ctx.Done():
		}
		return "", 0, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		if _, err := l.client.DeleteBackup(ctx, "one", false, dry); !errors.Is(err, &api.Error{Code: api.CodeBusy}) || !strings.Contains(err.Error(), "job "+job.ID) {
			t.Errorf("%v", err)
		}
	}
	if all, _, err := l.client.Backups(ctx); err != nil || len(all) != 1 || all[0].Job != job.ID {
		t.Errorf("%+v, %v", all, err)
	}
	close(goOn)
	l.admin.serverJobs.wg.Wait()
	l.waitJobDone(l.client.DeleteBackup(ctx, "one", false, false))
}

// A server may be started on a backup, which is in the directory of its own backups then.
func TestBackup_Delete_OfTheStoreThatIsServed_IsRefused(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	l := startServer(t, data, func(o *Options) { o.Backups = filepath.Dir(data) })
	if _, err := l.client.DeleteBackup(ctx, "data", false, false); !errors.Is(err, &api.Error{Code: api.CodeRefused}) {
		t.Errorf("%v", err)
	}
}

// A backup whose bytes are not what was written is found, and leaves nothing behind.
func TestADamagedBackupIsFound(t *testing.T) {
	l := startServer(t, filepath.Join(t.TempDir(), "data"))
	l.writeKeys(2000)
	l.waitJobDone(l.client.Post(ctx, api.PathCreateBackup, api.CreateBackup{Name: "one"}, false))
	damaged := 0
	err := filepath.WalkDir(filepath.Join(l.admin.o.Backups, "one"), func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".sst") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i := range 64 {
			text[len(text)/2+i] ^= 0xff
		}
		damaged++
		// A file of its own: the one that is there may be the store's.
		if err := os.Remove(path); err != nil {
			return err
		}
		return os.WriteFile(path, text, 0o600)
	})
	if err != nil || damaged == 0 {
		t.Fatalf("%d files were damaged, %v", damaged, err)
	}
	a, err := l.client.Post(ctx, api.PathRestoreBackup, api.RestoreBackup{Name: "one", To: "again"}, false)
	if err != nil {
		t.Fatal(err)
	}
	j, err := l.client.WaitJob(ctx, a.Job.ID, 5*time.Millisecond, nil)
	if err != nil || j.State != api.JobFailed || j.Why == "" || j.Result != "" { // there is nothing to serve
		t.Errorf("%+v, %v", j, err)
	}
	if _, err := os.Stat(filepath.Join(l.admin.o.Backups, restoredDir, "again")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something is left: %v", err)
	}
}

func TestABackupThatHasLostItsStoreIsNone(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	l := startServerOn(t, openDB(t, data, cleave.Options{CacheBytes: 1 << 20, BlockCacheBytes: 1 << 20}), data)
	l.writeKeys(20)
	l.waitJobDone(l.client.Post(ctx, api.PathCreateBackup, api.CreateBackup{Name: "one"}, false))
	if err := os.RemoveAll(filepath.Join(l.admin.o.Backups, "one", "0")); err != nil {
		t.Fatal(err)
	}
	if all, _, err := l.client.Backups(ctx); err != nil || len(all) != 1 || all[0].Complete {
		t.Errorf("%+v, %v", all, err)
	}
	for path, request := range map[string]any{
		api.PathVerifyBackup: api.VerifyBackup{Name: "one"}, api.PathRestoreBackup: api.RestoreBackup{Name: "one", To: "again"},
	} {
		if _, err := l.client.Post(ctx, path, request, true); !errors.Is(err, &api.Error{Code: api.CodeRefused}) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestABackupForWhichThereIsNoRoomIsNotCopied(t *testing.T) {
	const hole = 1 << 43
	l := startServer(t, filepath.Join(t.TempDir(), "data"))
	l.waitJobDone(l.client.Post(ctx, api.PathCreateBackup, api.CreateBackup{Name: "large"}, false))
	if most, err := node.MaxCopyBytes(l.admin.o.Backups, 1); err != nil || most >= hole {
		t.Skipf("there is room for %d bytes, %v", most, err)
	}
	if err := os.WriteFile(filepath.Join(l.admin.o.Backups, "large", "hole"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(l.admin.o.Backups, "large", "hole"), hole); err != nil {
		t.Skip(err)
	}
	_, verify := l.client.Post(ctx, api.PathVerifyBackup, api.VerifyBackup{Name: "large"}, false)
	_, restore := l.client.Post(ctx, api.PathRestoreBackup, api.RestoreBackup{Name: "large", To: "again"}, false)
	for _, err := range []error{verify, restore} {
		if !errors.Is(err, &api.Error{Code: api.CodeRefused}) || !strings.Contains(err.Error(), "room") {
			t.Errorf("it says %v", err)
		}
	}
	if entries, err := os.ReadDir(l.admin.o.Backups); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// What was planned is done later: meanwhile another may have restored under that name, or all
// backups may be gone.
func TestARestoreLeavesWhatAnotherHasMade(t *testing.T) {
	l := startServer(t, filepath.Join(t.TempDir(), "data"))
	l.writeKeys(20)
	l.waitJobDone(l.client.Post(ctx, api.PathCreateBackup, api.CreateBackup{Name: "one"}, false))
	var plans []*plannedChange
	for range 3 {
		c, err := l.admin.planRestoreBackup(ctx, nil, api.RestoreBackup{Name: "one", To: "again"})
		if err != nil {
			t.Fatal(err)
		}
		plans = append(plans, c)
	}
	do := func(c *plannedChange, want string) {
		t.Helper()
		j, err := c.apply(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if end, err := l.client.WaitJob(ctx, j.ID, 5*time.Millisecond, nil); err != nil || end.State != want {
			t.Errorf("%+v, %v", end, err)
		}
	}
	do(plans[0], api.JobDone)
	do(plans[1], api.JobFailed)
	if _, err := os.Stat(filepath.Join(l.admin.o.Backups, restoredDir, "again", storesFile)); err != nil {
		t.Errorf("what the first has restored: %v", err)
	}
	if err := os.RemoveAll(l.admin.o.Backups); err != nil {
		t.Fatal(err)
	}
	do(plans[2], api.JobFailed)
}

func TestTasksAreCancelledAndEndWithTheServer(t *testing.T) {
	var ts serverJobs
	ts.init(time.Now, slog.New(slog.DiscardHandler))
	begun := make(chan struct{})
	wait := func(ctx context.Context, phase func(string)) (string, int64, error) {
		phase("waiting")
		begun <- struct{}{}
		<-ctx.Done()
		return "", 0, ctx.Err()
	}
	job, err := ts.start("backup", nil, wait)
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	if _, err := ts.start("verify", nil, wait); !errors.Is(err, &api.Error{Code: api.CodeBusy}) {
		t.Errorf("a second one: %v", err)
	}
	ts.cancelJob(job.ID)
	ts.wg.Wait()
	if j, ok := ts.findJob(job.ID); !ok || j.State != api.JobUndone || j.Ended == nil {
		t.Errorf("%+v", j)
	}
	if job, err = ts.start("verify", nil, wait); err != nil {
		t.Fatal(err)
	}
	<-begun
	ts.close()
	if j, _ := ts.findJob(job.ID); j.State != api.JobUndone {
		t.Errorf("%+v", j)
	}
	if _, err := ts.start("verify", nil, wait); !errors.Is(err, &api.Error{Code: api.CodeUnavailable}) {
		t.Errorf("after the end: %v", err)
	}
}
