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

	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/output"
)

// Backups have names, and lie in one directory that the server was started with: a client
// never says a path. Those that were restored lie in a directory below it.
const restoredDir = "restored"

// storesFile is the last file of a backup: without it, it was cut short.
const storesFile = "STORES"

var backupName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$`)

// checkName refuses what is no name of a backup.
func checkName(name string) error {
	if !backupName.MatchString(name) || name == restoredDir {
		return invalid("a backup cannot be called "+shown(name), "use 1 to 64 letters, digits, dots, dashes and underscores, and begin with none of dot and dash")
	}
	return nil
}

// shown is a name in an error: it may be anything.
func shown(name string) string { return fmt.Sprintf("%.100q", name) }

// noPlaceForBackups is why there is no directory for backups, or "".
func (a *Admin) noPlaceForBackups() (why, hint string) {
	switch {
	case a.o.Data == "":
		return "the store is in memory: it has no files to copy", "scan it instead, or serve one on disk"
	case a.o.Backups == "":
		return "the server was given no directory for backups", "start it with --backup-dir"
	}
	return "", ""
}

// place opens the directory of backups, and makes it if it is to be written to. It is nil
// if there is none.
func (a *Admin) place(write bool) (*os.Root, error) {
	if why, hint := a.noPlaceForBackups(); why != "" {
		return nil, refused(why, hint)
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

// taken refuses a name in the directory of backups that something has.
func (a *Admin) taken(path, what string) error {
	root, err := a.place(false)
	if err != nil || root == nil {
		return err
	}
	defer root.Close()
	if _, err := root.Lstat(path); err == nil {
		return &api.Error{Status: 409, Code: api.CodeExists, Message: "there is " + what, Hint: "choose another name"}
	}
	return nil
}

func (a *Admin) backups(_ context.Context, q *query) (api.Page[api.Backup], error) {
	all := []api.Backup{}
	note, hint := a.noPlaceForBackups()
	if note != "" {
		note += ": " + hint
	} else if root, err := a.place(false); err != nil {
		return api.Page[api.Backup]{}, err
	} else if root != nil {
		defer root.Close()
		for _, dir := range []string{".", restoredDir} {
			if all, err = listBackups(root, dir, all); err != nil {
				return api.Page[api.Backup]{}, err
			}
		}
	}
	slices.SortStableFunc(all, func(x, y api.Backup) int { return x.Created.Compare(y.Created) })
	p, err := page(q, all, inOrder[api.Backup], false)
	p.Note = note
	return p, err
}

// listBackups adds what lies in a directory.
func listBackups(root *os.Root, dir string, all []api.Backup) ([]api.Backup, error) {
	entries, err := fs.ReadDir(root.FS(), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() || checkName(e.Name()) != nil {
			continue
		}
		b, err := backupAt(root, dir, e.Name())
		if err != nil {
			continue // it is being removed
		}
		all = append(all, b)
	}
	return all, nil
}

func backupAt(root *os.Root, dir, name string) (api.Backup, error) {
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

func (a *Admin) createBackup(_ context.Context, _ *query, r api.CreateBackup) (*change, error) {
	name := r.Name
	if name == "" {
		name = a.o.Now().UTC().Format("2006-01-02T150405Z")
	}
	if err := checkName(name); err != nil {
		return nil, err
	}
	if err := a.taken(name, "a backup "+name); err != nil {
		return nil, err
	}
	return &change{
		plan: api.Plan{
			Summary: "back up the store as " + name,
			Steps: []string{
				"All that was committed up to one moment is copied while clients go on. Jobs stand still meanwhile.",
				"Its files are links to those of the store where the file system can: copy them elsewhere to survive the disk.",
			},
		},
		do: func(context.Context) (*api.Job, error) {
			return a.tasks.start("backup", func(ctx context.Context, phase func(string)) (string, int64, error) {
				return a.backUp(ctx, name, phase)
			})
		},
	}, nil
}

// backUp makes a backup. One that does not come to its end is removed.
func (a *Admin) backUp(ctx context.Context, name string, phase func(string)) (string, int64, error) {
	phase("copying")
	root, err := a.place(true)
	if err != nil {
		return "", 0, err
	}
	defer root.Close()
	if err := a.o.DB.Backup(ctx, filepath.Join(a.o.Backups, name)); err != nil {
		// What a store cannot remove of it is not taken for a backup: it lacks its last file.
		_ = root.Remove(name)
		return "", 0, err
	}
	b, err := backupAt(root, ".", name)
	if err != nil {
		return "", 0, err
	}
	return fmt.Sprintf("backup %s has %s with %s", name, output.Counted(b.Files, "file"), output.Counted(b.Bytes, "byte")), b.Bytes, nil
}

// source checks that there is a backup that can be read, and room for a copy.
func (a *Admin) source(name string) (api.Backup, error) {
	if err := checkName(name); err != nil {
		return api.Backup{}, err
	}
	none := missing("there is no backup "+name, "list the backups")
	root, err := a.place(false)
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
	b, err := backupAt(root, ".", name)
	if err == nil && !b.Complete {
		err = refused("backup "+name+" was cut short, or has lost a store", "make another one")
	}
	if err != nil {
		return b, err
	}
	return b, a.room(b)
}

// room refuses a copy that would take the disk from the store that is served.
func (a *Admin) room(b api.Backup) error {
	most, err := node.Room(a.o.Backups, b.Stores)
	if err == nil && b.Bytes > most {
		err = refused(fmt.Sprintf("a copy of backup %s has %s, and there is room for %s", b.Name, output.Bytes(b.Bytes), output.Bytes(most)),
			"make room, or copy the backup to another disk and open it there with cleave restore")
	}
	return err
}

func (a *Admin) verifyBackup(_ context.Context, _ *query, r api.VerifyBackup) (*change, error) {
	b, err := a.source(r.Name)
	if err != nil {
		return nil, err
	}
	return &change{
		plan: api.Plan{
			Summary: "verify backup " + r.Name,
			Steps:   []string{output.Bytes(b.Bytes) + " are copied, opened as a store, read to the end, and removed. The backup stays as it is."},
		},
		do: func(context.Context) (*api.Job, error) {
			return a.tasks.start("verify", func(ctx context.Context, phase func(string)) (string, int64, error) {
				return a.reopen(ctx, r.Name, ".verify-"+r.Name, false, phase)
			})
		},
	}, nil
}

func (a *Admin) restoreBackup(_ context.Context, _ *query, r api.RestoreBackup) (*change, error) {
	b, err := a.source(r.Name)
	if err != nil {
		return nil, err
	}
	if err := checkName(r.To); err != nil {
		return nil, err
	}
	to := filepath.Join(restoredDir, r.To)
	if err := a.taken(to, "something restored as "+r.To); err != nil {
		return nil, err
	}
	return &change{
		plan: api.Plan{
			Summary: "restore backup " + r.Name + " as " + r.To,
			Steps: []string{
				output.Bytes(b.Bytes) + " are copied to a new directory beside the backups, opened as a store, and read to the end.",
				"The running store stays as it is: serve the new directory with cleave serve --data " + filepath.Join(a.o.Backups, to),
			},
		},
		do: func(context.Context) (*api.Job, error) {
			return a.tasks.start("restore", func(ctx context.Context, phase func(string)) (string, int64, error) {
				result, n, err := a.reopen(ctx, r.Name, to, true, phase)
				return strings.TrimSuffix(result, ".") + "; serve it with cleave serve --data " + filepath.Join(a.o.Backups, to), n, err
			})
		},
	}, nil
}
