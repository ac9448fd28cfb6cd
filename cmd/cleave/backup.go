package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/output"
)

func backupCommand() *cobra.Command {
	cmd := nounCommand("backup", "Copy the store while it works; list, verify and restore copies")
	cmd.AddCommand(backupCreateCommand(), backupListCommand(),
		backupVerifyCommand(), backupRestoreCommand())
	return cmd
}

func backupCreateCommand() *cobra.Command {
	return acting{
		use: "create [NAME]", short: "Copy the store into the server's directory of backups", args: atMostOne("NAME"), harmless: true,
		long: `Copy the store into the server's directory of backups.

The copy is of one moment, whatever is written meanwhile. Its name is the time
unless it is given one. Copy it to another disk to survive this one.`,
		do: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (api.Action, error) {
			var request api.CreateBackup
			if len(args) > 0 {
				request.Name = args[0]
			}
			return c.Act(ctx, api.PathCreateBackup, request, dryRun)
		},
	}.command(nil)
}

func backupListCommand() *cobra.Command {
	return listing[api.Backup]{
		use: "list", short: "List the backups, the oldest first",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]api.Backup, string, error) {
			return c.Backups(ctx)
		},
		columns: backupColumns, none: "no backups: cleave backup create makes one",
	}.command(nil)
}

var backupColumns = []output.Column[api.Backup]{
	{Head: "backup", Cell: func(b api.Backup) string { return b.Name }},
	{Head: "created", Cell: func(b api.Backup) string { return b.Created.Local().Format(timeForm) }},
	{Head: "bytes", Right: true, Cell: func(b api.Backup) string { return output.Bytes(b.Bytes) }},
	{Head: "files", Right: true, Cell: func(b api.Backup) string { return output.Count(b.Files) }},
	{Head: "", Cell: func(b api.Backup) string {
		switch {
		case !b.Complete:
			return "not complete"
		case b.Restored:
			return "restored, to be served"
		}
		return ""
	}},
}

func backupVerifyCommand() *cobra.Command {
	cmd := acting{
		use: "verify NAME", short: "Open a copy of a backup and read all of it", args: args("NAME"), harmless: true,
		do: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (api.Action, error) {
			return c.Act(ctx, api.PathVerifyBackup, api.VerifyBackup{Name: args[0]}, dryRun)
		},
	}.command(nil)
	cmd.ValidArgsFunction = completeOne(completeBackups)
	return cmd
}

func backupRestoreCommand() *cobra.Command {
	var to string
	cmd := acting{
		use: "restore NAME --to NEW", short: "Make a directory of data from a backup, beside it", args: args("NAME"), harmless: true,
		long: `Make a directory of data from a backup, beside it.

The server goes on with its own. To serve the new one, start a server with
--data and the directory that is named when it is done. "cleave restore" does the
same where no server runs.`,
		do: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (api.Action, error) {
			if to == "" {
				return api.Action{}, usageError{fmt.Errorf("backup restore wants --to, the name of the new directory")}
			}
			return c.Act(ctx, api.PathRestoreBackup, api.RestoreBackup{Name: args[0], To: to}, dryRun)
		},
	}.command(func(cmd *cobra.Command) { cmd.Flags().StringVar(&to, "to", "", "`name` of the new directory") })
	cmd.ValidArgsFunction = completeOne(completeBackups)
	return cmd
}
