package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
	"github.com/cleavekv/cleave/internal/ops/terminal"
)

func newBackupCommand() *cobra.Command {
	cmd := newNounCommand("backup", "Copy the store while it works; list, verify, restore and delete copies")
	cmd.AddCommand(newBackupCreateCommand(), newBackupListCommand(),
		newBackupVerifyCommand(), newBackupRestoreCommand(), newBackupDeleteCommand())
	return cmd
}

func newBackupCreateCommand() *cobra.Command {
	return actionCommand{
		use: "create [NAME]", short: "Copy the store into the server's directory of backups", args: atMostOneArg("NAME"), harmless: true,
		long: `Copy the store into the server's directory of backups.

The copy is of one moment, whatever is written meanwhile. Its name is the time
unless it is given one. Copy it to another disk to survive this one.`,
		send: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (api.Action, error) {
			var request api.CreateBackup
			if len(args) > 0 {
				request.Name = args[0]
			}
			return c.Post(ctx, api.PathCreateBackup, request, dryRun)
		},
	}.toCobra(nil)
}

func newBackupListCommand() *cobra.Command {
	return listCommand[api.Backup]{
		use: "list", short: "List the backups, the oldest first",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]api.Backup, string, error) {
			return c.Backups(ctx)
		},
		columns: backupColumns, emptyText: "no backups: cleave backup create makes one",
	}.toCobra(nil)
}

var backupColumns = []output.Column[api.Backup]{
	{Head: "backup", Cell: func(b api.Backup) string { return b.Name }},
	{Head: "created", Cell: func(b api.Backup) string { return b.Created.Local().Format(timeLayout) }},
	{Head: "bytes", Right: true, Cell: func(b api.Backup) string { return output.Bytes(b.Bytes) }},
	{Head: "files", Right: true, Cell: func(b api.Backup) string { return output.Count(b.Files) }},
	{Head: "state", Cell: func(b api.Backup) string {
		switch {
		case b.Job != "":
			return "job " + b.Job + " is at work on it"
		case !b.Complete && b.Restored:
			return "restored, unfinished"
		case !b.Complete:
			return "unfinished"
		case b.Restored:
			return "restored, to be served"
		}
		return "whole"
	}},
}

func newBackupVerifyCommand() *cobra.Command {
	cmd := actionCommand{
		use: "verify NAME", short: "Open a copy of a backup and read all of it", args: exactArgs("NAME"), harmless: true,
		send: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (api.Action, error) {
			return c.Post(ctx, api.PathVerifyBackup, api.VerifyBackup{Name: args[0]}, dryRun)
		},
	}.toCobra(nil)
	cmd.ValidArgsFunction = completeFirstArg(completeBackups)
	return cmd
}

func newBackupRestoreCommand() *cobra.Command {
	var to string
	cmd := actionCommand{
		use: "restore NAME --to NEW", short: "Make a directory of data from a backup, beside it", args: exactArgs("NAME"), harmless: true,
		long: `Make a directory of data from a backup, beside it.

The server goes on with its own. To serve the new one, start a server with
--data and the directory that is named when it is done. "cleave restore" does the
same where no server runs.`,
		send: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (api.Action, error) {
			if to == "" {
				return api.Action{}, usageError{fmt.Errorf("backup restore wants --to, the name of the new directory")}
			}
			return c.Post(ctx, api.PathRestoreBackup, api.RestoreBackup{Name: args[0], To: to}, dryRun)
		},
	}.toCobra(func(cmd *cobra.Command) { cmd.Flags().StringVar(&to, "to", "", "`name` of the new directory") })
	cmd.ValidArgsFunction = completeFirstArg(completeBackups)
	return cmd
}

func newBackupDeleteCommand() *cobra.Command {
	var restored bool
	cmd := actionCommand{
		use: "delete NAME", short: "Remove a backup, whole or unfinished", args: exactArgs("NAME"),
		long: `Remove a backup, whole or unfinished.

A backup that was cut short, because the server ended meanwhile, is listed as
unfinished and stays until it is deleted. One that a job is at work on, or that
a server serves, is refused.`,
		example: "  cleave backup delete 2026-11-18T175728Z\n  cleave backup delete morning --restored",
		send: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (api.Action, error) {
			return c.DeleteBackup(ctx, args[0], restored, dryRun)
		},
	}.toCobra(func(cmd *cobra.Command) {
		cmd.Flags().BoolVar(&restored, "restored", false, "delete what was restored under that name, not the backup")
	})
	cmd.ValidArgsFunction = completeFirstArg(completeBackups)
	return cmd
}

func newRestoreCommand() *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "restore BACKUP --data DIR",
		Short: "Make a directory of data from a backup, where no server runs",
		Long: `Make a directory of data from a backup, where no server runs.

BACKUP is the directory of a backup, as a server or package cleave has made it.
DIR must not exist, or be empty. The copy is opened before the command ends, so
what can be served is told from what cannot; if it cannot, it is removed.`,
		Example: "  cleave restore /backups/20261127-081500 --data /var/lib/cleave\n  cleave serve --data /var/lib/cleave",
		Args:    exactArgs("BACKUP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if data == "" {
				return usageError{errors.New("restore wants --data, the directory to make")}
			}
			ctx, stop := signalContext(cmd)
			defer stop()
			bytes, err := restoreBackup(ctx, args[0], data, newTerminal(cmd))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "restored %s into %s: cleave serve --data %s\n", output.Bytes(bytes), data, data)
			return err
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "`directory` to make")
	completeMissingFlags(cmd, map[string]cobra.CompletionFunc{"data": completeDirs})
	cmd.ValidArgsFunction = completeDirs
	return cmd
}

// restoreBackup copies a backup into a directory beside the one that is wanted, opens it there
// to see that it can be served, and gives it its name.
func restoreBackup(ctx context.Context, from, to string, t *terminal.Terminal) (bytes int64, err error) {
	if from, err = resolvePath(from); err != nil {
		return 0, usageError{fmt.Errorf("backup: %w", err)}
	}
	if to, err = resolvePath(to); err != nil { // a link to a directory stays, and the directory is made
		return 0, usageError{fmt.Errorf("--data: %w", err)}
	}
	stores, err := checkRestore(from, to)
	if err != nil {
		return 0, err
	}
	all, err := sumFileBytes(from)
	if err != nil {
		return 0, err
	}
	most, err := node.MaxCopyBytes(filepath.Dir(to), stores)
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
	if err := node.SyncTree(half); err != nil {
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

// resolvePath is a path from the root, without links. What it names need not be there, but what that
// is in.
func resolvePath(path string) (string, error) {
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

// checkRestore refuses what would do harm, and counts the stores of the backup. Both are real paths.
func checkRestore(from, to string) (stores int, err error) {
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
	if node.IsInUse(from) {
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
	if here, err := resolvePath("."); err == nil && here == to { // the new one would not be that which this runs in
		return 0, usageError{fmt.Errorf("--data %s is the directory that this runs in: run it in another one", to)}
	}
	return stores, nil
}

// sumFileBytes is the size of all files in a directory.
func sumFileBytes(dir string) (all int64, err error) {
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
// them if ctx ends.
func copyTree(ctx context.Context, from, to string, all int64, t *terminal.Terminal) (done int64, err error) {
	line := t.NewProgress()
	defer line.End(false)
	err = filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return exitError{exitInterrupted, errors.New("interrupted: nothing is restored")}
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
