package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/output"
	"github.com/cleavekv/cleave/internal/terminal"
)

func restoreCommand() *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "restore BACKUP --data DIR",
		Short: "Make a directory of data from a backup, where no server runs",
		Long: `Make a directory of data from a backup, where no server runs.

BACKUP is the directory of a backup, as a server or package cleave has made it.
DIR must not exist, or be empty. The copy is opened before the command ends, so
what can be served is told from what cannot; if it cannot, it is removed.`,
		Example: "  cleave restore /backups/20261127-081500 --data /var/lib/cleave\n  cleave serve --data /var/lib/cleave",
		Args:    args("BACKUP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if data == "" {
				return usageError{errors.New("restore wants --data, the directory to make")}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			bytes, err := restore(ctx, args[0], data, person(cmd))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "restored %s into %s: cleave serve --data %s\n", output.Bytes(bytes), data, data)
			return err
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "`directory` to make")
	completeMore(cmd, map[string]cobra.CompletionFunc{"data": directoryCompletion})
	cmd.ValidArgsFunction = directoryCompletion
	return cmd
}

// restore copies a backup into a directory beside the one that is wanted, opens it there
// to see that it can be served, and gives it its name.
func restore(ctx context.Context, from, to string, t *terminal.Terminal) (bytes int64, err error) {
	if from, err = realPath(from); err != nil {
		return 0, usageError{fmt.Errorf("backup: %w", err)}
	}
	if to, err = realPath(to); err != nil { // a link to a directory stays, and the directory is made
		return 0, usageError{fmt.Errorf("--data: %w", err)}
	}
	stores, err := mayRestore(from, to)
	if err != nil {
		return 0, err
	}
	all, err := treeBytes(from)
	if err != nil {
		return 0, err
	}
	most, err := node.Room(filepath.Dir(to), stores)
	if err != nil {
		return 0, err
	}
	if all > most {
		return 0, fmt.Errorf("the copy has %s, and %s has room for %s: make room, or name a directory elsewhere", output.Bytes(all), filepath.Dir(to), output.Bytes(most))
	}
	half := to + ".restoring"
	if err := os.Mkdir(half, 0o700); err != nil {
		return 0, fmt.Errorf("%w: if it is left from a restore that was interrupted, remove it", err)
	}
	defer os.RemoveAll(half) // nothing is there when it has got its name
	if bytes, err = copyTree(ctx, from, half, all, t); err != nil {
		return 0, err
	}
	db, err := cleave.Open(half, cleave.Options{})
	if err != nil {
		return 0, fmt.Errorf("open what was copied from %s: %w", from, err)
	}
	if err := db.Close(); err != nil {
		return 0, err
	}
	if err := node.SyncDirs(half); err != nil {
		return 0, err
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if err := os.Rename(half, to); err != nil {
		return 0, err
	}
	if err := node.SyncDir(filepath.Dir(half)); err != nil {
		return 0, fmt.Errorf("%s is restored, but a power failure may take it away: %w", to, err)
	}
	return bytes, nil
}

// realPath is a path from the root, without links. What it names need not be there, but what that
// is in.
func realPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real, nil
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	return filepath.Join(dir, filepath.Base(path)), err
}

// mayRestore refuses what would do harm, and counts the stores of the backup. Both are real paths.
func mayRestore(from, to string) (stores int, err error) {
	entries, err := os.ReadDir(from)
	switch {
	case err != nil:
		return 0, usageError{fmt.Errorf("backup: %w", err)}
	case len(entries) == 0:
		return 0, usageError{fmt.Errorf("%s is empty: name the directory of a backup", from)}
	case !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "STORES" }):
		return 0, usageError{fmt.Errorf("%s is no backup: it has no file STORES: name the directory of a backup", from)}
	}
	if stores, err = node.CountStores(os.DirFS(from)); err != nil {
		return 0, usageError{fmt.Errorf("%s is not whole: %w: name another backup", from, err)}
	}
	locks, _ := filepath.Glob(filepath.Join(from, "*", "LOCK")) // the pattern is good
	if slices.ContainsFunc(locks, held) {
		return 0, usageError{fmt.Errorf("%s is in use: a copy of it would not be of one moment: make a backup with cleave backup create, and restore that", from)}
	}
	if info, err := os.Lstat(to); err == nil && info.Mode().Type() == fs.ModeSymlink {
		return 0, usageError{fmt.Errorf("--data %s is a link to what is not there: make that directory, or name another", to)}
	}
	entries, err = os.ReadDir(to)
	switch {
	case err == nil && len(entries) > 0:
		return 0, usageError{fmt.Errorf("--data %s is not empty: name a directory that is, or that does not exist", to)}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return 0, usageError{fmt.Errorf("--data: %w", err)}
	}
	if rel, err := filepath.Rel(from, to); err == nil && filepath.IsLocal(rel) {
		return 0, usageError{fmt.Errorf("--data %s is inside of the backup: name a directory elsewhere", to)}
	}
	if here, err := realPath("."); err == nil && here == to { // the new one would not be that which this runs in
		return 0, usageError{fmt.Errorf("--data %s is the directory that this runs in: run it in another one", to)}
	}
	return stores, nil
}

// treeBytes is the size of all files in a directory.
func treeBytes(dir string) (all int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				all += info.Size()
			}
		}
		return err
	})
	return all, err
}

// copyTree copies files, and shows how far it is on the way to all bytes. It ends between two of
// them if it is told to.
func copyTree(ctx context.Context, from, to string, all int64, t *terminal.Terminal) (done int64, err error) {
	line := t.Progress()
	defer line.End(false)
	err = filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return errors.New("interrupted: nothing is restored")
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		switch {
		case d.IsDir():
			return os.MkdirAll(target, 0o700)
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is neither a file nor a directory: it is not of a backup", path)
		}
		n, err := copyFile(path, target)
		done += n
		line.Show(float64(done)/float64(max(all, 1)), output.Bytes(done)+" of "+output.Bytes(all))
		return err
	})
	return done, err
}

// copyFile copies one file, and has it on disk when it returns.
func copyFile(from, to string) (n int64, err error) {
	in, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if n, err = io.Copy(out, in); err != nil {
		return n, err
	}
	return n, out.Sync()
}
