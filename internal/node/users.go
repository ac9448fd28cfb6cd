package node

import (
	"context"
	"fmt"
	"strings"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

// Users of the server are rows of the catalog: where the keyspaces are, out of the reach of
// clients, in every backup, and one truth for all nodes that will share a catalog. What
// their rules mean is not known here.

const userPrefix = "user/"

func userRow(name string) partition.Position {
	return system.AppendPosition(nil, []byte(userPrefix+name))
}

// KeepUser keeps the rules of a user, durably. Empty rules forget it.
func (n *Node) KeepUser(ctx context.Context, name, rules string) error {
	at := userRow(name)
	var c command.Command = &command.Set{Key: at, Value: []byte(rules)}
	if rules == "" {
		c = &command.Delete{Keys: []partition.Position{at}}
	}
	if err := n.enter(ctx, c); err != nil {
		return fmt.Errorf("keep user %q: %w", name, err)
	}
	return nil
}

// Users returns the rules of the users that are kept, by name.
func (n *Node) Users(ctx context.Context) (users map[string]string, err error) {
	users = map[string]string{}
	span := system.PrefixSpan([]byte(userPrefix))
	var bad error
	err = n.part(firstGroup).Store.Scan(effect.Rows.AppendKey(nil, span.Start), effect.Rows.AppendKey(nil, span.End), false, func(key, value []byte) bool {
		if bad = ctx.Err(); bad != nil {
			return false
		}
		name, _, err := system.Split(nil, key[1:])
		var row command.Row
		if err == nil {
			row, err = command.DecodeRow(value)
		}
		if bad = err; err == nil {
			users[strings.TrimPrefix(string(name), userPrefix)] = string(row.Payload)
		}
		return err == nil
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return nil, fmt.Errorf("read the users: %w", err)
	}
	return users, nil
}
