package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/output"
)

func auditCommand() *cobra.Command {
	return listing[api.Audit]{
		use: "audit", short: "Show who has changed what, the newest first",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]api.Audit, string, error) {
			rows, err := c.Audit(ctx)
			return rows, "", err
		},
		columns: auditColumns, none: "nothing was changed yet",
	}.command(nil)
}

var auditColumns = []output.Column[api.Audit]{
	{Head: "time", Cell: func(a api.Audit) string { return a.Time.Local().Format(timeForm) }},
	{Head: "who", Cell: func(a api.Audit) string {
		if a.Claims != "" {
			return a.Who + " (" + clip(a.Claims, 24) + ")"
		}
		return a.Who
	}},
	{Head: "action", Cell: func(a api.Audit) string { return a.Action }},
	{Head: "what", Cell: func(a api.Audit) string { return clip(a.What, 40) }},
	{Head: "outcome", Cell: func(a api.Audit) string {
		if a.Job != "" {
			return a.Outcome + ", job " + a.Job
		}
		return clip(strings.TrimSuffix(a.Outcome+": "+a.Detail, ": "), 40)
	}},
}

func slowlogCommand() *cobra.Command {
	return listing[api.Slow]{
		use: "slowlog", short: "Show requests of Redis clients that took long, the newest first",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]api.Slow, string, error) {
			rows, err := c.Slowlog(ctx)
			return rows, "", err
		},
		columns: slowColumns, none: "no request took long",
	}.command(nil)
}

var slowColumns = []output.Column[api.Slow]{
	{Head: "time", Cell: func(s api.Slow) string { return s.Time.Local().Format(timeForm) }},
	{Head: "took", Right: true, Cell: func(s api.Slow) string { return output.Seconds(s.Seconds) }},
	{Head: "command", Cell: func(s api.Slow) string { return s.Command }},
	{Head: "keys", Cell: func(s api.Slow) string {
		var keys []string
		for _, k := range s.Keys {
			keys = append(keys, shortKey(k))
		}
		return clip(strings.Join(keys, " "), 40)
	}},
	{Head: "shard", Right: true, Cell: func(s api.Slow) string { return orNone(s.Shard) }},
	{Head: "group", Right: true, Cell: func(s api.Slow) string { return orNone(s.Group) }},
	{Head: "client", Cell: func(s api.Slow) string { return strings.TrimSpace(s.Client + " " + s.Name) }},
}

func clientCommand() *cobra.Command {
	cmd := nounCommand("client", "List the connections of Redis clients")
	cmd.AddCommand(listing[api.Connection]{
		use: "list", short: "List the connections of Redis clients",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]api.Connection, string, error) {
			rows, err := c.Clients(ctx)
			return rows, "", err
		},
		columns: clientColumns, none: "no clients",
	}.command(nil))
	return cmd
}

var clientColumns = []output.Column[api.Connection]{
	{Head: "id", Right: true, Cell: func(c api.Connection) string { return fmt.Sprint(c.ID) }},
	{Head: "addr", Cell: func(c api.Connection) string { return c.Addr }},
	{Head: "name", Cell: func(c api.Connection) string { return orDash(clip(c.Name, 20)) }},
	{Head: "user", Cell: func(c api.Connection) string { return c.User }},
	{Head: "keyspace", Cell: func(c api.Connection) string { return c.Keyspace }},
	{Head: "library", Cell: func(c api.Connection) string {
		return orDash(clip(strings.TrimSpace(c.Library+" "+c.LibraryVersion), 24))
	}},
	{Head: "age", Right: true, Cell: func(c api.Connection) string { return output.Seconds(c.AgeSeconds) }},
	{Head: "idle", Right: true, Cell: func(c api.Connection) string { return output.Seconds(c.IdleSeconds) }},
	{Head: "last", Cell: func(c api.Connection) string { return orDash(c.Command) }},
}
