package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
)

// Backups have names, and lie in one directory that the server was started with: a client
// never says a path. Those that were restored lie in a directory below it.
const restoredDir = "restored"

// storesFile is the last file of a backup: without it, it was cut short.
const storesFile = "STORES"

var backupNamePattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$`)

// checkBackupName refuses what is no name of a backup.
func checkBackupName(name string) error {
	if !backupNamePattern.MatchString(name) || name == restoredDir {
		return newInvalidError("a backup cannot be called "+quoteName(name), "use 1 to 64 letters, digits, dots, dashes and underscores, and begin with none of dot and dash")
	}
	return nil
}

// quoteName is a name in an error: it may be anything.
func quoteName(name string) string { return fmt.Sprintf("%.100q", name) }

// backupsDisabledReason is why there is no directory for backups, or "".
func (a *Admin) backupsDisabledReason() (why, hint string) {
	switch {
	case a.o.Data == "":
		return "the store is in memory: it has no files to copy", "scan it instead, or serve one on disk"
	case a.o.Backups == "":
		return "the server was given no directory for backups", "start it with --backup-dir"
	}
	return "", ""
}

// openBackupDir opens the directory of backups, and makes it if it is to be written to. It is nil
// if there is none.
func (a *Admin) openBackupDir(write bool) (*os.Root, error) {
	if why, hint := a.backupsDisabledReason(); why != "" {
		return nil, newRefusedError(why, hint)
	}
	if write {
		if err := node.MakeDir(a.o.Backups); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(a.o.Backups)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return root, err
}

// checkNameFree refuses a name in the directory of backups that something has.
func (a *Admin) checkNameFree(path, what string) error {
	root, err := a.openBackupDir(false)
	if err != nil || root == nil {
		return err
	}
	defer root.Close()
	if _, err := root.Lstat(path); err == nil {
		return &api.Error{Status: 409, Code: api.CodeExists, Message: "there is " + what, Hint: "choose another name"}
	}
	return nil
}

func (a *Admin) listBackups(_ context.Context, q *query) (api.Page[api.Backup], error) {
	all := []api.Backup{}
	note, hint := a.backupsDisabledReason()
	if note != "" {
		note += ": " + hint
	} else if root, err := a.openBackupDir(false); err != nil {
		return api.Page[api.Backup]{}, err
	} else if root != nil {
		defer root.Close()
		for _, dir := range []string{".", restoredDir} {
			if all, err = appendBackups(root, dir, all); err != nil {
				return api.Page[api.Backup]{}, err
			}
		}
	}
	for i := range all {
		all[i].Job = a.serverJobs.findJobUsing(backupDirName(all[i].Name, all[i].Restored))
	}
	slices.SortStableFunc(all, func(x, y api.Backup) int { return x.Created.Compare(y.Created) })
	p, err := cutPage(q, all, byIndex[api.Backup], false)
	p.Note = note
	return p, err
}

// appendBackups adds what lies in a directory.
func appendBackups(root *os.Root, dir string, all []api.Backup) ([]api.Backup, error) {
	entries, err := fs.ReadDir(root.FS(), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() || checkBackupName(e.Name()) != nil {
			continue
		}
		b, err := statBackup(root, dir, e.Name())
		if err != nil {
			continue // it is being removed
		}
		all = append(all, b)
	}
	return all, nil
}

func statBackup(root *os.Root, dir, name string) (api.Backup, error) {
	b := api.Backup{Name: name, Restored: dir == restoredDir}
	at := filepath.ToSlash(filepath.Join(dir, name))
	info, err := fs.Stat(root.FS(), at)
	if err != nil {
		return b, err
	}
	b.Created = info.ModTime().UTC()
	err = fs.WalkDir(root.FS(), at, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		b.Files, b.Bytes = b.Files+1, b.Bytes+info.Size()
		return nil
	})
	if err != nil {
		return b, err
	}
	all, err := fs.Sub(root.FS(), at)
	if err != nil {
		return b, err
	}
	stores, missing := node.CountStores(all)
	b.Stores, b.Complete = stores, missing == nil
	return b, nil
}

func (a *Admin) planCreateBackup(_ context.Context, _ *query, r api.CreateBackup) (*plannedChange, error) {
	name := r.Name
	if name == "" {
		name = a.o.Now().UTC().Format("2006-01-02T150405Z")
	}
	if err := checkBackupName(name); err != nil {
		return nil, err
	}
	if err := a.checkNameFree(name, "a backup "+name); err != nil {
		return nil, err
	}
	return &plannedChange{
		plan: api.Plan{
			Summary: "back up the store as " + name,
			Steps: []string{
				"All that was committed up to one moment is copied while clients go on. Jobs stand still meanwhile.",
				"Its files are links to those of the store where the file system can: copy them elsewhere to survive the disk.",
			},
		},
		apply: func(context.Context) (*api.Job, error) {
			return a.serverJobs.start("backup", []string{name}, func(ctx context.Context, phase func(string)) (string, int64, error) {
				return a.runBackup(ctx, name, phase)
			})
		},
	}, nil
}

// runBackup makes a backup. One that does not come to its end is removed.
func (a *Admin) runBackup(ctx context.Context, name string, phase func(string)) (string, int64, error) {
	phase("copying")
	root, err := a.openBackupDir(true)
	if err != nil {
		return "", 0, err
	}
	defer root.Close()
	if err := a.o.DB.Backup(ctx, filepath.Join(a.o.Backups, name)); err != nil {
		// What a store cannot remove of it is not taken for a backup: it lacks its last file.
		_ = root.Remove(name)
		return "", 0, err
	}
	b, err := statBackup(root, ".", name)
	if err != nil {
		return "", 0, err
	}
	return fmt.Sprintf("backup %s has %s with %s", name, output.Plural(b.Files, "file"), output.Plural(b.Bytes, "byte")), b.Bytes, nil
}

// findReadableBackup checks that there is a backup that can be read, and room for a copy.
func (a *Admin) findReadableBackup(name string) (api.Backup, error) {
	if err := checkBackupName(name); err != nil {
		return api.Backup{}, err
	}
	none := notFoundError("there is no backup "+name, "list the backups")
	root, err := a.openBackupDir(false)
	if err != nil {
		return api.Backup{}, err
	}
	if root == nil {
		return api.Backup{}, none
	}
	defer root.Close()
	if info, err := root.Lstat(name); err != nil || !info.IsDir() {
		return api.Backup{}, none
	}
	b, err := statBackup(root, ".", name)
	if err == nil && !b.Complete {
		err = newRefusedError("backup "+name+" was cut short, or has lost a store", "make another one, and delete this with cleave backup delete "+name)
	}
	if err != nil {
		return b, err
	}
	return b, a.checkFreeSpace(b)
}

// checkFreeSpace refuses a copy that would take the disk from the store that is served.
func (a *Admin) checkFreeSpace(b api.Backup) error {
	most, err := node.MaxCopyBytes(a.o.Backups, b.Stores)
	if err == nil && b.Bytes > most {
		err = newRefusedError(fmt.Sprintf("a copy of backup %s has %s, and there is room for %s", b.Name, output.Bytes(b.Bytes), output.Bytes(most)),
			"make room, or copy the backup to another disk and open it there with cleave restore")
	}
	return err
}

func (a *Admin) planVerifyBackup(_ context.Context, _ *query, r api.VerifyBackup) (*plannedChange, error) {
	b, err := a.findReadableBackup(r.Name)
	if err != nil {
		return nil, err
	}
	return &plannedChange{
		plan: api.Plan{
			Summary: "verify backup " + r.Name,
			Steps:   []string{output.Bytes(b.Bytes) + " are copied, opened as a store, read to the end, and removed. The backup stays as it is."},
		},
		apply: func(context.Context) (*api.Job, error) {
			return a.serverJobs.start("verify", []string{r.Name}, func(ctx context.Context, phase func(string)) (string, int64, error) {
				return a.copyAndVerify(ctx, r.Name, ".verify-"+r.Name, false, phase)
			})
		},
	}, nil
}

func (a *Admin) planRestoreBackup(_ context.Context, _ *query, r api.RestoreBackup) (*plannedChange, error) {
	b, err := a.findReadableBackup(r.Name)
	if err != nil {
		return nil, err
	}
	if err := checkBackupName(r.To); err != nil {
		return nil, err
	}
	to := filepath.Join(restoredDir, r.To)
	if err := a.checkNameFree(to, "something restored as "+r.To); err != nil {
		return nil, err
	}
	return &plannedChange{
		plan: api.Plan{
			Summary: "restore backup " + r.Name + " as " + r.To,
			Steps: []string{
				output.Bytes(b.Bytes) + " are copied to a new directory beside the backups, opened as a store, and read to the end.",
				"The running store stays as it is: serve the new directory with cleave serve --data " + filepath.Join(a.o.Backups, to),
			},
		},
		apply: func(context.Context) (*api.Job, error) {
			return a.serverJobs.start("restore", []string{r.Name, to}, func(ctx context.Context, phase func(string)) (string, int64, error) {
				result, n, err := a.copyAndVerify(ctx, r.Name, to, true, phase)
				return strings.TrimSuffix(result, ".") + "; serve it with cleave serve --data " + filepath.Join(a.o.Backups, to), n, err
			})
		},
	}, nil
}

// backupDirName is the directory of a backup, or of what was restored, below that of all backups.
func backupDirName(name string, restored bool) string {
	if restored {
		return filepath.Join(restoredDir, name)
	}
	return name
}

// planDeleteBackup plans to remove a backup, whole or not. One that was cut short when the server ended
// takes room on the disk, and nothing else removes it.
func (a *Admin) planDeleteBackup(_ context.Context, q *query) (*plannedChange, error) {
	name := q.getString(api.QueryName)
	restored, err := q.getBool(api.QueryRestored)
	if err != nil {
		return nil, err
	}
	if name == "" {
		return nil, newInvalidError("no backup is named", "give its name: ?name=NAME")
	}
	if err := checkBackupName(name); err != nil {
		return nil, err
	}
	// One that is under way may be the one that makes it, or reads it.
	if err := a.serverJobs.checkIdle(); err != nil {
		return nil, err
	}
	b, err := a.findDeletableBackup(name, restored)
	if err != nil {
		return nil, err
	}
	what := "backup " + name
	if restored {
		what = "what was restored as " + name
	}
	if !b.Complete {
		what += ", which is unfinished"
	}
	return &plannedChange{
		plan: api.Plan{
			Summary: "delete " + what,
			Steps: []string{fmt.Sprintf("%s of %s are removed. Those that are links to files of the store, or of another backup, free no room before these are gone, too.",
				output.Plural(b.Files, "file"), output.Bytes(b.Bytes))},
			Irreversible: true,
		},
		apply: func(context.Context) (*api.Job, error) {
			dir := backupDirName(name, restored)
			return a.serverJobs.start("delete", []string{dir}, func(_ context.Context, phase func(string)) (string, int64, error) {
				phase("deleting")
				// Another may have begun to serve it since it was planned.
				b, err := a.findDeletableBackup(name, restored)
				if err != nil {
					return "", 0, err
				}
				if err := a.removeBackup(dir); err != nil {
					return "", 0, err
				}
				return fmt.Sprintf("%s with %s are deleted", output.Plural(b.Files, "file"), output.Plural(b.Bytes, "byte")), b.Bytes, nil
			})
		},
	}, nil
}

// findDeletableBackup finds a backup, and refuses to delete one that is in use.
func (a *Admin) findDeletableBackup(name string, restored bool) (b api.Backup, err error) {
	dir := backupDirName(name, restored)
	none := notFoundError("there is no backup "+name, "cleave backup list shows those there are")
	if restored {
		none = notFoundError("nothing was restored as "+name, "cleave backup list shows what there is")
	}
	root, err := a.openBackupDir(false)
	if err != nil {
		return b, err
	}
	if root == nil {
		return b, none
	}
	defer root.Close()
	if info, err := root.Lstat(dir); err != nil || !info.IsDir() {
		return b, none
	}
	parent := "."
	if restored {
		parent = restoredDir
	}
	if b, err = statBackup(root, parent, name); err != nil {
		return b, err
	}
	full := filepath.Join(a.o.Backups, dir)
	if isWithin(a.o.Data, full) || node.IsInUse(full) {
		return b, newRefusedError(full+" is in use: a server serves it", "end that server first")
	}
	return b, nil
}

// isWithin reports whether a path is a directory or below it, whatever links lead there.
func isWithin(path, dir string) bool {
	path, err1 := filepath.EvalSymlinks(path)
	dir, err2 := filepath.EvalSymlinks(dir)
	if err1 != nil || err2 != nil {
		return false
	}
	path, err1 = filepath.Abs(path)
	dir, err2 = filepath.Abs(dir)
	rel, err := filepath.Rel(dir, path)
	return err1 == nil && err2 == nil && err == nil && filepath.IsLocal(rel)
}

// removeBackup deletes a directory below that of backups. Its list of stores goes first, so that what a
// crash leaves of it is not taken for a backup.
func (a *Admin) removeBackup(dir string) error {
	root, err := os.OpenRoot(a.o.Backups)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Remove(filepath.Join(dir, storesFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := node.SyncDir(filepath.Join(a.o.Backups, dir)); err != nil {
		return err
	}
	if err := root.RemoveAll(dir); err != nil {
		return err
	}
	return node.SyncDir(filepath.Dir(filepath.Join(a.o.Backups, dir)))
}
